"""What `Problem` does with each row and each label: risk, slacks, the dual point of w, and what alpha adds up to."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import add_row, row_dot
from maxmargin.losses import argument, conjugate, derivative, sign, slack, target, value

# ---------------------------------------------------------------- steps over rows


@compiled_lean
def risk_and_slack(block, w, alpha):
    """Sums of C_i phi(t_i) and of the slacks; the latter infinite if an alpha is not feasible."""
    rows, y, cost, loss = block
    risk, slacks = 0.0, 0.0
    for i in range(len(y)):
        if cost[i] > 0.0:
            t = argument(loss, row_dot(rows, i, w), y[i])
            risk += cost[i] * value(loss, t)
            if conjugate(loss, -alpha[i] / cost[i]) == np.inf:
                slacks = np.inf
            slacks += slack(loss, t, alpha[i], cost[i])
        elif alpha[i] != 0.0:
            slacks = np.inf
    return risk, slacks


@compiled_lean
def write_dual_point(block, w, alpha):
    """alpha_i = -C_i phi'(t_i): the dual point of w."""
    rows, y, cost, loss = block
    for i in range(len(y)):
        alpha[i] = -cost[i] * derivative(loss, argument(loss, row_dot(rows, i, w), y[i]))


@compiled_lean
def add_dual(block, alpha, v):
    """Add the rows' part of sum_i alpha_i sign_i x_i to v."""
    rows, y, _, loss = block
    for i in range(len(y)):
        if alpha[i] != 0.0:
            add_row(rows, i, alpha[i] * sign(loss, y[i]), v)


# ---------------------------------------------------------------- steps over labels


@compiled_lean
def sum_conjugates(labels, alpha):
    """Sum of C_i phi*(-alpha_i / C_i) - alpha_i target_i."""
    y, cost, loss = labels
    total = 0.0
    for i in range(len(alpha)):
        if cost[i] > 0.0:
            total += cost[i] * conjugate(loss, -alpha[i] / cost[i]) - alpha[i] * target(loss, y[i])
        elif alpha[i] != 0.0:
            total = np.inf
    return total


@compiled_lean
def sum_sides(labels, alpha):
    """Sums of the positive and of the negative alpha_i sign_i, both as positive numbers."""
    above, below = 0.0, 0.0
    for i in range(len(alpha)):
        side = alpha[i] * sign(labels.loss, labels.y[i])
        if side > 0.0:
            above += side
        else:
            below -= side
    return above, below


@compiled_lean
def scale_sides(labels, factors, alpha, out):
    """Multiply the alpha of each side by its factor."""
    for i in range(len(alpha)):
        side = alpha[i] * sign(labels.loss, labels.y[i])
        out[i] = alpha[i] * (factors[0] if side > 0.0 else factors[1])
