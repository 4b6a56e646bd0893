"""A solver's own work, step by step, without the loop around it: for figures that look at a run on its way."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Solver

_UNKNOWN = Certificate(math.inf, 0.0, math.inf)


def advance(solver: Solver, problem: Problem, state: Any, passes: float) -> tuple[Any, float]:
    """Update until so many passes are over; the state, and how many there were.

    Stochastic solvers pause where they want a certificate. They are told that it was no good, which costs nothing.
    """
    goal = Goal(0.0, float(passes))
    while True:
        state = solver.update(problem, state, goal)
        report = solver.report(problem, state, goal)
        if report.passes >= passes:
            return state, report.passes
        if report.believes and solver.accuracy > 0.0:
            state = solver.reconsider(problem, state, goal, _UNKNOWN)
