"""The direction of subLBFGS: the best that the worst of all subgradients at w allows. See `sub_lbfgs`, (1).

    min_p  M(p) = 1/2 p'B^-1 p + sup_g g'p

A subgradient is a choice of alpha between those of the two sides, for each row at a kink.
Yu, Vishwanathan, Guenter, Schraudolph, JMLR 11, 2010: algorithm 2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, compiled_lean
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, Dense, Rows, add_row, row_dot, take
from maxmargin.data.source import Block, Labels, RowVector
from maxmargin.losses import argument, conjugate, derivative, sign, target
from maxmargin.problem import Problem
from maxmargin.solvers.newton.lbfgs import Memory, latest_scale, times_inverse
from maxmargin.solvers.planes.reduced import solve_reduced
from maxmargin.vectors import dot

_ACCURACY = 0.1  # of the direction: how much less than M(p) its bound may be
_ROUNDING = 1e-14


@compiled_lean
def sides_of(labels, z, tolerance, i):
    """alpha right and left of a kink within the tolerance; equal where there is none."""
    y, cost, loss = labels
    t = argument(loss, z[i], y[i])
    return -cost[i] * derivative(loss, t + tolerance), -cost[i] * derivative(loss, t - tolerance)


@compiled_lean
def offset_of(labels, alpha, i):
    """The part of the dual objective that a row has besides 1/2 |v|^2."""
    y, cost, loss = labels
    return alpha * target(loss, y[i]) - cost[i] * conjugate(loss, -alpha / cost[i])


# ---------------------------------------------------------------- rows at kinks


class Kinks(NamedTuple):
    """Rows within the tolerance of a kink, in a copy of their own: they are looked at again and again."""

    which: Array
    source: InMemory
    labels: Labels
    lower: Array  # alpha right of the kink
    upper: Array  # alpha left of it
    now: Array  # alpha of the subgradient at w


def count_kinks(problem: Problem, z: RowVector, tolerance: float) -> int:
    """How many rows are within the tolerance of a kink."""
    return problem.over_labels(_count, shared=[tolerance], reads=[z]).total


@compiled_lean
def _count(labels, tolerance, z):
    n = 0
    for i in range(len(z)):
        lower, upper = sides_of(labels, z, tolerance, i)
        n += lower != upper
    return n


def rows_at_kinks(problem: Problem, z: RowVector, tolerance: float, alpha: RowVector) -> Kinks:
    """The rows within the tolerance of a kink; `alpha` is that of the subgradient at w."""
    sides = problem.over_labels(_write_sides, shared=[tolerance], reads=[z], writes=[np.float64, np.float64])
    lower, upper = sides.vectors
    which = np.flatnonzero(lower != upper)
    parts: list[Rows] = problem.over_rows(_take, reads=[lower, upper]).results
    source = InMemory((_joined(parts),), problem.n_jobs)
    labels = Labels(problem.y[which], problem.cost[which], problem.loss)
    return Kinks(which, source, labels, lower[which], upper[which], alpha[which])


@compiled_lean
def _write_sides(labels, tolerance, z, lower, upper):
    for i in range(len(z)):
        lower[i], upper[i] = sides_of(labels, z, tolerance, i)


def _take(block: Block, lower: Array, upper: Array) -> Rows:
    return take(block.rows, np.flatnonzero(lower != upper))


def _joined(parts: Any) -> Rows:
    """The rows of all parts in one piece."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Dense):
        return _sealed(parts[0]._replace(values=np.concatenate([part.values for part in parts])))
    lengths = [np.diff(part.indptr) for part in parts]
    indptr = np.concatenate([[0], *lengths]).cumsum(dtype=parts[0].indptr.dtype)
    data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
    return _sealed(parts[0]._replace(data=data, indices=indices, indptr=indptr))


def _sealed(rows: Rows) -> Rows:
    for part in rows:
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return rows


@compiled_lean
def _add_largest(block, p, lower, upper, now, chosen, g):
    """Choose each alpha so that g'p is largest, and change g, which belongs to the alpha of now, accordingly."""
    rows, y, _, loss = block
    for k in range(len(y)):
        side = sign(loss, y[k])
        chosen[k] = lower[k] if side * row_dot(rows, k, p) > 0.0 else upper[k]
        if chosen[k] != now[k]:
            add_row(rows, k, (now[k] - chosen[k]) * side, g)


@compiled
def offset(labels, alpha):
    """The part of the dual objective that some rows have besides 1/2 |v|^2."""
    total = 0.0
    for k in range(len(alpha)):
        total += offset_of(labels, alpha[k], k)
    return total


# ---------------------------------------------------------------- the direction


class Direction(NamedTuple):
    """A solution of (1), or as good as one."""

    model: float  # M(p)
    slope: float  # the largest g'p
    p: Array
    mixture: Array
    alpha: Array  # of the rows at kinks


