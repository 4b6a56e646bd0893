"""The weighted Gram matrix X'DX of rows and its Cholesky factor: what second-order methods solve.

The matrix is summed in one of three ways, whichever is fastest. Of very sparse rows, products of the stored values are
added up. Dense rows are transposed a panel at a time and multiplied in registers, which for less than a thousand
columns is faster than BLAS; wider rows, and sparse ones that are nearly dense, are copied block by block, scaled by
sqrt(|d_i|), and multiplied by BLAS. In all cases the data are read once. Weights may be negative: so rows are taken out
of a matrix again.

BLAS works on one thread here, whatever its own setting, because the blocks are already spread over threads. That
setting belongs to the whole process: see `one_blas_thread`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, compiled_lean
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import CSR, Array, Dense, Rows, add_row, n_features, n_rows, n_stored, n_weights
from maxmargin.data.source import Block, Labels

_PANEL = 128  # rows that are multiplied at once: with 500 features they fit the second-level cache
_TILE = 4  # columns of a panel come in multiples of it
_WIDE = 1000  # columns of dense rows from which BLAS is faster
_BLAS_ROWS = 2048  # of a block for BLAS, at least, so that the n^2 sums of a block vanish beside its products
_BLAS_VALUES = 1 << 18  # and of one of few columns: 2 MB, what a core's own cache holds


def weighted_gram(rows: Rows, d: Array, n_jobs: int = 1) -> Array:
    """The matrix sum_i d_i x_i x_i'.

    Parameters
    ----------
    rows : Dense or CSR
        With their virtual intercept column, if they have one.
    d : ndarray of shape (n_rows,)
        Weights; rows of weight zero cost nothing.
    n_jobs : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_weights, n_weights)

    Examples
    --------
    >>> from maxmargin.data.rows import as_rows
    >>> weighted_gram(as_rows(np.eye(2), bias=1.0)[0], np.array([1.0, 3.0]))
    array([[1., 0., 1.],
           [0., 3., 3.],
           [1., 3., 4.]])
    """
    source, n = InMemory((rows,), n_jobs), n_weights(rows)
    if n_rows(rows) == 0:
        return np.zeros((n, n))
    done = source.make_pass(
        gram_step, Labels(d, d, None), reads=[d], sums=[gram_shape(n)], effort=gram_effort(source, d)
    )
    gram = np.ascontiguousarray(done.sums[0][:n, :n])
    _mirror(gram)
    return gram


def gram_shape(n: int) -> tuple[int, int]:
    """The shape of a matrix for n weights: n rounded up to whole tiles."""
    size = -(-n // _TILE) * _TILE
    return size, size


def gram_effort(source: Any, D: Array) -> float:
    """What the matrix costs for these weights, in units of eight inner products with every row.

    (Blocks of some milliseconds are small enough to pause between, and large enough to forget what a block costs.)
    """
    share = np.count_nonzero(D) / max(1, source.n_rows)
    return 0.125 * share * row_cost(source) * source.n_rows / max(1, source.n_stored)


def row_cost(source: Any) -> float:
    """What a row of the matrix costs, on average, in units of one stored value of a product X w (about 1 ns)."""
    stored = source.n_stored / max(1, source.n_rows) + 1.0
    if not source.is_dense and _is_very_sparse(source.n_stored, source.n_rows, source.n_features):
        return stored * stored
    return stored + source.n_weights**2 / 32.0


def _is_very_sparse(stored: int, rows: int, features: int) -> bool:
    """Whether products of stored values are faster than dense ones; measured for 54 to 3000 columns."""
    return stored / max(1, rows * features) < 0.3 / (1.0 + features / 1000.0)


def gram_step(block: Block, D: Array, out: Array) -> None:
    """Add D_i x_i x_i' of a block of rows to the upper triangle of `out`; what is below it means nothing."""
    rows, which = block.rows, np.flatnonzero(D)
    if len(which) == 0:
        return
    if isinstance(rows, Dense) and n_weights(rows) < _WIDE:
        panel = np.zeros((2, len(out), min(_PANEL, len(which))))
        _add_panels(rows, which, D[which], panel[0], panel[1], out)
    elif isinstance(rows, CSR) and _is_very_sparse(n_stored(rows), n_rows(rows), n_features(rows)):
        _add_products(rows, which, D[which], out)
    else:
        for chosen in (which[D[which] > 0.0], which[D[which] < 0.0]):
            _add_by_blas(rows, chosen, D, out)


# ---------------------------------------------------------------- by BLAS


