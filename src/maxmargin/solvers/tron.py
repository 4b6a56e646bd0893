"""Newton's method on the primal, for losses with a derivative.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

Each step minimises the quadratic model  q(s) = g's + 1/2 s'Hs,  g the gradient of P at w and H its Hessian
I + sum_i D_i x_i x_i',  D_i = C_i phi''(t_i). There are three ways to do that and to make it safe:

* "trust_region": conjugate gradients within a radius that grows and shrinks with the model's success. Lin, Weng,
  Keerthi: Trust region Newton method for large-scale logistic regression, JMLR 2008, algorithms 1 and 2.
* "line_search": conjugate gradients with a preconditioner, then a search along s. Galli, Lin: A study on truncated
  Newton methods for linear classification, IEEE TNNLS 2022: what LIBLINEAR moved to.
* "cholesky": H as a matrix and s = -H^-1 g, then a search along s. For few features: all of H costs less than the
  products with it that conjugate gradients need, and a step is exact however badly the features are scaled.

Paper -> code: Delta -> radius, sigma, eta, xi as they are, the model's residual -> r, direction -> p, M -> M.

What differs from the papers, and why:

* The stop. alpha_i = -C_i phi'(t_i) is feasible in the dual and belongs to v = w - g, so P(w) - D(alpha) is
  1/2 |g|^2: every evaluation brings its certificate. It also tells conjugate gradients what the last step needs:
  a residual of that size and no better.
* The search. The point w + s is evaluated at once, with its gradient, which is what most steps need. If it will not
  do, its x_i's are known, and the best step along s is found without looking at X again.
* The preconditioner's diagonal is that of the first step, scaled: it hardly changes, and would take a pass each time.
* The matrix H is not built anew in each step: only rows whose D_i has changed are added to it or taken away. For the
  squared hinge these are the rows that crossed the margin, soon a few in a hundred.

Where it is slow: more features than a matrix can have, large C, and rows that can nearly be separated. Conjugate
gradients then take hundreds of products with H for a step, and steps are cut short by rows that come into the margin
on the way. Dual coordinate descent has no such trouble there.

An intercept that is not penalised has no entry of its own in the I of H, and P may be flat along it, where D_i is zero
for all rows. `_damping` then stands in for that entry: it vanishes with the gradient, and with it from the last steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.gram import cholesky, cholesky_solve, one_blas_thread
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import CSR, Array, n_stored
from maxmargin.solvers._free_intercept import balanced_gap
from maxmargin.solvers._hessian import (
    SMOOTH,
    add_column_squares,
    add_evaluation,
    add_gram,
    add_hessian_product,
    best_step,
    curvatures,
    dot,
    gram_work,
    n_blocks,
    padded,
    slope,
)
from maxmargin.solvers.base import Goal, Report, Solver

_BLOCK = 1 << 26  # multiplications that one update makes: 10 to 100 ms
_METHODS = ("auto", "cholesky", "line_search", "trust_region")
_EVALUATE, _MEASURE, _MULTIPLY, _BUILD = range(4)  # what rows are visited for; `_PHASES` says how

_ETA = 1e-4, 0.25, 0.75  # Lin et al., (9): how well the model must foretell the decrease
_SIGMA = 0.25, 0.5, 4.0  # and what becomes of the radius
_XI = 0.1  # (11): the residual to which their conjugate gradients solve
_MIX = 0.01  # Galli and Lin's preconditioner: so much of the diagonal, the rest of the identity
_ROUNDING = 1e-10  # differences of P below this share of it tell nothing
_STALE = 0.1  # relative change of D_i up to which a row stays in the matrix as it is
_CHEAP = 10.0  # products with H for whose price a matrix is bought at once
_MOST_FEATURES = 2048  # of a matrix
_STEEPEST = 1e-3  # of the curvature along a free intercept that all costs together stand for: the most to add to it
_TRACE = 1e-14  # and the least


class Trial(NamedTuple):
    """A point on the way, as far as it is evaluated."""

    w: Array
    z: Array
    gradient: Array
    risk: float
    step: float  # it is the last point plus so many times s


class CG(NamedTuple):
    """Conjugate gradients for H s = -g."""

    n: int  # iterations done
    r: Array  # -g - H s
    p: Array
    Hp: Array  # as far as rows were visited
    rho: float  # r'M^-1 r


class Matrix(NamedTuple):
    """sum_i D_i x_i x_i'; empty where there is none."""

    gram: Array  # its upper triangle
    D: Array  # those that it is made of


