"""SVM-perf as in the papers: constraints are labellings of all rows, and the worst is found by trying every one."""

import itertools

import numpy as np

from naive.cutting_plane import reduced


def svmperf(X, y, cost, loss, seed=0, multivariate_loss=None, allowed=lambda labels: True):
    """The start, then the passes and the best point so far after each iteration.

    Parameters
    ----------
    multivariate_loss : callable, optional
        (labels, y) -> 0 ... 1. Without it the loss is the share of the cost of rows with the wrong label, and the most
        violated labelling has the wrong label wherever that pays.
    allowed : callable
        Which labellings there are, besides y itself.
    """
    w = best = np.zeros(X.shape[1])
    planes = [(w, 0.0)]

    def worst(w):
        if multivariate_loss is None:
            return np.where(y * (X @ w) < 1, -y, y)
        return most_violated(X @ w, y, cost, multivariate_loss, allowed)[0]

    def primal(w):
        a, b = constraint(X, y, cost, multivariate_loss, worst(w))
        return 0.5 * w @ w + a @ w + b

    yield 0, best
    for passes in itertools.count(1, 2):
        if primal(w) < primal(best):
            best = w
        planes.append(constraint(X, y, cost, multivariate_loss, worst(w)))
        w, _ = reduced(planes)
        yield passes, best


def constraint(X, y, cost, multivariate_loss, labels):
    """(a, b): the slack is at least a'w + b."""
    wrong = multivariate_loss or (lambda labels, y: np.sum(cost[labels != y]) / np.sum(cost))
    return -0.5 * X.T @ (cost * (y - labels)), np.sum(cost) * wrong(labels, y)


def most_violated(z, y, cost, multivariate_loss, allowed=lambda labels: True):
    """Of all labellings that are allowed, and y, the one with the largest slack; the slack."""
    every = map(np.array, itertools.product([-1.0, 1.0], repeat=len(y)))
    candidates = [y, *filter(allowed, every)]

    def slack(labels):
        return np.sum(cost) * multivariate_loss(labels, y) - 0.5 * np.sum(cost * (y - labels) * z)

    # Of several the one with the fewest positives, and of these the one whose first rows are positive.
    best = max(candidates, key=lambda labels: (round(slack(labels), 12), -np.sum(labels), tuple(labels)))
    return best, slack(best)


def f1_loss(labels, y):
    """1 - F1, by precision and recall."""
    both = np.sum((labels > 0) & (y > 0))
    if both == 0:
        return 1.0
    precision, recall = both / np.sum(labels > 0), both / np.sum(y > 0)
    return 1 - 2 * precision * recall / (precision + recall)


def precision_loss(labels, y):
    """1 - precision; of y itself it is zero."""
    return 1 - np.mean(y[labels > 0] > 0)


def recall_loss(labels, y):
    """1 - recall."""
    return 1 - np.mean(labels[y > 0] > 0)


def roc_risk(z, y, cost):
    """The largest slack of all ways to swap pairs of a positive and a negative row."""
    pairs = list(itertools.product(np.flatnonzero(y > 0), np.flatnonzero(y < 0)))
    share = np.array([cost[i] * cost[j] for i, j in pairs])
    share /= share.sum()
    apart = np.array([z[i] - z[j] for i, j in pairs])
    return np.sum(cost) * max(
        np.sum(share * swapped * (1 - apart)) for swapped in map(np.array, itertools.product([0, 1], repeat=len(pairs)))
    )
