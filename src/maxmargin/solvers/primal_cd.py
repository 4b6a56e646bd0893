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
* Differences of P that rounding cannot tell from zero do not make a step shorter: close to the optimum it would go on
  being halved for nothing.
* The stop. alpha_i = -C_i phi'(t_i) is feasible in the dual for L2, and P - D is then 1/2 |gradient|^2, of which each
  visit knows its part. For L1 it must be divided by 1 + M.
* Features that are shrunk are left out from the next sweep on. All of them come back when a certificate finds that
  the goal has not been reached without them.
* L1: when sweeps have cost as much as a Newton step for all active features would, one is taken (`_l1_newton`). One-hot
  codes and other columns that nearly depend on each other would take thousands of sweeps to a certificate.

What it costs: a second copy of the data, by columns (`_columns`), each value of which is walked over twice or more for
each step. Where it is slow: L2 with large C, or columns that nearly depend on each other; `tron` is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from maxmargin._jit import kernel, lean_kernel, prefetch
from maxmargin._random import random_stream, shuffle
from maxmargin.losses import Loss, argument, derivative, sign, value
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, Rows, n_stored, prefetch_row, row_size
from maxmargin.solvers import _l1_newton as l1_newton
from maxmargin.solvers._columns import columns_of
from maxmargin.solvers._coordinates import (
    FLATTEST,
    change,
    column_size,
    derivatives,
    largest_curvature,
    mean_curvature,
    move,
    newton_step,
    prefetch_place,
    violation,
)
from maxmargin.solvers._hessian import SMOOTH, add_evaluation, n_blocks
from maxmargin.solvers.base import Goal, Report, Solver

_LOOKAHEAD = 4  # columns between asking for one's cache lines and using them
_BLOCK = 1 << 21  # stored values that one update walks over: about 10 ms
_SIGMA = 0.01  # share of the decrease foretold that a step must bring
_BETA = 0.5  # what is left of a step that does not
_ROUNDING = 1e-15  # share of what the rows of a column add and take away by which its sum may be wrong


class Sweep(NamedTuple):
    """How far the sweep over the active features is, and what it has seen."""

    n_active: int  # features of this sweep
    position: int  # of the next one
    n_kept: int  # of those before it, how many the next sweep will visit again
    M_bar: float  # L1: the largest violation of the sweep before, over the number of rows
    M: float  # and that of this one
    gap: float  # P - D, from what each visit found
    last_gap: float  # the same of the whole sweep before
    penalty: float  # R(w), kept in step
    primal: float  # P(w) at the end of the last sweep
    doubt: float  # how much to mistrust the gap that this sweep foretells
    visits: int
    updates: int
    evaluations: int  # of P along a step: none for most
    walked: int  # stored values walked over since the last step by `_l1_newton`


