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
  step for all: without the cut it takes 38 iterations on skin_nonskin, with it 24, and hardly ever more.

Where it stands: `augmented_lagrangian` needs about as many passes over the data, but only the first few of its matrices
are of many rows, and it is two to ten times as fast. An intercept without penalty is what this one takes and that one
does not, and it needs 15 to 25 iterations where the other may need a hundred steps.

An iteration passes over the data three times: for the matrix, for the predictor and for the corrector. Memory, beside
the data: the matrix, a block of rows and one more matrix for each thread, and 8 to 12 numbers for each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.gram import add_weighted_gram, cholesky, cholesky_solve, one_blas_thread, row_cost
from maxmargin.losses import QUADRATIC_DUAL
from maxmargin.parallel import map_blocks
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, default_blocks, n_stored
from maxmargin.solvers import _interior_rows as each_row
from maxmargin.solvers._interior_rows import Point, pieces_of
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.dual_cd import _feasible

_BLOCK = 1 << 28  # the work of an update, in stored values of a product X w: a quarter of a second or so
_MOST_WEIGHTS = 10_000
_STEP = 0.995  # share of the way to the boundary
_POWER = 5  # of what the predictor leaves of mu, where Mehrotra has 3: 9 % fewer iterations over 32 problems
_CAUTION = 10.0  # of warm starts: their mu is that of a gap so many times larger than theirs
_FARTHEST = 3.0  # that p, or r, of a warm start may be from the central path: a third of what it is there
_SMALLEST_MU = 1e-9  # of a warm start, against that of a cold one
_ROUNDING = 1e-16  # complementarity, against the primal objective, below which nothing is left to gain


class Newton(NamedTuple):
    """The linear system of an iteration, and its solutions."""

    matrix: Array  # (4), and then its Cholesky factor
    scale: Array  # of the factor
    right: Array  # side of (4) for the predictor
    extra: Array  # what the corrector's right side has beyond it: for an aim of one, and for the bends
    dw: Array
    affine_dt: Array  # of the predictor
    dt: Array  # of the corrector


class Course(NamedTuple):
    """The numbers of an iteration."""

    phase: int  # 0: matrix, 1: predictor, 2: corrector
    position: int  # in this phase, of the next row
    mu: float
    aim: float
    barriers: float  # what mu is the mean over: the costs, once for each bound
    primal_block: float  # 1 / the longest step that leaves s and xi nonnegative, so far
    dual_block: float  # and p and r
    by_primal: float  # slopes of the complementarity along the predictor: by the primal step,
    by_dual: float  # by the dual step,
    by_both: float  # and by their product
    primal: float  # P(w)
    gap: float  # P(w) - D(alpha)
    belongs: bool  # w to alpha, exactly
    iterations: int
    visits: int  # of rows, in all phases


