"""The epsilon-insensitive loss."""

from typing import NamedTuple

from maxmargin._jit import compiled
from maxmargin.losses.functions import DualForm, Pieces, derivative, dual_form, of_residuals, pieces, slack, value


@of_residuals
class EpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon): the L1-loss support vector regression.

    Examples
    --------
    >>> value(EpsilonInsensitive(epsilon=0.5), -2.0)
    1.5
    """

    epsilon: float = 0.1


@value.register(EpsilonInsensitive)
def _(loss, t):
    return max(0.0, abs(t) - loss.epsilon)


@derivative.register(EpsilonInsensitive)
def _(loss, t):
    if abs(t) <= loss.epsilon:
        return 0.0
    return 1.0 if t > 0.0 else -1.0


@pieces.register(EpsilonInsensitive)
def _(loss):
    return Pieces(-1.0, 0.0, 2, (-loss.epsilon, 1.0, 0.0), (loss.epsilon, 1.0, 0.0))


@dual_form.register(EpsilonInsensitive)
def _(loss):
    return DualForm(0.0, 0.0, loss.epsilon, -1.0, 1.0)


@slack.register(EpsilonInsensitive)
def _(loss, t, alpha, cost):
    excess, alpha, wrong_side = beyond_the_tube(loss, t, alpha)
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