class PrimalCDState(NamedTuple):
    """What moves in primal coordinate descent."""

    w: Array
    t: Array  # of the rows that have a cost, kept in step with w
    slope: Array  # phi'(t_i)
    order: Array  # the first n_active are the active features, in this sweep's order
    stream: Array  # of random numbers
    sweep: Sweep
    model: l1_newton.Model  # of a Newton step that is being built
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
    penalties: ClassVar[tuple[str, ...]] = ("l2", "l1")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> PrimalCDState:
        """Start at w = 0, or at the w of another state."""
        n = problem.n_weights
        if n >= 2**32:
            raise ValueError(f"primal_cd takes fewer than 2^32 features, got {n}")
        w = np.zeros(n) if start is None else np.array(start.w, dtype=np.float64)
        if w.shape != (n,):
            raise ValueError(f"cannot start at {w.size} weights: the problem has {n}")
        t, slope = _arguments(problem, w)
        penalty = _penalty(problem, w)
        sweep = Sweep(0, 0, n, np.inf, np.inf, np.inf, np.inf, penalty, np.inf, 1.0, 0, 0, 0, 0)
        return PrimalCDState(w, t, slope, _all_features(problem), random_stream(seed), sweep, l1_newton.no_model(), 0)

    def update(self, problem: Problem, state: PrimalCDState, goal: Goal) -> PrimalCDState:
        """Sweep over the active features, for a block of work or until the goal seems reached."""
        data, n, work = _constants(problem), len(state.w), _BLOCK
        max_visits = math.ceil(min(goal.max_passes * n, 2.0**62))
        max_visits += max_visits / n < goal.max_passes  # by rounding; the loop would wait for ever
        while work > 0 and state.sweep.visits < max_visits:
            if _is_building(state):
                state, used = _advance(problem, data, state)
                work -= used
            elif self._is_time_for_newton(problem, data, state):
                features = state.order[: state.sweep.n_kept]
                state = state._replace(model=l1_newton.begin(features))
            elif _is_over(state.sweep) and state.sweep.n_kept == 0:
                break
            else:
                moving = state.w, state.t, state.slope, state.order, state.stream
                shrinking = self.shrinking and problem.penalty == "l1"
                sweep, work = _sweep(data, moving, state.sweep, shrinking, max_visits, work)
                state = state._replace(sweep=sweep)
                if _is_over(sweep) and _seems_done(sweep, goal.tol):
                    break
        return state

    def _is_time_for_newton(self, problem: Problem, data: Constants, state: PrimalCDState) -> bool:
        """Whether sweeps have cost what a Newton step would: whichever is the better way, the other only doubles it."""
        sweep = state.sweep
        if not (self.newton and problem.penalty == "l1" and _is_over(sweep) and sweep.walked > 0):
            return False
        return sweep.walked >= l1_newton.work_of(data.columns, len(state.t), state.order[: sweep.n_kept])

    def report(self, problem: Problem, state: PrimalCDState, goal: Goal) -> Report:
        """P as of the end of the last sweep, and the gap as its visits found it."""
        sweep = state.sweep
        gap = sweep.gap if _is_over(sweep) else sweep.last_gap
        is_known = gap < np.inf
        return Report(
            passes=sweep.visits / len(state.w),
            primal=sweep.primal if is_known else math.nan,
            dual=sweep.primal - gap if is_known else math.nan,
            believes=_believes(state, goal),
            counters={
                "updates": sweep.updates,
                "evaluations": sweep.evaluations,
                "newton_steps": state.newton_steps,
                "active": sweep.n_kept if _is_over(sweep) else sweep.n_active,
            },
        )

    def certificate(self, problem: Problem, state: PrimalCDState) -> Certificate:
        """For L2 one pass: P - D is 1/2 |gradient|^2."""
        if problem.penalty == "l1":
            return problem.certificate(state.w)
        gradient, z = state.w.copy(), np.empty(problem.n_rows)
        blocks = n_blocks(problem.rows, n_stored(problem.rows), problem.n_weights)
        risk = add_evaluation(problem, state.w, z, gradient, 0.0, 0, problem.n_rows, blocks)
        primal = 0.5 * float(state.w @ state.w) + risk
        gap = min(0.5 * float(gradient @ gradient), primal)
        return Certificate(primal, primal - gap, gap)

    def reconsider(self, problem: Problem, state: PrimalCDState, goal: Goal, certificate: Certificate) -> PrimalCDState:
        """Take all features back if some are shrunk, else mend the forecast; and t, if rounding has made it drift."""
        sweep = state.sweep
        foretold = sweep.doubt * (sweep.gap if _is_over(sweep) else sweep.last_gap)
        if _is_building(state) or not (_believes(state, goal) or certificate.gap > 2.0 * foretold):
            return state
        t, slope = _arguments(problem, state.w)
        sweep = sweep._replace(penalty=_penalty(problem, state.w))
        n, n_coming = len(state.w), sweep.n_kept + sweep.n_active - sweep.position
        if n_coming < n:
            sweep = sweep._replace(n_active=0, position=0, n_kept=n, M=np.inf, gap=np.inf, last_gap=np.inf)
            return state._replace(t=t, slope=slope, order=_all_features(problem), sweep=sweep)
        doubt = sweep.doubt * (max(1.5, certificate.gap / foretold) if foretold > 0.0 else 1.5)
        return state._replace(t=t, slope=slope, sweep=sweep._replace(doubt=doubt))


