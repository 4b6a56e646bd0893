"""Convex losses as small tested objects: value, subgradient and conjugate of a function of one number.

A loss phi is a NamedTuple tag in a file of its own; the functions of `losses.functions` take it as their first
argument, in Python and inside compiled code. What a loss can be used for follows from what its file implements.
Its argument t is the margin ``y * z`` of a classifier's output z or the residual ``z - y`` of a regressor's:
``argument(loss, z, y)``. With ``sign`` and ``target`` both kinds read ``t = sign * z - target``, so that solvers need
not know which one they have.

The dual of  min_w 1/2 |w|^2 + sum_i C_i phi(t_i)  has one variable a row, w = sum_i alpha_i sign_i x_i, and is

    max_alpha  -1/2 |w|^2 - sum_i C_i phi*(-alpha_i / C_i) + alpha_i target_i.

The distance between the two, at any w and alpha that belong together, is a sum of one nonnegative number a row,
C_i (phi(t_i) + phi*(-alpha_i / C_i)) + alpha_i t_i: the `slack` of Fenchel and Young. Summed as such it is accurate
where the difference of two large objectives has no digits left.

Most losses here have a piecewise quadratic conjugate; `dual_form` gives its coefficients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin import _names
from maxmargin.losses import functions
from maxmargin.losses.epsilon_insensitive import EpsilonInsensitive
from maxmargin.losses.functions import (
    DualForm,
    Pieces,
    argument,
    conjugate,
    derivative,
    dual_form,
    largest_curvature,
    pieces,
    second_derivative,
    sign,
    slack,
    target,
    value,
)
from maxmargin.losses.hinge import Hinge
from maxmargin.losses.huber import Huber
from maxmargin.losses.logistic import Logistic
from maxmargin.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive
from maxmargin.losses.squared_error import SquaredError
from maxmargin.losses.squared_hinge import SquaredHinge

__all__ = [
    "DualForm",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Pieces",
    "SquaredEpsilonInsensitive",
    "SquaredError",
    "SquaredHinge",
    "argument",
    "conjugate",
    "derivative",
    "dual_form",
    "get",
    "is_margin_loss",
    "largest_curvature",
    "name_of",
    "names",
    "pieces",
    "second_derivative",
    "sign",
    "slack",
    "suggestion",
    "target",
    "value",
]

Loss = Any  # one of the tags

_BY_NAME: dict[str, type] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "huber": Huber,
    "logistic": Logistic,
    "squared_error": SquaredError,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}

# What other libraries call them.
_NAMES_ELSEWHERE = {
    "log_loss": "logistic",
    "log": "logistic",
    "l1": "hinge",
    "l2": "squared_hinge",
    "smoothed_hinge": "huber",
    "huber_hinge": "huber",
    "squared_loss": "squared_error",
    "mse": "squared_error",
}

# What losses have in common, as their files say it.
ALL = tuple(_BY_NAME.values())
MARGIN_LOSSES = tuple(tag for tag in ALL if tag in functions.MARGIN_LOSSES)
RESIDUAL_LOSSES = tuple(tag for tag in ALL if tag in functions.RESIDUAL_LOSSES)
SMOOTH = tuple(tag for tag in ALL if tag in second_derivative.registry)
WITH_KINK = tuple(tag for tag in ALL if tag not in SMOOTH)
QUADRATIC_DUAL = tuple(tag for tag in ALL if tag in dual_form.registry)
PIECEWISE_LINEAR_SLOPE = tuple(tag for tag in ALL if tag in pieces.registry)
UNBOUNDED_SLOPE = tuple(tag for tag in QUADRATIC_DUAL if dual_form(tag()).upper == np.inf)
conjugate.register(*QUADRATIC_DUAL)(functions.quadratic_conjugate)
largest_curvature.register(*(tag for tag in QUADRATIC_DUAL if tag in SMOOTH))(functions.quadratic_curvature)


def names() -> list[str]:
    """Names of all losses.

    Examples
    --------
    >>> names()[:3]
    ['hinge', 'squared_hinge', 'huber']
    """
    return list(_BY_NAME)


def name_of_type(tag: type) -> str:
    """Name of a kind of loss."""
    return next(name for name, known in _BY_NAME.items() if known is tag)


def name_of(loss: Loss) -> str:
    """Name of a loss object."""
    return name_of_type(type(loss))


def get(loss: str | Loss) -> Loss:
    """The loss of this name; a loss object is returned as it is, checked.

    Examples
    --------
    >>> get("huber")
    Huber(delta=0.5)
    """
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            raise _names.unknown("loss", loss, names(), _NAMES_ELSEWHERE)
        return _BY_NAME[loss]()
    if type(loss) not in ALL:
        raise ValueError(f"loss must be a name ({', '.join(names())}) or an object of maxmargin.losses, got {loss!r}")
    loss = type(loss)(*map(float, loss))
    if not functions.has_valid_parameters(loss):
        raise ValueError(f"parameters of {loss!r} must be finite and {'positive' if type(loss) is Huber else '>= 0'}")
    return loss


def suggestion(name: str) -> str:
    """Which loss somebody may have meant by a name that is not known, for an error message.

    Examples
    --------
    >>> suggestion("log_loss")
    ' (did you mean "logistic"?)'
    """
    return _names.suggestion(name, names(), _NAMES_ELSEWHERE)


def is_margin_loss(loss: Loss) -> bool:
    """Whether the loss is a classifier's (of margins, labels -1 and +1) rather than a regressor's."""
    return isinstance(loss, MARGIN_LOSSES)
