"""What methods share that go downhill on a smooth P(w): the point they are at, and the gap that its gradient proves.

alpha_i = -C_i phi'(t_i) is feasible in the dual and belongs to v = w - g, g the gradient of P at w, so that
P(w) - D(alpha) = 1/2 |g|^2: every evaluation brings its certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.losses import SMOOTH
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.intercept import balanced_gap
from maxmargin.problem.questions import Evaluation
from maxmargin.solvers.base import GaveUp, Goal, Report, Solver, weights_to_start_at
from maxmargin.vectors import best_step, dot, norm


@dataclass(frozen=True)
class Descent(Solver):
    """A method whose state has `here`, the point it is at, its `gap`, and the number of `visits` of rows so far."""

    losses: ClassVar[tuple[type, ...]] = SMOOTH
    access: ClassVar[str] = "passes"

    def report(self, problem: Problem, state: Any, goal: Goal) -> Report:
        """The gap is that of the point, exactly."""
        is_evaluated = is_known(state.here)
        return Report(
            passes=state.visits / problem.n_weighted,
            primal=state.here.value if is_evaluated else math.nan,
            dual=state.here.value - state.gap if is_evaluated else math.nan,
            believes=is_evaluated and state.gap <= goal.tol * state.here.value,
            counters=self.counters(state),
        )

    def counters(self, state: Any) -> dict[str, float]:
        """Work that the history tells of, besides passes."""
        return {}

    def certificate(self, problem: Problem, state: Any) -> Certificate:
        """No pass: P and its gradient at w were summed over the rows when w was reached."""
        if not is_known(state.here):
            return problem.certificate(state.here.w)
        return Certificate(state.here.value, state.here.value - state.gap, state.gap)


def unknown_point(problem: Problem, start: Any) -> Evaluation:
    """The w of another state, or zero, before it is evaluated."""
    w = weights_to_start_at(problem, start)
    return Evaluation(w, np.zeros(problem.n_rows), math.inf, np.zeros(len(w)))


def evaluated_start(problem: Problem, here: Evaluation) -> Evaluation:
    """The start, evaluated."""
    here = problem.evaluate(here.w)
    if not math.isfinite(here.value):
        raise GaveUp("the objective is too large for a number")
    return here


def is_known(here: Evaluation) -> bool:
    """Whether the point was evaluated."""
    return here.value < math.inf


def gap_at(problem: Problem, here: Evaluation) -> float:
    """P(w) - D(alpha); no loss is negative, so zero is a dual bound, too."""
    if problem.has_free_intercept:
        return min(balanced_gap(problem, here.outputs, norm(here.gradient[:-1])), here.value)
    return min(0.5 * dot(here.gradient, here.gradient), here.value)


def least_along(problem: Problem, here: Evaluation, there: Evaluation, s: Array) -> float:
    """The step along s for which P is least: its outputs are known at w and at w + s, and no row is looked at."""
    n, dz = problem.n_penalized, problem.moved(there.outputs, here.outputs, -1.0)
    ws, ss = dot(here.w[:n], s[:n]), dot(s[:n], s[:n])

    def slope(step: float) -> tuple[float, float]:
        first, second = problem.along(here.outputs, dz, step)
        return first + ws + step * ss, second + ss

    return best_step(slope, dot(here.gradient, s))


def is_better(there: Evaluation, here: Evaluation) -> bool:
    """At the limit of what rounding allows, P no longer tells the better of two points; the gradient does."""
    return there.value < here.value or norm(there.gradient) < norm(here.gradient)
