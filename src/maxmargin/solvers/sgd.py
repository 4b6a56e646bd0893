"""Stochastic gradient descent for linear SVM: one row a step, with Bottou's rates, truncated steps and averaging.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

One row, its loss taken m times, stands for all of the risk. In the scaling of the papers, lambda/2 |w|^2 + 1/m sum_i
phi(t_i) with lambda = 1 / (C m), the step at row i is  w <- (1 - lambda eta_t) w - eta_t phi'(t_i) sign_i x_i  with
eta_t = 1 / (lambda (t + t0)); in ours

    w <- (1 - 1 / (t + t0)) w + m C_i u_i / (t + t0) sign_i x_i,      u_i = -phi'(t_i).                            (1)

Bottou: Large-scale machine learning with stochastic gradient descent, COMPSTAT 2010, and his programs svmsgd2 and
svmasgd. Xu: Towards optimal one pass large scale learning with averaged stochastic gradient descent,
arXiv:1107.2490, 2011. Shamir, Zhang: Stochastic gradient descent for non-smooth optimization, ICML 2013 (the suffix).

Paper -> code: lambda -> lam (in `learn`), eta_t -> eta, t0 -> t0, calibration -> `_calibrated`, wDivisor -> the scale
of `weights.ScaledVector`, the averaged w -> `weights.Average`.

What differs from Bottou's programs, and why:

* Decay is not skipped but lazy: it costs a multiplication a step, so there is nothing to save by skipping it.
* Steps are truncated. (1) may go far beyond the point where the row's loss is zero, if g = m C_i / (t + t0) is large
  beside 1 / |x_i|^2: squared losses then explode (scikit-learn's SGDClassifier does, on the text set below), and the
  hinge throws w about. No loss is negative, so the tangent at t_i is known to be wrong beyond its zero. A step goes
  twice as far at most: u_i <- u_i min(1, 2 phi(t_i) / (g u_i^2 |x_i|^2)), for squared losses just to their least
  value. (Asi, Duchi: The importance of better models in stochastic optimization, PNAS 116, 2019, stop at the zero;
  twice the way took 8 passes instead of 9 to 1 % on text, 20 instead of 34 on 20news.) One rule serves all losses, and
  no row of large weight or norm can do harm. Without it, and with the same t0, averages of a9a were three times as far
  from the optimum after a pass, and thirty times with t0 ten times smaller.
* t0 is a power of two times sum_i C_i |x_i|^2. The power is found as Bottou does, by a pass over a sample of 1000 rows
  for each, up or down as long as the objective on the sample falls.
* The answer is an average of about the last third of all steps: see `weights.is_milestone`. On text, 20news, a9a and
  covtype the last quarter was best after 4 to 16 passes, and the last half up to 1.3 times as far from the optimum.
  svmasgd averages from the second pass on, with rates that fall as t^-3/4.
* A pass visits neighbours close to one another in time: groups of four are put in random order, and then the rows of
  128 groups. Rows are fetched from memory group by group while those before are being visited. A pass over text takes
  75 % of the time that a wholly random order does, over covtype 60 %, where it also costs a few passes, since its
  neighbours are alike.

The certificate. A row's mean u_i over some of its visits, times C_i, is a feasible alpha_i whatever w was when it was
visited, as the domain of phi* is an interval. Candidates, and by how much D(alpha) was below the optimum after 1, 4 and
16 passes, beside P above it (hinge, C = 1, in % of the optimum):

                                            a9a               text            covtype
                                        1    4   16       1    4   16       1    4   16
    P of the answer                   .75  .44  .29      15  2.4  .40     .66  .54  .25
    D: u of all visits, to which
       the last w belongs              97   89   66      38   14  4.1      92   75   44
    D: u of the last half of them      57   12  7.5      25  4.7  .38      18   12  7.9
    D: the slopes at the answer         -    -    -      38   10  2.9       -    -    -

("-": below zero.) So the last half it is. On text its error falls as 1 / t^2, that of P as 1 / t: soon P is all that
the gap is about. On dense data with few features it is the other way round: the answer is good after a pass, but the
bound that would prove it lags far behind.

Passes and seconds of processor time (one thread, calibration included, certificates not) until P is within 10, 1 and
0.1 % of its least value (hinge, C = 1; SGDClassifier is scikit-learn's with tol=None; "-": not in 32 passes):

                             text, 200k x 50k               a9a              covtype        20news.binary
    SGD()                 2 .18   8 .68  63 5.6     1 .003   1 .003     1 .08   1 .08     3 .24  20 1.2
    SGD(average=True)     2 .18  14 1.2             1 .003   1 .003     1 .07   1 .07
    SGD(average=False)    2 .16  12 .87             1 .003    -         4 .27    -        4 .21    -
    Pegasos()             2 .21   9 .81  64 5.9    10 .023    -         4 .30  16 1.2     5 .36  32 2.0
    SGDClassifier         3 .42  12 1.5                                                   6 .25  48 1.7

A pass over text takes 85 ms, 75 without the average, and SGDClassifier's 121; over 20news.binary, where w is too long
for the caches, 74 and 40 against 41.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import kernel, lean_kernel, prefetch
from maxmargin._random import random_stream, shuffle
from maxmargin.losses import Loss, argument, derivative, sign, value
from maxmargin.problem import Problem
from maxmargin.rows import Array, Rows, n_rows, n_weights, prefetch_row, row_dot, squared_norms
from maxmargin.solvers._in_passes import InPasses
from maxmargin.solvers.base import weights_to_start_at
from maxmargin.solvers.dual_cd import _all_rows
from maxmargin.weights import (
    Average,
    ScaledVector,
    average_of,
    averaged_add,
    averaged_decay,
    dense,
    include,
    new_average,
    restart,
    scaled_dot,
    scaled_vector,
    widened_average,
    widened_vector,
)

_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_NEIGHBOURS = 4  # rows that are fetched together
_MIXED = 512  # rows, of many such groups, whose order is random
_SAMPLE = 1000  # rows that t0 is calibrated on
_OCTAVES = 20  # by which t0 may be changed at most, up or down
_AVERAGES = ("suffix", True, False)


class Course(NamedTuple):
    """Where the method is."""

    t0: float
    passes: int  # that are over
    position: int  # in the order of this pass
    window: int  # passes over which `slopes` has been summed
    window_before: int  # and `slopes_before`
    next_certificate: int  # after so many passes


class SGDState(NamedTuple):
    """What moves in SGD."""

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates
    slopes: Array  # sum of -phi'(t_i) over the visits of each row in this window, as steps were truncated
    slopes_before: Array  # the same of the window before
    order: Array  # of the rows in this pass
    ahead: Array  # the order in which they are fetched
    stream: Array  # of random numbers
    course: Course

    @property
    def w(self) -> Array:
        """The answer: the average, if there is one, or the last iterate."""
        return average_of(self.x, self.average)


@dataclass(frozen=True)
class SGD(InPasses):
    """Stochastic gradient descent: a rough answer after a pass or two, at the price of reading the data.

    Parameters
    ----------
    average : {"suffix", True, False}
        The answer is the average of about the last third of all steps, of all of them, or the last iterate.
    t0 : float, optional
        The rate is 1 / (lambda (t + t0)); None: calibrated on a sample of the rows.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=SGD(), tol=1e-2)
    >>> result.certificate.relative_gap <= 1e-2
    True
    """

    average: str | bool = "suffix"
    t0: float | None = None

    name: ClassVar[str] = "sgd"
    losses: ClassVar[tuple[type, ...]] = (*losses.MARGIN_LOSSES, *losses.RESIDUAL_LOSSES)
    accuracy: ClassVar[float] = 2e-3

    def __post_init__(self) -> None:
        if self.average not in _AVERAGES:
            raise ValueError(f'average must be "suffix", True or False; got {self.average!r}')
        if self.t0 is not None and not 0.0 <= self.t0 < math.inf:
            raise ValueError(f"t0 must be a number of steps, 0 or more, or None; got {self.t0!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> SGDState:
        """Start at w = 0, or at the w of another state; calibrate t0, unless it is given or known from there."""
        w, order, stream = weights_to_start_at(problem, start), _all_rows(problem), random_stream(seed)
        t0 = self.t0
        if t0 is None and isinstance(start, SGDState):  # the rates go on where they were
            t0 = start.course.t0 + start.course.passes * len(start.order) + start.course.position
        elif t0 is None:
            t0 = _calibrated(problem, w, order, stream)
        return SGDState(
            x=scaled_vector(w),
            average=new_average(len(w)),
            slopes=np.zeros(problem.n_rows),
            slopes_before=_slopes_to_start_with(problem, start),
            order=order,
            ahead=order.copy(),
            stream=stream,
            course=Course(float(t0), 0, 0, 0, int(start is not None), 1),
        )

    def _averages_suffix(self) -> bool:
        return self.average == "suffix"

    def _new_order(self, problem: Problem, state: SGDState) -> None:
        mix(_all_rows(problem), state.order, state.ahead, state.stream)

    def _run(self, problem: Problem, state: SGDState, course: Course, n: int, visits: int) -> Course:
        end = course.position + n
        _steps(
            (problem.rows, problem.y, problem.cost, problem.norms2, problem.loss),
            (state.x, state.average, state.slopes, self.average is not False),
            (state.order, state.ahead, course.position, end),
            (visits + course.t0, float(len(state.order))),
        )
        return course._replace(position=end)

    def _windows(self, state: SGDState) -> list[tuple[Array, Array]]:
        return [(state.slopes_before, state.slopes)]

    def _dual_point(self, problem: Problem, state: SGDState) -> Array:
        return dual_point(problem, state)


def dual_point(problem: Problem, state: SGDState) -> Array:
    """C_i times the mean of -phi'(t_i) over the visits of row i in the windows that the average is of."""
    course = state.course
    visits = np.full(problem.n_rows, course.window)
    visits[state.order[: course.position]] += 1
    total = state.slopes
    if course.window < course.window_before:
        total, visits = total + state.slopes_before, visits + course.window_before
    return problem.cost * (total / np.maximum(visits, 1))


