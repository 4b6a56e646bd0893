"""Stochastic gradient descent for linear SVM: one row a step, with Bottou's rates, truncated steps and averaging.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

One row, its loss taken m times, stands for all of the risk. In the scaling of the papers, lambda/2 |w|^2 + 1/m sum_i
phi(t_i) with lambda = 1 / (C m), the step at row i is  w <- (1 - lambda eta_t) w - eta_t phi'(t_i) sign_i x_i  with
eta_t = 1 / (lambda (t + t0)); in ours

    w <- (1 - 1 / (t + t0)) w + m C_i u_i / (t + t0) sign_i x_i,      u_i = -phi'(t_i).                            (1)

Bottou: Large-scale machine learning with stochastic gradient descent, COMPSTAT 2010, and his programs svmsgd2 and
svmasgd. Xu: Towards optimal one pass large scale learning with averaged stochastic gradient descent,
arXiv:1107.2490, 2011. Shamir, Zhang: Stochastic gradient descent for non-smooth optimization, ICML 2013 (the suffix).

Paper -> code: eta_t -> eta, t0 -> t0, calibration -> `_calibrated`, wDivisor -> the scale of `weights.ScaledVector`,
the averaged w -> `weights.Average`.

What differs by default from Bottou's programs, and why (the solver "svmsgd2" is the program of 2007, which the OCAS
paper compares with: ``SGD(truncated=False, average=False, t0="typical")``):

* Decay is not skipped but lazy: it costs a multiplication a step, so there is nothing to save by skipping it.
* Steps are truncated. (1) may go far beyond the point where the row's loss is zero, if g = m C_i / (t + t0) is large
  beside 1 / |x_i|^2: squared losses then explode, and the hinge throws w about. No loss is negative, so the tangent at
  t_i is known to be wrong beyond its zero. A step goes twice as far at most:
  u_i <- u_i min(1, 2 phi(t_i) / (g u_i^2 |x_i|^2)), for squared losses just to their least value. (Asi, Duchi: The
  importance of better models in stochastic optimization, PNAS 116, 2019, stop at the zero.)
* t0 is a power of two times sum_i C_i |x_i|^2, found by passes over a sample as his later programs do. That of 2007
  has t0 = 1 / (lambda eta_0) with eta_0 = a / max(1, -phi'(-a)) and a = lambda^(-1/4), "a typical weight".
* The answer is an average of about the last third of all steps (`weights.is_milestone`), the dual point one of the
  slopes of about the last half (`averaged`), and rows come in the mixed order of `visits`.

What else was tried, and figures: papers/stochastic/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import compiled_lean, prefetch
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, prefetch_row
from maxmargin.losses import argument, derivative, sign
from maxmargin.problem import Problem
from maxmargin.solvers.base import weights_to_start_at
from maxmargin.solvers.stochastic.averaged import AveragedSolver, Window, first_windows
from maxmargin.solvers.stochastic.calibration import SAMPLE, best_power, sampled_objective
from maxmargin.solvers.stochastic.truncation import truncated_slope
from maxmargin.solvers.stochastic.weights import (
    Average,
    ScaledVector,
    average_of,
    averaged_add,
    averaged_decay,
    dense,
    include,
    new_average,
    scaled_dot,
    scaled_vector,
)
from maxmargin.solvers.visits import LOOKAHEAD, MIXED, Visits, examples, mix_rows, new_visits, prefetch_example

_AVERAGES = ("suffix", True, False)
_LEAST_GAIN = 1e-6  # share of the objective by which a larger or smaller t0 must be better


class SGDState(NamedTuple):
    """What moves in SGD."""

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates
    now: Window  # of slopes, as steps were truncated
    before: Window
    visits: Visits
    t0: float

    @property
    def w(self) -> Array:
        """The answer: the average, if there is one, or the last iterate."""
        return average_of(self.x, self.average)


@dataclass(frozen=True)
class SGD(AveragedSolver):
    """Stochastic gradient descent: a rough answer after a pass or two, at the price of reading the data.

    Parameters
    ----------
    average : {"suffix", True, False}
        The answer is the average of about the last third of all steps, of all of them, or the last iterate.
    t0 : float or "typical", optional
        The rate is 1 / (lambda (t + t0)); None: calibrated on a sample of the rows; "typical": by svmsgd2's formula.
    truncated : bool
        Whether steps end where the tangent of the row's loss promises less than nothing; see above.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=SGD(), tol=1e-2)
    >>> result.certificate.relative_gap <= 1e-2
    True
    """

    average: str | bool = "suffix"
    t0: float | str | None = None
    truncated: bool = True

    name: ClassVar[str] = "sgd"
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    accuracy: ClassVar[float] = 2e-3

    def __post_init__(self) -> None:
        if self.average not in _AVERAGES:
            raise ValueError(f'average must be "suffix", True or False; got {self.average!r}')
        if self.t0 in (None, "typical"):
            return
        if isinstance(self.t0, str) or not 0.0 <= self.t0 < math.inf:
            raise ValueError(f't0 must be a number of steps, 0 or more, "typical" or None; got {self.t0!r}')

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> SGDState:
        """Start at w = 0, or at the w of another state; calibrate t0, unless it is given or known from there."""
        w, visits = weights_to_start_at(problem, start), new_visits(problem, new_rng(seed))
        t0 = self.t0
        if t0 is None and isinstance(start, SGDState):  # the rates go on where they were
            t0 = start.t0 + start.visits.count
        elif t0 is None:
            t0 = _calibrated(problem, w, visits, self.truncated)
        elif t0 == "typical":
            t0 = _typical(problem)
        now, before = first_windows(problem, start)
        visits = self._new_order(problem, visits)
        return SGDState(scaled_vector(w), new_average(len(w)), now, before, visits, float(t0))

    def _averages_suffix(self) -> bool:
        return self.average == "suffix"

    def _new_order(self, problem: Problem, visits: Visits) -> Visits:
        return mix_rows(problem, visits)

    def _run(self, problem: Problem, state: SGDState, n: int) -> SGDState:
        _steps(examples(problem), state, n, float(state.visits.n_rows), self.average is not False, self.truncated)
        return state._replace(visits=state.visits.advanced(n))


def _typical(problem: Problem) -> float:
    """t0 = 1 / (lambda eta_0), with the first rate that suits rows of length one and weights of a typical size."""
    lam = 1.0 / float(np.sum(problem.cost))
    weight = lam**-0.25
    return max(1.0, -float(derivative(problem.loss, -weight))) / (weight * lam)


def _calibrated(problem: Problem, w: Array, visits: Visits, truncated: bool) -> float:
    """The t0 with which a pass over a sample ends lowest, among powers of two times sum_i C_i |x_i|^2."""
    unit = float(np.sum(problem.cost[visits.order] * problem.norms2[visits.order]))
    if unit == 0.0:
        return 0.0
    rows = visits.order.copy()
    shuffle(rows, len(rows), visits.rng)
    sample, none = rows[:SAMPLE], Window(np.zeros(0), np.zeros(0))
    trial = visits._replace(order=sample, ahead=sample)

    def objective(power: int) -> float:
        state = SGDState(scaled_vector(w), new_average(0), none, none, trial, unit * 2.0**power)
        _steps(examples(problem), state, len(sample), float(len(rows)), False, truncated)
        return sampled_objective(problem, sample, dense(state.x))

    return unit * 2.0 ** best_power(objective, _LEAST_GAIN)


@compiled_lean
def _steps(data, state, n, m, is_averaged, is_truncated):
    """(1) for the next n rows of this pass."""
    x, average, slopes, visits = state.x, state.average, state.now.slopes, state.visits
    t, begin, end = state.t0 + visits.count, visits.position, visits.position + n
    keeps_slopes = len(slopes) > 0
    for k in range(begin, end):
        if k + MIXED < len(visits.ahead):  # from memory, row by row as they lie there
            far = np.int64(visits.ahead[k + MIXED])
            prefetch_example(data, far)
            if keeps_slopes:
                prefetch(slopes, far)
        if k + LOOKAHEAD < end:  # from the outer caches
            prefetch_row(data.rows, np.int64(visits.order[k + LOOKAHEAD]))
        i = np.int64(visits.order[k])
        t += 1.0
        eta = 1.0 / t
        z = scaled_dot(data.rows, i, x)
        rate = m * data.cost[i] * eta
        arg = argument(data.loss, z, data.y[i])
        slope = truncated_slope(data.loss, arg, rate, data.norms2[i]) if is_truncated else -derivative(data.loss, arg)
        kept = 1.0 - eta
        averaged_decay(x, average, kept)
        if slope != 0.0:
            if keeps_slopes:
                slopes[i] += slope
            averaged_add(data.rows, i, rate * slope * sign(data.loss, data.y[i]), x, average, kept * z, data.norms2[i])
        if is_averaged:
            include(x, average, 1.0)
