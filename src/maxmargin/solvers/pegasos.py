"""Pegasos: primal estimated sub-gradient steps, with a rate that needs no tuning.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

Step t takes k of the m rows, the batch B, for all of them:

    w <- (1 - 1/t) w + 1/t m/k sum_{i in B} C_i u_i sign_i x_i,      u_i = -phi'(t_i)                              (1)
    w <- w min(1, sqrt(P(0)) / |w|)                                  if `project`                                  (2)

Shalev-Shwartz, Singer, Srebro: Pegasos: primal estimated sub-gradient solver for SVM, ICML 2007; with Cotter:
Mathematical Programming 127, 2011. The paper's objective is lambda/2 |w|^2 + 1/m sum_i phi(t_i), lambda = 1 / (C m),
its rate 1 / (lambda t), its ball |w| <= 1 / sqrt(lambda): in our scaling that is (1) and (2). (Why P(0): where P(w) is
D(alpha), |w|^2 = sum_i -C_i phi*(-alpha_i / C_i) + alpha_i target_i - C_i phi(t_i), and by Fenchel and Young at w = 0
this is P(0) at most, for any loss. For the hinge P(0) = sum_i C_i, as in the paper.)

Paper -> code: A_t -> order[first:last], A_t^+ -> the rows with u_i != 0, eta_t -> eta, k -> batch, T -> max_iter m/k.

What differs from the paper, and why:

* Batches are drawn without replacement, in a new random order for every pass, mixed as in `sgd`. With replacement
  (`replacement=True`, as in the paper) it took four times as many passes to 1 % on text.
* The gradients of squared losses have no bound, and with rates as large as those of the first steps w would explode.
  The slope of such a row is truncated as in `sgd`. The step of a batch is the mean of the steps that its rows would
  make alone, so it is as safe as they are.
* The answer may be the last iterate, an average of all, or of about the last third (`weights.is_milestone`).
* Certificates are made as in `sgd`, from each row's mean slope over the last half of all visits.

The survey of Menon (2009), algorithm 2, divides by the number of rows with a loss instead of by k. What is minimised
is not P then.

Threads. A batch that is large enough is divided into blocks that depend on the data alone, whose sums are added in
order: the same bits for any number of threads. A sum is as long as w, so a batch has to have many more values than w
has weights. Do not expect much of it: eight passes over 200k x 54 dense values with batch=20000 took .15 s on one
thread and .16 s on two, and their P was forty times that of eight passes with batch=1. There is no lock-free mode
(Hogwild): its answers would differ from run to run, and one thread is bound by memory already.

By how many % of its least value P was above it after 1, 4 and 16 passes (hinge, C = 1); figures of time are in `sgd`:

                                              text             a9a            covtype
    Pegasos()                             28  3.2  .46     590   36  4.4     230  6.3  .81
    Pegasos(project=False)                68  3.2  .45    1900   36  4.3     480  6.3  .81
    Pegasos(project=False, iterate="last")
                                          32  4.6  .66     250   88   22     110   53   15
    Pegasos(project=False, replacement=True)
                                          79  8.3  2.3    1300   37  4.6
    Pegasos(project=False, batch=16)      68  3.2  .45    7800   74  8.0
    SGD()                                 15  2.4  .40     .75  .44  .29     .66  .54  .25

Rates that need no tuning have their price: the first steps are as long as m C |x|, and what they did to w is forgotten
no faster than 1/t. On a9a and covtype, whose rows are long beside 1 / sqrt(C m), `sgd` has a better answer after one
pass than Pegasos after twenty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import kernel, lean_kernel, prefetch
from maxmargin._random import random_below, random_stream
from maxmargin.losses import SquaredEpsilonInsensitive, SquaredError, SquaredHinge, argument, derivative, sign
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.rows import Array, add_row, n_stored, prefetch_row, row_dot
from maxmargin.solvers._in_passes import InPasses
from maxmargin.solvers.base import Goal, Report, weights_to_start_at
from maxmargin.solvers.dual_cd import _all_rows
from maxmargin.solvers.sgd import _MIXED, mix, truncated_slope
from maxmargin.weights import (
    Average,
    ScaledVector,
    average_of,
    averaged_add,
    averaged_add_vector,
    averaged_decay,
    dense,
    include,
    new_average,
    scaled_dot,
    scaled_norm2,
    scaled_vector,
)

_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_PART = 1 << 17  # stored values that are worth a thread
_ITERATES = ("last", "average", "suffix")
_UNBOUNDED = (SquaredHinge, SquaredError, SquaredEpsilonInsensitive)


class Window(NamedTuple):
    """Sums over the visits of each row, from which the dual point is made."""

    slopes: Array  # of u_i
    visits: Array


class Course(NamedTuple):
    """Where the method is."""

    t: float  # of the step before
    passes: int  # that are over
    position: int  # in the order of this pass
    window: int  # passes of the present window that are over
    window_before: int  # and of the one before
    next_certificate: int  # after so many passes


class PegasosState(NamedTuple):
    """What moves in Pegasos."""

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates
    now: Window
    before: Window
    order: Array  # of the rows in this pass
    ahead: Array  # the order in which they are fetched
    stream: Array  # of random numbers
    radius2: float  # of the ball that the optimum is in
    course: Course

    @property
    def w(self) -> Array:
        """The answer: an average, if there is one, or the last iterate."""
        return average_of(self.x, self.average)


@dataclass(frozen=True)
class Pegasos(InPasses):
    """Pegasos: sub-gradient steps by batches of rows, whose rate depends on nothing but the number of steps.

    Parameters
    ----------
    batch : int
        Rows of a step, k.
    project : bool
        Keep w in the ball that the optimum is in. For batches of several rows this costs an inner product each.
    iterate : {"suffix", "average", "last"}
        The answer: the average of about the last third of all steps, of all of them, or the last iterate.
    replacement : bool
        Draw each row from all rows, instead of going through all of them in random order.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=Pegasos(), tol=1e-2)
    >>> result.certificate.relative_gap <= 1e-2
    True
    """

    batch: int = 1
    project: bool = True
    iterate: str = "suffix"
    replacement: bool = False

    name: ClassVar[str] = "pegasos"
    losses: ClassVar[tuple[type, ...]] = (*losses.MARGIN_LOSSES, *losses.RESIDUAL_LOSSES)
    accuracy: ClassVar[float] = 2e-3

    def __post_init__(self) -> None:
        if not (isinstance(self.batch, int | np.integer) and self.batch >= 1):
            raise ValueError(f"batch must be a whole number of rows, 1 or more; got {self.batch!r}")
        if self.iterate not in _ITERATES:
            raise ValueError(f'iterate must be "suffix", "average" or "last"; got {self.iterate!r}')

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> PegasosState:
        """Start at w = 0, or at the w of another state, which then counts as much as a pass over the data."""
        w, order = weights_to_start_at(problem, start), _all_rows(problem)
        t = 0.0 if start is None else float(-(-len(order) // self.batch))
        if isinstance(start, PegasosState):
            t = start.course.t
        return PegasosState(
            x=scaled_vector(w),
            average=new_average(len(w)),
            now=_new_window(problem),
            before=_window_to_start_with(problem, start),
            order=order,
            ahead=order.copy(),
            stream=random_stream(seed),
            radius2=problem.primal(np.zeros(len(w))),
            course=Course(t, 0, 0, 0, int(start is not None), 1),
        )

    def _averages_suffix(self) -> bool:
        return self.iterate == "suffix"

    def _new_order(self, problem: Problem, state: PegasosState) -> None:
        rows = _all_rows(problem)
        if self.replacement:
            _draw(rows, state.order, state.stream)
            state.ahead[:] = state.order
        else:
            mix(rows, state.order, state.ahead, state.stream)

    def _run(self, problem: Problem, state: PegasosState, course: Course, n: int, visits: int) -> Course:
        """Whole batches."""
        n_batches = -(-n // self.batch)
        end = min(len(state.order), course.position + n_batches * self.batch)
        self._steps(problem, state, course, end)
        return course._replace(t=course.t + n_batches, position=end)

    def _steps(self, problem: Problem, state: PegasosState, course: Course, end: int) -> None:
        """(1) and (2) for batch after batch, up to `end`."""
        data = problem.rows, problem.y, problem.cost, problem.norms2, problem.loss
        moving = state.x, state.average, state.now, self.iterate != "last"
        options = isinstance(problem.loss, _UNBOUNDED), state.radius2 if self.project else math.inf
        m, size, n_blocks = float(len(state.order)), min(self.batch, len(state.order)), self._n_blocks(problem)
        slopes = np.empty(size)
        if n_blocks == 1:
            visit = state.order, state.ahead, course.position, end
            _small_batches(data, moving, visit, (course.t, m, size), options, slopes)
            return
        for t, begin in enumerate(range(course.position, end, size), start=1):
            batch = state.order[begin : min(end, begin + size)]
            clock = course.t + t, m
            borders = np.linspace(0, len(batch), n_blocks + 1).astype(np.int64)
            w = dense(state.x)

            def block(lo: int, hi: int, w: Array = w, batch: Array = batch, clock: Any = clock) -> Array:
                g = np.zeros(len(w))
                _add_block(data, w, batch, (lo, hi), clock, options[0], slopes, g)
                return g

            total, *others = map_blocks(block, borders, problem.n_jobs)
            for g in others:
                total += g
            _large_batch(moving, batch, slopes, total, clock, options[1])

    def _n_blocks(self, problem: Problem) -> int:
        """Into how many blocks a batch is divided: as many as are worth a thread, and a sum as long as w each."""
        work = min(self.batch, problem.n_rows) * (n_stored(problem.rows) / problem.n_rows)
        return max(1, min(8, int(work / max(_PART, 4 * problem.n_weights))))

    def _windows(self, state: PegasosState) -> list[tuple[Array, Array]]:
        return list(zip(state.before, state.now, strict=True))

    def _dual_point(self, problem: Problem, state: PegasosState) -> Array:
        return dual_point(problem, state)

    def report(self, problem: Problem, state: PegasosState, goal: Goal) -> Report:
        """As of all methods that go in passes, and the number of steps."""
        return super().report(problem, state, goal)._replace(counters={"steps": state.course.t})


def dual_point(problem: Problem, state: PegasosState) -> Array:
    """C_i times the mean of u_i over the visits of row i in the windows that the average is of."""
    slopes, visits = state.now
    if state.course.window < state.course.window_before:
        slopes, visits = slopes + state.before.slopes, visits + state.before.visits
    return problem.cost * (slopes / np.maximum(visits, 1.0))


def _new_window(problem: Problem) -> Window:
    return Window(np.zeros(problem.n_rows), np.zeros(problem.n_rows))


def _window_to_start_with(problem: Problem, start: Any) -> Window:
    """The dual point of the state that a run begins at, as if it were the slopes of one visit."""
    if start is None:
        return _new_window(problem)
    if isinstance(start, PegasosState) and len(start.now.slopes) == problem.n_rows:
        alpha = dual_point(problem, start)
    else:
        alpha = problem.dual_point(start.w)
    slopes = np.divide(alpha, problem.cost, out=np.zeros(problem.n_rows), where=problem.cost > 0.0)
    return Window(slopes, np.ones(problem.n_rows))


# ---------------------------------------------------------------- the steps


@kernel
def _draw(rows, order, stream):
    """Fill `order` with rows, each drawn from all."""
    for k in range(len(order)):
        order[k] = rows[random_below(stream, len(rows))]


@kernel
def _slope(loss, t, rate, norm2, is_truncated):
    """u = -phi'(t); where phi' has no bound, as much of it as makes the row's own step safe."""
    return truncated_slope(loss, t, rate, norm2) if is_truncated else -derivative(loss, t)


