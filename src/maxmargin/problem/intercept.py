"""An intercept that costs nothing: what solvers need for it, from the outputs x_i'w alone, without a look at X.

With b free the dual has one condition more, the balance  sum_i alpha_i sign_i = 0, which is the derivative of the risk
by b. So a point whose b is the best for its other weights has balanced slopes alpha_i = -C_i phi'(t_i): for a smooth
loss these numbers themselves, and for a loss with kinks some choice of subgradients in the rows that are at one.

* `best_shift` finds that b: the exact line search of `_line_search`, along outputs that all grow by the same.
* `balanced_plane` makes a cutting plane of such slopes. It bounds  min_b R(w, b), which is convex in the other weights,
  and has no slope in b: methods that work with planes need know nothing else of a free intercept.
* `best_step` is the line search of OCAS with the best b at every point of the line, not the b of its two ends.
* `balanced_gap` bounds the duality gap where b is not the best, for methods that move b with the other weights.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.losses import argument, conjugate, derivative, sign, slack, target, value
from maxmargin.problem.line_search import line_search
from maxmargin.problem.problem import Problem
from maxmargin.vectors import dot

_TRACE = 2.0**-52  # of a parabola, against the sum of costs: it keeps the search finite where the risk is flat
_MOST_POINTS = 30  # of a line that are looked at; a handful is what it takes
_AT_KINK = 2.0**-43  # relative distance of an output from a kink that rounding explains


def best_shift(problem: Problem, z: RowVector) -> float:
    """What to add to all outputs to make the risk least."""
    A0 = _TRACE * problem.total_cost
    shift = line_search(problem, z, z + 1.0, A0, 0.0)
    return shift if shift > 0.0 else -line_search(problem, z, z - 1.0, A0, 0.0)


# ---------------------------------------------------------------- planes


def balanced_plane(problem: Problem, z: RowVector) -> tuple[RowVector, float]:
    """Coefficients p_i of the rows, whose sum is zero, in a plane that bounds min_b R; and its offset.

    It touches that function where the outputs are z, if these are such that no shift makes the risk less.
    """
    lowest, highest = problem.over_labels(_range_of_slopes, reads=[z]).total
    share = min(max(-lowest / (highest - lowest), 0.0), 1.0) if highest > lowest else 0.0
    done = problem.over_labels(_write_slopes, shared=[share], reads=[z], writes=[np.float64])
    above, below = done.total
    # What rounding, or a b that is not quite the best, has left out of balance.
    factors = (below / above, 1.0) if above > below else (1.0, above / below) if below > above else (1.0, 1.0)
    done = problem.over_labels(_scale_slopes, shared=[factors], reads=done.vectors, writes=[np.float64])
    return done.vectors[0], done.total


@compiled_lean
def _slopes(labels, z, i):
    """The least and the largest C_i phi'(t_i) sign_i that the output stands for, up to rounding."""
    y, cost, loss = labels
    t, s = argument(loss, z[i], y[i]), sign(loss, y[i])
    rounding = _AT_KINK * (1.0 + abs(z[i]) + abs(t))
    one, other = cost[i] * s * derivative(loss, t - rounding), cost[i] * s * derivative(loss, t + rounding)
    return min(one, other), max(one, other)


@compiled_lean
def _range_of_slopes(labels, z):
    lowest, highest = 0.0, 0.0
    for i in range(len(z)):
        low, high = _slopes(labels, z, i)
        lowest += low
        highest += high
    return lowest, highest


@compiled_lean
def _write_slopes(labels, share, z, p):
    """The slopes at this share of their range; sums of the positive and of the negative ones."""
    above, below = 0.0, 0.0
    for i in range(len(z)):
        low, high = _slopes(labels, z, i)
        p[i] = low + share * (high - low)
        if p[i] > 0.0:
            above += p[i]
        else:
            below -= p[i]
    return above, below


@compiled_lean
def _scale_slopes(labels, factors, p, out):
    """Scale positive and negative slopes; the offset of the plane that they make, by Fenchel and Young."""
    y, cost, loss = labels
    b = 0.0
    for i in range(len(p)):
        out[i] = p[i] * (factors[0] if p[i] > 0.0 else factors[1])
        if cost[i] > 0.0:
            u = out[i] * sign(loss, y[i]) / cost[i]
            b -= cost[i] * (conjugate(loss, u) + u * target(loss, y[i]))
    return b


# ---------------------------------------------------------------- a line


