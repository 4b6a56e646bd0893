"""Mehrotra's interior point on the whole system of equations."""

import itertools

import numpy as np

from maxmargin.losses import EpsilonInsensitive, Hinge, Huber, SquaredError
from naive.objectives import CLASSIFICATION


def interior_point(X, y, cost, loss, seed=0):
    """Mehrotra's method on the whole system of equations, nothing eliminated; yields passes and w after each iteration.

    A row has one piece, or two of opposite signs; unknowns are w and, for each piece, p, s (where p >= 0 is asked for)
    and xi (where p <= 1 is). Rows enter in units of their cost.
    """
    is_classifier = isinstance(loss, CLASSIFICATION)
    kappa = {Hinge: 0.0, Huber: getattr(loss, "delta", 0.0), EpsilonInsensitive: 0.0}.get(type(loss), 0.5)
    b = 1.0 if is_classifier else -getattr(loss, "epsilon", 0.0)
    signs = [1.0] if is_classifier or isinstance(loss, SquaredError) else [1.0, -1.0]
    bounds = [not isinstance(loss, SquaredError), isinstance(loss, Hinge | Huber | EpsilonInsensitive)]

    # Piece by piece: sigma t = Z w - shift.
    Z = np.vstack([sigma * X * (y[:, None] if is_classifier else 1.0) for sigma in signs])
    shift = np.concatenate([sigma * (0.0 if is_classifier else y) + 0.0 * y for sigma in signs])
    C = np.concatenate([cost for _ in signs])
    w, n, m = np.zeros(X.shape[1]), X.shape[1], len(C)

    mu = np.sum(C * np.abs(shift + b)) / np.sum(C)
    p, s, xi = _on_central_path(-shift - b, kappa, mu, bounds)

    def residuals(w, p, s, xi, aim, bend_p, bend_r):
        equations = [Z @ w - shift + kappa * p - b - s + xi, w - Z.T @ (C * p)]
        equations += [s * p - aim + bend_p if bounds[0] else s]
        equations += [xi * (1 - p) - aim + bend_r if bounds[1] else xi]
        return np.concatenate(equations)

    def newton(aim, bend_p, bend_r):
        one, zero, aside = np.eye(m), np.zeros((m, m)), np.zeros((m, n))
        jacobian = np.block(
            [
                [Z, kappa * one, -one, one],
                [np.eye(n), -Z.T * C, aside.T, aside.T],
                [aside, np.diag(s) if bounds[0] else zero, np.diag(p) if bounds[0] else one, zero],
                [aside, np.diag(-xi) if bounds[1] else zero, zero, np.diag(1 - p) if bounds[1] else one],
            ]
        )
        return np.split(-np.linalg.solve(jacobian, residuals(w, p, s, xi, aim, bend_p, bend_r)), [n, n + m, n + 2 * m])

    def longest(values, steps, asked_for):
        return min([1 / asked_for, *(-v / d for v, d in zip(values, steps) if d < 0)]) * asked_for

    def complementarity(p, s, xi):
        return np.sum(C * (bounds[0] * s * p + bounds[1] * xi * (1 - p)))

    def steps(dp, ds, dxi, share):
        primal = longest([*s, *xi], [*ds, *dxi], share)
        dual = longest([*p] * bounds[0] + [*(1 - p)] * bounds[1], [*dp] * bounds[0] + [*-dp] * bounds[1], share)
        return primal, dual

    for iteration in itertools.count():
        yield 3 * iteration, w  # passes are for the matrix, for the predictor and for the corrector
        now = complementarity(p, s, xi)
        mu = now / (np.sum(C) * sum(bounds)) if any(bounds) else 0.0
        _, dp, ds, dxi = newton(0.0, 0.0, 0.0)
        primal, dual = steps(dp, ds, dxi, 1.0)
        then = complementarity(p + dual * dp, s + primal * ds, xi + primal * dxi)
        aim = mu * (then / now) ** 5 if any(bounds) else 0.0
        bend_p, bend_r = (np.clip(bend, -2 * mu, 2 * mu) for bend in (dp * ds, -dp * dxi))
        dw, dp, ds, dxi = newton(aim, bend_p, bend_r)
        primal, dual = steps(dp, ds, dxi, 0.995)
        w, p, s, xi = w + primal * dw, p + dual * dp, s + primal * ds, xi + primal * dxi


def _on_central_path(slope, kappa, mu, bounds):
    """p, s and xi with slope + kappa p = s - xi, and with s p and xi (1 - p) equal to mu, or about so for kappa > 0."""
    zero = np.zeros_like(slope)
    if not any(bounds):
        return zero, zero, zero
    if not bounds[1]:  # kappa p^2 + slope p = mu
        p = np.array([max(np.roots([kappa, a, -mu])) for a in slope])
        return p, mu / p, zero
    # mu / p - mu / (1 - p) = a, that is, a p^2 - (a + 2 mu) p + mu = 0; of kappa p only its mean enters.
    p = np.array([next(root for root in np.roots([a, -a - 2 * mu, mu]) if 0 < root < 1) for a in slope + kappa / 2])
    gradient = slope + kappa * p
    s = np.where(gradient > 0, gradient + mu / (1 - p), mu / p)
    return p, s, s - gradient
