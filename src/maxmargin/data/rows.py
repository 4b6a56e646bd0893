"""The rows of a data matrix, as kernels see them: one interface for dense, CSR and memory-mapped data.

A kernel takes `rows` (a `Dense` or `CSR` tag) and speaks of row i through `row_dot`, `add_row`, `row_norm2` and
`prefetch_row`; compiled code is specialised for the storage, float32/float64 and int32/int64 indices. The arrays are
views of what the user gave, marked read-only, so that no kernel can write to them; nothing is copied or widened.
Sums are float64 whatever the data.

An intercept is a virtual last column of constant value `bias`: no row is ever extended in memory. Weight vectors
have one entry more when `bias` is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, generic, prefetch
from maxmargin.data.sparse import check_sparse
from maxmargin.parallel import map_blocks

Array = np.ndarray[Any, Any]


_FETCHED = 512  # values of a dense row, at most, that are asked for ahead


class Dense(NamedTuple):
    """Rows of a C-ordered matrix."""

    values: Array
    bias: float


class CSR(NamedTuple):
    """Rows of a compressed sparse matrix; row i is ``indptr[i]:indptr[i + 1]`` of `data` and `indices`."""

    data: Array
    indices: Array
    indptr: Array
    n_features: int
    bias: float


Rows = Dense | CSR


# ---------------------------------------------------------------- what kernels call


@generic
def row_dot(rows, i, w):
    """Inner product of row i and w."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@row_dot.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, w):
    n = rows.values.shape[1]
    total = 0.0
    for j in range(n):
        total += rows.values[i, j] * w[j]
    if rows.bias != 0.0:
        total += rows.bias * w[n]
    return total


@row_dot.register(CSR)
def _(rows, i, w):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    total = 0.0
    for p in range(begin, end):
        total += rows.data[p] * w[np.uint64(rows.indices[p])]
    return total + rows.bias * w[len(w) - 1]  # without a bias, nothing times the last feature: a branch costs 8 %


@generic
def add_row(rows, i, scale, w):
    """Add `scale` times row i to w."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@add_row.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, scale, w):
    n = rows.values.shape[1]
    for j in range(n):
        w[j] += scale * rows.values[i, j]
    if rows.bias != 0.0:
        w[n] += scale * rows.bias


@add_row.register(CSR)
def _(rows, i, scale, w):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    for p in range(begin, end):
        w[np.uint64(rows.indices[p])] += scale * rows.data[p]
    w[len(w) - 1] += scale * rows.bias


@generic
def prefetch_row(rows, i):
    """Start to load row i into the cache."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@prefetch_row.register(Dense)