def _add_by_blas(rows: Rows, which: Array, D: Array, out: Array) -> None:
    """Add D_i x_i x_i' of rows whose weights have one sign."""
    n = n_weights(rows)
    size = max(_BLAS_ROWS, _BLAS_VALUES // n)
    room = np.empty((min(size, len(which)), n))
    for begin in range(0, len(which), size):
        part = which[begin : begin + size]
        scaled = room[: len(part)]
        _scale_rows(rows, part, D, scaled)
        with one_blas_thread():
            products = scaled.T @ scaled  # numpy knows this product, and takes syrk
        if D[part[0]] > 0.0:
            out[:n, :n] += products
        else:
            out[:n, :n] -= products


@compiled_lean
def _scale_rows(rows, which, D, scaled):
    """Write sqrt(|D_i|) x_i one below the other."""
    for k in range(len(which)):
        scaled[k] = 0.0
        add_row(rows, which[k], np.sqrt(abs(D[which[k]])), scaled[k])


# ---------------------------------------------------------------- by stored values


@compiled_lean
def _add_products(rows, which, D, out):
    for k in range(len(which)):
        first, last = np.uint64(rows.indptr[which[k]]), np.uint64(rows.indptr[which[k] + 1])
        for p in range(first, last):
            scale, line = D[k] * rows.data[p], out[np.uint64(rows.indices[p])]
            for q in range(p, last):  # indices ascend: these are not left of the diagonal
                line[np.uint64(rows.indices[q])] += scale * rows.data[q]
            if rows.bias != 0.0:
                line[rows.n_features] += scale * rows.bias
        if rows.bias != 0.0:
            out[rows.n_features, rows.n_features] += D[k] * rows.bias * rows.bias


# ---------------------------------------------------------------- by panels


@compiled_lean(fastmath=DENSE_MATH)
def _add_panels(rows, which, D, columns, scaled, out):
    for begin in range(0, len(which), _PANEL):
        _add_panel(rows, which, D, columns, scaled, out, begin, min(begin + _PANEL, len(which)))


@compiled_lean(fastmath=DENSE_MATH)
def _add_panel(rows, which, D, columns, scaled, out, begin, end):
    # Transposed, so that products of columns run along memory; four rows at a time, which writes whole cache lines.
    values = rows.values
    n, size = values.shape[1], end - begin
    for k in range(0, size - 3, 4):
        a, b, c, d = which[begin + k], which[begin + k + 1], which[begin + k + 2], which[begin + k + 3]
        for j in range(n):
            columns[j, k], columns[j, k + 1] = values[a, j], values[b, j]
            columns[j, k + 2], columns[j, k + 3] = values[c, j], values[d, j]
    for k in range(size - size % 4, size):
        for j in range(n):
            columns[j, k] = values[which[begin + k], j]
    if rows.bias != 0.0:
        for k in range(size):
            columns[n, k] = rows.bias
    for j in range(n + (rows.bias != 0.0)):
        for k in range(size):
            scaled[j, k] = D[begin + k] * columns[j, k]
    _add_products_of_columns(columns, scaled, size, out)


@compiled(fastmath=DENSE_MATH)
def _add_products_of_columns(columns, scaled, size, out):
    """out_ij += columns_i' scaled_j for i <= j, and for some i > j, which does no harm.

    Eight sums at once: each number that is loaded serves two or four of them, and all of them fit the registers.
    """
    for j in range(0, len(out), _TILE):
        for i in range(0, j + _TILE, 2):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            for k in range(size):
                x, y = columns[i, k], columns[i + 1, k]
                s00 += x * scaled[j, k]
                s01 += x * scaled[j + 1, k]
                s02 += x * scaled[j + 2, k]
                s03 += x * scaled[j + 3, k]
                s10 += y * scaled[j, k]
                s11 += y * scaled[j + 1, k]
                s12 += y * scaled[j + 2, k]
                s13 += y * scaled[j + 3, k]
            out[i, j] += s00
            out[i, j + 1] += s01
            out[i, j + 2] += s02
            out[i, j + 3] += s03
            out[i + 1, j] += s10
            out[i + 1, j + 1] += s11
            out[i + 1, j + 2] += s12
            out[i + 1, j + 3] += s13


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

    if not (np.diagonal(matrix) > 0.0).all():
        raise np.linalg.LinAlgError("the matrix of a Newton step is not positive definite")
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


class Factored(NamedTuple):
    """A positive definite matrix, ready to be solved with."""

    factor: Array
    scale: Array

    def solve(self, b: Array) -> Array:
        """The x of  matrix x = b."""
        with _limit_for(len(b)):
            return cholesky_solve(self.factor, self.scale, b)


def factorized(gram: Array, identity: Array) -> Factored:
    """gram + diag(identity), factorised; of the matrix, which stays as it is, the upper triangle is read."""
    n = len(identity)
    H = gram[:n, :n].copy()
    H.reshape(-1)[:: n + 1] += identity
    with _limit_for(n):
        return Factored(H, cholesky(H))


def newton_step(gram: Array, identity: Array, b: Array) -> Array:
    """The x of  (gram + diag(identity)) x = b.

    Examples
    --------
    >>> newton_step(np.array([[3.0, 2.0], [0.0, 2.0]]), np.ones(2), np.array([8.0, 8.0]))
    array([1., 2.])
    """
    return factorized(gram, identity).solve(b)


@compiled
def _mirror(matrix):
    """Copy the upper triangle to the lower one, tile by tile: a column at a time would miss every cache line."""
    n, size = len(matrix), 32
    for rows_from in range(0, n, size):
        for columns_from in range(0, rows_from + 1, size):
            for i in range(rows_from, min(n, rows_from + size)):
                for j in range(columns_from, min(i, columns_from + size)):
                    matrix[i, j] = matrix[j, i]


# ---------------------------------------------------------------- BLAS and threads

_ALONE = 64  # columns of a matrix that BLAS factorises with one thread anyway
_lock = threading.Lock()
_n_inside = 0
_limiter: Any = None


@functools.cache
def _controller() -> Any:
    """The BLAS libraries of this process; to find them takes some milliseconds."""
    import scipy.linalg.lapack  # noqa: F401 - its BLAS is not numpy's
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _limit_for(n: int) -> contextlib.AbstractContextManager[None]:
    """`one_blas_thread`, but for matrices so small that BLAS does not wake its threads: the limit would cost more."""
    return one_blas_thread() if n > _ALONE else contextlib.nullcontext()


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
