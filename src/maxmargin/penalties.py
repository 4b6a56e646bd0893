"""Penalties of w as small objects: their value, the bound that they put on a dual point, and their proximal operator.

A penalty is the square 1/2 |w|^2 (`L2`) or a norm Omega(w). The conjugate of a norm is zero where its dual norm
Omega*(v) = max {v'w : Omega(w) <= 1} is at most one, and infinite elsewhere: with such a penalty, a dual point alpha
must keep v = sum_i alpha_i sign_i x_i in that ball.

    name       tag        Omega             Omega*         what it does to w
    "l2"       `L2`       (1/2 |w|^2)       -              shrinks all weights
    "l1"       `L1`       sum_j |w_j|       max_j |v_j|    makes many weights exactly zero
    "l2_norm"  `L2Norm`   |w|_2             |v|_2          shrinks all weights, or makes w zero as a whole
    "linf"     `LInf`     max_j |w_j|       sum_j |v_j|    makes the largest weights equal: no feature counts alone

The proximal operator, prox(v, step) = argmin_w 1/2 |w - v|^2 + step R(w), is the second half of a step of `folos`
(Duchi, Singer: Efficient online and batch learning using forward backward splitting, JMLR 10, 2009, section 5). By
Moreau, that of a norm is v less its projection onto the ball of radius `step` of the dual norm.

A new penalty is a tag in `_BY_NAME` and an implementation of each function below; one that is missing is an error.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from maxmargin._names import unknown
from maxmargin.vectors import dot, norm

Array = np.ndarray[Any, Any]


class L2(NamedTuple):
    """1/2 |w|^2."""


class L1(NamedTuple):
    """sum_j |w_j|."""


class L2Norm(NamedTuple):
    """|w|_2."""


class LInf(NamedTuple):
    """max_j |w_j|."""


Penalty = L2 | L1 | L2Norm | LInf
ALL = (L2, L1, L2Norm, LInf)
NORMS = (L1, L2Norm, LInf)
_BY_NAME: dict[str, type] = {"l2": L2, "l1": L1, "l2_norm": L2Norm, "linf": LInf}


def names() -> list[str]:
    """Names of all penalties.

    Examples
    --------
    >>> names()
    ['l2', 'l1', 'l2_norm', 'linf']
    """
    return list(_BY_NAME)


def name_of(penalty: Penalty) -> str:
    """Name of a penalty object."""
    return next(name for name, tag in _BY_NAME.items() if type(penalty) is tag)


def get(penalty: str | Penalty) -> Penalty:
    """The penalty of this name; a penalty object is returned as it is.

    Examples
    --------
    >>> get("l1")
    L1()
    """
    if isinstance(penalty, ALL):
        return penalty
    if not isinstance(penalty, str) or penalty not in _BY_NAME:
        raise unknown("penalty", penalty, names())
    return _BY_NAME[penalty]()


def is_norm(penalty: Penalty) -> bool:
    """Whether the penalty is a norm, and not the square of one."""
    return isinstance(penalty, NORMS)


def _unknown(penalty: Any) -> TypeError:
    return TypeError(f"not a penalty: {penalty!r}; see maxmargin.penalties")


# ---------------------------------------------------------------- R(w)


@singledispatch
def value(penalty: Any, w: Array) -> float:
    """R(w).

    Examples
    --------
    >>> [value(get(name), np.array([3.0, -4.0])) for name in names()]
    [12.5, 7.0, 5.0, 4.0]
    """
    raise _unknown(penalty)


@value.register
def _(penalty: L2, w: Array) -> float:
    return 0.5 * float(dot(w, w))


@value.register
def _(penalty: L1, w: Array) -> float:
    return float(np.abs(w).sum())


@value.register
def _(penalty: L2Norm, w: Array) -> float:
    return float(norm(w))


@value.register
def _(penalty: LInf, w: Array) -> float:
    return float(np.abs(w).max(initial=0.0))


# ---------------------------------------------------------------- the dual ball


@singledispatch
def dual_norm(penalty: Any, v: Array) -> float:
    """Omega*(v) of a penalty that is a norm."""
    raise _unknown(penalty)


@dual_norm.register
def _(penalty: L2, v: Array) -> float:
    raise ValueError("penalty 'l2' is not a norm")


@dual_norm.register
def _(penalty: L1, v: Array) -> float:
    return float(np.abs(v).max(initial=0.0))


@dual_norm.register
def _(penalty: L2Norm, v: Array) -> float:
    return float(norm(v))


@dual_norm.register
def _(penalty: LInf, v: Array) -> float:
    return float(np.abs(v).sum())


def infeasibility(penalty: Penalty, v: Array) -> float:
    """What to divide a dual point by to make it feasible; 1 if it is, and always for a penalty that is no norm."""
    return max(1.0, dual_norm(penalty, v)) if is_norm(penalty) else 1.0


# ---------------------------------------------------------------- R(w) + R*(v) - w'v


@singledispatch
def conjugate_gap(penalty: Any, w: Array, v: Array) -> float:
    """R(w) + R*(v) - w'v >= 0 for a feasible v: the penalty's share of a duality gap.

    Summed where that is possible from terms that are not negative, so that it is accurate near zero.
    """
    raise _unknown(penalty)


@conjugate_gap.register
def _(penalty: L2, w: Array, v: Array) -> float:
    return 0.5 * float((w - v) @ (w - v))


@conjugate_gap.register
def _(penalty: L1, w: Array, v: Array) -> float:
    return float(np.sum(np.abs(w) - w * v))


@conjugate_gap.register
def _(penalty: L2Norm, w: Array, v: Array) -> float:
    length = float(norm(w))
    if length == 0.0:
        return 0.0
    # With the unit vector e of w: |w| (1 - e'v) = |w| (|e - v|^2 + 1 - |v|^2) / 2.
    apart = w / length - v
    return 0.5 * length * (float(apart @ apart) + max(0.0, 1.0 - float(v @ v)))


@conjugate_gap.register
def _(penalty: LInf, w: Array, v: Array) -> float:
    largest = float(np.abs(w).max(initial=0.0))
    # max|w| - w'v = max|w| (1 - sum_j |v_j|) + sum_j (max|w| |v_j| - w_j v_j).
    return largest * max(0.0, 1.0 - float(np.abs(v).sum())) + float(np.sum(largest * np.abs(v) - w * v))


# ---------------------------------------------------------------- prox


@singledispatch
def prox(penalty: Any, v: Array, step: float) -> Array:
    """argmin_w 1/2 |w - v|^2 + step R(w).

    Examples
    --------
    >>> v = np.array([3.0, -4.0])
    >>> [prox(get(name), v, 1.0).tolist() for name in ("l2", "l1", "linf")]
    [[1.5, -2.0], [2.0, -3.0], [3.0, -3.0]]
    """
    raise _unknown(penalty)


@prox.register
def _(penalty: L2, v: Array, step: float) -> Array:
    return v / (1.0 + step)


@prox.register
def _(penalty: L1, v: Array, step: float) -> Array:
    return np.maximum(v - step, 0.0) + np.minimum(v + step, 0.0)


@prox.register
def _(penalty: L2Norm, v: Array, step: float) -> Array:
    length = float(norm(v))
    if length > step:
        return v * (1.0 - step / length)
    return v.copy() if step == 0.0 else np.zeros_like(v)


@prox.register
def _(penalty: LInf, v: Array, step: float) -> Array:
    limit = linf_limit(np.abs(v), step)
    return np.clip(v, -limit, limit)


def linf_limit(sizes: Array, step: float) -> float:
    """To which size the largest weights are cut: sum_j max(0, sizes_j - limit) = step; zero if they have less in all.

    That is the projection onto the L1 ball (Duchi, Shalev-Shwartz, Singer, Chandra, ICML 2008), by sorting.
    """
    if step <= 0.0:
        return float(sizes.max(initial=0.0))
    if float(sizes.sum()) <= step:
        return 0.0
    descending = np.sort(sizes)[::-1]
    limits = (np.cumsum(descending) - step) / np.arange(1, len(sizes) + 1)
    # The limit if the k largest are cut; right for the last k whose own size is above it.
    n_cut = max(1, int(np.count_nonzero(descending > limits)))
    return max(0.0, float(limits[n_cut - 1]))
