"""The squared hinge loss."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.functions import NO_KINK, DualForm, Pieces, of_margins


@of_margins
class SquaredHinge(NamedTuple):
    """max(0, 1 - t)^2: the L2-loss SVM.

    Examples
    --------
    >>> SquaredHinge().value(0.5)
    0.25
    """

    def value(self, t):
        return max(0.0, 1.0 - t) ** 2

    def derivative(self, t):
        return -2.0 * max(0.0, 1.0 - t)

    def second_derivative(self, t):
        return 2.0 if t < 1.0 else 0.0

    def pieces(self):
        return Pieces(-2.0, 2.0, 1, (1.0, 0.0, -2.0), NO_KINK)

    def dual_form(self):
        return DualForm(1.0, 0.5, 0.0, 0.0, np.inf)

    def slack(self, t, alpha, cost):
        if t < 1.0:
            return (cost * (1.0 - t) - 0.5 * alpha) ** 2 / cost
        return alpha * (t - 1.0) + 0.25 * alpha * alpha / cost
