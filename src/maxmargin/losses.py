"""Convex losses as small tested objects: value, subgradient and conjugate of a function of one number.

A loss phi is a NamedTuple tag; the functions below take it as their first argument, in Python and inside kernels.
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

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import generic


class Hinge(NamedTuple):
    """max(0, 1 - t): the L1-loss SVM."""


class SquaredHinge(NamedTuple):
    """max(0, 1 - t)^2: the L2-loss SVM."""


class Huber(NamedTuple):
    """Hinge with its kink rounded to a parabola, (1 - t)^2 / (2 delta) for 1 - delta < t < 1."""

    delta: float = 0.5


class Logistic(NamedTuple):
    """log(1 + exp(-t))."""


class SquaredError(NamedTuple):
    """t^2: regularised least squares."""


class EpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon): the L1-loss support vector regression."""

    epsilon: float = 0.1


class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |t| - epsilon)^2: the L2-loss support vector regression."""

    epsilon: float = 0.1


Loss = Any  # one of the tags above
MARGIN_LOSSES = (Hinge, SquaredHinge, Huber, Logistic)
RESIDUAL_LOSSES = (SquaredError, EpsilonInsensitive, SquaredEpsilonInsensitive)

_BY_NAME: dict[str, type] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "huber": Huber,
    "logistic": Logistic,
    "squared_error": SquaredError,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}


def names() -> list[str]:
    """Names of all losses."""
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
            raise ValueError(f"unknown loss {loss!r}; choose one of {', '.join(names())}")
        return _BY_NAME[loss]()
    if type(loss) not in _BY_NAME.values():
        raise ValueError(f"loss must be a name ({', '.join(names())}) or an object of maxmargin.losses, got {loss!r}")
    smallest_allowed = {Huber: np.finfo(float).tiny}.get(type(loss), 0.0)
    loss = type(loss)(*map(float, loss))
    if not all(smallest_allowed <= parameter < np.inf for parameter in loss):
        raise ValueError(f"parameters of {loss!r} must be finite and {'positive' if smallest_allowed else '>= 0'}")
    return loss


def is_margin_loss(loss: Loss) -> bool:
    """Whether the loss is a classifier's (of margins, labels -1 and +1) rather than a regressor's."""
    return isinstance(loss, MARGIN_LOSSES)


# ---------------------------------------------------------------- t = sign * z - target


def _unknown(loss: Any) -> TypeError:
    return TypeError(f"not a loss: {loss!r}; see maxmargin.losses")


@generic
def sign(loss, y):
    """Factor of the output z in the loss' argument."""
    raise _unknown(loss)


@sign.register(*MARGIN_LOSSES)
def _(loss, y):
    return y


@sign.register(*RESIDUAL_LOSSES)
def _(loss, y):
    return 1.0


@generic
def target(loss, y):
    """What is subtracted in the loss' argument."""
    raise _unknown(loss)


@target.register(*MARGIN_LOSSES)
def _(loss, y):
    return 0.0


@target.register(*RESIDUAL_LOSSES)
def _(loss, y):
    return y


@generic
def argument(loss, z, y):
    """The loss' argument t for output z and label or target y."""
    raise _unknown(loss)


@argument.register(*MARGIN_LOSSES)
def _(loss, z, y):
    return y * z


@argument.register(*RESIDUAL_LOSSES)
def _(loss, z, y):
    return z - y


# ---------------------------------------------------------------- phi(t)


@generic
def value(loss, t):
    """phi(t)."""
    raise _unknown(loss)


@value.register(Hinge)
def _(loss, t):
    return max(0.0, 1.0 - t)


@value.register(SquaredHinge)
def _(loss, t):
    return max(0.0, 1.0 - t) ** 2


@value.register(Huber)
def _(loss, t):
    violation = max(0.0, 1.0 - t)
    if violation < loss.delta:
        return 0.5 * violation * violation / loss.delta
    return violation - 0.5 * loss.delta


@value.register(Logistic)
def _(loss, t):
    return max(0.0, -t) + np.log1p(np.exp(-abs(t)))


@value.register(SquaredError)
def _(loss, t):
    return t * t


@value.register(EpsilonInsensitive)
def _(loss, t):
    return max(0.0, abs(t) - loss.epsilon)


@value.register(SquaredEpsilonInsensitive)
def _(loss, t):
    return max(0.0, abs(t) - loss.epsilon) ** 2


# ---------------------------------------------------------------- phi'(t)


@generic
def derivative(loss, t):
    """phi'(t), or one of the subgradients where phi has a kink."""
    raise _unknown(loss)


@derivative.register(Hinge)
def _(loss, t):
    return -1.0 if t < 1.0 else 0.0


@derivative.register(SquaredHinge)
def _(loss, t):
    return -2.0 * max(0.0, 1.0 - t)


@derivative.register(Huber)
def _(loss, t):
    return -min(max(0.0, 1.0 - t) / loss.delta, 1.0)


@derivative.register(Logistic)
def _(loss, t):
    if t > 0.0:
        decay = np.exp(-t)
        return -decay / (1.0 + decay)
    return -1.0 / (1.0 + np.exp(t))


