"""Dual coordinate descent, row by row as the paper says it."""

import numpy as np

from maxmargin.losses import EpsilonInsensitive, Hinge, Huber, SquaredHinge
from naive.objectives import CLASSIFICATION
from naive.random import Xorshift


def dual_cd(X, y, cost, loss, seed=0, shrinking=True, order="permutation", threshold=1.0, violation=0.0, seen=None):
    """Algorithms 1 and 2 of Hsieh et al. (2008), with (16); yields w, alpha and |A| each time l rows were visited.

    `threshold` is section 3.2's factor of both M-bar and m-bar, `violation` the epsilon of (17): it ends the run after
    a sweep over all rows, and brings all back after one over fewer. (|A|, M - m) of every sweep is appended to `seen`.
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
            active = [everyone[random.below(len(everyone))] for _ in everyone]
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
        M, m = max(gradients, default=0.0), min(gradients, default=0.0)
        if seen is not None:
            seen.append((len(active), M - m))
        if M - m < violation and len(active) == len(everyone):
            yield w.copy(), alpha.copy(), len(active)
            return
        if M - m < violation:
            active, M_bar, m_bar = list(everyone), np.inf, -np.inf
        else:
            active = kept
            M_bar, m_bar = (threshold * M if M > 0 else np.inf), (threshold * m if m < 0 else -np.inf)


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
