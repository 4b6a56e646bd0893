"""Support vectors, and kernel values of rows with all of them.

The support vectors lie feature by feature (`Support`): entry [f, j] is feature f of vector j. Sweeps of products and of
the kernel function then run over neighbouring vectors, which compilers turn into vector instructions, whether the row
is dense or sparse: a sparse row reads only the features that it has. Vectors are stored in float32 or float64, and
products are summed in the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, generic
from maxmargin.data.rows import CSR, Array, Dense, Rows, n_features, n_rows, n_stored, row_blocks, row_norm2
from maxmargin.kernels.exponential import Double, Single
from maxmargin.kernels.functions import Kernel, from_products
from maxmargin.parallel import map_blocks

GROUP = 4  # rows whose products are computed together


class Support(NamedTuple):
    """Room for support vectors, feature by feature.

    The first dimension of `vectors` is the feature. Its second one is a multiple of 16, so that no sweep of vector
    instructions has a remainder: kernels may compute, and then ignore, values of places that hold no vector.
    """

    vectors: Array  # (n_features, capacity)
    norms2: Array  # (capacity,): the vectors' squared lengths
    precision: Single | Double


def new_support(n_features: int, capacity: int, dtype: Any) -> Support:
    """Empty room for at least `capacity` vectors."""
    places = 16 * (-(-capacity // 16) | 1)  # an odd multiple: features a power of two apart would share cache sets
    precision = Single() if np.dtype(dtype) == np.float32 else Double()
    return Support(np.zeros((n_features, places), dtype), np.zeros(places, dtype), precision)


def as_support(vectors: Any, dtype: Any = np.float64, capacity: int = 0) -> Support:
    """The rows of a matrix as support vectors, with room for `capacity` of them if these are fewer."""
    vectors = vectors.toarray() if hasattr(vectors, "toarray") else np.asarray(vectors)
    support = new_support(vectors.shape[1], max(len(vectors), capacity), dtype)
    support.vectors[:, : len(vectors)] = vectors.T
    support.norms2[:] = np.einsum("fj,fj->j", support.vectors, support.vectors, dtype=np.float64)
    return support


@compiled
def padded(n):
    """The number of places that a sweep over n support vectors covers."""
    return (n + 15) // 16 * 16


@generic
def set_vector(rows, i, norm2, support, j):
    """Let row i, of this squared length, be support vector j."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@set_vector.register(Dense)
def _(rows, i, norm2, support, j):
    for f in range(rows.values.shape[1]):
        support.vectors[f, j] = rows.values[i, f]
    support.norms2[j] = norm2


@set_vector.register(CSR)
def _(rows, i, norm2, support, j):
    for f in range(len(support.vectors)):
        support.vectors[f, j] = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        support.vectors[rows.indices[p], j] = rows.data[p]
    support.norms2[j] = norm2


@compiled
def place_vector(rows, i, norm2, support, size):
    """The support vector, of the first `size`, that row i equals; else `size`, the place where it is put."""
    set_vector(rows, i, norm2, support, size)
    norms2, vectors = support.norms2, support.vectors
    candidates = 0
    for j in range(size):  # without a branch, for vector instructions: mostly there is none
        candidates += norms2[j] == norms2[size]
    if candidates == 0:
        return size
    for j in range(size):
        if norms2[j] == norms2[size]:
            f = 0
            while f < len(vectors) and vectors[f, j] == vectors[f, size]:
                f += 1
            if f == len(vectors):
                return j
    return size


@compiled
def move_vector(support, source, target):
    """Copy support vector `source` over `target`."""
    for f in range(len(support.vectors)):
        support.vectors[f, target] = support.vectors[f, source]
    support.norms2[target] = support.norms2[source]


# ---------------------------------------------------------------- a row of kernel values