class InteriorPointState(NamedTuple):
    """What moves in the interior point method."""

    w: Array
    alpha: Array
    v: Array  # weights(alpha), kept in step
    point: Point
    newton: Newton
    course: Course


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
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL
    takes_free_intercept: ClassVar[bool] = True
    max_passes: ClassVar[float] = 300.0  # 100 iterations

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> InteriorPointState:
        """Start at w = 0, or near the w and alpha of another state if their gap says that the path is not far."""
        n = problem.n_weights
        if n > _MOST_WEIGHTS:
            raise ValueError(
                f"interior_point takes at most {_MOST_WEIGHTS} features, got {n}: its matrix would take "
                f"{8e-9 * n * n:.1f} GB, and as much again for each thread; use dual_cd"
            )
        pieces = pieces_of(problem.loss)
        cost, cold_mu = each_row.scales(_data(problem), pieces)
        barriers = cost * pieces.sides * (pieces.has_floor + pieces.has_ceiling)
        if start is not None:
            w, alpha = np.array(start.w, dtype=np.float64), getattr(start, "alpha", None)
            alpha = problem.dual_point(w) if alpha is None else _feasible(problem, alpha)
            mu = _CAUTION * problem.certificate(w, alpha).gap / barriers if barriers > 0.0 else 0.0
            if mu < cold_mu:
                return _near(problem, w, alpha, max(mu, _SMALLEST_MU * cold_mu), barriers)
        return _near(problem, np.zeros(n), None, cold_mu, barriers)

    def update(self, problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
        """Go on to the end of the iteration, or as far as a block of work or the goal's passes allow."""
        n_rows, work = problem.n_rows, float(_BLOCK)
        last_visit = math.ceil(min(goal.max_passes * n_rows, 2.0**62))
        last_visit += last_visit / n_rows < goal.max_passes  # by rounding; the loop would wait for ever
        with one_blas_thread():
            while work > 0.0 and state.course.visits < last_visit:
                course = state.course
                visit, close = _PHASES[course.phase]
                cost, begin = _row_cost(problem, course.phase), course.position
                grid = max(1, int(_BLOCK / cost))  # sums are cut at places that no milestone of others changes
                end = min(n_rows, (begin // grid + 1) * grid, begin + last_visit - course.visits)
                state = visit(problem, state, begin, end)
                state = _with(state, position=end % n_rows, visits=course.visits + end - begin)
                work -= cost * (end - begin)
                if end == n_rows:
                    state = close(problem, state, goal)
                    if state.course.phase == 0:
                        break
        return state

    def report(self, problem: Problem, state: InteriorPointState, goal: Goal) -> Report:
        """The objectives come from t and v, which are kept in step with w and alpha."""
        course = state.course
        return Report(
            passes=course.visits / problem.n_rows,
            primal=course.primal,
            dual=course.primal - course.gap,
            believes=_believes(state, goal),
            counters={"iterations": course.iterations},
        )

    def certificate(self, problem: Problem, state: InteriorPointState) -> Certificate:
        """At the end w belongs to alpha; before, the distance between the two is a part of the gap."""
        return problem.certificate(state.w, state.alpha, belongs=state.course.belongs)

    def reconsider(
        self, problem: Problem, state: InteriorPointState, goal: Goal, certificate: Certificate
    ) -> InteriorPointState:
        """A belief that proves wrong is due to rounding in t and v: compute them anew."""
        if not _believes(state, goal):
            return state
        each_row.arguments(_data(problem), problem.decision(state.w), state.point.t)
        state = state._replace(v=problem.weights(state.alpha))
        return _with(state, primal=certificate.primal, gap=certificate.gap)


def _believes(state: InteriorPointState, goal: Goal) -> bool:
    course = state.course
    is_between_iterations = course.phase == 0 and course.position == 0 and course.iterations > 0
    return is_between_iterations and course.gap <= goal.tol * course.primal


def _with(state: InteriorPointState, **numbers: Any) -> InteriorPointState:
    return state._replace(course=state.course._replace(**numbers))


def _data(problem: Problem) -> tuple[Any, ...]:
    return problem.rows, problem.y, problem.cost, problem.loss


def _row_cost(problem: Problem, phase: int) -> float:
    """What a visit of a row costs, in stored values of a product X w."""
    return row_cost(problem.rows) if phase == 0 else 1.0 + n_stored(problem.rows) / problem.n_rows


def _over_blocks(problem: Problem, function: Any, begin: int, end: int) -> list[Any]:
    """`function(lo, hi)` over threads, for the blocks of these rows."""
    return map_blocks(function, np.unique(np.clip(default_blocks(problem.rows), begin, end)), problem.n_jobs)


# ---------------------------------------------------------------- the start


def _near(problem: Problem, w: Array, alpha: Array | None, mu: float, barriers: float) -> InteriorPointState:
    """A state at w, near alpha if there is one, and near the central path for mu."""
    data, pieces, m, n = _data(problem), pieces_of(problem.loss), problem.n_rows, problem.n_weights
    at_floor, at_ceiling = ((m if bound else 0, pieces.sides) for bound in (pieces.has_floor, pieces.has_ceiling))
    point = Point(np.ones((m, pieces.sides)), np.ones(at_ceiling), np.ones(at_floor), np.ones(at_ceiling), np.empty(m))
    each_row.arguments(data, problem.decision(w), point.t)
    inside = np.zeros(m) if alpha is None else alpha.copy()
    each_row.place(data, pieces, point, mu, 1.0 if alpha is None else _FARTHEST, inside)
    products, risk, slacks = each_row.measure(data, pieces, point, inside, 0, m)
    v = problem.weights(inside)
    course = Course(0, 0, 0.0, 0.0, barriers, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 0, 0)
    newton = Newton(*(np.zeros(shape) for shape in [(n, n), (n,), (n,), (2, n), (n,), (m,), (m,)]))
    state = InteriorPointState(w, inside if alpha is None else alpha, v, point, newton, course)
    return _measured(problem, state, products, risk, slacks)


def _measured(
    problem: Problem, state: InteriorPointState, products: float, risk: float, slacks: float
) -> InteriorPointState:
    """The state with its mu, objective and gap, from sums over the rows."""
    w, v = state.w[: problem.n_penalized], state.v[: problem.n_penalized]
    primal, apart = 0.5 * float(w @ w) + risk, w - v
    mu = products / state.course.barriers if state.course.barriers > 0.0 else 0.0
    return _with(state, mu=mu, primal=primal, gap=min(slacks + 0.5 * float(apart @ apart), primal))


# ---------------------------------------------------------------- the phases: visits of rows, and what they are for


def _build_matrix(problem: Problem, state: InteriorPointState, begin: int, end: int) -> InteriorPointState:
    data, pieces, newton = _data(problem), pieces_of(problem.loss), state.newton

    def weigh(lo: int, hi: int) -> tuple[Array, Array]:
        d, c = np.empty(hi - lo), np.empty(hi - lo)
        each_row.weigh(data, pieces, state.point, d, c, lo)
        return d, c

    add_weighted_gram(newton.matrix, newton.right, problem.rows, weigh, begin, end, problem.n_jobs)
    return state


def _solve_for_predictor(problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
    newton, n = state.newton, problem.n_penalized
    np.fill_diagonal(newton.matrix[:n, :n], newton.matrix.diagonal()[:n] + 1.0)
    newton.scale[:] = cholesky(newton.matrix)
    newton.right[:n] -= state.w[:n]
    newton.dw[:] = cholesky_solve(newton.matrix, newton.scale, newton.right)
    newton.extra[:] = 0.0
    return _with(state, phase=1, primal_block=0.0, dual_block=0.0, by_primal=0.0, by_dual=0.0, by_both=0.0)


def _look_along_predictor(problem: Problem, state: InteriorPointState, begin: int, end: int) -> InteriorPointState:
    data, pieces, newton, course = _data(problem), pieces_of(problem.loss), state.newton, state.course

    def block(lo: int, hi: int) -> tuple[tuple[float, ...], Array]:
        extra = np.zeros_like(newton.extra)
        steps = newton.dw, newton.affine_dt
        return each_row.predict(data, pieces, state.point, course.mu, steps, extra, lo, hi), extra

    for (primal_block, dual_block, by_primal, by_dual, by_both), extra in _over_blocks(problem, block, begin, end):
        newton.extra[:] += extra
        course = course._replace(
            primal_block=max(course.primal_block, primal_block),
            dual_block=max(course.dual_block, dual_block),
            by_primal=course.by_primal + by_primal,
            by_dual=course.by_dual + by_dual,
            by_both=course.by_both + by_both,
        )
    return state._replace(course=course)


def _solve_for_corrector(problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
    newton, course = state.newton, state.course
    primal_step, dual_step = _steps(course, 1.0)
    now = course.mu * course.barriers
    then = now + primal_step * course.by_primal + dual_step * (course.by_dual + primal_step * course.by_both)
    aim = course.mu * min(max(then / now, 0.0), 1.0) ** _POWER if now > 0.0 else 0.0
    right = newton.right + aim * newton.extra[0] + newton.extra[1]
    newton.dw[:] = cholesky_solve(newton.matrix, newton.scale, right)
    return _with(state, phase=2, aim=aim, primal_block=0.0, dual_block=0.0)


def _look_along_corrector(problem: Problem, state: InteriorPointState, begin: int, end: int) -> InteriorPointState:
    data, pieces, newton, course = _data(problem), pieces_of(problem.loss), state.newton, state.course

    def block(lo: int, hi: int) -> tuple[float, float]:
        steps = newton.dw, newton.affine_dt, newton.dt
        return each_row.correct(data, pieces, state.point, course.mu, course.aim, steps, lo, hi)

    for primal_block, dual_block in _over_blocks(problem, block, begin, end):
        longest = max(course.primal_block, primal_block), max(course.dual_block, dual_block)
        course = course._replace(primal_block=longest[0], dual_block=longest[1])
    return state._replace(course=course)


def _move(problem: Problem, state: InteriorPointState, goal: Goal) -> InteriorPointState:
    """Take the corrected step, and measure where it leads to."""
    data, pieces, newton, course = _data(problem), pieces_of(problem.loss), state.newton, state.course
    primal_step, dual_step = _steps(course, _STEP)
    is_done = course.barriers > 0.0 and course.mu * course.barriers <= _ROUNDING * course.primal
    if is_done or not np.isfinite(newton.dw).all():
        primal_step, dual_step = 0.0, 0.0

    def block(lo: int, hi: int) -> tuple[float, float, float]:
        lengths = course.mu, course.aim, primal_step, dual_step
        steps = newton.affine_dt, newton.dt
        return each_row.move(data, pieces, state.point, lengths, steps, state.alpha, lo, hi)

    products, risk, slacks = map(sum, zip(*_over_blocks(problem, block, 0, problem.n_rows)))
    v = state.v + dual_step * (newton.dw + state.w - state.v)  # by (4), what the step of p does to (2)
    if problem.has_free_intercept:
        v[-1] = (1.0 - dual_step) * state.v[-1]
    state = _measured(problem, state._replace(w=state.w + primal_step * newton.dw, v=v), products, risk, slacks)
    newton.matrix[:] = 0.0
    newton.right[:] = 0.0
    state = _with(state, phase=0, iterations=course.iterations + 1)
    return _united(problem, state, goal) if _believes(state, goal) else state


def _steps(course: Course, share: float) -> tuple[float, float]:
    """Lengths of the primal and the dual step: this share of the way to the boundary, or one."""
    return min(1.0, share / max(course.primal_block, 1e-300)), min(1.0, share / max(course.dual_block, 1e-300))


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
    if certificate.relative_gap > goal.tol:
        return state
    state = state._replace(w=w, alpha=alpha, v=v)
    return _with(state, primal=certificate.primal, gap=certificate.gap, belongs=True)


_PHASES = (
    (_build_matrix, _solve_for_predictor),
    (_look_along_predictor, _solve_for_corrector),
    (_look_along_corrector, _move),
)
