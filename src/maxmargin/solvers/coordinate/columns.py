"""The columns of a problem's data, for methods that take one feature at a time.

Rows are stored one after the other; a column is spread over all of memory. So the matrix is transposed once, into a
copy as large as the data: 12 bytes for a stored value of a sparse float64 matrix (8 + a 4-byte index), 8 for that of a
dense one, half of the values' share in float32, and a column of ones if there is an intercept. Walking down the columns
of a dense C-ordered matrix in place instead takes a cache line for each number: five to seven times as long, with 54
and 784 features.

The copy has the form of rows, so that `row_dot`, `prefetch_row` and `row_size` of row j are those of column j. Rows
without a cost are left out. It lives as long as a problem that it was made for, and problems with the same rows share
it, as those of one-vs-rest do.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import CSR, Array, Dense, Rows
from maxmargin.problem import Problem

_TILE = 64  # rows and columns of a dense matrix that are transposed at once: they stay in the first-level cache


@dataclass(frozen=True, eq=False)
class Columns:
    """X' without the rows that have no cost; the last column is one of ones if there is an intercept."""

    transposed: Rows
    source: Rows  # held, so that no other data can be taken for it


_lock = threading.Lock()
_by_problem: WeakKeyDictionary[Problem, Columns] = WeakKeyDictionary()
_by_rows: WeakValueDictionary[tuple[int, bool, bytes], Columns] = WeakValueDictionary()


def columns_of(problem: Problem) -> Columns:
    """The columns of a problem: a copy of its data, made when first asked for."""
    with _lock:
        found = _by_problem.get(problem)
        if found is None:
            rows, has_cost = problem.rows, problem.cost > 0.0
            key = id(rows[0]), rows.bias != 0.0, b"" if has_cost.all() else np.packbits(has_cost).tobytes()
            found = _by_rows.get(key)
            if found is None:
                found = _by_rows[key] = Columns(transpose(rows, np.flatnonzero(has_cost)), rows)
            _by_problem[problem] = found
        return found


def transpose(rows: Rows, which: Array) -> Rows:
    """X' of some rows, and a last line of ones for the intercept's column."""
    n, has_intercept = len(which), rows.bias != 0.0
    if isinstance(rows, Dense):
        values = np.empty((rows.values.shape[1] + has_intercept, n), dtype=rows.values.dtype)
        _transpose_dense(rows.values, which, values)
        values[rows.values.shape[1] :] = 1.0
        return Dense(_sealed(values), 0.0)
    ends = np.zeros(rows.n_features + has_intercept + 1, dtype=np.int64)
    _count(rows, which, ends)
    if has_intercept:
        ends[-1] = n
    np.cumsum(ends, out=ends)
    data = np.empty(ends[-1], dtype=rows.data.dtype)
    indices = np.empty(ends[-1], dtype=np.int32 if n < 2**31 else np.int64)
    if has_intercept:
        data[ends[-2] :], indices[ends[-2] :] = 1.0, np.arange(n)
    _scatter(rows, which, ends[:-1].copy(), data, indices)
    return CSR(_sealed(data), _sealed(indices), _sealed(ends), n, 0.0)


def _sealed(array: Array) -> Array:
    array.flags.writeable = False
    return array


@compiled
def _transpose_dense(values, which, out):
    n, n_features = len(which), values.shape[1]
    for low in range(0, n, _TILE):
        high = min(n, low + _TILE)
        for left in range(0, n_features, _TILE):
            right = min(n_features, left + _TILE)
            for j in range(left, right):
                for k in range(low, high):
                    out[j, k] = values[which[k], j]


@compiled
def _count(rows, which, counts):
    """Number of stored values of column j, to counts[j + 1]."""
    for k in range(len(which)):
        for p in range(np.uint64(rows.indptr[which[k]]), np.uint64(rows.indptr[which[k] + 1])):
            counts[np.uint64(rows.indices[p]) + np.uint64(1)] += 1


@compiled
def _scatter(rows, which, place, data, indices):
    """Write each stored value to the next free place of its column; row k of those that are kept is row k."""
    for k in range(len(which)):
        for p in range(np.uint64(rows.indptr[which[k]]), np.uint64(rows.indptr[which[k] + 1])):
            j = np.uint64(rows.indices[p])
            q = np.uint64(place[j])
            data[q] = rows.data[p]
            indices[q] = k
            place[j] += 1
