"""What all cutting-plane methods share: the state, the phases of an iteration, the certificate, starts.

An iteration visits the rows twice. First for the outputs of the reduced problem's solution w_t, after which the method
looks for a better point (`improve`) and says where the next plane shall touch the risk (`touch`); then for that plane,
after which the reduced problem is solved again. An update visits rows for a block of work, and sums are cut only at
places that the data decide.

The certificate needs no dual variable for each row: no plane exceeds the risk anywhere, so the reduced problem's least
value F_t(w_t) is a proven bound. (In terms of rows, alpha_i is the mean over the planes of -C_i u_i, weighed by the
planes' own alpha; see `_risk` for the u_i.)

An intercept that is not penalised is found anew at every point that matters, as the best one for the other weights:
that takes the rows' outputs and no look at X. Planes are then of the risk with the best intercept, and have no slope
along it; see `_free_intercept`.
"""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin.losses import QUADRATIC_DUAL
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, n_stored
from maxmargin.solvers._free_intercept import balanced_plane, best_shift
from maxmargin.solvers._hessian import dot
from maxmargin.solvers._planes import Planes, add_plane, no_planes, reduce, scaled
from maxmargin.solvers._risk import Risk, SumOfLosses, plane_blocks
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.dual_cd import _feasible

_ROUNDING = 4e-15  # of the objective: what sums over rows may lose, which no certificate shall hide
_GOLDEN = 0.6180339887498949  # its multiples are spread over an interval, and no two of them are the same
_OUTPUT, _PLANE = range(2)  # what rows are visited for

ALL_LOSSES = (*QUADRATIC_DUAL, losses.Logistic)


class Course(NamedTuple):
    """Where an iteration is, and the work so far."""

    phase: int
    position: int  # of the next row to visit
    rows: int  # that have a cost: a pass visits so many
    visits: int
    iterations: int


class Clock(NamedTuple):
    """Seconds spent on each part of an iteration (section 3.1 of the OCAS paper). Nothing depends on them."""

    output: float
    line_search: float
    plane: float
    reduced: float


class BundleState(NamedTuple):
    """What moves in a cutting-plane method."""

    w: Array  # the best point so far
    z: Array  # its outputs x_i'w
    primal: float
    w_t: Array  # the solution of the reduced problem
    z_t: Array  # its outputs, as far as rows were visited
    bound: float  # F_t(w_t), the highest so far
    p: Array  # coefficients of the rows in the plane that is being made
    a: Array  # that plane, as far as rows were visited
    b: float
    planes: Planes
    course: Course
    clock: Clock
    key: int  # of the risk that the planes belong to, up to a factor:
    cost: float  # the sum of the costs


