"""SGD-QN with a step size for each weight written out, and every weight decayed in every step."""

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
from naive.objectives import CLASSIFICATION, argument, primal
from naive.random import Xorshift


def sgd_qn(X, y, cost, loss, seed=0, skip=16, clip=None, secant=False, t0=None):
    """The w of SGD-QN after every pass."""
    order, random = list(np.flatnonzero(cost)), Xorshift(seed)
    random.shuffle(order)
    m, sample = len(order), order[:1000]
    steep = m * np.mean([cost[i] * X[i] @ X[i] for i in sample])
    clip = np.sqrt(max(1.0, steep)) if clip is None else clip
    t0 = calibrated(X, y, cost, loss, sample, m, max(1.0, steep)) if t0 is None else t0
    w, inverse, t = np.zeros(X.shape[1]), np.full(X.shape[1], float(t0)), 0
    while True:
        for i in order:
            t += 1
            step = row_step(X[i], y[i], m * cost[i], loss, w, inverse)
            there = w + step
            if skip and t % skip == 0:
                change = m * cost[i] * (row_slope(X[i], y[i], loss, there) - row_slope(X[i], y[i], loss, w))
                for j in np.flatnonzero(step):
                    if secant:
                        curvature = change[j] / step[j]
                    else:
                        curvature = (change @ step) / (X[i] @ step) ** 2 * X[i, j] ** 2
                    inverse[j] += skip * np.clip(curvature, 0.0, clip - 1.0)
            w = there * inverse / (inverse + 1.0)  # the decay, by the step size of the step to come
            inverse = inverse + 1.0
        yield w, inverse
        random.shuffle(order)


def slope(loss, t):
    """phi'(t), or one of the subgradients, of one number."""
    match loss:
        case Hinge():
            return -1.0 if t < 1 else 0.0
        case SquaredHinge():
            return -2 * max(0.0, 1 - t)
        case Huber(delta):
            return -min(max((1 - t) / delta, 0.0), 1.0)
        case Logistic():
            return -1 / (1 + np.exp(t))
        case SquaredError():
            return 2 * t
        case EpsilonInsensitive(epsilon):
            return np.sign(t) * (abs(t) > epsilon)
        case SquaredEpsilonInsensitive(epsilon):
            return 2 * np.sign(t) * max(0.0, abs(t) - epsilon)
    raise TypeError(loss)


def row_slope(x, y, loss, w):
    """Gradient of one row's loss."""
    return slope(loss, argument(loss, x @ w, y)) * (y if isinstance(loss, CLASSIFICATION) else 1.0) * x


def row_step(x, y, C, loss, w, inverse):
    """Against the gradient of one row's loss, as far as it may go."""
    quadratic = isinstance(loss, SquaredHinge | SquaredError | SquaredEpsilonInsensitive)
    shortened = max(1.0, 2.0 * C * np.sum(x**2 / inverse)) if quadratic else 1.0
    return -C * row_slope(x, y, loss, w) / inverse / shortened


def calibrated(X, y, cost, loss, sample, m, unit):
    """The best of the powers of four around a guess, by one pass over the sample."""

    def objective(k):
        t0 = max(1.0, unit / 4.0**k)
        w = np.zeros(X.shape[1])
        for s, i in enumerate(sample):
            w += row_step(X[i], y[i], m * cost[i], loss, w, np.full(len(w), t0 + s))
            w *= (t0 + s) / (t0 + s + 1)
        return primal(X[sample], y[sample], m / len(sample) * cost[sample], loss, w)

    direction = 1 if unit > 1.0 and objective(1) < objective(0) else -1
    k = 0
    while objective(k + direction) < objective(k) and (direction < 0 or unit / 4.0**k > 1.0):
        k += direction
    return max(1.0, unit / 4.0**k)
