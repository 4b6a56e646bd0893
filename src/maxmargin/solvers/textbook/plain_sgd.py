"""Two textbook methods, as small as they can be: SGD, and the same with the matrix of second derivatives.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i,      phi smooth

They are the lower half of table 2 of Menon's survey; see `gradient_descent`. With d features, the bounds that it prints
on the time until the objective is within rho of its least value:

    SGD   "sgd_plain"  w - g_i / (t0 + t)           d / rho                         a row a step
    2SGD  "2sgd"       w - H^-1 g_i / (t0 + t)      d^2 / rho                       a row a step

g_i is the gradient with the loss of row i alone, taken m times, m the number of rows, and H the matrix of second
derivatives. They are here to be read and compared, not to win: use `sgd` or `sgd_qn` in their places.

What the textbook leaves open:

* t0 of SGD is the largest m C_i phi'' |x_i|^2 of a row, so that no step leads beyond the least loss of its row.
* H of 2SGD is learnt on the way: the mean of the second derivatives that steps have met, I + m C_i phi''(t_i) x_i x_i'
  each, which begins with t0 = d times the bound that SGD's t0 is. It is inverted each time that the number of steps
  has doubled, and what was met before then counts a quarter of what comes after: a matrix that is too large, because
  of its beginning or of where w was, makes steps that are too short for ever.
* Where phi' has no bound (squared losses), a step that would lead beyond the least loss of its row is cut to end there:
  a row that H does not know yet would else throw w farther at each visit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin._random import new_rng
from maxmargin.data.rows import Array, add_row, row_dot
from maxmargin.losses import SMOOTH, argument, derivative, second_derivative, sign
from maxmargin.problem import Problem
from maxmargin.solvers.base import weights_to_start_at
from maxmargin.solvers.stochastic.calibration import unbounded_curvature
from maxmargin.solvers.stochastic.solver import StochasticSolver
from maxmargin.solvers.stochastic.weights import ScaledVector, decay, dense, scaled_add, scaled_dot, scaled_vector
from maxmargin.solvers.textbook.gradient_descent import check_size, curvature_bound
from maxmargin.solvers.visits import Visits, examples, new_visits, shuffle_rows

_MEMORY = 0.25  # weight of what 2SGD knew of H when it inverts it


class PlainState(NamedTuple):
    """What moves in SGD."""

    x: ScaledVector
    visits: Visits
    t0: float

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
    visits: Visits
    t0: float


@dataclass(frozen=True)
class PlainSGD(StochasticSolver):
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
        w, visits = weights_to_start_at(problem, start), shuffle_rows(new_visits(problem, new_rng(seed)))
        return PlainState(scaled_vector(w), visits, curvature_bound(problem))

    def _run(self, problem: Problem, state: Any, n: int) -> Any:
        _plain_steps(examples(problem), state, n)
        return state._replace(visits=state.visits.advanced(n))


@compiled_lean
def _plain_steps(data, state, n):
    x, order, position, t = state.x, state.visits.order, state.visits.position, state.t0 + state.visits.count
    m = float(len(order))
    for k in range(position, position + n):
        i, eta = np.int64(order[k]), 1.0 / t
        t += 1.0
        z = scaled_dot(data.rows, i, x)
        slope = m * data.cost[i] * derivative(data.loss, argument(data.loss, z, data.y[i])) * sign(data.loss, data.y[i])
        decay(x, 1.0 - eta)
        scaled_add(data.rows, i, -eta * slope, x, (1.0 - eta) * z, data.norms2[i])


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
        n = check_size(self, problem)
        plain, t0 = super().init_state(problem, seed, start), float(n)
        H = (1.0 + curvature_bound(problem)) * np.eye(n)
        return SecondOrderState(plain.w, t0 * H, t0, _inverse(H), t0, plain.visits, t0)

    def _work_of_visit(self, problem: Problem) -> int:
        return 2 + 3 * problem.n_weights**2

    def _most_visits(self, state: Any) -> int:
        """To where the number of steps, those that t0 stands for among them, has doubled."""
        return max(1, math.ceil(2.0 * state.inverted - state.t0) - state.visits.count)

    def _run(self, problem: Problem, state: Any, n: int) -> Any:
        _second_order_steps(examples(problem), state, n, unbounded_curvature(problem.loss), np.empty((3, len(state.w))))
        state = state._replace(total=state.total + n, visits=state.visits.advanced(n))
        age = state.t0 + state.visits.count
        if age < 2.0 * state.inverted:
            return state
        inverse = _inverse(state.S / state.total)
        return state._replace(S=_MEMORY * state.S, total=_MEMORY * state.total, inverse=inverse, inverted=age)


def _inverse(H: Array) -> Array:
    """The inverse of a matrix whose least eigenvalue is 1 or more, if that is not lost beside the largest."""
    rounding = np.finfo(np.float64).eps * float(np.trace(H))
    return np.linalg.inv(H + len(H) * rounding * np.eye(len(H)))


@compiled_lean
def _second_order_steps(data, state, n, curvature, room):
    w, S, inverse, order = state.w, state.S, state.inverse, state.visits.order
    position, age = state.visits.position, state.t0 + state.visits.count
    m, row, of_w, of_row = float(len(order)), room[0], room[1], room[2]
    for k in range(position, position + n):
        i, eta = np.int64(order[k]), 1.0 / age
        age += 1.0
        t = argument(data.loss, row_dot(data.rows, i, w), data.y[i])
        C = m * data.cost[i]
        row[:], of_w[:], of_row[:] = 0.0, 0.0, 0.0
        add_row(data.rows, i, sign(data.loss, data.y[i]), row)
        add_product(inverse, w, of_w)
        add_product(inverse, row, of_row)
        slope = C * derivative(data.loss, t)
        slope /= max(1.0, eta * C * curvature * (row @ of_row))  # else the step would lead beyond the row's least loss
        for j in range(len(w)):
            w[j] -= eta * (of_w[j] + slope * of_row[j])
            S[j, j] += 1.0
        add_square(row, C * second_derivative(data.loss, t), S)


@compiled_lean
def add_product(matrix, vector, out):
    """out += matrix vector, for a symmetric matrix."""
    for j in range(len(vector)):
        if vector[j] != 0.0:
            for k in range(len(out)):
                out[k] += vector[j] * matrix[j, k]


@compiled_lean
def add_square(row, factor, matrix):
    """matrix += factor row row'."""
    for j in range(len(row)):
        if factor * row[j] != 0.0:
            for k in range(len(row)):
                matrix[j, k] += factor * row[j] * row[k]
