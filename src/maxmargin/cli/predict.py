"""Predict the label, or the value, of every row of DATA by MODEL, and tell how good that is by what DATA has.

Labels go to OUT, or to stdout if there is none, one a line; the accuracy goes to stdout, or to stderr if labels take
that place. MODEL is of maxmargin, LIBLINEAR or LIBSVM.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable
from typing import IO, Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import DONE, accuracy_line, announced_compilation, error_lines, label_text
from maxmargin.cli._files import check_roles, check_writable, read_data_for, read_model, read_store_for

_LINES_AT_ONCE = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("data", metavar="DATA", help="svmlight text or .csv, maybe compressed, - for stdin; or a store")
    parser.add_argument("model", metavar="MODEL", help="what train has written")
    parser.add_argument("out", metavar="OUT", nargs="?", default="-", help="the file to write (default: stdout)")
    parser.add_argument(
        "--scores",
        action="store_true",
        help="write decision values in the place of labels: one a row, positive for the second class; of more than "
        "two classes one for each, in ascending order of the labels",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not tell the accuracy")
    options.add_data_options(parser)
    options.add_memory_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict and write."""
    to_stdout = arguments.out == "-"
    if not to_stdout:
        check_writable(arguments.out)
    with announced_compilation(arguments.quiet):
        check_roles(arguments.data, arguments.model)
        model = read_model(arguments.model)
        store = read_store_for(model, arguments.data, arguments)
        chunks = [read_data_for(model, arguments.data, arguments)] if store is None else store
        is_regressor = not hasattr(model, "classes_")
        with contextlib.ExitStack() as stack:
            file = sys.stdout
            if not to_stdout:
                from maxmargin._files import atomic_write

                file = stack.enter_context(atomic_write(arguments.out))  # type: ignore[assignment]
            truth, labels = _predict(model, chunks, file, arguments.scores and not is_regressor)
    if not arguments.quiet and truth is not None:
        right = int((labels == truth).sum())
        verdict = error_lines(truth, labels) if is_regressor else [accuracy_line(right, len(truth))]
        print("\n".join(verdict), file=sys.stderr if to_stdout else sys.stdout)
    return DONE


def _predict(model: Any, chunks: Iterable[Any], file: IO[Any], with_scores: bool) -> tuple[Any, Any]:
    """Write the lines of some rows after the other; what is true, and what is predicted."""
    import numpy as np

    truth, predicted = [], []
    for X, y, *_ in chunks:
        labels = model.predict(X)
        if not hasattr(model, "classes_"):
            lines = _score_lines(labels)
        else:
            lines = _score_lines(model.decision_function(X)) if with_scores else _label_lines(labels)
        _write(lines, file)
        truth.append(y)
        predicted.append(labels)
    known = all(y is not None for y in truth)
    return np.concatenate(truth) if known else None, np.concatenate(predicted)


def _label_lines(labels: Any) -> list[str]:
    texts = {label: label_text(label) for label in set(labels.tolist())}
    return [texts[label] for label in labels.tolist()]


def _score_lines(scores: Any) -> list[str]:
    """Numbers that read back as the same bits."""
    if scores.ndim == 1:
        return [repr(score) for score in scores.tolist()]
    return [" ".join(map(repr, row)) for row in scores.tolist()]


def _write(lines: list[str], file: IO[Any]) -> None:
    is_text = file is sys.stdout
    for start in range(0, len(lines), _LINES_AT_ONCE):
        text = "\n".join(lines[start : start + _LINES_AT_ONCE]) + "\n"
        file.write(text if is_text else text.encode())
