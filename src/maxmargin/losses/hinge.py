"""The hinge loss."""

from typing import NamedTuple

from maxmargin.losses.functions import (
    NO_KINK,
    DualForm,
    Pieces,
    derivative,
    dual_form,
    of_margins,
    pieces,
    slack,
    value,
)


@of_margins
class Hinge(NamedTuple):
    """max(0, 1 - t): the L1-loss SVM.

    Examples
    --------
    >>> value(Hinge(), 0.25)
    0.75
    """


@value.register(Hinge)
def _(loss, t):
    return max(0.0, 1.0 - t)


@derivative.register(Hinge)
def _(loss, t):
    return -1.0 if t < 1.0 else 0.0


@pieces.register(Hinge)
def _(loss):
    return Pieces(-1.0, 0.0, 1, (1.0, 1.0, 0.0), NO_KINK)


@dual_form.register(Hinge)
def _(loss):
    return DualForm(1.0, 0.0, 0.0, 0.0, 1.0)


@slack.register(Hinge)
def _(loss, t, alpha, cost):
    return (cost - alpha) * (1.0 - t) if t < 1.0 else alpha * (t - 1.0)
