"""Predict the label, or the value, of every row of DATA by MODEL, and tell how good that is by what DATA has.

Labels go to OUT, or to stdout if there is none, one a line; the accuracy goes to stdout, or to stderr if labels take
that place. MODEL is of maxmargin or of LIBLINEAR.
"""

from __future__ import annotations

import argparse
import sys
from typing import IO, Any

from maxmargin.cli import _options as options
from maxmargin.cli._console import DONE, accuracy_line, announced_compilation, error_lines, label_text
from maxmargin.cli._files import check_writable, read_data_for, read_model

_LINES_AT_ONCE = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("data", metavar="DATA", help="svmlight text, plain or compressed, - for stdin")
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


def run(arguments: argparse.Namespace) -> int:
    """Predict and write."""
    to_stdout = arguments.out == "-"
    if not to_stdout:
        check_writable(arguments.out)
    with announced_compilation(arguments.quiet):
        model = read_model(arguments.model)
        X, y = read_data_for(model, arguments.data, arguments)
        labels = model.predict(X)
        is_regressor = not hasattr(model, "classes_")
        if is_regressor:
            lines = _score_lines(labels)
        else:
            lines = _score_lines(model.decision_function(X)) if arguments.scores else _label_lines(labels)
    if to_stdout:
        _write(lines, sys.stdout)
    else:
        from maxmargin._files import atomic_write

        with atomic_write(arguments.out) as file:
            _write(lines, file)
    if not arguments.quiet:
        verdict = error_lines(y, labels) if is_regressor else [accuracy_line(int((labels == y).sum()), len(y))]
        print("\n".join(verdict), file=sys.stderr if to_stdout else sys.stdout)
    return DONE


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
