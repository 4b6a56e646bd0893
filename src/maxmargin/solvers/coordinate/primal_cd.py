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

What differs from the papers, and why:

* One rule for both penalties: a step must gain sigma times Delta, as for L1. For L2 the paper asks for sigma
  (step d)^2, which is less. Steps that a bound of the curvature proves to gain as much are taken without a look at
  P, in both papers' manner; the logistic loss has a bound that tightens with the step.
* Differences of P that rounding cannot tell from zero do not make a step shorter.
* The stop. alpha_i = -C_i phi'(t_i) is feasible in the dual for L2, and P - D is then 1/2 |gradient|^2, of which each
  visit knows its part. For L1 it must be divided by 1 + M.
* All features that are shrunk come back when a certificate finds that the goal has not been reached without them.
* L1: when sweeps have cost as much as a Newton step for all active features would, one is taken (`l1_newton`).

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
from maxmargin.losses import SMOOTH, argument, derivative, value
from maxmargin.penalties import L1, L2
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.coordinate import l1_newton
from maxmargin.solvers.coordinate.coordinates import (
    FLATTEST,
    Columnwise,
    change,
    columnwise,
    derivatives,
    mean_curvature,
    move,
    newton_step,
    prefetch_place,
    violation,
)
from maxmargin.solvers.coordinate.sweep import (
    Sweep,
    after_visits,
    next_sweep,
    no_sweep,
    predicted_gap,
    restarted,
    with_doubt,
)
from maxmargin.solvers.visits import LOOKAHEAD

_BLOCK = 1 << 21  # stored values that one update walks over: about 10 ms
_SIGMA = 0.01  # share of the predicted decrease that a step must bring
_BETA = 0.5  # what is left of a step that does not
_ROUNDING = 1e-15  # share of what the rows of a column add and take away by which its sum may be wrong


class Tally(NamedTuple):
    """What is known of P, and the work so far."""

    penalty: float  # R(w), kept in step
    primal: float  # P(w) at the end of the last sweep
    evaluations: int  # of P along a step: none for most
    walked: int  # stored values walked over since the last Newton step


