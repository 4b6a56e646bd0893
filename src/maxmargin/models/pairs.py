"""Decisions of pairs of classes, and the votes that they are."""

from __future__ import annotations

import itertools

import numpy as np

Array = np.ndarray

ON_THE_BORDER = 1e-12  # of the sum of coefficients: decisions of a one-class machine that may have either sign


def pair_outputs(of_classes: list[Array]) -> Array:
    """Decisions of all pairs of classes from what the support vectors of each class contribute."""
    pairs = itertools.combinations(range(len(of_classes)), 2)
    return np.stack([of_classes[i][:, j - 1] + of_classes[j][:, i] for i, j in pairs], axis=1)


def votes(outputs: Array, n_classes: int) -> Array:
    """How many pairs of classes are decided in favour of each class; ties of a pair go to its second class."""
    counts = np.zeros((len(outputs), n_classes))
    for k, (i, j) in enumerate(itertools.combinations(range(n_classes), 2)):
        for_first = outputs[:, k] > 0.0
        counts[:, i] += for_first
        counts[:, j] += ~for_first
    return counts


def votes_and_margins(outputs: Array, n_classes: int) -> Array:
    """Votes, and the sum of a class's margins, brought below 1/3 in size, to decide between equal ones."""
    margins = np.zeros((len(outputs), n_classes))
    for k, (i, j) in enumerate(itertools.combinations(range(n_classes), 2)):
        margins[:, i] += outputs[:, k]
        margins[:, j] -= outputs[:, k]
    return votes(outputs, n_classes) + margins / (3.0 * (np.abs(margins) + 1.0))
