"""The optimum of a small problem, with a proof: the oracle of all tests that need to know where the minimum is.

    min_w  Omega(w) + sum_i C_i phi(t_i),    the last column's weight not in Omega if the intercept is free

A loss or penalty with kinks becomes linear constraints on slack variables; the convex program that is left is solved by
the primal-dual interior-point method of Boyd and Vandenberghe, Convex Optimization, algorithm 11.2. The multipliers of
the constraints are the dual variables alpha. Neither is trusted: `optimum` makes alpha feasible, evaluates both
objectives by their definitions, and fails if the relative gap exceeds `PRECISION`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from maxmargin.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)
from naive.objectives import CLASSIFICATION, argument, conjugate_domain, curvature, dual, gradient, phi, weights

PRECISION = 1e-10  # relative gap that every answer has

DUAL_NORMS = {
    "l1": lambda v: np.max(np.abs(v)),
    "l2_norm": lambda v: np.sqrt(np.sum(v**2)),
    "linf": lambda v: np.sum(np.abs(v)),
}
NORMS = {"l1": DUAL_NORMS["linf"], "l2_norm": DUAL_NORMS["l2_norm"], "linf": DUAL_NORMS["l1"]}


class Optimum(NamedTuple):
    """A proven answer: dual <= least objective <= primal."""

    w: np.ndarray
    alpha: np.ndarray
    primal: float
    dual: float


def optimum(X, y, cost, loss, penalty="l2", free_intercept=False):
    """The minimum of a problem with dense X, proven to `PRECISION`; with "l2_norm", if it is not at w = 0."""
    kept = cost > 0.0
    program = _Program(X[kept], y[kept], cost[kept], loss, penalty, free_intercept)
    best, alpha = None, np.zeros(len(y))
    for v, z in _interior_point(program):
        alpha[kept] = program.alpha(v, z)
        found = _proven(X, y, cost, loss, penalty, free_intercept, program.w(v), alpha)
        if best is None or abs(found.primal - found.dual) < abs(best.primal - best.dual):
            best = found
    assert best is not None, "the oracle is at fault: it has not made a step"
    gap = best.primal - best.dual
    assert abs(gap) <= PRECISION * best.primal, f"the oracle is at fault: its gap is {gap:.2g} of {best.primal:.6g}"
    return best


def _proven(X, y, cost, loss, penalty, free_intercept, w, alpha):
    """Both objectives by their definitions, the dual one at a feasible point next to alpha."""
    alpha = _feasible(X, y, cost, loss, penalty, free_intercept, alpha)
    penalized = slice(0, X.shape[1] - free_intercept)
    v = weights(X, y, loss, alpha)
    upper, lower = np.sum(cost * phi(loss, argument(loss, X @ w, y))), dual(X, y, cost, loss, alpha) + 0.5 * v @ v
    if penalty == "l2":
        upper, lower = upper + 0.5 * w[penalized] @ w[penalized], lower - 0.5 * v[penalized] @ v[penalized]
    else:
        upper += NORMS[penalty](w[penalized])
    return Optimum(w, alpha, upper, lower)


def _feasible(X, y, cost, loss, penalty, free_intercept, alpha):
    """The nearest point, but for rounding, that proves something: within bounds, balanced, in the dual norm's ball."""
    lowest, highest = conjugate_domain(loss)
    alpha = np.clip(
        alpha, -highest * cost if highest < np.inf else -np.inf, -lowest * cost if lowest > -np.inf else np.inf
    )
    side = alpha * y if isinstance(loss, CLASSIFICATION) else alpha
    excess = side.sum()
    if free_intercept and excess:
        heavier = side * excess > 0.0
        alpha[heavier] *= 1.0 - abs(excess) / np.abs(side[heavier]).sum()
    if penalty != "l2":
        v = weights(X, y, loss, alpha)[: X.shape[1] - free_intercept]
        alpha = alpha / max(1.0, DUAL_NORMS[penalty](v))
    return alpha


# ---------------------------------------------------------------- the convex program


