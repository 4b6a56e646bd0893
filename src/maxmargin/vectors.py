"""Sums over vectors as long as w, and the search for the least value along a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from maxmargin._jit import compiled

if TYPE_CHECKING:
    from maxmargin.data.rows import Array


@compiled
def dot(a, b):
    """Inner product. That of BLAS wakes its threads for long vectors, which takes longer than the sum."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


def norm(v: Array) -> float:
    """Length of a vector."""
    return math.sqrt(dot(v, v))


def best_step(slope: Callable[[float], tuple[float, float]], slope_at_0: float) -> float:
    """Where a convex function is least along a line, to a tenth of its slope: Newton's method, kept in an interval.

    ``slope(step)`` gives its first and second derivative. The full step is tried first.
    """
    step, low, high = 1.0, 0.0, math.inf
    for _ in range(100):
        first, second = slope(step)
        if abs(first) <= 0.1 * abs(slope_at_0):
            break
        if first > 0.0:
            high = step
        else:
            low = step
        step -= first / second if second > 0.0 else math.inf
        if not low < step < high:
            step = 0.5 * (low + high) if high < math.inf else 2.0 * low
        elif high == math.inf:
            step = min(step, 10.0 * low)
    return step
