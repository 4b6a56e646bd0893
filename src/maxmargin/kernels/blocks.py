"""Kernel values between the rows of one matrix, in blocks: what SMO and its kin live on.

A block is a chunk of rows against a tile of columns. Of dense rows the products are one matrix product of BLAS; of
sparse rows, and of dense ones of few features, sums over their values with a tile that lies feature by feature. One
sweep then makes kernel values of products (`functions.from_products`). Blocks are spread over threads; their borders
depend on the data alone, so any number of threads gives the same bits.

Values are float32 where that is accurate enough, which is twice as fast and half as large; float64 can be asked for.
Rows are centred before distances are computed: these do not change, but rounding errors of |x|^2 + |z|^2 - 2 x'z do.
"""

from __future__ import annotations

import itertools
import threading
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import CSR, Array, Dense, Rows, n_features, n_rows, squared_norms
from maxmargin.kernels.block_steps import (
    add_up,
    add_up_narrow,
    add_up_sparse,
    combine_rows,
    dots_with,
    number_features,
    store,
    store_narrow,
    store_rounded,
    store_sparse,
    transpose,
)
from maxmargin.kernels.exponential import Double, Single
from maxmargin.kernels.functions import RBF, Kernel, Linear, Polynomial, with_itself
from maxmargin.kernels.rounding import KEPT_IN_SINGLE, Digits, digits_in_double, relative_error
from maxmargin.parallel import map_blocks, map_ordered
from maxmargin.problem.gram import one_blas_thread

_CHUNK = 256  # rows of a block, an even number: `store_narrow` takes them in pairs
_SYMMETRIC_CHUNK = 128  # of one that is used as it is and transposed: a megabyte
_LINEAR_CHUNK = 8192
_WIDTH = 1024  # columns of a tile of dense rows: chunk and tile stay in a core's own cache
_NARROW_WIDTH = 512  # of few features, whose tile is read for each pair of rows
_TILE_VALUES = 130_000  # of a tile that lies feature by feature
_KEPT_VALUES = 1 << 23  # of all tiles together that are kept rather than made again for each block
_SINGLE_ERROR = 2e-5  # in the logarithm of a kernel value that float32 may cause
_FEW_FEATURES = 64  # of dense rows whose kernel values are cheap
_LARGEST_SINGLE = 1e30  # kernel value
_ROWS_A_SUM = 64  # of a combination of rows, at least


class Tile(NamedTuple):
    """Some columns, as `from_products` and the products before it want them."""

    vectors: Array  # (n_local, padded n), feature by feature; for BLAS (n, n_features), row by row
    place: Array  # sparse: which row of `vectors` a feature has, -1 if none
    norms2: Array  # (padded n,)
    precision: Single | Double
    n: int


class Scratch(NamedTuple):
    """Memory for a sparse row, or two narrow ones, at work."""

    features: Array
    numbers: Array
    dots: Array
    more_dots: Array
    values: Array


class Columns(NamedTuple):
    """The rows `J`, as columns of kernel values, tile by tile."""

    J: Array
    borders: Array
    tiles: list[Tile] | None  # None: too large to keep
    dtype: Any


