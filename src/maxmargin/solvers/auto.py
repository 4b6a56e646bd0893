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

_FEW_FEATURES = 1000  # for which a method that factors an n x n matrix is quick
_SOME_FEATURES = 2000  # for which it is still better than no end
_PATIENCE = 150.0  # passes that a first solver may still seem to need: what an interior point takes, or more
_WINDOW = 5.0  # passes, at least, over which its rate is measured


def plan(problem: Problem) -> list[Solver]:
    """Solvers for a problem, in the order in which to try them."""
    able = solvers.supporting(problem.loss)
    if not able:
        takers = [name for name in losses.names() if solvers.supporting(losses.get(name))]
        raise ValueError(
            f"no solver takes loss {losses.name_of(problem.loss)!r} yet; there are solvers for {', '.join(takers)}"
        )
    return [solvers.get(name) for name in _order(problem) if name in able] or [solvers.get(able[0])]


def _order(problem: Problem) -> list[str]:
    n, n_rows = problem.n_weights, problem.n_rows
    is_smooth = not isinstance(problem.loss, (losses.Hinge, losses.EpsilonInsensitive))
    is_easy = float(problem.cost @ problem.norms2) <= n_rows  # C |x|^2 <= 1 on the average: rows hardly interact
    if n <= _FEW_FEATURES and n_rows >= 10 * n and is_smooth and not is_easy:
        return ["interior_point"]
    return ["dual_cd", "interior_point"] if n <= _SOME_FEATURES else ["dual_cd"]


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
        now = history[-1]
        earlier = [entry for entry in history if entry["passes"] <= now["passes"] - _WINDOW]
        before = earlier[-1] if earlier else {"passes": 0.0, "relative_gap": 1.0}
        passes = now["passes"] - before["passes"]
        gained, wanted = (
            math.log(max(start, 1e-300) / max(end, 1e-300))
            for start, end in ((before["relative_gap"], now["relative_gap"]), (now["relative_gap"], tol))
        )
        return passes >= _WINDOW and gained * _PATIENCE < wanted * passes

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
