"""LaRank with every gradient computed from the dual variables."""

import numpy as np

from naive.random import Xorshift


def larank(X, y, cost, n_classes, seed=0, n_optimize=10, block=None):
    """The dual variables after every pass; with a block, old rows are drawn from as many that lie beside it."""
    order, random = [i for i in range(len(y)) if cost[i] > 0], Xorshift(seed)
    beta, support = np.zeros((len(y), n_classes)), []

    def gradient(i):
        return np.array([(r == y[i]) - (beta[:, r] @ X) @ X[i] for r in range(n_classes)])

    def smo_step(i, up, down):
        g, limit = gradient(i), cost[i] * (up == y[i])
        if g[up] <= g[down] + 1e-12:
            return
        step = min((g[up] - g[down]) / (2 * X[i] @ X[i]) if X[i].any() else np.inf, limit - beta[i, up])
        beta[i, up] += step
        beta[i, down] -= step
        beta[i, y[i]] = -sum(beta[i, r] for r in range(n_classes) if r != y[i])  # so that rounding leaves no trace
        if not beta[i].any():
            support[support.index(i)] = support[-1]
            support.pop()
        elif i not in support:
            support.append(i)

    def may_go_up(i, classes):
        return [r for r in classes if beta[i, r] < (1 - 1e-12) * cost[i] * (r == y[i])]

    def first_least(g, classes):
        """The first class, among those that are equal but for rounding."""
        return next(r for r in classes if g[r] <= min(g[list(classes)]) + 1e-12)

    def process_new(i):
        if may_go_up(i, [y[i]]):
            smo_step(i, y[i], first_least(gradient(i), range(n_classes)))

    def process_old(i):
        g, able = gradient(i), may_go_up(i, range(n_classes))
        if able:
            smo_step(i, first_least(-g, able), first_least(g, range(n_classes)))

    def optimize(i):
        g, own = gradient(i), [r for r in range(n_classes) if beta[i, r] != 0]
        able = may_go_up(i, own)
        if able:
            smo_step(i, first_least(-g, able), first_least(g, own))

    while True:
        random.shuffle(order)
        for k, i in enumerate(order):
            if block is not None and k % block == 0:
                new = order[k : k + block]
                old = [j for j in range(len(y)) if beta[j].any() and j not in new]
                if len(old) > block:
                    random.shuffle(old)
                support[:] = [j for j in new + old[:block] if beta[j].any()]
            (process_old if i in support else process_new)(i)
            for turn in range(1 + n_optimize):
                if support:
                    j = support[random.below(len(support))]
                    (process_old if turn == 0 else optimize)(j)
        yield beta.copy()
