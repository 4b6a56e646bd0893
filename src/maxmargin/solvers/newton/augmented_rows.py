"""What the augmented Lagrangian asks of each row: (1) and (2) are those of `augmented_lagrangian`."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled, compiled_lean
from maxmargin.data.rows import Array
from maxmargin.data.source import Labels
from maxmargin.losses import argument, dual_form, sign, slack, target, value


@compiled_lean
def distance_at_zero(labels):
    """Distances of t from where the loss is at rest, at w = 0, each times its cost."""
    y, cost, loss = labels
    form = dual_form(loss)
    total = 0.0
    for i in range(len(y)):
        total += cost[i] * abs(form.linear + target(loss, y[i]))
    return total


@compiled
def best_alpha(form, t, C, centre, s):
    """The a of (1), and whether it is free."""
    u = centre + s * C * (form.linear - t)
    if form.epsilon > 0.0:
        kink = s * C * form.epsilon
        u = max(0.0, u - kink) + min(0.0, u + kink)
    u /= 1.0 + s * form.curvature
    lower, upper = form.lower * C, form.upper * C
    is_free = lower < u < upper and (form.epsilon == 0.0 or u != 0.0)
    return min(max(u, lower), upper), is_free


@compiled_lean
def respond(labels, s, z, centre, before, was_free, alpha, by, is_free, turned):
    """Write new alpha and sign_i times the change, and which rows are free, and how their weights in (2) changed.

    Sums of C_i phi(t_i) and of the slacks, and the numbers of rows that have changed, have turned and are free.
    """
    y, cost, loss = labels
    form = dual_form(loss)
    risk, slacks, n_changed, n_turned, n_free = 0.0, 0.0, 0, 0, 0
    for i in range(len(y)):
        C, a, free = cost[i], 0.0, False
        if C > 0.0:
            t = argument(loss, z[i], y[i])
            a, free = best_alpha(form, t, C, centre[i], s)
            risk += C * value(loss, t)
            slacks += slack(loss, t, a, C)
        alpha[i], is_free[i] = a, free
        by[i] = (a - before[i]) * sign(loss, y[i])
        turned[i] = 0.0 if free == was_free[i] else C if free else -C
        n_changed += a != before[i]
        n_turned += free != was_free[i]
        n_free += free
    return risk, slacks, n_changed, n_turned, n_free


@compiled_lean
def write_weights(labels, is_free, D):
    """The weights of rows in (2)."""
    _, cost, _ = labels
    for i in range(len(D)):
        D[i] = cost[i] if is_free[i] else 0.0


# ---------------------------------------------------------------- along a step


@compiled_lean
def slope(labels, s, step, z, dz, centre):
    """Sums of alpha_i sign_i dz_i, and of C_i dz_i^2 over free rows, at z + step dz."""
    y, cost, loss = labels
    form = dual_form(loss)
    first, second = 0.0, 0.0
    for i in range(len(z)):
        if cost[i] > 0.0:
            t = argument(loss, z[i] + step * dz[i], y[i])
            alpha, is_free = best_alpha(form, t, cost[i], centre[i], s)
            first += alpha * sign(loss, y[i]) * dz[i]
            if is_free:
                second += cost[i] * dz[i] * dz[i]
    return first, second


def undecided(
    labels: Labels, s: float, most: float, z: Array, dz: Array, centre: Array
) -> tuple[list[Array], float] | None:
    """What is known of the rows that must be looked at, and what the others add to the slope; None if it is much.

    That is more than a share `most` of the rows.
    """
    which = np.empty(len(z), np.int64)
    n, constant = _leave_out(labels, s, z, dz, centre, which)
    if n > most * len(z):
        return None
    return [vector[which[:n]] for vector in (labels.y, labels.cost, z, dz, centre)], constant


@compiled_lean
def _leave_out(labels, s, z, dz, centre, which):
    y, cost, loss = labels
    form = dual_form(loss)
    n, constant = 0, 0.0
    for i in range(len(z)):
        if cost[i] > 0.0:
            here, is_free = best_alpha(form, argument(loss, z[i], y[i]), cost[i], centre[i], s)
            there, is_free_there = best_alpha(form, argument(loss, z[i] + dz[i], y[i]), cost[i], centre[i], s)
            if here == there and not is_free and not is_free_there:
                constant += here * sign(loss, y[i]) * dz[i]
            else:
                which[n] = i
                n += 1
    return n, constant
