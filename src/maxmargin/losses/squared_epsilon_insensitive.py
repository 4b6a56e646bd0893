"""The squared epsilon-insensitive loss."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.epsilon_insensitive import beyond_the_tube
from maxmargin.losses.functions import DualForm, Pieces, of_residuals


@of_residuals
class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon)^2: the L2-loss support vector regression.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(epsilon=1.0).value(3.0)
    4.0
    """

    epsilon: float = 0.1

    def value(self, t):
        return max(0.0, abs(t) - self.epsilon) ** 2

    def derivative(self, t):
        excess = 2.0 * max(0.0, abs(t) - self.epsilon)
        return excess if t > 0.0 else -excess

    def second_derivative(self, t):
        return 2.0 if abs(t) > self.epsilon else 0.0

    def pieces(self):
        return Pieces(2.0 * self.epsilon, 2.0, 2, (-self.epsilon, 0.0, -2.0), (self.epsilon, 0.0, 2.0))

    def dual_form(self):
        return DualForm(0.0, 0.5, self.epsilon, -np.inf, np.inf)

    def slack(self, t, alpha, cost):
        excess, alpha, wrong_side = beyond_the_tube(self, t, alpha)
        if excess > 0.0:
            return (cost * excess - 0.5 * alpha) ** 2 / cost + wrong_side
        return -alpha * excess + 0.25 * alpha * alpha / cost + wrong_side
