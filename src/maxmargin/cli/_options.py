"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import math
from typing import Any


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