@generic
def products(rows, i, vectors, n, out):
    """Inner products of row i with the first n support vectors."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@products.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, vectors, n, out):
    number = out.dtype.type
    x = rows.values
    out[:n] = number(0.0)
    f, end = 0, x.shape[1]
    while f + 4 <= end:  # four features a sweep: `out` is read and written a quarter as often
        a, b, c, d = number(x[i, f]), number(x[i, f + 1]), number(x[i, f + 2]), number(x[i, f + 3])
        for j in range(n):
            out[j] += a * vectors[f, j] + b * vectors[f + 1, j] + c * vectors[f + 2, j] + d * vectors[f + 3, j]
        f += 4
    while f < end:
        a = number(x[i, f])
        for j in range(n):
            out[j] += a * vectors[f, j]
        f += 1


@products.register(CSR, fastmath=DENSE_MATH)
def _(rows, i, vectors, n, out):
    number = out.dtype.type
    out[:n] = number(0.0)
    p, end = np.int64(rows.indptr[i]), np.int64(rows.indptr[i + 1])
    while p + 2 <= end:
        f, g = np.int64(rows.indices[p]), np.int64(rows.indices[p + 1])
        a, b = number(rows.data[p]), number(rows.data[p + 1])
        for j in range(n):
            out[j] += a * vectors[f, j] + b * vectors[g, j]
        p += 2
    if p < end:
        f = np.int64(rows.indices[p])
        a = number(rows.data[p])
        for j in range(n):
            out[j] += a * vectors[f, j]


@generic
def products_of_group(rows, chosen, vectors, n, out):
    """Inner products of the `GROUP` chosen rows with the first n support vectors.

    Of dense rows, each product with a vector's value then costs a quarter of the reading: with more support vectors
    than a core's nearest cache holds, that is twice as fast as `products` row by row (54 features, 2000 vectors).
    """
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@products_of_group.register(Dense, fastmath=DENSE_MATH)
def _(rows, chosen, vectors, n, out):
    number = out.dtype.type
    x0, x1, x2, x3 = rows.values[chosen[0]], rows.values[chosen[1]], rows.values[chosen[2]], rows.values[chosen[3]]
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for j in range(n):
        out0[j] = out1[j] = out2[j] = out3[j] = number(0.0)
    f, end = 0, rows.values.shape[1]
    while f + 4 <= end:
        a0, b0, c0, d0 = number(x0[f]), number(x0[f + 1]), number(x0[f + 2]), number(x0[f + 3])
        a1, b1, c1, d1 = number(x1[f]), number(x1[f + 1]), number(x1[f + 2]), number(x1[f + 3])
        a2, b2, c2, d2 = number(x2[f]), number(x2[f + 1]), number(x2[f + 2]), number(x2[f + 3])
        a3, b3, c3, d3 = number(x3[f]), number(x3[f + 1]), number(x3[f + 2]), number(x3[f + 3])
        va, vb, vc, vd = vectors[f], vectors[f + 1], vectors[f + 2], vectors[f + 3]
        for j in range(n):
            a, b, c, d = va[j], vb[j], vc[j], vd[j]
            out0[j] += a0 * a + b0 * b + c0 * c + d0 * d
            out1[j] += a1 * a + b1 * b + c1 * c + d1 * d
            out2[j] += a2 * a + b2 * b + c2 * c + d2 * d
            out3[j] += a3 * a + b3 * b + c3 * c + d3 * d
        f += 4
    while f < end:
        a0, a1, a2, a3, va = number(x0[f]), number(x1[f]), number(x2[f]), number(x3[f]), vectors[f]
        for j in range(n):
            a = va[j]
            out0[j] += a0 * a
            out1[j] += a1 * a
            out2[j] += a2 * a
            out3[j] += a3 * a
        f += 1


@products_of_group.register(CSR)
def _(rows, chosen, vectors, n, out):
    for r in range(GROUP):
        if r == 0 or chosen[r] != chosen[r - 1]:  # the last row may stand for others that there are not
            products(rows, chosen[r], vectors, n, out[r])


@generic
def group_width(rows):
    """How many rows it is worth to compute products of together."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@group_width.register(Dense)
def _(rows):
    return GROUP


@group_width.register(CSR)
def _(rows):
    return 1