def _slopes_to_start_with(problem: Problem, start: Any) -> Array:
    """What is known of -phi'(t_i) where a run begins: the dual point of its start, in units of C_i."""
    if start is None:
        return np.zeros(problem.n_rows)
    if isinstance(start, SGDState) and len(start.slopes) == problem.n_rows:
        alpha = dual_point(problem, start)
    else:
        alpha = problem.dual_point(start.w)
    return np.divide(alpha, problem.cost, out=np.zeros(problem.n_rows), where=problem.cost > 0.0)


# ---------------------------------------------------------------- t0


def _calibrated(problem: Problem, w: Array, order: Array, stream: Array) -> float:
    """The t0 with which a pass over a sample ends lowest, among powers of two times sum_i C_i |x_i|^2."""
    unit = float(np.sum(problem.cost[order] * problem.norms2[order]))
    if unit == 0.0:
        return 0.0
    rows = order.copy()
    shuffle(rows, len(rows), stream)
    sample = rows[:_SAMPLE]

    data = problem.rows, problem.y, problem.cost, problem.norms2, problem.loss
    visit = sample, sample, 0, len(sample)

    def objective(octave: int) -> float:
        x = scaled_vector(w)
        _steps(data, (x, new_average(0), np.zeros(0), False), visit, (unit * 2.0**octave, float(len(order))))
        there = dense(x)
        return 0.5 * float(there @ there) + len(order) / len(sample) * _risk_of(data, sample, there)

    best, octave = objective(0), 0
    for direction in (1, -1):
        while abs(octave) < _OCTAVES:
            other = objective(octave + direction)
            if not other < best * (1.0 - 1e-6):
                break
            best, octave = other, octave + direction
        if octave != 0:
            break
    return unit * 2.0**octave