class KernelValues:
    """k(x_i, x_j) for rows i and j of one matrix.

    Parameters
    ----------
    function : Kernel
        A tag of `maxmargin.kernels`.
    rows : Dense or CSR
    n_jobs : int
        Threads. Values do not depend on it.
    """

    n_rows: int
    dtype: Any  # in which values are accurate enough to work with

    def __init__(self, function: Kernel, rows: Rows, n_jobs: int = 1):
        self.function, self.rows, self.n_jobs = function, rows, n_jobs
        self.n_rows, self.is_dense = n_rows(rows), isinstance(rows, Dense)
        self.mean = self._center()  # what is subtracted from dense rows; distances do not depend on it
        self.norms2 = self._squared_norms()
        self._largest_norm2 = float(self.norms2.max(initial=0.0))
        self.dtype = _working_dtype(function, self._largest_norm2)
        self.most_kept = _KEPT_VALUES
        self._single: Any = None
        self._local = threading.local()
        self.n_values = 0  # computed so far

    def prepare(self) -> None:
        """Make what is made once and then shared: the rows in float32."""
        if self.dtype == np.float32:
            if self.is_dense:
                self._dense(slice(0, 0), self.dtype)
            else:
                self._sparse(self.dtype)

    def _center(self) -> Array | None:
        if not (self.is_dense and isinstance(self.function, RBF)):
            return None
        assert isinstance(self.rows, Dense)
        return self.rows.values.mean(axis=0, dtype=np.float64)

    def _squared_norms(self) -> Array:
        if self.mean is None:
            return squared_norms(self.rows, self.n_jobs)
        out = np.empty(self.n_rows)
        for begin in range(0, self.n_rows, 4096):
            part = self._dense(slice(begin, begin + 4096), np.float64)
            out[begin : begin + 4096] = np.einsum("ij,ij->i", part, part)
        return out

    def errors(self, which: Array, sums: Array) -> Array:
        """How wrong sums of beta_j k(x_i, x_j) may be, given those of |beta_j| k(x_i, x_j); see `rounding`."""
        if not isinstance(self.function, RBF):
            return np.full(len(which), np.inf)
        if self.dtype == np.float64:
            return KEPT_IN_SINGLE * sums
        n_terms = n_features(self.rows) if self.is_dense else np.diff(self.rows.indptr)[which]  # type: ignore[union-attr]
        return relative_error(self.function.gamma, self.norms2[which], self._largest_norm2, n_terms) * sums

    @cached_property
    def digits(self) -> Digits:
        """How large values are, and how wrong in float64."""
        n_terms = n_features(self.rows) if self.is_dense else int(np.diff(self.rows.indptr).max(initial=0))  # type: ignore[union-attr]
        return digits_in_double(self.function, self.norms2, n_terms)

    def longest_sum(self, n: int) -> int:
        """Roundings that a term of a sum over n rows goes through, at most: those of its part, and one a part.

        Parts are tiles and, of `apply_symmetric`, chunks of rows.
        """
        width = self._rows_a_sum() if isinstance(self.function, Linear) else self._width(np.float64)
        return min(n, width) + -(-n // width) + -(-n // _SYMMETRIC_CHUNK) + 1

    @property
    def is_cheap(self) -> bool:
        """Whether a value is computed faster than it is fetched from memory."""
        return self.is_dense and n_features(self.rows) <= _FEW_FEATURES

    @property
    def diagonal(self) -> Array:
        """k(x_i, x_i), float64."""
        return self.diagonal_of(np.arange(self.n_rows))

    def diagonal_of(self, which: Array) -> Array:
        """k(x_i, x_i) of some rows, float64."""
        return np.array([with_itself(self.function, norm2) for norm2 in self.norms2[which]])

    # ------------------------------------------------------------ rows and tiles

    def _dense(self, which: Any, dtype: Any) -> Array:
        """Some of the dense rows, centred."""
        values = self.rows.values  # type: ignore[union-attr]
        if dtype == np.float32:
            if self._single is None:
                self._single = values if self.mean is None and values.dtype == dtype else self._copy(values)
            return self._single[which]
        part = values[which].astype(np.float64, copy=False)
        return part if self.mean is None else part - self.mean

    def _copy(self, values: Array) -> Array:
        """All rows, centred, in float32."""
        single = np.empty(values.shape, np.float32)
        mean = 0.0 if self.mean is None else self.mean
        for begin in range(0, len(values), 4096):
            single[begin : begin + 4096] = values[begin : begin + 4096] - mean
        return single

    def _sparse(self, dtype: Any) -> CSR:
        """The sparse rows with their values in this precision."""
        rows = self.rows
        assert isinstance(rows, CSR)
        if rows.data.dtype == dtype:
            return rows
        if dtype == np.float64:
            return rows._replace(data=rows.data)  # float32 data: products are summed in float64 all the same
        if self._single is None:
            self._single = rows._replace(data=rows.data.astype(np.float32))
        return self._single

    def _is_narrow(self, dtype: Any) -> bool:
        """Whether rows are so short that our own products are faster than those of BLAS, and need no interpreter."""
        return self.is_cheap and dtype == np.float32

    def _width(self, dtype: Any) -> int:
        """Columns of a tile."""
        if self.is_dense:
            return _NARROW_WIDTH if self._is_narrow(dtype) else _WIDTH
        return max(256, min(2048, _TILE_VALUES // (n_features(self.rows) + 1) // 16 * 16))

    def tile(self, J: Array, dtype: Any) -> Tile:
        """Rows J, as `from_products` and the products before it want them."""
        precision = Single() if dtype == np.float32 else Double()
        norms2 = np.zeros(-(-len(J) // 16) * 16, dtype)
        norms2[: len(J)] = self.norms2[J]
        if self._is_narrow(dtype):
            vectors = np.zeros((n_features(self.rows), len(norms2)), dtype)
            vectors[:, : len(J)] = self._dense(J, dtype).T
            return Tile(vectors, np.zeros(0, np.int32), norms2, precision, len(J))
        if self.is_dense:
            return Tile(np.ascontiguousarray(self._dense(J, dtype)), np.zeros(0, np.int32), norms2, precision, len(J))
        rows = self._sparse(dtype)
        place = np.full(rows.n_features, -1, np.int32)
        n_local = number_features(rows, J, place)
        vectors = np.zeros((n_local, len(norms2)), dtype)
        transpose(rows, J, place, vectors)
        return Tile(vectors, place, norms2, precision, len(J))

    def columns(self, J: Array, dtype: Any = None) -> Columns:
        """Prepare rows J as columns of kernel values."""
        dtype = self.dtype if dtype is None else dtype
        width = self._width(dtype)
        borders = np.append(np.arange(0, len(J), width), len(J))
        kept = len(J) * n_features(self.rows) <= self.most_kept
        tiles = [self.tile(J[lo:hi], dtype) for lo, hi in itertools.pairwise(borders)] if kept else None
        return Columns(J, borders, tiles, dtype)

    def buffer(self, name: str, size: int, dtype: Any) -> Array:
        """Memory of this thread, used again and again: fresh memory costs more than what is computed in it."""
        buffers = self._local.__dict__
        if name not in buffers or buffers[name].dtype != dtype or len(buffers[name]) < size:
            buffers[name] = np.empty(size, dtype)
        return buffers[name][:size]

    def _dense_products(self, rows: Array, tile: Tile, dtype: Any) -> Array:
        """Inner products of some rows, as `_dense` gives them, with a tile's columns."""
        dots = self.buffer("dots", len(rows) * tile.n, dtype).reshape(len(rows), tile.n)
        return np.dot(rows, tile.vectors.T, out=dots)

    def _scratch(self, tile: Tile, dtype: Any) -> Scratch:
        """Memory for a sparse row or two narrow ones: its values, and products and kernel values with a tile."""
        n, width = n_features(self.rows), len(tile.norms2)
        features, numbers = self.buffer("features", n, np.int64), self.buffer("numbers", n, dtype)
        vectors = (self.buffer(name, width, dtype) for name in ("dots", "more dots", "values"))
        return Scratch(features, numbers, *vectors)

    # ------------------------------------------------------------ what solvers ask for

    def block(self, which: Array, columns: Columns, out: Array, places: Array, offset: int = 0) -> None:
        """Let ``out[places[r], offset + c]`` be k of row ``which[r]`` and column c."""
        self.n_values += len(which) * len(columns.J)
        self.prepare()  # before threads ask for it
        begins = range(0, len(which), _CHUNK)

        def fill(item: tuple[Tile, int, int]) -> None:
            tile, c, begin = item
            part = slice(begin, begin + _CHUNK)
            self._fill(which[part], tile, columns.dtype, out, places[part], offset + c)

        with one_blas_thread():
            if columns.tiles is not None:
                items = [(tile, int(c), begin) for tile, c in zip(columns.tiles, columns.borders) for begin in begins]
                map_ordered(fill, items, self.n_jobs)
                return
            for c, end in itertools.pairwise(columns.borders):
                tile = self.tile(columns.J[c:end], columns.dtype)
                map_ordered(fill, [(tile, int(c), begin) for begin in begins], self.n_jobs)

    def _fill(self, which: Array, tile: Tile, dtype: Any, out: Array, places: Array, offset: int) -> None:
        """One block of kernel values."""
        norms2 = self.norms2[which]
        if not self.is_dense:
            scratch = self._scratch(tile, dtype)
            store_sparse(self.function, self._sparse(dtype), which, norms2, tile, scratch, out, places, offset)
            return
        rows = self._dense(which, dtype)
        if self._is_narrow(dtype):
            store_narrow(self.function, rows, norms2, tile, self._scratch(tile, dtype), out, places, offset)
        elif out.dtype == dtype:
            store(self.function, self._dense_products(rows, tile, dtype), norms2, tile, out, places, offset)
        else:
            dots, values = self._dense_products(rows, tile, dtype), self.buffer("values", len(tile.norms2), dtype)
            store_rounded(self.function, dots, norms2, tile, values, out, places, offset)

    def apply(self, which: Array, J: Array, beta: Array, dtype: Any = None) -> Array:
        """Sums over j in J of beta_j k(x_i, x_j), for every row i of `which`; in float64, of values in `dtype`.

        With several vectors, ``beta[k]``, several such sums.
        """
        dtype = self.dtype if dtype is None else dtype
        beta = np.asarray(beta, np.float64)
        if beta.ndim == 1:
            return self.apply(which, J, beta[None], dtype)[0]
        if isinstance(self.function, Linear):
            return np.stack([self._apply_linear(which, J, one) for one in beta])
        out = np.zeros((len(beta), len(which)))
        self.prepare()  # before threads ask for it
        self.n_values += len(which) * len(J)
        columns = self.columns(J, dtype)
        borders = list(itertools.pairwise(columns.borders))
        weights = [np.ascontiguousarray(beta[:, lo:hi]) for lo, hi in borders]
        # All tiles at once if they are kept anyhow; or one at a time, which may be large.
        steps = [columns.tiles] if columns.tiles is not None else ([self.tile(J[lo:hi], dtype)] for lo, hi in borders)
        n_done = 0
        with one_blas_thread():
            for tiles in steps:
                pairs = list(zip(tiles, weights[n_done : n_done + len(tiles)]))
                n_done += len(tiles)

                def add(begin: int, pairs: list[tuple[Tile, Array]] = pairs) -> None:
                    self._add_sums(which[begin : begin + _CHUNK], pairs, dtype, out[:, begin : begin + _CHUNK])

                map_ordered(add, range(0, len(which), _CHUNK), self.n_jobs)
        return out

    def _add_sums(self, which: Array, pairs: list[tuple[Tile, Array]], dtype: Any, sums: Array) -> None:
        """Add to ``sums[k]`` the kernel values of some rows with tiles, each times its ``weights[k]``."""
        norms2, function = self.norms2[which], self.function
        rows = self._dense(which, dtype) if self.is_dense else None
        for tile, weights in pairs:
            if rows is None:
                scratch = self._scratch(tile, dtype)
                add_up_sparse(function, self._sparse(dtype), which, norms2, tile, scratch, weights, sums)
            elif self._is_narrow(dtype):
                add_up_narrow(function, rows, norms2, tile, self._scratch(tile, dtype), weights, sums)
            else:
                values = self.buffer("values", len(tile.norms2), dtype)
                add_up(function, self._dense_products(rows, tile, dtype), norms2, tile, weights, values, sums)

    def apply_symmetric(self, J: Array, beta: Array) -> Array:
        """As ``apply(J, J, beta, np.float64)``, at half the price: what k(x_i, x_j) is, k(x_j, x_i) is as well."""
        if isinstance(self.function, Linear):
            return self.apply(J, J, beta, np.float64)
        out, width, dtype = np.zeros(len(J)), self._width(np.float64), np.dtype(np.float64)
        for c in range(0, len(J), width):
            end = min(c + width, len(J))
            tile = self.tile(J[c:end], dtype)

            def add(begin: int, c: int = c, end: int = end, tile: Tile = tile) -> Array | None:
                part = slice(begin, min(begin + _SYMMETRIC_CHUNK, end if begin < end else len(J)))
                n = part.stop - begin
                K = self.buffer("block", n * tile.n, dtype).reshape(n, tile.n)
                self._fill(J[part], tile, dtype, K, np.arange(n), 0)
                out[part] += K @ beta[c:end]
                return beta[part] @ K if begin >= end else None

            begins = [*range(c, end, _SYMMETRIC_CHUNK), *range(end, len(J), _SYMMETRIC_CHUNK)]
            self.n_values += (len(J) - c) * tile.n
            with one_blas_thread():
                transposed = map_ordered(add, begins, self.n_jobs)
            for sums in transposed:
                out[c:end] += 0.0 if sums is None else sums
        return out

    def store_foreign(self, rows: CSR, norms2: Array, tile: Tile, out: Array) -> None:
        """Let `out` be the values of other sparse rows with a tile, in float64."""
        scratch, every = self._scratch(tile, np.float64), np.arange(len(norms2))
        store_sparse(self.function, rows, every, norms2, tile, scratch, out, every, 0)

    def _apply_linear(self, which: Array, J: Array, beta: Array) -> Array:
        """x_i'w with w = sum of beta_j x_j: no kernel values are needed."""
        w, out, width = np.zeros(n_features(self.rows) + 1), np.empty(len(which)), self._rows_a_sum()
        self.n_values += len(which) + len(J)
        for begin in range(0, len(J), width):  # sums of sums have more digits
            part = np.zeros_like(w)
            combine_rows(self.rows, J[begin : begin + width], beta[begin : begin + width], part)
            w += part
        blocks = [*range(0, len(which), _LINEAR_CHUNK), len(which)]
        map_blocks(lambda lo, hi: dots_with(self.rows, which[lo:hi], w, out[lo:hi]), blocks, self.n_jobs)
        return out

    def _rows_a_sum(self) -> int:
        """Rows that are added up before their sum is: so many that adding it costs no more than they do."""
        if isinstance(self.rows, Dense):
            return _ROWS_A_SUM
        return max(_ROWS_A_SUM, n_features(self.rows) * self.n_rows // max(1, len(self.rows.data)))


def _working_dtype(function: Kernel, largest_norm2: float) -> Any:
    """float32, unless its errors would be seen."""
    if isinstance(function, RBF):
        return np.float32 if 2.0**-23 * function.gamma * largest_norm2 <= _SINGLE_ERROR else np.float64
    largest = largest_norm2
    if isinstance(function, Polynomial):
        with np.errstate(over="ignore"):
            largest = np.float64(function.gamma * largest_norm2 + abs(function.coef0)) ** function.degree
    return np.float32 if max(largest, largest_norm2) <= _LARGEST_SINGLE else np.float64
