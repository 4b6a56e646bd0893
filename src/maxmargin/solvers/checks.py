"""The one checker that pairs a solver with a problem: loss, penalty, intercept, and how it gets at the rows.

And what solvers ask of their own parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin import losses, penalties
from maxmargin.solvers.registry import get, supporting

if TYPE_CHECKING:
    from maxmargin.solvers.base import Solver


def check_run(solver: Solver, problem: Any, tol: float, max_iter: float | None, max_time: float | None) -> None:
    """Raise the error that a user is to read if this solver cannot solve this problem within these limits."""
    if not isinstance(problem.loss, solver.losses):
        taken = ", ".join(losses.name_of_type(tag) for tag in solver.losses)
        raise ValueError(
            f"solver {solver.name!r} does not take loss {losses.name_of(problem.loss)!r}; it takes {taken}"
        )
    if not isinstance(getattr(problem, "risk", None), (*solver.risks, type(None))):
        raise ValueError(f"solver {solver.name!r} does not take the risk {problem.risk!r}; bmrm takes all")
    if not isinstance(problem.penalty, solver.penalties):
        raise ValueError(_cannot(solver, problem, f"penalty {penalties.name_of(problem.penalty)!r}"))
    if problem.has_free_intercept and not solver.takes_free_intercept:
        raise ValueError(_cannot(solver, problem, "an intercept without penalty (penalize_intercept=False)"))
    if solver.access not in problem.accesses:
        raise ValueError(
            _cannot(
                solver,
                problem,
                f"these rows: its access to them is {solver.access!r}, theirs are {', '.join(problem.accesses)}",
            )
        )
    if not tol >= 0.0:
        raise ValueError(f"tol must be >= 0, got {tol!r}")
    if max_iter is not None and not max_iter > 0:
        raise ValueError(f"max_iter must be positive or None, got {max_iter!r}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be positive or None, got {max_time!r}")


def _cannot(solver: Solver, problem: Any, what: str) -> str:
    able = supporting(problem.loss, problem.penalty, free_intercept=problem.has_free_intercept)
    able = [name for name in able if get(name).access in problem.accesses]
    return f"solver {solver.name!r} does not take {what}; " + (
        f"for loss {losses.name_of(problem.loss)!r} these do: {', '.join(able)}"
        if able
        else "with this loss no solver does yet"
    )


def check_count(solver: Any, name: str, least: int) -> None:
    """Refuse a parameter that is no whole number, or too small a one."""
    value = getattr(solver, name)
    if not (isinstance(value, int | np.integer) and value >= least):
        raise ValueError(f"{name} must be a whole number, {least} or more; got {value!r}")


def check_number(solver: Any, name: str, least: float = 0.0, *, above: bool = False) -> None:
    """Refuse a parameter that is no finite number, or too small a one."""
    value = getattr(solver, name)
    is_taken = isinstance(value, float | int | np.number) and (value > least if above else value >= least)
    if not (is_taken and value < math.inf):
        wanted = f"above {least:g}" if above else f"{least:g} or more"
        raise ValueError(f"{name} must be a finite number, {wanted}; got {value!r}")
