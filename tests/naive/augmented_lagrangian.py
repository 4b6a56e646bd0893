"""The augmented Lagrangian method, everything computed anew at every step."""

import numpy as np

from maxmargin.losses import EpsilonInsensitive, Hinge, Huber, SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from naive.objectives import CLASSIFICATION, argument, dual, primal, weights


def augmented_lagrangian(X, y, cost, loss, seed=0):
    """Every point of the method, with the passes that it took until its alpha was known."""
    n = X.shape[1]
    signs = y if isinstance(loss, CLASSIFICATION) else np.ones(len(y))
    curvature = {Hinge: 0.0, Huber: getattr(loss, "delta", 0.0), EpsilonInsensitive: 0.0}.get(type(loss), 0.5)
    off = np.ones(len(y)) if isinstance(loss, CLASSIFICATION) else np.abs(y)
    w, centre, s = np.zeros(n), np.zeros(len(y)), 1 / (2 * np.average(off, weights=cost))
    alpha, steps, visits = centre, 0, 0
    while True:
        alpha, before = _best(loss, argument(loss, X @ w, y), cost, centre, s)[0], alpha
        visits += np.count_nonzero(alpha != before)
        apart = w - weights(X, y, loss, alpha)
        gap = primal(X, y, cost, loss, w) - dual(X, y, cost, loss, alpha)
        if steps >= 30 or (steps > 0 and 0.5 * apart @ apart <= 0.5 * gap):
            centre, s, steps = alpha, s * (9 if steps <= 1 else 3 if steps <= 6 else np.sqrt(3)), 0
            continue
        yield visits / np.count_nonzero(cost), w
        free = _best(loss, argument(loss, X @ w, y), cost, centre, s)[1]
        H = np.eye(n) + s / (1 + s * curvature) * (X[free].T * cost[free]) @ X[free]
        dw = -np.linalg.solve(H, apart)
        visits += np.count_nonzero(cost)

        def slope(step):
            alpha, free = _best(loss, argument(loss, X @ (w + step * dw), y), cost, centre, s)  # noqa: B023
            second = dw @ dw + s / (1 + s * curvature) * np.sum((cost * (X @ dw) ** 2)[free])  # noqa: B023
            return (w + step * dw) @ dw - (alpha * signs) @ (X @ dw), second  # noqa: B023

        w = w + _line_search(slope) * dw
        steps += 1


def _best(loss, t, C, centre, s):
    """argmax over a of  -a t - C phi*(-a / C) - (a - centre)^2 / (2 s C), and where it is at no bound and no kink."""
    match loss:
        case Hinge():
            a = np.clip(centre + s * C * (1 - t), 0, C)
            return a, (a > 0) & (a < C)
        case SquaredHinge():
            a = np.maximum(0, (centre + s * C * (1 - t)) / (1 + s / 2))
            return a, a > 0
        case Huber(delta):
            a = np.clip((centre + s * C * (1 - t)) / (1 + s * delta), 0, C)
            return a, (a > 0) & (a < C)
        case SquaredError():
            return (centre - s * C * t) / (1 + s / 2), t == t
        case EpsilonInsensitive(epsilon):
            u = centre - s * C * t
            a = np.clip(np.sign(u) * np.maximum(0, np.abs(u) - s * C * epsilon), -C, C)
            return a, (a != 0) & (np.abs(a) < C)
        case SquaredEpsilonInsensitive(epsilon):
            u = centre - s * C * t
            a = np.sign(u) * np.maximum(0, np.abs(u) - s * C * epsilon) / (1 + s / 2)
            return a, a != 0
    raise TypeError(loss)


def _line_search(slope):
    """One, if the slope is a tenth there; else where it is, by Newton's method in an interval."""
    step, low, high = 1.0, 0.0, np.inf
    at_0, (first, second) = slope(0.0)[0], slope(1.0)
    while abs(first) > 0.1 * abs(at_0):
        low, high = (low, step) if first > 0 else (step, high)
        step -= first / second
        if not low < step < high:
            step = (low + high) / 2 if high < np.inf else 2 * low
        elif high == np.inf:
            step = min(step, 10 * low)
        first, second = slope(step)
    return step
