"""What all stochastic solvers share: steps on a row or a few at a time, pass after pass over the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.data.rows import Array, n_stored
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of
from maxmargin.solvers.visits import shuffle_rows

_BLOCK = 1 << 22  # multiplications that one update makes: about 10 ms


class StochasticSolver(Solver):
    """A solver whose states have `visits`, and perhaps `slopes`: a dual point made of the slopes that steps have met.

    Certificates are due after 1, 2, 4, 8, ... passes; there are no estimates between.
    """

    def _run(self, problem: Problem, state: Any, n: int) -> Any:
        """Visit the next n rows of this pass; a few more where a step takes several rows."""
        raise NotImplementedError

    def _next_pass(self, problem: Problem, state: Any) -> Any:
        """Close a pass, and put the rows in the order of the next one."""
        return state._replace(visits=shuffle_rows(state.visits))

    def _work_of_visit(self, problem: Problem) -> int:
        """Multiplications that a visit takes."""
        return 1 + n_stored(problem.rows) // problem.n_rows

    def _most_visits(self, state: Any) -> int:
        """How many rows `_run` may visit in one go."""
        return state.visits.n_rows

    def update(self, problem: Problem, state: Any, goal: Goal) -> Any:
        """Steps for a block of work, to the next certificate, or as far as the goal's passes allow."""
        count, n_rows = state.visits.count, state.visits.n_rows
        last = min(
            last_visit_of(goal, n_rows),
            max(state.visits.next_certificate, count + 1),
            count + 1 + _BLOCK // self._work_of_visit(problem),
        )
        while state.visits.count < last:
            if state.visits.is_over:
                state = self._next_pass(problem, state)
            visits = state.visits
            n = min(last - visits.count, n_rows - visits.position, self._most_visits(state))
            state = self._run(problem, state, n)
        return state

    def report(self, problem: Problem, state: Any, goal: Goal) -> Report:
        """Nothing is known of the gap between certificates."""
        visits = state.visits
        is_due = visits.count >= visits.next_certificate
        return Report(visits.count / visits.n_rows, math.nan, math.nan, is_due, {})

    def certificate(self, problem: Problem, state: Any) -> Certificate:
        """By the slopes at w, or by the mean of those that the steps have met: whichever proves more."""
        w, slopes = state.w, getattr(state, "slopes", None)
        found = problem.certificate(w)
        return found if slopes is None else min(problem.certificate(w, slopes), found, key=lambda c: c.gap)

    def reconsider(self, problem: Problem, state: Any, goal: Goal, certificate: Certificate) -> Any:
        """The next certificate after as many passes again."""
        return state._replace(visits=state.visits.later_certificate())


def slopes_to_start_at(problem: Problem, start: Any) -> Array:
    """A copy of the dual point that another state has, or zeros."""
    slopes = getattr(start, "slopes", getattr(start, "alpha", None))
    return np.zeros(problem.n_rows) if slopes is None or len(slopes) != problem.n_rows else slopes.copy()
