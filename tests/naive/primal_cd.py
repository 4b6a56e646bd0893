"""Primal coordinate descent, feature by feature with all of X."""

import itertools

import numpy as np

from maxmargin.losses import Huber, Logistic
from naive.objectives import argument, curvature, gradient, phi
from naive.random import Xorshift


def primal_cd(X, y, cost, loss, seed=0, penalty="l2", shrinking=True, events=None):
    """Algorithm 1 of Chang et al. (2008) and CDN of Yuan et al. (2010); w after each sweep over the active features.

    Without Newton steps for several features at once. `events` counts what happened.
    """
    X, y, cost = X[cost > 0], y[cost > 0], cost[cost > 0]
    random, n, events = Xorshift(seed), X.shape[1], {} if events is None else events
    active, w, M = list(range(n)), np.zeros(n), np.inf
    is_l1 = penalty == "l1"
    while True:
        random.shuffle(active)
        kept, violations = [], [0.0]
        for j in active:
            G = (gradient(X, y, cost, loss, w) - w)[j]
            D = cost * curvature(loss, argument(loss, X @ w, y))
            H = max(D @ X[:, j] ** 2, 1e-6 * _most_curvature(loss) * (cost @ X[:, j] ** 2))
            if is_l1 and shrinking and w[j] == 0 and abs(G) < 1 - M / len(y):
                events["shrunk"] = events.get("shrunk", 0) + 1
            else:
                kept.append(j)
                violations.append(_violation(w[j], G))
                w[j] += _step(X, y, cost, loss, w, j, G, H, is_l1, events)
        yield (w.copy(),)
        active, M = (kept, max(violations)) if kept else (list(range(n)), np.inf)


def _violation(w, G):
    """Distance of zero from the subgradients of P in one weight, with the L1 penalty."""
    if w != 0:
        return abs(G + np.sign(w))
    return max(0.0, abs(G) - 1)


def _step(X, y, cost, loss, w, j, G, H, is_l1, events):
    """The change of w_j: a Newton step, halved until P has decreased enough."""
    t, others = argument(loss, X @ w, y), 0.5 * (np.sum(w**2) - w[j] ** 2)
    if is_l1:
        candidates = [-(G + 1) / H, -(G - 1) / H] if H > 0 else []
        model = {d: G * d + 0.5 * H * d**2 + abs(w[j] + d) for d in [-w[j], *candidates]}
        d = min(model, key=model.get)
        Delta = G * d + abs(w[j] + d) - abs(w[j])
    else:
        d = -(G + w[j]) / (H + 1)
        Delta = (G + w[j]) * d
    if abs(Delta) < 1e-12 * (cost @ phi(loss, t)):  # P no longer tells, and it does not matter
        return d
    step = 1.0
    while True:
        bound = _bound(loss, X[:, j], cost, H, abs(step * d)) + (not is_l1)
        if 0.5 * bound * step**2 * d**2 <= (0.01 - 1) * step * Delta:
            events["proven"] = events.get("proven", 0) + 1
            return step * d
        after = w + step * d * np.eye(len(w))[j]
        before = abs(w[j]) if is_l1 else others + 0.5 * w[j] ** 2
        penalty = abs(after[j]) if is_l1 else others + 0.5 * after[j] ** 2
        risks = (cost @ phi(loss, t), cost @ phi(loss, argument(loss, X @ after, y)))
        if risks[1] + penalty - risks[0] - before <= 0.01 * step * Delta:
            events["searched"] = events.get("searched", 0) + 1
            return step * d
        step /= 2
        events["halved"] = events.get("halved", 0) + 1


def _most_curvature(loss):
    match loss:
        case Huber(delta):
            return 1 / delta
        case Logistic():
            return 0.25
    return 2.0


def _bound(loss, x, cost, H, step):
    """Of the mean second derivative over a step."""
    most, reach = _most_curvature(loss) * (cost @ x**2), step * np.abs(x).max()
    if isinstance(loss, Logistic) and 0 < reach < 2:
        series = itertools.accumulate(range(3, 40), lambda term, k: term * reach / k, initial=0.5)
        return min(most, 2 * H * sum(series))  # (exp(r) - 1 - r) / r^2 = 1/2 + r/6 + r^2/24 + ...
    return most
