"""An augmented Lagrangian for losses with kinks, its steps by Newton's method over the rows at a kink.

    max_alpha  D(alpha) = -1/2 |sum_i alpha_i sign_i x_i|^2 - sum_i C_i phi*(-alpha_i / C_i) + alpha_i target_i

is solved by proximal steps: each maximises D(alpha) - sum_i (alpha_i - centre_i)^2 / (2 s C_i), and the answer is the
next centre. The dual of that problem has w alone for its variable, and is smooth (Rockafellar: Augmented Lagrangians
and applications of the proximal point algorithm in convex programming, Mathematics of Operations Research 1, 1976):

    (1)  min_w  1/2 |w|^2 + sum_i max over a of (-a t_i(w) - C_i phi*(-a / C_i) - (a - centre_i)^2 / (2 s C_i)).

The best a is one formula, `best_alpha`; for the hinge it is centre_i + s C_i (1 - t_i), cut to 0..C_i. The gradient of
(1) is w - sum_i alpha_i sign_i x_i at these alpha. Its Hessian changes where an alpha comes to a bound:

    (2)  H = I + s / (1 + s kappa) sum over free rows of C_i x_i x_i',

free: alpha_i is at no bound and no kink. The larger s, the fewer centres are needed, and the fewer rows are free. A
step is one product X dw, and what it takes to add the rows whose alpha has changed.

Yan, Li: An efficient augmented Lagrangian method for support vector machine, Optimization Methods and Software 35,
2020. Theory: Li, Sun, Toh: A highly efficient semismooth Newton augmented Lagrangian method, SIAM J. Optim. 28, 2018.

Papers -> code: lambda -> centre, sigma -> s C_i, the generalised Hessian V -> H.

What differs from the papers, and why:

* The sum of (2) is kept, and changed by the rows that have become free or are no longer so; it is the matrix of a
  Cholesky factor. (The papers take conjugate gradients.)
* sigma is in units of cost: a row of weight 2 takes the same course as a row that is given twice.
* All alpha are feasible at all times, so every point of the way has a gap. The search for the present centre ends when
  it is due to (1) not being the problem, no longer to |w - sum_i alpha_i sign_i x_i|; s grows by how hard that was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.source import Labels, RowVector
from maxmargin.losses import QUADRATIC_DUAL, dual_form
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.gram import newton_step
from maxmargin.solvers.base import GaveUp, Goal, Report, Solver, weights_to_start_at
from maxmargin.solvers.newton import augmented_rows as each_row
from maxmargin.solvers.newton.matrix import Change, Matrix, changed, no_matrix
from maxmargin.vectors import best_step, dot

_MOST_WEIGHTS = 10_000
_WIDTH = 2.0  # of the window in which rows are free, 1 / s, to begin with: so many times what t is off at w = 0
_GROWTH = 3.0  # of s for the next centre: this after a search of ordinary length, its square after a short one
_SHORT, _LONG = 1, 6  # Newton steps
_MOST_STEPS = 30  # of a search: what it has not found by then, rounding errors hide
_DONE = 0.5  # share of the gap that |w - v|^2 / 2 may have when a search ends
_OF_WIDTH = 0.05  # relative gap after a search, for a window of width one; it falls with the square of the width
_LARGEST = 1e9  # s, beside what it begins with
_MANY, _FEW = 1 << 22, 0.125  # of more rows than these only a few are kept apart for a line search: memory is dear


class Search(NamedTuple):
    """The present problem (1)."""

    centre: RowVector
    s: float
    steps: int  # of Newton's method, so far


class AugmentedLagrangianState(NamedTuple):
    """What moves in the augmented Lagrangian method."""

    w: Array
    z: RowVector  # x_i'w
    alpha: RowVector  # the best for w in (1), once it is known
    v: Array  # weights(alpha)
    search: Search
    matrix: Matrix  # the sum of (2)
    is_free: RowVector  # the rows that it is over
    primal: float  # P(w); nan before the first alpha
    gap: float  # P(w) - D(alpha)
    visits: int  # of rows
    steps: int
    centres: int
    free: int  # rows


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
    access: ClassVar[str] = "passes"
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
            alpha = problem.dual_point(w) if known is None else problem.feasible(known)
            gap = problem.certificate(w, alpha).relative_gap
            s *= min(max(_WIDTH * math.sqrt(_OF_WIDTH / max(gap, 1e-300)) / 2.0, 1.0), _LARGEST)
            z, v = problem.outputs(w), problem.weights(alpha)
        work = {"visits": 0, "steps": 0, "centres": 1, "free": 0}
        search, is_free = Search(alpha, s, 0), np.zeros(m, np.bool_)
        return AugmentedLagrangianState(w, z, alpha, v, search, no_matrix(), is_free, math.nan, math.inf, **work)

    def update(self, problem: Problem, state: AugmentedLagrangianState, goal: Goal) -> AugmentedLagrangianState:
        """One Newton step on (1); and on to the next centre, if there is little left to gain with this one."""
        if math.isnan(state.primal):
            return _respond(problem, state)
        w, v, search = state.w, state.v, state.search
        dw = newton_step(_curvature(problem, search.s) * state.matrix.gram, np.ones(len(w)), v - w)
        dz = problem.outputs(dw)
        step = best_step(_Line(problem, state, dw, dz).slope, dot(w, dw) - dot(v, dw))
        state = state._replace(w=w + step * dw, z=problem.moved(state.z, dz, step), steps=state.steps + 1)
        state = state._replace(search=search._replace(steps=search.steps + 1), visits=state.visits + problem.n_weighted)
        state = _respond(problem, state)
        if _is_done(state, goal):
            if search.s >= _LARGEST * _first_s(problem):
                raise GaveUp("rounding hides what is left to gain")
            state = _respond(problem, _at_next_centre(state))
        return state

    def report(self, problem: Problem, state: AugmentedLagrangianState, goal: Goal) -> Report:
        """The gap comes from z and v, which are kept in step with w and alpha."""
        return Report(
            passes=state.visits / problem.n_weighted,
            primal=state.primal,
            dual=max(state.primal - state.gap, 0.0),  # no loss is negative, so zero is a bound, too
            believes=_is_reached(state, goal),
            counters={"steps": state.steps, "centres": state.centres, "free": state.free},
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
        z, v = problem.outputs(state.w), problem.weights(state.alpha)
        return state._replace(z=z, v=v, primal=certificate.primal, gap=certificate.gap)


def _is_reached(state: AugmentedLagrangianState, goal: Goal) -> bool:
    return state.gap <= goal.tol * state.primal


def _is_done(state: AugmentedLagrangianState, goal: Goal) -> bool:
    """Whether the gap is no longer due to |w - v|, or will not become so: then another centre helps."""
    apart = state.w - state.v
    is_small = 0.5 * dot(apart, apart) <= _DONE * state.gap
    return (state.search.steps >= _MOST_STEPS or is_small) and not _is_reached(state, goal)


def _at_next_centre(state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    steps = state.search.steps
    growth = _GROWTH**2 if steps <= _SHORT else _GROWTH if steps <= _LONG else math.sqrt(_GROWTH)
    return state._replace(search=Search(state.alpha, growth * state.search.s, 0), centres=state.centres + 1)


def _curvature(problem: Problem, s: float) -> float:
    """The factor of (2)."""
    return s / (1.0 + s * dual_form(problem.loss).curvature)


def _first_s(problem: Problem) -> float:
    """So small that every row is free at w = 0: 1 / s is of the size of what t is off there."""
    off = problem.over_labels(each_row.distance_at_zero).total / problem.total_cost
    return 1.0 / (_WIDTH * off) if off > 0.0 else 1.0


# ---------------------------------------------------------------- from w to alpha


def _respond(problem: Problem, state: AugmentedLagrangianState) -> AugmentedLagrangianState:
    """The best alpha for the present w, centre and s; v, matrix and gap are brought up to date."""
    search = state.search
    done = problem.over_labels(
        each_row.respond,
        shared=[search.s],
        reads=[state.z, search.centre, state.alpha, state.is_free],
        writes=[np.float64, np.float64, np.bool_, np.float64],
    )
    alpha, by, is_free, turned = done.vectors
    risk, slacks, n_changed, n_turned, n_free = done.total
    v = state.v + problem.combine(by) if n_changed else state.v
    change = Change(turned, n_turned, n_free)
    matrix = changed(problem, state.matrix, change, lambda: _weights(problem, is_free))
    apart, primal = state.w - v, 0.5 * dot(state.w, state.w) + risk
    gap = slacks + 0.5 * dot(apart, apart)
    state = state._replace(alpha=alpha, v=v, matrix=matrix, is_free=is_free, primal=primal, gap=gap)
    return state._replace(free=n_free, visits=state.visits + n_changed)


def _weights(problem: Problem, is_free: RowVector) -> RowVector:
    """Those of (2)."""
    return problem.over_labels(each_row.write_weights, reads=[is_free], writes=[np.float64]).vectors[0]


# ---------------------------------------------------------------- along a step


class _Line:
    """The slope of (1) along a step dw.

    A row whose alpha is at the same bound at both ends of the step adds the same to the slope all along it. So once it
    is known that the least value lies between them, the other rows are all that has to be looked at.
    """

    def __init__(self, problem: Problem, state: AugmentedLagrangianState, dw: Array, dz: RowVector):
        self.problem, self.s, self.curvature = problem, state.search.s, _curvature(problem, state.search.s)
        self.rows: tuple[RowVector, ...] = (state.z, dz, state.search.centre)
        self.at_zero, self.dd = dot(state.w, dw), dot(dw, dw)
        self.left: Any = None  # labels of the rows to look at, where these are not all
        self.most = 1.0 if problem.n_rows <= _MANY else _FEW  # share of the rows that may be kept apart

    def slope(self, step: float) -> tuple[float, float]:
        """First and second derivative. After a step below 1, all must be so."""
        if step < 1.0 and self.left is None and self.most:
            self._leave_out()
        if self.left is None:
            first, second = self.problem.over_labels(each_row.slope, shared=[self.s, step], reads=self.rows).total
        else:
            first, second = each_row.slope(self.left, self.s, step, *self.rows)
        return self.at_zero + step * self.dd - first, self.dd + self.curvature * second

    def _leave_out(self) -> None:
        found = self.problem.over_labels(each_row.undecided, shared=[self.s, self.most], reads=self.rows).results
        parts, self.most = [part for part in found if part is not None], 0.0
        if len(parts) < len(found):
            return
        y, cost, *rows = (np.concatenate(pieces) for pieces in zip(*(kept for kept, _ in parts)))
        self.left, self.rows = Labels(y, cost, self.problem.loss), tuple(rows)
        self.at_zero -= sum(constant for _, constant in parts)