@generic
def product_with(rows, i, vectors, j):
    """Inner product of row i with support vector j."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@product_with.register(Dense)
def _(rows, i, vectors, j):
    total = 0.0
    for f in range(rows.values.shape[1]):
        total += rows.values[i, f] * vectors[f, j]
    return total


@product_with.register(CSR)
def _(rows, i, vectors, j):
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += rows.data[p] * vectors[rows.indices[p], j]
    return total


@compiled
def choose_group(chosen, first, last):
    """Choose the rows first, first + 1, ..., and the last one as often as is needed."""
    for r in range(GROUP):
        chosen[r] = min(first + r, last)


@compiled
def kernel_row(function, rows, i, norm2, support, n, out):
    """k(x_i, z_j) for the first n support vectors, and for the places up to ``padded(n)``."""
    places = padded(n)
    dots = np.empty(places, out.dtype)
    products(rows, i, support.vectors, places, dots)
    from_products(function, norm2, support, places, dots, out)


@compiled(fastmath=DENSE_MATH)
def combine(coefficients, values, n):
    """Sum over the first n support vectors of coefficient times kernel value; float64 whatever these are."""
    total = 0.0
    for j in range(n):
        total += coefficients[j] * values[j]
    return total


# ---------------------------------------------------------------- many rows


def _blocks(rows: Rows, n: int) -> Array:
    """Blocks of rows whose kernel values are a few milliseconds of work."""
    work = n * (n_stored(rows) + 8 * n_rows(rows))
    return row_blocks(rows, int(max(1, min(256, n_rows(rows) // 16, work >> 22))))


def kernel_matrix(
    function: Kernel, rows: Rows, support: Support, n: int, n_jobs: int = 1, out: Array | None = None
) -> Array:
    """k(x_i, z_j) of all rows and the first n support vectors, in the precision of these; in `out` if that is given.

    Examples
    --------
    >>> from maxmargin.data.rows import view_rows
    >>> from maxmargin.kernels import Linear
    >>> X = np.array([[0.0, 1.0], [2.0, 0.0]])
    >>> kernel_matrix(Linear(), view_rows(X), as_support(X), 2)
    array([[1., 0.],
           [0., 4.]])
    """
    _check_features(rows, support)
    matrix = np.empty((n_rows(rows), n), support.vectors.dtype) if out is None else out
    map_blocks(lambda lo, hi: _matrix_block(function, rows, support, n, matrix, lo, hi), _blocks(rows, n), n_jobs)
    return matrix


def decision_values(
    function: Kernel, rows: Rows, support: Support, coefficients: Array, intercepts: Array, n_jobs: int = 1
) -> Array:
    """sum_j coefficients[c, j] k(x_i, z_j) + intercepts[c] for every row i and output c.

    Parameters
    ----------
    function : Kernel
    rows : Dense or CSR
    support : Support
    coefficients : ndarray of shape (n_outputs, n_support)
    intercepts : ndarray of shape (n_outputs,)
    n_jobs : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs), float64
    """
    _check_features(rows, support)
    n = coefficients.shape[1]
    out = np.empty((n_rows(rows), len(coefficients)))
    coefficients, intercepts = np.ascontiguousarray(coefficients, np.float64), np.asarray(intercepts, np.float64)
    map_blocks(
        lambda lo, hi: _decision_block(function, rows, support, coefficients, intercepts, out, lo, hi),
        _blocks(rows, n),
        n_jobs,
    )
    return out


def _check_features(rows: Rows, support: Support) -> None:
    if n_features(rows) != len(support.vectors):
        raise ValueError(f"the rows have {n_features(rows)} features, the support vectors {len(support.vectors)}")


@compiled
def _matrix_block(function, rows, support, n, out, lo, hi):
    places, chosen = padded(n), np.empty(GROUP, np.int64)
    dots, values = np.empty((GROUP, places), out.dtype), np.empty(places, out.dtype)
    for first in range(lo, hi, GROUP):
        choose_group(chosen, first, hi - 1)
        products_of_group(rows, chosen, support.vectors, places, dots)
        for i in range(first, min(first + GROUP, hi)):
            from_products(function, row_norm2(rows, i), support, places, dots[i - first], values)
            for j in range(n):  # as an assignment of slices, a second of compiling: its message for unequal shapes
                out[i, j] = values[j]


@compiled
def _decision_block(function, rows, support, coefficients, intercepts, out, lo, hi):
    n_outputs, n = coefficients.shape
    places, chosen = padded(n), np.empty(GROUP, np.int64)
    dots, values = np.empty((GROUP, places), support.vectors.dtype), np.empty(places, support.vectors.dtype)
    for first in range(lo, hi, GROUP):
        choose_group(chosen, first, hi - 1)
        products_of_group(rows, chosen, support.vectors, places, dots)
        for i in range(first, min(first + GROUP, hi)):
            from_products(function, row_norm2(rows, i), support, places, dots[i - first], values)
            for c in range(n_outputs):
                out[i, c] = combine(coefficients[c], values, n) + intercepts[c]
