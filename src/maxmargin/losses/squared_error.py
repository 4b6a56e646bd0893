"""The squared error."""

from typing import NamedTuple

import numpy as np

from maxmargin.losses.functions import (
    NO_KINK,
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
class SquaredError(NamedTuple):
    """t^2: regularised least squares.

    Examples
    --------
    >>> value(SquaredError(), 3.0)
    9.0
    """


@value.register(SquaredError)
def _(loss, t):
    return t * t


@derivative.register(SquaredError)
def _(loss, t):
    return 2.0 * t


@second_derivative.register(SquaredError)
def _(loss, t):
    return 2.0


@pieces.register(SquaredError)
def _(loss):
    return Pieces(0.0, 2.0, 0, NO_KINK, NO_KINK)


@dual_form.register(SquaredError)
def _(loss):
    return DualForm(0.0, 0.5, 0.0, -np.inf, np.inf)


@slack.register(SquaredError)
def _(loss, t, alpha, cost):
    return (cost * t + 0.5 * alpha) ** 2 / cost
