"""Forward-backward splitting with all rows, and its step sizes."""

import itertools

import numpy as np

from maxmargin.losses import EpsilonInsensitive, Hinge
from naive.folos import norm, prox
from naive.objectives import argument, phi
from naive.sgd_qn import row_slope


def folos_batch(X, y, cost, loss, seed=0, penalty="l2"):
    """The best w after every step, and the passes it took: each w that was looked at is one."""
    unit = max(1.0, cost @ np.sum(X**2, axis=1))
    has_kinks, passes = isinstance(loss, Hinge | EpsilonInsensitive), 1

    def risk(w):
        return sum(c * phi(loss, argument(loss, x @ w, label)) for c, x, label in zip(cost, X, y))

    def objective(w):
        return norm(penalty, w) + risk(w)

    def slope(w):
        return sum(c * row_slope(x, label, loss, w) for c, x, label in zip(cost, X, y))

    def step(w, eta):
        return prox(penalty, w - eta * slope(w), eta)

    w = best = np.zeros(X.shape[1])
    if has_kinks and penalty != "l2":
        eta0, n = first_step_size(lambda eta: five_steps(step, w, eta), objective, unit)
        passes += n
    else:
        eta0 = 1 / unit
    yield passes, best
    eta = eta0
    for t in itertools.count(1):
        if has_kinks:
            eta = 2 / t if penalty == "l2" else eta0 / np.sqrt(t)
            there, passes = step(w, eta), passes + 1
        else:
            eta *= 1.2
            while True:
                there, passes = step(w, eta), passes + 1
                d = there - w
                bound = risk(w) + slope(w) @ d + d @ d / (2 * eta)
                if risk(there) <= bound + 1e-14 * risk(w) or not d.any():
                    break
                eta /= 2
        w = there
        best = w if objective(w) < objective(best) else best
        yield passes, best


def five_steps(step, w, eta0):
    """Where five steps lead."""
    for t in range(1, 6):
        w = step(w, eta0 / np.sqrt(t))
    return w


def first_step_size(lead, objective, unit):
    """The best of the powers of four around a guess, and the passes that trials took."""
    heights = {}

    def height(k):
        heights[k] = objective(lead(4.0**k / unit))
        return heights[k]

    k, lowest, direction = 0, height(0), 1
    if height(1) >= lowest:
        direction = -1
    else:
        k, lowest = 1, heights[1]
    while abs(k + direction) <= 20 and height(k + direction) < lowest:
        k += direction
        lowest = heights[k]
    return 4.0**k / unit, 5 * len(heights)