def best_step(
    problem: Problem, z: RowVector, z_t: RowVector, A0: float, B0: float, risk: float, enough: float
) -> float:
    """A k >= 0 at which G(k) = 1/2 A0 k^2 + B0 k + min_b R  exceeds its least value by no more than `enough`.

    The line goes from outputs z (k = 0), where b is the best and R is `risk`, through z_t (k = 1). Planes at two
    points of the line bound R from below, the rest of G is known: where such a bound is least is the next point.
    """
    if A0 <= 0.0:
        return 0.0  # the same point twice
    d = z_t - z

    def tangent(at: Array) -> tuple[float, float]:
        """Level and slope of a line under R, as a function of k."""
        p, b = balanced_plane(problem, at)
        return dot(p, z) + b, dot(p, d)

    left, right = tangent(z), None
    best, least = 0.0, risk
    k = line_search(problem, z, z_t, A0, B0)
    for _ in range(_MOST_POINTS):
        if k > 0.0:
            outputs = z + k * d
            outputs += best_shift(problem, outputs)
            here = k * (0.5 * A0 * k + B0) + problem.over_labels(_sum_losses, reads=[outputs]).total
            if here < least:
                best, least = k, here
            line = tangent(outputs)
            if A0 * k + B0 + line[1] < 0.0:
                left = line
            else:
                right = line
        k, bound = _least_between(A0, B0, left, right)
        if least - bound <= enough or not 0.0 < k < np.inf:
            break
    return best


def _least_between(
    A0: float, B0: float, left: tuple[float, float], right: tuple[float, float] | None
) -> tuple[float, float]:
    """Where 1/2 A0 k^2 + B0 k + the higher one of two lines is least for k >= 0, and that value."""
    k, line = max(-(B0 + left[1]) / A0, 0.0), left
    if right is not None and right[1] > left[1]:
        crossing = (left[0] - right[0]) / (right[1] - left[1])
        if k > crossing:
            k, line = max(-(B0 + right[1]) / A0, crossing, 0.0), right
    return k, k * (0.5 * A0 * k + B0) + line[0] + line[1] * k


@compiled_lean
def _sum_losses(labels, z):
    y, cost, loss = labels
    total = 0.0
    for i in range(len(z)):
        total += cost[i] * value(loss, argument(loss, z[i], y[i]))
    return total


# ---------------------------------------------------------------- the gap


def balanced_gap(problem: Problem, z: RowVector, distance: float) -> float:
    """A bound of P(w) - D(alpha), alpha the slopes -C_i phi'(t_i) of outputs z = Xw with the heavier side scaled down.

    `distance` is that of the penalised weights from those of the slopes as they are. Scaling moves the latter by at
    most the scaled-down alpha_i |x_i|, so that no row is looked at. All of it is of second order for a smooth loss.
    """
    bias2 = problem.source.bias * problem.source.bias
    sums = problem.over_labels(_sides, shared=[bias2], reads=[z, problem.norms2]).total
    above, below, reach_above, reach_below = sums
    if above == below:
        return 0.5 * distance * distance
    is_above = above > below
    factor = min(above, below) / max(above, below)
    slacks = problem.over_labels(_slacks, shared=[is_above, factor], reads=[z]).total
    moved = (1.0 - factor) * (reach_above if is_above else reach_below)
    return float(slacks + 0.5 * (distance + moved) ** 2)


@compiled_lean
def _sides(labels, bias2, z, norms2):
    """Of the positive and of the negative alpha_i sign_i: their sums, and the sums of alpha_i |x_i|."""
    y, cost, loss = labels
    above, below, reach_above, reach_below = 0.0, 0.0, 0.0, 0.0
    for i in range(len(z)):
        if cost[i] > 0.0:
            side = -cost[i] * derivative(loss, argument(loss, z[i], y[i])) * sign(loss, y[i])
            reach = side * np.sqrt(max(norms2[i] - bias2, 0.0))
            if side > 0.0:
                above += side
                reach_above += reach
            else:
                below -= side
                reach_below -= reach
    return above, below, reach_above, reach_below


@compiled_lean
def _slacks(labels, is_above, factor, z):
    """What the rows of one side add to the gap when their alpha is scaled."""
    y, cost, loss = labels
    total = 0.0
    for i in range(len(z)):
        if cost[i] > 0.0:
            t = argument(loss, z[i], y[i])
            alpha = -cost[i] * derivative(loss, t)
            if alpha != 0.0 and (alpha * sign(loss, y[i]) > 0.0) == is_above:
                total += slack(loss, t, factor * alpha, cost[i])
    return total
