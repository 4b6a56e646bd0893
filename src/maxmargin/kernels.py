"""Kernel functions, and their values of one row against many support vectors at once.

A kernel function k(x, z) is a NamedTuple tag: `RBF(gamma)`, `Linear()`, `Polynomial(degree, gamma, coef0)`,
`Sigmoid(gamma, coef0)`, with the meaning that they have in LIBSVM and scikit-learn. All of them are functions of x'z,
|x|^2 and |z|^2, so a row of values is one sweep of products and one sweep of that function.

The support vectors lie feature by feature (`Support`): entry [f, j] is feature f of vector j. Both sweeps then run over
neighbouring vectors, which compilers turn into vector instructions, whether the row is dense or sparse: a sparse row
reads only the features that it has. Vectors are stored in float32 or float64, and products are summed in the same.

Vector instructions need an exponential without a call or a branch: `exp` is one, by Cody and Waite's reduction
e^x = 2^k e^f, |f| <= ln(2)/2, and a polynomial for e^f (fitted for the least relative error, with e^0 = 1 exactly).
In float32 its relative error is below 2e-7, in float64 below 4e-16.

What float32 cannot do: |x - z|^2 is computed as |x|^2 + |z|^2 - 2 x'z, whose error is about 1e-7 |x|^2 however close x
and z are. `precision_for` says when that is too much.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, generic, kernel
from maxmargin.parallel import map_blocks
from maxmargin.rows import CSR, Array, Dense, Rows, n_features, n_rows, n_stored, row_blocks, row_norm2


class RBF(NamedTuple):
    """exp(-gamma |x - z|^2)."""

    gamma: float = 1.0


class Linear(NamedTuple):
    """x'z."""


class Polynomial(NamedTuple):
    """(gamma x'z + coef0)^degree."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0


class Sigmoid(NamedTuple):
    """tanh(gamma x'z + coef0), which is no inner product for most parameters."""

    gamma: float = 1.0
    coef0: float = 0.0


Kernel = Any  # one of the tags above

TAGS = (RBF, Linear, Polynomial, Sigmoid)
GROUP = 4  # rows whose products are computed together
_BY_NAME: dict[str, type] = dict(zip(("rbf", "linear", "poly", "sigmoid"), TAGS))


def names() -> list[str]:
    """Names of all kernel functions."""
    return list(_BY_NAME)


def name_of(function: Kernel) -> str:
    """Name of a kernel function."""
    return next(name for name, tag in _BY_NAME.items() if tag is type(function))


def get(function: str | Kernel, *, gamma: float = 1.0, degree: int = 3, coef0: float = 0.0) -> Kernel:
    """The kernel function of this name with those of the parameters that it has; an object is returned checked.

    Examples
    --------
    >>> get("rbf", gamma=0.5)
    RBF(gamma=0.5)
    >>> get("poly", gamma=1.0, degree=2)
    Polynomial(degree=2, gamma=1.0, coef0=0.0)
    """
    if isinstance(function, str):
        if function not in _BY_NAME:
            raise ValueError(f"unknown kernel {function!r}; choose one of {', '.join(names())}")
        tag = _BY_NAME[function]
        given = {"gamma": gamma, "degree": degree, "coef0": coef0}
        function = tag(**{name: given[name] for name in tag._fields})  # type: ignore[attr-defined]
    if type(function) not in TAGS:
        raise ValueError(
            f"kernel must be a name ({', '.join(names())}) or an object of maxmargin.kernels: {function!r}"
        )
    return _checked(function)


def _checked(function: Kernel) -> Kernel:
    """The same function with parameters of the types that compiled code expects."""
    for name, number in function._asdict().items():
        if not isinstance(number, Real) or not np.isfinite(float(number)):
            raise ValueError(f"{name} must be a finite number, got {function!r}")
    if "gamma" in function._fields and not function.gamma > 0.0:
        raise ValueError(f"gamma must be positive, got {function!r}")
    if "degree" in function._fields and (not isinstance(function.degree, Integral) or int(function.degree) < 1):
        raise ValueError(f"degree must be a positive integer, got {function!r}")
    return type(function)(*(int(v) if name == "degree" else float(v) for name, v in function._asdict().items()))


# ---------------------------------------------------------------- precision and the fast exponential


class Single(NamedTuple):
    """float32."""


class Double(NamedTuple):
    """float64."""


_SINGLE_ERROR = 1e-3  # of a kernel value's logarithm that float32 may cause before float64 is used


def precision_for(function: Kernel, largest_norm2: float) -> type[np.floating]:
    """float32 where its error in kernel values of rows up to this squared length stays below 1e-3, else float64."""
    scale = getattr(function, "gamma", 1.0) * getattr(function, "degree", 1)
    return np.float32 if 2.0**-23 * scale * largest_norm2 <= _SINGLE_ERROR else np.float64


@generic
def exp(precision, x):
    """e^x for x <= 0 in this precision; zero where that is less than 1e-34 (1e-304).

    A product of a number near the smallest with one below 1 has fewer digits, and takes a hundred times as long.
    """
    raise TypeError(f"not a precision: {precision!r}")


# Adding 1.5 * 2^23 to a small number rounds it to an integer, which then stands in the lowest bits: shifted by 23,
# these are the exponent that e^f still lacks. (No reassociation here: it would cancel the two additions.)
_MAGIC_SINGLE = np.float32(12582912.0)
_MAGIC_DOUBLE = 6755399441055744.0
_LOG2_E = 1.4426950408889634
_LN2_HIGH_SINGLE, _LN2_LOW_SINGLE = np.float32(0.693359375), np.float32(-2.12194440e-4)  # k * high is exact
_LN2_HIGH_DOUBLE, _LN2_LOW_DOUBLE = 0.693145751953125, 1.4286068203094173e-06


@exp.register(Single)
def _(precision, x):
    is_zero = x < np.float32(-78.0)
    x = max(x, np.float32(-78.0))
    shifted = x * np.float32(_LOG2_E) + _MAGIC_SINGLE
    k = shifted - _MAGIC_SINGLE
    f = (x - k * _LN2_HIGH_SINGLE) - k * _LN2_LOW_SINGLE
    p = np.float32(0.00831252523)
    p = p * f + np.float32(0.0418901145)
    p = p * f + np.float32(0.166671142)
    p = p * f + np.float32(0.499992311)
    p = p * f + np.float32(1.0)
    p = p * f + np.float32(1.0)
    exponent = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
    power = np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)
    return np.float32(0.0) if is_zero else power


