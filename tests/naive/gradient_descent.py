"""Textbook gradient and Newton steps, with dense matrices."""

import numpy as np

from maxmargin.losses import Huber, Logistic
from naive.objectives import argument, curvature, gradient, primal
from naive.random import Xorshift
from naive.sgd_qn import row_slope


def bound(X, cost, loss):
    """The largest curvature of a row, taken as many times as there are rows."""
    bend = 0.25 if isinstance(loss, Logistic) else 1 / loss.delta if isinstance(loss, Huber) else 2.0
    return max(1.0, np.count_nonzero(cost) * bend * np.max(cost * np.sum(X**2, axis=1)))


def hessian(X, y, cost, loss, w):
    """Second derivatives of P at w."""
    return np.eye(X.shape[1]) + X.T @ np.diag(cost * curvature(loss, argument(loss, X @ w, y))) @ X


def gd(X, y, cost, loss, seed=0):
    """Every point of gradient descent, with the passes that it took."""
    yield from _points(X, y, cost, loss, newton=False)


def newton(X, y, cost, loss, seed=0):
    """Every point of Newton's method, with the passes that it took."""
    yield from _points(X, y, cost, loss, newton=True)


def _points(X, y, cost, loss, newton):
    w, passes = np.zeros(X.shape[1]), 1
    eta = 1 / (1 + bound(X, cost, loss))
    yield passes, w
    while True:
        g = gradient(X, y, cost, loss, w)
        d = np.linalg.solve(hessian(X, y, cost, loss, w), g) if newton else g
        eta = 1.0 if newton else eta
        passes += 1
        here = primal(X, y, cost, loss, w)
        while primal(X, y, cost, loss, w - eta * d) > (1 + 1e-14) * here - 0.25 * eta * g @ d:
            eta, passes = eta / 2, passes + 1
        w, eta = w - eta * d, 1.2 * eta
        yield passes, w


def sgd_plain(X, y, cost, loss, seed=0):
    """The w of stochastic gradient descent after every pass."""
    order, random, t = list(np.flatnonzero(cost)), Xorshift(seed), 0
    w, t0 = np.zeros(X.shape[1]), bound(X, cost, loss)
    while True:
        random.shuffle(order)
        for i in order:
            w = w - (w + len(order) * cost[i] * row_slope(X[i], y[i], loss, w)) / (t0 + t)
            t += 1
        yield w, t


def second_order_sgd(X, y, cost, loss, seed=0):
    """The w of 2SGD after every pass."""
    order, random, t = list(np.flatnonzero(cost)), Xorshift(seed), 0
    t0 = w_size = X.shape[1]
    w, S = np.zeros(w_size), w_size * (1 + bound(X, cost, loss)) * np.eye(w_size)
    H, total, since = S / t0, t0, t0
    while True:
        random.shuffle(order)
        for i in order:
            m, bend = len(order), curvature(loss, np.array([argument(loss, X[i] @ w, y[i])]))[0]
            step = np.linalg.solve(H, w + m * cost[i] * row_slope(X[i], y[i], loss, w))
            w = w - step / (t0 + t)
            S = S + np.eye(len(w)) + m * cost[i] * bend * np.outer(X[i], X[i])
            t, total = t + 1, total + 1
            if t0 + t >= 2 * since:
                H, since = S / total, t0 + t
                S, total = S / 4, total / 4
        yield w, t
