"""The squared hinge loss."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.functions import (
    NO_KINK,
    DualForm,
    Pieces,
    derivative,
    dual_form,
    of_margins,
    pieces,
    second_derivative,
    slack,
    value,
)


@of_margins
class SquaredHinge(NamedTuple):
    """max(0, 1 - t)^2: the L2-loss SVM.

    Examples
    --------
    >>> value(SquaredHinge(), 0.5)
    0.25
    """


@value.register(SquaredHinge)
def _(loss, t):
    return max(0.0, 1.0 - t) ** 2


@derivative.register(SquaredHinge)
def _(loss, t):
    return -2.0 * max(0.0, 1.0 - t)


@second_derivative.register(SquaredHinge)
def _(loss, t):
    return 2.0 if t < 1.0 else 0.0


@pieces.register(SquaredHinge)
def _(loss):
    return Pieces(-2.0, 2.0, 1, (1.0, 0.0, -2.0), NO_KINK)


@dual_form.register(SquaredHinge)
def _(loss):
    return DualForm(1.0, 0.5, 0.0, 0.0, np.inf)


@slack.register(SquaredHinge)
def _(loss, t, alpha, cost):
    if t < 1.0:
        return (cost * (1.0 - t) - 0.5 * alpha) ** 2 / cost
    return alpha * (t - 1.0) + 0.25 * alpha * alpha / cost
