"""Probabilities of classes that never contradict the classes predicted.

Platt's sigmoid 1 / (1 + exp(A f + B)) has its middle where B puts it: the class with the larger probability may be
another than the one predicted. Here the middle stays at f = 0, and the two sides have a slope each:

    P(positive | f) = 1 / (1 + exp(-slope f)),    slope = a if f > 0 else b,

fitted by maximum likelihood, with Platt's targets, to decision values of rows that were left out of the training
(five folds). Of several classes, one against one, the probabilities r_ij of all pairs become those of classes by

    p_i = 1 / (sum over j of 1 / r_ij - (k - 2)),

scaled to sum to one (Price, Knerr, Personnaz, Dreyfus, NIPS 1995); one against the rest they are those of the classes'
own decision functions, scaled. If the class predicted is not the likeliest, these two change places.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from maxmargin.data.rows import Array

_FOLDS = 5
_LARGEST = 700.0  # exponent


def fit_slopes(outputs: Array, is_positive: Array, weight: Array) -> Array:
    """The two slopes (for negative and for positive outputs) of one decision function."""
    above, below = weight[is_positive].sum(), weight[~is_positive].sum()
    target = np.where(is_positive, (above + 1.0) / (above + 2.0), 1.0 / (below + 2.0))
    sides = (outputs <= 0.0, outputs > 0.0)
    return np.array([_slope(outputs[side], target[side], weight[side]) for side in sides])


def _slope(f: Array, target: Array, weight: Array) -> float:
    """The slope >= 0 at which the likelihood is largest, by Newton's method from 1 with steps halved."""
    size: float = float(np.max(np.abs(f), initial=0.0))
    if size == 0.0:
        return 1.0
    f = f / size
    slope, value = 1.0, _likelihood(1.0, f, target, weight)
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-np.clip(slope * f, -_LARGEST, _LARGEST)))
        gradient, curvature = float(weight @ ((p - target) * f)), float(weight @ (p * (1.0 - p) * f * f))
        step = gradient / max(curvature, 1e-12)
        for _ in range(40):
            new = max(0.0, slope - step)
            new_value = _likelihood(new, f, target, weight)
            if new_value <= value:
                break
            step *= 0.5
        if abs(new - slope) <= 1e-10 * max(1.0, slope):
            break
        slope, value = new, new_value
    return max(slope, 1e-6) / size


def _likelihood(slope: float, f: Array, target: Array, weight: Array) -> float:
    """Minus its logarithm."""
    return float(weight @ (np.logaddexp(0.0, slope * f) - target * slope * f))


def sigmoids(outputs: Array, slopes: Array) -> Array:
    """Probability of the positive side of each decision function."""
    scaled = outputs * np.where(outputs > 0.0, slopes[:, 1], slopes[:, 0])
    return 1.0 / (1.0 + np.exp(-np.clip(scaled, -_LARGEST, _LARGEST)))


def class_probabilities(pairwise: Array, n_classes: int) -> Array:
    """Probabilities of classes from those of pairs of them."""
    pairwise = np.clip(pairwise, 1e-9, 1.0 - 1e-9)
    sums = np.zeros((len(pairwise), n_classes))
    for k, (i, j) in enumerate(itertools.combinations(range(n_classes), 2)):
        sums[:, i] += 1.0 / pairwise[:, k]
        sums[:, j] += 1.0 / (1.0 - pairwise[:, k])
    p = 1.0 / (sums - (n_classes - 2))
    return p / p.sum(axis=1, keepdims=True)


def agree(probabilities: Array, predicted: Array) -> Array:
    """Let the class predicted (a column) be the one with the largest probability, of equal ones the only one."""
    p, rows = probabilities.copy(), np.arange(len(probabilities))
    largest = p.argmax(axis=1)
    p[rows, largest], p[rows, predicted] = probabilities[rows, predicted], probabilities[rows, largest]
    p[rows, predicted] = np.nextafter(p[rows, predicted], 2.0)
    return p


def held_out_outputs(estimator: Any, X: Any, y: Array, sample_weight: Any, seed: int) -> Array:
    """Decision values of all rows, each by a machine that was trained without it."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    counted = np.flatnonzero(weight > 0.0)
    _, counts = np.unique(y[counted], return_counts=True)
    if counts.min() < 2:
        raise ValueError("probability=True needs two rows or more of each class: one of them is left out in turn")
    folds = StratifiedKFold(min(_FOLDS, int(counts.min())), shuffle=True, random_state=seed)
    outputs = None
    for train, test in folds.split(np.zeros(len(counted)), y[counted]):
        train, test = counted[train], counted[test]
        machine = clone(estimator).set_params(probability=False)
        part = X[np.ix_(train, train)] if estimator.kernel == "precomputed" else X[train]
        held_out = X[np.ix_(test, train)] if estimator.kernel == "precomputed" else X[test]
        machine.fit(part, y[train], sample_weight=weight[train])
        found = machine._outputs(held_out)
        outputs = np.zeros((len(y), found.shape[1])) if outputs is None else outputs
        outputs[test] = found
    assert outputs is not None
    return outputs
