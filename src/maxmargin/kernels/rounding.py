"""How far computed kernel values may be from the true ones: bounds that hold, whatever the order of the sums.

float32, of the RBF kernel
--------------------------
Let u = 2^-24 be the unit roundoff, m the number of terms of an inner product, and x, z two rows (centred, if they are).

    rows rounded to float32, m products, m - 1 sums in any order     |dot - x'z| <= (m + 4) u |x| |z|
    squared lengths rounded, two sums of numbers up to (|x| + |z|)^2                3 u (|x| + |z|)^2
    gamma rounded, one product                                                      2 u (|x| + |z|)^2,  times gamma

so that the exponent of k is wrong by at most a = u gamma (|x| + |z|)^2 (m/2 + 8), as 2 |x| |z| <= (|x| + |z|)^2 / 2;
terms of second order are covered by what the constants are rounded up by. With the exponential's own error (below
2e-7, `exponential`), k is wrong by at most (e^a - 1 + 3e-7) times itself, and so is a sum of positive multiples of
such values. (Sums are float64, but for those of at most 64 rows by `active_rows`, which add 16 u.) Values below 2e-34
are made zero, which is not counted: beside targets and intercepts it is nothing in float64, too.

float64, of all kernels
-----------------------
Now u = 2^-53. Each kernel has sizes s_i with |k(x_i, x_j)| <= s_i s_j, and a computed value is wrong by at most
s_i s_j (e_i + e_j), so that what rounding does to a sum of many values follows from one number a row (`Digits`):

    linear        s = |x|                             x'z is off by m u |x| |z|
    polynomial    s = (gamma |x|^2 + |c|)^(d/2)       gamma x'z + c is off by (m + 2) u (gamma |x| |z| + |c|), its power
                                                      by d times that share; then Cauchy and Schwarz
    sigmoid       s = (gamma |x|^2 + |c| + 1)^(1/2)   the same; the slope of tanh is at most 1
    RBF           s = 1                               a as above, and (|x| + |z|)^2 <= 2 |x|^2 + 2 |z|^2,
                                                      e^a - 1 <= 1.72 a if a <= 1; no value is wrong by more than 1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels.functions import RBF, Kernel, Linear, Polynomial, Sigmoid

_UNIT = 2.0**-24
UNIT_DOUBLE = 2.0**-53
KEPT_IN_SINGLE = 20 * _UNIT  # relative error where only kept values, coefficients and sums of 64 rows are float32
_EXPONENTIAL = 3e-7


def relative_error(gamma: float, norms2: Array, largest_norm2: float, n_terms: int | Array) -> Array:
    """Bound, for each of some rows, of the relative error of its RBF values in float32.

    Parameters
    ----------
    gamma : float
    norms2 : ndarray
        Squared lengths of these rows.
    largest_norm2 : float
        The largest squared length of the rows that they meet.
    n_terms : int or ndarray
        Number of terms of an inner product with such a row.

    Examples
    --------
    >>> bool(relative_error(0.5, np.array([1.0]), 1.0, 20)[0] < 1e-5)
    True
    """
    reach2 = (np.sqrt(norms2) + np.sqrt(largest_norm2)) ** 2
    return 1.0001 * np.expm1(_UNIT * gamma * reach2 * (0.5 * np.asarray(n_terms) + 8.0)) + _EXPONENTIAL + KEPT_IN_SINGLE


class Digits(NamedTuple):
    """How large kernel values of some rows are, and how wrong in float64; see the head of this file."""

    size: Array
    error: Array

    def of(self, rows: Array) -> Digits:
        """Those of some of the rows."""
        return Digits(self.size[rows], self.error[rows])


def digits_in_double(function: Kernel, norms2: Array, n_terms: int) -> Digits:
    """Sizes and errors of the kernel values of rows.

    Parameters
    ----------
    function : Kernel
    norms2 : ndarray
        Squared lengths of the rows.
    n_terms : int
        Number of terms of an inner product, at most.

    Examples
    --------
    >>> digits_in_double(Linear(), np.array([9.0]), 10).size
    array([3.])
    """
    n, half = len(norms2), 0.5 * UNIT_DOUBLE * (n_terms + 10)
    if isinstance(function, RBF):
        share = 3.5 * UNIT_DOUBLE * function.gamma * (0.5 * n_terms + 8.0) * norms2
        return Digits(np.ones(n), np.minimum(1.0, share) + 3e-16)  # and the exponential's own error
    if isinstance(function, Linear):
        return Digits(np.sqrt(norms2), np.full(n, half))
    if not isinstance(function, Polynomial | Sigmoid):
        raise TypeError(f"how many digits have the values of {function!r}? Add them to maxmargin.kernels.rounding")
    inner = function.gamma * norms2 + abs(function.coef0)
    if isinstance(function, Polynomial):
        return Digits(inner ** (0.5 * function.degree), np.full(n, function.degree * half))
    return Digits(np.sqrt(inner + 1.0), np.full(n, half))
