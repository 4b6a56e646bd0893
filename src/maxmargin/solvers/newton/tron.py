"""Newton's method on the primal, for losses with a derivative.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

Each step minimises the quadratic model  q(s) = g's + 1/2 s'Hs,  g the gradient of P at w and H its Hessian
I + sum_i D_i x_i x_i',  D_i = C_i phi''(t_i). There are three ways to do that and to make it safe:

* "trust_region": conjugate gradients within a radius that grows and shrinks with the model's success. Lin, Weng,
  Keerthi: Trust region Newton method for large-scale logistic regression, JMLR 2008, algorithms 1 and 2.
* "line_search": conjugate gradients with a preconditioner, then a search along s. Galli, Lin: A study on truncated
  Newton methods for linear classification, IEEE TNNLS 2022: what LIBLINEAR moved to.
* "cholesky": H as a matrix and s = -H^-1 g, exact, then a search along s. For few features.

Paper -> code: Delta -> radius, sigma, eta, xi as they are, the model's residual -> r, direction -> p, M -> M.

What differs from the papers, and why:

* The stop is the certified gap, 1/2 |g|^2. It also tells conjugate gradients what the last step needs.
* The search. The point w + s is evaluated at once, with its gradient, which is what most steps need. If it will not
  do, its x_i's are known, and the best step along s is found without looking at X again.
* The preconditioner's diagonal is that of the first step, scaled; of the matrix H, rows whose D_i has changed alone.
* A free intercept has no entry of its own in the I of H, and P may be flat along it: `_damping` stands in for that
  entry. It vanishes with the gradient, and with it from the last steps.

Where it is slow: large C, rows that can nearly be separated, and more features than a matrix can have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem import Problem
from maxmargin.problem.gram import newton_step
from maxmargin.problem.questions import Curvatures, Evaluation
from maxmargin.solvers.base import GaveUp, Goal
from maxmargin.solvers.newton.descent import (
    Descent,
    evaluated_start,
    gap_at,
    is_better,
    is_known,
    least_along,
    unknown_point,
)
from maxmargin.solvers.newton.matrix import Matrix, changed, changes, is_there, no_matrix
from maxmargin.solvers.newton.small import ROUNDING, is_small, newton_steps
from maxmargin.vectors import dot, norm

_METHODS = ("auto", "cholesky", "line_search", "trust_region")
_ETA = 1e-4, 0.25, 0.75  # Lin et al., (9): how well the model must predict the decrease
_SIGMA = 0.25, 0.5, 4.0  # and what becomes of the radius
_XI = 0.1  # (11): the residual to which their conjugate gradients solve
_MIX = 0.01  # Galli and Lin's preconditioner: so much of the diagonal, the rest of the identity
_CHEAP = 10.0  # products with H for whose price a matrix is bought at once
_MOST_FEATURES = 2048  # of a matrix
_STEEPEST = 1e-3  # of the curvature along a free intercept that all costs together stand for: the most to add to it
_TRACE = 1e-14  # and the least
_MOST_FAILURES = 3  # steps in a row that lead to no better point: rounding hides what is left to gain


class TronState(NamedTuple):
    """What moves in Newton's method."""

    here: Evaluation
    gap: float  # P(w) - D(alpha), alpha_i = -C_i phi'(t_i)
    curved: Curvatures
    matrix: Matrix
    matrix_D: Array  # that it is made of
    columns: Array  # sum_i C_i x_ij^2; zero before it is asked for
    radius: float
    norm_at_start: float  # |g|
    visits: int  # of rows
    steps: int
    products: int
    failures: int  # steps in a row that were not taken

    @property
    def w(self) -> Array:
        """The weights."""
        return self.here.w


