"""What primal coordinate descent asks of one column of the data, for every smooth loss and both storages.

Row i is known by t_i, by slope_i = phi'(t_i), and by its signed cost sign_i C_i: with them a column x_j is all it takes
to say what a change of w_j does to sum_i C_i phi(t_i). phi'' is a function of phi' for all losses here, so that the
logistic loss needs an exponential for a value that changes and none for one that is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, compiled_lean, generic, prefetch
from maxmargin.data.entries import entry, places
from maxmargin.data.rows import CSR, Array, Dense, Rows
from maxmargin.losses import (
    SMOOTH,
    Huber,
    Logistic,
    Loss,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
    derivative,
    largest_curvature,
    sign,
    value,
)
from maxmargin.penalties import L1
from maxmargin.problem import Problem
from maxmargin.solvers.coordinate.columns import columns_of

F = TypeVar("F", bound=Callable[..., Any])


class Columnwise(NamedTuple):
    """What kernels read of a problem, by columns."""

    columns: Rows
    signed_cost: Array  # sign_i C_i, of the rows that have a cost
    bound: Array  # of the second derivative of the losses in w_j: sum_i C_i x_ij^2 max phi''
    largest: Array  # |x_ij| of each column
    loss: Loss
    bias: float  # what the last column's ones stand for; 1 where there is no such column
    is_l1: bool


class Moving(NamedTuple):
    """A point: w, and for each row that has a cost t_i and phi'(t_i), kept in step."""

    w: Array
    t: Array
    slope: Array


_known: WeakKeyDictionary[Problem, Columnwise] = WeakKeyDictionary()


def columnwise(problem: Problem) -> Columnwise:
    """Computed once for each problem: a copy of the data by columns, and a pass over it."""
    known = _known.get(problem)
    if known is None:
        columns, kept = columns_of(problem).transposed, problem.cost > 0.0
        signed_cost = (problem.cost * sign(problem.loss, problem.y))[kept]
        bias = problem.rows.bias if problem.rows.bias != 0.0 else 1.0
        bound, largest = np.empty(problem.n_weights), np.empty(problem.n_weights)
        _column_sizes(columns, signed_cost, bound, largest)
        bound *= largest_curvature(problem.loss)
        bound[-1] *= bias * bias
        largest[-1] *= abs(bias)
        known = Columnwise(columns, signed_cost, bound, largest, problem.loss, bias, isinstance(problem.penalty, L1))
        _known[problem] = known
    return known


@compiled_lean
def _column_sizes(columns, signed_cost, bound, largest):
    for j in range(len(bound)):
        bound[j], largest[j] = _column_size(columns, j, signed_cost)  # sum_i C_i x_ij^2, max |x_ij|


# ---------------------------------------------------------------- the loss of one row


@generic
def curvature(loss, slope):
    """phi'' where phi' is `slope`."""
    raise TypeError(f"not a smooth loss: {loss!r}")


@curvature.register(SquaredHinge, SquaredEpsilonInsensitive)
def _(loss, slope):
    return 2.0 if slope != 0.0 else 0.0


@curvature.register(SquaredError)
def _(loss, slope):
    return 2.0


@curvature.register(Logistic)
def _(loss, slope):
    return -slope * (1.0 + slope)


@curvature.register(Huber)
def _(loss, slope):
    return 1.0 / loss.delta if -1.0 < slope < 0.0 else 0.0


@generic
def difference(loss, t, slope, dt):
    """phi(t + dt) - phi(t), without cancellation where dt is small."""
    raise TypeError(f"not a smooth loss: {loss!r}")


@difference.register(SquaredHinge, SquaredError, SquaredEpsilonInsensitive)
def _(loss, t, slope, dt):
    after = derivative(loss, t + dt)
    if after * slope > 0.0:  # on the same parabola
        return dt * (slope + dt)
    return 0.25 * (after * after - slope * slope)


@difference.register(Logistic)
def _(loss, t, slope, dt):
    if abs(dt) < 1.0:
        return np.log1p(-slope * np.expm1(-dt))
    return value(loss, t + dt) - value(loss, t)


@difference.register(Huber)
def _(loss, t, slope, dt):
    return value(loss, t + dt) - value(loss, t)


@generic
def mean_curvature(loss, H, most, reach):
    """Bound of the second derivative in w_j, averaged over a step that changes no t_i by more than `reach`.

    H is the derivative where the step begins, `most` what it is at most anywhere. Averaged such that half of it times
    the step's square bounds what P has more than its tangent.
    """
    raise TypeError(f"not a smooth loss: {loss!r}")


@mean_curvature.register(SquaredHinge, Huber, SquaredError, SquaredEpsilonInsensitive)
def _(loss, H, most, reach):
    return most


