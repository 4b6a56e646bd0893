"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math


def add_data_options(parser: argparse._ActionsContainer) -> None:
    """What every command that reads data takes."""
    parser.add_argument("-n", "--jobs", type=jobs, default=-1, metavar="N", help="threads (default: all cores)")
    parser.add_argument(
        "--first-index",
        type=int,
        choices=(0, 1),
        help="what feature indices count from (default: 0 if an index 0 occurs, else 1)",
    )


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """For programs that read the output."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, nothing else")


def number(text: str) -> float:
    """Any finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def positive(text: str) -> float:
    """A number above zero."""
    value = number(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def not_negative(text: str) -> float:
    """Zero or a number above."""
    value = number(text)
    if value < 0.0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return value


def integer(text: str) -> int:
    """Any integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None


def count(text: str) -> int:
    """An integer above zero."""
    value = integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def seed(text: str) -> int:
    """Zero or an integer above."""
    value = integer(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return value


def folds(text: str) -> int:
    """An integer of at least two."""
    value = integer(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be at least 2, got {text}")
    return value


def jobs(text: str) -> int:
    """A number of threads; -1 for all cores."""
    value = integer(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must not be 0; -1 means all cores")
    return value


def class_weight(text: str) -> tuple[float, float] | str:
    """``LABEL=WEIGHT`` or ``balanced``."""
    if text == "balanced":
        return text
    label, equals, weight = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected LABEL=WEIGHT or balanced, got {text!r}")
    return number(label), positive(weight)
