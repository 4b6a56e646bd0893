"""What an interior point iteration does to each row. The equations' numbers are those of `interior_point`.

All passes share `newton_step`, one piece's part of a Newton step. It costs so little beside a look at the row itself
that every pass computes it anew; what is kept between passes are the steps of t alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_lean
from maxmargin.data.rows import Array, add_row, row_dot
from maxmargin.losses import QUADRATIC_DUAL, Loss, argument, dual_form, sign, slack, target, value

_LONGEST_BEND = 2.0  # of a second-order term, in units of mu


class Pieces(NamedTuple):
    """The one-sided pieces of a loss: `sides` of them a row, each with the dual kappa/2 p^2 - b p over an interval."""

    sides: int
    b: float
    kappa: float
    has_floor: bool  # 0 <= p
    has_ceiling: bool  # p <= 1


# No piece has another ceiling than one.
LOSSES = tuple(tag for tag in QUADRATIC_DUAL if dual_form(tag()).upper in (1.0, np.inf))


def pieces_of(loss: Loss) -> Pieces:
    """The pieces of a loss."""
    form = dual_form(loss)
    has_ceiling = bool(np.isfinite(form.upper))
    if form.lower == 0.0:
        return Pieces(1, form.linear, form.curvature, True, has_ceiling)
    if form.epsilon == 0.0 and not has_ceiling:  # a parabola without bounds is better left in one piece
        return Pieces(1, form.linear, form.curvature, False, False)
    return Pieces(2, form.linear - form.epsilon, form.curvature, True, has_ceiling)


class Point(NamedTuple):
    """Where the iteration is."""

    q: Array  # in a line a row, p, s, r and xi of its pieces; where there is no floor p alone, no ceiling p and s
    t: Array  # of w, kept in step


_S, _R, _XI = 1, 2, 3  # where they begin in a line of q, in units of `sides`; p is first


def width(pieces: Pieces) -> int:
    """Length of a line of q."""
    return pieces.sides * (1 + pieces.has_floor + 2 * pieces.has_ceiling)


class Lengths(NamedTuple):
    """What a step aims at, and how far it goes."""

    mu: float
    aim: float
    primal: float
    dual: float


class Piece(NamedTuple):
    """One piece of one row: what there is no bound for is zero (and r is one)."""

    sigma: float
    p: float
    r: float
    s: float
    xi: float
    per_p: float  # 1 / p
    per_r: float
    gradient: float  # left side of (1)
    curvature: float  # kappa + s / p + xi / r


@compiled
def _piece(pieces, point, i, k):
    sigma, q, sides = 1.0 - 2.0 * k, point.q, pieces.sides
    p, r, s, xi, per_p, per_r = q[i, k], 1.0, 0.0, 0.0, 0.0, 0.0
    if pieces.has_floor:
        s = q[i, _S * sides + k]
        per_p = 1.0 / p
    if pieces.has_ceiling:
        r, xi = q[i, _R * sides + k], q[i, _XI * sides + k]
        per_r = 1.0 / r
    gradient = sigma * point.t[i] + pieces.kappa * p - pieces.b
    return Piece(sigma, p, r, s, xi, per_p, per_r, gradient, pieces.kappa + s * per_p + xi * per_r)


@compiled
def _newton_step(at, dt, aim, bend_p, bend_r):
    """Steps of p, s and xi that go with a step of t, towards s p = aim - bend_p and xi r = aim - bend_r."""
    pull = (aim - bend_p) * at.per_p - (aim - bend_r) * at.per_r
    dp = (pull - at.gradient - at.sigma * dt) / at.curvature
    return dp, (aim - bend_p - at.s * dp) * at.per_p - at.s, (aim - bend_r + at.xi * dp) * at.per_r - at.xi


@compiled
def _bends(at, affine_dt, mu):
    """Second-order errors dp ds and dr dxi of the predictor: what the corrector is to make up for.

    They are cut, because the few large ones would bend the whole step and shorten it for all rows.
    """
    dp, ds, dxi = _newton_step(at, affine_dt, 0.0, 0.0, 0.0)
    longest = _LONGEST_BEND * mu
    return min(max(dp * ds, -longest), longest), min(max(-dp * dxi, -longest), longest)


@compiled
def _blocks(pieces, at, dp, ds, dxi, blocks):
    """Reciprocals of the longest steps that keep s and xi, and p and r, nonnegative."""
    primal, dual = blocks
    if pieces.has_floor:
        primal, dual = max(primal, -ds / at.s), max(dual, -dp * at.per_p)
    if pieces.has_ceiling:
        primal, dual = max(primal, -dxi / at.xi), max(dual, dp * at.per_r)
    return primal, dual


# ---------------------------------------------------------------- steps over labels


@compiled_lean
def weigh(labels, pieces, q, t, d, c):
    """Weights of the rows in (4), and their factors in the predictor's right side."""
    y, cost, loss = labels
    point = Point(q, t)
    for i in range(len(y)):
        d[i] = c[i] = 0.0
        if cost[i] > 0.0:
            for k in range(pieces.sides):
                at = _piece(pieces, point, i, k)
                d[i] += cost[i] / at.curvature
                c[i] += cost[i] * sign(loss, y[i]) * at.sigma * (at.p - at.gradient / at.curvature)


