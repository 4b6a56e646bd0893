"""What all cutting-plane methods share: the state, the plain iteration, the certificate, starts.

An iteration visits the rows twice: for the outputs of the reduced problem's solution w_t, and for the next plane. The
reduced problem is solved at the end, after the last pass: an iteration that is interrupted has changed nothing.

The certificate needs no dual variable for each row: no plane exceeds the risk anywhere, so the reduced problem's least
value F_t(w_t) is a proven bound. (In terms of rows, alpha_i is the mean over the planes of -C_i u_i, weighed by the
planes' own alpha; see `maxmargin.problem.risks` for the u_i.) The risk of the one-class SVM is negative, as is its
optimum P* = -1/2 |w*|^2, so that a gap relative to it is better told of the dual problem, as LIBSVM does: `primal` is
then 1/2 |sum_i alpha_i x_i|^2 for a feasible alpha, `dual` is -P(w), and the least value of the former is between them.

An intercept that is not penalised is found anew at every point that matters, as the best one for the other weights:
that takes the rows' outputs and no look at X. Planes are then of the risk with the best intercept, and have no slope
along it; see `maxmargin.problem.intercept`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.losses import QUADRATIC_DUAL
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.intercept import balanced_plane, best_shift
from maxmargin.problem.risks import Linearization, SumOfLosses
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.planes.store import Planes, add_plane, no_planes, reduce, scaled
from maxmargin.vectors import dot

_ROUNDING = 4e-15  # of the objective: what sums over rows may lose, which no certificate shall hide
_VANISHING = 1e-20  # of the first plane's squared length: zero, for the length of a one-class solution


class Point(NamedTuple):
    """Weights, their outputs, and the objective."""

    w: Array
    z: RowVector
    primal: float


class Clock(NamedTuple):
    """Seconds spent on each part of an iteration (section 3.1 of the OCAS paper). Nothing depends on them."""

    output: float = 0.0
    line_search: float = 0.0
    plane: float = 0.0
    reduced: float = 0.0


class BundleState(NamedTuple):
    """What moves in a cutting-plane method."""

    best: Point  # so far
    planes: Planes
    w_t: Array  # the solution of the reduced problem; before there is one, the best point
    bound: float  # F_t(w_t), the highest so far
    iterations: int
    passes: int
    clock: Clock
    key: Array  # tells the risk that the planes belong to, up to a factor:
    cost: float  # the sum of the costs

    @property
    def w(self) -> Array:
        """The answer: the best point so far."""
        return self.best.w


class Stopwatch:
    """Adds up the time of the parts of iterations; compiling is not on the clock, here as elsewhere."""

    def __init__(self, clock: Clock):
        self.clock, self.at = clock, working_time()

    def lap(self, part: str) -> None:
        """This part has taken the time since the last one."""
        now = working_time()
        self.clock = self.clock._replace(**{part: getattr(self.clock, part) + now - self.at})
        self.at = now


@dataclass(frozen=True)
class Bundle(Solver):
    """A cutting-plane method; the iteration here is the plain one, which others improve on."""

    access: ClassVar[str] = "passes"
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    max_passes: ClassVar[float] = 10_000.0
    has_zero_plane: ClassVar[bool] = True  # (6) of the OCAS paper: the risk is never negative

    # ------------------------------------------------------------ iterations

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """One iteration: R and the plane that touches it at w_t, then the reduced problem with that plane."""
        watch = Stopwatch(state.clock)
        w_t, z_t, passes = solution(problem, state)
        watch.lap("output")
        plane = linearize(problem, z_t, z_t, 0.0)
        primal = problem.regularizer(w_t) + plane.value
        if primal < state.best.primal:
            state = state._replace(best=Point(w_t, z_t, primal))
        watch.lap("plane")
        if self.is_there(problem, state, goal):
            return state._replace(passes=passes, iterations=state.iterations + 1, clock=watch.clock)
        return self.with_plane(problem, state, plane, passes, watch)

    def is_there(self, problem: Problem, state: BundleState, goal: Goal) -> bool:
        """Whether the best point and the bound of the planes so far are as near as they should be: no need for more."""
        return bounds(problem, state).relative_gap <= goal.tol

    def with_plane(
        self, problem: Problem, state: BundleState, plane: Linearization, passes: int, watch: Stopwatch
    ) -> BundleState:
        """The end of an iteration: a pass for the slope of the plane, then the reduced problem with it."""
        a = problem.combine(plane.p)
        if problem.has_free_intercept:
            a[-1] = 0.0  # as it is but for rounding
        watch.lap("plane")
        planes, w_t, bound = self.reduce(problem, add_plane(state.planes, a, plane.b, problem.n_jobs))
        watch.lap("reduced")
        return state._replace(
            planes=planes,
            w_t=w_t,
            bound=max(state.bound, bound),
            iterations=state.iterations + 1,
            passes=passes + 1,
            clock=watch.clock,
        )

    def reduce(self, problem: Problem, planes: Planes) -> tuple[Planes, Array, float]:
        """Solve the reduced problem: planes with their new alpha, its solution w_t, and F_t(w_t)."""
        return reduce(planes, problem.n_jobs)

    # ------------------------------------------------------------ starts

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BundleState:
        """Start at w = 0 without planes, or at the w of another state, with planes from what it knows."""
        has_zero_plane = self.has_zero_plane and problem.risk.is_nonnegative
        planes, (key, z) = no_planes(problem.n_weights, nonnegative=has_zero_plane), _key(problem)
        w, z = np.zeros(problem.n_weights), np.zeros_like(z)
        if start is not None:
            w, planes = self.warm_start(problem, key, start, planes)
            z = problem.outputs(w)
        w, z = with_best_intercept(problem, w, z)
        best = between(problem, Point(w, z, np.inf), w, z, 0.0)
        bound = 0.0 if problem.risk.is_nonnegative else -np.inf
        state = BundleState(best, planes, best.w, bound, 0, 0, Clock(), key, problem.total_cost)
        if planes.n > has_zero_plane:
            planes, w_t, reached = self.reduce(problem, planes)
            return state._replace(planes=planes, w_t=w_t, bound=max(bound, reached))
        if problem.risk.is_nonnegative:
            return state
        return self.update(problem, state, Goal(0.0, 1.0))  # a plane: without one, there is no bound

    def warm_start(self, problem: Problem, key: Array, start: Any, none: Planes) -> tuple[Array, Planes]:
        """A point, and planes that are certain to bound this problem's risk.

        Another cutting-plane state has planes, and if its key is the same they are of this risk, up to a factor. Of a
        state with dual variables, these make a plane.
        """
        w, alpha = np.array(start.w, dtype=np.float64), getattr(start, "alpha", None)
        if w.shape != (problem.n_weights,):
            raise ValueError(f"cannot start at {w.size} weights: the problem has {problem.n_weights}")
        if isinstance(start, BundleState) and np.array_equal(start.key, key):
            return w, scaled(start.planes, problem.total_cost / start.cost)
        if alpha is not None and isinstance(problem.risk, SumOfLosses):
            alpha = problem.balanced(_within_bounds(problem, alpha))
            v = problem.weights(alpha)
            if problem.has_free_intercept:
                v[-1] = 0.0
            return w, add_plane(none, -v, problem.dual(alpha) + 0.5 * dot(v, v), problem.n_jobs)
        return w, none

    # ------------------------------------------------------------ what is known

    def report(self, problem: Problem, state: BundleState, goal: Goal) -> Report:
        """The best point, the bound of the reduced problem, and where the time went."""
        known = bounds(problem, state)
        counters: dict[str, float] = {
            "iterations": state.iterations,
            "planes": state.planes.n,
            "active_planes": state.planes.n_working,
        }
        counters |= {f"seconds_{name}": seconds for name, seconds in state.clock._asdict().items()}
        believes = known.relative_gap <= goal.tol
        return Report(float(state.passes), known.primal, known.primal - known.gap, believes, counters)

    def certificate(self, problem: Problem, state: BundleState) -> Certificate:
        """One pass, for P(w): what is kept of it went through many sums."""
        return bounds(problem, state, problem.primal(state.w))


def bounds(problem: Problem, state: BundleState, primal: float | None = None) -> Certificate:
    """P(w) and F_t(w_t), or for a risk below zero the same of the dual problem; with some room for rounding."""
    primal = state.best.primal if primal is None else primal
    upper, lower = (primal, state.bound) if problem.risk.is_nonnegative else (-state.bound, -primal)
    if not problem.risk.is_nonnegative and upper <= _VANISHING * state.planes.shift:
        return Certificate(upper, upper, 0.0)
    gap = min(max(upper - lower, 0.0) + _ROUNDING * upper, upper)  # neither problem's optimum is below zero
    return Certificate(upper, upper - gap, gap)


# ---------------------------------------------------------------- points and planes


def solution(problem: Problem, state: BundleState) -> tuple[Array, RowVector, int]:
    """The solution w_t of the reduced problem and its outputs; the passes over the rows so far.

    Before there is a plane, that is the best point, whose outputs are known.
    """
    if np.array_equal(state.w_t, state.best.w):
        return state.best.w, state.best.z, state.passes
    return *with_best_intercept(problem, state.w_t, problem.outputs(state.w_t)), state.passes + 1


def between(problem: Problem, best: Point, w_t: Array, z_t: RowVector, k: float) -> Point:
    """The point w + k (w_t - w); a free intercept is the best one, which is not on the line."""
    w = best.w + k * (w_t - best.w)
    z, risk = problem.risk_between(best.z, z_t, k)
    if problem.has_free_intercept:
        w, z = with_best_intercept(problem, w, z)
        z, risk = problem.risk_between(z, z, 0.0)
    return Point(w, z, problem.regularizer(w) + risk)


def linearize(problem: Problem, z: RowVector, z_t: RowVector, k: float) -> Linearization:
    """The plane that touches the risk where outputs are z + k (z_t - z), or the risk with the best intercept there."""
    if not problem.has_free_intercept:
        return problem.linearize(z, z_t, k)
    outputs = z + k * (z_t - z)
    outputs, risk = problem.risk_between(outputs, outputs + best_shift(problem, outputs), 1.0)
    return Linearization(*balanced_plane(problem, outputs), risk)


def with_best_intercept(problem: Problem, w: Array, z: RowVector) -> tuple[Array, RowVector]:
    """The point, and its outputs, with the best free intercept, if there is one."""
    if not problem.has_free_intercept:
        return w, z
    shift, w = best_shift(problem, z), w.copy()
    w[-1] += shift / problem.source.bias
    return w, z + shift


# ---------------------------------------------------------------- warm starts


def _key(problem: Problem) -> tuple[Array, RowVector]:
    """A digest that tells risks apart that differ by more than a factor: SHA-256 of what their planes depend on.

    Of the rows it sees their outputs, to the last bit, for weights that are random and depend on all else: one pass, in
    20 to 1000. Rows that differ by more than rounding have other outputs, which are returned, too.
    """
    loss = f"{losses.name_of(problem.loss)} {tuple(problem.loss)}"
    what = f"{problem.risk!r} {loss} {problem.penalty} {problem.n_weights} {problem.has_free_intercept}"
    known = hashlib.sha256(what.encode())
    for array in (problem.y, np.round(problem.cost / problem.cost.max(), 12)):
        known.update(np.ascontiguousarray(array).data)
    weights = np.random.default_rng(list(known.digest())).standard_normal(problem.n_weights)
    outputs = problem.outputs(weights)
    known.update(np.ascontiguousarray(outputs).data)
    return np.frombuffer(known.digest(), dtype=np.uint8), outputs


def _within_bounds(problem: Problem, alpha: Array) -> Array:
    """Cut dual variables to their bounds; those of the logistic loss are 0 and C_i."""
    if isinstance(problem.loss, QUADRATIC_DUAL):
        return problem.feasible(alpha)
    return np.clip(alpha, 0.0, problem.cost)