class Course(NamedTuple):
    """Where the method is, and the work so far."""

    phase: int
    position: int  # of the next row to visit in this phase
    rows: int  # that have a cost: a pass visits so many
    visits: int
    steps: int
    products: int


class TronState(NamedTuple):
    """What moves in Newton's method."""

    w: Array  # the last point that was accepted, and all that is known of it
    z: Array  # x_i'w
    D: Array
    gradient: Array
    primal: float  # infinite before the first evaluation
    gap: float  # P(w) - D(alpha), alpha_i = -C_i phi'(t_i)
    s: Array  # the step from it
    trial: Trial
    cg: CG
    matrix: Matrix
    columns: Array  # sum_i C_i x_ij^2; empty before it is asked for
    radius: float
    norm_at_start: float  # |g|
    gram_work: float  # multiplications that the matrix takes
    course: Course


@dataclass(frozen=True)
class Tron(Solver):
    """Newton's method: few passes, whatever C and the scale of the features, for every smooth loss.

    Parameters
    ----------
    method : {"auto", "cholesky", "line_search", "trust_region"}
        How a step is found; see the module's docstring. "auto" is "cholesky" where the matrix H costs no more than a
        few passes over the data. Elsewhere it is "line_search", and changes to "cholesky" when the passes have cost as
        much as the matrix would (never with more than 2048 features).

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=100.0, loss="logistic")
    >>> result = solve(problem, solver=Tron(), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    method: str = "auto"

    name: ClassVar[str] = "tron"
    losses: ClassVar[tuple[type, ...]] = SMOOTH
    takes_free_intercept: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}; got {self.method!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> TronState:
        """Start at w = 0, or at the w of another state."""
        n, nothing = problem.n_weights, np.zeros(0)
        w = np.zeros(n) if start is None else np.array(start.w, dtype=np.float64)
        if w.shape != (n,):
            raise ValueError(f"cannot start at {w.size} weights: the problem has {n}")
        course = Course(_EVALUATE, 0, int(np.count_nonzero(problem.cost)), 0, 0, 0)
        cg, matrix = CG(0, nothing, nothing, nothing, 0.0), Matrix(np.zeros((0, 0)), nothing)
        trial, work = _trial(problem, w), gram_work(problem)
        point = w, nothing, nothing, nothing, math.inf, math.inf
        return TronState(*point, np.zeros(n), trial, cg, matrix, nothing, 0.0, 0.0, work, course)

    def update(self, problem: Problem, state: TronState, goal: Goal) -> TronState:
        """Visit rows, for a block of work or as far as the goal's passes allow."""
        rows, visits_before = state.course.rows, state.course.visits
        last_visit = math.ceil(min(goal.max_passes * rows, 2.0**62))
        last_visit += last_visit / rows < goal.max_passes  # by rounding; the loop would wait for ever
        work = float(_BLOCK)
        while not _is_reached(state, goal) and state.course.visits < last_visit:
            if work <= 0.0 and state.course.visits > visits_before:
                break
            visit, close = _PHASES[state.course.phase]
            begin, (end, blocks) = state.course.position, _part(problem, state, last_visit)
            state, visits = visit(problem, state, begin, end, blocks)
            state = _with(state, position=end, visits=state.course.visits + visits)
            work -= _row_cost(problem, state) * max(visits, 1)
            if end == problem.n_rows:
                state = close(self, problem, state, goal)
        return state

    def report(self, problem: Problem, state: TronState, goal: Goal) -> Report:
        """The gap is that of the last point, exactly."""
        course, is_evaluated = state.course, state.primal < math.inf
        return Report(
            passes=course.visits / course.rows,
            primal=state.primal if is_evaluated else math.nan,
            dual=state.primal - state.gap if is_evaluated else math.nan,
            believes=_is_reached(state, goal),
            counters={"steps": course.steps, "products": course.products},
        )

    def certificate(self, problem: Problem, state: TronState) -> Certificate:
        """No pass: P and its gradient at w were summed over the rows when w was reached."""
        if state.primal == math.inf:
            return problem.certificate(state.w)
        return Certificate(state.primal, state.primal - state.gap, state.gap)


def _norm(v: Array) -> float:
    return math.sqrt(dot(v, v))


def _gap(problem: Problem, z: Array, gradient: Array, primal: float) -> float:
    """P(w) - D(alpha), alpha_i = -C_i phi'(t_i); no loss is negative, so zero is a dual bound, too."""
    if problem.has_free_intercept:
        return min(balanced_gap(problem, z, _norm(gradient[:-1])), primal)
    return min(0.5 * dot(gradient, gradient), primal)