@mean_curvature.register(Logistic)
def _(loss, H, most, reach):
    # |phi'''| <= phi'', so phi'' grows by no more than exp(reach).
    if 1e-3 < reach < 2.0:
        return min(most, 2.0 * H * (np.expm1(reach) - reach) / (reach * reach))
    return min(most, 1.001 * H) if reach <= 1e-3 else most


LOSSES = tuple(tag for tag in SMOOTH if tag in mean_curvature.registry)


# ---------------------------------------------------------------- one weight


FLATTEST = 1e-6  # least curvature that is believed, as a share of the most there can be


@compiled
def violation(weight, G):
    """How far w_j is from optimal with the L1 penalty: the distance of -G from the subgradients of |w_j|."""
    if weight > 0.0:
        return abs(G + 1.0)
    if weight < 0.0:
        return abs(G - 1.0)
    return max(0.0, abs(G) - 1.0)


@compiled
def newton_step(weight, G, H, is_l1):
    """Minimiser d of G d + 1/2 H d^2, plus |w_j + d| for L1, and the decrease Delta that its slope promises."""
    if not is_l1:
        d = -G / H
        return d, G * d
    if H * weight >= G + 1.0:
        d = -(G + 1.0) / H
    elif H * weight <= G - 1.0:
        d = -(G - 1.0) / H
    else:
        d = -weight
    side = 1.0 if weight > 0.0 or (weight == 0.0 and d > 0.0) else -1.0
    if side * (weight + d) < 0.0:
        return d, G * d + abs(weight + d) - abs(weight)
    return d, (G + side) * d  # the same, where w_j does not change sign, without cancellation


# ---------------------------------------------------------------- one column


@generic
def prefetch_place(columns, j):
    """Start to load what says where column j lies."""
    raise TypeError(f"not a storage: {type(columns).__name__}")


@prefetch_place.register(Dense)
def _(columns, j):
    pass


@prefetch_place.register(CSR)
def _(columns, j):
    prefetch(columns.indptr, j)


def _for_both_storages(kernel: F) -> F:
    """One text for dense and sparse columns; only sums over dense ones may be added in any order."""
    both = generic(kernel)
    both.register(Dense, fastmath=DENSE_MATH)(kernel)
    both.register(CSR)(kernel)
    return both


@_for_both_storages
def _column_size(columns, j, signed_cost):
    total, largest = 0.0, 0.0
    begin, end = places(columns, j)
    for place in range(begin, end):
        i, x = entry(columns, j, place)
        size = abs(x)
        total += abs(signed_cost[i]) * size * size
        largest = max(largest, size)
    return total, largest


@_for_both_storages
def _derivatives(columns, j, data, slope):
    G, H = 0.0, 0.0
    begin, end = places(columns, j)
    for place in range(begin, end):
        i, x = entry(columns, j, place)
        C = data.signed_cost[i]
        G += C * slope[i] * x
        H += abs(C) * curvature(data.loss, slope[i]) * x * x
    return G, H


@_for_both_storages
def _change(columns, j, data, here, step):
    total, size = 0.0, 0.0
    begin, end = places(columns, j)
    for place in range(begin, end):
        i, x = entry(columns, j, place)
        C = data.signed_cost[i]
        part = abs(C) * difference(data.loss, here.t[i], here.slope[i], signed_step(step, C) * x)
        total += part
        size += abs(part)
    return total, size


@compiled_lean
def derivatives(data, slope, j):
    """First and second derivative of sum_i C_i phi(t_i) in w_j."""
    unit = unit_of(data, j)
    G, H = _derivatives(data.columns, j, data, slope)
    return unit * G, max(unit * unit * H, FLATTEST * data.bound[j])


@compiled_lean
def change(data, here, j, step):
    """What a step in w_j adds to sum_i C_i phi(t_i), and the sum of what rows add and take away."""
    return _change(data.columns, j, data, here, step * unit_of(data, j))


@compiled_lean
def move(data, here, j, step):
    """Take a step in w_j, and bring t and phi'(t) up to date."""
    here.w[j] += step
    dz = step * unit_of(data, j)
    begin, end = places(data.columns, j)
    for place in range(begin, end):
        i, x = entry(data.columns, j, place)
        here.t[i] += signed_step(dz, data.signed_cost[i]) * x
        here.slope[i] = derivative(data.loss, here.t[i])


@compiled_lean
def unit_of(data, j):
    """What the values of column j stand for: 1, or the bias."""
    return data.bias if j == len(data.bound) - 1 else 1.0


@compiled
def signed_step(step, signed_cost):
    """sign_i step."""
    return math.copysign(step, step * signed_cost)
