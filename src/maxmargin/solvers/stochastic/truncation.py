"""Steps along a subgradient that do not shoot over the target, for all stochastic methods."""

from __future__ import annotations

from maxmargin._jit import compiled
from maxmargin.losses import derivative, value


@compiled
def truncated_slope(loss, t, rate, norm2):
    """u = -phi'(t), or as much of it as makes a step rate u x end twice as far as where the tangent of phi is zero."""
    slope = derivative(loss, t)
    if slope == 0.0:
        return 0.0
    left, change = 2.0 * value(loss, t), rate * slope * slope * norm2
    return -slope * (left / change) if change > left else -slope
