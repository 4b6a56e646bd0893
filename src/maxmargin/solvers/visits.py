"""The order in which solvers visit rows one by one, and how far they are.

Rows without a cost are never visited. Other rows come in one of three orders, made anew for every pass:

shuffled
    A random permutation.
mixed
    Neighbours are visited close to one another in time: groups of four are put in random order, and then the rows of
    128 groups. Rows are fetched from memory group by group while those before are being visited.
drawn
    Each row is drawn from all of them, with replacement.

A pass that is over is closed when the next one begins, by the solver: until then `position` is the number of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_lean, prefetch
from maxmargin._random import random_below, shuffle
from maxmargin.data.rows import Array, prefetch_row
from maxmargin.problem import Problem

LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
MIXED = 512  # rows, of many groups, whose order is random
_NEIGHBOURS = 4  # rows of a group


class Examples(NamedTuple):
    """What kernels read of a problem whose rows they visit one by one."""

    rows: Any  # Dense or CSR, or rows in another order
    y: Array
    cost: Array
    norms2: Array
    loss: Any


def examples(problem: Problem) -> Examples:
    """The rows of a problem, and what is known of each."""
    return Examples(problem.rows, problem.y, problem.cost, problem.norms2, problem.loss)


@compiled_lean
def prefetch_example(data, i):
    """Start to load a row and what is known of it."""
    prefetch_row(data.rows, i)
    prefetch(data.y, i)
    prefetch(data.cost, i)
    prefetch(data.norms2, i)


@compiled_lean
def prefetch_visit(data, vector, order, k):
    """Start to load what visit k of a pass looks at: a row, what is known of it, and its entry of a vector."""
    if k < len(order):
        ahead = np.int64(order[k])
        prefetch_example(data, ahead)
        prefetch(vector, ahead)


class Visits(NamedTuple):
    """The order of the rows in this pass, and how far a solver is."""

    order: Array
    ahead: Array  # the same rows in the order in which they are fetched from memory
    rng: Array  # random state
    position: int  # of the next row in the order
    count: int  # type: ignore[assignment]  # rows visited so far, in all passes
    next_certificate: int  # due when so many rows have been visited

    @property
    def n_rows(self) -> int:
        """Number of rows of a pass."""
        return len(self.order)

    @property
    def n_closed(self) -> int:
        """Number of passes before the present one."""
        return (self.count - self.position) // len(self.order)

    @property
    def is_over(self) -> bool:
        """Whether all rows of this pass have been visited."""
        return self.position == len(self.order)

    def advanced(self, n: int) -> Visits:
        """The same after n more rows of this pass."""
        return self._replace(position=self.position + n, count=self.count + n)

    def later_certificate(self) -> Visits:
        """The same with the next certificate after as many passes again: at 1, 2, 4, 8... passes."""
        n_passes = max(1, 2 * (self.count // len(self.order)))
        return self._replace(next_certificate=n_passes * len(self.order))


def new_visits(problem: Problem, rng: Array) -> Visits:
    """Before the first visit: the rows as they lie."""
    order = rows_with_cost(problem)
    return Visits(order, order.copy(), rng, 0, 0, len(order))


def rows_with_cost(problem: Problem) -> Array:
    """The rows that have a cost; one without is as good as absent."""
    if problem.n_rows >= 2**32:
        raise ValueError(f"solvers that visit rows one by one take fewer than 2^32 rows, got {problem.n_rows}")
    return np.flatnonzero(problem.cost > 0.0).astype(np.uint32)


# ---------------------------------------------------------------- orders, in place


def shuffle_rows(visits: Visits) -> Visits:
    """Begin a pass over the rows in random order."""
    shuffle(visits.order, len(visits.order), visits.rng)
    return visits._replace(position=0)


def mix_rows(problem: Problem, visits: Visits) -> Visits:
    """Begin a pass that visits neighbours close to one another in time."""
    rows = rows_with_cost(problem)
    groups = np.arange(-(-len(rows) // _NEIGHBOURS)).astype(np.uint32)
    _mix(rows, groups, visits.order, visits.ahead, visits.rng)
    return visits._replace(position=0)


def draw_rows(problem: Problem, visits: Visits) -> Visits:
    """Begin a pass over rows that are drawn with replacement."""
    draw(rows_with_cost(problem), visits.order, visits.rng)
    visits.ahead[:] = visits.order
    return visits._replace(position=0)


@compiled
def draw(rows, order, rng):
    """Fill `order` with rows, each drawn from all."""
    for k in range(len(order)):
        order[k] = rows[random_below(rng, len(rows))]


@compiled
def _mix(rows, groups, order, ahead, rng):
    n = len(rows)
    if n > MIXED:
        shuffle(groups, len(groups), rng)
    k = 0
    for g in range(len(groups)):
        first = np.int64(groups[g]) * _NEIGHBOURS
        for j in range(first, min(first + np.int64(_NEIGHBOURS), np.int64(n))):
            ahead[k] = rows[j]
            order[k] = rows[j]
            k += 1
    for begin in range(0, n, MIXED):
        some = order[begin : min(n, begin + MIXED)]
        shuffle(some, len(some), rng)
