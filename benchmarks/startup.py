"""``python -m benchmarks startup``: whole-process seconds of the command line, with and without compiled kernels.

A new process each time. "First ever" has an empty kernel cache (NUMBA_CACHE_DIR is an empty folder), "second" finds
what the first one left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import datasets

_MAXMARGIN = [sys.executable, "-c", "from maxmargin.cli import main; raise SystemExit(main())"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--dataset", default="a9a", help="svmlight file to train on (default a9a)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of the warm runs (default 5)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table."""
    try:
        data = datasets.find(arguments.dataset)
    except datasets.MissingData as error:
        raise SystemExit(str(error)) from error
    with tempfile.TemporaryDirectory() as folder:
        train = ["train", "-c", "1", str(data), str(Path(folder) / "model")]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
        print("| command | state | seconds | processor seconds |\n|---|---|---|---|")
        _row("maxmargin --help", "", [_seconds(["--help"], environment) for _ in range(arguments.repeat)])
        command = f"maxmargin train {data.name}"
        _row(command, "first ever", [_seconds(train, environment)])
        _row(command, "second", [_seconds(train, environment) for _ in range(arguments.repeat)])


def _row(command: str, state: str, times: list[tuple[float, float]]) -> None:
    wall, processor = (statistics.median(column) for column in zip(*times))
    print(f"| {command} | {state} | {wall:.2f} | {processor:.2f} |", flush=True)


def _seconds(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of a command; on a busy machine the latter tell more."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(_MAXMARGIN + arguments, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SystemExit(f"maxmargin {' '.join(arguments)} failed:\n{done.stderr}")
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, processor
