"""Newton's method with dense matrices."""

import itertools

import numpy as np

from naive.objectives import argument, curvature, gradient, primal


def tron(X, y, cost, loss, seed=0, method="cholesky", events=None):
    """Every point of Newton's method, with the passes that it took; `events` counts what happened."""
    for visits, w in _newton_points(X, y, cost, loss, method, {} if events is None else events):
        yield visits / np.count_nonzero(cost), w


def _newton_points(X, y, cost, loss, method, events):
    """Every point of the method, with the number of rows that were visited until it was known."""
    n_rows, n = np.count_nonzero(cost), X.shape[1]
    w, visits = np.zeros(n), n_rows  # P and its gradient at zero
    yield visits, w
    in_matrix, columns, radius = np.zeros(len(y)), None, np.inf
    g_at_start = gradient(X, y, cost, loss, w)
    while True:
        g, D = gradient(X, y, cost, loss, w), cost * curvature(loss, argument(loss, X @ w, y))
        if np.linalg.norm(g) <= 1e-11 * np.linalg.norm(g_at_start):  # all that is left is rounding
            yield np.inf, w
        if method == "cholesky":
            changed = np.abs(D - in_matrix) > 0.1 * np.maximum(D, in_matrix)
            if in_matrix.any() and changed.sum() >= np.count_nonzero(D):
                in_matrix, changed = 0 * D, D > 0
                events["anew"] = events.get("anew", 0) + 1
            in_matrix = np.where(changed, D, in_matrix)
            visits += changed.sum()
            s, r = np.linalg.solve(np.eye(n) + X.T @ (in_matrix[:, None] * X), -g), None
        else:
            if method == "line_search" and columns is None:
                columns = X.T**2 @ cost
                visits += n_rows
            M = 1 + 0.01 * (D.sum() / cost.sum()) * columns if method == "line_search" else np.ones(n)
            radius = min(radius, np.linalg.norm(g_at_start))
            accuracy = min(0.3, np.sqrt(np.linalg.norm(g) / np.linalg.norm(g_at_start)))
            accuracy = accuracy if method == "line_search" else 0.1
            limit = radius if method == "trust_region" else np.inf
            s, r, products = _conjugate_gradients(np.eye(n) + X.T @ (D[:, None] * X), g, M, accuracy, limit, events)
            visits += products * np.count_nonzero(D)
        visits += n_rows
        if method == "trust_region":
            radius, is_better = _trust_region(X, y, cost, loss, w, s, r, radius, visits, events)
        else:
            step = _line_search(X, y, cost, loss, w, s)
            if step != 1.0:
                visits += n_rows
                events["searches"] = events.get("searches", 0) + 1
            s, is_better = step * s, True
        if is_better:
            w = w + s
            yield visits, w


def _conjugate_gradients(H, g, M, accuracy, radius, events):
    """Algorithm 2 of Lin, Weng and Keerthi (2008), with a preconditioner: s, the residual, how many products."""
    s, r = 0 * g, -g
    d = r / M
    for i in itertools.count(1):
        alpha = (r @ (r / M)) / (d @ H @ d)
        if np.linalg.norm(s + alpha * d) >= radius:
            roots = np.roots([d @ d, 2 * s @ d, s @ s - radius**2])
            events["boundary"] = events.get("boundary", 0) + 1
            return s + max(roots) * d, r - max(roots) * H @ d, i
        new_r = r - alpha * H @ d
        s = s + alpha * d
        if np.linalg.norm(new_r) <= accuracy * np.linalg.norm(g) or i == len(g) + 10:
            return s, new_r, i
        d = new_r / M + (new_r @ (new_r / M)) / (r @ (r / M)) * d
        r = new_r


def _trust_region(X, y, cost, loss, w, s, r, radius, visits, events):
    """Algorithm 1 of Lin, Weng and Keerthi (2008) with the constants of section 4, and LIBLINEAR's choice in (10)."""
    g, length = gradient(X, y, cost, loss, w), np.linalg.norm(s)
    if not events.get("steps"):
        radius = min(radius, length)
    events["steps"] = events.get("steps", 0) + 1
    change = primal(X, y, cost, loss, w + s) - primal(X, y, cost, loss, w)
    rho = -change / (0.5 * (s @ r - g @ s))
    alpha = 4.0 if change <= g @ s else max(0.25, -0.5 * (g @ s) / (change - g @ s))
    if rho < 1e-4:
        radius = min(alpha * length, 0.5 * radius)
        events["rejected"] = events.get("rejected", 0) + 1
    elif rho < 0.25:
        radius = np.clip(alpha * length, 0.25 * radius, 0.5 * radius)
    elif rho < 0.75:
        radius = np.clip(alpha * length, 0.25 * radius, 4 * radius)
    else:
        radius = np.clip(alpha * length, radius, 4 * radius)
    return radius, rho > 1e-4


def _line_search(X, y, cost, loss, w, s):
    """One, if the slope has halved there and P has not grown; else where the slope is a tenth, by Newton's method."""
    slope_at_0 = gradient(X, y, cost, loss, w) @ s
    slope = gradient(X, y, cost, loss, w + s) @ s
    if abs(slope) <= 0.5 * abs(slope_at_0) and primal(X, y, cost, loss, w + s) <= primal(X, y, cost, loss, w):
        return 1.0
    step, low, high = 1.0, 0.0, np.inf
    while abs(slope) > 0.1 * abs(slope_at_0):
        low, high = (low, step) if slope > 0 else (step, high)
        D = cost * curvature(loss, argument(loss, X @ (w + step * s), y))
        step -= slope / (s @ s + D @ (X @ s) ** 2)
        if not low < step < high:
            step = (low + high) / 2 if high < np.inf else 2 * low
        elif high == np.inf:
            step = min(step, 10 * low)
        slope = gradient(X, y, cost, loss, w + step * s) @ s
    return step