@compiled_lean
def move(labels, pieces, step, affine_dt, dt, q, t, new_q, new_t, alpha):
    """Take the corrector's step; the sums of `measure` where it leads to."""
    sides = pieces.sides
    point = Point(q, t)
    for i in range(len(t)):
        C, total = labels.cost[i], 0.0
        for k in range(pieces.sides):
            at = _piece(pieces, point, i, k)
            bend_p, bend_r = _bends(at, affine_dt[i], step.mu)
            dp, ds, dxi = _newton_step(at, dt[i], step.aim, bend_p, bend_r)
            if C == 0.0:
                dp = ds = dxi = 0.0
            now = at.p + step.dual * dp
            if pieces.has_floor:
                new_q[i, _S * sides + k] = at.s + step.primal * ds
            if pieces.has_ceiling:
                new_q[i, _XI * sides + k] = at.xi + step.primal * dxi
                rest = at.r - step.dual * dp
                if now < rest:  # of p + r = 1 the smaller one has the digits
                    rest = 1.0 - now
                else:
                    now = 1.0 - rest
                new_q[i, _R * sides + k] = rest
            new_q[i, k] = now
            total += at.sigma * now
        alpha[i] = C * total
        new_t[i] = t[i] + step.primal * dt[i]
    return measure(labels, pieces, alpha, new_q, new_t)


@compiled_lean
def measure(labels, pieces, alpha, q, t):
    """Sums of the complementary products (in units of cost), of the losses and of the slacks."""
    _, cost, loss = labels
    point = Point(q, t)
    products, risk, slacks = 0.0, 0.0, 0.0
    for i in range(len(t)):
        if cost[i] > 0.0:
            for k in range(pieces.sides):
                at = _piece(pieces, point, i, k)
                products += cost[i] * (at.p * at.s + at.r * at.xi)
            risk += cost[i] * value(loss, t[i])
            slacks += slack(loss, t[i], alpha[i], cost[i])
    return products, risk, slacks


@compiled_lean
def arguments(labels, z, t):
    """t of the rows' outputs."""
    for i in range(len(t)):
        t[i] = argument(labels.loss, z[i], labels.y[i])


@compiled_lean
def sizes(labels, pieces):
    """The sizes of the left side of (1) at w = 0 and p = 0, times the costs: what mu is to be like."""
    y, cost, loss = labels
    total = 0.0
    for i in range(len(cost)):
        for k in range(pieces.sides):
            total += cost[i] * abs((1.0 - 2.0 * k) * target(loss, y[i]) + pieces.b)
    return total


@compiled_lean
def place(labels, pieces, mu, farthest, wanted, t, q, alpha):
    """Put the pieces where (1) holds, near the central path for this mu and t, and near the alpha that is wanted.

    p, and r, may be `farthest` times smaller than on the path; what alpha becomes is written.
    """
    point = Point(q, t)
    for i in range(len(t)):
        C, total = labels.cost[i], 0.0
        for k in range(pieces.sides):
            sigma = 1.0 - 2.0 * k
            slope = sigma * t[i] - pieces.b
            near = sigma * wanted[i] / C if C > 0.0 else 0.0
            if pieces.has_ceiling:
                near = _place_between_bounds(pieces, point, mu, farthest, near, slope, i, k)
            elif pieces.has_floor:
                near = _place_above_floor(pieces, point, mu, farthest, near, slope, i, k)
            q[i, k] = near
            total += sigma * near
        alpha[i] = C * total


