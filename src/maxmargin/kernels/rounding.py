"""How far float32 may be from the RBF kernel's true values: a bound that holds, whatever the order of the sums.

Let u = 2^-24 be the unit roundoff, m the number of terms of an inner product, and x, z two rows (centred, if they are).

    rows rounded to float32, m products, m - 1 sums in any order     |dot - x'z| <= (m + 4) u |x| |z|
    squared lengths rounded, two sums of numbers up to (|x| + |z|)^2                3 u (|x| + |z|)^2
    gamma rounded, one product                                                      2 u (|x| + |z|)^2,  times gamma

so that the exponent of k is wrong by at most a = u gamma (|x| + |z|)^2 (m/2 + 8), as 2 |x| |z| <= (|x| + |z|)^2 / 2;
terms of second order are covered by what the constants are rounded up by. With the exponential's own error (below
2e-7, `exponential`), k is wrong by at most (e^a - 1 + 3e-7) times itself, and so is a sum of positive multiples of
such values. (Sums are float64, but for those of at most 64 rows by `active_rows`, which add 16 u.) Values below 2e-34
are made zero, which is not counted: beside targets and intercepts it is nothing in float64, too.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array

_UNIT = 2.0**-24
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