def _is_reached(state: TronState, goal: Goal) -> bool:
    return state.primal < math.inf and state.gap <= goal.tol * state.primal


def _with(state: TronState, **course: int) -> TronState:
    return state._replace(course=state.course._replace(**course))


def _row_cost(problem: Problem, state: TronState) -> float:
    """Multiplications, or what takes as long, for a visit of a row in the present phase."""
    if state.course.phase == _BUILD:
        return 1.0 + state.gram_work / problem.n_rows
    return 4.0 * (1.0 + n_stored(problem.rows) / problem.n_rows)


def _part(problem: Problem, state: TronState, last_visit: int) -> tuple[int, int]:
    """How far to go in one go, and in how many blocks.

    Sums must not depend on where a run pauses: what is divided into blocks is done whole, up to borders that the data
    alone decide, as is the matrix, which is summed over many rows at once.
    """
    course, cost = state.course, _row_cost(problem, state)
    grid = max(1, int(_BLOCK / cost))
    end = min((course.position // grid + 1) * grid, problem.n_rows)
    blocks = n_blocks(problem.rows, min(grid, problem.n_rows) * cost / 4.0, problem.n_weights)
    if blocks == 1 and course.phase != _BUILD:
        end = min(end, course.position + last_visit - course.visits)
    return end, blocks


# ---------------------------------------------------------------- a point: value and gradient


def _trial(problem: Problem, w: Array, step: float = 1.0) -> Trial:
    gradient = w.copy()  # of the penalty; rows are added
    gradient[problem.n_penalized :] = 0.0
    return Trial(w, np.zeros(problem.n_rows), gradient, 0.0, step)


def _to_trial(problem: Problem, state: TronState, step: float) -> TronState:
    trial = _trial(problem, state.w + step * state.s, step)
    return _with(state._replace(trial=trial), phase=_EVALUATE, position=0)


def _evaluate(problem: Problem, state: TronState, begin: int, end: int, blocks: int) -> tuple[TronState, int]:
    w, z, gradient, risk, _ = trial = state.trial
    risk = add_evaluation(problem, w, z, gradient, risk, begin, end, blocks)
    return state._replace(trial=trial._replace(risk=risk)), int(np.count_nonzero(problem.cost[begin:end]))


def _accept(problem: Problem, state: TronState, primal: float) -> TronState:
    w, z, gradient, _, _ = state.trial
    gap = _gap(problem, z, gradient, primal)
    return state._replace(w=w, z=z, D=curvatures(problem, z), gradient=gradient, primal=primal, gap=gap)


def _judge_point(solver: Tron, problem: Problem, state: TronState, goal: Goal) -> TronState:
    """Take the trial for the next point, or not, and begin a new step; or look for a better point on the line."""
    w, z, gradient, risk, step = state.trial
    penalized = w[: problem.n_penalized]
    primal = 0.5 * dot(penalized, penalized) + risk
    if state.primal == math.inf:
        state = _accept(problem, state, primal)
        state = state._replace(norm_at_start=_norm(gradient), radius=_norm(gradient))
        return _begin_step(solver, problem, state)
    if solver.method == "trust_region":
        is_better, radius = _in_region(state, primal)
        state = state._replace(radius=radius)
    else:
        at_0, at_trial = dot(state.gradient, state.s), dot(gradient, state.s)
        is_good = abs(at_trial) <= 0.5 * abs(at_0) and primal <= state.primal * (1.0 + _ROUNDING)
        if step == 1.0 and not is_good:
            return _to_trial(problem, state, _best_step(problem, state, z - state.z))
        # At the limit of what rounding allows, P no longer tells the better of two points; the gradient does.
        is_better = primal < state.primal or _norm(gradient) < _norm(state.gradient)
    state = _with(state, steps=state.course.steps + 1)
    return _begin_step(solver, problem, _accept(problem, state, primal) if is_better else state)


def _best_step(problem: Problem, state: TronState, dz: Array) -> float:
    """Where P is least along s."""
    w, s = state.w[: problem.n_penalized], state.s[: problem.n_penalized]
    ws, ss = dot(w, s), dot(s, s)

    def along_s(step: float) -> tuple[float, float]:
        first, second = slope(problem, state.z, dz, step)
        return first + ws + step * ss, second + ss

    return best_step(along_s, dot(state.gradient, state.s))


def _in_region(state: TronState, primal: float) -> tuple[bool, float]:
    """Algorithm 1 of Lin et al.: whether the model foretold the decrease well enough, and the new radius."""
    s, length, radius = state.s, _norm(state.s), state.radius
    gs = dot(state.gradient, s)
    foretold, actual = -0.5 * (gs - dot(s, state.cg.r)), state.primal - primal
    if state.course.steps == 0:
        radius = min(radius, length)
    excess = -actual - gs  # of P over its tangent: the parabola through what is known has its least value at
    best = length * (_SIGMA[2] if excess <= 0.0 else max(_SIGMA[0], -0.5 * gs / excess))
    if actual < _ETA[0] * foretold:
        radius = min(best, _SIGMA[1] * radius)
    elif actual < _ETA[1] * foretold:
        radius = max(_SIGMA[0] * radius, min(best, _SIGMA[1] * radius))
    elif actual < _ETA[2] * foretold:
        radius = max(_SIGMA[0] * radius, min(best, _SIGMA[2] * radius))
    else:
        radius = max(radius, min(best, _SIGMA[2] * radius))
    is_noise = max(foretold, abs(actual)) <= _ROUNDING * primal
    is_better = actual > _ETA[0] * foretold or (is_noise and _norm(state.trial.gradient) < _norm(state.gradient))
    return is_better, radius


def _begin_step(solver: Tron, problem: Problem, state: TronState) -> TronState:
    if len(state.matrix.D) or _wants_matrix(solver, problem, state):
        return _begin_matrix(problem, state)
    if solver.method != "trust_region" and len(state.columns) == 0:
        state = state._replace(columns=np.zeros(problem.n_weights))
        return _with(state, phase=_MEASURE, position=0)
    return _begin_conjugate_gradients(solver, problem, state)


# ---------------------------------------------------------------- a step by conjugate gradients


def _measure(problem: Problem, state: TronState, begin: int, end: int, blocks: int) -> tuple[TronState, int]:
    add_column_squares(problem, state.columns, begin, end, blocks)
    return state, int(np.count_nonzero(problem.cost[begin:end]))


def _preconditioner(solver: Tron, problem: Problem, state: TronState) -> Any:
    """M: a mixture of the identity and an estimate of H's diagonal, as if every row counted by the same share."""
    if solver.method == "trust_region":
        return 1.0
    share = state.D[state.D > 0.0].sum() / problem.cost[problem.cost > 0.0].sum()
    M = 1.0 + _MIX * share * state.columns
    if problem.has_free_intercept:  # its entry of H is known, and there is no identity to mix it with
        M[-1] = share * state.columns[-1] + _damping(problem, state)
    return M


def _identity(problem: Problem, state: TronState, p: Array) -> Array:
    """What H has beside the rows, times p."""
    p = p.copy()
    if problem.has_free_intercept:
        p[-1] *= _damping(problem, state)
    return p


def _damping(problem: Problem, state: TronState) -> float:
    """What to add to the curvature along a free intercept: where the rows have little, as much as keeps steps short.

    A step along it alone then changes no output by more than one, or the rows' own curvature is of the size of that
    of all costs. Near the optimum there is no slope to go by, and nothing but a trace is added.
    """
    bias = problem.rows.bias
    of_rows, of_costs = bias * bias * float(state.D.sum()), bias * bias * float(problem.cost.sum())
    return max(min(abs(bias * state.gradient[-1]), _STEEPEST * of_costs) - of_rows, _TRACE * of_costs)


def _begin_conjugate_gradients(solver: Tron, problem: Problem, state: TronState) -> TronState:
    r = -state.gradient
    p = r / _preconditioner(solver, problem, state)
    cg = CG(0, r, p, _identity(problem, state, p), dot(r, p))
    return _with(state._replace(cg=cg, s=np.zeros(len(r))), phase=_MULTIPLY, position=0)


def _after_measure(solver: Tron, problem: Problem, state: TronState, goal: Goal) -> TronState:
    return _begin_conjugate_gradients(solver, problem, state)


def _multiply(problem: Problem, state: TronState, begin: int, end: int, blocks: int) -> tuple[TronState, int]:
    which = np.flatnonzero(state.D[begin:end])
    which += begin
    add_hessian_product(problem, which, state.D[which], state.cg.p, state.cg.Hp, blocks)
    return state, len(which)


def _after_product(solver: Tron, problem: Problem, state: TronState, goal: Goal) -> TronState:
    """One iteration of conjugate gradients; if it was the last one, try the step."""
    n, r, p, Hp, rho = state.cg
    norm, s = _norm(state.gradient), state.s
    is_last = n + 1 >= len(s) + 10
    # Leaves half of the gap that is allowed. (How much of it a free intercept takes depends on the rows.)
    enough = 0.0 if problem.has_free_intercept else math.sqrt(goal.tol * state.primal)
    step = rho / dot(p, Hp)
    if solver.method == "trust_region":
        target = max(_XI * norm, enough)  # (11)
        if _norm(s + step * p) >= state.radius:
            step, is_last = _to_the_boundary(s, p, state.radius), True
    else:
        target = max(min(0.3, math.sqrt(norm / state.norm_at_start)) * norm, enough)
    s, r = s + step * p, r - step * Hp
    Mr = r / _preconditioner(solver, problem, state)
    old_rho, rho = rho, dot(r, Mr)
    p = Mr + (rho / old_rho) * p
    state = state._replace(s=s, cg=CG(n + 1, r, p, _identity(problem, state, p), rho))
    state = _with(state, position=0, products=state.course.products + 1)
    if is_last or _norm(r) <= target:
        return _to_trial(problem, state, 1.0)
    return _begin_matrix(problem, state) if _wants_matrix(solver, problem, state) else state


def _to_the_boundary(s: Array, p: Array, radius: float) -> float:
    """The step along p from s, inside, to where |s + step p| is the radius."""
    sp, pp, room = dot(s, p), dot(p, p), max(radius * radius - dot(s, s), 0.0)
    return room / (sp + math.sqrt(sp * sp + pp * room)) if room else 0.0


# ---------------------------------------------------------------- a step by a matrix


def _wants_matrix(solver: Tron, problem: Problem, state: TronState) -> bool:
    """Whether products with H have cost what the matrix costs, or it is cheap: an end of buying them one by one."""
    if solver.method != "auto":
        return solver.method == "cholesky"
    n, stored = problem.n_weights, n_stored(problem.rows)
    if n > _MOST_FEATURES or n * n > max(stored, 1 << 20):  # large beside the data
        return False
    # Nanoseconds. Dense rows are multiplied at the speed of the registers, sparse ones at that of the caches.
    of_product, of_work = (1.8, 1.0) if isinstance(problem.rows, CSR) else (0.8, 0.07)
    price = (of_work * state.gram_work + 0.02 * n**3) / (of_product * (stored + problem.n_rows))
    return price <= max(_CHEAP, state.course.products)


def _begin_matrix(problem: Problem, state: TronState) -> TronState:
    matrix = state.matrix
    if len(matrix.D) == 0:
        size = padded(problem.n_weights)
        state = state._replace(matrix=Matrix(np.zeros((size, size)), np.zeros(problem.n_rows)))
    elif np.count_nonzero(_has_changed(state.D, matrix.D)) >= np.count_nonzero(state.D):  # then rather begin anew
        matrix.gram.fill(0.0)
        matrix.D.fill(0.0)
    return _with(state, phase=_BUILD, position=0)


def _has_changed(D: Array, old: Array) -> Array:
    """Whether a row's curvature is too far from what it was. That of a piecewise quadratic loss is the same or not."""
    return np.abs(D - old) > _STALE * np.maximum(D, old)


def _build(problem: Problem, state: TronState, begin: int, end: int, blocks: int) -> tuple[TronState, int]:
    """Bring the matrix up to date: add rows, take rows away."""
    new, old = state.D[begin:end], state.matrix.D[begin:end]
    changed = np.flatnonzero(_has_changed(new, old))
    blocks = n_blocks(problem.rows, len(changed) * _row_cost(problem, state) / 4.0, state.matrix.gram.size)
    add_gram(problem, begin + changed, (new - old)[changed], state.matrix.gram, blocks)
    old[changed] = new[changed]
    return state, len(changed)


def _after_matrix(solver: Tron, problem: Problem, state: TronState, goal: Goal) -> TronState:
    """The Newton step -H^-1 g."""
    n = problem.n_weights
    H = state.matrix.gram[:n, :n] + np.diag(_identity(problem, state, np.ones(n)))
    with one_blas_thread():
        s = cholesky_solve(H, cholesky(H), -state.gradient)
    return _to_trial(problem, state._replace(s=s), 1.0)


_PHASES: tuple[tuple[Any, Any], ...] = (
    (_evaluate, _judge_point),
    (_measure, _after_measure),
    (_multiply, _after_product),
    (_build, _after_matrix),
)
