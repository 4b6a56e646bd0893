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

from maxmargin._jit import lean_kernel
from maxmargin.losses import argument, conjugate, derivative, sign, slack, target, value
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.rows import Array
from maxmargin.solvers._hessian import dot
from maxmargin.solvers._line_search import line_search, vector_blocks

_TRACE = 2.0**-52  # of a parabola, against the sum of costs: it keeps the search finite where the risk is flat
_MOST_POINTS = 30  # of a line that are looked at; a handful is what it takes
_AT_KINK = 2.0**-43  # relative distance of an output from a kink that rounding explains


def _labels(problem: Problem) -> tuple:
    return problem.y, problem.cost, problem.loss


def best_shift(problem: Problem, z: Array) -> float:
    """What to add to all outputs to make the risk least."""
    A0 = _TRACE * float(np.sum(problem.cost))
    shift = line_search(problem, z, z + 1.0, A0, 0.0)
    return shift if shift > 0.0 else -line_search(problem, z, z - 1.0, A0, 0.0)


# ---------------------------------------------------------------- planes


def balanced_plane(problem: Problem, z: Array, p: Array) -> float:
    """Write coefficients p_i of the rows, whose sum is zero, in a plane that bounds min_b R; its offset.

    It touches that function where the outputs are z, if these are such that no shift makes the risk less.
    """
    labels, borders, n_jobs = _labels(problem), vector_blocks(len(z)), problem.n_jobs
    sums = map_blocks(lambda lo, hi: _range_of_slopes(labels, z, lo, hi), borders, n_jobs)
    lowest, highest = (sum(ends) for ends in zip(*sums))
    share = min(max(-lowest / (highest - lowest), 0.0), 1.0) if highest > lowest else 0.0
    sides = map_blocks(lambda lo, hi: _write_slopes(labels, z, share, p, lo, hi), borders, n_jobs)
    above, below = (sum(side) for side in zip(*sides))
    # What rounding, or a b that is not quite the best, has left out of balance.
    factors = (below / above, 1.0) if above > below else (1.0, above / below) if below > above else (1.0, 1.0)
    return float(sum(map_blocks(lambda lo, hi: _scale_slopes(labels, p, factors, lo, hi), borders, n_jobs)))


@lean_kernel
def _slopes(labels, z, i):
    """The least and the largest C_i phi'(t_i) sign_i that the output stands for, up to rounding."""
    y, cost, loss = labels
    t, s = argument(loss, z[i], y[i]), sign(loss, y[i])
    rounding = _AT_KINK * (1.0 + abs(z[i]) + abs(t))
    one, other = cost[i] * s * derivative(loss, t - rounding), cost[i] * s * derivative(loss, t + rounding)
    return min(one, other), max(one, other)


@lean_kernel
def _range_of_slopes(labels, z, lo, hi):
    lowest, highest = 0.0, 0.0
    for i in range(lo, hi):
        low, high = _slopes(labels, z, i)
        lowest += low
        highest += high
    return lowest, highest


@lean_kernel
def _write_slopes(labels, z, share, p, lo, hi):
    """The slopes at this share of their range; sums of the positive and of the negative ones."""
    above, below = 0.0, 0.0
    for i in range(lo, hi):
        low, high = _slopes(labels, z, i)
        p[i] = low + share * (high - low)
        if p[i] > 0.0:
            above += p[i]
        else:
            below -= p[i]
    return above, below


@lean_kernel
def _scale_slopes(labels, p, factors, lo, hi):
    """Scale positive and negative slopes; the offset of the plane that they make, by Fenchel and Young."""
    y, cost, loss = labels
    b = 0.0
    for i in range(lo, hi):
        if cost[i] > 0.0:
            p[i] *= factors[0] if p[i] > 0.0 else factors[1]
            u = p[i] * sign(loss, y[i]) / cost[i]
            b -= cost[i] * (conjugate(loss, u) + u * target(loss, y[i]))
    return b


