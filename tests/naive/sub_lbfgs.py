"""subLBFGS with matrices, sorted breakpoints, and a general method for the mixtures."""

import itertools

import numpy as np
from scipy.optimize import minimize

from naive.lbfgs import inverse_hessian, scale_of
from naive.objectives import CLASSIFICATION, argument, kinks, primal


def sub_lbfgs(X, y, cost, loss, seed=0, memory=10, most=50, events=None):
    """Every point of subLBFGS, with the passes until the next direction is known; `events` counts what happened."""
    for visits, w in _points(X, y, cost, loss, memory, most, {} if events is None else events):
        yield visits / np.count_nonzero(cost), w


def _points(X, y, cost, loss, memory, most, events):
    n_rows, n = np.count_nonzero(cost), X.shape[1]
    Z = X * (y[:, None] if isinstance(loss, CLASSIFICATION) else 1.0)  # t = Z w - target
    widest = 0.1 * (1.0 if isinstance(loss, CLASSIFICATION) else cost @ np.abs(y) / cost.sum())
    w, pairs, visits, tolerance = np.zeros(n), [], n_rows, widest
    step, dt, free, mixed = 0.0, 0 * y, np.zeros(len(y), dtype=bool), np.zeros(len(y))
    mixture = p = 0 * w
    while True:
        t = argument(loss, X @ w, y)
        left, right = cost * _left_and_right(loss, t, 1e-10 * widest)
        alpha = np.where(dt > 0, right, left)  # a row at its kink is taken from the side that p leads to,
        held = free & (left != right)  # unless it stays there: then it keeps its alpha
        alpha[held] = np.clip(mixed, right, left)[held]
        visits += np.count_nonzero(alpha)
        s, change = step * p, w - Z.T @ alpha - mixture
        if s @ change >= 0.5 * s @ s > 0:
            pairs = [*pairs, (s, change)][-memory:]
        B = inverse_hessian(pairs, scale_of(pairs[-1]) if pairs else 1.0, n)
        free = None
        for narrower in 0.1 ** np.arange(15):
            left, right = cost * _left_and_right(loss, t, narrower * tolerance)
            if free is not None and free.sum() == np.sum(left != right):
                continue
            free = left != right
            p, mixed, slope, n_found = _direction(Z, w, B, alpha, free, left, right, most)
            visits += n_found * free.sum()
            if slope < 0:
                break
            events["narrower"] = events.get("narrower", 0) + 1
        else:
            yield np.inf, w  # optimal
        yield visits, w
        tolerance *= narrower
        events["mixed"] = max(events.get("mixed", 0), n_found)
        mixture, dt, step = w - Z.T @ mixed, Z @ p, _line_search(X, y, cost, loss, w, p)
        visits += n_rows
        w = w + step * p


def _left_and_right(loss, t, distance):
    """-phi' a distance left and right of t."""
    places = kinks(loss)
    levels = np.array([1.0, 0.0] if isinstance(loss, CLASSIFICATION) else [1.0, 0.0, -1.0])
    return np.array([levels[_n_kinks_before(loss, t + side, places)] for side in (-distance, distance)])


def _n_kinks_before(loss, t, places):
    """How many kinks t has passed. A kink itself has the subgradient zero, from both sides of a regressor's loss."""
    return sum((t > place) | ((t == place) & (place <= 0 or isinstance(loss, CLASSIFICATION))) for place in places)


def _direction(Z, w, B, alpha, free, left, right, most):
    """Algorithm 2: p, the alpha that it comes from, the largest slope, and how many subgradients it took."""
    found, best = [alpha], None
    for n_found in itertools.count(1):
        G = w - np.array(found) @ Z  # a subgradient a row
        mix = best_mix(G, B)
        p = -B @ (mix @ G)
        newest = np.where(free, np.where(Z @ p > 0, right, left), alpha)
        slope = (w - Z.T @ newest) @ p
        bound = 0.5 * p @ (mix @ G)
        if best is None or slope - bound < best[0]:
            best = slope - bound, p, mix @ np.array(found), slope
        is_accurate = best[3] < 0 and best[0] - bound <= 0.1 * abs(best[0])
        if is_accurate or not free.any() or n_found == most or best[0] - bound <= 1e-14 * G[0] @ B @ G[0]:
            return *best[1:], n_found
        found.append(newest)


