"""Where kernel solvers begin: feasible coefficients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem


class Solution(NamedTuple):
    """Coefficients and intercept, and nothing else: what a warm start needs."""

    beta: Array
    intercept: float

    @property
    def w(self) -> Array:
        """The coefficients."""
        return self.beta


def starting_coefficients(problem: KernelProblem, start: Any = None) -> Array:
    """A copy of the coefficients of a result, a state or an array; zeros without."""
    n = problem.n_rows
    state = getattr(start, "state", start)
    beta = np.zeros(n) if start is None else np.array(getattr(state, "beta", state), dtype=np.float64)
    if beta.shape != (n,):
        raise ValueError(f"cannot start at {beta.size} coefficients: the problem has {n} rows")
    return beta


def starting_point(problem: KernelProblem, start: Any = None) -> Array:
    """Feasible coefficients: those of another state drawn into the box, or as few as can be that are not zero.

    Zero is feasible unless the coefficients have a sum to keep (one class); then the first rows are at their upper
    bounds, as in LIBSVM.
    """
    beta = np.clip(starting_coefficients(problem, start), problem.lower, problem.upper)
    return beta if problem.penalize_intercept else balanced(problem, beta)


def balanced(problem: KernelProblem, beta: Array) -> Array:
    """Coefficients within the box whose sum is right: the heavier side is scaled down, or upper bounds are filled."""
    excess = float(beta.sum()) - problem.total
    size = float(np.abs(beta).sum())
    if abs(excess) <= 1e-14 * max(size, problem.total):
        return beta
    beta = beta.copy()
    if excess > 0.0:
        above = float(beta[beta > 0.0].sum())
        beta[beta > 0.0] *= (above - excess) / above
        return beta
    below = -float(beta[beta < 0.0].sum())
    if below >= -excess:
        beta[beta < 0.0] *= (below + excess) / below
        return beta
    room = np.cumsum(problem.upper - beta)
    fill = np.clip(-excess - np.concatenate([[0.0], room[:-1]]), 0.0, problem.upper - beta)
    return np.minimum(beta + fill, problem.upper)
