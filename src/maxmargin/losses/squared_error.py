"""The squared error."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.functions import NO_KINK, DualForm, Pieces, of_residuals


@of_residuals
class SquaredError(NamedTuple):
    """t^2: regularised least squares.

    Examples
    --------
    >>> SquaredError().value(3.0)
    9.0
    """

    def value(self, t):
        return t * t

    def derivative(self, t):
        return 2.0 * t

    def second_derivative(self, t):
        return 2.0

    def pieces(self):
        return Pieces(0.0, 2.0, 0, NO_KINK, NO_KINK)

    def dual_form(self):
        return DualForm(0.0, 0.5, 0.0, -np.inf, np.inf)

    def slack(self, t, alpha, cost):
        return (cost * t + 0.5 * alpha) ** 2 / cost
