"""L-BFGS with the matrix written out."""

import itertools

import numpy as np

from naive.objectives import gradient, primal
from naive.tron import _line_search


def lbfgs(X, y, cost, loss, seed=0, memory=10, events=None):
    """Every point of L-BFGS, with the passes that it took; `events` counts what happened."""
    for visits, w in _points(X, y, cost, loss, memory, {} if events is None else events):
        yield visits / np.count_nonzero(cost), w


def each_pass(points, n_rows):
    """From (number of rows visited before w was known, w) to the last w that was known after each pass."""
    _, w = next(points)
    later, coming = next(points)
    for k in itertools.count(1):
        while later <= k * n_rows:
            w = coming
            later, coming = next(points)
        yield (w,)


def inverse_hessian(pairs, scale, n):
    """B after all pairs (s, y), by the formula of Broyden, Fletcher, Goldfarb and Shanno; (7.16) and (7.17)."""
    B = scale * np.eye(n)
    for s, y in pairs:
        V = np.eye(n) - np.outer(y, s) / (s @ y)
        B = V.T @ B @ V + np.outer(s, s) / (s @ y)
    return B


def scale_of(pair):
    """s'y / y'y: (7.20)."""
    s, y = pair
    return (s @ y) / (y @ y)


def _points(X, y, cost, loss, memory, events):
    n_rows, n = np.count_nonzero(cost), X.shape[1]
    w, pairs, visits = np.zeros(n), [], n_rows
    yield visits, w
    while True:
        g = gradient(X, y, cost, loss, w)
        if np.linalg.norm(g) <= 1e-11 * np.linalg.norm(gradient(X, y, cost, loss, 0 * w)):  # all is rounding
            yield np.inf, w
        s = -inverse_hessian(pairs, scale_of(pairs[-1]) if pairs else 1.0, n) @ g
        visits += n_rows
        if not _is_good(X, y, cost, loss, w, s):
            s = _line_search(X, y, cost, loss, w, s) * s
            visits += n_rows
            events["searches"] = events.get("searches", 0) + 1
        pairs = [*pairs, (s, gradient(X, y, cost, loss, w + s) - g)][-memory:]
        events["forgotten"] = len(pairs) == memory
        w = w + s
        yield visits, w


def _is_good(X, y, cost, loss, w, s):
    """The strong Wolfe conditions for step 1."""
    g, g_there = gradient(X, y, cost, loss, w), gradient(X, y, cost, loss, w + s)
    enough = primal(X, y, cost, loss, w + s) <= primal(X, y, cost, loss, w) + 1e-4 * g @ s
    return enough and abs(g_there @ s) <= 0.9 * abs(g @ s)