@derivative.register(SquaredError)
def _(loss, t):
    return 2.0 * t


@derivative.register(EpsilonInsensitive)
def _(loss, t):
    if abs(t) <= loss.epsilon:
        return 0.0
    return 1.0 if t > 0.0 else -1.0


@derivative.register(SquaredEpsilonInsensitive)
def _(loss, t):
    excess = 2.0 * max(0.0, abs(t) - loss.epsilon)
    return excess if t > 0.0 else -excess


# ---------------------------------------------------------------- phi*(u)


@generic
def conjugate(loss, u):
    """sup_t u t - phi(t); infinite outside the conjugate's domain."""
    raise _unknown(loss)


@conjugate.register(Logistic)
def _(loss, u):
    a = -u
    if not 0.0 <= a <= 1.0:
        return np.inf
    entropy = 0.0
    if a > 0.0:
        entropy += a * np.log(a)
    if a < 1.0:
        entropy += (1.0 - a) * np.log1p(-a)
    return entropy


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


@dual_form.register(Hinge)
def _(loss):
    return DualForm(1.0, 0.0, 0.0, 0.0, 1.0)


@dual_form.register(SquaredHinge)
def _(loss):
    return DualForm(1.0, 0.5, 0.0, 0.0, np.inf)


@dual_form.register(Huber)
def _(loss):
    return DualForm(1.0, loss.delta, 0.0, 0.0, 1.0)


@dual_form.register(SquaredError)
def _(loss):
    return DualForm(0.0, 0.5, 0.0, -np.inf, np.inf)


@dual_form.register(EpsilonInsensitive)
def _(loss):
    return DualForm(0.0, 0.0, loss.epsilon, -1.0, 1.0)


@dual_form.register(SquaredEpsilonInsensitive)
def _(loss):
    return DualForm(0.0, 0.5, loss.epsilon, -np.inf, np.inf)


QUADRATIC_DUAL = (Hinge, SquaredHinge, Huber, SquaredError, EpsilonInsensitive, SquaredEpsilonInsensitive)


@conjugate.register(*QUADRATIC_DUAL)
def _(loss, u):
    form = dual_form(loss)
    a = -u
    if a < form.lower or a > form.upper:
        return np.inf
    return 0.5 * form.curvature * a * a - form.linear * a + form.epsilon * abs(a)


# ---------------------------------------------------------------- the slack of Fenchel and Young


@generic
def slack(loss, t, alpha, cost):
    """cost (phi(t) + phi*(-alpha / cost)) + alpha t >= 0, without cancellation near zero.

    This is what one row adds to the duality gap. It is zero exactly where alpha = -cost phi'(t).
    """
    raise _unknown(loss)


@slack.register(Hinge)
def _(loss, t, alpha, cost):
    return (cost - alpha) * (1.0 - t) if t < 1.0 else alpha * (t - 1.0)


@slack.register(SquaredHinge)
def _(loss, t, alpha, cost):
    if t < 1.0:
        return (cost * (1.0 - t) - 0.5 * alpha) ** 2 / cost
    return alpha * (t - 1.0) + 0.25 * alpha * alpha / cost


@slack.register(Huber)
def _(loss, t, alpha, cost):
    violation = 1.0 - t
    if violation >= loss.delta:
        return (cost - alpha) * (violation - 0.5 * loss.delta * (1.0 + alpha / cost))
    if violation > 0.0:
        return (cost * violation - loss.delta * alpha) ** 2 / (2.0 * loss.delta * cost)
    return -alpha * violation + 0.5 * loss.delta * alpha * alpha / cost


@slack.register(Logistic)
def _(loss, t, alpha, cost):
    # cost times the divergence of the probability -phi'(t) from a = alpha / cost; value(-t) = -log(-phi'(t)).
    # Both terms are of the size of cost at most: what their difference loses is far below any tolerance.
    a = alpha / cost
    total = 0.0
    if a > 0.0:
        total += a * (np.log(a) + value(loss, -t))
    if a < 1.0:
        total += (1.0 - a) * (np.log1p(-a) + value(loss, t))
    return max(0.0, cost * total)


@slack.register(SquaredError)
def _(loss, t, alpha, cost):
    return (cost * t + 0.5 * alpha) ** 2 / cost


@slack.register(EpsilonInsensitive)
def _(loss, t, alpha, cost):
    # By symmetry let the residual be negative (alpha >= 0 at the optimum).
    if t > 0.0:
        t, alpha = -t, -alpha
    excess = -t - loss.epsilon
    wrong_side = loss.epsilon * (abs(alpha) - alpha)
    if excess > 0.0:
        return (cost - alpha) * excess + wrong_side
    return -alpha * excess + wrong_side


@slack.register(SquaredEpsilonInsensitive)
def _(loss, t, alpha, cost):
    if t > 0.0:
        t, alpha = -t, -alpha
    excess = -t - loss.epsilon
    wrong_side = loss.epsilon * (abs(alpha) - alpha)
    if excess > 0.0:
        return (cost * excess - 0.5 * alpha) ** 2 / cost + wrong_side
    return -alpha * excess + 0.25 * alpha * alpha / cost + wrong_side
