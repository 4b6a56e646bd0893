"""Proximal steps that wait: w is shrunk by a penalty in every step, but a step touches the nonzeros of one row only.

A step of forward-backward splitting adds a multiple of one row to w and then applies prox(w, eta) of the penalty
(`penalties.prox`), which changes every weight. Done as it is written, a step would cost the length of w. Here:

* "l2", 1/2 |w|^2: prox divides w by 1 + eta, which changes the scale of a `weights.ScaledVector` alone.
* "l2_norm", |w|_2: prox multiplies w by max(0, 1 - eta / |w|), the scale again; the scaled vector knows |w|.
* "l1": prox draws each weight eta nearer to zero. Thresholds of steps that leave a weight alone add up: one running
  total of the thresholds, and for each weight the total that was last applied to it, are all that is needed. They are
  applied to a weight when a row asks for it. (Langford, Li, Zhang: Sparse online learning via truncated gradient,
  JMLR 10, 2009; Duchi, Singer, JMLR 10, 2009, section 6.)
* "linf", the largest |w_j|: prox cuts the largest weights to a common size, that depends on all of them. It is not
  done weight by weight. Steps add up (`add_pending`) and are applied every so often (`apply_pending`), by a few walks
  over all weights; that is the exact prox of the sum, as if steps between had been one step.

`add_pending` and `apply_pending` serve all penalties: applied after every step they are forward-backward splitting,
every K steps the truncated gradient of Langford, Li and Zhang.

    x = lazy_weights(tag, w)
    for each step:                                       (in a kernel)
        z = proximal_dot(tag, rows, i, x)
        proximal_add(tag, rows, i, step, x, z, norms2[i])
        add_pending(x, eta)
        apply_pending(tag, x)
    w = applied(tag, x)                                  (what is pending is applied to the copy)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean, generic
from maxmargin.data.rows import CSR, Array, Dense, add_row, row_dot
from maxmargin.penalties import L1, L2, L2Norm, LInf, prox
from maxmargin.solvers.stochastic.weights import (
    ScaledVector,
    decay,
    dense,
    scaled_add,
    scaled_dot,
    scaled_norm2,
    scaled_vector,
)


class LazyWeights(NamedTuple):
    """Weights that are still to be shrunk."""

    w: ScaledVector
    threshold: Array  # an array of one number: the sum of the thresholds so far (l1)
    seen: Array  # how much of it was applied to each weight (l1; else empty)
    pending: Array  # an array of one number: the proximal steps that are not applied yet


def lazy_weights(penalty: Any, w: Array) -> LazyWeights:
    """A copy of w that can be shrunk cheaply."""
    seen = np.zeros(len(w) if isinstance(penalty, L1) else 0)
    return LazyWeights(scaled_vector(w), np.zeros(1), seen, np.zeros(1))


def applied(penalty: Any, x: LazyWeights) -> Array:
    """w as an array of its own, with all that is pending applied."""
    w, pending = dense(x.w), float(x.pending[0])
    if isinstance(penalty, L1):
        return prox(penalty, w, x.threshold[0] + pending - x.seen)
    return prox(penalty, w, pending) if pending > 0.0 else w


def _unknown(penalty: Any) -> TypeError:
    return TypeError(f"not a penalty: {penalty!r}; see maxmargin.penalties")


@compiled_lean
def add_pending(x, eta):
    """Put a proximal step aside."""
    x.pending[0] += eta


# ---------------------------------------------------------------- w'x_i and w += step x_i


@generic
def proximal_dot(penalty, rows, i, x):
    """w'x_i, with all thresholds applied to the weights that it is made of."""
    raise _unknown(penalty)


@proximal_dot.register(L2, L2Norm, LInf)
def _(penalty, rows, i, x):
    return scaled_dot(rows, i, x.w)


@proximal_dot.register(L1)
def _(penalty, rows, i, x):
    _shrink_row(rows, i, x.w.v, x.seen, x.threshold[0])
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
def apply_pending(penalty, x):
    """Shrink w by what is pending."""
    raise _unknown(penalty)


@apply_pending.register(L2)
def _(penalty, x):
    decay(x.w, 1.0 / (1.0 + x.pending[0]))
    x.pending[0] = 0.0


@apply_pending.register(L2Norm)
def _(penalty, x):
    norm2 = scaled_norm2(x.w)
    if norm2 > 0.0:
        decay(x.w, max(0.0, 1.0 - x.pending[0] / np.sqrt(norm2)))
    x.pending[0] = 0.0


@apply_pending.register(L1)
def _(penalty, x):
    x.threshold[0] += x.pending[0]
    x.pending[0] = 0.0


@apply_pending.register(LInf)
def _(penalty, x):
    limit = _limit(x.w.v, x.pending[0])
    for j in range(len(x.w.v)):
        x.w.v[j] = min(max(x.w.v[j], -limit), limit)
    x.pending[0] = 0.0


@compiled_lean
def _limit(w, pending):
    """The size that weights are cut to, sum_j max(0, |w_j| - limit) = pending, by Newton's method from below."""
    limit = 0.0
    while True:
        total, count = 0.0, 0
        for j in range(len(w)):
            size = abs(w[j])
            if size > limit:
                total += size
                count += 1
        higher = (total - pending) / count if count > 0 else 0.0
        if not higher > limit:
            return limit
        limit = higher


@generic
def _shrink_row(rows, i, w, seen, threshold):
    """Apply to the weights of a row the thresholds that they have not seen."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_shrink_row.register(Dense)
def _(rows, i, w, seen, threshold):
    for j in range(len(w)):
        _shrink_weight(w, seen, j, threshold)


@_shrink_row.register(CSR)
def _(rows, i, w, seen, threshold):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    for p in range(begin, end):
        _shrink_weight(w, seen, np.uint64(rows.indices[p]), threshold)
    if rows.bias != 0.0:
        _shrink_weight(w, seen, np.uint64(len(w) - 1), threshold)


@compiled_lean
def _shrink_weight(w, seen, j, threshold):
    unseen = threshold - seen[j]
    seen[j] = threshold
    w[j] = max(0.0, w[j] - unseen) + min(0.0, w[j] + unseen)
