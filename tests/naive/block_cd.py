"""Dual coordinate descent by blocks, row by row as the papers say it."""

import itertools

import numpy as np

from naive.dual_cd import _best_in_one_variable, _is_shrunk, _quadratic_term_and_bounds
from naive.objectives import CLASSIFICATION
from naive.random import Xorshift


def block_cd(X, y, cost, loss, seed=0, borders=None, sweeps=2, at_once=1):
    """Algorithm 1 of Yu et al. (2010); yields w and alpha at the end of the block in which l rows more were visited.

    Blocks are the rows between `borders`; `at_once` are loaded at a time and left after `sweeps` sweeps over their
    active rows. Rows are shrunk for good, by thresholds that are half of (16) of Hsieh et al. (2008) for the outer
    iteration before.
    """
    random = Xorshift(seed)
    epsilon, is_classifier = getattr(loss, "epsilon", 0.0), isinstance(loss, CLASSIFICATION)
    alpha, w = np.zeros(len(y)), np.zeros(X.shape[1])
    active = [[i for i in range(a, b) if cost[i] > 0] for a, b in itertools.pairwise(borders or [0, len(y)])]
    order, n_rows, visits, n_yielded = list(range(len(active))), np.count_nonzero(cost), 0, 0
    M_bar, m_bar = np.inf, -np.inf
    while True:
        random.shuffle(order)
        gradients = [0.0]
        for some in (order[k : k + at_once] for k in range(0, len(order), at_once)):
            loaded = sorted(i for k in some for i in active[k])
            for _ in range(sweeps):
                random.shuffle(loaded)
                visits += len(loaded)
                kept = []
                for i in loaded:
                    a, x = alpha[i], X[i] * (y[i] if is_classifier else 1.0)
                    D, lower, upper = _quadratic_term_and_bounds(loss, cost[i])
                    G = w @ x - (1.0 if is_classifier else y[i]) + D * a
                    right = G + epsilon if a >= 0 else G - epsilon
                    left = G + epsilon if a > 0 else G - epsilon
                    if _is_shrunk(a, left, right, lower, upper, m_bar, M_bar):
                        continue
                    kept.append(i)
                    gradients.append((min(right, 0.0) if a < upper else 0.0) + (max(left, 0.0) if a > lower else 0.0))
                    if gradients[-1] != 0.0:
                        alpha[i] = _best_in_one_variable(a, G, x @ x + D, epsilon, lower, upper)
                        w += (alpha[i] - a) * x
                loaded = kept
            for k in some:
                active[k] = sorted(set(active[k]) & set(loaded))
            while (n_yielded + 1) * n_rows <= visits:
                n_yielded += 1
                yield w.copy(), alpha.copy()
        M, m = max(gradients), min(gradients)
        M_bar, m_bar = 0.5 * M if M > 0 else np.inf, 0.5 * m if m < 0 else -np.inf