def _is_over(sweep: Sweep) -> bool:
    return sweep.position >= sweep.n_active


def _is_building(state: PrimalCDState) -> bool:
    return len(state.model.features) > 0


def _believes(state: PrimalCDState, goal: Goal) -> bool:
    return not _is_building(state) and _is_over(state.sweep) and bool(_seems_done(state.sweep, goal.tol))


def _all_features(problem: Problem) -> Array:
    return np.arange(problem.n_weights, dtype=np.uint32)


def _penalty(problem: Problem, w: Array) -> float:
    return float(np.abs(w).sum()) if problem.penalty == "l1" else 0.5 * float(w @ w)


def _arguments(problem: Problem, w: Array) -> tuple[Array, Array]:
    """t_i and phi'(t_i) of the rows that have a cost."""
    kept = problem.cost > 0.0
    z = problem.decision(w) if w.any() else np.zeros(problem.n_rows)
    t = argument(problem.loss, z[kept], problem.y[kept])
    return t, _slopes(problem, t)


def _slopes(problem: Problem, t: Array) -> Array:
    slope = np.empty(len(t))
    _fill_slopes(problem.loss, t, slope)
    return slope


@lean_kernel
def _fill_slopes(loss, t, slope):
    for i in range(len(t)):
        slope[i] = derivative(loss, t[i])


def _advance(problem: Problem, data: Constants, state: PrimalCDState) -> tuple[PrimalCDState, int]:
    """Go on with a Newton step, by a part of it; what that took."""
    model, used = l1_newton.advance(problem, data, state.w, state.t, state.slope, state.model)
    per_visit = 2.0 * (1.0 + n_stored(data.columns) / len(state.w))  # a visit walks over its column twice, mostly
    sweep = state.sweep._replace(visits=state.sweep.visits + 1 + int(used / per_visit))
    if len(model.features) == 0:
        sweep = sweep._replace(walked=0, penalty=_penalty(problem, state.w))
        state = state._replace(newton_steps=state.newton_steps + 1)
    return state._replace(model=model, sweep=sweep), used


# ---------------------------------------------------------------- what does not move


class Constants(NamedTuple):
    """What kernels read of a problem."""

    columns: Rows
    signed_cost: Array  # sign_i C_i, of the rows that have a cost
    bound: Array  # of the second derivative of the losses in w_j: sum_i C_i x_ij^2 max phi''
    largest: Array  # |x_ij| of each column
    loss: Loss
    bias: float  # what the last column's ones stand for; 1 where there is no such column
    is_l1: bool


_known: WeakKeyDictionary[Problem, Constants] = WeakKeyDictionary()


def _constants(problem: Problem) -> Constants:
    """Computed once for each problem: a copy of the data by columns, and a pass over it."""
    known = _known.get(problem)
    if known is None:
        columns, kept = columns_of(problem).transposed, problem.cost > 0.0
        signed_cost = (problem.cost * sign(problem.loss, problem.y))[kept]
        bias = problem.rows.bias if problem.rows.bias != 0.0 else 1.0
        bound, largest = np.empty(problem.n_weights), np.empty(problem.n_weights)
        _column_sizes(columns, signed_cost, bound, largest)
        bound *= largest_curvature(problem.loss)
        bound[-1] *= bias * bias
        largest[-1] *= abs(bias)
        known = Constants(columns, signed_cost, bound, largest, problem.loss, bias, problem.penalty == "l1")
        _known[problem] = known
    return known


@lean_kernel
def _column_sizes(columns, signed_cost, bound, largest):
    for j in range(len(bound)):
        bound[j], largest[j] = column_size(columns, j, signed_cost)


# ---------------------------------------------------------------- sweeps


@kernel
def _seems_done(s, tol):
    """Whether the gap that the next sweep would find, if it shrinks as before, meets the tolerance."""
    if s.n_kept == 0:
        return True
    forecast = s.doubt * s.gap
    if 0.0 < s.last_gap < np.inf:
        forecast *= min(1.0, s.gap / s.last_gap)
    return forecast < np.inf and forecast <= tol * s.primal


