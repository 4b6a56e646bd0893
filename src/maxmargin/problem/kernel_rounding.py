"""What rounding can do to the certificate of a kernel machine: bounds, from one number a row.

With u = 2^-53 and the sizes s_i and errors e_i of kernel values (`kernels.rounding`), outputs f = K beta that are sums
of computed values, each term of which is rounded m times, are off by at most

    h_i = s_i ((e_i + m u) sum_j |beta_j| s_j + sum_j |beta_j| s_j e_j),

and z_i = t_i - f_i - b, with the few products that a row's loss is made of, by  a_i = 4 u (|t_i| + |f_i| + |b| + eps_i)
more. The coefficient beta_i(z) that is best for a row grows with z, so that between z - h - a and z + h + a

    the slope of the row's loss is at most         p_i = max |beta_i(z -+ (h_i + a_i))|,
    that of what the row adds to primal - dual     g_i = max |beta_i(z -+ (h_i + a_i)) - beta_i|,

which is zero for most rows near the optimum. The primal objective is then off by sum_i (p_i + |beta_i| / 2) h_i, the
gap by sum_i g_i h_i, and both by terms with a_i and by the share n u of their own size.

Of a linear kernel f_i = x_i'w is computed by way of w = sum_i beta_i x_i, which is off by at most
|dw| <= m u sum_j |beta_j| |x_j|. All outputs then belong to the same wrong w, near which the objective is nearly flat:
P(w + dw) - P(w) is at most |w| |dw| / 2 + sum_i g_i |x_i| |dw|. Beside that only products count, h_i = 2 e_i |x_i| |w|.

Coefficients that do not quite sum up to `total` are no dual point. One of them, moved by what is missing, makes them
one (`cost_of_balance`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin import kernels
from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.kernels.rounding import UNIT_DOUBLE, Digits
from maxmargin.problem.kernel_program import best_coefficient

_DIGITS_LEFT = 0.25  # relative error of values below which their computed sums bound the true ones


def digits_of(problem: Any) -> Digits:
    """Sizes and errors of the problem's kernel values; with a penalised intercept the kernel is k + 1."""
    digits = problem.values.digits
    return digits._replace(size=np.sqrt(digits.size**2 + 1.0)) if problem.penalize_intercept else digits


class OutputErrors(NamedTuple):
    """How far outputs may be off: each on its own, and all of them by a wrong w."""

    own: Array  # h_i
    shared: Array  # |x_i| |dw|
    drift: float  # |w| |dw| / 2

    @property
    def whole(self) -> Array:
        """By how much each output may be off."""
        return self.own + self.shared


def errors_of_outputs(problem: Any, beta: Array, f: Array, *, closely: bool = False) -> OutputErrors:
    """Bounds for f = K beta as computed in float64; see the head of this file.

    Parameters
    ----------
    problem : KernelProblem
    beta, f : ndarray of shape (n_rows,)
    closely : bool
        Whether to compute, where kernel values are positive, the sums of |beta_j| k(x_i, x_j) that they are bounds of:
        another pass over kernel values, and less than sum_j |beta_j| where rows are far from each other.
    """
    digits, support = digits_of(problem), np.flatnonzero(beta)
    spread, error = np.abs(beta[support]) * digits.size[support], digits.error[support]
    total, moved = float(spread.sum()), UNIT_DOUBLE * (problem.values.longest_sum(len(support)) + 8)
    if isinstance(problem.kernel, kernels.Linear) and not problem.penalize_intercept:
        moved *= total
        norm = math.sqrt(max(float(beta @ f), 0.0)) + moved + 2.0 * float(spread @ error)
        return OutputErrors(2.0 * norm * digits.size * digits.error, moved * digits.size, 0.5 * norm * moved)
    own = digits.size * ((digits.error + moved) * total + float(spread @ error))
    if closely and isinstance(problem.kernel, kernels.RBF) and digits.error.max() < _DIGITS_LEFT:
        weights = np.abs(beta[support]) * np.stack([np.ones(len(support)), error])
        sums = problem.values.apply(np.arange(problem.n_rows), support, weights, np.float64)
        own = 1.5 * ((digits.error + moved) * sums[0] + sums[1]) + moved * total * problem.penalize_intercept
    return OutputErrors(own, np.zeros(problem.n_rows), 0.0)