@dataclass(frozen=True)
class Bundle(Solver):
    """A cutting-plane method, but for the choice of the next plane."""

    losses: ClassVar[tuple[type, ...]] = ALL_LOSSES
    max_passes: ClassVar[float] = 10_000.0
    risk: ClassVar[Risk] = SumOfLosses()
    has_zero_plane: ClassVar[bool] = True  # (6) of the OCAS paper: the risk is never negative

    def improve(self, problem: Problem, state: BundleState) -> BundleState:
        """With the outputs of w_t at hand: a better point w, if there is one."""
        raise NotImplementedError

    def touch(self, problem: Problem, state: BundleState) -> float:
        """Write the coefficients of the rows in the next plane to `state.p`; its offset b."""
        raise NotImplementedError

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BundleState:
        """Start at w = 0 without planes, or at the w of another state, with planes from what it knows."""
        n, m = problem.n_weights, problem.n_rows
        planes = no_planes(n, nonnegative=self.has_zero_plane)
        w, z, p, key = np.zeros(n), np.zeros(m), np.zeros(m), _key(problem, self.risk)
        if start is not None:
            w, planes = self._warm_start(problem, key, start, planes)
            z = problem.decision(w)
        if problem.has_free_intercept:
            w, z = centred(problem, w, z)
        state = BundleState(
            w=w,
            z=z,
            primal=penalty(problem, w) + self.risk.value(problem, z, z, 0.0, p),
            w_t=w,
            z_t=z.copy(),
            bound=0.0,
            p=p,
            a=np.zeros(n),
            b=0.0,
            planes=planes,
            course=Course(_OUTPUT, 0, int(np.count_nonzero(problem.cost)), 0, 0),
            clock=Clock(0.0, 0.0, 0.0, 0.0),
            key=key,
            cost=float(np.sum(problem.cost)),
        )
        if planes.n > self.has_zero_plane:
            return self._reduce(problem, state)
        return self._begin_plane(problem, state)

    def linearize(self, problem: Problem, z: Array, z_t: Array, k: float, p: Array) -> float:
        """Coefficients of the rows in the plane that touches the risk where outputs are z + k (z_t - z); its offset."""
        if not problem.has_free_intercept:
            return self.risk.linearize(problem, z, z_t, k, p)
        outputs = z + k * (z_t - z)
        return balanced_plane(problem, outputs + best_shift(problem, outputs), p)

    def _begin_plane(self, problem: Problem, state: BundleState) -> BundleState:
        b = self.touch(problem, state)
        return _moved(state._replace(a=np.zeros(problem.n_weights), b=b), phase=_PLANE, position=0)

    def _reduce(self, problem: Problem, state: BundleState) -> BundleState:
        planes, w_t, bound = reduce(state.planes, problem.n_jobs)
        state = state._replace(planes=planes, w_t=w_t, bound=max(state.bound, bound))
        return _moved(state, phase=_OUTPUT, position=0)

    def _warm_start(self, problem: Problem, key: int, start: Any, none: Planes) -> tuple[Array, Planes]:
        """A point, and planes that are certain to bound this problem's risk.

        Another cutting-plane state has planes, and if its key is the same they are of this risk, up to a factor. Of a
        state with dual variables, these make a plane.
        """
        w, alpha = np.array(start.w, dtype=np.float64), getattr(start, "alpha", None)
        if w.shape != (problem.n_weights,):
            raise ValueError(f"cannot start at {w.size} weights: the problem has {problem.n_weights}")
        if isinstance(start, BundleState) and start.key == key:
            return w, scaled(start.planes, float(np.sum(problem.cost)) / start.cost)
        if alpha is not None and type(self.risk) is SumOfLosses:
            alpha = problem.balanced(_within_bounds(problem, alpha))
            v = problem.weights(alpha)
            if problem.has_free_intercept:
                v[-1] = 0.0
            return w, add_plane(none, -v, problem.dual(alpha) + 0.5 * dot(v, v), problem.n_jobs)
        return w, none

    def report(self, problem: Problem, state: BundleState, goal: Goal) -> Report:
        """The best point, the bound of the reduced problem, and where the time went."""
        course, planes = state.course, state.planes
        counters: dict[str, float] = {
            "iterations": course.iterations,
            "planes": planes.n,
            "active_planes": planes.n_working,
        }
        counters |= {f"seconds_{name}": seconds for name, seconds in state.clock._asdict().items()}
        return Report(
            passes=course.visits / course.rows,
            primal=state.primal,
            dual=state.bound,
            believes=_gap(state.primal, state.bound) <= goal.tol * state.primal,
            counters=counters,
        )

    def certificate(self, problem: Problem, state: BundleState) -> Certificate:
        """One pass, for P(w): what is kept of it went through many sums."""
        primal = problem.primal(state.w)
        gap = _gap(primal, state.bound)
        return Certificate(primal, primal - gap, gap)


def _gap(primal: float, bound: float) -> float:
    """P(w) - F_t(w_t), with some room for rounding; no loss is negative, so it is at most P(w)."""
    return min(max(primal - bound, 0.0) + _ROUNDING * primal, primal)


def _moved(state: BundleState, **course: int) -> BundleState:
    return state._replace(course=state.course._replace(**course))


# ---------------------------------------------------------------- the loop over rows