@kernel
def _sweep(data, moving, s, shrinking, max_visits, work):
    """Go on with a sweep, or begin one, to its end or that of a limit; and what is left of the work."""
    if s.position >= s.n_active:
        shuffle(moving[3], s.n_kept, moving[4])
        s = Sweep(
            s.n_kept, 0, 0, s.M / len(moving[1]), 0.0, 0.0, s.gap, s.penalty, s.primal, s.doubt,
            s.visits, s.updates, s.evaluations, s.walked,
        )  # fmt: skip
    before = s.walked
    s = _steps(data, moving, s, shrinking, max_visits, work)
    work -= s.walked - before
    if s.position >= s.n_active:
        s = _end(data, moving[1], s)
    return s, work


@lean_kernel
def _end(data, t, s):
    """P and the gap at the end of a sweep, from what is known of t and the violations."""
    risk, gap = 0.0, s.gap
    for i in range(len(t)):
        risk += abs(data.signed_cost[i]) * value(data.loss, t[i])
    if data.is_l1:
        excess = s.M / (1.0 + s.M)  # the part of alpha that is too much
        gap += excess * s.penalty + excess * excess * risk
    return Sweep(
        s.n_active, s.position, s.n_kept, s.M_bar, s.M, gap, s.last_gap, s.penalty, risk + s.penalty, s.doubt,
        s.visits, s.updates, s.evaluations, s.walked,
    )  # fmt: skip


@lean_kernel
def _steps(data, moving, s, shrinking, max_visits, work):
    """One-variable steps to the end of the sweep or of a limit."""
    columns, signed_cost, bound, largest, loss, bias, is_l1 = data
    w, t, slope, order, _ = moving
    position, n_kept, M, gap, penalty = s.position, s.n_kept, s.M, s.gap, s.penalty
    visits, updates, evaluations, walked = s.visits, s.updates, s.evaluations, s.walked
    while position < s.n_active and walked < s.walked + work and visits < max_visits:
        if position + 2 * _LOOKAHEAD < s.n_active:  # first where a column lies, then what is there
            ahead = np.int64(order[position + 2 * _LOOKAHEAD])
            prefetch_place(columns, ahead)
            prefetch(w, ahead)
            prefetch(bound, ahead)
            prefetch_row(columns, np.int64(order[position + _LOOKAHEAD]))
        j = np.int64(order[position])
        position += 1
        visits += 1
        size = 1 + row_size(columns, j)
        walked += size
        weight, unit = w[j], bias if j == len(w) - 1 else 1.0
        G, H = derivatives(columns, j, loss, slope, signed_cost)
        G, H = unit * G, max(unit * unit * H, FLATTEST * bound[j])
        if is_l1:
            if shrinking and weight == 0.0 and abs(G) < 1.0 - s.M_bar:
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
            most = mean_curvature(loss, H, bound[j], step * abs(d) * largest[j]) + (0.0 if is_l1 else 1.0)
            if 0.5 * most * step * d * d <= (_SIGMA - 1.0) * Delta:  # proof enough
                break
            gain, rounding = change(columns, j, loss, t, slope, signed_cost, step * d * unit)
            gain += abs(weight + step * d) - abs(weight) if is_l1 else step * d * (weight + 0.5 * step * d)
            evaluations += 1
            walked += size
            if gain <= _SIGMA * step * Delta + _ROUNDING * (rounding + abs(weight)):
                break
            step *= _BETA
        new = weight + step * d
        penalty += abs(new) - abs(weight) if is_l1 else 0.5 * (new - weight) * (new + weight)
        w[j] = new
        move(columns, j, loss, t, slope, signed_cost, step * d * unit)
        updates += 1
        walked += size
    return Sweep(
        s.n_active, position, n_kept, s.M_bar, M, gap, s.last_gap, penalty, s.primal, s.doubt,
        visits, updates, evaluations, walked,
    )  # fmt: skip
