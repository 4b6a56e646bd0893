"""What ``solver="auto"`` does: a choice from the problem's shape, and a watch that goes on with another solver.

Dual coordinate descent is the fastest start on sparse data with many features, and hopeless on many rows with few
features, where second-order methods need a handful of passes. The rule is a guess; the certified gap is the judge. If
it falls too slowly to be reached in reasonable time, the next solver of the plan goes on from the solution so far.

Nothing here looks at the clock, so the same problem takes the same course everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin import losses, solvers
from maxmargin.problem import Problem
from maxmargin.solvers.base import Result, Solver, run

_PATIENCE = 100.0  # passes that a first solver may still seem to need
_WINDOW = 2  # certificates over which its rate is measured


def plan(problem: Problem) -> list[Solver]:
    """Solvers for a problem, in the order in which to try them."""
    able = solvers.supporting(problem.loss)
    if not able:
        takers = [name for name in losses.names() if solvers.supporting(losses.get(name))]
        raise ValueError(
            f"no solver takes loss {losses.name_of(problem.loss)!r} yet; there are solvers for {', '.join(takers)}"
        )
    return [solvers.get(name) for name in able[:1]]


def solve_auto(problem: Problem, *, tol: float = 1e-3, **options: Any) -> Result:
    """Solve with the solvers of the plan, one after the other, until one is not stalled.

    With a checkpoint the first of them stays: a file holds the state of one solver.
    """
    first, *others = plan(problem)
    if options.get("checkpoint") is not None:
        others = []
    result = run(first, problem, tol=tol, give_up=_is_hopeless(tol) if others else None, **options)
    for k, solver in enumerate(others):
        if result.stop_reason != "stalled":
            break
        is_last = k == len(others) - 1
        left = {name: _left(options.get(name), spent) for name, spent in _spent(result).items()}
        after = run(
            solver,
            problem,
            tol=tol,
            give_up=None if is_last else _is_hopeless(tol),
            **{**options, **left, "start": result},
        )
        result = _joined(result, after)
    return result


def _is_hopeless(tol: float) -> Callable[[list[dict[str, float]]], bool]:
    """A judge of histories: whether the gap, falling as before, is too many passes away from `tol`."""

    def judge(history: list[dict[str, float]]) -> bool:
        if len(history) < _WINDOW:
            return False
        before, now = history[-_WINDOW], history[-1]
        passes = now["passes"] - before["passes"]
        digits = math.log(max(before["relative_gap"], 1e-300) / max(now["relative_gap"], 1e-300))
        wanted = math.log(max(now["relative_gap"], 1e-300) / max(tol, 1e-300))
        return passes > 1.0 and digits * _PATIENCE < wanted * passes

    return judge


def _spent(result: Result) -> dict[str, float]:
    return {"max_iter": result.passes, "max_time": result.seconds}


def _left(limit: float | None, spent: float) -> float | None:
    return None if limit is None else max(limit - spent, 1e-9)


def _joined(before: Result, after: Result) -> Result:
    """The later result, with the seconds, passes and history of both."""
    later = {"seconds": before.seconds, "passes": before.passes}
    history = {
        name: np.concatenate([before.history[name], after.history[name] + later.get(name, 0.0)])
        for name in after.history
        if name in before.history
    }
    return replace(after, history=history, seconds=before.seconds + after.seconds, passes=before.passes + after.passes)
