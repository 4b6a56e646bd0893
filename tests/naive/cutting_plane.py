"""Cutting planes with the reduced problem solved by trying every set of active planes."""

import itertools

import numpy as np

from maxmargin.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)
from naive.objectives import CLASSIFICATION, argument, phi, primal


def cutting_plane(X, y, cost, loss, seed=0):
    """The start, then the passes and the best point so far of CPA after each iteration."""
    yield from _bundle(X, y, cost, loss, [(np.zeros(X.shape[1]), 0.0)])


def bmrm(X, y, cost, loss, seed=0):
    """The same without the plane zero."""
    yield from _bundle(X, y, cost, loss, [])


def _bundle(X, y, cost, loss, planes):
    w = best = np.zeros(X.shape[1])
    yield 0, w
    for passes in itertools.count(1, 2):
        if primal(X, y, cost, loss, w) < primal(X, y, cost, loss, best):
            best = w
        planes.append(plane(X, y, cost, loss, w))
        w, _ = reduced(planes)
        yield passes, best


def subgradient(loss, t):
    """phi'(t); at a kink, that of the right side of a hinge, and that of the tube of an insensitive loss."""
    match loss:
        case Hinge():
            return np.where(t < 1, -1.0, 0.0)
        case SquaredHinge():
            return -2 * np.maximum(0, 1 - t)
        case Huber(delta):
            return -np.clip((1 - t) / delta, 0, 1)
        case Logistic():
            return -np.exp(-np.logaddexp(0, t))
        case SquaredError():
            return 2 * t
        case EpsilonInsensitive(epsilon):
            return np.sign(t) * (np.abs(t) > epsilon)
        case SquaredEpsilonInsensitive(epsilon):
            return 2 * np.sign(t) * np.maximum(0, np.abs(t) - epsilon)
    raise TypeError(loss)


def plane(X, y, cost, loss, w):
    """(a, b) of the plane that touches the risk at w, as it is defined: b is R(w) - a'w."""
    t, sign = argument(loss, X @ w, y), y if isinstance(loss, CLASSIFICATION) else np.ones_like(y)
    a = X.T @ (cost * subgradient(loss, t) * sign)
    return a, np.sum(cost * phi(loss, t)) - a @ w


def reduced(planes):
    """The w that minimises F_t(w) = 1/2 |w|^2 + max_k a_k'w + b_k, and F_t(w).

    For each set of planes: the w at which they are equal and -w is in their affine hull. One of these is the minimum of
    F_t, and as F_t is what is minimised, it is the one with the least value.
    """
    A, b = np.array([a for a, _ in planes]), np.array([b for _, b in planes])

    def F_t(w):
        return 0.5 * w @ w + np.max(A @ w + b)

    candidates = []
    for size in range(1, min(len(planes), A.shape[1] + 1) + 1):
        for chosen in map(list, itertools.combinations(range(len(planes)), size)):
            # alpha = (1, 0, 0, ...) + changes that sum up to zero
            first, differences = A[chosen[0]], A[chosen[1:]] - A[chosen[0]]
            rises = b[chosen[1:]] - b[chosen[0]] - differences @ first
            changes = np.linalg.lstsq(differences @ differences.T, rises, rcond=None)[0]
            candidates.append(-first - differences.T @ changes)
    best = min(candidates, key=F_t)
    return best, F_t(best)
