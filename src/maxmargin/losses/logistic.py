"""The logistic loss."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.functions import of_margins, value


@of_margins
class Logistic(NamedTuple):
    """log(1 + exp(-t)).

    Examples
    --------
    >>> round(float(Logistic().value(0.0)), 4)
    0.6931
    """

    def value(self, t):
        return max(0.0, -t) + np.log1p(np.exp(-abs(t)))

    def derivative(self, t):
        if t > 0.0:
            decay = np.exp(-t)
            return -decay / (1.0 + decay)
        return -1.0 / (1.0 + np.exp(t))

    def second_derivative(self, t):
        decay = np.exp(-abs(t))
        return decay / ((1.0 + decay) * (1.0 + decay))

    def largest_curvature(self):
        return 0.25

    def conjugate(self, u):
        a = -u
        if not 0.0 <= a <= 1.0:
            return np.inf
        entropy = 0.0
        if a > 0.0:
            entropy += a * np.log(a)
        if a < 1.0:
            entropy += (1.0 - a) * np.log1p(-a)
        return entropy

    def slack(self, t, alpha, cost):
        # cost times the divergence of the probability -phi'(t) from a = alpha / cost; value(-t) = -log(-phi'(t)).
        # Both terms are of the size of cost at most: what their difference loses is far below any tolerance.
        a = alpha / cost
        total = 0.0
        if a > 0.0:
            total += a * (np.log(a) + value(self, -t))
        if a < 1.0:
            total += (1.0 - a) * (np.log1p(-a) + value(self, t))
        return max(0.0, cost * total)
