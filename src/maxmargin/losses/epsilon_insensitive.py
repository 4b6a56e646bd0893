"""The epsilon-insensitive loss."""

from typing import NamedTuple

from maxmargin._jit import compiled
from maxmargin.losses.functions import DualForm, Pieces, of_residuals


@of_residuals
class EpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon): the L1-loss support vector regression.

    Examples
    --------
    >>> EpsilonInsensitive(epsilon=0.5).value(-2.0)
    1.5
    """

    epsilon: float = 0.1

    def value(self, t):
        return max(0.0, abs(t) - self.epsilon)

    def derivative(self, t):
        if abs(t) <= self.epsilon:
            return 0.0
        return 1.0 if t > 0.0 else -1.0

    def pieces(self):
        return Pieces(-1.0, 0.0, 2, (-self.epsilon, 1.0, 0.0), (self.epsilon, 1.0, 0.0))

    def dual_form(self):
        return DualForm(0.0, 0.0, self.epsilon, -1.0, 1.0)

    def slack(self, t, alpha, cost):
        excess, alpha, wrong_side = beyond_the_tube(self, t, alpha)
        if excess > 0.0:
            return (cost - alpha) * excess + wrong_side
        return -alpha * excess + wrong_side


@compiled
def beyond_the_tube(loss, t, alpha):
    """How far |t| exceeds epsilon, alpha, and what alpha costs if it has the wrong sign.

    By symmetry the residual is taken to be negative; alpha is then not, at the optimum.
    """
    if t > 0.0:
        t, alpha = -t, -alpha
    return -t - loss.epsilon, alpha, loss.epsilon * (abs(alpha) - alpha)
