"""What there is to know of a loss: generic functions of its tag, which are methods in the file of every loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import generic


def _unknown(loss: Any) -> TypeError:
    return TypeError(f"not a loss: {loss!r}; see maxmargin.losses")


# ---------------------------------------------------------------- t = sign * z - target


@generic
def sign(loss, y):
    """Factor of the output z in the loss' argument."""
    raise _unknown(loss)


@generic
def target(loss, y):
    """What is subtracted in the loss' argument."""
    raise _unknown(loss)


@generic
def argument(loss, z, y):
    """The loss' argument t for output z and label or target y."""
    raise _unknown(loss)


# ---------------------------------------------------------------- phi and its derivatives


@generic
def value(loss, t):
    """phi(t)."""
    raise _unknown(loss)


@generic
def derivative(loss, t):
    """phi'(t), or one of the subgradients where phi has a kink."""
    raise _unknown(loss)


@generic
def second_derivative(loss, t):
    """phi''(t), or that of one side where phi' has a kink."""
    raise TypeError(f"not a smooth loss: {loss!r}")


@generic
def largest_curvature(loss):
    """The largest phi''(t)."""
    raise TypeError(f"not a smooth loss: {loss!r}")


class Pieces(NamedTuple):
    """phi'(t) = level + curvature t left of all kinks; a kink adds jump + bend (t - place) right of its place."""

    level: float
    curvature: float
    n_kinks: int
    first: tuple[float, float, float]  # place, jump, bend
    second: tuple[float, float, float]


NO_KINK = (0.0, 0.0, 0.0)


@generic
def pieces(loss):
    """The derivative of a loss as linear pieces."""
    raise TypeError(f"the derivative of {loss!r} is not piecewise linear")


# ---------------------------------------------------------------- the dual


@generic
def conjugate(loss, u):
    """sup_t u t - phi(t); infinite outside the conjugate's domain."""
    raise _unknown(loss)


class DualForm(NamedTuple):
    """phi*(-a) = 1/2 curvature a^2 - linear a + epsilon |a|  for  lower <= a <= upper, infinite elsewhere."""

    linear: float
    curvature: float
    epsilon: float
    lower: float
    upper: float


@generic
def dual_form(loss):
    """Coefficients of a piecewise quadratic conjugate."""
    raise _unknown(loss)


def quadratic_conjugate(loss, u):
    """The conjugate of a loss that has a `dual_form`."""
    form = dual_form(loss)
    a = -u
    if a < form.lower or a > form.upper:
        return np.inf
    return 0.5 * form.curvature * a * a - form.linear * a + form.epsilon * abs(a)


def quadratic_curvature(loss):
    """The largest curvature of a smooth loss that has a `dual_form`: the one is the other's inverse."""
    return 1.0 / dual_form(loss).curvature


@generic
def slack(loss, t, alpha, cost):
    """cost (phi(t) + phi*(-alpha / cost)) + alpha t >= 0, without cancellation near zero.

    This is what one row adds to the duality gap. It is zero exactly where alpha = -cost phi'(t).
    """
    raise _unknown(loss)


# ---------------------------------------------------------------- parameters


@generic
def has_valid_parameters(loss):
    """Whether the parameters of a loss are in their range; by default, finite and not negative."""
    return all(0.0 <= parameter < np.inf for parameter in loss)


# ---------------------------------------------------------------- how a loss says what it is

_BY_METHOD = (
    value,
    derivative,
    second_derivative,
    largest_curvature,
    pieces,
    conjugate,
    dual_form,
    slack,
    has_valid_parameters,
)
MARGIN_LOSSES: list[type] = []
RESIDUAL_LOSSES: list[type] = []


def of_margins(tag: Any) -> Any:
    """Decorate the loss of a classifier, whose argument is the margin y z; labels are -1 and +1."""
    MARGIN_LOSSES.append(tag)
    sign.register(tag)(lambda loss, y: y)
    target.register(tag)(lambda loss, y: 0.0)
    argument.register(tag)(lambda loss, z, y: y * z)
    return _with_methods(tag)


def of_residuals(tag: Any) -> Any:
    """Decorate the loss of a regressor, whose argument is the residual z - y."""
    RESIDUAL_LOSSES.append(tag)
    sign.register(tag)(lambda loss, y: 1.0)
    target.register(tag)(lambda loss, y: y)
    argument.register(tag)(lambda loss, z, y: z - y)
    return _with_methods(tag)


def _with_methods(tag: Any) -> Any:
    """What the loss has as methods is what these functions are for it, inside compiled code as well."""
    for function in _BY_METHOD:
        if function.__name__ in vars(tag):
            function.register(tag)(vars(tag)[function.__name__])
    return tag
