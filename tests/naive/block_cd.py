"""Dual coordinate descent by blocks, row by row as the papers say it."""

import itertools

import numpy as np

from naive.dual_cd import _best_in_one_variable, _is_shrunk, _quadratic_term_and_bounds
from naive.objectives import CLASSIFICATION
from naive.random import Xorshift


def block_cd(X, y, cost, loss, seed=0, borders=None, sweeps=1):
    """Algorithm 1 of Yu et al. (2010); yields w and alpha at the end of the block in which l rows more were visited.

    Blocks are the rows between `borders`; each is left when as many rows were visited as `sweeps` sweeps over all of
    its rows have. Thresholds of shrinking, (16) of Hsieh et al. (2008), are halved.
    """
    random = Xorshift(seed)
    epsilon, is_classifier = getattr(loss, "epsilon", 0.0), isinstance(loss, CLASSIFICATION)
    alpha, w = np.zeros(len(y)), np.zeros(X.shape[1])
    blocks = [range(a, b) for a, b in itertools.pairwise(borders or [0, len(y)])]
    order, n_rows, visits, n_yielded = list(range(len(blocks))), np.count_nonzero(cost), 0, 0
    while True:
        random.shuffle(order)
        for k in order:
            active = [i for i in blocks[k] if cost[i] > 0]
            left_to_visit, M_bar, m_bar = sweeps * len(active), np.inf, -np.inf
            while active and left_to_visit:
                random.shuffle(active)
                kept, gradients = [], []
                for i in active[:left_to_visit]:
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
                visits += min(len(active), left_to_visit)
                left_to_visit -= min(len(active), left_to_visit)
                M, m = max(gradients, default=0.0), min(gradients, default=0.0)
                active, M_bar, m_bar = kept, 0.5 * M if M > 0 else np.inf, 0.5 * m if m < 0 else -np.inf
            while (n_yielded + 1) * n_rows <= visits:
                n_yielded += 1
                yield w.copy(), alpha.copy()
