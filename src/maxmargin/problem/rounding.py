"""What rounding can do to a certificate: a bound on it, from norms that are at hand.

A certificate is computed in float64, with sums of products that are rounded. With the unit roundoff u = 2^-53 and rows
of k values (Higham: Accuracy and stability of numerical algorithms, 2002, section 3.1), the argument of a row's loss
is off by at most

    delta_i = u ((k + 4) |x_i| |w| + 4 (1 + |target_i|)),

so the sum of losses by  sum_i C_i |phi'| delta_i,  where |phi'| is bounded by the loss's largest slope or, since
phi'^2 <= 2 L phi for a loss of curvature L, by Cauchy and Schwarz:

    sum_i C_i |phi'(t_i)| delta_i <= sqrt(2 L sum_i C_i phi(t_i)) sqrt(sum_i C_i delta_i^2).

The slacks, whose sum is the gap, are off by at most twice as much. Sums of m numbers are off by m u of their size. And
v = sum_i alpha_i sign_i x_i is off by  |dv| <= m u sum_i |alpha_i| |x_i|,  which the gap's 1/2 |w - v|^2 knows of.

Risks other than a sum of losses (`risks.py`) are maxima over planes, sum_i p_i z_i + b, and any choice of p makes one.
With sum_i |p_i| |x_i| <= s sum_i C_i |x_i| and |b| <= sum_i C_i, outputs that are off by delta_i change the risk by at
most s sum_i C_i delta_i. The dual bound is that of a mean of planes, whose slope v is off by |dv| <= m u s sum_i C_i
|x_i|, and so off by |dv| |v| + 1/2 |dv|^2; |v| is at most |w| + sqrt(2 gap), as the gap is at least 1/2 |w - v|^2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maxmargin import losses, penalties
from maxmargin.data.rows import CSR, Array
from maxmargin.losses import Loss
from maxmargin.vectors import dot

_UNIT = 2.0**-53
_AT_ONCE = 1 << 15  # rows that are looked at together: what is computed of them stays in the processor's cache


class RowSums(NamedTuple):
    """Sums over rows that the bound is made of; they do not depend on w."""

    longest: int  # values of a row
    length: float  # sum_i C_i |x_i|
    length2: float  # sum_i C_i |x_i|^2
    offset: float  # sum_i C_i (1 + |target_i|)
    offset2: float  # sum_i C_i (1 + |target_i|)^2


def row_sums(problem: Any) -> RowSums:
    """The sums of a problem's rows."""
    total = np.zeros(4)
    is_margin = losses.is_margin_loss(problem.loss)
    for cost, norms2, y in pieces(problem.source, problem.cost, problem.norms2, problem.y):
        offset = np.ones(len(cost)) if is_margin else 1.0 + np.abs(y)
        total += dot(cost, np.sqrt(norms2)), dot(cost, norms2), dot(cost, offset), dot(cost, offset**2)
    return RowSums(_longest_row(problem.source), *map(float, total))


def pieces(source: Any, *vectors: Any) -> Iterator[tuple[Array, ...]]:
    """Parts of vectors with an entry for each row, which may be longer than memory."""
    for begin in range(0, len(vectors[0]), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(vectors[0]))
        yield tuple(np.asarray(vector[begin:end]) for vector in vectors)
        source.release(vectors, begin, end)


def _longest_row(source: Any) -> int:
    parts = getattr(source, "partitions", ())
    if parts and all(isinstance(part, CSR) for part in parts):
        return 1 + max((int(np.diff(part.indptr).max(initial=0)) for part in parts), default=0)
    return int(source.n_weights)


def rounding_error(problem: Any, sums: RowSums, w: Array, primal: float, gap: float, alpha: Array | None) -> float:
    """By how much the primal objective, or the dual bound, may be on the wrong side of the exact one.

    Parameters
    ----------
    problem : Problem
    sums : RowSums
    w : ndarray
    primal, gap : float
        As computed.
    alpha : ndarray or None
        The dual variables of the gap; None if they are those of w.
    """
    norm, gap, risk = math.sqrt(dot(w, w)), max(gap, 0.0), max(primal - problem.regularizer(w), 0.0)
    if not math.isfinite(norm + risk):
        return math.inf
    if norm == 0.0 and risk == 0.0:  # outputs of w = 0 are exact, and so are losses of zero
        return 0.0
    factor, slope = _UNIT * (sums.longest + 4), _largest_slope(problem.loss)
    in_losses = moved = math.inf  # the latter a bound of sum_i |alpha_i| |x_i|
    if slope < math.inf:
        in_losses = slope * (factor * norm * sums.length + 4.0 * _UNIT * sums.offset)
        moved = slope * sums.length
    if not isinstance(problem.loss, losses.WITH_KINK):
        L = losses.largest_curvature(problem.loss)
        delta2 = 2.0 * ((factor * norm) ** 2 * sums.length2 + (4.0 * _UNIT) ** 2 * sums.offset2)
        in_losses = min(in_losses, math.sqrt(2.0 * L * risk * delta2) + 0.5 * L * delta2)
        if alpha is None:
            moved = min(moved, math.sqrt(2.0 * L * risk * sums.length2))
    error = 3.0 * in_losses + 2.0 * _UNIT * (problem.n_rows + problem.n_weights + 8) * primal
    in_v = _error_of_v(problem, moved, norm, primal, gap)
    if alpha is not None and not in_v <= error:  # a look at each row is worth it
        parts = pieces(problem.source, alpha, problem.norms2)
        moved = min(moved, sum(float(dot(np.abs(a), np.sqrt(norms2))) for a, norms2 in parts))
        in_v = _error_of_v(problem, moved, norm, primal, gap)
    return error + in_v


def error_of_planes(problem: Any, sums: RowSums, w: Array, gap: float) -> float:
    """The same for a risk that is a maximum over planes."""
    risk = problem.risk
    norm, length = math.sqrt(dot(w, w)), risk.steepness(problem) * sums.length
    if not math.isfinite(norm):
        return math.inf
    if gap == 0.0 and not risk.is_nonnegative:  # one class around the origin: w = 0, which no gap is relative to
        return 0.0
    offsets = problem.total_cost if risk.is_nonnegative else 0.0
    size = length * norm + offsets  # of what is added up
    in_outputs = _UNIT * ((sums.longest + risk.n_outputs + 4) * length * norm + 4.0 * offsets)
    in_sums = 2.0 * _UNIT * (problem.n_rows + 8) * size + _UNIT * (problem.n_weights + 8) * norm * norm
    dv = _UNIT * (problem.n_rows + 2) * length
    return in_outputs + in_sums + dv * (norm + math.sqrt(2.0 * max(gap, 0.0))) + 0.5 * dv * dv


def _error_of_v(problem: Any, moved: float, norm: float, primal: float, gap: float) -> float:
    """What an error of v = sum_i alpha_i sign_i x_i, which is m u `moved`, does to the gap."""
    dv = _UNIT * (problem.n_rows + 2) * moved
    if penalties.is_norm(problem.penalty):  # a dual norm that exceeds 1 unseen, and w'v
        return min(1.0, dv) * max(primal - gap, 0.0) + dv * norm
    return dv * math.sqrt(2.0 * gap) + 0.5 * dv * dv


@functools.lru_cache(typed=True)  # losses without parameters are equal, but for their types
def _largest_slope(loss: Loss) -> float:
    if isinstance(loss, losses.UNBOUNDED_SLOPE):
        return math.inf
    if not isinstance(loss, losses.QUADRATIC_DUAL):
        return 1.0  # the logistic loss
    form = losses.dual_form(loss)
    return max(abs(form.lower), abs(form.upper))
