"""The compiled parts of `kernels.blocks`: products of rows with a tile, and kernel values stored or added up."""

from __future__ import annotations

from maxmargin._jit import DENSE_MATH, compiled, compiled_lean, wide_vectors
from maxmargin.data.rows import add_row, row_dot
from maxmargin.kernels.functions import from_products
from maxmargin.kernels.support import combine


@compiled
def combine_rows(rows, J, beta, w):
    """Add the rows J times beta to w."""
    for k in range(len(J)):
        add_row(rows, J[k], beta[k], w)


@compiled
def dots_with(rows, which, w, out):
    """Products of some rows with w."""
    for k in range(len(which)):
        out[k] = row_dot(rows, which[k], w)


@compiled
def number_features(rows, J, place):
    """Number the features that rows J have; how many there are."""
    n = 0
    for j in J:
        for p in range(rows.indptr[j], rows.indptr[j + 1]):
            f = rows.indices[p]
            if place[f] < 0:
                place[f] = n
                n += 1
    return n


@compiled
def transpose(rows, J, place, vectors):
    """Write rows J as columns, feature by feature, in the places of `number_features`."""
    for c in range(len(J)):
        for p in range(rows.indptr[J[c]], rows.indptr[J[c] + 1]):
            vectors[place[rows.indices[p]], c] = rows.data[p]


@compiled_lean(fastmath=DENSE_MATH)
def _sparse_products(rows, i, tile, scratch):
    """Products of a sparse row with a tile, into scratch.dots: four stored values a sweep."""
    wide_vectors()
    vectors, o, features, numbers = tile.vectors, scratch.dots, scratch.features, scratch.numbers
    n, size = vectors.shape[1], 0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        f = tile.place[rows.indices[p]]
        if f >= 0:
            features[size], numbers[size] = f, rows.data[p]
            size += 1
    for j in range(n):
        o[j] = 0.0
    for k in range(size % 4):
        v0, a = numbers[k], vectors[features[k]]
        for j in range(n):
            o[j] += v0 * a[j]
    for k in range(size % 4, size, 4):
        v0, v1, v2, v3 = numbers[k], numbers[k + 1], numbers[k + 2], numbers[k + 3]
        a, b = vectors[features[k]], vectors[features[k + 1]]
        c, d = vectors[features[k + 2]], vectors[features[k + 3]]
        for j in range(n):
            o[j] += v0 * a[j] + v1 * b[j] + v2 * c[j] + v3 * d[j]


@compiled_lean
def store_sparse(function, rows, which, norms2, tile, scratch, out, places, offset):
    """Kernel values of sparse rows, each row to its place."""
    wide_vectors()
    for r in range(len(which)):
        _sparse_products(rows, which[r], tile, scratch)
        from_products(function, norms2[r], tile, tile.n, scratch.dots, scratch.values)
        row = out[places[r], offset : offset + tile.n]
        for c in range(tile.n):
            row[c] = scratch.values[c]


@compiled_lean
def add_up_sparse(function, rows, which, norms2, tile, scratch, weights, out):
    """As `add_up`, of sparse rows."""
    wide_vectors()
    for r in range(len(which)):
        _sparse_products(rows, which[r], tile, scratch)
        from_products(function, norms2[r], tile, tile.n, scratch.dots, scratch.values)
        for k in range(len(weights)):
            out[k, r] += combine(weights[k], scratch.values, tile.n)


@compiled_lean(fastmath=DENSE_MATH)
def _narrow_products(x, z, tile, scratch):
    """Products of two dense rows with a tile, into scratch.dots and scratch.more_dots.

    Four features a sweep. What is read of the tile serves both rows, so that arithmetic takes longer than reading.
    """
    wide_vectors()
    vectors, o, p = tile.vectors, scratch.dots, scratch.more_dots
    size, n = vectors.shape
    for j in range(n):
        o[j] = 0.0
        p[j] = 0.0
    for k in range(size % 4):
        x0, z0, a = x[k], z[k], vectors[k]
        for j in range(n):
            o[j] += x0 * a[j]
            p[j] += z0 * a[j]
    for k in range(size % 4, size, 4):
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        z0, z1, z2, z3 = z[k], z[k + 1], z[k + 2], z[k + 3]
        a, b, c, d = vectors[k], vectors[k + 1], vectors[k + 2], vectors[k + 3]
        for j in range(n):
            v0, v1, v2, v3 = a[j], b[j], c[j], d[j]
            o[j] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
            p[j] += z0 * v0 + z1 * v1 + z2 * v2 + z3 * v3


@compiled_lean
def _store_row(function, norm2, tile, dots, values, row):
    """Kernel values of one row's products, in the precision of `row`."""
    wide_vectors()
    from_products(function, norm2, tile, tile.n, dots, values)
    for c in range(tile.n):
        row[c] = values[c]


@compiled_lean
def store_narrow(function, rows, norms2, tile, scratch, out, places, offset):
    """Kernel values of dense rows of few features, each row to its place."""
    wide_vectors()
    n, end = len(rows), offset + tile.n
    for r in range(0, n, 2):
        second = min(r + 1, n - 1)
        _narrow_products(rows[r], rows[second], tile, scratch)
        _store_row(function, norms2[r], tile, scratch.dots, scratch.values, out[places[r], offset:end])
        if second > r:
            _store_row(
                function, norms2[second], tile, scratch.more_dots, scratch.values, out[places[second], offset:end]
            )


@compiled_lean
def _add_row(function, norm2, tile, dots, values, weights, out):
    """Add to ``out[k]`` the sum of one row's kernel values times ``weights[k]``."""
    wide_vectors()
    from_products(function, norm2, tile, tile.n, dots, values)
    for k in range(len(weights)):
        out[k] += combine(weights[k], values, tile.n)


@compiled_lean
def add_up_narrow(function, rows, norms2, tile, scratch, weights, out):
    """As `add_up`, of dense rows of few features."""
    wide_vectors()
    n = len(rows)
    for r in range(0, n, 2):
        second = min(r + 1, n - 1)
        _narrow_products(rows[r], rows[second], tile, scratch)
        _add_row(function, norms2[r], tile, scratch.dots, scratch.values, weights, out[:, r])
        if second > r:
            _add_row(function, norms2[second], tile, scratch.more_dots, scratch.values, weights, out[:, second])


@compiled_lean
def store(function, dots, norms2, tile, out, places, offset):
    """Kernel values of products, each row to its place."""
    wide_vectors()
    n = tile.n
    for r in range(len(places)):
        from_products(function, norms2[r], tile, n, dots[r], out[places[r], offset : offset + n])


@compiled_lean
def store_rounded(function, dots, norms2, tile, values, out, places, offset):
    """As `store`, where `out` has another precision."""
    wide_vectors()
    n = tile.n
    for r in range(len(places)):
        from_products(function, norms2[r], tile, n, dots[r], values)
        row = out[places[r], offset : offset + n]
        for c in range(n):
            row[c] = values[c]


@compiled_lean
def add_up(function, dots, norms2, tile, weights, values, out):
    """Add to ``out[k]`` the sums of kernel values times ``weights[k]``, in float64."""
    wide_vectors()
    n = tile.n
    for r in range(len(norms2)):
        from_products(function, norms2[r], tile, n, dots[r], values)
        for k in range(len(weights)):
            out[k, r] += combine(weights[k], values, n)
