"""Slow, obvious versions of what the package does fast: the oracles of the tests.

They take a dense X, and share nothing with the code under test but the tags that name the losses.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import minimize

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


# ---------------------------------------------------------------- a solver from another family


def optimum(X, y, cost, loss):
    """(w, gap) from scipy's quasi-Newton method on the dual; the gap says how good it is."""
    lowest, highest = conjugate_domain(loss)
    kink = getattr(loss, "epsilon", 0.0)
    n = len(y)
    target = 0 * y if isinstance(loss, CLASSIFICATION) else y
    Z = X * (y[:, None] if isinstance(loss, CLASSIFICATION) else 1.0)

    # alpha = positive - negative part, so that the kink at zero becomes linear.
    def negative_dual(parts):
        a = (parts[:n] - parts[n:]) / cost
        w = Z.T @ (a * cost)
        smooth = type(loss)(0.0) if kink else loss
        value = 0.5 * w @ w + sum(C * conjugate(smooth, -ai) for ai, C in zip(a, cost)) - (a * cost) @ target
        gradient = Z @ w - target + _conjugate_slope(smooth, a)
        return value + kink * parts.sum(), np.concatenate([gradient + kink, kink - gradient])

    bounds = [(0, -lowest * C) for C in cost] + [(0, highest * C) for C in cost]
    options = {"maxiter": 50_000, "maxfun": 200_000, "ftol": 0.0, "gtol": 1e-12, "maxcor": 60}
    parts = minimize(negative_dual, np.zeros(2 * n), jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    alpha = np.clip(parts[:n] - parts[n:], [-b[1] for b in bounds[n:]], [b[1] for b in bounds[:n]])
    w = weights(X, y, loss, alpha)
    return w, primal(X, y, cost, loss, w) - dual(X, y, cost, loss, alpha)


def _conjugate_slope(loss, a):
    """Derivative of phi*(-a) with respect to a, where there is no kink."""
    match loss:
        case Hinge():
            return -np.ones_like(a)
        case SquaredHinge():
            return a / 2 - 1
        case Huber(delta):
            return delta * a - 1
        case Logistic():
            inside = np.clip(a, 1e-300, 1 - 1e-16)
            return np.log(inside) - np.log1p(-inside)
        case EpsilonInsensitive():
            return 0 * a
    return a / 2


# ---------------------------------------------------------------- dual coordinate descent


class Xorshift:
    """Marsaglia's xorshift64 (13, 7, 17) in Python's own integers."""

    def __init__(self, seed):
        self.x = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])

    def below(self, n):
        self.x ^= (self.x << 13) % 2**64
        self.x ^= self.x >> 7
        self.x ^= (self.x << 17) % 2**64
        return (self.x >> 32) * n >> 32

    def shuffle(self, items):
        for i in range(len(items)):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]


def dual_cd(X, y, cost, loss, seed=0, shrinking=True, order="permutation", eagerness=0.5):
    """Algorithms 1 and 2 of Hsieh et al. (2008), with (16); yields w, alpha and |A| each time l rows were visited.

    `eagerness` is section 3.2's "threshold smaller than one": a factor of both M-bar and m-bar.
    The regression losses follow from the same equations with a target and a kink of size epsilon at alpha = 0.
    """
    random = Xorshift(seed)
    everyone = [i for i in range(len(y)) if cost[i] > 0]
    epsilon = getattr(loss, "epsilon", 0.0)
    is_classifier = isinstance(loss, CLASSIFICATION)
    active, alpha, w = list(everyone), np.zeros(len(y)), np.zeros(X.shape[1])
    M_bar, m_bar = np.inf, -np.inf
    visits = 0
    while True:
        if order == "permutation":
            random.shuffle(active)
        elif order == "online":
            draws = (random.below(len(y)) for _ in itertools.count())
            active = list(itertools.islice((i for i in draws if cost[i] > 0), len(everyone)))
        kept, gradients = [], []
        for i in active:
            a, x = alpha[i], X[i] * (y[i] if is_classifier else 1.0)
            D, lower, upper = _quadratic_term_and_bounds(loss, cost[i])
            G = w @ x - (1.0 if is_classifier else y[i]) + D * a  # (12)
            right = G + epsilon if a >= 0 else G - epsilon  # derivatives to both sides of a
            left = G + epsilon if a > 0 else G - epsilon
            if not (shrinking and order != "online" and _is_shrunk(a, left, right, lower, upper, m_bar, M_bar)):
                PG = 0.0  # (8)
                if a < upper:
                    PG += min(right, 0.0)
                if a > lower:
                    PG += max(left, 0.0)
                kept.append(i)
                gradients.append(PG)
                if PG != 0.0:
                    alpha[i] = _best_in_one_variable(a, G, x @ x + D, epsilon, lower, upper)  # (9)
                    w += (alpha[i] - a) * x  # (13)
            visits += 1
            if visits % len(everyone) == 0:
                yield w.copy(), alpha.copy(), len(active)
        active = kept
        M, m = max(gradients, default=0.0), min(gradients, default=0.0)
        M_bar, m_bar = (eagerness * M if M > 0 else np.inf), (eagerness * m if m < 0 else -np.inf)


def _quadratic_term_and_bounds(loss, C):
    """D_ii and the interval of alpha_i; section 1 of the paper for the first two."""
    match loss:
        case Hinge():
            return 0.0, 0.0, C
        case SquaredHinge():
            return 1 / (2 * C), 0.0, np.inf
        case Huber(delta):
            return delta / C, 0.0, C
        case EpsilonInsensitive():
            return 0.0, -C, C
    return 1 / (2 * C), -np.inf, np.inf


def _is_shrunk(a, left, right, lower, upper, m_bar, M_bar):
    """(16), and what it says of a kink: there, both derivatives must be beyond the thresholds."""
    if a == lower:
        return right > M_bar
    if a == upper:
        return left < m_bar
    return a == 0 and right > M_bar and left < m_bar


def _best_in_one_variable(a, G, H, epsilon, lower, upper):
    """Minimiser of H/2 (b - a)^2 + G (b - a) + epsilon |b| for lower <= b <= upper: the best of all that it can be."""
    candidates = [b for b in (lower, 0.0, upper) if np.isfinite(b)]
    if H > 0:
        candidates += [min(max(a - (G + side) / H, lower), upper) for side in (epsilon, -epsilon)]
    return min(candidates, key=lambda b: 0.5 * H * (b - a) ** 2 + G * (b - a) + epsilon * abs(b))


# Every solver needs an entry here: (X, y, cost, loss, seed) -> iterator over (w, ...) after each pass.
STEP_BY_STEP = {"dual_cd": dual_cd}
