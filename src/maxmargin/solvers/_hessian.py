"""What second-order methods need of the rows: value and gradient in one walk, and the Hessian in two forms.

    P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i)      gradient  w + sum_i C_i phi'(t_i) sign_i x_i
                                               Hessian   I + sum_i D_i x_i x_i',   D_i = C_i phi''(t_i)

Where phi is flat, D_i is zero and the row does not count: a squared hinge is curved inside the margin only. The sum
over the rows that count comes as a product with a vector (`add_hessian_product`: an inner product and an update for
each row, one walk over memory) or as a matrix (`add_gram`: it costs more, but serves a whole Newton step).

All sums are made of some rows at a time. A large number of rows is divided into blocks, which are added in their
order and do not depend on the number of threads: nor do the bits. A single block adds row by row to what there is,
so that its rows can be visited in one go or in several, to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin._jit import DENSE_MATH, generic, kernel, lean_kernel
from maxmargin.losses import (
    Huber,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
    argument,
    derivative,
    sign,
    value,
)
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.rows import CSR, Array, Dense, Rows, add_row, n_stored, prefetch_row, row_dot

SMOOTH = (SquaredHinge, Logistic, Huber, SquaredError, SquaredEpsilonInsensitive)

_MOST_BLOCKS = 8
_LEAST_BLOCK = 1 << 18  # stored values that are worth a thread
_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_PANEL = 128  # rows that are multiplied at once: with 500 features they fit the second-level cache
_TILE = 4  # columns of a panel come in multiples of it


# ---------------------------------------------------------------- phi''(t)


@generic
def second_derivative(loss, t):
    """phi''(t), or that of one side where phi' has a kink."""
    raise TypeError(f"not a smooth loss: {loss!r}")


@second_derivative.register(SquaredHinge)
def _(loss, t):
    return 2.0 if t < 1.0 else 0.0


@second_derivative.register(Huber)
def _(loss, t):
    return 1.0 / loss.delta if 1.0 - loss.delta < t < 1.0 else 0.0


@second_derivative.register(Logistic)
def _(loss, t):
    decay = np.exp(-abs(t))
    return decay / ((1.0 + decay) * (1.0 + decay))


@second_derivative.register(SquaredError)
def _(loss, t):
    return 2.0


@second_derivative.register(SquaredEpsilonInsensitive)
def _(loss, t):
    return 2.0 if abs(t) > loss.epsilon else 0.0


# ---------------------------------------------------------------- numbers of rows, without a look at X


@kernel
def dot(a, b):
    """Inner product. That of BLAS wakes its threads for long vectors, which takes longer than the sum."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


def curvatures(problem: Problem, z: Array) -> Array:
    """D_i of each row, at the point whose x_i'w are z."""
    labels, D = (problem.y, problem.cost, problem.loss), np.empty(len(z))
    map_blocks(lambda lo, hi: _curvatures(labels, z, D, lo, hi), line_blocks(z), problem.n_jobs)
    return D


@lean_kernel
def _curvatures(labels, z, D, lo, hi):
    y, cost, loss = labels
    for i in range(lo, hi):
        D[i] = cost[i] * second_derivative(loss, argument(loss, z[i], y[i]))


def slope(problem: Problem, z: Array, dz: Array, step: float) -> tuple[float, float]:
    """First and second derivative of sum_i C_i phi(t_i) along a line, at z + step dz."""
    labels = problem.y, problem.cost, problem.loss
    parts = map_blocks(lambda lo, hi: _slope(labels, z, dz, step, lo, hi), line_blocks(z), problem.n_jobs)
    first, second = zip(*parts)
    return sum(first), sum(second)


@lean_kernel
def _slope(labels, z, dz, step, lo, hi):
    y, cost, loss = labels
    first, second = 0.0, 0.0
    for i in range(lo, hi):
        if cost[i] > 0.0:
            t, dt = argument(loss, z[i] + step * dz[i], y[i]), sign(loss, y[i]) * dz[i]
            first += cost[i] * derivative(loss, t) * dt
            second += cost[i] * second_derivative(loss, t) * dt * dt
    return first, second


def line_blocks(z: Array) -> Array:
    """The blocks over which sums of numbers of rows are divided."""
    return np.linspace(0, len(z), max(1, min(64, len(z) >> 15)) + 1).astype(np.int64)


def best_step(slope: Callable[[float], tuple[float, float]], slope_at_0: float) -> float:
    """Where a convex function is least along a line, to a tenth of its slope: Newton's method, kept in an interval.

    ``slope(step)`` gives its first and second derivative. The full step is tried first.
    """
    step, low, high = 1.0, 0.0, math.inf
    for _ in range(100):
        first, second = slope(step)
        if abs(first) <= 0.1 * abs(slope_at_0):
            break
        if first > 0.0:
            high = step
        else:
            low = step
        step -= first / second if second > 0.0 else math.inf
        if not low < step < high:
            step = 0.5 * (low + high) if high < math.inf else 2.0 * low
        elif high == math.inf:
            step = min(step, 10.0 * low)
    return step


