"""The weighted Gram matrix X'DX of rows, summed in blocks, and its Cholesky factor: what second-order methods solve.

Rows that are stored densely, or are not very sparse, are copied block by block, scaled by sqrt(d_i), and multiplied by
BLAS; of very sparse rows, products of the stored values alone are added up. Either way the data are read once, and
besides the matrix itself memory holds one block and one matrix for each thread. Blocks depend on the data alone and
are added in their order: any number of threads gives the same bits.

BLAS works on one thread here, whatever its own setting, because the blocks are already spread over threads. That
setting belongs to the whole process: see `one_blas_thread`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from maxmargin._jit import DENSE_MATH, generic, kernel
from maxmargin.parallel import imap_ordered
from maxmargin.rows import CSR, Array, Dense, Rows, add_row, n_features, n_rows, n_stored, n_weights

Weigh = Callable[[int, int], tuple[Array, Array]]

_BLOCK_ROWS = 2048  # at least, so that the n^2 sums of a block vanish beside its products
_BLOCK_VALUES = 1 << 18  # of a dense block of few columns: 2 MB, what a core's own cache holds
_SPARSE_BLOCK_VALUES = 1 << 16


def weighted_gram(rows: Rows, d: Array, n_jobs: int = 1) -> Array:
    """The matrix sum_i d_i x_i x_i'.

    Parameters
    ----------
    rows : Dense or CSR
        With their virtual intercept column, if they have one.
    d : ndarray of shape (n_rows,)
        Nonnegative weights; rows of weight zero cost nothing.
    n_jobs : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_weights, n_weights)

    Examples
    --------
    >>> from maxmargin.rows import as_rows
    >>> weighted_gram(as_rows(np.eye(2), bias=1.0)[0], np.array([1.0, 3.0]))
    array([[1., 0., 1.],
           [0., 3., 3.],
           [1., 3., 4.]])
    """
    gram, moment = np.zeros((n_weights(rows), n_weights(rows))), np.zeros(n_weights(rows))
    with one_blas_thread():
        add_weighted_gram(gram, moment, rows, lambda lo, hi: (d[lo:hi], np.zeros(hi - lo)), 0, n_rows(rows), n_jobs)
    _mirror(gram)
    return gram


def add_weighted_gram(
    gram: Array, moment: Array, rows: Rows, weigh: Weigh, begin: int, end: int, n_jobs: int = 1
) -> None:
    """Add sum_i d_i x_i x_i' to the upper triangle of `gram` and sum_i c_i x_i to `moment`, over rows begin <= i < end.

    ``weigh(lo, hi)`` gives d and c of rows lo to hi; it is called once a block, in the block's thread.
    """
    n = len(moment)
    by_products = _is_very_sparse(rows)

    def block(pair: tuple[int, int]) -> tuple[Array, Array]:
        lo, hi = pair
        d, c = weigh(lo, hi)
        part = np.zeros(n)
        if by_products:
            products = np.zeros((n, n))
            _add_products(rows, d, c, products, part, lo)
            return products, part
        scaled = np.empty((hi - lo, n))
        scaled = scaled[: _scale_rows(rows, d, c, scaled, part, lo)]
        return scaled.T @ scaled, part  # numpy knows this product, and takes syrk

    for products, part in imap_ordered(block, itertools.pairwise(_borders(rows, begin, end, by_products)), n_jobs):
        gram += products
        moment += part


def row_cost(rows: Rows) -> float:
    """What a row of the matrix costs, on average, in units of one stored value of a product X w (about 1 ns)."""
    stored = n_stored(rows) / max(1, n_rows(rows)) + 1.0
    return stored * stored if _is_very_sparse(rows) else stored + n_weights(rows) ** 2 / 32.0


def _is_very_sparse(rows: Rows) -> bool:
    """Whether products of stored values are faster than dense ones; measured for 54 to 3000 columns."""
    if isinstance(rows, Dense):
        return False
    density = n_stored(rows) / max(1, n_rows(rows) * n_features(rows))
    return density < 0.3 / (1.0 + n_features(rows) / 1000.0)


def _borders(rows: Rows, begin: int, end: int, by_products: bool) -> list[int]:
    """Where blocks begin and end; by the data alone."""
    if by_products:
        assert isinstance(rows, CSR)
        first, last = int(rows.indptr[begin]), int(rows.indptr[end])
        n_blocks = max(1, min(64, (last - first) // _SPARSE_BLOCK_VALUES, (end - begin) // n_weights(rows)))
        shares = np.linspace(first, last, n_blocks + 1)[1:-1]
        inner = np.clip(np.searchsorted(rows.indptr, shares), begin, end)
    else:
        size = max(_BLOCK_ROWS, _BLOCK_VALUES // max(1, n_weights(rows)))
        inner = np.linspace(begin, end, max(1, (end - begin) // size) + 1).astype(np.int64)[1:-1]
    return [begin, *map(int, inner), end]


# ---------------------------------------------------------------- the rows of a block


@generic
def write_row(rows, i, scale, out):
    """Write `scale` times row i to `out`."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@write_row.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, scale, out):
    n = rows.values.shape[1]
    for j in range(n):
        out[j] = scale * rows.values[i, j]
    if rows.bias != 0.0:
        out[n] = scale * rows.bias


