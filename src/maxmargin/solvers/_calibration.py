"""What stochastic solvers share: the course over the rows, and the first step size found by trying it on a sample.

Bottou's svmsgd2 tries step sizes on a few rows, each for one pass from the same w, and keeps the one that leaves the
least objective there. So does `best_power`: powers of a base around a guess, up while that helps, else down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import lean_kernel
from maxmargin._random import shuffle
from maxmargin.losses import SquaredEpsilonInsensitive, SquaredError, SquaredHinge, argument, value
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, row_dot
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of

SAMPLE = 1000  # rows that step sizes are tried on
_MOST = 20  # powers to either side of the guess


class Course(NamedTuple):
    """How far a stochastic solver is; every visit of a row is a step."""

    position: int  # of the next row, in the order of this pass
    visits: int
    next_certificate: int  # at so many visits


def later_certificate(course: Course, n_rows: int) -> Course:
    """The next certificate after as many passes again: at 1, 2, 4, 8... passes."""
    return course._replace(next_certificate=course.visits + max(course.visits, n_rows))


class RowByRow(Solver):
    """A solver with a step a row, in a new random order every pass; its state has `order`, `stream` and `course`.

    It keeps, if it can, `slopes`: a mean of those that its steps have met, which are a dual point.
    """

    def _rows_at_once(self, problem: Problem) -> int:
        """How many rows make a block of work."""
        raise NotImplementedError

    def _most_steps(self, state: Any, visits: int) -> int:
        """How many steps `_run` may make in one go from here."""
        return len(state.order)

    def _run(self, problem: Problem, state: Any, position: int, n: int, visits: int) -> Any:
        """Steps on n rows of this pass from a position on; as many visits were before."""
        raise NotImplementedError

    def update(self, problem: Problem, state: Any, goal: Goal) -> Any:
        """Steps for a block of work, to the next certificate, or as far as the goal's passes allow."""
        m, (position, visits, next_certificate) = len(state.order), state.course
        last = min(last_visit_of(goal, m), max(next_certificate, visits + 1))
        room = min(last - visits, self._rows_at_once(problem))
        while room > 0:
            if position == m:
                shuffle(state.order, m, state.stream)
                position = 0
            n = min(room, m - position, self._most_steps(state, visits))
            state = self._run(problem, state, position, n, visits)
            position, visits, room = position + n, visits + n, room - n
        return state._replace(course=Course(position, visits, next_certificate))

    def report(self, problem: Problem, state: Any, goal: Goal) -> Report:
        """A certificate is due after twice the passes; there are no estimates between."""
        course = state.course
        believes = course.visits >= course.next_certificate
        return Report(course.visits / len(state.order), math.nan, math.nan, believes, {})

    def certificate(self, problem: Problem, state: Any) -> Certificate:
        """By the slopes at w, or by the mean of those that the steps have met: whichever proves more."""
        w, slopes = state.w, getattr(state, "slopes", None)
        found = problem.certificate(w)
        return found if slopes is None else min(problem.certificate(w, slopes), found, key=lambda c: c.gap)

    def reconsider(self, problem: Problem, state: Any, goal: Goal, certificate: Certificate) -> Any:
        """The next certificate after as many passes again."""
        return state._replace(course=later_certificate(state.course, len(state.order)))


def best_power(objective: Callable[[int], float]) -> int:
    """The k at the end of a walk downhill from k = 0, one step at a time; what is not finite is uphill."""

    def height(k: int) -> float:
        found = objective(k)
        return found if math.isfinite(found) else math.inf

    best, lowest = 0, height(0)
    for direction in (1, -1):
        while abs(best + direction) <= _MOST:
            found = height(best + direction)
            if not found < lowest:
                break
            best, lowest = best + direction, found
        if best != 0:
            break
    return best


def steepness(problem: Problem, rows: Array) -> float:
    """Mean of m C_i |x_i|^2 over some of the m rows with a cost: how far a step of size one goes, in the units of P."""
    m = np.count_nonzero(problem.cost)
    return float(m * np.mean(problem.cost[rows] * problem.norms2[rows]))


def sampled_risk(problem: Problem, rows: Array, w: Array) -> float:
    """sum_i C_i phi(t_i), from a sample of the rows."""
    m = np.count_nonzero(problem.cost)
    return m / len(rows) * float(_risk((problem.rows, problem.y, problem.cost, problem.loss), rows, w))


@lean_kernel
def _risk(data, order, w):
    rows, y, cost, loss = data
    total = 0.0
    for k in range(len(order)):
        i = np.int64(order[k])
        total += cost[i] * value(loss, argument(loss, row_dot(rows, i, w), y[i]))
    return total


def steepest_slope(loss: Any) -> float:
    """The largest phi'' of a loss whose phi' has no bound, so that too long a step would be followed by a longer one.

    Zero for the others: their steps cannot explode.
    """
    return 2.0 if isinstance(loss, SquaredHinge | SquaredError | SquaredEpsilonInsensitive) else 0.0
