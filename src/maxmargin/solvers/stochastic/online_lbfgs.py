"""Online L-BFGS: steps by the gradient of a batch of rows, in the metric that the last steps have learnt.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

A batch of b of the m rows, its sum taken m / b times, stands for all of P. Its gradient g makes the step

    s = -eta_t B g,      eta_t = tau / (tau + t),

B as in `lbfgs`. Then the gradient is computed again where the step has led, ON THE SAME BATCH, so that its change y
is due to s and not to the choice of rows; (s, y) is remembered. A step visits each row of its batch twice.

Schraudolph, Yu, Guenter: A stochastic quasi-Newton method for online convex optimization, AISTATS 2007: algorithm 3
(oLBFGS: there is no line search, which a batch could not answer; B begins with the mean of s'y / y'y over the memory;
the first step is a tiny one, epsilon g, to learn the scale).

Paper -> code: eta_t -> rate, tau in passes over the data instead of steps, lambda -> damping, epsilon -> _FIRST over a
bound on the Hessian, m -> memory, X_t -> the rows order[begin:end].

What differs from the paper, and why:

* Steps stay in the ball |w|^2 <= 2 P(0), in which every w with P(w) <= P(0) is. (Pegasos' ball is
  |w|^2 <= P(0): that is where the optimum is.) Without a line search nothing else
  would hold a step that B, made of other rows, foresaw badly.
* A batch is so large that its gradients cost as much as the products with B (`batch=None`).
* Batches grow, by a factor of four after each certificate that does not meet the goal (Byrd, Chin, Nocedal, Wu,
  Mathematical Programming 134, 2012). In the end one batch has all rows: eta_t is one, the second gradient of a step is
  the first one of the next, and the gap is known, 1/2 |g|^2.

No hinge: between two subgradients of a batch there is no curvature but that of the rows that crossed the kink, fewer
and fewer, so that B grows and steps explode. `online_sub_lbfgs` searches along its directions instead. Figures are in
papers/stochastic/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, add_row, n_stored, prefetch_row, row_dot
from maxmargin.losses import SMOOTH, argument, derivative, sign, value
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.checks import check_count, check_number
from maxmargin.solvers.newton.lbfgs import Memory, empty_memory, remember, times_inverse
from maxmargin.solvers.visits import LOOKAHEAD, rows_with_cost
from maxmargin.vectors import dot

_BLOCK = 1 << 25  # multiplications that one update makes: 10 to 100 ms
_LEAST_BATCH = 1000
_FIRST = 1e-3  # the first step, beside one that is short enough for any curvature
_BEFORE, _AFTER = range(2)  # the step: what the batch is visited for


class Course(NamedTuple):
    """Where the method is, and the work so far."""

    phase: int
    begin: int  # of the batch, in the order of this pass
    end: int
    position: int  # of the next row to visit
    n_batches: int  # that a pass has
    visits: int
    steps: int
    next_certificate: int  # at so many visits


class OnlineLBFGSState(NamedTuple):
    """What moves in online L-BFGS."""

    w: Array
    gradient: Array  # of the batch before the step
    primal: float  # where one batch has all rows; infinite elsewhere
    s: Array  # the step
    partial: Array  # the gradient that is being summed
    risk: float  # and the risk
    memory: Memory
    order: Array  # of the rows in this pass
    rng: Array  # random state
    radius: float  # of the ball that the optimum is in
    course: Course


@dataclass(frozen=True)
class OnlineLBFGS(Solver):
    """Online L-BFGS: quasi-Newton steps by batches of rows, which grow as the answer becomes better.

    Parameters
    ----------
    memory : int
        Pairs that are remembered. Each takes two vectors as long as w.
    batch : int, optional
        Rows of a batch; None: as many as make its gradients as expensive as the rest of the step, 1000 or more.
    tau : float
        Passes after which steps are half as long as at the start.
    damping : float
        Of B: the Hessian is taken to be larger by so much, in units of the regulariser's.
    growth : int
        Factor by which batches become larger after each certificate that does not meet the goal; 1: never.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> result = solve(problem, solver=OnlineLBFGS(), tol=1e-3)
    >>> result.certificate.relative_gap <= 1e-3
    True
    """

    memory: int = 10
    batch: int | None = None
    tau: float = 1.0
    damping: float = 0.0
    growth: int = 4

    name: ClassVar[str] = "olbfgs"
    losses: ClassVar[tuple[type, ...]] = SMOOTH

    def __post_init__(self) -> None:
        for name in ("memory", "growth", *(() if self.batch is None else ("batch",))):
            check_count(self, name, 1)
        check_number(self, "tau", above=True)
        check_number(self, "damping")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> OnlineLBFGSState:
        """Start at w = 0, or at the w of another state."""
        w, order = weights_to_start_at(problem, start), rows_with_cost(problem)
        n_batches = self._n_batches(problem, len(order))
        state = OnlineLBFGSState(
            w=w,
            gradient=np.zeros(len(w)),
            primal=math.inf,
            s=np.zeros(len(w)),
            partial=w.copy(),
            risk=0.0,
            memory=empty_memory(self.memory, len(w)),
            order=order,
            rng=new_rng(seed),
            radius=math.sqrt(2.0 * problem.primal(np.zeros(len(w)))),
            course=Course(_BEFORE, 0, 0, 0, n_batches, 0, 0, 2 * len(order)),
        )
        return _next_batch(state)

    def _n_batches(self, problem: Problem, n_rows: int) -> int:
        """How many batches a pass has, all of about the same size."""
        size = self.batch
        if size is None:
            of_row = 1.0 + n_stored(problem.rows) / problem.n_rows
            size = max(_LEAST_BATCH, math.ceil(self.memory * problem.n_weights / of_row))
        return max(1, round(n_rows / size))

    def update(self, problem: Problem, state: OnlineLBFGSState, goal: Goal) -> OnlineLBFGSState:
        """Visit batches, for a block of work, to the next certificate, or as far as the goal's passes allow."""
        rows = len(state.order)
        last_visit = min(last_visit_of(goal, rows), max(state.course.next_certificate, state.course.visits + 1))
        data = problem.rows, problem.y, problem.cost, problem.loss
        of_row = 4 * (1 + n_stored(problem.rows) // problem.n_rows)
        work = float(_BLOCK)
        while work > 0.0 and state.course.visits < last_visit and not _knows(state, goal):
            course = state.course
            end = min(course.end, course.position + last_visit - course.visits, course.position + 1 + _BLOCK // of_row)
            point = state.w if course.phase == _BEFORE else state.w + state.s
            risk = _add_batch(
                data,
                (state.order, course.position, end, rows / (course.end - course.begin)),
                (point, state.partial, state.risk),
            )
            work -= of_row * (end - course.position)
            course = course._replace(position=end, visits=course.visits + end - course.position)
            state = state._replace(risk=risk, course=course)
            if end == course.end:
                state = self._step(problem, state) if course.phase == _BEFORE else self._learn(problem, state)
                work -= 4.0 * self.memory * problem.n_weights
        return state

    def _step(self, problem: Problem, state: OnlineLBFGSState) -> OnlineLBFGSState:
        """From the gradient of the batch to the step; next is the gradient where it leads."""
        course, gradient, memory, primal = state.course, state.partial, state.memory, math.inf
        if course.n_batches == 1:
            primal = 0.5 * dot(state.w, state.w) + state.risk
        scale = _scale(memory) if memory.n else _FIRST / (1.0 + dot(problem.cost, problem.norms2))
        reach = self.tau * course.n_batches
        rate = 1.0 if course.n_batches == 1 or memory.n == 0 else reach / (reach + course.steps)
        there = state.w - rate * times_inverse(memory, scale, gradient)
        length = math.sqrt(dot(there, there))
        if length > state.radius:
            there *= state.radius / length
        course = course._replace(phase=_AFTER, position=course.begin)
        return state._replace(
            gradient=gradient, primal=primal, s=there - state.w, partial=there.copy(), risk=0.0, course=course
        )

    def _learn(self, problem: Problem, state: OnlineLBFGSState) -> OnlineLBFGSState:
        """Take the step, and remember what it did to the gradient."""
        s, course = state.s, state.course
        memory = remember(state.memory, s, state.partial - state.gradient + self.damping * s)
        course = course._replace(steps=course.steps + 1)
        state = state._replace(w=state.w + s, memory=memory, course=course)
        if course.begin == 0 and course.end == len(state.order):  # what comes next has just been done
            return self._step(problem, state)
        return _next_batch(state)

    def report(self, problem: Problem, state: OnlineLBFGSState, goal: Goal) -> Report:
        """Objectives are known where one batch has all rows; elsewhere a certificate is due after twice the passes."""
        course, is_known = state.course, state.primal < math.inf
        return Report(
            passes=course.visits / len(state.order),
            primal=state.primal if is_known else math.nan,
            dual=state.primal - _gap(state) if is_known else math.nan,
            believes=_knows(state, goal) or course.visits >= course.next_certificate,
            counters={"steps": course.steps},
        )

    def certificate(self, problem: Problem, state: OnlineLBFGSState) -> Certificate:
        """That of w."""
        return problem.certificate(state.w)

    def reconsider(
        self, problem: Problem, state: OnlineLBFGSState, goal: Goal, certificate: Certificate
    ) -> OnlineLBFGSState:
        """Larger batches, and the next certificate after as many passes again."""
        visits, n_batches = state.course.visits, state.course.n_batches
        course = state.course._replace(
            n_batches=max(1, n_batches // self.growth), next_certificate=visits + max(visits, len(state.order))
        )
        return state._replace(course=course)


def _next_batch(state: OnlineLBFGSState) -> OnlineLBFGSState:
    """The rows after those of the last batch, or the first ones in a new order."""
    rows, course = len(state.order), state.course
    begin = course.end % rows
    if begin == 0 and course.n_batches > 1:
        shuffle(state.order, rows, state.rng)
    # Batches of about the same size, also if there are fewer of them than when the pass began.
    n_left = max(1, round(course.n_batches * (rows - begin) / rows))
    course = course._replace(phase=_BEFORE, begin=begin, end=begin + (rows - begin) // n_left, position=begin)
    return state._replace(partial=state.w.copy(), risk=0.0, course=course)


def _scale(memory: Memory) -> float:
    """The multiple of the identity that B begins with: the mean of s'y / y'y."""
    lines = slice(min(memory.n, len(memory.S)))
    return float(np.mean(memory.sy[lines] / memory.yy[lines]))


def _gap(state: OnlineLBFGSState) -> float:
    return min(0.5 * dot(state.gradient, state.gradient), state.primal)


def _knows(state: OnlineLBFGSState, goal: Goal) -> bool:
    """Whether the gradient of all rows proves that the goal is reached."""
    return state.primal < math.inf and _gap(state) <= goal.tol * state.primal


@compiled_lean
def _add_batch(data, batch, point):
    """Add the batch's share of the gradient at w; the risk with its share added."""
    rows, y, cost, loss = data
    order, begin, end, factor = batch
    w, gradient, risk = point
    for k in range(begin, end):
        if k + LOOKAHEAD < end:
            prefetch_row(rows, np.int64(order[k + LOOKAHEAD]))
        i = np.int64(order[k])
        t = argument(loss, row_dot(rows, i, w), y[i])
        risk += factor * cost[i] * value(loss, t)
        slope = cost[i] * derivative(loss, t)
        if slope != 0.0:
            add_row(rows, i, factor * slope * sign(loss, y[i]), gradient)
    return risk
