"""Stochastic gradient descent, one row after the other, with every weight touched at every step."""

import numpy as np

from maxmargin.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)
from naive.objectives import CLASSIFICATION, argument, phi, primal
from naive.random import Xorshift


def sgd(X, y, cost, loss, seed=0, average="suffix", t0=None, truncated=True):
    """The answer and the dual point each time all rows were visited; see the solver for the equations."""
    rows, random, w = [i for i in range(len(y)) if cost[i] > 0], Xorshift(seed), np.zeros(X.shape[1])
    if t0 is None:
        t0 = calibrated(X, y, cost, loss, rows, random, truncated=truncated)
    if t0 == "typical":
        t0 = typical(1 / sum(cost), loss)
    t, passes, iterates, slopes = 0, 0, [], []
    while True:
        for i in mixed(rows, random):
            t += 1
            w, u = step(X[i], y[i], len(rows) * cost[i], loss, w, t + t0, truncated)
            iterates.append(w)
            slopes.append((i, u))
        passes += 1
        suffix = iterates[len(rows) * start_of_window(passes, milestones(passes)) :]
        window = {"suffix": suffix, True: iterates, False: iterates[-1:]}[average]
        first = start_of_window(passes, doublings(passes))
        alpha = np.zeros(len(y))
        for i, u in slopes[len(rows) * first :]:
            alpha[i] += cost[i] * u / (passes - first)
        yield np.mean(window, axis=0), alpha


def doublings(n):
    """1, 2, 4, 8, ..., as far as n."""
    return [2**k for k in range(n.bit_length())]


def milestones(n):
    """1, 2, 3, 4, 6, 8, 12, ..., as far as n."""
    return sorted({*doublings(n), *(3 * k for k in doublings(n // 3))})


def start_of_window(n, ends):
    """The last window, joined by the one before while that is longer."""
    before, begin = [0, 0, *ends][-2:]
    return before if n - begin < begin - before else begin


def typical(lam, loss):
    """1 / (lambda eta_0) as svmsgd2 has it."""
    typw = (1 / lam**0.5) ** 0.5
    eta0 = typw / max(1.0, -slope(loss, -typw))
    return 1 / (eta0 * lam)


def step(x, y, C, loss, w, t, truncated=True):
    """(1), truncated at twice the way to where the tangent of the loss is zero; the slope that was taken."""
    z = x @ w
    u = -slope(loss, argument(loss, z, y))
    if u != 0 and truncated:
        u *= min(1.0, 2 * phi(loss, argument(loss, z, y)) / (C / t * u * u * (x @ x))) if x.any() else 1.0
    return (1 - 1 / t) * w + C / t * u * sign(loss, y) * x, u


def mixed(rows, random, together=4, mixed=512):
    """Groups of neighbours in random order, then the rows of many groups in random order."""
    groups = [rows[k : k + together] for k in range(0, len(rows), together)]
    if len(rows) > mixed:
        random.shuffle(groups)
    order = [i for group in groups for i in group]
    for k in range(0, len(rows), mixed):
        some = order[k : k + mixed]
        random.shuffle(some)
        order[k : k + mixed] = some
    return order


def calibrated(X, y, cost, loss, rows, random, size=1000, truncated=True):
    """The power of two, times sum_i C_i |x_i|^2, with which a pass over a sample does best."""
    unit = sum(cost[i] * X[i] @ X[i] for i in rows)
    sample = list(rows)
    random.shuffle(sample)
    sample = sample[:size]

    def objective(octave):
        w = np.zeros(X.shape[1])
        for t, i in enumerate(sample, start=1):
            w, _ = step(X[i], y[i], len(rows) * cost[i], loss, w, t + unit * 2.0**octave, truncated)
        return primal(X[sample], y[sample], len(rows) / len(sample) * cost[sample], loss, w)

    values = {octave: objective(octave) for octave in range(-20, 21)}
    up = down = 0
    while up < 20 and values[up + 1] < values[up] * (1 - 1e-6):
        up += 1
    while up == 0 and down > -20 and values[down - 1] < values[down] * (1 - 1e-6):
        down -= 1
    return unit * 2.0 ** (up or down)


def sign(loss, y):
    return y if isinstance(loss, CLASSIFICATION) else 1.0


def slope(loss, t):
    """phi'(t), zero or the outer one where there is a kink."""
    match loss:
        case Hinge():
            return -1.0 if t < 1 else 0.0
        case SquaredHinge():
            return -2 * max(0, 1 - t)
        case Huber(delta):
            return -np.clip((1 - t) / delta, 0, 1)
        case Logistic():
            return -1 / (1 + np.exp(t))
        case SquaredError():
            return 2 * t
        case EpsilonInsensitive(epsilon):
            return np.sign(t) if abs(t) > epsilon else 0.0
        case SquaredEpsilonInsensitive(epsilon):
            return 2 * np.sign(t) * max(0, abs(t) - epsilon)
    raise TypeError(loss)
