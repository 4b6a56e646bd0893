"""Four textbook methods, as small as they can be: GD, SGD, and both with the full matrix of second derivatives.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i,      phi smooth

They are the rows of table 2 of Menon's survey (Large-scale support vector machines: algorithms and theory, 2009),
after Bottou and Bousquet (The tradeoffs of large scale learning, NIPS 2007): with d features, n rows and condition
number kappa, the time that each needs to come within rho of the least objective:

    GD    "gd"         w - eta g                    n d kappa log(1 / rho)            a pass a step
    2GD   "2gd"        w - eta H^-1 g               (d^2 + n d) d log log(1 / rho)    a pass a step
    SGD   "sgd_plain"  w - g_i / (t0 + t)           d kappa^2 / rho                   a row a step
    2SGD  "2sgd"       w - H^-1 g_i / (t0 + t)      d^2 / rho                         a row a step

g = w + sum_i C_i phi'(t_i) sign_i x_i is the gradient, H the matrix of second derivatives, and g_i the gradient with
the loss of row i alone, taken m times, m the number of rows. They are here to be read and compared, not to win:
`lbfgs`, `tron`, `sgd` and `sgd_qn` are what one would use in their places.

What the textbook leaves open:

* eta of GD and 2GD is the first of a falling sequence with which P falls by eta g'd / 4 or more, d the direction. 2GD
  begins with eta = 1 in every step, GD with 1.2 times the last one.
* t0 of SGD is the largest m C_i phi'' |x_i|^2 of a row, so that no step leads beyond the least loss of its row.
* H of 2SGD is learnt on the way: the mean of the second derivatives that steps have met, I + m C_i phi''(t_i) x_i x_i'
  each, which begins with t0 = d times the bound that SGD's t0 is. It is inverted each time that the number of steps
  has doubled, and what was met before then counts a quarter of what comes after: a matrix that is too large, because
  of its beginning or of where w was, makes steps that are too short for ever.
* The matrix has d^2 entries: more than `LARGEST` features are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import lean_kernel
from maxmargin._random import random_stream, shuffle
from maxmargin.losses import Huber, Logistic, argument, derivative, sign, value
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, add_row, n_stored, row_dot
from maxmargin.solvers._calibration import Course, RowByRow
from maxmargin.solvers._hessian import SMOOTH, second_derivative
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.dual_cd import _all_rows
from maxmargin.weights import ScaledVector, decay, dense, scaled_add, scaled_dot, scaled_vector

LARGEST = 5000  # features of which a matrix is kept
_BLOCK = 1 << 22  # multiplications that one update makes
_DECREASE = 0.25  # of P, as a share of what the slope promises
_ROUNDING = 1e-14  # of P, which must not stop a step
_MEMORY = 0.25  # weight of what 2SGD knew of H when it inverts it
_GROWTH = 1.2  # of the step size of GD, from step to step


def _check_size(solver: Solver, problem: Problem) -> int:
    """Length of w, if its matrix is not too large."""
    n = problem.n_weights
    if n > LARGEST:
        raise ValueError(
            f"solver {solver.name!r} keeps a matrix of {n} x {n} numbers, and takes {LARGEST} features or fewer; "
            "for more use 'tron' or 'lbfgs'"
        )
    return n


def _curvature_bound(problem: Problem) -> float:
    """The largest m C_i phi'' |x_i|^2 of a row, 1 or more."""
    loss, m = problem.loss, np.count_nonzero(problem.cost)
    bend = 0.25 if isinstance(loss, Logistic) else 1.0 / loss.delta if isinstance(loss, Huber) else 2.0
    return max(1.0, m * bend * float(np.max(problem.cost * problem.norms2)))


# ---------------------------------------------------------------- all rows a step


class Sums(NamedTuple):
    """What a pass at one point adds up."""

    w: Array  # the point
    gradient: Array
    hessian: Array  # of size 0 if nobody needs it
    risk: float
    position: int  # of the next row


class DescentState(NamedTuple):
    """What moves in GD and 2GD."""

    w: Array  # the best point so far
    gradient: Array
    direction: Array
    primal: float  # infinite before the first pass
    step: float
    trial: Sums
    visits: int
    rows: int  # that have a cost: a pass visits so many


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Gradient descent: GD of the survey's table 2.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> solve(problem, solver=GradientDescent(), tol=1e-6).stop_reason
    'converged'
    """

    name: ClassVar[str] = "gd"
    losses: ClassVar[tuple[type, ...]] = SMOOTH
    max_passes: ClassVar[float] = 10_000.0
    has_matrix: ClassVar[bool] = False

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> DescentState:
        """Start at w = 0, or at the w of another state."""
        n = _check_size(self, problem) if self.has_matrix else 0
        w, rows = weights_to_start_at(problem, start), int(np.count_nonzero(problem.cost))
        step = 1.0 if self.has_matrix else 1.0 / (1.0 + _curvature_bound(problem))
        return DescentState(w, np.zeros(len(w)), np.zeros(len(w)), math.inf, step, _sums_at(w, n), 0, rows)

    def update(self, problem: Problem, state: DescentState, goal: Goal) -> DescentState:
        """Evaluate points, for a block of work or as far as the goal's passes allow."""
        last = last_visit_of(goal, state.rows)
        data = problem.rows, problem.y, problem.cost, problem.loss
        of_row = 2 + n_stored(problem.rows) // problem.n_rows + state.trial.hessian.size
        work, row = _BLOCK, np.zeros(problem.n_weights)
        while work > 0 and state.visits < last and not _is_reached(state, goal):
            sums = state.trial
            end, visits, risk = _add_up(
                data,
                (sums.w, sums.gradient, sums.hessian, row),
                sums.risk,
                sums.position,
                min(last - state.visits, 1 + _BLOCK // of_row),
            )
            work -= of_row * (end - sums.position)
            state = state._replace(trial=sums._replace(risk=risk, position=end), visits=state.visits + visits)
            if end == problem.n_rows:
                state = self._judge(state)
        return state

    def _judge(self, state: DescentState) -> DescentState:
        """Go to the point that was evaluated if P is low enough there; then the next one to evaluate."""
        trial, n = state.trial, len(state.trial.hessian)
        primal = trial.risk + 0.5 * float(trial.w @ trial.w)
        gradient = trial.w + trial.gradient
        promised = state.step * float(state.gradient @ state.direction)
        if primal <= state.primal - _DECREASE * promised + _ROUNDING * primal:
            if not n:
                direction, step = gradient, state.step * (_GROWTH if state.primal < math.inf else 1.0)
            else:
                direction, step = np.linalg.solve(trial.hessian + np.eye(n), gradient), 1.0
            state = state._replace(w=trial.w, gradient=gradient, direction=direction, primal=primal, step=step)
        else:
            state = state._replace(step=0.5 * state.step)
        return state._replace(trial=_sums_at(state.w - state.step * state.direction, n))

    def report(self, problem: Problem, state: DescentState, goal: Goal) -> Report:
        """The gap is that of the best point, exactly."""
        is_known = state.primal < math.inf
        return Report(
            passes=state.visits / state.rows,
            primal=state.primal if is_known else math.nan,
            dual=state.primal - _gap(state) if is_known else math.nan,
            believes=_is_reached(state, goal),
            counters={},
        )

    def certificate(self, problem: Problem, state: DescentState) -> Certificate:
        """No pass: P and its gradient were summed when w was reached."""
        if state.primal == math.inf:
            return problem.certificate(state.w)
        return Certificate(state.primal, state.primal - _gap(state), _gap(state))


@dataclass(frozen=True)
class NewtonDescent(GradientDescent):
    """Newton's method with the full matrix: 2GD of the survey's table 2.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> solve(problem, solver=NewtonDescent(), tol=1e-9).passes < 10
    True
    """

    name: ClassVar[str] = "2gd"
    has_matrix: ClassVar[bool] = True
    max_passes: ClassVar[float] = 1000.0


def _sums_at(w: Array, n: int) -> Sums:
    return Sums(w, np.zeros(len(w)), np.zeros((n, n)), 0.0, 0)


def _gap(state: DescentState) -> float:
    """P(w) - D(alpha), alpha_i = -C_i phi'(t_i); no loss is negative, so zero is a dual bound, too."""
    return min(0.5 * float(state.gradient @ state.gradient), state.primal)


def _is_reached(state: DescentState, goal: Goal) -> bool:
    return state.primal < math.inf and _gap(state) <= goal.tol * state.primal


@lean_kernel
def _add_up(data, point, risk, begin, room):
    """Sum the gradient and, if it has room, the matrix over at most `room` rows with a cost; where it ended."""
    rows, y, cost, loss = data
    w, gradient, hessian, row = point
    i, visits = begin, 0
    while i < len(y) and (visits < room or cost[i] == 0.0):
        if cost[i] > 0.0:
            visits += 1
            t = argument(loss, row_dot(rows, i, w), y[i])
            risk += cost[i] * value(loss, t)
            add_row(rows, i, cost[i] * derivative(loss, t) * sign(loss, y[i]), gradient)
            if len(hessian) > 0:
                _add_square(rows, i, cost[i] * second_derivative(loss, t), hessian, row)
        i += 1
    return i, visits, risk


@lean_kernel
def _add_square(rows, i, factor, matrix, row):
    """matrix += factor x_i x_i', with room for the row."""
    if factor != 0.0:
        for j in range(len(row)):
            row[j] = 0.0
        add_row(rows, i, 1.0, row)
        for j in range(len(row)):
            if row[j] != 0.0:
                for k in range(len(row)):
                    matrix[j, k] += factor * row[j] * row[k]


# ---------------------------------------------------------------- a row a step


class PlainState(NamedTuple):
    """What moves in SGD."""

    x: ScaledVector
    t0: float
    order: Array  # of the rows in this pass
    stream: Array  # of random numbers
    course: Course

    @property
    def w(self) -> Array:
        """The weights."""
        return dense(self.x)


class SecondOrderState(NamedTuple):
    """What moves in 2SGD."""

    w: Array
    S: Array  # weighted sum of the second derivatives
    total: float  # of the weights
    inverse: Array  # of H, the mean, as it was at
    inverted: float  # this t0 + t
    t0: float
    order: Array
    stream: Array
    course: Course


@dataclass(frozen=True)
class PlainSGD(RowByRow):
    """Stochastic gradient descent without any refinement: SGD of the survey's table 2.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> solve(problem, solver=PlainSGD(), tol=1e-2).stop_reason
    'converged'
    """

    name: ClassVar[str] = "sgd_plain"
    losses: ClassVar[tuple[type, ...]] = SMOOTH
    max_passes: ClassVar[float] = 1000.0
    accuracy: ClassVar[float] = 1e-2

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> Any:
        """Start at w = 0, or at the w of another state."""
        w, order = weights_to_start_at(problem, start), _all_rows(problem)
        stream = random_stream(seed)
        shuffle(order, len(order), stream)
        return PlainState(scaled_vector(w), _curvature_bound(problem), order, stream, Course(0, 0, len(order)))

    def _rows_at_once(self, problem: Problem) -> int:
        return max(1, _BLOCK // self._cost_of_step(problem))

    def _cost_of_step(self, problem: Problem) -> int:
        return 2 + n_stored(problem.rows) // problem.n_rows

    def _run(self, problem: Problem, state: Any, position: int, n: int, visits: int) -> Any:
        data = problem.rows, problem.y, problem.cost, problem.norms2, problem.loss
        _plain_steps(data, state.x, state.order, (position, n, visits, state.t0))
        return state


@lean_kernel
def _plain_steps(data, x, order, course):
    rows, y, cost, norms2, loss = data
    position, n, visits, t0 = course
    m = len(order)
    for k in range(position, position + n):
        i, eta = np.int64(order[k]), 1.0 / (t0 + visits)
        visits += 1
        z = scaled_dot(rows, i, x)
        slope = m * cost[i] * derivative(loss, argument(loss, z, y[i])) * sign(loss, y[i])
        decay(x, 1.0 - eta)
        scaled_add(rows, i, -eta * slope, x, (1.0 - eta) * z, norms2[i])


@dataclass(frozen=True)
class SecondOrderSGD(PlainSGD):
    """Stochastic gradient descent in the metric of the full matrix: 2SGD of the survey's table 2.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> solve(problem, solver=SecondOrderSGD(), tol=1e-2).stop_reason
    'converged'
    """

    name: ClassVar[str] = "2sgd"

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> Any:
        """Start at w = 0, or at the w of another state."""
        n = _check_size(self, problem)
        plain, t0 = super().init_state(problem, seed, start), float(n)
        S = t0 * (1.0 + _curvature_bound(problem)) * np.eye(n)
        inverse = np.linalg.inv(S / t0)
        return SecondOrderState(plain.w, S, t0, inverse, t0, t0, plain.order, plain.stream, plain.course)

    def _cost_of_step(self, problem: Problem) -> int:
        return 2 + 2 * problem.n_weights**2

    def _most_steps(self, state: Any, visits: int) -> int:
        """To where the number of steps, those that t0 stands for among them, has doubled."""
        return max(1, math.ceil(2.0 * state.inverted - state.t0) - visits)

    def _run(self, problem: Problem, state: Any, position: int, n: int, visits: int) -> Any:
        data, size = (problem.rows, problem.y, problem.cost, problem.loss), len(state.w)
        moving = state.w, state.S, state.inverse, np.zeros(size), np.zeros(size)
        _second_order_steps(data, moving, state.order, (position, n, visits, state.t0, len(state.order)))
        age, total = state.t0 + visits + n, state.total + n
        if age < 2.0 * state.inverted:
            return state._replace(total=total)
        inverse = np.linalg.inv(state.S / total)
        return state._replace(S=_MEMORY * state.S, total=_MEMORY * total, inverse=inverse, inverted=age)


@lean_kernel
def _second_order_steps(data, moving, order, course):
    rows, y, cost, loss = data
    w, S, inverse, row, g = moving
    position, n, visits, t0, m = course
    for k in range(position, position + n):
        i, eta = np.int64(order[k]), 1.0 / (t0 + visits)
        visits += 1
        t = argument(loss, row_dot(rows, i, w), y[i])
        C = m * cost[i]
        for j in range(len(w)):
            g[j] = w[j]
        add_row(rows, i, C * derivative(loss, t) * sign(loss, y[i]), g)
        for j in range(len(w)):
            total = 0.0
            for other in range(len(w)):
                total += inverse[j, other] * g[other]
            w[j] -= eta * total
            S[j, j] += 1.0
        _add_square(rows, i, C * second_derivative(loss, t), S, row)
