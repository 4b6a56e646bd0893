"""Clocks: a solver's own work, looked at on its way; processor seconds of one thread."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from benchmarks.datasets import few_rows
from benchmarks.steps import advance

from maxmargin import Problem, solve, solvers


class Point(NamedTuple):
    """A run on its way."""

    seconds: float  # of the processor, of the solver alone
    passes: float
    w: np.ndarray


def compile_for(X: Any, y: np.ndarray, loss: str, *names: Any) -> None:
    """Run each solver on a few rows of the same storage, so that no time has a compiler's in it."""
    some = Problem(*few_rows(X, y, 64), C=1.0, loss=loss)
    for name in names:
        solve(some, name, tol=0.3, max_iter=3)


def follow(problem: Problem, solver: Any, cap: float, first: float = 0.1, growth: float = 1.3) -> Iterator[Point]:
    """Points of a run after growing numbers of passes, until its seconds exceed the cap.

    Milestones begin at `first` passes and grow by a factor, but by at most half a pass a time to begin with: what a
    solver does in one pass decides most of these figures.
    """
    solver = solvers.get(solver)
    started = time.process_time()
    state = solver.init_state(problem, 0)
    seconds, passes, milestone = time.process_time() - started, 0.0, first
    while seconds <= cap and passes < solver.max_passes:
        started = time.process_time()
        state, passes = advance(solver, problem, state, milestone)
        w = state.w
        seconds += time.process_time() - started
        yield Point(seconds, passes, np.array(w))
        milestone = max(passes + first, milestone * growth)


_optima: dict[tuple[int, str, float], tuple[float, float, np.ndarray]] = {}  # the last one


def optimum(problem: Problem, tol: float, cap: float) -> tuple[float, float, np.ndarray]:
    """Bounds on the least objective, the upper one that of the weights beside it; solvers of one set share it."""
    rows = zlib.crc32(problem.decision(np.sin(1.0 + np.arange(problem.n_weights))).data)
    key = rows, repr(problem.loss), float(problem.cost.sum())
    if key not in _optima:
        result = solve(problem, tol=tol, max_time=cap)
        _optima.clear()
        _optima[key] = result.certificate.primal, result.certificate.dual, result.w
    return _optima[key]


def solve_within(problem: Any, solver: Any, tol: float, cap: float, stop: Any = None) -> tuple[Any, float, bool]:
    """Solve within so many processor seconds: the result, the seconds, and whether the goal or the stop was met.

    A limit on wall time would stop runs of a busy machine before their time.
    """
    started = time.process_time()

    def is_late(progress: Any) -> bool:
        return time.process_time() - started > cap

    callbacks = [is_late] if stop is None else [stop, is_late]
    result = solve(problem, solver, tol=tol, callbacks=callbacks, max_time=20.0 * cap)
    seconds = time.process_time() - started
    is_done = result.stop_reason == "converged" or (stop is not None and result.stop_reason == "callback")
    return result, seconds, is_done and (seconds <= cap or result.stop_reason == "converged")


def exponent(sizes: list[float], seconds: list[float]) -> float | None:
    """The slope of log seconds over log size; None for fewer than two points."""
    pairs = [(n, s) for n, s in zip(sizes, seconds) if s is not None and s > 0.0]
    if len({n for n, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs)).T
    return float(np.polyfit(x, y, 1)[0])


def accuracy(X: Any, y: np.ndarray, w: np.ndarray) -> float:
    """Share of rows on the right side."""
    return float(np.mean((X @ w > 0.0) == (y > 0.0)))


def roc_area(X: Any, y: np.ndarray, w: np.ndarray) -> float:
    """Area under the ROC curve: the share of pairs in the right order, ties counted half."""
    from scipy.stats import rankdata

    is_positive = y > 0.0
    n, n_positive = len(y), int(is_positive.sum())
    if n_positive in (0, n):
        return 0.5
    ranks = rankdata(X @ w)
    wins = ranks[is_positive].sum() - n_positive * (n_positive + 1) / 2
    return float(wins / (n_positive * (n - n_positive)))
