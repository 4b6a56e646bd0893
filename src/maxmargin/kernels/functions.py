"""Kernel functions k(x, z) as NamedTuple tags, and their values from inner products.

`RBF(gamma)`, `Linear()`, `Polynomial(degree, gamma, coef0)` and `Sigmoid(gamma, coef0)` have the meaning that they have
in LIBSVM and scikit-learn. All of them are functions of x'z, |x|^2 and |z|^2, so a row of values is one sweep of
products and one sweep of `from_products`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, generic
from maxmargin._names import unknown
from maxmargin.kernels.exponential import exp


class RBF(NamedTuple):
    """exp(-gamma |x - z|^2).

    Examples
    --------
    >>> from maxmargin import kernels
    >>> kernels.get("rbf", gamma=0.5)
    RBF(gamma=0.5)
    """

    gamma: float = 1.0


class Linear(NamedTuple):
    """x'z.

    Examples
    --------
    >>> Linear()
    Linear()
    """


class Polynomial(NamedTuple):
    """(gamma x'z + coef0)^degree.

    Examples
    --------
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)
    Polynomial(degree=2, gamma=1.0, coef0=1.0)
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0


class Sigmoid(NamedTuple):
    """tanh(gamma x'z + coef0), which is no inner product for most parameters.

    Examples
    --------
    >>> Sigmoid(gamma=0.1, coef0=0.0)
    Sigmoid(gamma=0.1, coef0=0.0)
    """

    gamma: float = 1.0
    coef0: float = 0.0


Kernel = Any  # one of the tags above

TAGS = (RBF, Linear, Polynomial, Sigmoid)
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
            raise unknown("kernel", function, names())
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


def is_positive(function: Kernel) -> bool:
    """Whether a kernel is known to be positive semi-definite: not what is no tag.

    Examples
    --------
    >>> is_positive(RBF(0.5)), is_positive(Sigmoid(0.1, 0.0))
    (True, False)
    """
    return isinstance(function, (RBF, Linear)) or (isinstance(function, Polynomial) and function.coef0 >= 0.0)


_SINGLE_ERROR = 1e-3  # of a kernel value's logarithm that float32 may cause before float64 is used


def precision_for(function: Kernel, largest_norm2: float) -> type[np.floating]:
    """float32 where its error in kernel values of rows up to this squared length stays below 1e-3, else float64."""
    scale = getattr(function, "gamma", 1.0) * getattr(function, "degree", 1)
    return np.float32 if 2.0**-23 * scale * largest_norm2 <= _SINGLE_ERROR else np.float64


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