def rounding_error(
    problem: Any, beta: Array, f: Array, b: float, risk: float, gap: float, *, closely: bool = False
) -> tuple[float, float]:
    """By how much the primal objective, and the gap, may be off.

    Parameters
    ----------
    problem : KernelProblem
    beta, f : ndarray of shape (n_rows,)
        Coefficients and their outputs, as computed.
    b : float
    risk, gap : float
        As computed: the sum of the losses, and the sum of what rows add to primal - dual.
    closely : bool
        As of `errors_of_outputs`.
    """
    p, size = problem.program, np.abs(beta)
    if risk == 0.0 and not size.any() and not p.kink.any():  # outputs are exact, and so is the sign of t - b
        return 0.0, 0.0
    off = errors_of_outputs(problem, beta, f, closely=closely)
    in_primal, in_gap = sum_errors(p, beta, f, b, off.own, off.shared)
    in_sums = UNIT_DOUBLE * (problem.n_rows + 8)
    in_primal += off.drift + in_sums * (risk + float(size @ np.abs(f)) + abs(problem.total * b))
    return in_primal, in_gap + in_sums * gap


@compiled
def sum_errors(program, beta, f, b, own, shared):
    """What wrong outputs do to the primal objective and to the gap, but for the drift and the rounding of sums."""
    in_primal, in_gap = 0.0, 0.0
    for i in range(len(beta)):
        kink, lower, upper, D = program.kink[i], program.lower[i], program.upper[i], program.diagonal[i]
        a = 4.0 * UNIT_DOUBLE * (abs(program.target[i]) + abs(f[i]) + abs(b) + kink)
        z, reach, size = program.target[i] - f[i] - b, own[i] + shared[i] + a, abs(beta[i])
        least = best_coefficient(z - reach, kink, lower, upper, D)
        most = best_coefficient(z + reach, kink, lower, upper, D)
        slope, slope_of_gap = max(abs(least), abs(most)), max(most - beta[i], beta[i] - least)
        in_primal += slope * (own[i] + 2.0 * a) + 0.5 * size * own[i] + slope_of_gap * shared[i]
        in_gap += slope_of_gap * reach + (slope + size) * a + UNIT_DOUBLE * D * size * size
    return in_primal, in_gap


def cost_of_balance(problem: Any, beta: Array, f: Array, b: float) -> float:
    """What it costs to make the sum of the coefficients right, by one of them that has room for what is missing."""
    p, support = problem.program, np.flatnonzero(beta)
    missing = problem.total - math.fsum(beta[support].tolist())
    if problem.penalize_intercept or missing == 0.0:
        return 0.0
    cost, j = cost_of_moving(p, beta, f, b, missing)
    curvature = float(digits_of(problem).size[j] ** 2 + p.diagonal[j])
    return cost + 0.5 * missing * missing * curvature


@compiled
def cost_of_moving(program, beta, f, b, missing):
    """What it costs, but for its curvature, to move one coefficient by what is missing: the cheapest, and which."""
    if missing == 0.0:
        return 0.0, 0
    least, j, sign = np.inf, 0, np.sign(missing)
    for i in range(len(beta)):
        new = beta[i] + missing
        if program.lower[i] <= new <= program.upper[i]:
            e = program.target[i] - f[i] - program.diagonal[i] * beta[i]
            kink = program.kink[i] if sign * new > 0.0 else -program.kink[i]
            cost = sign * (b - e) + kink
            if cost < least:
                least, j = cost, i
    return abs(missing) * max(least, 0.0), j
