"""Decision functions of kernel machines: sums over support vectors for rows that were not in the training.

Kernel values of a chunk of rows and a tile of support vectors are computed in float64 (`blocks`), then multiplied by
the coefficients of all decision functions at once. Tiles are kept from one call to the next, unless they are large.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import CSR, Array, Dense, Rows, n_features, n_rows, squared_norms, take, view_rows
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.functions import Kernel, from_products
from maxmargin.parallel import map_ordered
from maxmargin.problem.gram import one_blas_thread

_CHUNK = 64  # rows: a block of values stays in a core's own cache
_FEW = 1 << 18  # products that BLAS computes on one thread anyway


class Expansion:
    """sum_j coefficients[c, j] k(z_j, x) for decision functions c.

    Parameters
    ----------
    function : Kernel
        A tag of `maxmargin.kernels`.
    support : Dense or CSR
        The vectors z_j.
    coefficients : ndarray of shape (n_outputs, n_support)

    Examples
    --------
    >>> from maxmargin.data.rows import view_rows
    >>> from maxmargin.kernels import Linear
    >>> z, x = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 4.0]])
    >>> Expansion(Linear(), view_rows(z), np.array([[1.0, -1.0]])).outputs(view_rows(x))
    array([[-5.]])
    """

    def __init__(self, function: Kernel, support: Rows, coefficients: Array):
        self.n_outputs, self.is_empty = len(coefficients), n_rows(support) == 0
        if self.is_empty:
            return
        self.values = KernelValues(function, support)
        self.columns = self.values.columns(np.arange(n_rows(support)), np.float64)
        self.coefficients = np.ascontiguousarray(coefficients.T, np.float64)

    def outputs(self, rows: Rows, n_jobs: int = 1) -> Array:
        """Values of the decision functions, without intercepts, of shape (n_rows, n_outputs)."""
        if self.is_empty:
            return np.zeros((n_rows(rows), self.n_outputs))
        n, values = n_rows(rows), self.values
        if n_features(rows) != n_features(values.rows):
            raise ValueError(
                f"the rows have {n_features(rows)} features, the support vectors {n_features(values.rows)}"
            )
        if isinstance(rows, Dense) and not values.is_dense:
            rows = _sparse(rows)
        out = np.zeros((n, self.n_outputs))
        limited = n * len(self.columns.J) * n_features(rows) > _FEW
        with one_blas_thread() if limited else contextlib.nullcontext():
            for k in range(len(self.columns.borders) - 1):
                lo, hi = self.columns.borders[k : k + 2]
                tile = self.columns.tiles[k] if self.columns.tiles else values.tile(self.columns.J[lo:hi], np.float64)
                weights = self.coefficients[lo:hi]

                def add(begin: int, tile: Any = tile, weights: Array = weights) -> None:
                    block = self._block(rows, begin, min(begin + _CHUNK, n), tile)
                    out[begin : begin + _CHUNK] += block @ weights

                map_ordered(add, range(0, n, _CHUNK), n_jobs)
        return out

    def _block(self, rows: Rows, begin: int, end: int, tile: Any) -> Array:
        """Kernel values of some of the rows and a tile of support vectors."""
        values = self.values
        n, shape = (end - begin) * tile.n, (end - begin, tile.n)
        out = values.buffer("block", n, np.float64).reshape(shape)
        if values.is_dense:
            part = _dense(rows, begin, end)
            part = part if values.mean is None else part - values.mean
            norms2 = np.einsum("ij,ij->i", part, part)
            dots = np.dot(part, tile.vectors.T, out=values.buffer("dots", n, np.float64).reshape(shape))
            _kernel_block(values.function, dots, norms2, tile, out)
            return out
        some = take(rows, np.arange(begin, end))
        assert isinstance(some, CSR)
        values.store_foreign(some, squared_norms(some), tile, out)
        return out


def _dense(rows: Rows, begin: int, end: int) -> Array:
    """Some of the rows as a matrix of float64."""
    if isinstance(rows, Dense):
        return rows.values[begin:end].astype(np.float64, copy=False)
    part, out = slice(rows.indptr[begin], rows.indptr[end]), np.zeros((end - begin, rows.n_features))
    places = np.repeat(np.arange(end - begin), np.diff(rows.indptr[begin : end + 1]))
    np.add.at(out, (places, rows.indices[part]), rows.data[part])
    return out


def _sparse(rows: Dense) -> Rows:
    from scipy.sparse import csr_array

    return view_rows(csr_array(rows.values))


@compiled_lean
def _kernel_block(function, dots, norms2, tile, out):
    for r in range(len(out)):
        from_products(function, norms2[r], tile, tile.n, dots[r], out[r])
