"""Penalties of w by name: their value, the bound that they put on a dual point, and their proximal operator.

A penalty is the square 1/2 |w|^2 ("l2") or a norm Omega(w): |w|_1 ("l1"), |w|_2 ("l2_norm"), max_j |w_j| ("linf").
The conjugate of a norm is zero where its dual norm Omega*(v) = max {v'w : Omega(w) <= 1} is at most one, and infinite
elsewhere: with such a penalty, a dual point alpha must keep v = sum_i alpha_i sign_i x_i in that ball.

    name       Omega             Omega*         what it does to w
    "l2"       (1/2 |w|^2)       -              shrinks all weights
    "l1"       sum_j |w_j|       max_j |v_j|    makes many weights exactly zero
    "l2_norm"  |w|_2             |v|_2          shrinks all weights, or makes w zero as a whole
    "linf"     max_j |w_j|       sum_j |v_j|    makes the largest weights equal: no feature counts alone

The proximal operator, prox(v, step) = argmin_w 1/2 |w - v|^2 + step R(w), is the second half of a step of `folos`
(Duchi, Singer: Efficient online and batch learning using forward backward splitting, JMLR 10, 2009, section 5). By
Moreau, that of a norm is v less its projection onto the ball of radius `step` of the dual norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NAMES = "l2", "l1", "l2_norm", "linf"
NORMS = "l1", "l2_norm", "linf"


def check(penalty: str) -> str:
    """The name itself, if there is such a penalty."""
    if penalty not in NAMES:
        raise ValueError(f"unknown penalty {penalty!r}; choose one of {', '.join(NAMES)}")
    return penalty


def is_norm(penalty: str) -> bool:
    """Whether the penalty is a norm, and not the square of one."""
    return penalty in NORMS


def value(penalty: str, w: Array) -> float:
    """R(w).

    Examples
    --------
    >>> [value(name, np.array([3.0, -4.0])) for name in NAMES]
    [12.5, 7.0, 5.0, 4.0]
    """
    match check(penalty):
        case "l2":
            return 0.5 * float(w @ w)
        case "l1":
            return float(np.abs(w).sum())
        case "l2_norm":
            return float(np.sqrt(w @ w))
    return float(np.abs(w).max(initial=0.0))


def dual_norm(penalty: str, v: Array) -> float:
    """Omega*(v) of a penalty that is a norm."""
    match check(penalty):
        case "l1":
            return float(np.abs(v).max(initial=0.0))
        case "l2_norm":
            return float(np.sqrt(v @ v))
        case "linf":
            return float(np.abs(v).sum())
    raise ValueError(f"penalty {penalty!r} is not a norm")


def infeasibility(penalty: str, v: Array) -> float:
    """What to divide a dual point by to make it feasible; 1 if it is, and always for a penalty that is no norm."""
    return max(1.0, dual_norm(penalty, v)) if is_norm(penalty) else 1.0


def conjugate_gap(penalty: str, w: Array, v: Array) -> float:
    """R(w) + R*(v) - w'v >= 0 for a feasible v: the penalty's share of a duality gap.

    Summed where that is possible from terms that are not negative, so that it is accurate near zero.
    """
    match check(penalty):
        case "l2":
            return 0.5 * float((w - v) @ (w - v))
        case "l1":
            return float(np.sum(np.abs(w) - w * v))
        case "l2_norm":
            length = float(np.sqrt(w @ w))
            if length == 0.0:
                return 0.0
            # With the unit vector e of w: |w| (1 - e'v) = |w| (|e - v|^2 + 1 - |v|^2) / 2.
            apart = w / length - v
            return 0.5 * length * (float(apart @ apart) + max(0.0, 1.0 - float(v @ v)))
    largest = float(np.abs(w).max(initial=0.0))
    # max|w| - w'v = max|w| (1 - sum_j |v_j|) + sum_j (max|w| |v_j| - w_j v_j).
    return largest * max(0.0, 1.0 - float(np.abs(v).sum())) + float(np.sum(largest * np.abs(v) - w * v))


def prox(penalty: str, v: Array, step: float) -> Array:
    """argmin_w 1/2 |w - v|^2 + step R(w).

    Examples
    --------
    >>> v = np.array([3.0, -4.0])
    >>> [prox(name, v, 1.0).tolist() for name in ("l2", "l1", "linf")]
    [[1.5, -2.0], [2.0, -3.0], [3.0, -3.0]]
    """
    match check(penalty):
        case "l2":
            return v / (1.0 + step)
        case "l1":
            return np.maximum(v - step, 0.0) + np.minimum(v + step, 0.0)
        case "l2_norm":
            length = float(np.sqrt(v @ v))
            return v * max(0.0, 1.0 - step / length) if length > 0.0 else v.copy()
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