@dataclass(frozen=True)
class Tron(Descent):
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
    takes_free_intercept: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}; got {self.method!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> TronState:
        """Start at w = 0, or at the w of another state."""
        D, columns = np.zeros(problem.n_rows), np.zeros(problem.n_weights)
        known = Curvatures(D, 0.0, 0), no_matrix(), D, columns
        return TronState(unknown_point(problem, start), math.inf, *known, 0.0, 0.0, 0, 0, 0, 0)

    def update(self, problem: Problem, state: TronState, goal: Goal) -> TronState:
        """One iteration: the step s that minimises the model, and the point that it leads to, if that is better."""
        if self.method == "auto" and is_small(problem):
            state, is_done = _by_compiled_steps(problem, state, goal)
            if is_done:
                return state
        if not is_known(state.here):
            state = _at(problem, _spent(state, problem.n_weighted), evaluated_start(problem, state.here))
            return state._replace(norm_at_start=norm(state.here.gradient), radius=norm(state.here.gradient))
        state, s, r = self._direction(problem, state, goal)
        there = problem.evaluate(state.w + s)
        state = _spent(state, problem.n_weighted)
        if self.method == "trust_region":
            takes_it, radius = _in_region(state, there, s, r)
            state = state._replace(radius=radius)
        else:
            if not _is_good_step(state.here, there, s):
                there = problem.evaluate(state.w + least_along(problem, state.here, there, s) * s)
                state = _spent(state, problem.n_weighted)
            takes_it = is_better(there, state.here)
        state = state._replace(steps=state.steps + 1, failures=0 if takes_it else state.failures + 1)
        if state.failures >= _MOST_FAILURES and _is_noise(state.here, there):
            raise GaveUp("rounding hides what is left to gain")
        return _at(problem, state, there) if takes_it else state

    def counters(self, state: TronState) -> dict[str, float]:
        """Newton steps and products with H."""
        return {"steps": state.steps, "products": state.products}

    def _direction(self, problem: Problem, state: TronState, goal: Goal) -> tuple[TronState, Array, Array]:
        """The step s, and the residual -g - H s that is left."""
        if is_there(state.matrix) or self._wants_matrix(problem, state):
            return _by_cholesky(problem, state)
        if self.method != "trust_region" and not state.columns.any():
            state = _spent(state._replace(columns=problem.column_squares()), problem.n_weighted)
        return self._by_conjugate_gradients(problem, state, goal)

    def _by_conjugate_gradients(self, problem: Problem, state: TronState, goal: Goal) -> tuple[TronState, Array, Array]:
        """Algorithm 2 of Lin et al., or with a preconditioner; in "auto", a matrix as soon as it would have paid."""
        g, D, n_curved = state.here.gradient, state.curved.D, state.curved.n_curved
        identity, M = _identity(problem, state), self._preconditioner(problem, state)
        target, radius = self._accuracy(problem, state, goal), state.radius
        s, r = np.zeros(len(g)), -g
        p = r / M
        rho = dot(r, p)
        for _ in range(len(g) + 10):
            Hp = identity * p + problem.hessian_product(D, p)
            state = _spent(state, n_curved)._replace(products=state.products + 1)
            pHp = dot(p, Hp)
            step = rho / pHp if pHp > 0.0 else math.inf
            if self.method == "trust_region" and norm(s + step * p) >= radius:
                step = _to_the_boundary(s, p, radius)
                return state, s + step * p, r - step * Hp
            s, r = s + step * p, r - step * Hp
            if norm(r) <= target:
                break
            if self._wants_matrix(problem, state):
                return _by_cholesky(problem, state)
            Mr = r / M
            rho, old_rho = dot(r, Mr), rho
            p = Mr + (rho / old_rho) * p
        return state, s, r

    def _accuracy(self, problem: Problem, state: TronState, goal: Goal) -> float:
        """The residual at which conjugate gradients stop: (11), or half of the gap that is allowed if that is more."""
        length = norm(state.here.gradient)
        share = _XI if self.method == "trust_region" else min(0.3, math.sqrt(length / state.norm_at_start))
        # How much of the gap a free intercept takes depends on the rows.
        enough = 0.0 if problem.has_free_intercept else math.sqrt(goal.tol * state.here.value)
        return max(share * length, enough)

    def _preconditioner(self, problem: Problem, state: TronState) -> Any:
        """M: a mixture of the identity and an estimate of H's diagonal, as if every row counted by the same share."""
        if self.method == "trust_region":
            return 1.0
        share = state.curved.total / problem.total_cost
        M = 1.0 + _MIX * share * state.columns
        if problem.has_free_intercept:  # its entry of H is known, and there is no identity to mix it with
            M[-1] = share * state.columns[-1] + _damping(problem, state)
        return M

    def _wants_matrix(self, problem: Problem, state: TronState) -> bool:
        """Whether products with H have cost what the matrix costs, or it is cheap: an end of buying them one by one."""
        if self.method != "auto":
            return self.method == "cholesky"
        n, stored = problem.n_weights, problem.source.n_stored
        if n > _MOST_FEATURES or n * n > max(stored, 1 << 20):  # large beside the data
            return False
        # Nanoseconds. Dense rows are multiplied at the speed of the registers, sparse ones at that of the caches.
        of_product, of_work = (0.8, 0.07) if problem.source.is_dense else (1.8, 1.0)
        price = (of_work * problem.gram_work + 0.02 * n**3) / (of_product * (stored + problem.n_rows))
        return price <= max(_CHEAP, state.products)


def _spent(state: TronState, visits: int) -> TronState:
    return state._replace(visits=state.visits + visits)


def _at(problem: Problem, state: TronState, here: Evaluation) -> TronState:
    """The state at a new point."""
    return state._replace(here=here, gap=gap_at(problem, here), curved=problem.curvatures(here.outputs))


def _is_good_step(here: Evaluation, there: Evaluation, s: Array) -> bool:
    """Whether the slope along s has at least halved, and P has not grown by more than rounding."""
    has_halved = abs(dot(there.gradient, s)) <= 0.5 * abs(dot(here.gradient, s))
    return has_halved and there.value <= here.value * (1.0 + ROUNDING)


def _is_noise(here: Evaluation, there: Evaluation) -> bool:
    """Whether a step that was not taken would have changed P by no more than rounding, or led out of all numbers."""
    return not abs(there.value - here.value) > ROUNDING * here.value


def _in_region(state: TronState, there: Evaluation, s: Array, r: Array) -> tuple[bool, float]:
    """Algorithm 1 of Lin et al.: whether the model predicted the decrease well enough, and the new radius."""
    here, length, radius = state.here, norm(s), state.radius
    gs = dot(here.gradient, s)
    predicted, actual = -0.5 * (gs - dot(s, r)), here.value - there.value
    if state.steps == 0:
        radius = min(radius, length)
    excess = -actual - gs  # of P over its tangent: the parabola through what is known has its least value at
    best = length * (_SIGMA[2] if excess <= 0.0 else max(_SIGMA[0], -0.5 * gs / excess))
    if actual < _ETA[0] * predicted:
        radius = min(best, _SIGMA[1] * radius)
    elif actual < _ETA[1] * predicted:
        radius = max(_SIGMA[0] * radius, min(best, _SIGMA[1] * radius))
    elif actual < _ETA[2] * predicted:
        radius = max(_SIGMA[0] * radius, min(best, _SIGMA[2] * radius))
    else:
        radius = max(radius, min(best, _SIGMA[2] * radius))
    is_noise = max(predicted, abs(actual)) <= ROUNDING * there.value
    return actual > _ETA[0] * predicted or (is_noise and norm(there.gradient) < norm(here.gradient)), radius


def _to_the_boundary(s: Array, p: Array, radius: float) -> float:
    """The step along p from s, inside, to where |s + step p| is the radius."""
    sp, pp, room = dot(s, p), dot(p, p), max(radius * radius - dot(s, s), 0.0)
    return room / (sp + math.sqrt(sp * sp + pp * room)) if room else 0.0


def _identity(problem: Problem, state: TronState) -> Array:
    """The diagonal of what H has beside the rows."""
    identity = np.ones(problem.n_weights)
    if problem.has_free_intercept:
        identity[-1] = _damping(problem, state)
    return identity


def _damping(problem: Problem, state: TronState) -> float:
    """What to add to the curvature along a free intercept: where the rows have little, as much as keeps steps short.

    A step along it alone then changes no output by more than one, or the rows' own curvature is of the size of that
    of all costs. Near the optimum there is no slope to go by, and nothing but a trace is added.
    """
    bias = problem.source.bias
    of_rows, of_costs = bias * bias * state.curved.total, bias * bias * problem.total_cost
    return max(min(abs(bias * state.here.gradient[-1]), _STEEPEST * of_costs) - of_rows, _TRACE * of_costs)


def _by_cholesky(problem: Problem, state: TronState) -> tuple[TronState, Array, Array]:
    """The Newton step -H^-1 g, with the matrix brought up to date; no residual is left."""
    D, change = changes(problem, state.matrix, state.matrix_D, state.curved)
    matrix = changed(problem, state.matrix, change, lambda: D)
    s = newton_step(matrix.gram, _identity(problem, state), -state.here.gradient)
    return _spent(state._replace(matrix=matrix, matrix_D=D), change.n_changed), s, np.zeros(len(s))


def _by_compiled_steps(problem: Problem, state: TronState, goal: Goal) -> tuple[TronState, bool]:
    """The state after several steps of a small problem, as long as they need no search; and whether there was any."""
    reached = newton_steps(problem, state, goal)
    here, is_start = reached.here, not is_known(state.here)
    if not math.isfinite(here.value):
        raise GaveUp("the objective is too large for a number")
    is_done = is_start or reached.steps > state.steps
    if is_start:
        state = state._replace(norm_at_start=norm(here.gradient), radius=norm(here.gradient))
    return state._replace(gap=gap_at(problem, here), **reached._asdict()), is_done
