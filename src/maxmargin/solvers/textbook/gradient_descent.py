"""Two textbook methods, as small as they can be: gradient descent, and the same with the matrix of second derivatives.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i,      phi smooth

They are the upper half of table 2 of Menon's survey (Large-scale support vector machines: algorithms and theory, 2009),
after Bottou and Bousquet (The tradeoffs of large scale learning, NIPS 2007); the lower one is in `plain_sgd`. With d
features and n rows, the bounds that it prints on the time until the objective is within rho of its least value:

    GD    "gd"         w - eta g                    n d log(1 / rho)                a pass a step
    2GD   "2gd"        w - eta H^-1 g               (d^2 + n d) log log(1 / rho)    a pass a step

g = w + sum_i C_i phi'(t_i) sign_i x_i is the gradient, and H the matrix of second derivatives. They are here to be read
and compared, not to win: `lbfgs` and `tron` are what one would use in their places.

The textbook leaves eta open: it is the first of a falling sequence with which P falls by eta g'd / 4 or more, d the
direction. 2GD begins with eta = 1 in every step, GD with 1.2 times the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.losses import largest_curvature
from maxmargin.problem import Problem
from maxmargin.problem.gram import newton_step
from maxmargin.problem.questions import Evaluation
from maxmargin.solvers.base import GaveUp, Goal, Solver
from maxmargin.solvers.newton.descent import Descent, evaluated_start, gap_at, is_known, unknown_point
from maxmargin.vectors import dot

LARGEST = 5000  # features of which a matrix is kept
_DECREASE = 0.25  # of P, as a share of what the slope promises
_ROUNDING = 1e-14  # of P, which must not stop a step
_MOST_TRIALS = 200  # step sizes of a step: the last one changes nothing
_GROWTH = 1.2  # of the step size of GD, from step to step


class DescentState(NamedTuple):
    """What moves in GD and 2GD."""

    here: Evaluation
    gap: float  # P(w) - D(alpha), alpha_i = -C_i phi'(t_i)
    eta: float  # to try first
    visits: int  # of rows

    @property
    def w(self) -> Array:
        """The weights."""
        return self.here.w


@dataclass(frozen=True)
class GradientDescent(Descent):
    """Gradient descent: GD of the survey's table 2.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> solve(problem, solver=GradientDescent(), tol=1e-6).stop_reason
    'converged'
    """

    name: ClassVar[str] = "gd"
    max_passes: ClassVar[float] = 10_000.0

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> DescentState:
        """Start at w = 0, or at the w of another state."""
        return DescentState(unknown_point(problem, start), math.inf, 1.0 / (1.0 + curvature_bound(problem)), 0)

    def update(self, problem: Problem, state: DescentState, goal: Goal) -> DescentState:
        """One step, w - eta d, with the first eta of a falling sequence that lowers P enough."""
        here, visits = state.here, state.visits
        if not is_known(here):
            return _at(problem, evaluated_start(problem, here), state.eta, visits)
        d, eta = self._direction(problem, here), self._first_eta(state)
        for _ in range(_MOST_TRIALS):
            there = problem.evaluate(here.w - eta * d)
            if there.value <= here.value - _DECREASE * eta * dot(here.gradient, d) + _ROUNDING * there.value:
                return _at(problem, there, _GROWTH * eta, visits)
            eta, visits = 0.5 * eta, visits + problem.n_weighted
        raise GaveUp("no step along the direction lowers the objective")

    def _direction(self, problem: Problem, here: Evaluation) -> Array:
        return here.gradient

    def _first_eta(self, state: DescentState) -> float:
        return state.eta


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
    max_passes: ClassVar[float] = 1000.0

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> DescentState:
        """Start at w = 0, or at the w of another state."""
        check_size(self, problem)
        return super().init_state(problem, seed, start)

    def _direction(self, problem: Problem, here: Evaluation) -> Array:
        """H^-1 g; the matrix belongs to the pass that evaluated w, and is counted with it."""
        gram = problem.gram(problem.curvatures(here.outputs).D)
        return newton_step(gram, np.ones(len(here.w)), here.gradient)

    def _first_eta(self, state: DescentState) -> float:
        return 1.0


def _at(problem: Problem, here: Evaluation, eta: float, visits: int) -> DescentState:
    return DescentState(here, gap_at(problem, here), eta, visits + problem.n_weighted)


def check_size(solver: Solver, problem: Problem) -> int:
    """Length of w, if its matrix is not too large."""
    n = problem.n_weights
    if n > LARGEST:
        raise ValueError(
            f"solver {solver.name!r} keeps a matrix of {n} x {n} numbers, and takes {LARGEST} features or fewer; "
            "for more use 'tron' or 'lbfgs'"
        )
    return n


def curvature_bound(problem: Problem) -> float:
    """The largest m C_i phi'' |x_i|^2 of a row, 1 or more."""
    loss, m = problem.loss, np.count_nonzero(problem.cost)
    bend = largest_curvature(loss)
    return max(1.0, m * bend * float(np.max(problem.cost * problem.norms2)))
