"""Online L-BFGS with the matrix written out."""

import numpy as np

from naive.lbfgs import each_pass, inverse_hessian, scale_of
from naive.objectives import gradient, primal
from naive.random import Xorshift


def online_lbfgs(X, y, cost, loss, seed=0, memory=10, batch=1000, tau=1.0, damping=0.0):
    """The w of online L-BFGS, with batches that do not grow, each time as many rows were visited as there are."""
    points = _points(X, y, cost, loss, Xorshift(seed), memory, batch, tau, damping)
    yield from each_pass(points, np.count_nonzero(cost))


def _points(X, y, cost, loss, random, memory, batch, tau, damping):
    order, n = list(np.flatnonzero(cost)), X.shape[1]
    n_batches = max(1, round(len(order) / batch))
    radius = np.sqrt(2 * primal(X, y, cost, loss, np.zeros(n)))
    w, pairs, visits, t = np.zeros(n), [], 0, 0
    yield visits, w
    while True:
        if n_batches > 1:
            random.shuffle(order)
        begin = 0
        for k in range(n_batches):
            rows = order[begin : begin + (len(order) - begin) // (n_batches - k)]
            begin += len(rows)
            share = len(order) / len(rows)
            g = gradient(X[rows], y[rows], share * cost[rows], loss, w)
            if n_batches > 1 or t == 0:  # else it is known from the step before
                visits += len(rows)
            scale = np.mean([scale_of(pair) for pair in pairs]) if pairs else 1e-3 / (1 + cost @ np.sum(X**2, axis=1))
            eta = tau * n_batches / (tau * n_batches + t) if n_batches > 1 and pairs else 1.0
            there = w - eta * inverse_hessian(pairs, scale, n) @ g
            there *= min(1.0, radius / np.linalg.norm(there))
            visits += len(rows)
            change = gradient(X[rows], y[rows], share * cost[rows], loss, there) - g
            pairs = [*pairs, (there - w, change + damping * (there - w))][-memory:]
            w, t = there, t + 1
            yield visits, w
