"""A primal-dual interior point: 5 to 40 iterations for every C, where rows are many and features are not.

Every loss that it takes is a sum of one-sided pieces, psi(t) for a classifier, psi(t) + psi(-t) for a regressor, and
the dual of a piece is a parabola over an interval. In units of cost, alpha_i = C_i sum_k sigma_k p_ik, and with
t_i = sign_i x_i'w - target_i, w and p are optimal if mu = 0, and on the central path if mu > 0, where

    (1)  sigma t + kappa p - b = s - xi,         (2)  w = sum_i C_i sign_i x_i sum_k sigma_k p_ik,
    (3)  s p = mu,   xi r = mu,   r = 1 - p,          p, r, s, xi > 0.

(A piece without upper bound has neither r nor xi; least squares, which has no bounds at all, is one piece without mu.
An intercept that is not penalised has zero for its weight on the left of (2), and for its entry of I in (4).)
Newton's method on them, with ds, dxi and dp eliminated row by row, leaves n equations, whatever the number of rows:

    (4)  (I + sum_i C_i delta_i x_i x_i') dw = ...,      delta_i = sum_k 1 / (kappa + s / p + xi / r).

Mehrotra: On the implementation of a primal-dual interior point method, SIAM J. Optimization 2, 1992: one matrix, two
steps. The first aims at mu = 0 (predictor). How far it gets tells where to aim instead, sigma mu, and the errors
that it leaves in (3) are made up for by the second (corrector), which is taken.
Ferris, Munson: Interior-point methods for massive support vector machines, SIAM J. Optimization 13, 2002: (4).

Paper -> code: sigma mu -> aim, the predictor's dp ds -> bend, alpha_P and alpha_D -> primal_step and dual_step.

What differs from the papers, and why:

* The barriers are in units of cost, C_i s p = C_i mu: a row of weight 2 follows the path of a row that is given twice.
* The second-order terms are cut at 2 mu. Those that are larger belong to the rows that stray farthest, and bend the
  step for all.

An iteration passes over the data three times: for the matrix, for the predictor and for the corrector. Memory, beside
the data: the matrix, a block of rows and one more matrix for each thread, and 8 to 12 numbers for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.gram import factorized
from maxmargin.solvers.base import GaveUp, Goal, Report, Solver
from maxmargin.solvers.newton import interior_rows as each_row
from maxmargin.solvers.newton.interior_rows import Point, pieces_of
from maxmargin.vectors import dot

_MOST_WEIGHTS = 10_000
_STEP = 0.995  # share of the way to the boundary
_POWER = 5  # of what the predictor leaves of mu, where Mehrotra has 3: 9 % fewer iterations over 32 problems
_CAUTION = 10.0  # of warm starts: their mu is that of a gap so many times larger than theirs
_FARTHEST = 3.0  # that p, or r, of a warm start may be from the central path: a third of what it is there
_SMALLEST_MU = 1e-9  # of a warm start, against that of a cold one
_ROUNDING = 1e-16  # complementarity, against the primal objective, below which nothing is left to gain
_PASSES = 3.0  # of an iteration: the matrix, the predictor and the corrector


class InteriorPointState(NamedTuple):
    """What moves in the interior point method."""

    w: Array
    alpha: RowVector
    v: Array  # weights(alpha), kept in step
    point: Point
    mu: float
    barriers: float  # what mu is the mean over: the costs, once for each bound
    primal: float  # P(w)
    gap: float  # P(w) - D(alpha)
    belongs: bool  # w to alpha, exactly
    iterations: int


class Predictor(NamedTuple):
    """What the step that aims at mu = 0 tells."""

    dt: RowVector
    aim: float  # where to aim instead
    for_aim: Array  # what the corrector's right side has beyond the predictor's: for an aim of one,
    for_bends: Array  # and for the second-order errors


@dataclass(frozen=True)
class InteriorPoint(Solver):
    """Primal-dual interior point: few iterations for any C, up to some thousand features, and a free intercept.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1e4, loss="hinge")
    >>> result = solve(problem, solver=InteriorPoint(), tol=1e-8)
    >>> result.certificate.relative_gap <= 1e-8
    True
    """

    name: ClassVar[str] = "interior_point"
    access: ClassVar[str] = "passes"
    losses: ClassVar[tuple[type, ...]] = each_row.LOSSES
    takes_free_intercept: ClassVar[bool] = True
    max_passes: ClassVar[float] = 300.0  # 100 iterations

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> InteriorPointState:
        """Start at w = 0, or near the w and alpha of another state if their gap says that the path is not far."""
        n, pieces = problem.n_weights, pieces_of(problem.loss)
        if n > _MOST_WEIGHTS:
            raise ValueError(
                f"interior_point takes at most {_MOST_WEIGHTS} features, got {n}: its matrix would take "
                f"{8e-9 * n * n:.1f} GB, and as much again for each thread; use dual_cd"
            )
        size = problem.over_labels(each_row.sizes, shared=[pieces]).total / (pieces.sides * problem.total_cost)
        cold_mu = size if size > 0.0 else 1.0
        barriers = problem.total_cost * pieces.sides * (pieces.has_floor + pieces.has_ceiling)
        if start is not None:
            w, alpha = np.array(start.w, dtype=np.float64), getattr(start, "alpha", None)
            alpha = problem.dual_point(w) if alpha is None else problem.feasible(alpha)
            mu = _CAUTION * problem.certificate(w, alpha).gap / barriers if barriers > 0.0 else 0.0
            if mu < cold_mu:
                return _near(problem, w, alpha, max(mu, _SMALLEST_MU * cold_mu), barriers)
        return _near(problem, np.zeros(n), None, cold_mu, barriers)

    def update(self, problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
        """One iteration of Mehrotra's: one matrix, the predictor, and the corrector, which is taken."""
        if state.barriers > 0.0 and state.mu * state.barriers <= _ROUNDING * state.primal:
            raise GaveUp("rounding hides what is left to gain")
        n, pieces, point = problem.n_penalized, pieces_of(problem.loss), state.point
        d, c = problem.over_labels(each_row.weigh, shared=[pieces], reads=point, writes=[float, float]).vectors
        gram, right = problem.normal_equations(d, c)
        del d, c  # they are as long as the data have rows
        right[:n] -= state.w[:n]
        newton = factorized(gram, np.where(np.arange(len(right)) < n, 1.0, 0.0))  # (4)

        predictor = _look_along_predictor(problem, state, newton.solve(right))
        dw = newton.solve(right + predictor.aim * predictor.for_aim + predictor.for_bends)
        corrector = problem.over_rows(
            each_row.correct,
            shared=[pieces, state.mu, predictor.aim, dw],
            reads=[predictor.dt, *point],
            writes=[float],
        )
        lengths = _lengths(corrector.results, _STEP)
        state = _moved(problem, state, predictor, dw, corrector.vectors[0], lengths)
        return _united(problem, state, goal) if _believes(state, goal) else state

    def report(self, problem: Problem, state: InteriorPointState, goal: Goal) -> Report:
        """The objectives come from t and v, which are kept in step with w and alpha."""
        return Report(
            passes=_PASSES * state.iterations,
            primal=state.primal,
            dual=state.primal - state.gap,
            believes=_believes(state, goal),
            counters={"iterations": state.iterations},
        )

    def certificate(self, problem: Problem, state: InteriorPointState) -> Certificate:
        """At the end w belongs to alpha; before, the distance between the two is a part of the gap."""
        return problem.certificate(state.w, state.alpha, belongs=state.belongs)

    def reconsider(
        self, problem: Problem, state: InteriorPointState, goal: Goal, certificate: Certificate
    ) -> InteriorPointState:
        """A belief that proves wrong is due to rounding in t and v: compute them anew."""
        if not _believes(state, goal):
            return state
        point = state.point._replace(t=_arguments(problem, state.w))
        v = problem.weights(state.alpha)
        return state._replace(point=point, v=v, primal=certificate.primal, gap=certificate.gap)


