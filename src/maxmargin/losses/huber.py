"""Huber's rounded hinge loss."""

from typing import NamedTuple

from maxmargin.losses.functions import DualForm, Pieces, of_margins


@of_margins
class Huber(NamedTuple):
    """Hinge with its kink rounded to a parabola, (1 - t)^2 / (2 delta) for 1 - delta < t < 1.

    The Huber loss of Menon's survey (section 3.4: quadratic for 0 <= t <= 1) is ``Huber(1.0)``.

    Examples
    --------
    >>> Huber(delta=0.5).value(0.0)
    0.75
    """

    delta: float = 0.5

    def value(self, t):
        violation = max(0.0, 1.0 - t)
        if violation < self.delta:
            return 0.5 * violation * violation / self.delta
        return violation - 0.5 * self.delta

    def derivative(self, t):
        return -min(max(0.0, 1.0 - t) / self.delta, 1.0)

    def second_derivative(self, t):
        return 1.0 / self.delta if 1.0 - self.delta < t < 1.0 else 0.0

    def pieces(self):
        return Pieces(-1.0, 0.0, 2, (1.0 - self.delta, 0.0, 1.0 / self.delta), (1.0, 0.0, -1.0 / self.delta))

    def dual_form(self):
        return DualForm(1.0, self.delta, 0.0, 0.0, 1.0)

    def slack(self, t, alpha, cost):
        violation = 1.0 - t
        if violation >= self.delta:
            return (cost - alpha) * (violation - 0.5 * self.delta * (1.0 + alpha / cost))
        if violation > 0.0:
            return (cost * violation - self.delta * alpha) ** 2 / (2.0 * self.delta * cost)
        return -alpha * violation + 0.5 * self.delta * alpha * alpha / cost

    def has_valid_parameters(self):
        return 0.0 < self.delta < float("inf")
