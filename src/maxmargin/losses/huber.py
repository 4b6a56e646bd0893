"""Huber's rounded hinge loss."""

from typing import NamedTuple

from maxmargin.losses.functions import (
    DualForm,
    Pieces,
    derivative,
    dual_form,
    has_valid_parameters,
    of_margins,
    pieces,
    second_derivative,
    slack,
    value,
)


@of_margins
class Huber(NamedTuple):
    """Hinge with its kink rounded to a parabola, (1 - t)^2 / (2 delta) for 1 - delta < t < 1.

    The Huber loss of Menon's survey (section 3.4: quadratic for 0 <= t <= 1) is ``Huber(1.0)``.

    Examples
    --------
    >>> value(Huber(delta=0.5), 0.0)
    0.75
    """

    delta: float = 0.5


@value.register(Huber)
def _(loss, t):
    violation = max(0.0, 1.0 - t)
    if violation < loss.delta:
        return 0.5 * violation * violation / loss.delta
    return violation - 0.5 * loss.delta


@derivative.register(Huber)
def _(loss, t):
    return -min(max(0.0, 1.0 - t) / loss.delta, 1.0)


@second_derivative.register(Huber)
def _(loss, t):
    return 1.0 / loss.delta if 1.0 - loss.delta < t < 1.0 else 0.0


@pieces.register(Huber)
def _(loss):
    return Pieces(-1.0, 0.0, 2, (1.0 - loss.delta, 0.0, 1.0 / loss.delta), (1.0, 0.0, -1.0 / loss.delta))


@dual_form.register(Huber)
def _(loss):
    return DualForm(1.0, loss.delta, 0.0, 0.0, 1.0)


@slack.register(Huber)
def _(loss, t, alpha, cost):
    violation = 1.0 - t
    if violation >= loss.delta:
        return (cost - alpha) * (violation - 0.5 * loss.delta * (1.0 + alpha / cost))
    if violation > 0.0:
        return (cost * violation - loss.delta * alpha) ** 2 / (2.0 * loss.delta * cost)
    return -alpha * violation + 0.5 * loss.delta * alpha * alpha / cost


@has_valid_parameters.register(Huber)
def _(loss):
    return 0.0 < loss.delta < float("inf")