class Found(NamedTuple):
    """The subgradients found so far, one a line, and their best mixture."""

    g: Array
    Bg: Array
    alpha: Array  # of the rows at kinks
    gram: Array  # g_j'B g_k
    mix: Array  # shares in the mixture
    order: Array  # `_reduced` explains these
    factor: Array


def _room_for(n: int, n_weights: int, n_kinks: int) -> Found:
    long, square = (n, n_weights), (n, n)
    return Found(
        g=np.zeros(long),
        Bg=np.zeros(long),
        alpha=np.zeros((n, n_kinks)),
        gram=np.zeros(square),
        mix=np.zeros(n),
        order=np.zeros(n, dtype=np.int64),
        factor=np.zeros(square),
    )


def find_direction(memory: Memory, first: Array, kinks: Kinks, most: int) -> tuple[Direction, int]:
    """Algorithm 2, from the subgradient at w; and how many subgradients it took."""
    scale, most = latest_scale(memory), most if len(kinks.which) else 1
    found = _room_for(most, len(first), len(kinks.now))
    _add_found(found, 0, first, times_inverse(memory, scale, first), kinks.now)
    if not found.gram[0, 0] > 0.0:  # rounding has spoilt the pairs
        memory, scale = memory._replace(n=0), 1.0
        _add_found(found, 0, first, first, kinks.now)
    n_working, shift = 1, found.gram[0, 0] or 1.0
    found.mix[0], found.factor[0, 0] = 1.0, math.sqrt(found.gram[0, 0] + shift)
    p, mixture, best = -found.Bg[0], first, None
    for n in range(1, most + 1):
        newest, chosen = _largest(kinks, first, p)
        slope, bound = dot(newest, p), 0.5 * dot(p, mixture)
        if best is None or slope - bound < best.model:
            alpha = np.clip(_mixed(found.alpha, found.mix, n), kinks.lower, kinks.upper)
            best = Direction(slope - bound, slope, p, mixture, alpha)
        excess = best.model - bound  # over the least value that M can have
        is_accurate = best.slope < 0.0 and excess <= _ACCURACY * -best.model
        if n == most or is_accurate or excess <= _ROUNDING * found.gram[0, 0]:
            break
        _add_found(found, n, newest, times_inverse(memory, scale, newest), chosen)
        n_working, _ = solve_reduced(
            found.gram, np.zeros(n + 1), n + 1, found.mix, found.order, found.factor, n_working, shift
        )
        p, mixture = -_mixed(found.Bg, found.mix, n + 1), _mixed(found.g, found.mix, n + 1)
    assert best is not None
    return best, n


def _largest(kinks: Kinks, first: Array, p: Array) -> tuple[Array, Array]:
    """The subgradient g with the largest g'p, and its alpha at the kinks."""
    newest = first.copy()
    if len(kinks.which) == 0:
        return newest, np.zeros(0)
    reads = [kinks.lower, kinks.upper, kinks.now]
    done = kinks.source.make_pass(
        _add_largest, kinks.labels, shared=[p], reads=reads, writes=[np.float64], sums=[newest]
    )
    return done.sums[0], done.vectors[0]


def _add_found(found: Found, n: int, g: Array, Bg: Array, alpha: Array) -> None:
    found.g[n], found.Bg[n], found.alpha[n] = g, Bg, alpha
    _write_products(found.g, Bg, found.gram[n, : n + 1])
    found.gram[: n + 1, n] = found.gram[n, : n + 1]


@compiled(fastmath=DENSE_MATH)
def _write_products(lines, x, products):
    for k in range(len(products)):
        total = 0.0
        for j in range(len(x)):
            total += lines[k, j] * x[j]
        products[k] = total


def _mixed(lines: Array, mix: Array, n: int) -> Array:
    out = np.zeros(lines.shape[1])
    _add_lines(lines, mix, n, out)
    return out


@compiled(fastmath=DENSE_MATH)
def _add_lines(lines, mix, n, out):
    for k in range(n):
        if mix[k] > 0.0:
            for j in range(len(out)):
                out[j] += mix[k] * lines[k, j]


@compiled_lean
def choose_sides(labels, tolerance, z, dz, held, before, coefficients):
    """Coefficients with those of rows at kinks chosen; the change of b, and how many are not zero."""
    change, n_used = 0.0, 0
    for i in range(len(z)):
        coefficients[i] = before[i]
        lower, upper = sides_of(labels, z, tolerance, i)
        if lower != upper:
            side = sign(labels.loss, labels.y[i])
            alpha = lower if side * dz[i] > 0.0 else upper
            if not np.isnan(held[i]):
                alpha = min(max(held[i], lower), upper)
            change += offset_of(labels, alpha, i) - offset_of(labels, -before[i] * side, i)
            coefficients[i] = -alpha * side
        n_used += coefficients[i] != 0.0
    return change, n_used
