"""Primal coordinate descent for smooth losses, with an L2 or L1 penalty.

    min_w  P(w) = R(w) + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i,      R(w) = 1/2 |w|^2 or |w|_1

One weight at a time, in random order: a Newton step in w_j, which needs column j of the data and the present t_i of
its rows, made shorter until P decreases enough. For the L1 penalty the model of P in w_j keeps its kink at zero, so
that weights become exactly zero, and features whose weight seems to stay there are left out.

* L2: Chang, Hsieh, Lin: Coordinate descent method for large-scale L2-loss linear support vector machines, JMLR 2008:
  algorithms 1 and 2 with the random permutations of section 3.
* L1: Yuan, Chang, Hsieh, Lin: A comparison of optimization methods and software for large-scale L1-regularized linear
  classification, JMLR 2010: CDN, sections 4.1 and 7.1, the method of LIBLINEAR's -s 5.

Paper -> code: b_i = 1 - y_i w'x_i -> t_i, D_j'(0) or L_j'(0; w) -> G, D_j''(0) -> H, H_j or 2C sum_i x_ij^2 -> bound,
lambda -> step, sigma, beta as they are, the largest violation -> M, the decrease that the slope promises -> Delta.

What differs from the papers, and why: the stop, which is the certified gap (1/2 |gradient|^2 for L2; each visit knows
its part); one rule for both penalties of what a step must gain, sigma Delta; features that are shrunk come back when a
certificate finds that the goal has not been reached without them; for L1, when sweeps have cost as much as a Newton
step for all active features would, one is taken (`l1_newton`). More of it is in papers/coordinate/NOTES.md.

What it costs: a second copy of the data, by columns (`columns`), each value of which is walked over twice or more for
each step. Where it is slow: L2 with large C, or columns that nearly depend on each other; `tron` is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import penalties
from maxmargin._jit import compiled, compiled_lean, prefetch
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, n_stored, prefetch_row, row_size
from maxmargin.data.source import check_pause
from maxmargin.losses import argument, derivative, value
from maxmargin.penalties import L1, L2
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver, weights_to_start_at
from maxmargin.solvers.coordinate import l1_newton
from maxmargin.solvers.coordinate.coordinates import (
    LOSSES,
    Columnwise,
    Moving,
    change,
    columnwise,
    derivatives,
    mean_curvature,
    move,
    newton_step,
    prefetch_place,
    violation,
)
from maxmargin.solvers.coordinate.sweep import Sweep, after_visits, next_sweep, no_sweep, predicted_gap
from maxmargin.solvers.visits import LOOKAHEAD

_BLOCK = 1 << 25  # stored values that are walked over between two looks at whether to pause: about 0.1 s
_SIGMA = 0.01  # share of the predicted decrease that a step must bring
_BETA = 0.5  # what is left of a step that does not
_ROUNDING = 1e-15  # share of what the rows of a column add and take away by which its sum may be wrong


class Work(NamedTuple):
    """What steps have taken."""

    evaluations: int  # of P along a step: none for most
    walked: int  # stored values walked over since the last Newton step


class PrimalCDState(NamedTuple):
    """What moves in primal coordinate descent."""

    w: Array
    t: Array  # of the rows that have a cost, kept in step with w
    slope: Array  # phi'(t_i)
    order: Array  # the first n_kept are the active features
    rng: Array  # random state
    sweep: Sweep  # the last one, which is over; M_bar: the largest violation of the one before, over the number of rows
    primal: float  # P(w) at the end of the last sweep
    work: Work
    newton_steps: int


@dataclass(frozen=True)
class PrimalCD(Solver):
    """Primal coordinate descent: the solver for the L1 penalty, and for few features with small C.

    Parameters
    ----------
    shrinking : bool
        With the L1 penalty, leave out features whose weight seems to stay zero.
    newton : bool
        With the L1 penalty and no more than 2048 active features, change all of their weights at once now and then.
        Needed for certificates where columns nearly depend on each other.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> X = [[2.0, 0.1, 1.0], [-1.0, 0.1, -1.0], [1.5, -0.1, 0.0]]
    >>> result = solve(Problem(X, [1, -1, 1], C=1.0, loss="squared_hinge", penalty="l1"), solver=PrimalCD(), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    >>> int(np.count_nonzero(result.w))
    1
    """

    shrinking: bool = True
    newton: bool = True

    name: ClassVar[str] = "primal_cd"
    losses: ClassVar[tuple[type, ...]] = LOSSES
    penalties: ClassVar[tuple[type, ...]] = (L2, L1)
    is_in_place: ClassVar[bool] = False

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> PrimalCDState:
        """Start at w = 0, or at the w of another state."""
        n = problem.n_weights
        if n >= 2**32:
            raise ValueError(f"primal_cd takes fewer than 2^32 features, got {n}")
        here = _point(problem, weights_to_start_at(problem, start))
        return PrimalCDState(*here, _features(n), new_rng(seed), no_sweep(n, math.inf), math.inf, Work(0, 0), 0)

    def update(self, problem: Problem, state: PrimalCDState, goal: Goal) -> PrimalCDState:
        """One iteration: a step in each active feature, in random order; or a Newton step in all of them."""
        data = columnwise(problem)
        if self._is_time_for_newton(data, state):
            return _newton(problem, data, state)
        here = Moving(state.w.copy(), state.t.copy(), state.slope.copy())
        order, rng, sweep, work = state.order.copy(), state.rng.copy(), state.sweep, state.work
        shuffle(order, sweep.n_kept, rng)
        sweep = next_sweep(sweep, sweep.M / len(here.t), -math.inf, 0.0)
        while not sweep.is_over:
            check_pause()
            sweep, work = _steps(data, here, order, self.shrinking and data.is_l1, sweep, work, _BLOCK)
        primal, gap = _primal_and_gap(problem, data, here, sweep)
        return PrimalCDState(*here, order, rng, sweep._replace(gap=gap), primal, work, state.newton_steps)

    def _is_time_for_newton(self, data: Columnwise, state: PrimalCDState) -> bool:
        """Whether sweeps have cost what a Newton step would: whichever is the better way, the other only doubles it."""
        walked = state.work.walked
        if not (self.newton and data.is_l1 and walked > 0):
            return False
        return walked >= l1_newton.work_of(data.columns, len(state.t), state.order[: state.sweep.n_kept])

    def report(self, problem: Problem, state: PrimalCDState, goal: Goal) -> Report:
        """P as of the end of the last sweep, and the gap as its visits found it."""
        sweep, primal = state.sweep, state.primal if state.sweep.gap < math.inf else math.nan
        return Report(
            passes=sweep.visits / len(state.w),
            primal=primal,
            dual=primal - sweep.gap,
            believes=_believes(state, goal),
            counters={
                "updates": sweep.updates,
                "evaluations": state.work.evaluations,
                "newton_steps": state.newton_steps,
                "active": sweep.n_kept,
            },
        )

    def certificate(self, problem: Problem, state: PrimalCDState) -> Certificate:
        """For L2 one pass: P - D is 1/2 |gradient|^2."""
        if isinstance(problem.penalty, L1):
            return problem.certificate(state.w)
        here = problem.evaluate(state.w)
        gap = min(0.5 * float(here.gradient @ here.gradient), here.value)
        return Certificate(here.value, here.value - gap, gap)

    def reconsider(self, problem: Problem, state: PrimalCDState, goal: Goal, certificate: Certificate) -> PrimalCDState:
        """Take all features back if some are shrunk, else trust the gap less; and t, if rounding has made it drift."""
        sweep, n = state.sweep, len(state.w)
        if not _believes(state, goal) and certificate.gap <= 2.0 * sweep.doubt * sweep.gap:
            return state
        w, t, slope = _point(problem, state.w)
        state = state._replace(w=w, t=t, slope=slope)
        if sweep.n_kept < n:
            return state._replace(order=_features(n), sweep=sweep.restarted(n, math.inf, math.inf))
        return state._replace(sweep=sweep.with_doubt(certificate.gap))


def _features(n: int) -> Array:
    return np.arange(n, dtype=np.uint32)


def _believes(state: PrimalCDState, goal: Goal) -> bool:
    """Whether the gap that the next sweep would find meets the tolerance."""
    gap = predicted_gap(state.sweep)
    return bool(state.sweep.n_kept == 0 or (gap < math.inf and gap <= goal.tol * state.primal))


def _point(problem: Problem, w: Array) -> Moving:
    """w, and t_i and phi'(t_i) of the rows that have a cost."""
    kept = problem.cost > 0.0
    z = problem.decision(w) if w.any() else np.zeros(problem.n_rows)
    t = argument(problem.loss, z[kept], problem.y[kept])
    slope = np.empty(len(t))
    _fill_slopes(problem.loss, t, slope)
    return Moving(w, t, slope)


@compiled_lean
def _fill_slopes(loss, t, slope):
    for i in range(len(t)):
        slope[i] = derivative(loss, t[i])


def _newton(problem: Problem, data: Columnwise, state: PrimalCDState) -> PrimalCDState:
    """A Newton step for all active features, whose work is counted as visits of columns."""
    sweep, features = state.sweep, np.sort(state.order[: state.sweep.n_kept]).astype(np.int64)
    here, walked = l1_newton.take_step(problem, data, Moving(state.w, state.t, state.slope), features)
    per_visit = 2.0 * (1.0 + n_stored(data.columns) / len(state.w))  # a visit walks over its column twice, mostly
    return state._replace(
        **here._asdict(),
        sweep=sweep._replace(visits=sweep.visits + 1 + int(walked / per_visit)),
        work=state.work._replace(walked=0),
        newton_steps=state.newton_steps + 1,
    )


def _primal_and_gap(problem: Problem, data: Columnwise, here: Moving, sweep: Sweep) -> tuple[float, float]:
    """P and the gap at the end of a sweep, from what is known of t and the violations."""
    size, risk, gap = penalties.value(problem.penalty, here.w), _risk(data, here.t), sweep.gap
    if data.is_l1:
        excess = sweep.M / (1.0 + sweep.M)  # the part of alpha that is too much
        gap += excess * size + excess * excess * risk
    return risk + size, gap


@compiled_lean
def _risk(data, t):
    risk = 0.0
    for i in range(len(t)):
        risk += abs(data.signed_cost[i]) * value(data.loss, t[i])
    return risk


@compiled
def _steps(data, here, order, shrinks, s, work, most):
    """One-variable steps (algorithm 1; CDN's inner loop) to the end of the sweep or of a block of work."""
    columns, w, is_l1 = data.columns, here.w, data.is_l1
    position, n_kept, M, gap, updates = s.position, s.n_kept, s.M, s.gap, s.updates
    evaluations, walked = work.evaluations, work.walked
    while position < s.n_active and walked < work.walked + most:
        if position + 2 * LOOKAHEAD < s.n_active:  # first where a column lies, then what is there
            ahead = np.int64(order[position + 2 * LOOKAHEAD])
            prefetch_place(columns, ahead)
            prefetch(w, ahead)
            prefetch(data.bound, ahead)
            prefetch_row(columns, np.int64(order[position + LOOKAHEAD]))
        j = np.int64(order[position])
        position += 1
        size = 1 + row_size(columns, j)
        walked += size
        G, H = derivatives(data, here.slope, j)
        if is_l1:
            if shrinks and w[j] == 0.0 and abs(G) < 1.0 - s.M_bar:
                continue
            excess = violation(w[j], G)
            M, gap = max(M, excess), gap + abs(w[j]) * excess
        else:
            G += w[j]
            gap += 0.5 * G * G
        order[n_kept] = j
        n_kept += 1
        d, Delta = newton_step(w[j], G, H if is_l1 else H + 1.0, is_l1)
        if d != 0.0:
            step, looks = _search(data, here, j, H, d, Delta)
            move(data, here, j, step)
            updates += 1
            evaluations += looks
            walked += (1 + looks) * size
    s = after_visits(s, position, n_kept, M, s.m, gap, s.visits + position - s.position, updates)
    return s, Work(evaluations, walked)


@compiled
def _search(data, here, j, H, d, Delta):
    """beta^k d for the least k with which P gains enough, sigma beta^k Delta, and how often P was looked at."""
    weight, is_l1, looks, share = here.w[j], data.is_l1, 0, 1.0
    while True:
        step = share * d
        most = mean_curvature(data.loss, H, data.bound[j], abs(step) * data.largest[j]) + (0.0 if is_l1 else 1.0)
        if 0.5 * most * step * d <= (_SIGMA - 1.0) * Delta:  # proof enough
            return step, looks
        gain, rounding = change(data, here, j, step)
        gain += abs(weight + step) - abs(weight) if is_l1 else step * (weight + 0.5 * step)
        looks += 1
        if gain <= _SIGMA * share * Delta + _ROUNDING * (rounding + abs(weight)):
            return step, looks
        share *= _BETA
