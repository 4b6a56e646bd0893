"""OCAS as in the paper, and a line search that looks at every breakpoint."""

import itertools

import numpy as np
from scipy.optimize import brentq

from naive.cutting_plane import plane, reduced, subgradient
from naive.objectives import CLASSIFICATION, argument, kinks


def ocas(X, y, cost, loss, seed=0, mix=0.1):
    """Algorithm 1: the start, then the passes and the best point w_b after each iteration."""
    w_b = np.zeros(X.shape[1])
    planes = [(w_b, 0.0)]
    yield 0, w_b
    for passes in itertools.count(1, 2):
        w_t, _ = reduced(planes)
        w_b = w_b + best_step(X, y, cost, loss, w_b, w_t) * (w_t - w_b)
        w_c = (1 - mix) * w_b + mix * w_t
        planes.append(plane(X, y, cost, loss, w_c))
        yield passes, w_b


def best_step(X, y, cost, loss, w, w_t):
    """The k >= 0 for which P(w + k (w_t - w)) is least."""
    sign, direction = y if isinstance(loss, CLASSIFICATION) else np.ones_like(y), w_t - w
    t, d = argument(loss, X @ w, y), sign * (X @ direction)

    def slope(k):
        return (w + k * direction) @ direction + np.sum(cost * d * subgradient(loss, t + k * d))

    breakpoints = [(place - ti) / di for place in kinks(loss) for ti, di in zip(t, d) if di != 0]
    ends = [0.0, *sorted(k for k in breakpoints if k > 0)]
    ends.append(2 * ends[-1] + 1)
    while slope(ends[-1]) < 0:
        ends.append(2 * ends[-1])
    # Between two breakpoints the slope has no jumps; at them, it is taken slightly inside.
    for low, high in itertools.pairwise(ends):
        inside_low, inside_high = low + 1e-13 * (high - low), high - 1e-13 * (high - low)
        if slope(inside_low) >= 0:
            return low
        if slope(inside_high) >= 0:
            return brentq(slope, inside_low, inside_high, xtol=1e-16, rtol=1e-15)
    return ends[-1]
