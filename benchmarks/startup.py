"""``python -m benchmarks startup``: what the first call costs, of the command line and of each estimator.

A new process each time. "First ever" has an empty kernel cache (NUMBA_CACHE_DIR is an empty folder), "second" finds
what the first one left. Of the command line the whole process counts, of Python calls what comes after the imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import _first_call, datasets

_HERE = Path(__file__).parents[1]
_MAXMARGIN = [sys.executable, "-c", "from maxmargin.cli import main; raise SystemExit(main())"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--dataset", default="a9a", help="svmlight file to train on (default a9a)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of the warm runs (default 5)")
    parser.add_argument("--calls", nargs="*", help="first calls from Python whose names begin so (default all)")
    parser.add_argument("--functions", type=int, default=0, help="list so many of the dearest functions of each call")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the tables."""
    if arguments.calls is None:
        _command_line(arguments)
    print("\n| first call | compiled, first ever | processor seconds | second process | second call |")
    print("|---|---|---|---|---|")
    for name in _first_call.CALLS:
        if not arguments.calls or name.startswith(tuple(arguments.calls)):
            _first_calls(name, arguments.functions)


def _first_calls(name: str, n_functions: int) -> None:
    """A row for this call, and the functions that took longest to compile, without those inside them."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = _first_call_of(name, folder), _first_call_of(name, folder)
    seconds = f"{cold['first']:.2f} | {warm['first']:.2f} | {warm['second']:.3f}"
    print(f"| {name} | {len(cold['compiled'])} functions | {seconds} |", flush=True)
    for function, own in sorted(cold["compiled"], key=lambda pair: -pair[1])[:n_functions]:
        print(f"|   {function} | | {own:.2f} | | |")


def _first_call_of(name: str, cache: str) -> dict[str, Any]:
    """What a call costs in a new process, on one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks._first_call", name]
    environment = os.environ | one | {"NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, cwd=_HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _command_line(arguments: argparse.Namespace) -> None:
    """Measure and print the table of commands."""
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
