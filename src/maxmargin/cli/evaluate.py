"""Tell how well MODEL predicts the labels that DATA has.

Accuracy; precision, recall and F1 of each class; and for two classes the area under the ROC curve: the share of pairs,
one row of each class, that the decision values put in the right order.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import (
    DONE,
    accuracy_line,
    announced_compilation,
    errors_of,
    label_value,
    print_facts,
    print_json,
    print_table,
)
from maxmargin.cli._files import check_roles, data_name, read_data_for, read_model, read_store_for

if TYPE_CHECKING:
    import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("data", metavar="DATA", help="svmlight text or .csv, maybe compressed, - for stdin; or a store")
    parser.add_argument("model", metavar="MODEL", help="what train has written")
    options.add_data_options(parser)
    options.add_memory_option(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict and compare."""
    with announced_compilation(quiet=False):
        check_roles(arguments.data, arguments.model)
        model = read_model(arguments.model)
        store = read_store_for(model, arguments.data, arguments)
        chunks = [read_data_for(model, arguments.data, arguments)] if store is None else store
        y, predicted, scores = _outcome(model, chunks, data_name(arguments.data))
    if scores is None:
        return _tell_errors(y, predicted, arguments)
    report = {
        "data": data_name(arguments.data),
        "model": arguments.model,
        "accuracy": float((predicted == y).mean()),
        "correct": int((predicted == y).sum()),
        "rows": len(y),
        "roc_auc": roc_auc(y == model.classes_[1], scores) if scores.ndim == 1 else None,
        "classes": by_class(y, predicted),
    }
    if arguments.json:
        print_json(report)
    else:
        _print(report)
    return DONE


def _outcome(model: Any, chunks: Iterable[Any], name: str) -> tuple[Any, Any, Any]:
    """What is true, what is predicted and, by a classifier, the decision values."""
    import numpy as np

    truth, predicted, scores = [], [], []
    for X, y, *_ in chunks:
        if y is None:
            raise ValueError(f"{name}: has no labels to compare with; predict needs none")
        truth.append(y)
        predicted.append(model.predict(X))
        if hasattr(model, "classes_"):
            scores.append(model.decision_function(X))
    return np.concatenate(truth), np.concatenate(predicted), np.concatenate(scores) if scores else None


def _tell_errors(y: np.ndarray, predicted: np.ndarray, arguments: argparse.Namespace) -> int:
    """Of a regression."""
    errors = errors_of(y, predicted)
    if arguments.json:
        print_json({"data": data_name(arguments.data), "model": arguments.model, "rows": len(y), **errors})
    else:
        print_facts({name.replace("_", " "): f"{value:.6g}" for name, value in errors.items()})
    return DONE


def by_class(y: np.ndarray, predicted: np.ndarray) -> list[dict[str, Any]]:
    """Precision, recall and F1 of every class that is there or is predicted; 0 where they are 0/0."""
    import numpy as np

    table = []
    for label in np.union1d(y, predicted):
        n_true, n_predicted = int((y == label).sum()), int((predicted == label).sum())
        n_both = int(((y == label) & (predicted == label)).sum())
        table.append(
            {
                "label": label_value(label),
                "rows": n_true,
                "predicted": n_predicted,
                "precision": n_both / n_predicted if n_predicted else 0.0,
                "recall": n_both / n_true if n_true else 0.0,
                "f1": 2.0 * n_both / max(1, n_true + n_predicted),
            }
        )
    return table


def roc_auc(positive: np.ndarray, scores: np.ndarray) -> float | None:
    """Mann and Whitney's statistic, ties counted half; None if one of the classes is absent."""
    import numpy as np

    n_positive = int(positive.sum())
    n_pairs = n_positive * (len(positive) - n_positive)
    if not n_pairs:
        return None
    _, rank_of, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2.0
    return float((mean_ranks[rank_of][positive].sum() - n_positive * (n_positive + 1) / 2.0) / n_pairs)


def _print(report: dict[str, Any]) -> None:
    print(accuracy_line(report["correct"], report["rows"]))
    if report["roc_auc"] is not None:
        print(f"ROC AUC = {report['roc_auc']:.6g}")
    shares = "precision", "recall", "f1"
    rows = [
        [str(each["label"]), *(f"{each[share]:.4f}" for share in shares), f"{each['rows']:,}", f"{each['predicted']:,}"]
        for each in report["classes"]
    ]
    print()
    print_table(["class", *shares, "rows", "predicted"], rows)
