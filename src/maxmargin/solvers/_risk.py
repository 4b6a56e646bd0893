"""The risk that cutting-plane methods approximate: what they need to know of it, and all that they see of the data.

    R(w) = sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

A cutting plane is a sum of rows. Whatever u_i are chosen, Fenchel and Young have  phi(t) >= u t - phi*(u), so that

    R(w) >= a'w + b   with   a = sum_i C_i u_i sign_i x_i,     b = -sum_i C_i (phi*(u_i) + u_i target_i),

and equal to R at the w for which u_i = phi'(t_i). In this form the offset b does not come from the difference of two
large numbers, R(w) - a'w, and the inequality holds however inexact the outputs are that the u_i were made from.

Another risk is another object with the methods of `SumOfLosses`. It may tie rows together (all outputs are there when
`linearize` is called) and may have several outputs a row, as long as a plane is a sum of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin._jit import lean_kernel
from maxmargin.losses import argument, conjugate, derivative, sign, target, value
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.rows import (
    Array,
    Rows,
    add_row,
    default_blocks,
    n_stored,
    n_weights,
    prefetch_row,
    row_blocks,
    row_dot,
)
from maxmargin.solvers._line_search import line_search, vector_blocks

_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them


class Risk(Protocol):
    """A convex function of w, of which outputs x_i'w are all that matters."""

    def outputs(self, problem: Problem, w: Array, z: Array, begin: int, end: int) -> None:
        """Write the outputs of rows begin to end to z."""

    def value(self, problem: Problem, z: Array, z_t: Array, k: float, out: Array) -> float:
        """R where the outputs are z + k (z_t - z), which are written to `out`."""

    def linearize(self, problem: Problem, z: Array, z_t: Array, k: float, p: Array) -> float:
        """Coefficients of the rows in the plane that touches R where outputs are z + k (z_t - z); its offset b."""

    def add_rows(self, problem: Problem, p: Array, a: Array, begin: int, end: int) -> None:
        """Add the rows begin to end, each times its coefficient, to a."""

    def line_search(self, problem: Problem, z: Array, z_t: Array, A0: float, B0: float) -> float:
        """The k >= 0 for which 1/2 A0 k^2 + B0 k + R is least, on the line from outputs z (k = 0) to z_t (k = 1)."""


class SumOfLosses(NamedTuple):
    """The risk of `Problem`: a loss for each row, weighed by its cost."""

    def outputs(self, problem: Problem, w: Array, z: Array, begin: int, end: int) -> None:
        """Write x_i'w of rows begin to end to z."""
        borders = np.unique(np.clip(default_blocks(problem.rows), begin, end))
        map_blocks(lambda lo, hi: _outputs(problem.rows, w, z, lo, hi), borders, problem.n_jobs)

    def value(self, problem: Problem, z: Array, z_t: Array, k: float, out: Array) -> float:
        """Sum of C_i phi(t_i)."""
        return _sum(_value, problem, z, z_t, k, out)

    def linearize(self, problem: Problem, z: Array, z_t: Array, k: float, p: Array) -> float:
        """Write C_i phi'(t_i) sign_i to p."""
        return _sum(_linearize, problem, z, z_t, k, p)

    def add_rows(self, problem: Problem, p: Array, a: Array, begin: int, end: int) -> None:
        """Add p_i x_i of rows begin to end to a; where there are several `plane_blocks`, whole ones."""
        blocks = plane_blocks(problem.rows)

        def block(lo: int, hi: int) -> Array:
            part = a if lo < blocks[1] else np.zeros_like(a)
            _add_rows(problem.rows, p, part, lo, hi)
            return part

        for part in map_blocks(block, np.unique(np.clip(blocks, begin, end)), problem.n_jobs):
            if part is not a:
                a += part

    def line_search(self, problem: Problem, z: Array, z_t: Array, A0: float, B0: float) -> float:
        """Exact, in linear time."""
        return line_search(problem, z, z_t, A0, B0)


def plane_blocks(rows: Rows) -> Array:
    """Blocks whose sums make a plane: few where a plane is not small beside the data."""
    affordable = n_stored(rows) // (8 * n_weights(rows))
    return row_blocks(rows, max(1, min(16, n_stored(rows) >> 19, affordable)))


def _sum(block: Any, problem: Problem, z: Array, z_t: Array, k: float, out: Array) -> float:
    """Run a kernel below over all rows."""
    labels, borders = (problem.y, problem.cost, problem.loss), vector_blocks(len(z))
    return float(sum(map_blocks(lambda lo, hi: block(labels, z, z_t, k, out, lo, hi), borders, problem.n_jobs)))


@lean_kernel
def _outputs(rows, w, z, lo, hi):
    for i in range(lo, hi):
        z[i] = row_dot(rows, i, w)


@lean_kernel
def _value(labels, z, z_t, k, out, lo, hi):
    y, cost, loss = labels
    total = 0.0
    for i in range(lo, hi):
        out[i] = z[i] + k * (z_t[i] - z[i])
        total += cost[i] * value(loss, argument(loss, out[i], y[i]))
    return total


@lean_kernel
def _linearize(labels, z, z_t, k, p, lo, hi):
    y, cost, loss = labels
    b = 0.0
    for i in range(lo, hi):
        u = derivative(loss, argument(loss, z[i] + k * (z_t[i] - z[i]), y[i]))
        b -= cost[i] * (conjugate(loss, u) + u * target(loss, y[i]))
        p[i] = cost[i] * u * sign(loss, y[i])
    return b


@lean_kernel
def _add_rows(rows, p, a, lo, hi):
    for i in range(lo, hi):
        if i + _LOOKAHEAD < hi and p[i + _LOOKAHEAD] != 0.0:
            prefetch_row(rows, i + _LOOKAHEAD)  # the processor does not expect that rows are left out
        if p[i] != 0.0:
            add_row(rows, i, p[i], a)
