"""The hinge loss."""

from typing import NamedTuple

from maxmargin.losses.functions import NO_KINK, DualForm, Pieces, of_margins


@of_margins
class Hinge(NamedTuple):
    """max(0, 1 - t): the L1-loss SVM.

    Examples
    --------
    >>> Hinge().value(0.25)
    0.75
    """

    def value(self, t):
        return max(0.0, 1.0 - t)

    def derivative(self, t):
        return -1.0 if t < 1.0 else 0.0

    def pieces(self):
        return Pieces(-1.0, 0.0, 1, (1.0, 1.0, 0.0), NO_KINK)

    def dual_form(self):
        return DualForm(1.0, 0.0, 0.0, 0.0, 1.0)

    def slack(self, t, alpha, cost):
        return (cost - alpha) * (1.0 - t) if t < 1.0 else alpha * (t - 1.0)
