"""subLBFGS: L-BFGS for losses with kinks.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

At a kink there is a subgradient for every alpha_i between those of its two sides, g = w - sum_i alpha_i sign_i x_i,
and -B g need not lead downhill for all of them. The direction is the one that the worst subgradient allows:

    (1)  min_p  M(p) = 1/2 p'B^-1 p + sup_g g'p    =    max over mixtures g-bar of subgradients of  -1/2 g-bar'B g-bar,

p = -B g-bar. Subgradients are found one by one, each as the one with the largest g'p for the p of the mixture so far,
until M(p) is near its bound. If even the best p leads uphill, w is optimal. Along p, P is least at a kink, as a rule,
and that place is found exactly.

Yu, Vishwanathan, Guenter, Schraudolph: A quasi-Newton approach to nonsmooth convex optimization problems in machine
learning, JMLR 11, 2010 (ICML 2008): algorithms 1 (subLBFGS), 2 (direction) and, for the hinge, 3 (line search).

Paper -> code: J -> P, B_t as it is (never formed: see `lbfgs`), g-bar -> mixture, g^(i) -> the lines of `found`,
epsilon^(i) -> excess, k_max -> subgradients, M(p) -> model.

What differs from the paper, and why:

* A row counts as at its kink if it is within `tolerance`, a tenth of the margin to begin with, and ten times less
  whenever no direction leads downhill. With rows exactly at kinks alone the method zigzags.
* Mixtures are the best of all subgradients found, not of the last mixture and the newest one alone (`_reduced`).
* y is the change from the mixture that made p, which is the gradient that the step went by, to the subgradient just
  beyond the new point. Rows that p keeps at their kinks keep their alpha: which side they are on is rounding.
* The certificate. Each mixture is feasible in the dual. alpha is the best mixture of three: of itself, of the newest
  one, and of the subgradient at w. Where no direction leads downhill it proves just that.

How it compares: papers/newton/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.losses import EpsilonInsensitive, Hinge, is_margin_loss
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.line_search import line_search
from maxmargin.solvers.base import GaveUp, Goal, Report, Solver, weights_to_start_at
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.newton.lbfgs import Memory, empty_memory, remember
from maxmargin.solvers.newton.subgradients import (
    Direction,
    Kinks,
    choose_sides,
    count_kinks,
    find_direction,
    offset,
    rows_at_kinks,
)
from maxmargin.solvers.planes.reduced import solve_reduced
from maxmargin.vectors import dot

_WIDEST = 0.1  # tolerance, in margins
_NARROWER = 0.1  # share of it that is left when no direction leads downhill
_NARROWEST = 1e-10  # share of it at which it can only be rounding
_MOST_AT_KINKS, _FEW = 0.125, 100.0  # of the rows; the tolerance is less where there are more, if they are not few
_ROUNDING = 1e-14
_AT_KINK = 1e-10  # share of the first tolerance within which a row is at its kink but for rounding
_MOST_RESTARTS = 20  # without a step between them: all that is left is rounding


class Mixture(NamedTuple):
    """A point of the dual: its alpha is held elsewhere."""

    v: Array  # sum_i alpha_i sign_i x_i
    b: float  # the rest of the dual objective, or less: D >= b - 1/2 |v|^2


class SubLBFGSState(NamedTuple):
    """What moves in subLBFGS."""

    w: Array
    alpha: RowVector  # the best dual point so far
    best: Mixture  # and what belongs to it
    primal: float  # P(w); infinite before it is evaluated
    dual: float
    z: RowVector  # x_i'w
    coefficients: RowVector  # of the rows in the subgradient at w: -alpha_i sign_i
    at_w: Mixture
    p: Array  # the direction from w
    mixture: Array  # g-bar, from which it is made
    held: RowVector  # alpha of the rows at kinks there; nan elsewhere
    memory: Memory
    tolerance: float
    visits: int  # of rows
    steps: int
    subgradients: int
    restarts: int
    idle: int  # restarts since the last step


@dataclass(frozen=True)
class SubLBFGS(Solver):
    """subLBFGS: L-BFGS for hinge and epsilon-insensitive loss.

    Parameters
    ----------
    memory : int
        Pairs that are remembered. Each takes two vectors as long as w.
    subgradients : int
        Most that are mixed to find a direction. Each takes two vectors as long as w, for the time being.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=SubLBFGS(), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    memory: int = 10
    subgradients: int = 50

    name: ClassVar[str] = "sub_lbfgs"
    access: ClassVar[str] = "passes"
    losses: ClassVar[tuple[type, ...]] = (Hinge, EpsilonInsensitive)

    def __post_init__(self) -> None:
        check_count(self, "memory", 1)
        check_count(self, "subgradients", 2)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> SubLBFGSState:
        """Start at w = 0, or at the w of another state, and at its alpha if it has one."""
        w, m = weights_to_start_at(problem, start), problem.n_rows
        nothing, alpha, best = np.zeros(len(w)), np.zeros(m), Mixture(np.zeros(len(w)), 0.0)
        if start is not None:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(w) if known is None else problem.feasible(known)
            best = _mixture_of(problem, alpha)
        point = math.inf, _dual(best), np.zeros(m), np.zeros(m), Mixture(nothing, 0.0)
        ahead = nothing, nothing, np.full(m, np.nan), empty_memory(self.memory, len(w)), _widest(problem)
        return SubLBFGSState(w, alpha, best, *point, *ahead, 0, 0, 0, 0, 0)

    def update(self, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
        """One iteration: to where P is least along p, the subgradient there, and the next direction."""
        state = evaluated(problem, state) if math.isinf(state.primal) else step(problem, state)
        return self.turn(problem, state, goal)

    def turn(self, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
        """Find a direction that leads downhill: with fewer rows at kinks if there is none, or from a new beginning."""
        most, narrowest = max(_MOST_AT_KINKS * problem.n_rows, _FEW), _NARROWEST * _widest(problem)
        while count_kinks(problem, state.z, state.tolerance) > most:
            state = state._replace(tolerance=0.5 * state.tolerance)
        while state.tolerance >= narrowest:
            kinks = rows_at_kinks(problem, state.z, state.tolerance, _alpha_at_w(problem, state))
            direction, n = find_direction(state.memory, state.w - state.at_w.v, kinks, self.subgradients)
            visits = state.visits + n * len(kinks.which)
            state = state._replace(visits=visits, subgradients=state.subgradients + n)
            state = _mix(problem, state, kinks, direction)
            if direction.slope < 0.0:
                held = np.full(problem.n_rows, np.nan)
                held[kinks.which] = direction.alpha
                return state._replace(p=direction.p, mixture=direction.mixture, held=held)
            if _is_good_enough(state, goal):
                break
            state = state._replace(tolerance=_NARROWER * state.tolerance)
            while state.tolerance >= narrowest and count_kinks(problem, state.z, state.tolerance) == len(kinks.which):
                state = state._replace(tolerance=_NARROWER * state.tolerance)
        return _restarted(problem, state)

    def report(self, problem: Problem, state: SubLBFGSState, goal: Goal) -> Report:
        """The objectives come from z and from the mixtures' sums, which are kept in step with w and alpha."""
        return Report(
            passes=state.visits / problem.n_weighted,
            primal=state.primal if state.primal < math.inf else math.nan,
            dual=state.dual,
            believes=_is_good_enough(state, goal),
            counters={name: getattr(state, name) for name in ("steps", "subgradients", "restarts")},
        )

    def reconsider(self, problem: Problem, state: SubLBFGSState, goal: Goal, certificate: Certificate) -> SubLBFGSState:
        """A belief that proves wrong is due to rounding: begin anew where w is, with all that is known of it."""
        if not _is_good_enough(state, goal):
            return state
        return _restarted(problem, state._replace(best=_mixture_of(problem, state.alpha), dual=certificate.dual))


def _is_good_enough(state: SubLBFGSState, goal: Goal) -> bool:
    """By the difference of two objectives, which rounding makes smaller or larger."""
    return state.primal - state.dual + _ROUNDING * state.primal <= goal.tol * state.primal < math.inf


def _mixture_of(problem: Problem, alpha: RowVector) -> Mixture:
    v = problem.weights(alpha)
    return Mixture(v, problem.dual(alpha) + 0.5 * dot(v, v))


def _dual(mixture: Mixture) -> float:
    """A dual objective; no loss is negative, so zero is a bound, too."""
    return max(mixture.b - 0.5 * dot(mixture.v, mixture.v), 0.0)


def _widest(problem: Problem) -> float:
    """The first tolerance. Residuals have no margin to measure them by; they are of the size of the targets."""
    if is_margin_loss(problem.loss):
        return _WIDEST
    mean = problem.over_labels(_sum_targets).total / problem.total_cost
    return _WIDEST * mean if mean > 0.0 else _WIDEST


def _restarted(problem: Problem, state: SubLBFGSState) -> SubLBFGSState:
    """Forget the pairs, and evaluate w anew in the next iteration, which undoes what rounding did to z."""
    if state.idle >= _MOST_RESTARTS:
        raise GaveUp("no direction leads downhill but for rounding")
    state = state._replace(restarts=state.restarts + 1, idle=state.idle + 1, p=0.0 * state.p)
    return state._replace(memory=state.memory._replace(n=0), tolerance=_widest(problem))


# ---------------------------------------------------------------- points


def evaluated(problem: Problem, state: SubLBFGSState) -> SubLBFGSState:
    """The state with all that is to be known of w."""
    state = state._replace(z=problem.outputs(state.w), visits=state.visits + problem.n_weighted)
    return _with_subgradient(problem, state, np.zeros(problem.n_rows))


def step(problem: Problem, state: SubLBFGSState, rate: float = 1.0) -> SubLBFGSState:
    """Go to where P is least along p, or a share of that way, and learn from the step."""
    if not state.p.any():
        return evaluated(problem, state)
    w, p, z, dz = state.w, state.p, state.z, problem.outputs(state.p)
    state = state._replace(visits=state.visits + problem.n_weighted)
    length = rate * line_search(problem, z, z + dz, dot(p, p), dot(w, p))
    if length == 0.0:  # downhill by less than rounding
        return state._replace(tolerance=_NARROWER * state.tolerance)
    state = state._replace(w=w + length * p, z=z + length * dz, steps=state.steps + 1, idle=0)
    state = _with_subgradient(problem, state, dz)
    change = (state.w - state.at_w.v) - state.mixture
    return state._replace(memory=remember(state.memory, length * p, change))


def _with_subgradient(problem: Problem, state: SubLBFGSState, dz: RowVector) -> SubLBFGSState:
    """The objective and a subgradient at w.

    A row at its kink is taken from the side that p leads to: this is the subgradient with the largest g'p, which the
    Wolfe conditions ask for. Rows that p has kept at their kinks keep their alpha as well.
    """
    touching = problem.linearize(state.z, state.z, 0.0)
    done = problem.over_labels(
        choose_sides,
        shared=[_AT_KINK * _widest(problem)],
        reads=[state.z, dz, state.held, touching.p],
        writes=[np.float64],
    )
    change, n_used = done.total
    coefficients, primal = done.vectors[0], problem.regularizer(state.w) + touching.value
    at_w = Mixture(-problem.combine(coefficients), touching.b + change)
    state = state._replace(primal=primal, coefficients=coefficients, at_w=at_w)
    return state._replace(visits=state.visits + n_used)


@compiled_lean
def _sum_targets(labels):
    total = 0.0
    for i in range(len(labels.y)):
        total += labels.cost[i] * abs(labels.y[i])
    return total


def _alpha_at_w(problem: Problem, state: SubLBFGSState) -> RowVector:
    """The alpha of the subgradient at w."""
    return -state.coefficients * (problem.y if is_margin_loss(problem.loss) else 1.0)


def _mix(problem: Problem, state: SubLBFGSState, kinks: Kinks, direction: Direction) -> SubLBFGSState:
    """The best dual point between the one so far, the subgradient at w, and the direction's mixture."""
    here = _alpha_at_w(problem, state)
    change = offset(kinks.labels, direction.alpha) - offset(kinks.labels, kinks.now)
    points = state.best, state.at_w, Mixture(state.w - direction.mixture, state.at_w.b + change)
    gram = np.array([[dot(one.v, other.v) for other in points] for one in points])
    b, mix, factor = np.array([point.b for point in points]), np.array([1.0, 0.0, 0.0]), np.zeros((3, 3))
    shift = max(gram.diagonal()) or 1.0
    factor[0, 0] = math.sqrt(gram[0, 0] + shift)
    solve_reduced(gram, b, 3, mix, np.zeros(3, dtype=np.int64), factor, 1, shift)
    best = Mixture(sum(share * point.v for share, point in zip(mix, points)), float(dot(mix, b)))
    here *= mix[1] + mix[2]
    here += mix[0] * state.alpha
    here[kinks.which] += mix[2] * (direction.alpha - kinks.now)
    return state._replace(alpha=problem.feasible(here), best=best, dual=_dual(best))
