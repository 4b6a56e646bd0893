"""The scale of the data, for kernels whose gamma is not given as a number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from maxmargin.data.rows import CSR, Array, Rows, between, n_features, n_stored, row_blocks

_BLOCK = 1 << 20  # stored values of which copies are made at a time


def gamma_for(gamma: Any, rows: Rows, weight: Array) -> Any:
    """What `gamma` is for these rows, a number given being what it is.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float
        "scale": 1 / (n_features * variance of all values, weighted), as in scikit-learn; "auto": 1 / n_features.
    rows : Dense or CSR
    weight : ndarray of shape (n_rows,)

    Examples
    --------
    >>> from maxmargin.data.rows import as_rows
    >>> rows, _ = as_rows(np.array([[1e8], [1e8 + 2.0]]))
    >>> gamma_for("scale", rows, np.ones(2))
    1.0
    """
    if not isinstance(gamma, str):
        return gamma
    if gamma not in ("scale", "auto"):
        raise ValueError(f'gamma must be "scale", "auto" or a number, got {gamma!r}')
    if gamma == "auto":
        return 1.0 / n_features(rows)
    variance = variance_of(rows, weight)
    return 1.0 / (n_features(rows) * variance) if variance > 0.0 else 1.0


def variance_of(rows: Rows, weight: Array) -> float:
    """The weighted variance of all values, zeros that are not stored included; of a constant exactly zero.

    The mean of the squares minus the square of the mean would lose all digits where the mean is large. Here the squares
    are of differences from a value of the data, and then the mean of these differences is small.
    """
    shift = _a_value(rows)
    mean = square = 0.0
    total = float(weight.sum()) * n_features(rows)
    borders = row_blocks(rows, max(1, n_stored(rows) // _BLOCK))
    means = []
    for begin, end in itertools.pairwise(borders):
        means.append(_sums(between(rows, begin, end), weight[begin:end], shift)[0])
    shift += sum(means) / total
    for begin, end in itertools.pairwise(borders):
        once, twice = _sums(between(rows, begin, end), weight[begin:end], shift)
        mean, square = mean + once, square + twice
    return max(0.0, square / total - (mean / total) ** 2)


def _a_value(rows: Rows) -> float:
    if isinstance(rows, CSR):
        is_full = n_stored(rows) == (len(rows.indptr) - 1) * rows.n_features
        return float(rows.data[rows.indptr[0]]) if is_full and n_stored(rows) else 0.0
    return float(rows.values[0, 0]) if rows.values.size else 0.0


def _sums(rows: Rows, weight: Array, shift: float) -> tuple[float, float]:
    """Weighted sums over all values of their differences from `shift`, and of the squares of these."""
    if isinstance(rows, CSR):
        lengths = np.diff(rows.indptr)
        missing = float(weight @ (rows.n_features - lengths))  # zeros
        differences = rows.data[rows.indptr[0] : rows.indptr[-1]].astype(np.float64) - shift
        of_value = np.repeat(weight, lengths)
        once, twice = float(of_value @ differences), float(of_value @ differences**2)
        return once - shift * missing, twice + shift**2 * missing
    differences = rows.values.astype(np.float64) - shift
    return float(weight @ differences.sum(axis=1)), float(weight @ np.einsum("ij,ij->i", differences, differences))
