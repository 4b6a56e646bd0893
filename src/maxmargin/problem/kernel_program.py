"""The quadratic program of kernel machines row by row: best coefficients, gaps, and the best intercept.

See `kernel_problem` for the program and its notation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import compiled
from maxmargin.certificate import Certificate
from maxmargin.data.rows import Array

_FEW = 1000  # break points of the primal, as a function of the intercept, that are sorted


class Program(NamedTuple):
    """The quadratic program of some rows but for its kernel matrix; see the head of `kernel_problem`."""

    target: Array
    kink: Array
    lower: Array
    upper: Array
    diagonal: Array

    def of(self, rows: Array) -> Program:
        """That of some of the rows."""
        return Program(*(part[rows] for part in self))


class KernelCertificate(Certificate):
    """A certificate of a kernel machine: `scale` stands in for a primal value that is nearer to zero.

    The optimum of a one-class machine may be zero, as that of a linear one is if the rows lie around the origin; then
    no gap is small beside it. Its scale is what the objective of orthogonal rows of the same lengths would be.
    `rounding` is what rounding can do to the gap.
    """

    scale: float = 0.0
    rounding: float = 0.0

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the primal objective's size, or of the scale."""
        size = max(abs(self.primal), self.scale)
        return self.gap / size if size > 0.0 else 0.0 if self.gap <= 0.0 else np.inf


@compiled
def best_coefficient(z, kink, lower, upper, diagonal):
    """The beta of one row that maximises beta z - kink |beta| - diagonal/2 beta^2 over its box."""
    pull = max(z - kink, 0.0) - max(-z - kink, 0.0)
    if pull == 0.0:
        return 0.0
    if diagonal > 0.0:
        return min(max(pull / diagonal, lower), upper)
    return upper if pull > 0.0 else lower


@compiled
def risk_and_gap(program, beta, f, b):
    """Sums of phi_i(z_i), and of what each row adds to primal - dual."""
    risk, gap = 0.0, 0.0
    for i in range(len(beta)):
        phi, part = row_gap(program, beta[i], f[i], b, i)
        risk += phi
        gap += part
    return risk, gap


@compiled
def row_gap(program, beta, f, b, i):
    """phi_i(z_i), and what row i adds to primal - dual."""
    kink, D = program.kink[i], program.diagonal[i]
    z = program.target[i] - f - b
    best = best_coefficient(z, kink, program.lower[i], program.upper[i], D)
    phi = best * z - kink * abs(best) - 0.5 * D * best * best
    if D > 0.0:
        return phi, phi - beta * z + kink * abs(beta) + 0.5 * D * beta * beta
    if best * beta < 0.0:
        return phi, phi - beta * z + kink * abs(beta)
    pull = z - kink if best + beta > 0.0 else z + kink
    return phi, (best - beta) * pull  # as a product, which has all its digits


def best_intercept(program: Program, e: Array, total: float) -> float:
    """The b at which sum_i beta_i(e_i - b) = total, for the rows of a program: where their primal is least.

    The middle one if there are several.
    """
    return _smooth_intercept(program, e, total) if program.diagonal.any() else _kinked_intercept(program, e, total)


def _kinked_intercept(program: Program, e: Array, total: float) -> float:
    """Where the slope total - sum_i beta_i(b) of the primal turns positive: a step at every break point."""
    up, down = program.upper > 0.0, program.lower < 0.0
    points = np.concatenate([(e - program.kink)[up], (e + program.kink)[down]])
    steps = np.concatenate([program.upper[up], -program.lower[down]])
    if len(points) == 0:
        return 0.0
    slope = total - float(program.upper.sum())
    flat = 1e-12 * max(float(steps.sum()), abs(total))
    beyond = float(points.max())  # the least of the points above those at hand
    while len(points) > _FEW:  # one half after the other is left out: to sort all would take many times as long
        below = points <= np.median(points[:: len(points) // _FEW + 1])
        if below.all() or not below.any():  # ties, or no numbers
            break
        rise = float(steps[below].sum())
        if slope + rise >= -flat:
            beyond, points, steps = float(points[~below].min()), points[below], steps[below]
        else:
            points, steps, slope = points[~below], steps[~below], slope + rise
    order = np.argsort(points, kind="stable")
    points, slopes = np.append(points[order], beyond), slope + np.cumsum(steps[order])
    k = min(int(np.searchsorted(slopes, -flat)), len(slopes) - 1)
    return float(0.5 * (points[k] + points[k + 1])) if abs(slopes[k]) <= flat else float(points[k])


def _smooth_intercept(program: Program, e: Array, total: float) -> float:
    """The root of the slope of a smooth primal, by bisection."""
    low, high = float((e - program.kink).min()) - 1.0, float((e + program.kink).max()) + 1.0
    for _ in range(200):
        b = 0.5 * (low + high)
        if b in (low, high):
            break
        if _sum_of_best(program, e, b) > total:
            low = b
        else:
            high = b
    return 0.5 * (low + high)


@compiled
def _sum_of_best(program, e, b):
    total = 0.0
    for i in range(len(e)):
        total += best_coefficient(e[i] - b, program.kink[i], program.lower[i], program.upper[i], program.diagonal[i])
    return total


def program_of_losses(y: Array, cost: Array, loss: losses.Loss) -> dict[str, Any]:
    """Labels, costs and the program of a loss a row; see the head of `kernel_problem`."""
    n = len(y)
    is_squared = isinstance(loss, (losses.SquaredHinge, losses.SquaredEpsilonInsensitive))
    reach = np.where(cost > 0.0, np.inf, 0.0) if is_squared else cost
    is_margin = losses.is_margin_loss(loss)
    lower, upper = (np.where(y < 0.0, -reach, 0.0), np.where(y > 0.0, reach, 0.0)) if is_margin else (-reach, reach)
    with np.errstate(divide="ignore"):
        diagonal = np.where(cost > 0.0, 0.5 / cost, 0.0) if is_squared else np.zeros(n)
    return {
        "y": y,
        "cost": cost,
        "target": y,
        "kink": np.full(n, getattr(loss, "epsilon", 0.0)),
        "lower": lower + 0.0,  # no -0.0
        "upper": upper + 0.0,
        "diagonal": diagonal,
    }