@kernel
def _project(x, average, radius2):
    """(2)."""
    if scaled_norm2(x) > radius2:
        averaged_decay(x, average, np.sqrt(radius2 / scaled_norm2(x)))


@lean_kernel
def _small_batches(data, moving, visit, clock, options, slopes):
    """(1) and (2) row by row."""
    rows, y, cost, norms2, loss = data
    x, average, window, is_averaged = moving
    order, ahead, begin, end = visit
    t, m, size = clock
    is_truncated, radius2 = options
    far = _MIXED if len(order) > _MIXED else _LOOKAHEAD
    for first in range(begin, end, size):
        last = min(first + size, end)
        t += 1.0
        eta = 1.0 / t
        z = 0.0
        for k in range(first, last):
            if k + far < len(ahead):
                j = np.int64(ahead[k + far])
                prefetch_row(rows, j)
                prefetch(y, j)
                prefetch(cost, j)
                prefetch(window.slopes, j)
                prefetch(window.visits, j)
            if k + _LOOKAHEAD < end:
                prefetch_row(rows, np.int64(order[k + _LOOKAHEAD]))
            i = np.int64(order[k])
            z = scaled_dot(rows, i, x)
            u = _slope(loss, argument(loss, z, y[i]), m * cost[i] * eta, norms2[i], is_truncated)
            slopes[k - first] = u
            window.slopes[i] += u
            window.visits[i] += 1.0
        kept = 1.0 - eta
        averaged_decay(x, average, kept)
        rate = m * eta / (last - first)
        z *= kept
        for k in range(first, last):
            u = slopes[k - first]
            if u != 0.0:
                i = np.int64(order[k])
                if size > 1 and radius2 < np.inf:  # |w|^2 is not needed else, nor kept
                    z = scaled_dot(rows, i, x)
                averaged_add(rows, i, rate * cost[i] * u * sign(loss, y[i]), x, average, z, norms2[i])
        _project(x, average, radius2)
        if is_averaged:
            include(x, average, 1.0)


