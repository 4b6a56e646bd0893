"""The squared epsilon-insensitive loss."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.epsilon_insensitive import beyond_the_tube
from maxmargin.losses.functions import (
    DualForm,
    Pieces,
    derivative,
    dual_form,
    of_residuals,
    pieces,
    second_derivative,
    slack,
    value,
)


@of_residuals
class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon)^2: the L2-loss support vector regression.

    Examples
    --------
    >>> value(SquaredEpsilonInsensitive(epsilon=1.0), 3.0)
    4.0
    """

    epsilon: float = 0.1


@value.register(SquaredEpsilonInsensitive)
def _(loss, t):
    return max(0.0, abs(t) - loss.epsilon) ** 2


@derivative.register(SquaredEpsilonInsensitive)
def _(loss, t):
    excess = 2.0 * max(0.0, abs(t) - loss.epsilon)
    return excess if t > 0.0 else -excess


@second_derivative.register(SquaredEpsilonInsensitive)
def _(loss, t):
    return 2.0 if abs(t) > loss.epsilon else 0.0


@pieces.register(SquaredEpsilonInsensitive)
def _(loss):
    return Pieces(2.0 * loss.epsilon, 2.0, 2, (-loss.epsilon, 0.0, -2.0), (loss.epsilon, 0.0, 2.0))


@dual_form.register(SquaredEpsilonInsensitive)
def _(loss):
    return DualForm(0.0, 0.5, loss.epsilon, -np.inf, np.inf)


@slack.register(SquaredEpsilonInsensitive)
def _(loss, t, alpha, cost):
    excess, alpha, wrong_side = beyond_the_tube(loss, t, alpha)
    if excess > 0.0:
        return (cost * excess - 0.5 * alpha) ** 2 / cost + wrong_side
    return -alpha * excess + 0.25 * alpha * alpha / cost + wrong_side