@lean_kernel
def _risk_of(data, sample, w):
    rows, y, cost, _, loss = data
    total = 0.0
    for k in range(len(sample)):
        i = np.int64(sample[k])
        total += cost[i] * value(loss, argument(loss, row_dot(rows, i, w), y[i]))
    return total


# ---------------------------------------------------------------- the steps


def mix(rows: Array, order: Array, ahead: Array, stream: Array) -> None:
    """A new random order of the rows, and the order in which to fetch them."""
    groups = np.arange(-(-len(rows) // _NEIGHBOURS)).astype(np.uint32)
    _mix(rows, order, ahead, groups, stream)


@kernel
def _mix(rows, order, ahead, groups, stream):
    n = len(rows)
    if n > _MIXED:
        shuffle(groups, len(groups), stream)
    k = 0
    for g in range(len(groups)):
        first = np.int64(groups[g]) * _NEIGHBOURS
        for j in range(_NEIGHBOURS):
            if first + j < n:
                ahead[k] = rows[first + j]
                order[k] = rows[first + j]
                k += 1
    for begin in range(0, n, _MIXED):
        some = order[begin : min(n, begin + _MIXED)]
        shuffle(some, len(some), stream)


@lean_kernel
def _steps(data, moving, visit, clock):
    """(1) for the rows order[begin:end]; `clock` is t + t0 before, and m."""
    rows, y, cost, norms2, loss = data
    x, average, slopes, is_averaged = moving
    order, ahead, begin, end = visit
    t, m = clock
    keeps_slopes = len(slopes) > 0
    for k in range(begin, end):
        if k + _MIXED < len(ahead):  # from memory, row by row as they lie there
            far = np.int64(ahead[k + _MIXED])
            prefetch_row(rows, far)
            prefetch(y, far)
            prefetch(cost, far)
            prefetch(norms2, far)
            if keeps_slopes:
                prefetch(slopes, far)
        if k + _LOOKAHEAD < end:  # from the outer caches
            prefetch_row(rows, np.int64(order[k + _LOOKAHEAD]))
        i = np.int64(order[k])
        t += 1.0
        eta = 1.0 / t
        z = scaled_dot(rows, i, x)
        rate = m * cost[i] * eta
        slope = truncated_slope(loss, argument(loss, z, y[i]), rate, norms2[i])
        kept = 1.0 - eta
        averaged_decay(x, average, kept)
        if slope != 0.0:
            if keeps_slopes:
                slopes[i] += slope
            averaged_add(rows, i, rate * slope * sign(loss, y[i]), x, average, kept * z, norms2[i])
        if is_averaged:
            include(x, average, 1.0)


@kernel
def truncated_slope(loss, t, rate, norm2):
    """u = -phi'(t), or as much of it as makes a step rate u x end twice as far as where the tangent of phi is zero."""
    slope = derivative(loss, t)
    if slope == 0.0:
        return 0.0
    left, change = 2.0 * value(loss, t), rate * slope * slope * norm2
    return -slope * (left / change) if change > left else -slope


# ---------------------------------------------------------------- one row after the other, as they come

_T, _NORMS, _NEXT, _AFTER = range(4)  # of OnlineState.numbers
_GIANT = 4.0  # times the mean: the most that a row's weight |x|^2 counts for


class OnlineState(NamedTuple):
    """What SGD knows after the rows that it has seen: as long as w, however many they were.

    Its arrays are changed in place by `learn`; copy them to keep a state.
    """

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates, restarted at milestones
    numbers: Array  # t; sum of weight |x|^2; the t of the next two restarts

    @property
    def w(self) -> Array:
        """The answer: the mean of about the last third of the iterates."""
        return average_of(self.x, self.average)

    @property
    def last(self) -> Array:
        """The last iterate."""
        return dense(self.x)

    @property
    def t(self) -> int:
        """Steps so far: rows seen whose weight was not zero."""
        return int(self.numbers[_T])


def new_online_state(n_weights: int) -> OnlineState:
    """The state before the first row; `n_weights` includes the intercept's, if there is one."""
    return OnlineState(scaled_vector(np.zeros(n_weights)), new_average(n_weights), np.array([0.0, 0.0, 2.0, 3.0]))


def widened_state(state: OnlineState, n_weights: int, *, keep_last: bool = False) -> OnlineState:
    """The same state for more features; with `keep_last` the last weight is an intercept's and stays the last."""
    x = widened_vector(state.x, n_weights, keep_last=keep_last)
    average = widened_average(state.average, n_weights, keep_last=keep_last)
    return OnlineState(x, average, state.numbers.copy())


def learn(
    rows: Rows,
    y: Array,
    weight: Array,
    loss: Loss,
    state: OnlineState,
    lam: float,
    norms2: Array | None = None,
) -> OnlineState:
    """Visit rows once, in the order in which they come, and go on with the state in place.

    The objective is lambda/2 |w|^2 + mean_i weight_i phi(t_i). Rows given one by one, in chunks or all at once lead
    to the same bits; a row of weight zero changes nothing.

    Parameters
    ----------
    rows : Dense or CSR
        From `rows.as_rows`, which checks them.
    y, weight : ndarray of float64, shape (n_rows,)
        Labels -1 and +1 (or targets), and factors of the loss, zero or more.
    loss : loss object
    state : OnlineState
        From `new_online_state`, of as many weights as the rows ask for (`widened_state`).
    lam : float
        lambda, positive: 1 / (C m) for m rows in all.
    norms2 : ndarray, optional
        The rows' squared lengths, if they are known: `as_rows` returns them.

    Returns
    -------
    OnlineState
        To go on with; its `w` is the answer so far.

    Examples
    --------
    >>> from maxmargin import losses
    >>> from maxmargin.rows import as_rows
    >>> rows, norms2 = as_rows(np.array([[2.0, 1.0], [-1.0, -1.0]]))
    >>> state = learn(rows, np.array([1.0, -1.0]), np.ones(2), losses.Hinge(), new_online_state(2), 0.1, norms2)
    >>> state.t
    2
    """
    if not 0.0 < lam < np.inf:
        raise ValueError(f"lambda must be a positive finite number, got {lam!r}")
    if len(state.x.v) != n_weights(rows):
        raise ValueError(f"the rows ask for {n_weights(rows)} weights but the state has {len(state.x.v)}: widen it")
    if not len(y) == len(weight) == n_rows(rows):
        raise ValueError(f"{n_rows(rows)} rows, but {len(y)} labels and {len(weight)} weights")
    if norms2 is None:
        norms2 = squared_norms(rows)
    _learn((rows, y, weight, norms2, loss), state, float(lam))
    return state


@lean_kernel
def _learn(data, state, lam):
    """(1) in the papers' scaling, with lambda t0 = mean of weight |x|^2 over the rows so far."""
    rows, y, weight, norms2, loss = data
    x, average, numbers = state
    n = len(y)
    for i in range(n):
        if i + _LOOKAHEAD < n:
            prefetch_row(rows, i + _LOOKAHEAD)
        if weight[i] == 0.0:
            continue
        norm = weight[i] * norms2[i]
        if numbers[_NORMS] > 0.0:  # one giant must not make all steps small for good
            norm = min(norm, _GIANT * numbers[_NORMS] / numbers[_T])
        numbers[_NORMS] += norm
        t = numbers[_T] + 1.0
        numbers[_T] = t
        eta = 1.0 / (lam * t + numbers[_NORMS] / t)
        z = scaled_dot(rows, i, x)
        rate = eta * weight[i]
        slope = truncated_slope(loss, argument(loss, z, y[i]), rate, norms2[i])
        kept = max(0.0, 1.0 - eta * lam)
        averaged_decay(x, average, kept)
        if slope != 0.0:
            averaged_add(rows, i, rate * slope * sign(loss, y[i]), x, average, kept * z, norms2[i])
        include(x, average, 1.0)
        if t == numbers[_NEXT]:  # 2, 3, 4, 6, 8, 12, ...
            restart(x, average)
            numbers[_NEXT], numbers[_AFTER] = numbers[_AFTER], 2.0 * t
