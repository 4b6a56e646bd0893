"""An augmented Lagrangian for losses with kinks, its steps by Newton's method over the rows at a kink.

    max_alpha  D(alpha) = -1/2 |sum_i alpha_i sign_i x_i|^2 - sum_i C_i phi*(-alpha_i / C_i) + alpha_i target_i

is solved by proximal steps: each maximises D(alpha) - sum_i (alpha_i - centre_i)^2 / (2 s C_i), and the answer is the
next centre. The dual of that problem has w alone for its variable, and is smooth (Rockafellar: Augmented Lagrangians
and applications of the proximal point algorithm in convex programming, Mathematics of Operations Research 1, 1976):

    (1)  min_w  1/2 |w|^2 + sum_i max over a of (-a t_i(w) - C_i phi*(-a / C_i) - (a - centre_i)^2 / (2 s C_i)).

The best a is one formula, `_best_alpha`; for the hinge it is centre_i + s C_i (1 - t_i), cut to 0..C_i. The gradient of
(1) is w - sum_i alpha_i sign_i x_i at these alpha. Its Hessian changes where an alpha comes to a bound:

    (2)  H = I + s / (1 + s kappa) sum over free rows of C_i x_i x_i',

free: alpha_i is at no bound and no kink. Newton's method with an exact line search takes one to ten steps for each
centre. Any s would do. The larger it is, the fewer centres are needed, and the fewer rows are free: one begins with
all of them free, and an s that is larger for each centre leaves a few hundred. Here is where the time is saved: a step
is one product X dw, and what it takes to add the rows whose alpha has changed.

Yan, Li: An efficient augmented Lagrangian method for support vector machine, Optimization Methods and Software 35,
2020. Li, Sun, Toh: A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems, SIAM J.
Optimization 28, 2018, has the theory.

Papers -> code: lambda -> centre, sigma -> s C_i, the generalised Hessian V -> H.

What differs from the papers, and why:

* The sum of (2) is kept, and changed by the rows that have become free or are no longer so; it is the matrix of a
  Cholesky factor. (The papers take conjugate gradients.)
* sigma is in units of cost: a row of weight 2 takes the same course as a row that is given twice.
* All alpha are feasible at all times, so every point of the way has a gap, and it decides: the search for the present
  centre ends when the gap is due to (1) not being the problem, and no longer to |w - sum_i alpha_i sign_i x_i|.
* s grows by how hard the last search was. Constant factors of 4 to 16 are worse by a half on some data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import kernel, lean_kernel
from maxmargin.gram import cholesky, cholesky_solve, one_blas_thread
from maxmargin.losses import QUADRATIC_DUAL, argument, dual_form, sign, slack, target, value
from maxmargin.parallel import map_blocks
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, n_stored, row_dot
from maxmargin.solvers._hessian import add_gram, add_rows, best_step, dot, line_blocks, n_blocks, padded
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.dual_cd import _feasible

_BLOCK = 1 << 23  # stored values that one update walks over: 10 ms or so
_MOST_WEIGHTS = 10_000
_WIDTH = 2.0  # of the window in which rows are free, 1 / s, to begin with: so many times what t is off at w = 0
_GROWTH = 3.0  # of s for the next centre: this after a search of ordinary length, its square after a short one
_SHORT, _LONG = 1, 6  # Newton steps
_MOST_STEPS = 30  # of a search: what it has not found by then, rounding errors hide
_DONE = 0.5  # share of the gap that |w - v|^2 / 2 may have when a search ends
_OF_WIDTH = 0.05  # relative gap after a search, for a window of width one; it falls with the square of the width
_LARGEST = 1e9  # s, beside what it begins with
_CHANGE, _WALK = range(2)


class Search(NamedTuple):
    """The present problem (1)."""

    centre: Array
    s: float
    steps: int  # of Newton's method, so far


class Matrix(NamedTuple):
    """The sum of (2), over the rows that were free when it was last looked at."""

    gram: Array  # its upper triangle
    is_free: Array


class Change(NamedTuple):
    """Rows whose alpha is new, and by how much: what v is yet to learn."""

    which: Array
    by: Array


class Course(NamedTuple):
    """Where the method is, and the work so far."""

    phase: int
    position: int  # of the next row to visit in this phase
    rows: int  # that have a cost: a pass visits so many
    visits: int
    steps: int
    centres: int
    free: int  # rows
    primal: float  # P(w), known at the end of a change; nan before
    gap: float  # P(w) - D(alpha)


class AugmentedLagrangianState(NamedTuple):
    """What moves in the augmented Lagrangian method."""

    w: Array
    alpha: Array
    z: Array  # x_i'w
    v: Array  # weights(alpha), once the change is made
    change: Change
    search: Search
    matrix: Matrix
    dw: Array
    dz: Array  # x_i'dw, of the rows walked over
    course: Course


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """Augmented Lagrangian with Newton steps: the method of choice for a hinge, many rows and some thousand features.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1e4, loss="hinge")
    >>> result = solve(problem, solver=AugmentedLagrangian(), tol=1e-8)
    >>> result.certificate.relative_gap <= 1e-8
    True
    """

    name: ClassVar[str] = "augmented_lagrangian"
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL
    check_every: ClassVar[float] = 50.0  # a certificate would tell what is known: the gap is kept in step

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> AugmentedLagrangianState:
        """Start at w = 0, or near the w and alpha of another state: the smaller their gap, the larger s."""
        n, m = problem.n_weights, problem.n_rows
        if n > _MOST_WEIGHTS:
            raise ValueError(
                f"augmented_lagrangian takes at most {_MOST_WEIGHTS} features, got {n}: its matrix would take "
                f"{8e-9 * n * n:.1f} GB; use dual_cd"
            )
        w, alpha, s = weights_to_start_at(problem, start), np.zeros(m), _first_s(problem)
        z, v = np.zeros(m), np.zeros(n)
        if start is not None:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(w) if known is None else _feasible(problem, known)
            gap = problem.certificate(w, alpha).relative_gap
            s *= min(max(_WIDTH * math.sqrt(_OF_WIDTH / max(gap, 1e-300)) / 2.0, 1.0), _LARGEST)
            z, v = problem.decision(w), problem.weights(alpha)
        size = padded(n)
        course = Course(_CHANGE, 0, int(np.count_nonzero(problem.cost)), 0, 0, 1, 0, math.nan, math.inf)
        state = AugmentedLagrangianState(
            w=w,
            alpha=alpha,
            z=z,
            v=v,
            change=Change(np.zeros(0, np.int64), np.zeros(0)),
            search=Search(alpha.copy(), s, 0),
            matrix=Matrix(np.zeros((size, size)), np.zeros(m, np.bool_)),
            dw=np.zeros(n),
            dz=np.zeros(m),
            course=course,
        )
        return _begin_change(problem, state)

    def update(self, problem: Problem, state: AugmentedLagrangianState, goal: Goal) -> AugmentedLagrangianState:
        """Visit rows, for a block of work or as far as the goal's passes allow."""
        visits_before, last_visit = state.course.visits, last_visit_of(goal, state.course.rows)
        work, cost = float(_BLOCK), 1.0 + n_stored(problem.rows) / problem.n_rows
        while not _is_reached(state, goal) and state.course.visits < last_visit:
            if work <= 0.0 and state.course.visits > visits_before:
                break
            room, begin = last_visit - state.course.visits, state.course.position
            if state.course.phase == _CHANGE:
                state = _add_changed_rows(problem, state, room)
            else:
                state = _walk(problem, state, min(room, 1 + int(_BLOCK / cost)))
            work -= cost * (state.course.position - begin)
            if state.course.phase == _CHANGE and state.course.position == len(state.change.which):
                state = _after_change(problem, state, goal)
            elif state.course.phase == _WALK and state.course.position == problem.n_rows:
                state = _after_walk(problem, state)
        return state

    def report(self, problem: Problem, state: AugmentedLagrangianState, goal: Goal) -> Report:
        """The gap comes from z and v, which are kept in step with w and alpha."""
        course = state.course
        return Report(
            passes=course.visits / course.rows,
            primal=course.primal,
            dual=course.primal - course.gap,
            believes=_is_reached(state, goal),
            counters={"steps": course.steps, "centres": course.centres, "free": course.free},
        )

    def certificate(self, problem: Problem, state: AugmentedLagrangianState) -> Certificate:
        """That of w and alpha, which do not belong together: their distance is a part of the gap."""
        return problem.certificate(state.w, state.alpha)

    def reconsider(
        self, problem: Problem, state: AugmentedLagrangianState, goal: Goal, certificate: Certificate
    ) -> AugmentedLagrangianState:
        """A belief that proves wrong is due to rounding in z and v: compute them anew."""
        if not _is_reached(state, goal):
            return state
        z, v = problem.decision(state.w), problem.weights(state.alpha)
        state = _with(state._replace(z=z, v=v), primal=certificate.primal, gap=certificate.gap)
        return _newton_step(problem, state)


