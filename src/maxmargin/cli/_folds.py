"""Cross validation: several folds at a time, all of them on the same rows in memory."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from maxmargin.cli._console import DONE, INTERRUPTED, complain, label_text, print_json, told_warnings, working
from maxmargin.cli._report import describe
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.solvers.base import catch_interrupt

if TYPE_CHECKING:
    from maxmargin import LinearSVC


def cross_validate(classifier: LinearSVC, X: Any, y: np.ndarray, arguments: argparse.Namespace) -> int:
    """Predict each fold by a model of the others; print LIBLINEAR's line."""
    fold_of_row = stratified_folds(y, arguments.folds, arguments.seed)
    n_jobs = effective_n_jobs(arguments.jobs)
    together = min(n_jobs, arguments.folds)
    started = time.perf_counter()
    with catch_interrupt() as interrupt, told_warnings() as warnings:

        def one_fold(k: int) -> dict[str, Any]:
            held_out = fold_of_row == k
            fold_classifier = clone(classifier).set_params(n_jobs=max(1, n_jobs // together), verbose=0)
            fold_classifier._run_options = {"interrupt": interrupt}
            begun = time.perf_counter()
            # A row of weight zero is as good as absent: no fold needs a copy of the others' rows.
            fold_classifier.fit(X, y, sample_weight=np.where(held_out, 0.0, 1.0))
            seconds = time.perf_counter() - begun
            correct = int(np.sum(fold_classifier.predict(X[held_out]) == y[held_out]))
            rows = int(held_out.sum())
            fit = describe(fold_classifier, X)
            kept = "primal", "dual", "relative_gap", "passes", "stop_reason", "solver"
            return {"accuracy": correct / rows, "correct": correct, "rows": rows, "seconds": seconds} | {
                name: fit[name] for name in kept
            }

        with working(f"cross validation, {arguments.folds} folds", arguments.quiet):
            results = map_ordered(one_fold, range(arguments.folds), together)
        interrupted = any(result["stop_reason"] == "interrupted" for result in results)
        if interrupted:
            warnings.clear()
    if interrupted:
        complain("interrupted; the cross validation is not complete", kind="")
        return INTERRUPTED
    n_correct = sum(result["correct"] for result in results)
    if arguments.json:
        summary = {"accuracy": n_correct / len(y), "correct": n_correct, "rows": len(y)}
        print_json(summary | {"seconds": time.perf_counter() - started, "folds": results})
    else:
        print(f"Cross Validation Accuracy = {100.0 * n_correct / len(y):g}%")
    return DONE


def stratified_folds(y: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """The fold of each row: of every class each fold gets its share, and folds differ by one row at most."""
    labels, class_of_row, counts = np.unique(y, return_inverse=True, return_counts=True)
    if n_folds > len(y):
        raise ValueError(f"{n_folds} folds of {len(y)} rows: some would be empty; lower -v")
    if len(labels) == 2 and counts.min() < 2:
        rare = label_text(labels[counts.argmin()])
        raise ValueError(f"only one row has the label {rare}: without it there is nothing to train on")
    shuffled = np.random.default_rng(seed).permutation(len(y))
    by_class = shuffled[np.argsort(class_of_row[shuffled], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[by_class] = np.arange(len(y)) % n_folds  # deal them out like cards
    return folds