# ---------------------------------------------------------------- sums over rows


def n_blocks(rows: Rows, work: float, size: int) -> int:
    """How many blocks a sum of `size` numbers is made of that takes so much work; their parts are small beside X."""
    return max(1, min(_MOST_BLOCKS, int(work) // _LEAST_BLOCK, n_stored(rows) // (3 * size)))


def _add_blocks(
    add: Callable[[Array, int, int], Any], out: Array, begin: int, end: int, n: int, n_jobs: int
) -> list[Any]:
    """Let `add(part, lo, hi)` add to `out` for n blocks; the first one does so directly. What it returned."""

    def block(lo: int, hi: int) -> tuple[Array, Any]:
        part = out if lo == begin else np.zeros_like(out)
        return part, add(part, lo, hi)

    borders = np.unique(np.linspace(begin, end, n + 1).astype(np.int64))
    results = map_blocks(block, borders, n_jobs)
    for part, _ in results[1:]:
        out += part
    return [returned for _, returned in results]


def add_evaluation(
    problem: Problem, w: Array, z: Array, gradient: Array, risk: float, begin: int, end: int, n: int
) -> float:
    """Evaluate rows begin to end at w: write their x_i'w to z, add to the gradient; the risk with theirs added."""
    data = problem.rows, problem.y, problem.cost, problem.loss

    def add(part: Array, lo: int, hi: int) -> float:
        return _add_evaluation(data, w, z, part, risk if lo == begin else 0.0, lo, hi)

    return sum(_add_blocks(add, gradient, begin, end, n, problem.n_jobs))


@lean_kernel
def _add_evaluation(data, w, z, gradient, risk, lo, hi):
    rows, y, cost, loss = data
    for i in range(lo, hi):
        if cost[i] > 0.0:
            z[i] = row_dot(rows, i, w)
            t = argument(loss, z[i], y[i])
            risk += cost[i] * value(loss, t)
            slope = cost[i] * derivative(loss, t)
            if slope != 0.0:
                add_row(rows, i, slope * sign(loss, y[i]), gradient)
    return risk


def add_rows(problem: Problem, which: Array, coefficients: Array, out: Array, n: int) -> None:
    """Add coefficients[k] x for the rows x of index which[k]."""

    def add(part: Array, lo: int, hi: int) -> None:
        _add_rows(problem.rows, which, coefficients, part, lo, hi)

    _add_blocks(add, out, 0, len(which), n, problem.n_jobs)


@lean_kernel
def _add_rows(rows, which, coefficients, out, lo, hi):
    for k in range(lo, hi):
        if k + _LOOKAHEAD < hi:
            prefetch_row(rows, which[k + _LOOKAHEAD])
        add_row(rows, which[k], coefficients[k], out)


def add_column_squares(problem: Problem, columns: Array, begin: int, end: int, n: int) -> None:
    """Add C_i x_ij^2 of rows begin to end to each column j."""

    def add(part: Array, lo: int, hi: int) -> None:
        _add_column_squares(problem.rows, problem.cost, part, lo, hi)

    _add_blocks(add, columns, begin, end, n, problem.n_jobs)


@generic
def _add_squares(rows, i, scale, out):
    """Add `scale` times the squares of row i to `out`."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_add_squares.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, scale, out):
    n = rows.values.shape[1]
    for j in range(n):
        x = np.float64(rows.values[i, j])
        out[j] += scale * x * x
    if rows.bias != 0.0:
        out[n] += scale * rows.bias * rows.bias


@_add_squares.register(CSR)
def _(rows, i, scale, out):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        x = np.float64(rows.data[p])
        out[rows.indices[p]] += scale * x * x
    if rows.bias != 0.0:
        out[rows.n_features] += scale * rows.bias * rows.bias


@lean_kernel
def _add_column_squares(rows, cost, out, lo, hi):
    for i in range(lo, hi):
        if cost[i] > 0.0:
            _add_squares(rows, i, cost[i], out)


def add_hessian_product(problem: Problem, which: Array, D: Array, v: Array, out: Array, n: int) -> None:
    """Add D_k (x'v) x for the rows x of index which[k]."""

    def add(part: Array, lo: int, hi: int) -> None:
        _add_hessian_product(problem.rows, which, D, v, part, lo, hi)

    _add_blocks(add, out, 0, len(which), n, problem.n_jobs)


@lean_kernel
def _add_hessian_product(rows, which, D, v, out, lo, hi):
    for k in range(lo, hi):
        if k + _LOOKAHEAD < hi:
            prefetch_row(rows, which[k + _LOOKAHEAD])
        i = which[k]
        add_row(rows, i, D[k] * row_dot(rows, i, v), out)


# ---------------------------------------------------------------- the Hessian as a matrix


def padded(n: int) -> int:
    """The size of a matrix for `add_gram`: n rounded up to whole tiles."""
    return -(-n // _TILE) * _TILE


def add_gram(problem: Problem, which: Array, D: Array, out: Array, n: int) -> None:
    """Add D_k x x' for the rows x of index which[k] to the upper triangle; what is below it means nothing.

    Unlike `maxmargin.gram`, it takes weights of any sign and looks at no other rows: it serves to change a matrix.
    """

    def add(part: Array, lo: int, hi: int) -> None:
        panel = np.zeros((2, len(out), _PANEL)) if isinstance(problem.rows, Dense) else np.zeros((2, 0, 0))
        _add_gram(problem.rows, which, D, panel[0], panel[1], part, lo, hi)

    _add_blocks(add, out, 0, len(which), n, problem.n_jobs)


def gram_work(problem: Problem) -> float:
    """Multiplications that the matrix of all rows takes."""
    if isinstance(problem.rows, CSR):
        sizes = np.diff(problem.rows.indptr).astype(np.float64) + (problem.rows.bias != 0.0)
        return dot(sizes, sizes + 1.0) / 2.0
    return problem.n_rows * problem.n_weights * (problem.n_weights + 1) / 2.0


@lean_kernel
def _add_gram(rows, which, D, columns, scaled, out, lo, hi):
    for begin in range(lo, hi, _PANEL):
        _add_gram_of_panel(rows, which, D, columns, scaled, out, begin, min(begin + _PANEL, hi))


@generic
def _add_gram_of_panel(rows, which, D, columns, scaled, out, begin, end):
    """Add D_k x x' for rows which[begin:end], at most `_PANEL` of them, to the upper triangle of `out`."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_add_gram_of_panel.register(CSR)
def _(rows, which, D, columns, scaled, out, begin, end):
    for k in range(begin, end):
        first, last = np.uint64(rows.indptr[which[k]]), np.uint64(rows.indptr[which[k] + 1])
        for p in range(first, last):
            scale, line = D[k] * rows.data[p], out[np.uint64(rows.indices[p])]
            for q in range(p, last):  # indices ascend: these are not left of the diagonal
                line[np.uint64(rows.indices[q])] += scale * rows.data[q]
            if rows.bias != 0.0:
                line[rows.n_features] += scale * rows.bias
        if rows.bias != 0.0:
            out[rows.n_features, rows.n_features] += D[k] * rows.bias * rows.bias


@_add_gram_of_panel.register(Dense, fastmath=DENSE_MATH)
def _(rows, which, D, columns, scaled, out, begin, end):
    # Transposed, so that products of columns run along memory; four rows at a time, which writes whole cache lines.
    values = rows.values
    n, size = values.shape[1], end - begin
    for k in range(0, size - 3, 4):
        a, b, c, d = which[begin + k], which[begin + k + 1], which[begin + k + 2], which[begin + k + 3]
        for j in range(n):
            columns[j, k], columns[j, k + 1] = values[a, j], values[b, j]
            columns[j, k + 2], columns[j, k + 3] = values[c, j], values[d, j]
    for k in range(size - size % 4, size):
        for j in range(n):
            columns[j, k] = values[which[begin + k], j]
    if rows.bias != 0.0:
        for k in range(size):
            columns[n, k] = rows.bias
    for j in range(n + (rows.bias != 0.0)):
        for k in range(size):
            scaled[j, k] = D[begin + k] * columns[j, k]
    _add_products_of_columns(columns, scaled, size, out)


@kernel(fastmath=DENSE_MATH)
def _add_products_of_columns(columns, scaled, size, out):
    """out_ij += columns_i' scaled_j for i <= j, and for some i > j, which does no harm.

    Eight sums at once: each number that is loaded serves two or four of them, and all of them fit the registers.
    """
    for j in range(0, len(out), _TILE):
        for i in range(0, j + _TILE, 2):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            for k in range(size):
                x, y = columns[i, k], columns[i + 1, k]
                s00 += x * scaled[j, k]
                s01 += x * scaled[j + 1, k]
                s02 += x * scaled[j + 2, k]
                s03 += x * scaled[j + 3, k]
                s10 += y * scaled[j, k]
                s11 += y * scaled[j + 1, k]
                s12 += y * scaled[j + 2, k]
                s13 += y * scaled[j + 3, k]
            out[i, j] += s00
            out[i, j + 1] += s01
            out[i, j + 2] += s02
            out[i, j + 3] += s03
            out[i + 1, j] += s10
            out[i + 1, j + 1] += s11
            out[i + 1, j + 2] += s12
            out[i + 1, j + 3] += s13
