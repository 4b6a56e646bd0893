"""The least value of the objective along a line, exactly, in linear time.

    G(k) = 1/2 A0 k^2 + B0 k + sum_i C_i phi(t_i + k d_i),      k >= 0

t_i is the loss' argument where the line starts, t_i + d_i where it passes k = 1. G is convex: its slope only grows, and
the best k is where it crosses zero.

The derivative of every loss here but the logistic is piecewise linear with one or two kinks (`pieces`), so the slope
of G changes its form at one or two places a row, its breakpoints. Franc and Sonnenburg (appendix A) sort them. Here
they are selected, which takes linear time: breakpoints fall into buckets that divide 0 < k < infinity, and of each
bucket only the change of the slope over it is summed. These sums show in which bucket the slope crosses zero; its
breakpoints, one in a hundred or so, are divided into buckets again, until those that are left are few enough to sort.

A round is a sum over blocks of rows: 255 pairs of numbers, whatever the number of rows, and a choice made once for all
blocks. Blocks are added in their order, so that any number of threads gives the same bits; they could as well be
partitions on many machines.

For smooth losses (`Logistic`) Newton's method in one variable, kept in an interval, sums first and second derivatives.

Paper -> code: k, A0, B0 as they are, B_i -> -C_i d_i and C_i -> C_i (1 - t_i) for the hinge loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import generic, lean_kernel
from maxmargin.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
    argument,
    sign,
)
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.rows import Array
from maxmargin.solvers._hessian import slope

_BUCKETS = 255  # one less than a byte has values: the last one says that there is no breakpoint ahead
_NONE = 255
_FEW = 4096  # breakpoints that are sorted
_MOST_ROUNDS = 8  # each divides the range by 255: after eight, what is left is one place, or as good as that
_EXACT = 1e-12  # of the slope at zero, for Newton's method


class Pieces(NamedTuple):
    """phi'(t) = level + curvature t left of all kinks; a kink adds jump + bend (t - place) right of its place."""

    level: float
    curvature: float
    n_kinks: int
    first: tuple[float, float, float]  # place, jump, bend
    second: tuple[float, float, float]


_NO_KINK = (0.0, 0.0, 0.0)


@generic
def pieces(loss):
    """The derivative of a loss as linear pieces."""
    raise TypeError(f"the derivative of {loss!r} is not piecewise linear")


@pieces.register(Hinge)
def _(loss):
    return Pieces(-1.0, 0.0, 1, (1.0, 1.0, 0.0), _NO_KINK)


@pieces.register(SquaredHinge)
def _(loss):
    return Pieces(-2.0, 2.0, 1, (1.0, 0.0, -2.0), _NO_KINK)


@pieces.register(Huber)
def _(loss):
    return Pieces(-1.0, 0.0, 2, (1.0 - loss.delta, 0.0, 1.0 / loss.delta), (1.0, 0.0, -1.0 / loss.delta))


@pieces.register(SquaredError)
def _(loss):
    return Pieces(0.0, 2.0, 0, _NO_KINK, _NO_KINK)


@pieces.register(EpsilonInsensitive)
def _(loss):
    return Pieces(-1.0, 0.0, 2, (-loss.epsilon, 1.0, 0.0), (loss.epsilon, 1.0, 0.0))


@pieces.register(SquaredEpsilonInsensitive)
def _(loss):
    return Pieces(2.0 * loss.epsilon, 2.0, 2, (-loss.epsilon, 0.0, -2.0), (loss.epsilon, 0.0, 2.0))


PIECEWISE = (Hinge, SquaredHinge, Huber, SquaredError, EpsilonInsensitive, SquaredEpsilonInsensitive)


class Slope(NamedTuple):
    """G'(k) = constant + linear k, for k between low and high if no breakpoint is there."""

    constant: float
    linear: float
    low: float = 0.0
    high: float = math.inf


