"""Kernel methods that learn from one row after another, on a part of a stream.

A method's own fit visits the rows of a problem again and again, in random order. On a stream it takes the same steps,
once for each row, in the order in which they come. What is kept of the past are the rows of the expansion; they are the
first rows of the problem that a part makes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem


class Horizon(NamedTuple):
    """The rows that an objective is made for: lambda = 1 / cost, where cost = C n unless rows have weights."""

    n: int
    cost: float


def learn(solver: Any, problem: KernelProblem, state: Any, horizon: Horizon) -> Any:
    """Take the steps of a solver for each row that is new, in their order.

    Parameters
    ----------
    solver : NORMA or KernelPegasos
    problem : KernelProblem
        The rows of the expansion so far, then the new ones, all of positive cost.
    state : state of the solver, or None
        Of the rows of the expansion so far; it is not changed.
    horizon : Horizon
    """
    n = problem.n_rows
    begin = 0
    if state is None:
        state = solver.init_state(problem)
    else:
        begin = len(state.beta)
        grown = {name: np.zeros(n, getattr(state, name).dtype) for name in solver.per_row}
        for name, column in grown.items():
            column[:begin] = getattr(state, name)
        state = state._replace(**grown)
    state = state._replace(order=np.arange(begin, n), position=0)
    while state.position < n - begin:
        state = solver.step(problem, state, horizon)
    return state


def of_rows(solver: Any, state: Any, which: Array) -> Any:
    """The state of some of the rows: the others are no part of the expansion."""
    return state._replace(**{name: getattr(state, name)[which] for name in solver.per_row})
