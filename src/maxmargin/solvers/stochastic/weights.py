"""Weights that stochastic methods change by a row at a time: a step costs the row's nonzeros, never the length of w.

A step of such a method multiplies all of w by a number (the decay that the penalty asks for), adds a multiple of one
row, and counts the result into an average. Done as it is written, each of the three touches every weight. Here:

* `ScaledVector`: w = scale x v. Decay changes the scale alone; adding c times a row to w adds c / scale to v. Before
  the scale underflows it is folded into v, which costs a walk over all weights once in a great many steps. |w|^2 is
  kept in step,

      |w + c x|^2 = |w|^2 + 2 c w'x + c^2 |x|^2,

  from w'x (that of w as it IS, scale included) and the row's own norm, and computed anew whenever the scale is folded.

* `Average`: sum_t mu_t w_t of the weights w_t after each step. With w_t = s_t v_t, and d_r added to v before step r,

      sum_t mu_t s_t v_t = A v - u,      A = sum_t mu_t s_t,      u = sum_r A_before(r) d_r,

  since d_r is in all of v but only in those v_t that came after it. A second sparse addition is all that it costs
  (Xu: Towards optimal one pass large scale learning with averaged stochastic gradient descent, arXiv:1107.2490, 2011).
  The difference loses digits where A is large beside the scale of now; v takes the scale over before that matters.

  An average can be restarted: its sum is then put aside as that of the window before. `average_of` is over the present
  window, together with the one before it while that one is the heavier of the two. Restarted at 1, 2, 3, 4, 6, 8, 12,
  16, ... (`is_milestone`) it is over the last fifth to the last half of all steps: the suffix average of Rakhlin,
  Shamir and Sridharan (Making gradient descent optimal for strongly convex stochastic optimization, ICML 2012), without
  a need to know beforehand when the run will end.

Both are NamedTuples of arrays that kernels change in place, so they can be saved, copied and passed on as any state.
What is kept is exact but for rounding: |w|^2 to about 1e-15 of the largest value that it has had since it was last
computed anew, decayed as w was. See the loop of `sgd` for their use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled, generic
from maxmargin.data.rows import CSR, Array, Dense, add_row, row_dot

_SMALLEST, _LARGEST = 2.0**-60, 2.0**60  # scales beyond which v takes them over
_DIGITS = 2.0**20  # of the 2^53 that an average may lose


class ScaledVector(NamedTuple):
    """w = scale x v, and |w|^2."""

    v: Array
    scale: Array  # an array of one number, as is
    norm2: Array  # |w|^2


class Average(NamedTuple):
    """sum_t mu_t w_t = A v - u of the present window, and the same sum of the window before."""

    u: Array
    before: Array  # the sum itself
    A: Array  # an array of one number, as are
    total: Array  # sum_t mu_t of this window
    total_before: Array  # and of the one before


# ---------------------------------------------------------------- between arrays and these


def scaled_vector(w: Array) -> ScaledVector:
    """A copy of w that can be changed cheaply."""
    v = np.array(w, dtype=np.float64)
    return ScaledVector(v, np.ones(1), np.array([v @ v]))


def new_average(n: int) -> Average:
    """An average of no weights yet, of n entries each."""
    return Average(np.zeros(n), np.zeros(n), np.zeros(1), np.zeros(1), np.zeros(1))


def dense(x: ScaledVector) -> Array:
    """w as an array of its own."""
    return x.scale[0] * x.v


def average_of(x: ScaledVector, average: Average) -> Array:
    """The mean of the w of this window, and of the one before if that is heavier; before the first, w as it is."""
    A, total, total_before = average.A[0], average.total[0], average.total_before[0]
    if total + total_before == 0.0:
        return dense(x)
    weighted = A * x.v - average.u
    if total < total_before:
        weighted += average.before
        total += total_before
    return weighted / total


def copied(part: Any) -> Any:
    """A NamedTuple of copies of the arrays of another."""
    return type(part)(*(array.copy() for array in part))


def is_milestone(n: int) -> bool:
    """Whether n is one of 1, 2, 3, 4, 6, 8, 12, 16, ...: a power of two, or three times one.

    Examples
    --------
    >>> [n for n in range(1, 50) if is_milestone(n)]
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]
    """
    n = n // 3 if n % 3 == 0 else n
    return n & (n - 1) == 0


def widened(array: Array, n: int, *, keep_last: bool = False) -> Array:
    """The array with zeros appended, n entries in all; with `keep_last` its last entry (an intercept's) stays last."""
    if n < len(array):
        raise ValueError(f"cannot make {len(array)} weights fewer: {n} were asked for")
    head = len(array) - 1 if keep_last and len(array) else len(array)
    wide = np.zeros(n)
    wide[:head] = array[:head]
    wide[n - (len(array) - head) :] = array[head:]
    return wide


def widened_vector(x: ScaledVector, n: int, *, keep_last: bool = False) -> ScaledVector:
    """The same w for n weights, the new ones zero; see `widened`."""
    return copied(x)._replace(v=widened(x.v, n, keep_last=keep_last))


def widened_average(average: Average, n: int, *, keep_last: bool = False) -> Average:
    """The same average for n weights, the new ones zero; see `widened`."""
    u, before = (widened(array, n, keep_last=keep_last) for array in (average.u, average.before))
    return copied(average)._replace(u=u, before=before)


# ---------------------------------------------------------------- in kernels: w


@compiled
def scaled_dot(rows, i, x):
    """w'x_i."""
    return x.scale[0] * row_dot(rows, i, x.v)


@compiled
def scaled_norm2(x):
    """|w|^2."""
    return x.norm2[0]


@compiled
def scaled_add(rows, i, step, x, dot, norm2):
    """w += step x_i, given w'x_i as it is before, and |x_i|^2."""
    add_row(rows, i, step / x.scale[0], x.v)
    x.norm2[0] = max(0.0, x.norm2[0] + step * (2.0 * dot + step * norm2))


@compiled
def decay(x, factor):
    """w *= factor, zero or more."""
    scale = x.scale[0] * factor
    x.scale[0] = scale
    x.norm2[0] *= factor * factor
    if not _SMALLEST <= scale <= _LARGEST:
        fold(x)


@compiled
def fold(x):
    """v = w, scale = 1: a walk over all weights. An average has to be detached before."""
    scale, norm2 = x.scale[0], 0.0
    for j in range(len(x.v)):
        value = scale * x.v[j]
        x.v[j] = value
        norm2 += value * value
    x.scale[0], x.norm2[0] = 1.0, norm2


@compiled
def add_vector(x, step, g):
    """w += step g, for a vector g of all weights; |w|^2 is computed anew."""
    scale, norm2 = x.scale[0], 0.0
    factor = step / scale
    for j in range(len(g)):
        value = x.v[j] + factor * g[j]
        x.v[j] = value
        norm2 += value * value
    x.norm2[0] = scale * scale * norm2


# ---------------------------------------------------------------- in kernels: the average


@compiled
def averaged_add(rows, i, step, x, average, dot, norm2):
    """`scaled_add` for a w that is being averaged."""
    change = step / x.scale[0]
    if average.A[0] != 0.0:
        add_row_to_both(rows, i, change, x.v, average.A[0] * change, average.u)
    else:
        add_row(rows, i, change, x.v)
    x.norm2[0] = max(0.0, x.norm2[0] + step * (2.0 * dot + step * norm2))


@generic
def add_row_to_both(rows, i, a, v, b, u):
    """Add a times row i to v and b times row i to u, in one walk."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@add_row_to_both.register(Dense)
def _(rows, i, a, v, b, u):
    add_row(rows, i, a, v)
    add_row(rows, i, b, u)


@add_row_to_both.register(CSR)
def _(rows, i, a, v, b, u):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    for p in range(begin, end):
        j = np.uint64(rows.indices[p])
        v[j] += a * rows.data[p]
        u[j] += b * rows.data[p]
    v[len(v) - 1] += a * rows.bias
    u[len(u) - 1] += b * rows.bias


@compiled
def averaged_add_vector(x, average, step, g):
    """`add_vector` for a w that is being averaged."""
    factor = step / x.scale[0] * average.A[0]
    for j in range(len(g)):
        average.u[j] += factor * g[j]
    add_vector(x, step, g)


@compiled
def averaged_decay(x, average, factor):
    """`decay` for a w that is being averaged."""
    scale = x.scale[0] * factor
    if not _SMALLEST <= scale <= _LARGEST or average.A[0] > _DIGITS * scale * average.total[0]:
        detach(x, average)
        x.scale[0] = scale
        fold(x)
    else:
        x.scale[0] = scale
        x.norm2[0] *= factor * factor


@compiled
def detach(x, average):
    """u = minus the sum, A = 0: the sum no longer depends on what v is, and v may be changed at will."""
    A = average.A[0]
    for j in range(len(x.v)):
        average.u[j] -= A * x.v[j]
    average.A[0] = 0.0


@compiled
def include(x, average, mu):
    """Count the present w into the average, with weight mu."""
    average.A[0] += mu * x.scale[0]
    average.total[0] += mu


@compiled
def restart(x, average):
    """Begin a new window; that which ends here becomes the one before."""
    A = average.A[0]
    for j in range(len(x.v)):
        average.before[j] = A * x.v[j] - average.u[j]
        average.u[j] = 0.0
    average.total_before[0] = average.total[0]
    average.A[0], average.total[0] = 0.0, 0.0