def _believes(state: InteriorPointState, goal: Goal) -> bool:
    return state.iterations > 0 and state.gap <= goal.tol * state.primal


def _arguments(problem: Problem, w: Array) -> RowVector:
    """t_i of every row."""
    return problem.over_labels(each_row.arguments, reads=[problem.outputs(w)], writes=[float]).vectors[0]


# ---------------------------------------------------------------- the start


def _near(problem: Problem, w: Array, alpha: RowVector | None, mu: float, barriers: float) -> InteriorPointState:
    """A state at w, near alpha if there is one, and near the central path for mu."""
    pieces, t = pieces_of(problem.loss), _arguments(problem, w)
    wanted, farthest = (np.zeros(problem.n_rows), 1.0) if alpha is None else (alpha, _FARTHEST)
    q, inside = problem.over_labels(
        each_row.place,
        shared=[pieces, mu, farthest],
        reads=[wanted, t],
        writes=[(float, each_row.width(pieces)), float],
    ).vectors
    point = Point(q, t)
    sums = problem.over_labels(each_row.measure, shared=[pieces], reads=[inside, *point]).total
    v = problem.weights(inside)
    state = InteriorPointState(w, inside if alpha is None else alpha, v, point, mu, barriers, 0.0, 0.0, False, 0)
    return _measured(problem, state, sums)