class _Program:
    """Minimise f(v) subject to G v <= h, where v = (w, bounds of the norm, slacks of the loss)."""

    def __init__(self, X, y, cost, loss, penalty, free_intercept):
        self.loss, self.penalty, self.y, self.X, self.cost = loss, penalty, y, X, cost
        m, n = X.shape
        self.n, self.n_penalized = n, n - free_intercept
        sign = y if isinstance(loss, CLASSIFICATION) else np.ones(m)
        self.Z = sign[:, None] * X  # t = Z w - target
        self.target = 0 * y if isinstance(loss, CLASSIFICATION) else y
        n_bounds = {"l1": self.n_penalized, "linf": 1}.get(penalty, 0)
        n_slacks = 0 if isinstance(loss, Logistic | SquaredError) else 2 * m if isinstance(loss, Huber) else m
        self.size = n + n_bounds + n_slacks
        self.bounds = slice(n, n + n_bounds)
        self.slacks = slice(n + n_bounds, n + n_bounds + m)  # xi
        self.rounded = slice(n + n_bounds + m, self.size)  # the quadratic part of Huber's loss
        self.quadratic, self.linear = np.zeros(self.size), np.zeros(self.size)
        self.constraints = [(np.zeros((0, self.size)), np.zeros(0))]
        if penalty == "l2":
            self.quadratic[: self.n_penalized] = 1.0
        elif n_bounds:
            self.linear[self.bounds] = 1.0
            for side in (1.0, -1.0):  # |w_j| <= u_j, or u
                self._constrain(np.zeros(self.n_penalized), w=side * np.eye(n)[: self.n_penalized], bounds=-1.0)
        self._add_loss(m)
        self.G = np.vstack([G for G, _ in self.constraints])
        self.h = np.concatenate([h for _, h in self.constraints])

    def _constrain(self, h, w=0.0, bounds=0.0, slacks=0.0, rounded=0.0):
        """One constraint for each entry of h; a number stands for a diagonal matrix, or a column."""
        G = np.zeros((len(h), self.size))
        for where, part in (
            (slice(0, self.n), w),
            (self.bounds, bounds),
            (self.slacks, slacks),
            (self.rounded, rounded),
        ):
            if np.ndim(part) or part:
                width = G[:, where].shape[1]
                G[:, where] = part if np.ndim(part) else part * (np.eye(width) if width > 1 else np.ones((len(h), 1)))
        self.constraints.append((G, h))

    def _add_loss(self, m):
        match self.loss:
            case Hinge() | SquaredHinge():  # xi >= 1 - t, xi >= 0
                self._constrain(-np.ones(m), w=-self.Z, slacks=-1.0)
                self._constrain(np.zeros(m), slacks=-1.0)
            case Huber(delta):  # phi(t) = min_r r^2 / (2 delta) + max(0, 1 - t - r)
                self._constrain(-np.ones(m), w=-self.Z, slacks=-1.0, rounded=-1.0)
                self._constrain(np.zeros(m), slacks=-1.0)
                self.quadratic[self.rounded] = self.cost / delta
            case EpsilonInsensitive(epsilon) | SquaredEpsilonInsensitive(epsilon):  # xi >= |t| - epsilon, xi >= 0
                self._constrain(epsilon + self.target, w=self.Z, slacks=-1.0)
                self._constrain(epsilon - self.target, w=-self.Z, slacks=-1.0)
                self._constrain(np.zeros(m), slacks=-1.0)
        if isinstance(self.loss, Hinge | Huber | EpsilonInsensitive):
            self.linear[self.slacks] = self.cost
        elif isinstance(self.loss, SquaredHinge | SquaredEpsilonInsensitive):
            self.quadratic[self.slacks] = 2.0 * self.cost

    def start(self):
        """A point with all constraints slack."""
        v = np.zeros(self.size)
        v[: self.n] = 0.1 * (self.penalty == "l2_norm")  # which has no derivative at zero
        v[self.n :] = 1.0
        v[self.slacks] += np.abs(self.Z @ v[: self.n] - self.target) + 1.0 if self.size > self.slacks.start else 0.0
        return v

    def gradient(self, v):
        """Of f."""
        g, w = self.quadratic * v + self.linear, v[: self.n]
        if isinstance(self.loss, Logistic | SquaredError):
            g[: self.n] += gradient(self.X, self.y, self.cost, self.loss, w) - w
        if self.penalty == "l2_norm":
            g[: self.n_penalized] += w[: self.n_penalized] / np.linalg.norm(w[: self.n_penalized])
        return g

    def hessian(self, v):
        """Of f."""
        H, w = np.diag(self.quadratic), v[: self.n]
        if isinstance(self.loss, Logistic | SquaredError):
            second = self.cost * curvature(self.loss, self.Z @ w - self.target)
            H[: self.n, : self.n] += self.Z.T @ (second[:, None] * self.Z)
        if self.penalty == "l2_norm":
            length = np.linalg.norm(w[: self.n_penalized])
            u = w[: self.n_penalized] / length
            H[: self.n_penalized, : self.n_penalized] += (np.eye(len(u)) - np.outer(u, u)) / length
        return H

    def w(self, v):
        return v[: self.n]

    def alpha(self, v, z):
        """Minus the derivative of each row's loss: what the constraints of its slack push with."""
        t, m = self.Z @ v[: self.n] - self.target, len(self.y)
        match self.loss:
            case Logistic():
                return self.cost * expit(-t)
            case SquaredError():
                return -2.0 * self.cost * t
            case Hinge() | SquaredHinge() | Huber():
                return z[len(z) - 2 * m : len(z) - m]
        above, below = z[len(z) - 3 * m : len(z) - 2 * m], z[len(z) - 2 * m : len(z) - m]
        return below - above


# ---------------------------------------------------------------- the method


def _interior_point(program, n_iterations=100):
    """Iterates (v, z) towards the least f(v) with G v <= h, until rounding is all that is left."""
    G, v = program.G, program.start()
    slack = program.h - G @ v
    assert np.all(slack > 0.0)
    z = 1.0 / slack

    def residual(v, z, slack):
        return np.concatenate([program.gradient(v) + G.T @ z, z * slack - barrier])

    for _ in range(n_iterations):
        barrier = 0.1 * (z @ slack) / max(1, len(z))
        before = residual(v, z, slack)
        r_dual, r_center = before[: len(v)], before[len(v) :]
        try:
            dv = np.linalg.solve(
                program.hessian(v) + G.T @ ((z / slack)[:, None] * G), -r_dual + G.T @ (r_center / slack)
            )
        except np.linalg.LinAlgError:  # z / slack is beyond all digits
            return
        ds = -(G @ dv)
        dz = -(r_center + z * ds) / slack
        step = min(1.0, 0.99 * _to_the_border(z, dz), 0.99 * _to_the_border(slack, ds))
        while np.linalg.norm(residual(v + step * dv, z + step * dz, slack + step * ds)) > (
            1.0 - 0.01 * step
        ) * np.linalg.norm(before):
            step /= 2.0
            if step < 1e-8:
                return
        v, z, slack = v + step * dv, z + step * dz, slack + step * ds
        yield v, z


def _to_the_border(x, d):
    """The largest step along d that keeps x nonnegative."""
    return np.min(x[d < 0] / -d[d < 0], initial=np.inf)