class PrimalCDState(NamedTuple):
    """What moves in primal coordinate descent."""

    w: Array
    t: Array  # of the rows that have a cost, kept in step with w
    slope: Array  # phi'(t_i)
    order: Array  # the first n_active are the active features, in this sweep's order
    rng: Array  # random state
    sweep: Sweep  # M_bar: the largest violation of the sweep before, over the number of rows (L1)
    tally: Tally
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
    losses: ClassVar[tuple[type, ...]] = SMOOTH
    penalties: ClassVar[tuple[type, ...]] = (L2, L1)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> PrimalCDState:
        """Start at w = 0, or at the w of another state."""
        n = problem.n_weights
        if n >= 2**32:
            raise ValueError(f"primal_cd takes fewer than 2^32 features, got {n}")
        w = weights_to_start_at(problem, start)
        t, slope = _arguments(problem, w)
        tally = Tally(penalties.value(problem.penalty, w), math.inf, 0, 0)
        return PrimalCDState(w, t, slope, _features(n), new_rng(seed), no_sweep(n, math.inf), tally, 0)

    def update(self, problem: Problem, state: PrimalCDState, goal: Goal) -> PrimalCDState:
        """Sweep over the active features, for a block of work or until the goal seems reached; or a Newton step."""
        data, max_visits, work = columnwise(problem), last_visit_of(goal, len(state.w)), _BLOCK
        if self._is_time_for_newton(data, state):
            return _newton(problem, data, state)
        shrinks = self.shrinking and data.is_l1
        while work > 0 and state.sweep.visits < max_visits and not (state.sweep.is_over and state.sweep.n_kept == 0):
            sweep, tally, work = _sweep(data, state, shrinks, max_visits, work)
            state = state._replace(sweep=sweep, tally=tally)
            if _believes(state, goal) or self._is_time_for_newton(data, state):
                break
        return state

    def _is_time_for_newton(self, data: Columnwise, state: PrimalCDState) -> bool:
        """Whether sweeps have cost what a Newton step would: whichever is the better way, the other only doubles it."""
        walked = state.tally.walked
        if not (self.newton and data.is_l1 and state.sweep.is_over and walked > 0):
            return False
        return walked >= l1_newton.work_of(data.columns, len(state.t), state.order[: state.sweep.n_kept])

    def report(self, problem: Problem, state: PrimalCDState, goal: Goal) -> Report:
        """P as of the end of the last sweep, and the gap as its visits found it."""
        sweep, tally, gap = state.sweep, state.tally, state.sweep.whole_gap
        is_known = gap < math.inf
        return Report(
            passes=sweep.visits / len(state.w),
            primal=tally.primal if is_known else math.nan,
            dual=tally.primal - gap if is_known else math.nan,
            believes=_believes(state, goal),
            counters={
                "updates": sweep.updates,
                "evaluations": tally.evaluations,
                "newton_steps": state.newton_steps,
                "active": sweep.n_kept if sweep.is_over else sweep.n_active,
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
        if not _believes(state, goal) and certificate.gap <= 2.0 * sweep.doubt * sweep.whole_gap:
            return state
        t, slope = _arguments(problem, state.w)
        tally = state.tally._replace(penalty=penalties.value(problem.penalty, state.w))
        state = state._replace(t=t, slope=slope, tally=tally)
        if sweep.n_coming < n:
            return state._replace(order=_features(n), sweep=restarted(sweep, n, math.inf, math.inf))
        return state._replace(sweep=with_doubt(sweep, certificate.gap))


def _features(n: int) -> Array:
    return np.arange(n, dtype=np.uint32)


def _believes(state: PrimalCDState, goal: Goal) -> bool:
    """Whether the gap that the next sweep would find meets the tolerance."""
    sweep, gap = state.sweep, predicted_gap(state.sweep)
    is_done = sweep.n_kept == 0 or (gap < math.inf and gap <= goal.tol * state.tally.primal)
    return bool(sweep.is_over and is_done)


def _arguments(problem: Problem, w: Array) -> tuple[Array, Array]:
    """t_i and phi'(t_i) of the rows that have a cost."""
    kept = problem.cost > 0.0
    z = problem.decision(w) if w.any() else np.zeros(problem.n_rows)
    t = argument(problem.loss, z[kept], problem.y[kept])
    slope = np.empty(len(t))
    _fill_slopes(problem.loss, t, slope)
    return t, slope


@compiled_lean
def _fill_slopes(loss, t, slope):
    for i in range(len(t)):
        slope[i] = derivative(loss, t[i])


def _newton(problem: Problem, data: Columnwise, state: PrimalCDState) -> PrimalCDState:
    """A Newton step for all active features, whose work is counted as visits of columns."""
    features = np.sort(state.order[: state.sweep.n_kept]).astype(np.int64)
    work = l1_newton.take_step(problem, data, (state.w, state.t, state.slope), features)
    per_visit = 2.0 * (1.0 + n_stored(data.columns) / len(state.w))  # a visit walks over its column twice, mostly
    return state._replace(
        sweep=state.sweep._replace(visits=state.sweep.visits + 1 + int(work / per_visit)),
        tally=state.tally._replace(walked=0, penalty=penalties.value(problem.penalty, state.w)),
        newton_steps=state.newton_steps + 1,
    )


# ---------------------------------------------------------------- sweeps


@compiled
def _sweep(data, state, shrinks, max_visits, work):
    """Go on with a sweep, or begin one, to its end or that of a limit; and what is left of the work."""
    s, tally = state.sweep, state.tally
    if s.position >= s.n_active:
        shuffle(state.order, s.n_kept, state.rng)
        s = next_sweep(s, s.M / len(state.t), -np.inf, 0.0)
    before = tally.walked
    s, tally = _steps(data, state, s, tally, shrinks, max_visits, work)
    work -= tally.walked - before
    if s.position >= s.n_active:
        s, tally = _end(data, state.t, s, tally)
    return s, tally, work


@compiled_lean
def _end(data, t, s, tally):
    """P and the gap at the end of a sweep, from what is known of t and the violations."""
    risk, gap = 0.0, s.gap
    for i in range(len(t)):
        risk += abs(data.signed_cost[i]) * value(data.loss, t[i])
    if data.is_l1:
        excess = s.M / (1.0 + s.M)  # the part of alpha that is too much
        gap += excess * tally.penalty + excess * excess * risk
    s = after_visits(s, s.position, s.n_kept, s.M, s.m, gap, s.visits, s.updates)
    return s, Tally(tally.penalty, risk + tally.penalty, tally.evaluations, tally.walked)


@compiled_lean
def _steps(data, state, s, tally, shrinks, max_visits, work):
    """One-variable steps to the end of the sweep or of a limit."""
    columns, loss, is_l1 = data.columns, data.loss, data.is_l1
    w, order = state.w, state.order
    position, n_kept, M, gap, penalty = s.position, s.n_kept, s.M, s.gap, tally.penalty
    visits, updates, evaluations, walked = s.visits, s.updates, tally.evaluations, tally.walked
    while position < s.n_active and walked < tally.walked + work and visits < max_visits:
        if position + 2 * LOOKAHEAD < s.n_active:  # first where a column lies, then what is there
            ahead = np.int64(order[position + 2 * LOOKAHEAD])
            prefetch_place(columns, ahead)
            prefetch(w, ahead)
            prefetch(data.bound, ahead)
            prefetch_row(columns, np.int64(order[position + LOOKAHEAD]))
        j = np.int64(order[position])
        position += 1
        visits += 1
        size = 1 + row_size(columns, j)
        walked += size
        weight, unit = w[j], data.bias if j == len(w) - 1 else 1.0
        G, H = derivatives(columns, j, loss, state.slope, data.signed_cost)
        G, H = unit * G, max(unit * unit * H, FLATTEST * data.bound[j])
        if is_l1:
            if shrinks and weight == 0.0 and abs(G) < 1.0 - s.M_bar:
                continue
            excess = violation(weight, G)
            M, gap = max(M, excess), gap + abs(weight) * excess
            d, Delta = newton_step(weight, G, H, True)
        else:
            G += weight
            gap += 0.5 * G * G
            d, Delta = newton_step(weight, G, H + 1.0, False)
        order[n_kept] = j
        n_kept += 1
        if d == 0.0:
            continue
        step = 1.0
        while True:
            most = mean_curvature(loss, H, data.bound[j], step * abs(d) * data.largest[j]) + (0.0 if is_l1 else 1.0)
            if 0.5 * most * step * d * d <= (_SIGMA - 1.0) * Delta:  # proof enough
                break
            gain, rounding = change(columns, j, loss, state.t, state.slope, data.signed_cost, step * d * unit)
            gain += abs(weight + step * d) - abs(weight) if is_l1 else step * d * (weight + 0.5 * step * d)
            evaluations += 1
            walked += size
            if gain <= _SIGMA * step * Delta + _ROUNDING * (rounding + abs(weight)):
                break
            step *= _BETA
        new = weight + step * d
        penalty += abs(new) - abs(weight) if is_l1 else 0.5 * (new - weight) * (new + weight)
        w[j] = new
        move(columns, j, loss, state.t, state.slope, data.signed_cost, step * d * unit)
        updates += 1
        walked += size
    s = after_visits(s, position, n_kept, M, s.m, gap, visits, updates)
    return s, Tally(penalty, tally.primal, evaluations, walked)