def advance(solver: Bundle, problem: Problem, state: BundleState, goal: Goal, block: int) -> BundleState:
    """Visit rows, for a block of work (stored values) or as far as the goal's passes allow."""
    rows, work = state.course.rows, float(block)
    last_visit = math.ceil(min(goal.max_passes * rows, 2.0**62))
    last_visit += last_visit / rows < goal.max_passes  # by rounding; the loop would wait for ever
    row_cost = 1.0 + n_stored(problem.rows) / problem.n_rows
    before = state.course.visits
    while state.course.visits < last_visit and (work > 0.0 or state.course.visits == before):
        course, started = state.course, time.perf_counter()
        begin, end = course.position, min(problem.n_rows, course.position + max(1, int(work / row_cost)))
        end = min(end, begin + last_visit - course.visits)
        if course.phase == _PLANE:
            end, part = _plane_end(problem, begin, end), "plane"
            solver.risk.add_rows(problem, state.p, state.a, begin, end)
        else:
            part = "output"
            solver.risk.outputs(problem, state.w_t, state.z_t, begin, end)
        visits = end - begin if rows == problem.n_rows else int(np.count_nonzero(problem.cost[begin:end]))
        work -= row_cost * (end - begin)
        state = _timed(_moved(state, position=end, visits=course.visits + visits), part, started)
        if end == problem.n_rows:
            state = _next_phase(solver, problem, state)
            if _gap(state.primal, state.bound) <= goal.tol * state.primal:
                break
    return state


def _plane_end(problem: Problem, begin: int, end: int) -> int:
    """Where to stop adding rows: anywhere if there is one block, else where a block ends."""
    blocks = plane_blocks(problem.rows)
    if len(blocks) == 2:
        return end
    return int(max(blocks[blocks <= end][-1], blocks[blocks > begin][0]))


def _next_phase(solver: Bundle, problem: Problem, state: BundleState) -> BundleState:
    """All rows were visited: on from the outputs to the next plane, or from the plane to the reduced problem."""
    started = time.perf_counter()
    if state.course.phase == _PLANE:
        if problem.has_free_intercept:
            state.a[-1] = 0.0  # as it is but for rounding
        state = state._replace(planes=add_plane(state.planes, state.a, state.b, problem.n_jobs))
        return _timed(solver._reduce(problem, state), "reduced", started)
    if problem.has_free_intercept:
        w_t, z_t = centred(problem, state.w_t, state.z_t)
        state = state._replace(w_t=w_t, z_t=z_t)
    state = _moved(solver.improve(problem, state), iterations=state.course.iterations + 1)
    state, started = _timed(state, "line_search", started), time.perf_counter()
    return _timed(solver._begin_plane(problem, state), "plane", started)


def _timed(state: BundleState, part: str, started: float) -> BundleState:
    seconds = getattr(state.clock, part) + time.perf_counter() - started
    return state._replace(clock=state.clock._replace(**{part: seconds}))


def keep_better(solver: Bundle, problem: Problem, state: BundleState) -> BundleState:
    """Let w_t be the best point if it is."""
    primal = penalty(problem, state.w_t) + solver.risk.value(problem, state.z_t, state.z_t, 0.0, state.p)
    if primal >= state.primal:
        return state
    return state._replace(w=state.w_t, z=state.z_t.copy(), primal=primal)


def penalty(problem: Problem, w: Array) -> float:
    """1/2 |w|^2 or |w|_1, over the weights that are penalised."""
    if problem.has_free_intercept:
        w = w[:-1]
    return float(np.abs(w).sum()) if problem.penalty == "l1" else 0.5 * dot(w, w)


def centred(problem: Problem, w: Array, z: Array) -> tuple[Array, Array]:
    """The point, and its outputs, with the best free intercept."""
    shift, w = best_shift(problem, z), w.copy()
    w[-1] += shift / problem.rows.bias
    return w, z + shift


# ---------------------------------------------------------------- warm starts


def _key(problem: Problem, risk: Risk) -> int:
    """A number that tells risks apart that differ by more than a factor.

    Of the rows it sees their outputs for weights that have nothing to do with them: one pass, in 20 to 1000.
    """
    weights = 0.5 + np.arange(problem.n_weights) * _GOLDEN % 1.0
    shares = np.round(problem.cost / problem.cost.max(), 12)
    loss = f"{losses.name_of(problem.loss)} {tuple(problem.loss)}"
    key = zlib.crc32(f"{risk!r} {loss} {problem.n_weights} {problem.penalty}".encode())
    for array in (problem.decision(weights), problem.y, shares):
        key = zlib.crc32(array.data, key)
    return zlib.crc32(b"free intercept", key) if problem.has_free_intercept else key


def _within_bounds(problem: Problem, alpha: Array) -> Array:
    """Cut dual variables to their bounds; those of the logistic loss are 0 and C_i."""
    if isinstance(problem.loss, QUADRATIC_DUAL):
        return _feasible(problem, alpha)
    return np.clip(alpha, 0.0, problem.cost)