# ---------------------------------------------------------------- a line


def best_step(problem: Problem, z: Array, z_t: Array, A0: float, B0: float, risk: float, enough: float) -> float:
    """A k >= 0 at which G(k) = 1/2 A0 k^2 + B0 k + min_b R  exceeds its least value by no more than `enough`.

    The line goes from outputs z (k = 0), where b is the best and R is `risk`, through z_t (k = 1). Planes at two
    points of the line bound R from below, the rest of G is known: where such a bound is least is the next point.
    """
    if A0 <= 0.0:
        return 0.0  # the same point twice
    d, p, outputs = z_t - z, np.empty_like(z), np.empty_like(z)

    def tangent(at: Array) -> tuple[float, float]:
        """Level and slope of a line under R, as a function of k."""
        b = balanced_plane(problem, at, p)
        return dot(p, z) + b, dot(p, d)

    left, right = tangent(z), None
    best, least = 0.0, risk
    k = line_search(problem, z, z_t, A0, B0)
    for _ in range(_MOST_POINTS):
        if k > 0.0:
            np.multiply(d, k, out=outputs)
            outputs += z
            outputs += best_shift(problem, outputs)
            here = k * (0.5 * A0 * k + B0) + _risk(problem, outputs)
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


def _risk(problem: Problem, z: Array) -> float:
    labels, borders = _labels(problem), vector_blocks(len(z))
    return float(sum(map_blocks(lambda lo, hi: _sum_losses(labels, z, lo, hi), borders, problem.n_jobs)))


@lean_kernel
def _sum_losses(labels, z, lo, hi):
    y, cost, loss = labels
    total = 0.0
    for i in range(lo, hi):
        total += cost[i] * value(loss, argument(loss, z[i], y[i]))
    return total


# ---------------------------------------------------------------- the gap


def balanced_gap(problem: Problem, z: Array, distance: float) -> float:
    """A bound of P(w) - D(alpha), alpha the slopes -C_i phi'(t_i) of outputs z = Xw with the heavier side scaled down.

    `distance` is that of the penalised weights from those of the slopes as they are. Scaling moves the latter by at
    most the scaled-down alpha_i |x_i|, so that no row is looked at. All of it is of second order for a smooth loss.
    """
    labels, borders, n_jobs = _labels(problem), vector_blocks(len(z)), problem.n_jobs
    bias2 = problem.rows.bias * problem.rows.bias
    sums = map_blocks(lambda lo, hi: _sides(labels, z, problem.norms2, bias2, lo, hi), borders, n_jobs)
    above, below, reach_above, reach_below = (sum(column) for column in zip(*sums))
    if above == below:
        return 0.5 * distance * distance
    is_above = above > below
    factor = min(above, below) / max(above, below)
    slacks = sum(map_blocks(lambda lo, hi: _slacks(labels, z, is_above, factor, lo, hi), borders, n_jobs))
    moved = (1.0 - factor) * (reach_above if is_above else reach_below)
    return float(slacks + 0.5 * (distance + moved) ** 2)


@lean_kernel
def _sides(labels, z, norms2, bias2, lo, hi):
    """Of the positive and of the negative alpha_i sign_i: their sums, and the sums of alpha_i |x_i|."""
    y, cost, loss = labels
    above, below, reach_above, reach_below = 0.0, 0.0, 0.0, 0.0
    for i in range(lo, hi):
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


@lean_kernel
def _slacks(labels, z, is_above, factor, lo, hi):
    """What the rows of one side add to the gap when their alpha is scaled."""
    y, cost, loss = labels
    total = 0.0
    for i in range(lo, hi):
        if cost[i] > 0.0:
            t = argument(loss, z[i], y[i])
            alpha = -cost[i] * derivative(loss, t)
            if alpha != 0.0 and (alpha * sign(loss, y[i]) > 0.0) == is_above:
                total += slack(loss, t, factor * alpha, cost[i])
    return total
