"""Decisions of pairs of classes, and the votes that they are."""

from __future__ import annotations

import itertools

import numpy as np

Array = np.ndarray

ON_THE_BORDER = 1e-12  # of the sum of coefficients: decisions of a one-class machine that may have either sign


def of_classes(n_support: Array | None, n: int) -> list[slice]:
    """The places of the support vectors of each class; if classes do not meet in pairs, those of all."""
    ends = [n] if n_support is None else np.cumsum(n_support).tolist()
    return [slice(begin, end) for begin, end in itertools.pairwise([0, *ends])]


def given_outputs(values: Array, coefficients: Array, places: list[slice]) -> Array:
    """Decisions from given kernel values with the support vectors, which lie at these places."""
    return outputs_from([values[:, place] @ coefficients[:, place].T for place in places])


def outputs_from(each: list[Array]) -> Array:
    """Decisions from what the support vectors of each class contribute; of a single part they are its own."""
    if len(each) == 1:
        return each[0]
    pairs = itertools.combinations(range(len(each)), 2)
    return np.stack([each[i][:, j - 1] + each[j][:, i] for i, j in pairs], axis=1)


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