@exp.register(Double)
def _(precision, x):
    is_zero = x < -700.0
    x = max(x, -700.0)
    shifted = x * _LOG2_E + _MAGIC_DOUBLE
    k = shifted - _MAGIC_DOUBLE
    f = (x - k * _LN2_HIGH_DOUBLE) - k * _LN2_LOW_DOUBLE
    p = 2.4995209386255544e-08
    p = p * f + 2.7632282248650014e-07
    p = p * f + 2.7557619486486464e-06
    p = p * f + 2.4801486556165805e-05
    p = p * f + 0.00019841269436347083
    p = p * f + 0.0013888888951180548
    p = p * f + 0.008333333333557402
    p = p * f + 0.04166666666649304
    p = p * f + 0.16666666666666172
    p = p * f + 0.5000000000000018
    p = p * f + 1.0
    p = p * f + 1.0
    exponent = np.int64(np.float64(shifted).view(np.int64) << np.int64(52))
    power = np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
    return 0.0 if is_zero else power


# ---------------------------------------------------------------- the support vectors


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


@kernel
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


@kernel
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


@kernel
def choose_group(chosen, first, last):
    """Choose the rows first, first + 1, ..., and the last one as often as is needed."""
    for r in range(GROUP):
        chosen[r] = min(first + r, last)


@generic
def from_products(function, norm2, support, n, dots, out):
    """k(x, z_j) from the products x'z_j in `dots`, where |x|^2 = norm2. (In one array the loops would be scalar.)"""
    raise TypeError(f"not a kernel function: {function!r}; see maxmargin.kernels")


@from_products.register(RBF, fastmath=DENSE_MATH)
def _(function, norm2, support, n, dots, out):
    number = out.dtype.type
    minus_gamma, x2, zero, two = number(-function.gamma), number(norm2), number(0.0), number(2.0)
    for j in range(n):
        distance2 = max(zero, x2 + support.norms2[j] - two * dots[j])
        out[j] = exp(support.precision, minus_gamma * distance2)


@from_products.register(Linear)
def _(function, norm2, support, n, dots, out):
    for j in range(n):
        out[j] = dots[j]


@from_products.register(Polynomial, fastmath=DENSE_MATH)
def _(function, norm2, support, n, dots, out):
    number = out.dtype.type
    gamma, coef0 = number(function.gamma), number(function.coef0)
    for j in range(n):
        base = gamma * dots[j] + coef0
        power = base
        for _ in range(function.degree - 1):
            power *= base
        out[j] = power


@from_products.register(Sigmoid)
def _(function, norm2, support, n, dots, out):
    number = out.dtype.type
    for j in range(n):
        out[j] = number(np.tanh(function.gamma * dots[j] + function.coef0))


@generic
def with_itself(function, norm2):
    """k(x, x), where |x|^2 = norm2."""
    raise TypeError(f"not a kernel function: {function!r}; see maxmargin.kernels")


@with_itself.register(RBF)
def _(function, norm2):
    return 1.0


@with_itself.register(Linear)
def _(function, norm2):
    return norm2


@with_itself.register(Polynomial)
def _(function, norm2):
    return (function.gamma * norm2 + function.coef0) ** function.degree


@with_itself.register(Sigmoid)
def _(function, norm2):
    return np.tanh(function.gamma * norm2 + function.coef0)


@kernel
def kernel_row(function, rows, i, norm2, support, n, out):
    """k(x_i, z_j) for the first n support vectors, and for the places up to ``padded(n)``."""
    places = padded(n)
    dots = np.empty(places, out.dtype)
    products(rows, i, support.vectors, places, dots)
    from_products(function, norm2, support, places, dots, out)


@kernel(fastmath=DENSE_MATH)
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
    >>> from maxmargin.rows import view_rows
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


@kernel
def _matrix_block(function, rows, support, n, out, lo, hi):
    places, chosen = padded(n), np.empty(GROUP, np.int64)
    dots, values = np.empty((GROUP, places), out.dtype), np.empty(places, out.dtype)
    for first in range(lo, hi, GROUP):
        choose_group(chosen, first, hi - 1)
        products_of_group(rows, chosen, support.vectors, places, dots)
        for i in range(first, min(first + GROUP, hi)):
            from_products(function, row_norm2(rows, i), support, places, dots[i - first], values)
            out[i] = values[:n]


@kernel
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