def _(rows, i):
    row = rows.values[i]
    for f in range(0, min(len(row), _FETCHED), 64 // row.itemsize):
        prefetch(row, f)  # the hardware follows a row by itself, but not from its beginning


@prefetch_row.register(CSR)
def _(rows, i):
    begin, end = np.int64(rows.indptr[i]), np.int64(rows.indptr[i + 1])
    for p in range(begin, end, 16):
        prefetch(rows.indices, p)
    for p in range(begin, end, 8):
        prefetch(rows.data, p)


@generic
def prefetch_in_order(rows, i):
    """Start to load row i for a walk over all rows; the processor follows short sparse ones by itself."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@prefetch_in_order.register(Dense)
def _(rows, i):
    if i < len(rows.values):
        prefetch_row(rows, i)


@prefetch_in_order.register(CSR)
def _(rows, i):
    pass


@generic
def row_size(rows, i):
    """How many stored values row i has: its cost, in a kernel that counts its work."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@row_size.register(Dense)
def _(rows, i):
    return rows.values.shape[1]


@row_size.register(CSR)
def _(rows, i):
    return np.int64(rows.indptr[i + 1]) - np.int64(rows.indptr[i])


@generic
def row_norm2(rows, i):
    """Squared length of row i; -1 where a sparse row's indices are not ascending, -2 where they are out of range."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@row_norm2.register(Dense, fastmath=DENSE_MATH)
def _(rows, i):
    total = rows.bias * rows.bias
    for j in range(rows.values.shape[1]):
        value = np.float64(rows.values[i, j])
        total += value * value
    return total


@row_norm2.register(CSR)
def _(rows, i):
    begin, end = rows.indptr[i], rows.indptr[i + 1]
    total = rows.bias * rows.bias
    previous = np.int64(-1)
    ascending = True
    for p in range(begin, end):
        j = np.int64(rows.indices[p])
        if j < 0 or j >= rows.n_features:
            return -2.0
        if j <= previous:
            ascending = False
        previous = j
        value = np.float64(rows.data[p])
        total += value * value
    return total if ascending else -1.0


# ---------------------------------------------------------------- from the user's matrix


def as_rows(X: Any, bias: float = 0.0) -> tuple[Rows, Array]:
    """View a matrix as rows, and measure and check them in one pass.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse matrix, shape (n_rows, n_features)
        C-ordered arrays and CSR matrices of float32 or float64 are used where they lie. What kernels cannot walk row
        by row is converted once, which costs one copy of the data: Fortran-ordered arrays, other sparse formats, CSR
        with unsorted or repeated indices, other dtypes (to float64).
    bias : float
        Value of the virtual intercept column; 0: none.

    Returns
    -------
    rows : Dense or CSR
    norms2 : ndarray of shape (n_rows,)
        The rows' squared lengths, virtual column included.

    Raises
    ------
    ValueError
        For a value that is not finite (its row and column are named), and for a malformed sparse matrix.
    """
    rows = view_rows(X, float(bias))
    norms2 = squared_norms(rows)
    lowest = norms2.min(initial=0.0)
    if lowest == -2.0:
        i = int(np.argmin(norms2))
        raise ValueError(f"malformed sparse matrix: row {i} has an index outside 0..{n_features(rows) - 1}")
    if lowest == -1.0:
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        return as_rows(X, bias)
    if not np.isfinite(norms2).all():
        _raise_not_finite(rows, int(np.argmin(np.isfinite(norms2))))
    return rows, norms2


def view_rows(X: Any, bias: float = 0.0) -> Rows:
    """The tag around X's own arrays; their values are not looked at."""
    if hasattr(X, "tocsr"):  # any scipy.sparse matrix or array, without importing scipy
        check_sparse(X, trust_columns=True)  # of CSR, `row_norm2` looks at them; converting others would not
        X = X.tocsr()
        data, indices, indptr = _as_float(X.data), X.indices, X.indptr
        if indices.dtype != indptr.dtype:
            indptr = indptr.astype(np.int64, copy=False)
        return CSR(_read_only(data), _read_only(indices), _read_only(indptr), int(X.shape[1]), bias)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features; got shape {X.shape}")
    return Dense(_read_only(_as_float(X)), bias)


def _as_float(values: Array) -> Array:
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    if values.dtype.kind == "c":
        raise ValueError(f"X is of dtype {values.dtype}; features must be real numbers")
    return values.astype(np.float64, order="C")


def _read_only(array: Array) -> Array:
    """A plain ndarray view that nobody can write through (one type for kernels, whoever made the array)."""
    view = np.ascontiguousarray(array).view(np.ndarray)[...]
    view.flags.writeable = False
    return view


def _raise_not_finite(rows: Rows, i: int) -> None:
    """Name the first value of row i that is not finite."""
    if isinstance(rows, CSR):
        part = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        values, columns = rows.data[part], rows.indices[part]
    else:
        values, columns = rows.values[i], np.arange(rows.values.shape[1])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad) == 0:
        raise ValueError(f"row {i} of X has values so large that its squared length overflows; scale the features")
    value = values[bad[0]]
    name = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(f"Input X contains {name}: row {i}, column {int(columns[bad[0]])} (counted from 0) is {value}.")


# ---------------------------------------------------------------- shape and whole-matrix passes


def n_rows(rows: Rows) -> int:
    """Number of rows."""
    return len(rows.values) if isinstance(rows, Dense) else len(rows.indptr) - 1


