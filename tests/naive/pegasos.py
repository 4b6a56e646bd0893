"""Pegasos, batch after batch as the paper says it."""

import numpy as np

from maxmargin.losses import SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from naive.objectives import argument, phi, primal
from naive.random import Xorshift
from naive.sgd import doublings, milestones, mixed, sign, slope, start_of_window


def pegasos(X, y, cost, loss, seed=0, batch=1, project=True, iterate="suffix", replacement=False):
    """The answer, the dual point and all iterates each time as many rows were visited as there are."""
    rows, random, w = [i for i in range(len(y)) if cost[i] > 0], Xorshift(seed), np.zeros(X.shape[1])
    m, radius = len(rows), np.sqrt(primal(X, y, cost, loss, w))
    t, passes, iterates, ends, slopes = 0, 0, [], [0], []
    while True:
        order = [rows[random.below(m)] for _ in rows] if replacement else mixed(rows, random)
        for begin in range(0, m, batch):
            A_t = order[begin : begin + batch]
            t += 1
            u = [safe_slope(X[i], y[i], m * cost[i] / t, loss, w) for i in A_t]
            slopes += zip(A_t, u)
            w = (1 - 1 / t) * w + m / t * np.mean(
                [cost[i] * u_i * sign(loss, y[i]) * X[i] for i, u_i in zip(A_t, u)], axis=0
            )
            if project and np.linalg.norm(w) > radius:
                w = w * radius / np.linalg.norm(w)
            iterates.append(w)
        passes += 1
        ends.append(len(iterates))
        suffix = iterates[ends[start_of_window(passes, milestones(passes))] :]
        window = {"suffix": suffix, "average": iterates, "last": iterates[-1:]}[iterate]
        alpha = np.zeros(len(y))
        for i in rows:
            own = [u_i for j, u_i in slopes[m * start_of_window(passes, doublings(passes)) :] if j == i]
            alpha[i] = cost[i] * np.mean(own) if own else 0.0
        yield np.mean(window, axis=0), alpha, iterates


def safe_slope(x, y, rate, loss, w):
    """-phi'; for a loss without a bound on it, as much as takes the row twice as far as where its tangent is zero."""
    t = argument(loss, x @ w, y)
    u = -slope(loss, t)
    if isinstance(loss, SquaredHinge | SquaredError | SquaredEpsilonInsensitive) and u != 0 and x.any():
        u *= min(1.0, 2 * phi(loss, t) / (rate * u * u * (x @ x)))
    return u