def _is_reached(state: AugmentedLagrangianState, goal: Goal) -> bool:
    course = state.course
    return course.phase == _WALK and course.position == 0 and course.gap <= goal.tol * course.primal


def _with(state: AugmentedLagrangianState, **course: Any) -> AugmentedLagrangianState:
    return state._replace(course=state.course._replace(**course))


def _first_s(problem: Problem) -> float:
    """So small that every row is free at w = 0: 1 / s is of the size of what t is off there."""
    off = _distance_at_zero(problem.y, problem.cost, problem.loss)
    return 1.0 / (_WIDTH * off) if off > 0.0 else 1.0


@kernel
def _distance_at_zero(y, cost, loss):
    """Mean distance of t from where the loss is at rest, at w = 0, over the costs."""
    form = dual_form(loss)
    total, costs = 0.0, 0.0
    for i in range(len(y)):
        total += cost[i] * abs(form.linear + target(loss, y[i]))
        costs += cost[i]
    return total / costs


# ---------------------------------------------------------------- from w to alpha


@kernel
def _best_alpha(form, t, C, centre, s):
    """The a of (1), and whether it is free."""
    u = centre + s * C * (form.linear - t)
    if form.epsilon > 0.0:
        kink = s * C * form.epsilon
        u = max(0.0, u - kink) + min(0.0, u + kink)
    u /= 1.0 + s * form.curvature
    lower, upper = form.lower * C, form.upper * C
    is_free = lower < u < upper and (form.epsilon == 0.0 or u != 0.0)
    return min(max(u, lower), upper), is_free