@compiled
def _place_between_bounds(pieces, point, mu, farthest, p, slope, i, k):
    middle = slope + 0.5 * pieces.kappa  # with the parabola as it is, the path would be the root of a cubic
    root = np.hypot(middle, 2.0 * mu)
    lowest, highest = 2.0 * mu / (2.0 * mu + root + middle), 2.0 * mu / (2.0 * mu + root - middle)
    p = min(max(p, lowest / farthest), 1.0 - highest / farthest)
    gradient, r = slope + pieces.kappa * p, 1.0 - p
    if gradient > 0.0:
        xi = mu / r
        s = gradient + xi
    else:
        s = mu / p
        xi = s - gradient
    q, sides = point.q, pieces.sides
    q[i, _S * sides + k], q[i, _R * sides + k], q[i, _XI * sides + k] = s, r, xi
    return p


@compiled
def _place_above_floor(pieces, point, mu, farthest, p, slope, i, k):
    root = np.sqrt(slope * slope + 4.0 * pieces.kappa * mu)
    on_path = 2.0 * mu / (root + slope) if slope > 0.0 else (root - slope) / (2.0 * pieces.kappa)
    p = min(max(p, on_path / farthest), on_path * farthest)
    point.q[i, _S * pieces.sides + k] = max(slope + pieces.kappa * p, mu / (farthest * p))
    return p


# ---------------------------------------------------------------- steps over rows


@compiled_lean
def predict(block, pieces, mu, dw, q, t, affine_dt, for_aim, for_bends):
    """The step that aims at zero: its blocks, the slopes of the complementarity, and the corrector's right side.

    The slopes are those by the primal step, the dual step and both. The corrector's right side has beyond the
    predictor's what is summed here: for an aim of one, and for the bends.
    """
    rows, y, cost, loss = block
    point = Point(q, t)
    blocks = (0.0, 0.0)
    by_primal, by_dual, by_both = 0.0, 0.0, 0.0
    for i in range(len(y)):
        C, side = cost[i], sign(loss, y[i])
        affine_dt[i] = 0.0
        if C == 0.0:
            continue
        dt = side * row_dot(rows, i, dw)
        affine_dt[i] = dt
        per_aim, bent = 0.0, 0.0
        for k in range(pieces.sides):
            at = _piece(pieces, point, i, k)
            dp, ds, dxi = _newton_step(at, dt, 0.0, 0.0, 0.0)
            blocks = _blocks(pieces, at, dp, ds, dxi, blocks)
            by_primal += C * (at.p * ds + at.r * dxi)
            by_dual += C * (at.s - at.xi) * dp
            by_both += C * (ds - dxi) * dp
            bend_p, bend_r = _bends(at, dt, mu)
            per_aim += at.sigma * (at.per_p - at.per_r) / at.curvature
            bent += at.sigma * (bend_r * at.per_r - bend_p * at.per_p) / at.curvature
        add_row(rows, i, C * side * per_aim, for_aim)
        add_row(rows, i, C * side * bent, for_bends)
    return blocks[0], blocks[1], by_primal, by_dual, by_both


@compiled_lean
def correct(block, pieces, mu, aim, dw, affine_dt, q, t, dt):
    """The step that is taken: its blocks."""
    rows, y, cost, loss = block
    point = Point(q, t)
    blocks = (0.0, 0.0)
    for i in range(len(y)):
        dt[i] = 0.0
        if cost[i] == 0.0:
            continue
        dt[i] = sign(loss, y[i]) * row_dot(rows, i, dw)
        for k in range(pieces.sides):
            at = _piece(pieces, point, i, k)
            bend_p, bend_r = _bends(at, affine_dt[i], mu)
            dp, ds, dxi = _newton_step(at, dt[i], aim, bend_p, bend_r)
            blocks = _blocks(pieces, at, dp, ds, dxi, blocks)
    return blocks