@write_row.register(CSR)
def _(rows, i, scale, out):
    out[:] = 0.0
    for p in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        out[np.uint64(rows.indices[p])] = scale * rows.data[p]
    if rows.bias != 0.0:
        out[rows.n_features] = scale * rows.bias


@kernel
def _scale_rows(rows, d, c, scaled, moment, begin):
    """Write sqrt(d_i) x_i one below the other, rows without weight left out; how many there are."""
    count = 0
    for k in range(len(d)):
        if d[k] > 0.0:
            write_row(rows, begin + k, np.sqrt(d[k]), scaled[count])
            count += 1
        if c[k] != 0.0:
            add_row(rows, begin + k, c[k], moment)
    return count


@kernel
def _add_products(rows, d, c, gram, moment, begin):
    """Add d_i x_i x_i' of sparse rows to the upper triangle."""
    n = np.uint64(gram.shape[1])
    flat = gram.reshape(-1)
    for k in range(len(d)):
        i = begin + k
        if d[k] > 0.0:
            first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
            for p in range(first, last):
                scale, line = d[k] * rows.data[p], np.uint64(rows.indices[p]) * n
                for q in range(p, last):
                    flat[line + np.uint64(rows.indices[q])] += scale * rows.data[q]
                if rows.bias != 0.0:
                    flat[line + n - np.uint64(1)] += scale * rows.bias
            if rows.bias != 0.0:
                flat[n * n - np.uint64(1)] += d[k] * rows.bias * rows.bias
        if c[k] != 0.0:
            add_row(rows, i, c[k], moment)


# ---------------------------------------------------------------- solving with it


def cholesky(matrix: Array) -> Array:
    """Replace a positive definite matrix by its Cholesky factor, for `cholesky_solve`.

    The matrix is first scaled to a diagonal of ones: weights that span many orders of magnitude, and features of
    different units, then cost no digits. Where rounding has taken positive definiteness away (columns that depend on
    each other, under weights so large that the identity is lost beside them), as little as it takes is added to the
    diagonal; what is lost are directions that the rows do not see.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Its upper triangle is read; both are overwritten.

    Returns
    -------
    scale : ndarray of shape (n,)
        The second argument of `cholesky_solve`.
    """
    from scipy.linalg.lapack import dpotrf

    scale = 1.0 / np.sqrt(np.diagonal(matrix))
    _mirror(matrix)
    matrix *= scale[:, None]
    matrix *= scale
    added, failed = 0.0, len(matrix) > 0
    while failed:
        np.fill_diagonal(matrix, 1.0 + added)
        # LAPACK counts by columns: its lower triangle is ours above the diagonal. Ours below stays as it is.
        _, failed = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            added = max(len(matrix) * np.finfo(float).eps, 10.0 * added)
            if not added < 1.0:
                raise np.linalg.LinAlgError("the matrix of a Newton step is not positive definite")
            _mirror(matrix.T)
    return scale


def cholesky_solve(factor: Array, scale: Array, b: Array) -> Array:
    """The x of ``matrix x = b``, where ``scale = cholesky(matrix)`` has made a factor of the matrix.

    Examples
    --------
    >>> matrix = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> scale = cholesky(matrix)
    >>> cholesky_solve(matrix, scale, np.array([8.0, 8.0]))
    array([1., 2.])
    """
    from scipy.linalg.lapack import dpotrs

    return scale * dpotrs(factor.T, scale * b, lower=1)[0] if len(b) else b.copy()


@kernel
def _mirror(matrix):
    """Copy the upper triangle to the lower one, tile by tile: a column at a time would miss every cache line."""
    n, size = len(matrix), 32
    for rows_from in range(0, n, size):
        for columns_from in range(0, rows_from + 1, size):
            for i in range(rows_from, min(n, rows_from + size)):
                for j in range(columns_from, min(i, columns_from + size)):
                    matrix[i, j] = matrix[j, i]


# ---------------------------------------------------------------- BLAS and threads

_lock = threading.Lock()
_n_inside = 0
_limiter: Any = None


@functools.cache
def _controller() -> Any:
    """The BLAS libraries of this process; to find them takes some milliseconds."""
    import scipy.linalg.lapack  # noqa: F401 - its BLAS is not numpy's
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """While the context lasts, keep BLAS to one thread, in the whole process.

    The first to enter sets the limit and the last to leave lifts it: solvers at work in several threads neither lift
    it under each other nor leave it behind.
    """
    global _n_inside, _limiter
    with _lock:
        _n_inside += 1
        if _n_inside == 1:
            _limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _limiter.restore_original_limits()
