"""Forward-backward splitting with every weight changed in every step."""

import numpy as np

from maxmargin.losses import SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from naive.objectives import argument, phi
from naive.random import Xorshift
from naive.sgd_qn import row_slope


def norm(penalty, w):
    """What the penalty adds to P(w)."""
    return {
        "l2": 0.5 * np.sum(w**2),
        "l1": np.sum(np.abs(w)),
        "l2_norm": np.sqrt(np.sum(w**2)),
        "linf": np.max(np.abs(w)),
    }[penalty]


def prox(penalty, v, step):
    """argmin_w 1/2 |w - v|^2 + step R(w); the largest size by bisection."""
    if penalty == "l2":
        return v / (1 + step)
    if penalty == "l1":
        return np.array([np.sign(a) * max(0.0, abs(a) - step) for a in v])
    if penalty == "l2_norm":
        length = np.linalg.norm(v)
        return v * 0.0 if length <= step else v * (1 - step / length)
    low, high = 0.0, np.abs(v).max()
    for _ in range(80):
        middle = (low + high) / 2
        if np.maximum(0, np.abs(v) - middle).sum() > step:
            low = middle
        else:
            high = middle
    return np.clip(v, -high, high)


def folos(X, y, cost, loss, seed=0, penalty="l2", every=None, power=0.5, eta0=None, by_steps=False):
    """The w of FOLOS after every pass."""
    order, random = list(np.flatnonzero(cost)), Xorshift(seed)
    random.shuffle(order)
    m, sample = len(order), order[:1000]
    eta0 = calibrated(X, y, cost, loss, sample, m, penalty, by_steps) if eta0 is None else eta0
    w, k = np.zeros(X.shape[1]), 0
    while True:
        rows = every or (1 if penalty in ("l2", "l2_norm") else int(np.ceil(m / max(1, 10 // (k + 1)))))
        etas = [rate(penalty, eta0, k, m, s, power, by_steps) for s in range(m)]
        w = one_pass(X, y, cost, loss, w, order, m, penalty, rows, etas)
        k += 1
        yield w, k
        random.shuffle(order)


def rate(penalty, eta0, k, m, s, power, by_steps):
    """eta of step s of pass k, both counted from zero."""
    if penalty == "l2":
        return 1 / (1 / eta0 + k * m + s)
    return eta0 / (k * m + s + 1 if by_steps else k + 1) ** power


def one_pass(X, y, cost, loss, w, order, m, penalty, every, etas):
    """Steps of these sizes on the rows in this order."""
    pending = 0.0
    for s, i in enumerate(order):
        eta, C = etas[s], m * cost[i]
        quadratic = isinstance(loss, SquaredHinge | SquaredError | SquaredEpsilonInsensitive)
        shortened = max(1.0, 2.0 * C * eta * np.sum(X[i] ** 2)) if quadratic else 1.0
        w = w - eta * C * row_slope(X[i], y[i], loss, w) / shortened
        pending += eta
        if (s + 1) % every == 0 or s + 1 == len(order):
            w, pending = prox(penalty, w, pending), 0.0
    return w


def calibrated(X, y, cost, loss, sample, m, penalty, by_steps=False):
    """The best of the powers of four around a guess, by one pass over the sample."""
    unit = max(1.0, m * np.mean([cost[i] * X[i] @ X[i] for i in sample]))
    every = int(np.ceil(len(sample) / 10)) if penalty == "linf" else 1

    def objective(k):
        eta0, w = 4.0**k / unit, np.zeros(X.shape[1])
        etas = [rate(penalty, eta0, 0, m, s, 0.5, by_steps) for s in range(m)]
        w = one_pass(X, y, cost, loss, w, sample, m, penalty, every, etas)
        risk = sum(cost[i] * phi(loss, argument(loss, X[i] @ w, y[i])) for i in sample)
        return norm(penalty, w) + m / len(sample) * risk

    k, direction = 0, 1 if objective(1) < objective(0) else -1
    while objective(k + direction) < objective(k) and abs(k + direction) <= 20:
        k += direction
    return 4.0**k / unit
