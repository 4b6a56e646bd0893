"""What commands say, and how they say it: exit codes, messages on stderr, reports and tables on stdout."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

DONE, BAD_INPUT, BAD_USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class UsageError(Exception):
    """The options do not make sense."""


# ---------------------------------------------------------------- stderr


def complain(message: str, kind: str = "error: ") -> None:
    """One message on stderr, if that is there."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        print(f"maxmargin: {kind}{message}", file=sys.stderr, flush=True)


def on_a_terminal() -> bool:
    """Whether somebody watches stderr: progress is drawn for them only."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def working(message: str, quiet: bool) -> Iterator[None]:
    """Show that something is under way, while it is, on a terminal."""
    if quiet or not on_a_terminal():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(message)):  # not as a string: file names may have brackets in them
        yield


@contextlib.contextmanager
def announced_compilation(quiet: bool) -> Iterator[list[str]]:
    """Say once that kernels are being compiled, when they are: the first run is slower than those that follow.

    Yields
    ------
    list of str
        The names of the kernels that have been compiled so far.
    """
    from maxmargin._on_compile import on_compile

    compiled: list[str] = []

    def announce(kernel_name: str) -> None:
        if not compiled and not quiet:
            complain("compiling kernels for this processor and kind of data; later runs start at once", kind="")
        compiled.append(kernel_name)

    with on_compile(announce):
        yield compiled


@contextlib.contextmanager
def told_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Turn warnings meant for users into lines on stderr at the end; clear the list to leave them unsaid."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    for text in dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning)):
        complain(text, kind="warning: ")


def timed_fit(estimator: Any, *data: Any) -> tuple[float, bool]:
    """Fit; seconds, and whether it was interrupted, of which a warning need not tell. Other warnings are told."""
    with told_warnings() as caught:
        started = time.perf_counter()
        estimator.fit(*data)
        seconds = time.perf_counter() - started
        is_interrupted = estimator.stop_reason_ == "interrupted"
        if is_interrupted:
            caught.clear()
    return seconds, is_interrupted


# ---------------------------------------------------------------- stdout


def tell(report: dict[str, Any], in_words: Callable[[dict[str, Any]], dict[str, str]], arguments: Any) -> None:
    """A report for programs, or for people, or for nobody: as the options want it."""
    if arguments.json:
        print_json(report)
    elif not getattr(arguments, "quiet", False):
        print_facts(in_words(report))


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on one line; what is not finite becomes null."""
    print(json.dumps(_finite(content)), flush=True)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(item) for name, item in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(item) for item in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_facts(facts: dict[str, str]) -> None:
    """Names and what is to be said of them, one a line."""
    width = max(map(len, facts)) + 2
    for name, fact in facts.items():
        print(f"{name:<{width}}{fact}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns: the first one to the left, the others to the right."""
    lines = [header, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for line in lines:
        first, *others = line
        cells = [f"{first:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:]))]
        print("  ".join(cells).rstrip())


# ---------------------------------------------------------------- words


def label_value(label: Any) -> Any:
    """A class label as JSON: an integer where it is one."""
    number = label.item() if hasattr(label, "item") else label
    return int(number) if isinstance(number, float) and number.is_integer() else number


def label_text(label: Any) -> str:
    """A class label as text: ``1`` rather than ``1.0``."""
    return str(label_value(label))


def accuracy_line(n_correct: int, n_rows: int) -> str:
    """LIBLINEAR's line."""
    return f"Accuracy = {100.0 * n_correct / n_rows:g}% ({n_correct}/{n_rows})"


def error_lines(y: Any, predicted: Any) -> list[str]:
    """LIBLINEAR's lines for a regression."""
    errors = errors_of(y, predicted)
    return [
        f"Mean squared error = {errors['mean_squared_error']:g} (regression)",
        f"Squared correlation coefficient = {errors['squared_correlation']:g} (regression)",
    ]


def errors_of(y: Any, predicted: Any) -> dict[str, float]:
    """How far predictions are from the truth."""
    import numpy as np

    error, spread = predicted - y, y - y.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.sum((predicted - predicted.mean()) * spread) ** 2
        return {
            "mean_squared_error": float(np.mean(error**2)),
            "mean_absolute_error": float(np.mean(np.abs(error))),
            "r2": float(1.0 - np.sum(error**2) / np.sum(spread**2)),
            "squared_correlation": float(both / (np.sum((predicted - predicted.mean()) ** 2) * np.sum(spread**2))),
        }


def counted(n: int, noun: str) -> str:
    """A number and what it counts: ``1 row``, ``2,000 rows``."""
    plural = noun + "es" if noun.endswith("s") else noun + "s"
    return f"{n:,} {noun if n == 1 else plural}"