def line_search(problem: Problem, z: Array, z_t: Array, A0: float, B0: float) -> float:
    """The k >= 0 for which G is least, between outputs z (k = 0) and z_t (k = 1) and beyond."""
    if A0 <= 0.0:
        return 0.0  # the same point twice
    if not isinstance(problem.loss, PIECEWISE):
        return _newton(problem, z, z_t, A0, B0)
    labels = problem.y, problem.cost, problem.loss
    borders, n_jobs = vector_blocks(len(z)), problem.n_jobs
    codes = np.empty((len(z), pieces(problem.loss).n_kinks), dtype=np.uint8)

    def first_round(lo: int, hi: int) -> tuple[Array, tuple[float, float]]:
        changes = np.zeros((_BUCKETS + 1, 2))
        return changes, _sort_rows(labels, z, z_t, codes, changes, lo, hi)

    sums = map_blocks(first_round, borders, n_jobs)
    start = Slope(B0 + sum(at_0[0] for _, at_0 in sums), A0 + sum(at_0[1] for _, at_0 in sums))
    inner = np.arange(1, _BUCKETS)
    ends = np.append(inner / (_BUCKETS - inner), math.inf)  # of buckets that are equally wide in k / (1 + k)
    bucket, found = _choose(start, _total([changes[:_BUCKETS] for changes, _ in sums]), ends)

    def collect(lo: int, hi: int) -> Array:
        inside = np.flatnonzero(codes[lo:hi] == bucket)
        points = np.empty((3, len(inside)))
        if len(inside):
            _write_breakpoints(labels, z, z_t, inside, points, lo)
        return points

    return _select(found, map_blocks(collect, borders))  # too little to do for threads


def vector_blocks(n: int) -> Array:
    """Blocks of a vector with one number a row; they depend on its length alone."""
    return np.linspace(0, n, max(1, min(64, n >> 15)) + 1).astype(np.int64)


def _select(found: Slope, parts: list[Array]) -> float:
    """Where the slope is zero, given the breakpoints of each block: see `_write_breakpoints`."""
    for _ in range(_MOST_ROUNDS):
        parts = [part for part in parts if part.shape[1]]
        if sum(part.shape[1] for part in parts) <= _FEW:
            break
        grid = _Grid(min(part[0].min() for part in parts), max(part[0].max() for part in parts))
        if grid.low == grid.high:
            break
        bucket, found = _choose(found, _total([grid.changes(part) for part in parts]), grid.ends())
        parts = [part[:, grid.buckets(part) == bucket] for part in parts]
    points = np.concatenate([np.empty((3, 0)), *parts], axis=1)
    return _walk(found, points[:, np.argsort(points[0], kind="stable")])


class _Grid(NamedTuple):
    """Buckets of equal width between two breakpoints."""

    low: float
    high: float

    def ends(self) -> Array:
        """Where each bucket ends; the last one has what comes after all breakpoints."""
        return np.append(self.low + (self.high - self.low) * np.arange(1, _BUCKETS) / _BUCKETS, math.inf)

    def buckets(self, points: Array) -> Array:
        """In which bucket each breakpoint is."""
        share = (points[0] - self.low) / (self.high - self.low)
        return np.minimum((share * _BUCKETS).astype(np.int64), _BUCKETS - 1)

    def changes(self, points: Array) -> Array:
        """How constant and linear change over each bucket."""
        bucket = self.buckets(points)
        return np.stack([np.bincount(bucket, change, minlength=_BUCKETS) for change in points[1:]], axis=1)


def _total(blocks: list[Array]) -> Array:
    """Sums over blocks, in their order."""
    total, *others = blocks
    for block in others:
        total += block
    return total


def _choose(slope_before: Slope, changes: Array, ends: Array) -> tuple[int, Slope]:
    """The first bucket at whose end the slope is not negative, and the slope as it is before that bucket."""
    constants, linears = (before + np.concatenate([[0.0], np.cumsum(c)]) for before, c in zip(slope_before, changes.T))
    ends = np.minimum(ends, slope_before.high)
    is_past = constants[1:-1] + linears[1:-1] * ends[:-1] >= 0.0
    bucket = int(np.argmax(is_past)) if is_past.any() else len(ends) - 1  # beyond the last end there is nothing
    low = ends[bucket - 1] if bucket else slope_before.low
    return bucket, Slope(*(float(x) for x in (constants[bucket], linears[bucket], low, ends[bucket])))


