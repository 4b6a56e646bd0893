"""Stochastic solvers whose answer is an average of their iterates, and whose dual point is an average of slopes.

A row's mean slope u_i = -phi'(t_i) over some of its visits, times C_i, is a feasible alpha_i whatever w was at each of
them, as the domain of phi* is an interval. Taken over about the last half of all visits it bounds the optimum best.
Slopes are summed in windows of passes, which begin anew after 1, 2, 4, 8, ... passes: the dual point is made of the
present window, together with the one before it while that one is the longer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.stochastic.solver import StochasticSolver
from maxmargin.solvers.stochastic.weights import is_milestone, restart
from maxmargin.solvers.visits import Visits


class Window(NamedTuple):
    """Sums over the visits of each row."""

    slopes: Array  # of u_i
    visits: Array  # their number, in passes that are closed


class AveragedSolver(StochasticSolver):
    """Its states have `x` and `average` (`weights`), and two windows of slopes, `now` and `before`."""

    def _averages_suffix(self) -> bool:
        """Whether the average begins anew at milestones."""
        raise NotImplementedError

    def _new_order(self, problem: Problem, visits: Visits) -> Visits:
        """Put the rows in the order of the next pass."""
        raise NotImplementedError

    def _next_pass(self, problem: Problem, state: Any) -> Any:
        """Close a pass: average and windows may begin anew."""
        now, before = state.now, state.before
        now.visits[:] += _counts(state.visits, problem.n_rows)
        n_passes = state.visits.n_closed + 1
        if self._averages_suffix() and is_milestone(n_passes):
            restart(state.x, state.average)
        if n_passes & (n_passes - 1) == 0:
            now, before = before, now
            now.slopes[:], now.visits[:] = 0.0, 0.0
        return state._replace(now=now, before=before, visits=self._new_order(problem, state.visits))

    def certificate(self, problem: Problem, state: Any) -> Certificate:
        """That of the answer with the mean slopes of about the last half of all visits."""
        return problem.certificate(state.w, dual_point(problem, state))


def _counts(visits: Visits, n_rows: int) -> Array:
    """How often each row was visited in this pass."""
    return np.bincount(visits.order[: visits.position], minlength=n_rows)


def dual_point(problem: Problem, state: Any) -> Array:
    """C_i times the mean of u_i over the visits of row i in the windows that count."""
    visits = state.visits
    slopes, n_visits = state.now.slopes, state.now.visits + _counts(visits, problem.n_rows)
    begin = (1 << visits.n_closed.bit_length()) >> 1  # of the present window, in passes: 0, 1, 2, 4, 8, ...
    if visits.count < (begin + max(1, begin // 2)) * visits.n_rows:
        slopes, n_visits = slopes + state.before.slopes, n_visits + state.before.visits
    return problem.cost * (slopes / np.maximum(n_visits, 1.0))


def first_windows(problem: Problem, start: Any) -> tuple[Window, Window]:
    """The present window and the one before: the dual point of `start` as if it were the slopes of one visit."""
    n = problem.n_rows
    now, before = Window(np.zeros(n), np.zeros(n)), Window(np.zeros(n), np.zeros(n))
    if start is not None:
        own = getattr(start, "now", None)
        is_known = isinstance(own, Window) and len(own.slopes) == n
        alpha = dual_point(problem, start) if is_known else problem.dual_point(start.w)
        np.divide(alpha, problem.cost, out=before.slopes, where=problem.cost > 0.0)
        before.visits[:] = 1.0
    return now, before