def _begin_change(problem: Problem, state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    """New alpha for the present w, centre and s; the matrix is told which rows are free."""
    m, search, (gram, is_free) = problem.n_rows, state.search, state.matrix
    labels, point = (problem.y, problem.cost, problem.loss), (state.z, search.centre, search.s)
    alpha, by, which, turned = np.zeros(m), np.empty(m), np.empty(m, np.int64), np.empty(m, np.int64)
    borders = line_blocks(state.z)
    sums = map_blocks(
        lambda lo, hi: _respond(labels, point, (state.alpha, alpha), (by, which), (is_free, turned), lo, hi),
        borders,
        problem.n_jobs,
    )
    risks, slacks, n_changed, n_turned, n_free = zip(*sums)
    change = Change(_joined(which, borders, n_changed), _joined(by, borders, n_changed))
    _add_turned_rows(problem, state.matrix, _joined(turned, borders, n_turned), sum(n_free))
    primal = 0.5 * dot(state.w, state.w) + sum(risks)
    state = state._replace(alpha=alpha, change=change, matrix=Matrix(gram, is_free))
    return _with(state, phase=_CHANGE, position=0, free=sum(n_free), primal=primal, gap=sum(slacks))


def _joined(items: Array, borders: Array, counts: Sequence[int]) -> Array:
    """The first few items of each block, one after the other."""
    return np.concatenate([items[lo : lo + n] for lo, n in zip(borders, counts)])


@lean_kernel
def _respond(labels, point, alphas, changes, turns, lo, hi):
    """Write new alpha, by how much they differ and where, and which rows have become free or are no longer so.

    Sums of C_i phi(t_i) and of the slacks, and the numbers of rows that have changed, have turned and are free.
    """
    y, cost, loss = labels
    z, centre, s = point
    before, alpha = alphas
    by, which = changes
    is_free, turned = turns
    form = dual_form(loss)
    risk, slacks, n_changed, n_turned, n_free = 0.0, 0.0, 0, 0, 0
    for i in range(lo, hi):
        C = cost[i]
        if C > 0.0:
            t = argument(loss, z[i], y[i])
            a, free = _best_alpha(form, t, C, centre[i], s)
            alpha[i] = a
            risk += C * value(loss, t)
            slacks += slack(loss, t, a, C)
            if a != before[i]:
                which[lo + n_changed], by[lo + n_changed] = i, (a - before[i]) * sign(loss, y[i])
                n_changed += 1
            if free != is_free[i]:
                is_free[i] = free
                turned[lo + n_turned] = i
                n_turned += 1
            n_free += free
    return risk, slacks, n_changed, n_turned, n_free


def _add_turned_rows(problem: Problem, matrix: Matrix, turned: Array, n_free: int) -> None:
    """Bring the sum of (2) up to date; from nothing, if that is less work."""
    gram, is_free = matrix
    if len(turned) >= n_free:
        gram[:] = 0.0
        turned = np.flatnonzero(is_free)
    weights = np.where(is_free[turned], problem.cost[turned], -problem.cost[turned])
    stored = n_stored(problem.rows) / problem.n_rows
    add_gram(problem, turned, weights, gram, n_blocks(problem.rows, len(turned) * stored * stored / 8.0, gram.size))


def _add_changed_rows(problem: Problem, state: AugmentedLagrangianState, room: int) -> AugmentedLagrangianState:
    """Bring v up to date. What is divided into blocks is done whole, so that sums do not depend on pauses."""
    (which, by), begin = state.change, state.course.position
    stored = 1.0 + n_stored(problem.rows) / problem.n_rows
    blocks = n_blocks(problem.rows, len(which) * stored, problem.n_weights)
    end = len(which) if blocks > 1 else min(len(which), begin + room)
    add_rows(problem, which[begin:end], by[begin:end], state.v, blocks)
    return _with(state, position=end, visits=state.course.visits + end - begin)


def _after_change(problem: Problem, state: AugmentedLagrangianState, goal: Goal) -> AugmentedLagrangianState:
    """A step, or the next centre if there is little left to gain with this one."""
    apart = state.w - state.v
    distance, slacks = 0.5 * dot(apart, apart), state.course.gap
    gap = slacks + distance
    steps = state.search.steps
    is_done = steps >= _MOST_STEPS or (steps > 0 and distance <= _DONE * gap)
    is_done = is_done and gap > goal.tol * state.course.primal
    if is_done and state.search.s < _LARGEST * _first_s(problem):
        return _begin_change(problem, _with(_next_search(state), centres=state.course.centres + 1))
    return _newton_step(problem, _with(state, gap=min(gap, state.course.primal)))


def _next_search(state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    steps = state.search.steps
    growth = _GROWTH**2 if steps <= _SHORT else _GROWTH if steps <= _LONG else math.sqrt(_GROWTH)
    return state._replace(search=Search(state.alpha.copy(), growth * state.search.s, 0))


# ---------------------------------------------------------------- Newton's method on (1)


def _newton_step(problem: Problem, state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    """The step -H^-1 (w - v)."""
    n, s = problem.n_weights, state.search.s
    H = state.matrix.gram[:n, :n] * _curvature(problem, s)
    H[np.diag_indices(n)] += 1.0
    with one_blas_thread():
        dw = cholesky_solve(H, cholesky(H), state.v - state.w)
    return _with(state._replace(dw=dw), phase=_WALK, position=0)


def _curvature(problem: Problem, s: float) -> float:
    return s / (1.0 + s * dual_form(problem.loss).curvature)


def _walk(problem: Problem, state: AugmentedLagrangianState, room: int) -> AugmentedLagrangianState:
    """x_i'dw of the next rows, no more than there is room for."""
    begin, has_all = state.course.position, state.course.rows == problem.n_rows
    end = min(begin + room, problem.n_rows) if has_all else _end_of_walk(problem.cost, begin, room)
    visits = end - begin if has_all else int(np.count_nonzero(problem.cost[begin:end]))
    borders = np.unique(np.clip(problem.blocks, begin, end))
    map_blocks(
        lambda lo, hi: _products(problem.rows, problem.cost, state.dw, state.dz, lo, hi), borders, problem.n_jobs
    )
    return _with(state, position=end, visits=state.course.visits + visits)


@kernel
def _end_of_walk(cost, begin, room):
    """Where a walk over `room` rows that have a cost ends, rows without one behind them included."""
    i = begin
    while i < len(cost) and (room > 0 or cost[i] == 0.0):
        room -= cost[i] > 0.0
        i += 1
    return i


@lean_kernel
def _products(rows, cost, dw, dz, lo, hi):
    for i in range(lo, hi):
        if cost[i] > 0.0:
            dz[i] = row_dot(rows, i, dw)


def _after_walk(problem: Problem, state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    """To the least value of (1) along the step."""
    dw, search = state.dw, state.search
    step = best_step(_Line(problem, state).slope, dot(state.w, dw) - dot(state.v, dw))
    search = search._replace(steps=search.steps + 1)
    state = state._replace(w=state.w + step * dw, z=state.z + step * state.dz, search=search)
    return _begin_change(problem, _with(state, steps=state.course.steps + 1))


class _Line:
    """The slope of (1) along a step.

    A row whose alpha is at the same bound at both ends of the step adds the same to the slope all along it. So once it
    is known that the least value lies between them, the other rows are all that has to be looked at.
    """

    def __init__(self, problem: Problem, state: AugmentedLagrangianState):
        w, dw, search = state.w, state.dw, state.search
        self.n_jobs, self.curvature = problem.n_jobs, _curvature(problem, search.s)
        self.labels = problem.y, problem.cost, problem.loss
        self.line = state.z, state.dz, search.centre, search.s
        self.at_zero, self.dd = dot(w, dw), dot(dw, dw)
        self.which: Array | None = None  # the rows to look at, where these are not all

    def slope(self, step: float) -> tuple[float, float]:
        """First and second derivative. After a step below 1, all must be so."""
        if step < 1.0 and self.which is None:
            self._leave_out()
        which = np.arange(0) if self.which is None else self.which
        borders = line_blocks(self.line[0] if self.which is None else which)
        parts = map_blocks(
            lambda lo, hi: _slope(self.labels, self.line, which, step, lo, hi), borders, self._jobs_for(borders)
        )
        first, second = (sum(part) for part in zip(*parts))
        return self.at_zero + step * self.dd - first, self.dd + self.curvature * second

    def _leave_out(self) -> None:
        borders, which = line_blocks(self.line[0]), np.empty(len(self.line[0]), np.int64)
        parts = map_blocks(
            lambda lo, hi: _leave_out(self.labels, self.line, which, lo, hi), borders, self._jobs_for(borders)
        )
        n_left, constants = zip(*parts)
        self.which = _joined(which, borders, n_left)
        self.at_zero -= sum(constants)

    def _jobs_for(self, borders: Array) -> int:
        return self.n_jobs if len(borders) > 2 else 1


@lean_kernel
def _slope(labels, line, which, step, lo, hi):
    """Sums of alpha_i sign_i dz_i, and of C_i dz_i^2 over free rows, at z + step dz; all rows if `which` is empty."""
    y, cost, loss = labels
    z, dz, centre, s = line
    form = dual_form(loss)
    first, second = 0.0, 0.0
    for k in range(lo, hi):
        i = which[k] if len(which) else k
        if cost[i] > 0.0:
            t = argument(loss, z[i] + step * dz[i], y[i])
            alpha, is_free = _best_alpha(form, t, cost[i], centre[i], s)
            first += alpha * sign(loss, y[i]) * dz[i]
            if is_free:
                second += cost[i] * dz[i] * dz[i]
    return first, second


@lean_kernel
def _leave_out(labels, line, which, lo, hi):
    """Write the rows that must be looked at; how many they are, and what the others add to the slope."""
    y, cost, loss = labels
    z, dz, centre, s = line
    form = dual_form(loss)
    n, constant = 0, 0.0
    for i in range(lo, hi):
        if cost[i] > 0.0:
            here, is_free = _best_alpha(form, argument(loss, z[i], y[i]), cost[i], centre[i], s)
            there, is_free_there = _best_alpha(form, argument(loss, z[i] + dz[i], y[i]), cost[i], centre[i], s)
            if here == there and not is_free and not is_free_there:
                constant += here * sign(loss, y[i]) * dz[i]
            else:
                which[lo + n] = i
                n += 1
    return n, constant