def _walk(found: Slope, points: Array) -> float:
    """Where the slope is zero, given the breakpoints in ascending order."""
    places = points[0]
    constant = found.constant + np.concatenate([[0.0], np.cumsum(points[1])])
    linear = found.linear + np.concatenate([[0.0], np.cumsum(points[2])])
    is_past = constant[1:] + linear[1:] * places >= 0.0  # the slope right of each breakpoint
    i = int(np.argmax(is_past)) if is_past.any() else len(places)
    if i < len(places) and constant[i] + linear[i] * places[i] < 0.0:
        return float(places[i])
    low = float(places[i - 1]) if i > 0 else found.low
    high = float(places[i]) if i < len(places) else found.high
    return min(max(-constant[i] / linear[i] if linear[i] > 0.0 else high, low), high)


# ---------------------------------------------------------------- breakpoints


@lean_kernel
def _sort_rows(labels, z, z_t, codes, changes, lo, hi):
    """Sum the changes of the slope of rows lo to hi by bucket, and note the buckets; the slope before all breakpoints.

    k / (1 + k), which is at most one, tells the bucket of a breakpoint k. Half of the rows have no breakpoint ahead, no
    one knows which: rows take the same way through this loop whether they have or not, which is three times faster.
    """
    y, cost, loss = labels
    form = pieces(loss)
    is_curved = form.curvature != 0.0 or form.first[2] != 0.0  # known when this is compiled, as are the bends below
    constant, linear = 0.0, 0.0
    for i in range(lo, hi):
        t, d = argument(loss, z[i], y[i]), sign(loss, y[i]) * (z_t[i] - z[i])
        by_length = cost[i] * abs(d)
        level, curvature = form.level, form.curvature
        if is_curved:
            level += form.curvature * t
        for n in range(form.n_kinks):
            place, jump, bend = form.first if n == 0 else form.second
            is_right = (t > place) | ((t == place) & (d < 0.0))
            way = (place - t) * (1.0 if d > 0.0 else -1.0)
            is_ahead = (way >= 0.0) & (by_length > 0.0)
            share = way / (way + abs(d)) if is_ahead else 1.0
            bucket = np.uint8(_BUCKETS * share)
            bucket = bucket if bucket < _BUCKETS else np.uint8(_BUCKETS - is_ahead)
            codes[i, n] = bucket
            level += jump if is_right else 0.0
            changes[bucket, 0] += by_length * jump
            if bend != 0.0:
                level += bend * (t - place) if is_right else 0.0
                curvature += bend if is_right else 0.0
                changes[bucket, 0] -= cost[i] * abs(d) * bend * (place - t)
                changes[bucket, 1] += cost[i] * abs(d) * d * bend
        constant += cost[i] * d * level
        if is_curved:
            linear += cost[i] * d * d * curvature
    return constant, linear


@lean_kernel
def _write_breakpoints(labels, z, z_t, found, points, lo):
    """Write breakpoints, one a column: its place, and how constant and linear change. Found are row and kink in one."""
    y, cost, loss = labels
    form = pieces(loss)
    for j in range(len(found)):
        i, n = lo + found[j] // form.n_kinks, found[j] % form.n_kinks
        t, d = argument(loss, z[i], y[i]), sign(loss, y[i]) * (z_t[i] - z[i])
        place, jump, bend = form.first if n == 0 else form.second
        points[0, j] = (place - t) / d
        points[2, j] = cost[i] * d * abs(d) * bend
        points[1, j] = cost[i] * abs(d) * jump - points[2, j] * points[0, j]


# ---------------------------------------------------------------- smooth losses


def _newton(problem: Problem, z: Array, z_t: Array, A0: float, B0: float) -> float:
    """Where the slope of G is zero, for a loss with two derivatives."""
    direction: Any = z_t - z
    first, second = slope(problem, z, direction, 0.0)
    at_0 = first = first + B0
    k, low, high = 0.0, 0.0, math.inf
    if at_0 >= 0.0:
        return 0.0
    for _ in range(100):
        k = k - first / (second + A0)
        if not low < k < high:
            k = 0.5 * (low + high) if high < math.inf else 2.0 * low
        first, second = slope(problem, z, direction, k)
        first += A0 * k + B0
        if first > 0.0:
            high = k
        else:
            low = k
        is_point = high < math.inf and not low < 0.5 * (low + high) < high
        if is_point or abs(first) <= _EXACT * abs(at_0):
            break
    return k
