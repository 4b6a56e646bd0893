"""``python -m benchmarks memory``: peak extra memory of a fit, beyond X, as a share of X's bytes.

Each fit runs in a process of its own: load X, fit a few rows (imports and compilation do not count), hand free heap
back to the system, note the resident size, reset the kernel's high-water mark, fit, read the mark. The difference is
what the fit needed at its worst moment. That needs Linux' /proc; a plain ``ru_maxrss`` would count whatever loading
the data once needed.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
from pathlib import Path
from typing import Any

from . import datasets
from .objectives import LOSSES, Objective
from .peers import SklearnLinearSVC, quiet
from .solvers import Solver, our_solvers
from .worker import SolverFailed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--dataset", default="text", help="default: text (200,000 x 50,000)")
    parser.add_argument("--losses", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--tol", type=float, default=1e-3, help="tolerance of the fits (default 1e-3)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table."""
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("this benchmark needs Linux: it reads and resets the high-water mark in /proc/self")
    data = datasets.get(arguments.dataset)
    print(f"{data.name}: X has {data.nbytes / 1e6:.0f} MB\n")
    print("| solver | loss | extra MB | share of X |\n|---|---|---|---|")
    for solver in [*our_solvers(), SklearnLinearSVC()]:
        for loss in arguments.losses:
            try:
                extra = _extra_bytes(solver, data.path, Objective(loss), arguments.tol)
                print(f"| {solver.name} | {loss} | {extra / 1e6:.0f} | {extra / data.nbytes:.0%} |", flush=True)
            except SolverFailed as error:
                print(f"| {solver.name} | {loss} | - | {error} |", flush=True)


def _extra_bytes(solver: Solver, path: Path, objective: Objective, tol: float) -> int:
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(theirs, solver, path, objective, tol), daemon=True)
    process.start()
    theirs.close()
    try:
        answer = connection.recv()
    except EOFError:
        answer = SolverFailed("its process died")
    process.join()
    if isinstance(answer, SolverFailed):
        raise answer
    return answer


def _measure(connection: Any, solver: Solver, path: Path, objective: Objective, tol: float) -> None:
    quiet()
    try:
        solver.load()
        data = datasets.load(path)
        few = datasets.few_rows(data.X, data.y)
        solver.fit(solver.prepare(*few), objective, tol)
        _give_back_free_heap()
        Path("/proc/self/clear_refs").write_text("5")  # the mark becomes the present size
        before = _status("VmRSS")
        solver.fit(solver.prepare(data.X, data.y), objective, tol)
        connection.send(_status("VmHWM") - before)
    except Exception as error:
        connection.send(SolverFailed(f"{type(error).__name__}: {error}"))


def _give_back_free_heap() -> None:
    """Free heap that the C library keeps would be used by the fit without showing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(field: str) -> int:
    """Bytes of a field of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)
