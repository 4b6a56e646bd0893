"""The first step size of a stochastic solver, found by trying some on a sample of the rows.

Bottou's svmsgd2 tries step sizes on a few rows, each for one pass from the same w, and keeps the one that leaves the
least objective there. So does `best_power`: powers of a base around a guess, up while that helps, else down.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from maxmargin import penalties
from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array, row_dot
from maxmargin.losses import UNBOUNDED_SLOPE, Loss, argument, largest_curvature, value
from maxmargin.problem import Problem
from maxmargin.solvers.visits import examples

SAMPLE = 1000  # rows that step sizes are tried on
_MOST = 20  # powers to either side of the guess


def best_power(objective: Callable[[int], float], gain: float = 0.0) -> int:
    """The k at the end of a walk downhill from k = 0, one step at a time, as long as each gains a share `gain`.

    What is not finite is uphill.
    """

    def height(k: int) -> float:
        found = objective(k)
        return found if math.isfinite(found) else math.inf

    best, lowest = 0, height(0)
    for direction in (1, -1):
        while abs(best + direction) <= _MOST:
            found = height(best + direction)
            if not found < lowest * (1.0 - gain):
                break
            best, lowest = best + direction, found
        if best != 0:
            break
    return best


def mean_curvature_of_rows(problem: Problem, rows: Array) -> float:
    """Mean of m C_i |x_i|^2 over some of the m rows with a cost, 1 or more: how far a step of size one goes."""
    m = np.count_nonzero(problem.cost)
    return max(1.0, float(m * np.mean(problem.cost[rows] * problem.norms2[rows])))


def sampled_objective(problem: Problem, rows: Array, w: Array) -> float:
    """P(w), with the risk of a sample of the rows for that of all."""
    m = np.count_nonzero(problem.cost)
    return penalties.value(problem.penalty, w) + m / len(rows) * float(_risk(examples(problem), rows, w))


@compiled_lean
def _risk(data, rows, w):
    total = 0.0
    for k in range(len(rows)):
        i = np.int64(rows[k])
        total += data.cost[i] * value(data.loss, argument(data.loss, row_dot(data.rows, i, w), data.y[i]))
    return total


def unbounded_curvature(loss: Loss) -> float:
    """The largest phi'' of a loss whose phi' has no bound, so that too long a step would be followed by a longer one.

    Zero for the others: their steps cannot explode.
    """
    return largest_curvature(loss) if isinstance(loss, UNBOUNDED_SLOPE) else 0.0