def best_mix(G, B):
    """Shares of the mixture g of these subgradients for which g'B g is least."""
    n, Q = len(G), G @ B @ G.T
    Q /= Q.max()
    mix = minimize(
        lambda mix: 0.5 * mix @ Q @ mix,
        np.full(n, 1 / n),
        jac=lambda mix: Q @ mix,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda mix: mix.sum() - 1, "jac": lambda mix: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    ).x
    return _polished(Q, mix)


def _polished(G, mix):
    """The exact mixture of those that have a share."""
    used = np.flatnonzero(mix > 1e-7)
    ones = np.ones((len(used), 1))
    system = np.block([[G[np.ix_(used, used)], ones], [ones.T, np.zeros((1, 1))]])
    exact = np.zeros(len(mix))
    exact[used] = np.linalg.lstsq(system, np.append(np.zeros(len(used)), 1.0), rcond=1e-13)[0][:-1]
    return exact if exact.min() >= -1e-12 else mix


def _line_search(X, y, cost, loss, w, p):
    """Where P is least along p: at a kink, or where a parabola between two of them is."""
    t, dt = argument(loss, X @ w, y), argument(loss, X @ (w + p), y) - argument(loss, X @ w, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = ((np.array(kinks(loss))[:, None] - t) / dt).ravel()
    places = np.unique(places[np.isfinite(places) & (places > 0)])
    candidates = list(places)
    for low, high in itertools.pairwise([0.0, *places, 2 * max(places, default=1.0) + 1e6]):
        f = [primal(X, y, cost, loss, w + k * p) for k in (low, (low + high) / 2, high)]
        # Between two breakpoints P is the parabola with second derivative p'p.
        slope = (f[2] - f[0]) / (high - low) - 0.5 * (p @ p) * (high - low)
        inside = low - slope / (p @ p)
        if low < inside < high:
            candidates.append(inside)
    return min(candidates, key=lambda k: primal(X, y, cost, loss, w + k * p))


def online_sub_lbfgs(X, y, cost, loss, random, memory=10, most=50, batch=1000, tau=1.0):
    """The w of online subLBFGS after every batch; batches do not grow. `random` shuffles the rows."""
    order, w, pairs = list(np.flatnonzero(cost)), np.zeros(X.shape[1]), []
    n_batches = max(1, round(len(order) / batch))
    radius = np.sqrt(2 * primal(X, y, cost, loss, w))
    for t in itertools.count():
        if t % n_batches == 0:
            random.shuffle(order)
            begin = 0
        rows = order[begin : begin + (len(order) - begin) // (n_batches - t % n_batches)]
        begin += len(rows)
        share = tau * n_batches / (tau * n_batches + t)
        w, pairs = _batch_step(X[rows], y[rows], len(order) / len(rows) * cost[rows], loss, w, pairs, share, most)
        pairs = pairs[-memory:]
        w = w * min(1.0, radius / np.linalg.norm(w))
        yield w


def _batch_step(X, y, cost, loss, w, pairs, share, most):
    """A share of an iteration on some rows: the new point, and the pairs with what it has taught."""
    Z = X * (y[:, None] if isinstance(loss, CLASSIFICATION) else 1.0)
    widest = 0.1 * (1.0 if isinstance(loss, CLASSIFICATION) else cost @ np.abs(y) / cost.sum())
    t = argument(loss, X @ w, y)
    alpha, _ = cost * _left_and_right(loss, t, 1e-10 * widest)
    B = inverse_hessian(pairs, scale_of(pairs[-1]) if pairs else 1.0, len(w))
    for narrower in 0.1 ** np.arange(11):
        left, right = cost * _left_and_right(loss, t, narrower * widest)
        free = left != right
        p, mixed, slope, _ = _direction(Z, w, B, alpha, free, left, right, most)
        if slope < 0:
            break
    else:
        return w, []
    there = w + share * _line_search(X, y, cost, loss, w, p) * p
    left, right = cost * _left_and_right(loss, argument(loss, X @ there, y), 1e-10 * widest)
    beyond = np.where(Z @ p > 0, right, left)
    held = free & (left != right)
    beyond[held] = np.clip(mixed, right, left)[held]
    s, change = there - w, (there - Z.T @ beyond) - (w - Z.T @ mixed)
    return there, [*pairs, (s, change)] if s @ change >= 0.5 * s @ s > 0 else pairs
