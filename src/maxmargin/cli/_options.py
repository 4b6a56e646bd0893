"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any


def add_paths(parser: argparse.ArgumentParser, command: str, default: str) -> None:
    """Data to read and a model to write; `default` says which, if none is named."""
    parser.usage = (
        f"maxmargin {command} [options] DATA [MODEL]\n       maxmargin {command} [options] -o MODEL DATA [DATA ...]"
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="DATA [MODEL]",
        help="svmlight text or .csv, plain or .gz .bz2 .xz .zst, - for stdin; and the file to write (default: "
        f"{default})",
    )
    parser.add_argument("-o", "--output", metavar="MODEL", help="the file to write; then every path is DATA")


def add_data_options(parser: argparse._ActionsContainer) -> None:
    """What every command that reads data takes."""
    parser.add_argument("-n", "--jobs", type=jobs, default=-1, metavar="N", help="threads (default: all cores)")
    parser.add_argument(
        "--first-index",
        type=int,
        choices=(0, 1),
        help="what feature indices count from (default: as in the model, or 0 if an index 0 occurs, else 1)",
    )
    parser.add_argument("--format", choices=("svmlight", "csv"), help="of the data (csv: names in .csv, .tsv)")
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="of a table: the labels, by name or counted from 1 (default: label, target, class or y, else the first)",
    )


def add_memory_option(parser: argparse._ActionsContainer) -> None:
    """What every command that reads a store takes."""
    parser.add_argument(
        "--memory", type=size, default="2G", metavar="SIZE", help="memory for the rows of a store, such as 500M (2G)"
    )


def add_problem_options(parser: argparse._ActionsContainer) -> None:
    """What is particular to linear models and classes."""
    parser.add_argument(
        "-B",
        "--bias",
        type=number,
        default=1.0,
        metavar="BIAS",
        help="value of a constant feature, whose weight makes the intercept (1); -1: no intercept, LIBLINEAR's default",
    )
    parser.add_argument(
        "--class-weight",
        type=class_weight,
        action="append",
        default=[],
        metavar="LABEL=WEIGHT",
        help="factor of C for the rows of a class, once for each class; -w1 5 -w-1 2 works as in LIBLINEAR; "
        "balanced: as if every class had as many rows",
    )


def add_solver_options(parser: argparse._ActionsContainer, each: str, order: str) -> None:
    """How to get to the solution; `each` says what a limit of passes is for, `order` what the seed is of."""
    parser.add_argument("--solver", default="auto", metavar="NAME", help='see "maxmargin solvers" (auto)')
    parser.add_argument(
        "-e", "--tol", type=not_negative, default=1e-3, metavar="TOL", help="relative duality gap to reach (1e-3)"
    )
    parser.add_argument("--max-time", type=positive, metavar="S", help="stop after S seconds of training")
    parser.add_argument("--max-iter", type=positive, metavar="N", help=f"stop after N passes over the data{each}")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help=f"of the {order} (0)")


def add_output_options(parser: argparse._ActionsContainer, picture: str) -> None:
    """What to read and what to write; `picture` says what is drawn."""
    add_data_options(parser)
    parser.add_argument("--n-features", type=count, metavar="N", help="if the data do not name the last ones")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of the values in memory")
    parser.add_argument("--liblinear", action="store_true", help="write MODEL as LIBLINEAR does, for its predict")
    parser.add_argument("--plot", metavar="FILE", help=f"draw {picture}: .png, .svg, .pdf (takes matplotlib)")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but warnings and errors")
    add_json_option(parser)


def spelled(name: str) -> str:
    """How the option of an attribute is written."""
    short = {"C": "-c", "type": "-s", "tol": "-e", "epsilon": "-p", "folds": "-v"}
    return short.get(name, f"--{name.replace('_', '-')}")


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """For programs that read the output."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, nothing else")


def size(text: str) -> str:
    """A number of bytes, perhaps with a unit."""
    from maxmargin.data.sizes import as_bytes

    try:
        as_bytes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, like 500M or 2G") from None
    return text


def number(text: str) -> float:
    """Any finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def integer(text: str) -> int:
    """Any integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None


def positive(text: str) -> float:
    """A number above zero."""
    return _checked(number(text), lambda value: value > 0.0, f"must be positive, got {text}")


def not_negative(text: str) -> float:
    """Zero or a number above."""
    return _checked(number(text), lambda value: value >= 0.0, f"must not be negative, got {text}")


def jobs(text: str) -> int:
    """A number of threads; -1 for all cores."""
    return _checked(integer(text), lambda value: value != 0, "must not be 0; -1 means all cores")


def at_least(least: int) -> Callable[[str], int]:
    """The type of integers from this one on."""
    return lambda text: _checked(integer(text), lambda value: value >= least, f"must be at least {least}, got {text}")


seed, count, folds = at_least(0), at_least(1), at_least(2)


def _checked(value: Any, is_right: Callable[[Any], bool], complaint: str) -> Any:
    if not is_right(value):
        raise argparse.ArgumentTypeError(complaint)
    return value


def class_weight(text: str) -> tuple[Any, float] | str:
    """``LABEL=WEIGHT`` or ``balanced``."""
    if text == "balanced":
        return text
    label, equals, weight = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected LABEL=WEIGHT or balanced, got {text!r}")
    try:
        return number(label), positive(weight)
    except argparse.ArgumentTypeError:
        return label, positive(weight)  # a word
