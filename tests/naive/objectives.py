"""Losses, objectives and derivatives, as in the textbook."""

from __future__ import annotations

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

CLASSIFICATION = (Hinge, SquaredHinge, Huber, Logistic)

# ---------------------------------------------------------------- losses and objectives


def argument(loss, z, y):
    """What the loss is a function of: the margin of a classifier, the residual of a regressor."""
    return y * z if isinstance(loss, CLASSIFICATION) else z - y


def phi(loss, t):
    """The loss, as in the textbook."""
    match loss:
        case Hinge():
            return np.maximum(0, 1 - t)
        case SquaredHinge():
            return np.maximum(0, 1 - t) ** 2
        case Huber(delta):
            rounded = np.maximum(0, 1 - t) ** 2 / (2 * delta)
            return np.where(t > 1 - delta, rounded, 1 - t - delta / 2)
        case Logistic():
            return np.logaddexp(0, -t)
        case SquaredError():
            return t**2
        case EpsilonInsensitive(epsilon):
            return np.maximum(0, np.abs(t) - epsilon)
        case SquaredEpsilonInsensitive(epsilon):
            return np.maximum(0, np.abs(t) - epsilon) ** 2
    raise TypeError(loss)


def kinks(loss):
    """Where the loss, or its derivative, has no derivative."""
    match loss:
        case Hinge() | SquaredHinge():
            return [1.0]
        case Huber(delta):
            return [1.0, 1.0 - delta]
        case EpsilonInsensitive(epsilon) | SquaredEpsilonInsensitive(epsilon):
            return [-epsilon, epsilon]
    return []


def conjugate_domain(loss):
    """For which u the supremum of u t - phi(t) is finite."""
    match loss:
        case Hinge() | Huber() | Logistic():
            return -1.0, 0.0
        case SquaredHinge():
            return -np.inf, 0.0
        case EpsilonInsensitive():
            return -1.0, 1.0
    return -np.inf, np.inf


def conjugate(loss, u):
    """phi*(u) in closed form, one number at a time; `test_losses` compares it with the supremum on a grid."""
    lowest, highest = conjugate_domain(loss)
    if not lowest <= u <= highest:
        return np.inf
    match loss:
        case Hinge():
            return u
        case SquaredHinge():
            return u**2 / 4 + u
        case Huber(delta):
            return delta * u**2 / 2 + u
        case Logistic():
            return sum(p * np.log(p) for p in (-u, 1 + u) if p > 0)
        case SquaredError():
            return u**2 / 4
        case EpsilonInsensitive(epsilon):
            return epsilon * abs(u)
        case SquaredEpsilonInsensitive(epsilon):
            return u**2 / 4 + epsilon * abs(u)
    raise TypeError(loss)


def primal(X, y, cost, loss, w):
    """P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i)."""
    return 0.5 * np.sum(w**2) + np.sum(cost * phi(loss, argument(loss, X @ w, y)))


def weights(X, y, loss, alpha):
    """The w that belongs to alpha."""
    return X.T @ (alpha * y if isinstance(loss, CLASSIFICATION) else alpha)


def dual(X, y, cost, loss, alpha):
    """D(alpha) = -1/2 |w|^2 - sum_i C_i phi*(-alpha_i / C_i) - sum_i alpha_i target_i."""
    target = 0 * y if isinstance(loss, CLASSIFICATION) else y
    conjugates = [C * conjugate(loss, -a / C) if C > 0 else (0.0 if a == 0 else np.inf) for a, C in zip(alpha, cost)]
    # t = z - target makes phi(t) a shifted loss, whose conjugate has u target added: here u = -alpha / C.
    return -0.5 * np.sum(weights(X, y, loss, alpha) ** 2) - np.sum(conjugates) + np.sum(alpha * target)


# ---------------------------------------------------------------- derivatives of the smooth losses


def curvature(loss, t):
    """phi''(t) of a smooth loss."""
    match loss:
        case SquaredHinge():
            return np.where(t < 1, 2.0, 0.0)
        case Huber(delta):
            return np.where((t > 1 - delta) & (t < 1), 1 / delta, 0.0)
        case Logistic():
            return expit(t) * expit(-t)
        case SquaredError():
            return np.full_like(t, 2.0)
        case SquaredEpsilonInsensitive(epsilon):
            return np.where(np.abs(t) > epsilon, 2.0, 0.0)
    raise TypeError(loss)


def gradient(X, y, cost, loss, w):
    """Of P at w, for a smooth loss."""
    t, sign = argument(loss, X @ w, y), y if isinstance(loss, CLASSIFICATION) else np.ones_like(y)
    match loss:
        case SquaredHinge():
            slope = -2 * np.maximum(0, 1 - t)
        case Huber(delta):
            slope = -np.clip((1 - t) / delta, 0, 1)
        case Logistic():
            slope = -expit(-t)
        case SquaredError():
            slope = 2 * t
        case SquaredEpsilonInsensitive(epsilon):
            slope = 2 * np.sign(t) * np.maximum(0, np.abs(t) - epsilon)
    return w + X.T @ (cost * slope * sign)
