"""Rows value by value: for loops that are one text for both storages, and need more of a row than a product."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import generic
from maxmargin.data.rows import CSR, Dense


@generic
def places(rows, i):
    """The first place of row i, and the one behind its last; see `entry`."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@places.register(Dense)
def _(rows, i):
    return 0, rows.values.shape[1]


@places.register(CSR)
def _(rows, i):
    return np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])


@generic
def entry(rows, i, place):
    """The column and the value at one of the places of row i."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@entry.register(Dense)
def _(rows, i, place):
    return place, np.float64(rows.values[i, place])


@entry.register(CSR)
def _(rows, i, place):
    return np.uint64(rows.indices[place]), np.float64(rows.data[place])


@generic
def are_equal(rows, i, j):
    """Whether rows i and j have the same values."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@are_equal.register(Dense)
def _(rows, i, j):
    equal = True
    for k in range(rows.values.shape[1]):
        equal &= rows.values[i, k] == rows.values[j, k]
    return equal


@are_equal.register(CSR)
def _(rows, i, j):
    begin, size = rows.indptr[i], rows.indptr[i + 1] - rows.indptr[i]
    shift = rows.indptr[j] - begin
    if rows.indptr[j + 1] - rows.indptr[j] != size:
        return False
    for p in range(begin, begin + size):
        if rows.indices[p] != rows.indices[p + shift] or rows.data[p] != rows.data[p + shift]:
            return False
    return True