def n_features(rows: Rows) -> int:
    """Number of columns, without the virtual one."""
    return rows.values.shape[1] if isinstance(rows, Dense) else rows.n_features


def n_weights(rows: Rows) -> int:
    """Length of a weight vector for these rows."""
    return n_features(rows) + (rows.bias != 0.0)


def n_stored(rows: Rows) -> int:
    """Number of stored values."""
    return rows.values.size if isinstance(rows, Dense) else int(rows.indptr[-1] - rows.indptr[0])


def take(rows: Rows, chosen: Array) -> Rows:
    """A copy of some of the rows, in this order."""
    if isinstance(rows, Dense):
        return Dense(_read_only(rows.values[chosen]), rows.bias)
    lengths = (rows.indptr[1:] - rows.indptr[:-1])[chosen]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(rows.indptr.dtype)
    where = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    data, indices = _read_only(rows.data[where]), _read_only(rows.indices[where])
    return CSR(data, indices, _read_only(indptr), rows.n_features, rows.bias)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows, one part below the other; a single part is not copied."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Dense):
        return Dense(_read_only(np.concatenate([part[0] for part in parts])), first.bias)
    data = np.concatenate([part.data[part.indptr[0] : part.indptr[-1]] for part in parts])  # type: ignore[union-attr]
    indices = np.concatenate([part.indices[part.indptr[0] : part.indptr[-1]] for part in parts])  # type: ignore[union-attr]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])  # type: ignore[union-attr]
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(first.indptr.dtype)
    return CSR(_read_only(data), _read_only(indices), _read_only(indptr), first.n_features, first.bias)


def between(rows: Rows, begin: int, end: int) -> Rows:
    """A view of rows begin to end."""
    if isinstance(rows, Dense):
        return rows._replace(values=rows.values[begin:end])
    return rows._replace(indptr=rows.indptr[begin : end + 1])


def row_blocks(rows: Rows, n_blocks: int) -> Array:
    """Borders of row blocks of about equal work; they depend on the data alone."""
    if n_blocks == 1:
        return np.array([0, n_rows(rows)])
    if isinstance(rows, Dense):
        return np.linspace(0, n_rows(rows), n_blocks + 1).astype(np.int64)
    shares = np.linspace(rows.indptr[0], rows.indptr[-1], n_blocks + 1)[1:-1]
    return np.concatenate(([0], np.searchsorted(rows.indptr, shares), [n_rows(rows)])).astype(np.int64)


def default_blocks(rows: Rows) -> Array:
    """The blocks over which passes without large results are divided: half a million values or more each."""
    return row_blocks(rows, max(1, min(64, n_stored(rows) >> 19)))


def squared_norms(rows: Rows, n_jobs: int = 1) -> Array:
    """`row_norm2` of every row."""
    out = np.empty(n_rows(rows))
    map_blocks(lambda lo, hi: _squared_norms(rows, out, lo, hi), default_blocks(rows), n_jobs)
    return out


@compiled
def _squared_norms(rows, out, lo, hi):
    for i in range(lo, hi):
        out[i] = row_norm2(rows, i)


def as_dense(rows: Rows) -> Array:
    """The matrix of the rows, without the virtual column; not copied if it is there."""
    if isinstance(rows, Dense):
        return rows.values
    dense = np.zeros((n_rows(rows), rows.n_features), rows.data.dtype)
    dense[np.repeat(np.arange(len(dense)), np.diff(rows.indptr)), rows.indices] = rows.data
    return dense


def matvec(rows: Rows, w: Array, n_jobs: int = 1) -> Array:
    """Inner product of every row with w."""
    out = np.empty(n_rows(rows))
    map_blocks(lambda lo, hi: _matvec(rows, w, out, lo, hi), default_blocks(rows), n_jobs)
    return out


@compiled
def _matvec(rows, w, out, lo, hi):
    for i in range(lo, hi):
        out[i] = row_dot(rows, i, w)