@lean_kernel
def _add_block(data, w, batch, block, clock, is_truncated, slopes, g):
    """Add m/k C_i u_i sign_i x_i to g, for some of the rows of a batch."""
    rows, y, cost, norms2, loss = data
    begin, end = block
    t, m = clock
    for k in range(begin, end):
        if k + _LOOKAHEAD < end:
            prefetch_row(rows, np.int64(batch[k + _LOOKAHEAD]))
        i = np.int64(batch[k])
        u = _slope(loss, argument(loss, row_dot(rows, i, w), y[i]), m * cost[i] / t, norms2[i], is_truncated)
        slopes[k] = u
        if u != 0.0:
            add_row(rows, i, m / len(batch) * cost[i] * u * sign(loss, y[i]), g)


@lean_kernel
def _large_batch(moving, batch, slopes, g, clock, radius2):
    """(1) and (2), given the batch's sum."""
    x, average, window, is_averaged = moving
    t, _ = clock
    for k in range(len(batch)):
        i = np.int64(batch[k])
        window.slopes[i] += slopes[k]
        window.visits[i] += 1.0
    averaged_decay(x, average, 1.0 - 1.0 / t)
    averaged_add_vector(x, average, 1.0 / t, g)
    _project(x, average, radius2)
    if is_averaged:
        include(x, average, 1.0)
