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

* Batches are drawn without replacement, in a new mixed order for every pass (`visits`); `replacement=True` is the
  paper's way.
* The gradients of squared losses have no bound, and with rates as large as those of the first steps w would explode.
  The slope of such a row is truncated as in `sgd`. The step of a batch is the mean of the steps that its rows would
  make alone, so it is as safe as they are.
* The answer may be the last iterate, an average of all, or of about the last third (`weights.is_milestone`);
  certificates are made of each row's mean slope over the last half of all visits (`averaged`).

A batch that is large enough is divided into blocks that depend on the data alone, whose sums are added in order: the
same bits for any number of threads. Figures are in papers/stochastic/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import compiled, compiled_lean, prefetch
from maxmargin._random import new_rng
from maxmargin.data.rows import Array, add_row, n_stored, prefetch_row, row_dot
from maxmargin.losses import UNBOUNDED_SLOPE, argument, derivative, sign
from maxmargin.parallel import map_blocks
from maxmargin.problem import Problem
from maxmargin.solvers.base import Goal, Report, weights_to_start_at
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.stochastic.averaged import AveragedSolver, Window, first_windows
from maxmargin.solvers.stochastic.truncation import truncated_slope
from maxmargin.solvers.stochastic.weights import (
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
from maxmargin.solvers.visits import (
    LOOKAHEAD,
    MIXED,
    Visits,
    draw_rows,
    examples,
    mix_rows,
    new_visits,
    prefetch_example,
)

_PART = 1 << 17  # stored values that are worth a thread
_ITERATES = ("last", "average", "suffix")


class PegasosState(NamedTuple):
    """What moves in Pegasos."""

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates
    now: Window  # of slopes
    before: Window
    visits: Visits
    t: float  # number of steps
    radius2: float  # of the ball that the optimum is in

    @property
    def w(self) -> Array:
        """The answer: an average, if there is one, or the last iterate."""
        return average_of(self.x, self.average)


class Step(NamedTuple):
    """What steps depend on beside the state."""

    size: int  # of a batch
    radius2: float  # of the ball that w is projected to; infinite: it is not
    is_truncated: bool
    is_averaged: bool


@dataclass(frozen=True)
class Pegasos(AveragedSolver):
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
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    accuracy: ClassVar[float] = 2e-3

    def __post_init__(self) -> None:
        check_count(self, "batch", 1)
        if self.iterate not in _ITERATES:
            raise ValueError(f'iterate must be "suffix", "average" or "last"; got {self.iterate!r}')

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> PegasosState:
        """Start at w = 0, or at the w of another state, which then counts as much as a pass over the data."""
        w, visits = weights_to_start_at(problem, start), new_visits(problem, new_rng(seed))
        t = 0.0 if start is None else float(-(-visits.n_rows // self.batch))
        if isinstance(start, PegasosState):
            t = start.t
        now, before = first_windows(problem, start)
        radius2, visits = problem.primal(np.zeros(len(w))), self._new_order(problem, visits)
        return PegasosState(scaled_vector(w), new_average(len(w)), now, before, visits, t, radius2)

    def _averages_suffix(self) -> bool:
        return self.iterate == "suffix"

    def _new_order(self, problem: Problem, visits: Visits) -> Visits:
        return draw_rows(problem, visits) if self.replacement else mix_rows(problem, visits)

    def _run(self, problem: Problem, state: PegasosState, n: int) -> PegasosState:
        """(1) and (2) for batch after batch, until n rows or a few more have been visited."""
        visits = state.visits
        n_batches = -(-n // self.batch)
        n = min(visits.n_rows - visits.position, n_batches * self.batch)
        step = Step(
            size=min(self.batch, visits.n_rows),
            radius2=state.radius2 if self.project else math.inf,
            is_truncated=isinstance(problem.loss, UNBOUNDED_SLOPE),
            is_averaged=self.iterate != "last",
        )
        n_blocks, slopes = self._n_blocks(problem), np.empty(step.size)
        if n_blocks == 1:
            _small_batches(examples(problem), state, n, step, slopes)
        else:
            end = visits.position + n
            for k, begin in enumerate(range(visits.position, end, step.size), start=1):
                batch = visits.order[begin : min(end, begin + step.size)]
                _step_by_blocks(problem, state._replace(t=state.t + k), batch, step, n_blocks, slopes)
        return state._replace(t=state.t + n_batches, visits=visits.advanced(n))

    def _n_blocks(self, problem: Problem) -> int:
        """Into how many blocks a batch is divided: as many as are worth a thread, and a sum as long as w each."""
        work = min(self.batch, problem.n_rows) * (n_stored(problem.rows) / problem.n_rows)
        return max(1, min(8, int(work / max(_PART, 4 * problem.n_weights))))

    def report(self, problem: Problem, state: PegasosState, goal: Goal) -> Report:
        """As of all stochastic solvers, and the number of steps."""
        return super().report(problem, state, goal)._replace(counters={"steps": state.t})


# ---------------------------------------------------------------- the steps


@compiled
def _slope(loss, t, rate, norm2, is_truncated):
    """u = -phi'(t); where phi' has no bound, as much of it as makes the row's own step safe."""
    return truncated_slope(loss, t, rate, norm2) if is_truncated else -derivative(loss, t)


@compiled
def _end_step(x, average, step):
    """(2), and the iterate counted into the average."""
    norm2 = scaled_norm2(x)
    if norm2 > step.radius2:
        averaged_decay(x, average, np.sqrt(step.radius2 / norm2))
    if step.is_averaged:
        include(x, average, 1.0)


@compiled_lean
def _small_batches(data, state, n, step, slopes):
    """(1) and (2) row by row, for the next n rows; with room for the slopes of a batch."""
    x, average, sums, visits = state.x, state.average, state.now.slopes, state.visits
    order, ahead, t, m = visits.order, visits.ahead, state.t, float(len(visits.order))
    end = visits.position + n
    far = MIXED if len(order) > MIXED else LOOKAHEAD
    for first in range(visits.position, end, step.size):
        last = min(first + step.size, end)
        t += 1.0
        eta = 1.0 / t
        z = 0.0
        for k in range(first, last):
            if k + far < len(ahead):
                j = np.int64(ahead[k + far])
                prefetch_example(data, j)
                prefetch(sums, j)
            if k + LOOKAHEAD < end:
                prefetch_row(data.rows, np.int64(order[k + LOOKAHEAD]))
            i = np.int64(order[k])
            z = scaled_dot(data.rows, i, x)
            t_i = argument(data.loss, z, data.y[i])
            u = _slope(data.loss, t_i, m * data.cost[i] * eta, data.norms2[i], step.is_truncated)
            slopes[k - first] = u
            sums[i] += u
        kept = 1.0 - eta
        averaged_decay(x, average, kept)
        rate = m * eta / (last - first)
        z *= kept
        for k in range(first, last):
            u = slopes[k - first]
            if u != 0.0:
                i = np.int64(order[k])
                if step.size > 1 and step.radius2 < np.inf:  # |w|^2 is not needed else, nor kept
                    z = scaled_dot(data.rows, i, x)
                change = rate * data.cost[i] * u * sign(data.loss, data.y[i])
                averaged_add(data.rows, i, change, x, average, z, data.norms2[i])
        _end_step(x, average, step)


def _step_by_blocks(
    problem: Problem, state: PegasosState, batch: Array, step: Step, n_blocks: int, slopes: Array
) -> None:
    """(1) and (2) for a large batch, the t-th: blocks of its rows are summed by threads."""
    w, m = dense(state.x), float(state.visits.n_rows)

    def block(lo: int, hi: int) -> Array:
        g = np.zeros(len(w))
        _add_block(examples(problem), w, batch[lo:hi], m / state.t, step.is_truncated, slopes[lo:hi], g)
        return g

    borders = np.linspace(0, len(batch), n_blocks + 1).astype(np.int64)
    total, *others = map_blocks(block, borders, problem.n_jobs)
    for g in others:
        total += g
    np.add.at(state.now.slopes, batch, slopes[: len(batch)])
    averaged_decay(state.x, state.average, 1.0 - 1.0 / state.t)
    averaged_add_vector(state.x, state.average, m / len(batch) / state.t, total)
    _end_step(state.x, state.average, step)


@compiled_lean
def _add_block(data, w, rows, rate, is_truncated, slopes, g):
    """Add C_i u_i sign_i x_i to g, for some of the rows of a batch."""
    for k in range(len(rows)):
        if k + LOOKAHEAD < len(rows):
            prefetch_row(data.rows, np.int64(rows[k + LOOKAHEAD]))
        i = np.int64(rows[k])
        t = argument(data.loss, row_dot(data.rows, i, w), data.y[i])
        u = _slope(data.loss, t, rate * data.cost[i], data.norms2[i], is_truncated)
        slopes[k] = u
        if u != 0.0:
            add_row(data.rows, i, data.cost[i] * u * sign(data.loss, data.y[i]), g)
