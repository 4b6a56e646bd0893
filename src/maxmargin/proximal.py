"""Proximal steps that wait: w is shrunk by a penalty in every step, but a step touches the nonzeros of one row only.

A step of forward-backward splitting adds a multiple of one row to w and then applies prox(w, eta) of the penalty
(`penalties.prox`), which changes every weight. Done as it is written, a step would cost the length of w. Here:

* "l2", 1/2 |w|^2: prox divides w by 1 + eta, which changes the scale of a `weights.ScaledVector` alone.
* "l2_norm", |w|_2: prox multiplies w by max(0, 1 - eta / |w|), the scale again; the scaled vector knows |w|.
* "l1": prox draws each weight eta nearer to zero. Thresholds of steps that leave a weight alone add up: one running
  total of the thresholds, and for each weight the total at which it was last settled, are all that is needed. A weight
  is settled when a row asks for it. (Langford, Li, Zhang: Sparse online learning via truncated gradient, JMLR 10, 2009;
  Duchi, Singer, JMLR 10, 2009, section 6.)
* "linf", the largest |w_j|: prox cuts the largest weights to a common size, that depends on all of them. It is not
  done weight by weight. What steps add up to is put aside (`owe`) and applied every so many steps (`pay`), by a few
  walks over all weights; that is the exact prox of the sum, as if steps between had been one step.

`owe` and `pay` serve all penalties: to pay after every step is forward-backward splitting, to pay every K steps is the
truncated gradient of Langford, Li and Zhang.

    x = lazy(w)
    for each step:                                       (in a kernel)
        z = proximal_dot(tag, rows, i, x)
        proximal_add(tag, rows, i, step, x, z, norms2[i])
        owe(x, eta)
        pay(tag, x)
    w = settled(tag, x)                                  (what is owed is paid in the copy)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import generic, lean_kernel
from maxmargin.penalties import prox
from maxmargin.rows import CSR, Array, Dense, add_row, row_dot
from maxmargin.weights import ScaledVector, decay, dense, scaled_add, scaled_dot, scaled_norm2, scaled_vector

_TOTAL, _OWED = range(2)


class L2(NamedTuple):
    """1/2 |w|^2."""


class L1(NamedTuple):
    """sum_j |w_j|."""


class L2Norm(NamedTuple):
    """|w|_2."""


class LInf(NamedTuple):
    """max_j |w_j|."""


TAGS: dict[str, Any] = {"l2": L2(), "l1": L1(), "l2_norm": L2Norm(), "linf": LInf()}
_NAMES = {type(tag): name for name, tag in TAGS.items()}


class Lazy(NamedTuple):
    """Weights that are still to be shrunk."""

    w: ScaledVector
    seen: Array  # the total of thresholds at which each weight was last settled (l1; else empty)
    numbers: Array  # that total now; what is owed


def lazy(penalty: Any, w: Array) -> Lazy:
    """A copy of w that can be shrunk cheaply."""
    return Lazy(scaled_vector(w), np.zeros(len(w) if isinstance(penalty, L1) else 0), np.zeros(2))


def settled(penalty: Any, x: Lazy) -> Array:
    """w as an array of its own, with all that is owed paid."""
    w, owed = dense(x.w), float(x.numbers[_OWED])
    if isinstance(penalty, L1):
        threshold = x.numbers[_TOTAL] + owed - x.seen
        return np.maximum(w - threshold, 0.0) + np.minimum(w + threshold, 0.0)
    return prox(_NAMES[type(penalty)], w, owed) if owed > 0.0 else w


def _unknown(penalty: Any) -> TypeError:
    return TypeError(f"not a penalty: {penalty!r}; see maxmargin.proximal")


@lean_kernel
def owe(x, eta):
    """Put a proximal step aside."""
    x.numbers[_OWED] += eta


# ---------------------------------------------------------------- w'x_i and w += step x_i


@generic
def proximal_dot(penalty, rows, i, x):
    """w'x_i; the weights that it is made of are settled."""
    raise _unknown(penalty)


@proximal_dot.register(L2, L2Norm, LInf)
def _(penalty, rows, i, x):
    return scaled_dot(rows, i, x.w)


@proximal_dot.register(L1)
def _(penalty, rows, i, x):
    _settle_row(rows, i, x.w.v, x.seen, x.numbers[_TOTAL])
    return row_dot(rows, i, x.w.v)


@generic
def proximal_add(penalty, rows, i, step, x, dot, norm2):
    """w += step x_i, given w'x_i as `proximal_dot` has just found it, and |x_i|^2."""
    raise _unknown(penalty)


@proximal_add.register(L2, L2Norm, LInf)
def _(penalty, rows, i, step, x, dot, norm2):
    scaled_add(rows, i, step, x.w, dot, norm2)


@proximal_add.register(L1)
def _(penalty, rows, i, step, x, dot, norm2):
    add_row(rows, i, step, x.w.v)


# ---------------------------------------------------------------- prox


@generic
def pay(penalty, x):
    """Shrink w by what is owed."""
    raise _unknown(penalty)


@pay.register(L2)
def _(penalty, x):
    decay(x.w, 1.0 / (1.0 + x.numbers[_OWED]))
    x.numbers[_OWED] = 0.0


@pay.register(L2Norm)
def _(penalty, x):
    owed, norm2 = x.numbers[_OWED], scaled_norm2(x.w)
    if norm2 > 0.0:
        decay(x.w, max(0.0, 1.0 - owed / np.sqrt(norm2)))
    x.numbers[_OWED] = 0.0


@pay.register(L1)
def _(penalty, x):
    x.numbers[_TOTAL] += x.numbers[_OWED]
    x.numbers[_OWED] = 0.0


@pay.register(LInf)
def _(penalty, x):
    limit = _limit(x.w.v, x.numbers[_OWED])
    for j in range(len(x.w.v)):
        x.w.v[j] = min(max(x.w.v[j], -limit), limit)
    x.numbers[_OWED] = 0.0


@lean_kernel
def _limit(w, owed):
    """The size that weights are cut to, sum_j max(0, |w_j| - limit) = owed; Newton's method from below ends exactly."""
    limit = 0.0
    while True:
        total, count = 0.0, 0
        for j in range(len(w)):
            size = abs(w[j])
            if size > limit:
                total += size
                count += 1
        higher = (total - owed) / count if count > 0 else 0.0
        if not higher > limit:
            return limit
        limit = higher


@generic
def _settle_row(rows, i, w, seen, total):
    """Apply to the weights of a row the thresholds that they have not seen."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_settle_row.register(Dense)
def _(rows, i, w, seen, total):
    for j in range(len(w)):
        _settle_weight(w, seen, j, total)


@_settle_row.register(CSR)
def _(rows, i, w, seen, total):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    for p in range(begin, end):
        _settle_weight(w, seen, np.uint64(rows.indices[p]), total)
    if rows.bias != 0.0:
        _settle_weight(w, seen, np.uint64(len(w) - 1), total)


@lean_kernel
def _settle_weight(w, seen, j, total):
    threshold = total - seen[j]
    seen[j] = total
    w[j] = max(0.0, w[j] - threshold) + min(0.0, w[j] + threshold)