def _measured(problem: Problem, state: InteriorPointState, sums: tuple[float, float, float]) -> InteriorPointState:
    """The state with its mu, objective and gap, from sums over the rows."""
    products, risk, slacks = sums
    w, v = state.w[: problem.n_penalized], state.v[: problem.n_penalized]
    primal, apart = 0.5 * dot(w, w) + risk, w - v
    mu = products / state.barriers if state.barriers > 0.0 else 0.0
    return state._replace(mu=mu, primal=primal, gap=min(slacks + 0.5 * dot(apart, apart), primal))


# ---------------------------------------------------------------- parts of an iteration


def _look_along_predictor(problem: Problem, state: InteriorPointState, dw: Array) -> Predictor:
    """How far the step that aims at mu = 0 gets tells where to aim instead."""
    done = problem.over_rows(
        each_row.predict,
        shared=[pieces_of(problem.loss), state.mu, dw],
        reads=state.point,
        writes=[float],
        sums=[len(dw), len(dw)],
        effort=3.0,
    )
    primal_step, dual_step = _lengths(done.results, 1.0)
    _, _, by_primal, by_dual, by_both = done.total  # slopes of the complementarity along the step
    now = state.mu * state.barriers
    then = now + primal_step * by_primal + dual_step * (by_dual + primal_step * by_both)
    aim = state.mu * min(max(then / now, 0.0), 1.0) ** _POWER if now > 0.0 else 0.0
    return Predictor(done.vectors[0], aim, *done.sums)


def _lengths(results: list[Any], share: float) -> tuple[float, float]:
    """Lengths of the primal and the dual step: this share of the way to where a row blocks it, or one."""
    primal_block, dual_block = (max(result[k] for result in results) for k in range(2))
    return min(1.0, share / max(primal_block, 1e-300)), min(1.0, share / max(dual_block, 1e-300))


def _moved(
    problem: Problem,
    state: InteriorPointState,
    predictor: Predictor,
    dw: Array,
    dt: RowVector,
    lengths: tuple[float, float],
) -> InteriorPointState:
    """The state after the corrected step, measured."""
    pieces, (primal_step, dual_step) = pieces_of(problem.loss), lengths
    done = problem.over_labels(
        each_row.move,
        shared=[pieces, each_row.Lengths(state.mu, predictor.aim, primal_step, dual_step)],
        reads=[predictor.dt, dt, *state.point],
        writes=[(float, each_row.width(pieces)), float, float],
    )
    *point, alpha = done.vectors
    v = state.v + dual_step * (dw + state.w - state.v)  # by (4), what the step of p does to (2)
    if problem.has_free_intercept:
        v[-1] = (1.0 - dual_step) * state.v[-1]
    state = state._replace(w=state.w + primal_step * dw, v=v, alpha=alpha, point=Point(*point))
    return _measured(problem, state._replace(iterations=state.iterations + 1), done.total)


def _united(problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
    """At the end, give alpha the w that belongs to it, if that is good enough, too.

    Part of the proof that ends a run, these two passes are counted no more than those of a certificate. An intercept
    that is not penalised belongs to no alpha, and stays; alpha is balanced.
    """
    alpha = problem.balanced(state.alpha)
    w = v = problem.weights(alpha)
    if problem.has_free_intercept:
        w = np.append(v[:-1], state.w[-1])
    certificate = problem.certificate(w, alpha, belongs=True)
    if not certificate.relative_gap <= goal.tol:
        return state
    return state._replace(w=w, alpha=alpha, v=v, belongs=True, primal=certificate.primal, gap=certificate.gap)
