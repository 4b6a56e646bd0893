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

Of risks that are no sums of losses, such as that of all classes at once, the slope is asked for where a model of G has
its least value: the higher of two tangents of the risk, one from where G falls and one from where it rises. When the
model is right there, so is the answer; as the risk has finitely many pieces, that takes finitely many looks.

For smooth losses (`Logistic`) Newton's method in one variable, kept in an interval, sums first and second derivatives.

Paper -> code: k, A0, B0 as they are, B_i -> -C_i d_i and C_i -> C_i (1 - t_i) for the hinge loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array
from maxmargin.data.source import Labels, RowVector
from maxmargin.losses import PIECEWISE_LINEAR_SLOPE, argument, pieces, sign
from maxmargin.problem.problem import Problem
from maxmargin.problem.risks import SumOfLosses

_BUCKETS = 255  # one less than a byte has values: the last one says that there is no breakpoint ahead
_FEW = 4096  # breakpoints that are sorted
_MOST_ROUNDS = 8  # each divides the range by 255: after eight, what is left is one place, or as good as that
_EXACT = 1e-12  # of the slope at zero, for Newton's method; of the risk, between tangents
_MOST_LOOKS = 60  # at the risk of all classes


class Slope(NamedTuple):
    """G'(k) = constant + linear k, for k between low and high if no breakpoint is there."""

    constant: float
    linear: float
    low: float = 0.0
    high: float = math.inf


def line_search(problem: Problem, z: RowVector, z_t: RowVector, A0: float, B0: float) -> float:
    """The k >= 0 for which G is least, between outputs z (k = 0) and z_t (k = 1) and beyond."""
    if A0 <= 0.0:
        return 0.0  # the same point twice
    if not isinstance(problem.risk, SumOfLosses):
        return _between_tangents(problem, z, z_t, A0, B0)
    if not isinstance(problem.loss, PIECEWISE_LINEAR_SLOPE):
        return _newton(problem, z, z_t, A0, B0)
    kinks = np.uint8, pieces(problem.loss).n_kinks
    done = problem.over_labels(_sort_rows, reads=[z, z_t], writes=[kinks], sums=[(_BUCKETS + 1, 2)])
    constant, linear = done.total
    inner = np.arange(1, _BUCKETS)
    ends = np.append(inner / (_BUCKETS - inner), math.inf)  # of buckets that are equally wide in k / (1 + k)
    bucket, found = _choose(Slope(B0 + constant, A0 + linear), done.sums[0][:_BUCKETS], ends)
    return _select(found, problem.over_labels(_collect, shared=[bucket], reads=[z, z_t, done.vectors[0]]).results)


def _collect(labels: Labels, bucket: int, z: Array, z_t: Array, codes: Array) -> Array:
    """The breakpoints in a bucket; see `_write_breakpoints`."""
    inside = np.flatnonzero(codes == bucket)
    points = np.empty((3, len(inside)))
    if len(inside):
        _write_breakpoints(labels, z, z_t, inside, points)
    return points


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


@compiled_lean
def _sort_rows(labels, z, z_t, codes, changes):
    """Sum the changes of the slope by bucket, and note the buckets; the slope before all breakpoints.

    k / (1 + k), which is at most one, tells the bucket of a breakpoint k. Half of the rows have no breakpoint ahead, no
    one knows which: rows take the same way through this loop whether they have or not, which is three times faster.
    """
    y, cost, loss = labels
    form = pieces(loss)
    is_curved = form.curvature != 0.0 or form.first[2] != 0.0  # known when this is compiled, as are the bends below
    constant, linear = 0.0, 0.0
    for i in range(len(z)):
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


@compiled_lean
def _write_breakpoints(labels, z, z_t, found, points):
    """Write breakpoints, one a column: its place, and how constant and linear change. Found are row and kink in one."""
    y, cost, loss = labels
    form = pieces(loss)
    for j in range(len(found)):
        i, n = found[j] // form.n_kinks, found[j] % form.n_kinks
        t, d = argument(loss, z[i], y[i]), sign(loss, y[i]) * (z_t[i] - z[i])
        place, jump, bend = form.first if n == 0 else form.second
        points[0, j] = (place - t) / d
        points[2, j] = cost[i] * d * abs(d) * bend
        points[1, j] = cost[i] * abs(d) * jump - points[2, j] * points[0, j]


# ---------------------------------------------------------------- smooth losses


def _between_tangents(problem: Problem, z: RowVector, z_t: RowVector, A0: float, B0: float) -> float:
    """The best k for any convex risk with linear pieces."""
    value, slope = problem.risk.along(problem, z, z_t, 0.0)
    if B0 + slope >= 0.0:
        return 0.0
    falling, rising = (value, slope), None  # tangents of the risk: its height at k = 0, and its slope
    k = -(B0 + slope) / A0
    for _ in range(_MOST_LOOKS):
        value, slope = problem.risk.along(problem, z, z_t, k)
        known = falling[0] + falling[1] * k if rising is None else max(a + b * k for a, b in (falling, rising))
        if value - known <= _EXACT * abs(value):
            return k  # the model is right at its least value
        tangent = value - slope * k, slope
        if A0 * k + B0 + slope < 0.0:
            falling = tangent
        else:
            rising = tangent
        k = -(B0 + falling[1]) / A0
        if rising is not None:
            crossing = (falling[0] - rising[0]) / (rising[1] - falling[1])
            k = min(max(crossing, -(B0 + rising[1]) / A0), k)
    return k


def _newton(problem: Problem, z: Array, z_t: Array, A0: float, B0: float) -> float:
    """Where the slope of G is zero, for a loss with two derivatives."""
    direction: Any = z_t - z
    first, second = problem.along(z, direction, 0.0)
    at_0 = first = first + B0
    k, low, high = 0.0, 0.0, math.inf
    if at_0 >= 0.0:
        return 0.0
    for _ in range(100):
        k = k - first / (second + A0)
        if not low < k < high:
            k = 0.5 * (low + high) if high < math.inf else 2.0 * low
        first, second = problem.along(z, direction, k)
        first += A0 * k + B0
        if first > 0.0:
            high = k
        else:
            low = k
        is_point = high < math.inf and not low < 0.5 * (low + high) < high
        if is_point or abs(first) <= _EXACT * abs(at_0):
            break
    return k
