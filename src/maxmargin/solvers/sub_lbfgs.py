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
  whenever no direction leads downhill. A line search puts one row a step on its kink and moves others off it again,
  so that with rows exactly at kinks alone the method zigzags: on 300 rows of 20 features it takes 700 passes to a gap
  of 1e-3, with the tolerance 37.
* Mixtures are the best of all subgradients found, not of the last mixture and the newest one alone (`_reduced`).
* y is the change from the mixture that made p, which is the gradient that the step went by, to the subgradient just
  beyond the new point. Rows that p keeps at their kinks keep their alpha: which side they are on is rounding.
* The certificate. Each mixture is feasible in the dual. alpha is the best mixture of three: of itself, of the newest
  one, and of the subgradient at w. Where no direction leads downhill it proves just that.

Does it compete? Seconds of processor time to a certified relative gap of 1e-2, 1e-3, 1e-6, measured as in `lbfgs`:

                         subLBFGS          dual_cd           interior_point
    dense   C = 0.01   .20  .30  .41     .26  .19  .31     .33  .52  1.7
            C = 1      .19  .28  .37     3.7  4.3  7.0     .33  .53  1.5
            C = 100    .20  .30  .40      -    -    -      .33  .54  1.7
    covtype C = 1      2.2  3.1  7.2     .82  .96  1.4     .92  1.5  2.3
    a9a     C = 1      .06  .09   -      .04  .05  .11     .09  .11  .12
    text    C = 1      1.7  5.4   -      .29  .32  .80
    20news  C = 1       -    -    -      .34  .63  4.8

On dense rows, many and of few features of about the same size, it does: four times as fast as the interior point to
1e-6, whatever C. That is one generated set, and covtype, of the same shape with features of very different size, does
not bear it out: three times slower. Elsewhere it slows down: the last pairs know little of a Hessian with a wide
spectrum (a9a: 2e-6 after 1000 passes), and with thousands of rows at kinks fifty subgradients are too few to find a
good direction (text, 20news). (_ACCURACY, _MOST_AT_KINKS and `subgradients` were chosen on dense, a9a, text, covtype,
_WIDEST and _NARROWEST on small samples: expect other sets to do a little worse.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, kernel, lean_kernel
from maxmargin.losses import EpsilonInsensitive, Hinge, argument, conjugate, derivative, is_margin_loss, sign, target
from maxmargin.parallel import map_blocks
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, add_row, row_dot
from maxmargin.solvers._hessian import _add_blocks, dot
from maxmargin.solvers._line_search import line_search
from maxmargin.solvers._reduced import solve_reduced
from maxmargin.solvers._risk import SumOfLosses, _add_rows, _outputs
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.dual_cd import _feasible
from maxmargin.solvers.lbfgs import (
    Memory,
    check_memory,
    empty_memory,
    latest_scale,
    part_of_pass,
    remember,
    times_inverse,
)

_BLOCK = 1 << 26  # multiplications that one update makes: 10 to 100 ms
_WIDEST = 0.1  # tolerance, in margins
_NARROWER = 0.1  # share of it that is left when no direction leads downhill
_NARROWEST = 1e-10  # share of it at which it can only be rounding
_MOST_AT_KINKS, _FEW = 0.125, 100.0  # of the rows; the tolerance is less where there are more, if they are not few
_ACCURACY = 0.1  # of the direction: how much less than M(p) its bound may be
_ROUNDING = 1e-14
_HAIR = 1e-10  # share of the first tolerance within which a row is at its kink but for rounding
_EVALUATE, _SUBGRADIENT, _OUTPUTS = range(3)  # what rows are visited for


class Mixture(NamedTuple):
    """A point of the dual: its alpha is held elsewhere."""

    v: Array  # sum_i alpha_i sign_i x_i
    b: float  # the rest of the dual objective, or less: D >= b - 1/2 |v|^2


class Course(NamedTuple):
    """Where the method is, and the work so far."""

    phase: int
    position: int  # of the next row to visit in this phase
    rows: int  # that have a cost: a pass visits so many
    visits: int
    debt: int  # visits that were made for the direction and are not counted yet
    steps: int
    subgradients: int
    restarts: int


class SubLBFGSState(NamedTuple):
    """What moves in subLBFGS."""

    w: Array
    alpha: Array  # the best dual point so far
    best: Mixture  # and what belongs to it
    primal: float  # P(w); infinite before the first evaluation
    dual: float
    z: Array  # x_i'w
    coefficients: Array  # of the rows in the subgradient at w: -alpha_i sign_i
    at_w: Mixture
    mixture: Array  # g-bar, where p was made
    p: Array
    dz: Array  # x_i'p
    held: Array  # the rows at kinks, where p was made
    held_alpha: Array
    step: float  # the last one, along p
    memory: Memory
    tolerance: float
    course: Course


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
    losses: ClassVar[tuple[type, ...]] = (Hinge, EpsilonInsensitive)

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if not (isinstance(self.subgradients, int | np.integer) and self.subgradients >= 2):
            raise ValueError(f"subgradients must be a whole number, 2 or more; got {self.subgradients!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> SubLBFGSState:
        """Start at w = 0, or at the w of another state, and at its alpha if it has one."""
        w, m = weights_to_start_at(problem, start), problem.n_rows
        nothing, alpha, best = np.zeros(len(w)), np.zeros(m), Mixture(np.zeros(len(w)), 0.0)
        if start is not None:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(w) if known is None else _feasible(problem, known)
            best = _mixture_of(problem, alpha)
        return SubLBFGSState(
            w=w,
            alpha=alpha,
            best=best,
            primal=math.inf,
            dual=_dual(best),
            z=np.zeros(m),
            coefficients=np.zeros(m),
            at_w=Mixture(nothing, 0.0),
            mixture=nothing,
            p=nothing,
            dz=np.zeros(m),
            held=np.zeros(0, dtype=np.int64),
            held_alpha=np.zeros(0),
            step=0.0,
            memory=empty_memory(self.memory, len(w)),
            tolerance=_widest(problem),
            course=Course(_EVALUATE, 0, int(np.count_nonzero(problem.cost)), 0, 0, 0, 0, 0),
        )

    def update(self, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
        """Visit rows, for a block of work or as far as the goal's passes allow."""
        visits_before, work = state.course.visits, float(_BLOCK)
        last_visit = last_visit_of(goal, state.course.rows)
        while not _is_reached(state, goal) and state.course.visits < last_visit:
            course = state.course
            if course.debt:
                paid = min(course.debt, last_visit - course.visits)
                state = _with(state, debt=course.debt - paid, visits=course.visits + paid)
                continue
            if work <= 0.0 and course.visits > visits_before:
                break
            begin = course.position
            end, blocks, cost = part_of_pass(problem, begin, last_visit - course.visits, _BLOCK)
            visit, close = _PHASES[course.phase]
            visits = visit(problem, state, begin, end, blocks)
            state, work = _with(state, position=end, visits=course.visits + visits), work - cost
            if end == problem.n_rows:
                state = close(self, problem, state, goal)
        return state

    def report(self, problem: Problem, state: SubLBFGSState, goal: Goal) -> Report:
        """The objectives come from z and from the mixtures' sums, which are kept in step with w and alpha."""
        course = state.course
        return Report(
            passes=course.visits / course.rows,
            primal=state.primal if state.primal < math.inf else math.nan,
            dual=state.dual,
            believes=_is_reached(state, goal),
            counters={name: getattr(course, name) for name in ("steps", "subgradients", "restarts")},
        )

    def reconsider(self, problem: Problem, state: SubLBFGSState, goal: Goal, certificate: Certificate) -> SubLBFGSState:
        """A belief that proves wrong is due to rounding: begin anew where w is, with all that is known of it."""
        if not _is_reached(state, goal):
            return state
        state = state._replace(best=_mixture_of(problem, state.alpha), primal=certificate.primal, dual=certificate.dual)
        return _restart(problem, state)


def _is_reached(state: SubLBFGSState, goal: Goal) -> bool:
    return _is_good_enough(state, goal) and state.course.debt == 0


def _is_good_enough(state: SubLBFGSState, goal: Goal) -> bool:
    """By the difference of two objectives, which rounding makes smaller or larger."""
    return state.primal - state.dual + _ROUNDING * state.primal <= goal.tol * state.primal < math.inf


def _with(state: SubLBFGSState, **course: int) -> SubLBFGSState:
    return state._replace(course=state.course._replace(**course))


def _mixture_of(problem: Problem, alpha: Array) -> Mixture:
    v = problem.weights(alpha)
    return Mixture(v, problem.dual(alpha) + 0.5 * dot(v, v))


def _dual(mixture: Mixture) -> float:
    """A dual objective; no loss is negative, so zero is a bound, too."""
    return max(mixture.b - 0.5 * dot(mixture.v, mixture.v), 0.0)


def _widest(problem: Problem) -> float:
    """The first tolerance. Residuals have no margin to measure them by; they are of the size of the targets."""
    if is_margin_loss(problem.loss):
        return _WIDEST
    mean = dot(problem.cost, np.abs(problem.y)) / dot(problem.cost, np.ones(problem.n_rows))
    return _WIDEST * mean if mean > 0.0 else _WIDEST


def _restart(problem: Problem, state: SubLBFGSState) -> SubLBFGSState:
    """Forget the pairs and evaluate w anew, which undoes what rounding did to z."""
    state = state._replace(memory=state.memory._replace(n=0), tolerance=_widest(problem), step=0.0)
    return _with(state, phase=_EVALUATE, position=0, restarts=state.course.restarts + 1)


# ---------------------------------------------------------------- phases: visits of rows, and what they are for


def _visit_outputs(problem: Problem, v: Array, out: Array, begin: int, end: int, blocks: int) -> int:
    borders = np.unique(np.linspace(begin, end, blocks + 1).astype(np.int64))
    map_blocks(lambda lo, hi: _outputs(problem.rows, v, out, lo, hi), borders, problem.n_jobs)
    return int(np.count_nonzero(problem.cost[begin:end]))


def _evaluate(problem: Problem, state: SubLBFGSState, begin: int, end: int, blocks: int) -> int:
    return _visit_outputs(problem, state.w, state.z, begin, end, blocks)


def _look_along(problem: Problem, state: SubLBFGSState, begin: int, end: int, blocks: int) -> int:
    return _visit_outputs(problem, state.p, state.dz, begin, end, blocks)


def _add_subgradient(problem: Problem, state: SubLBFGSState, begin: int, end: int, blocks: int) -> int:
    def add(part: Array, lo: int, hi: int) -> None:
        _add_rows(problem.rows, state.coefficients, part, lo, hi)

    _add_blocks(add, state.at_w.v, begin, end, blocks, problem.n_jobs)
    return int(np.count_nonzero(state.coefficients[begin:end]))


def _at_point(solver: SubLBFGS, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
    """w and z are those of a new point: its objective, and on to its subgradient.

    A row at its kink is taken from the side that p leads to: this is the subgradient with the largest g'p, which the
    Wolfe conditions ask for. Rows that p has kept at their kinks keep their alpha as well.
    """
    risk, z = SumOfLosses(), state.z
    primal = 0.5 * dot(state.w, state.w) + risk.value(problem, z, z, 0.0, np.empty(len(z)))
    b = risk.linearize(problem, z, z, 0.0, state.coefficients)
    at = _rows_at_kinks(problem, z, _HAIR * _widest(problem))
    labels, side = (problem.y, problem.cost, problem.loss), _sides(problem)[at.which]
    alpha = np.where(side * state.dz[at.which] > 0.0, at.lower, at.upper)
    _, kept, held = np.intersect1d(at.which, state.held, assume_unique=True, return_indices=True)
    alpha[kept] = np.clip(state.held_alpha[held], at.lower[kept], at.upper[kept])
    b += _offset(*labels, at.which, alpha) - _offset(*labels, at.which, _alpha_at_w(problem, state)[at.which])
    state.coefficients[at.which] = -alpha * side
    at_w = Mixture(np.zeros(len(state.w)), b)
    return _with(state._replace(primal=primal, at_w=at_w), phase=_SUBGRADIENT, position=0)


def _after_outputs(solver: SubLBFGS, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
    """Go to where P is least along p."""
    w, p, z, dz = state.w, state.p, state.z, state.dz
    step = line_search(problem, z, z + dz, dot(p, p), dot(w, p))
    if step == 0.0:  # downhill by less than rounding
        return _turn(solver, problem, state._replace(tolerance=_NARROWER * state.tolerance), goal)
    state = state._replace(w=w + step * p, z=z + step * dz, step=step)
    return _at_point(solver, problem, _with(state, steps=state.course.steps + 1), goal)


def _after_subgradient(solver: SubLBFGS, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
    """Learn from the last step, and turn to the next direction."""
    np.negative(state.at_w.v, out=state.at_w.v)  # coefficients have the sign of subgradients
    change = (state.w - state.at_w.v) - state.mixture
    return _turn(solver, problem, state._replace(memory=remember(state.memory, state.step * state.p, change)), goal)


def _turn(solver: SubLBFGS, problem: Problem, state: SubLBFGSState, goal: Goal) -> SubLBFGSState:
    """Find a direction that leads downhill: with fewer rows at kinks if there is none, or from a new beginning."""
    kinks, most = _rows_at_kinks(problem, state.z, state.tolerance), max(_MOST_AT_KINKS * problem.n_rows, _FEW)
    while len(kinks.which) > most:
        state = state._replace(tolerance=0.5 * state.tolerance)
        kinks = _rows_at_kinks(problem, state.z, state.tolerance)
    while state.tolerance >= _NARROWEST * _widest(problem):
        direction, n = _find_direction(solver, problem, state, kinks)
        course = state.course
        state = _with(state, debt=course.debt + n * len(kinks.which), subgradients=course.subgradients + n)
        state = _mix(problem, state, kinks, direction)
        if direction.slope < 0.0:
            state = state._replace(
                p=direction.p, mixture=direction.mixture, held=kinks.which, held_alpha=direction.alpha
            )
            return _with(state, phase=_OUTPUTS, position=0)
        if _is_good_enough(state, goal):
            break
        n_before = len(kinks.which)
        while len(kinks.which) == n_before and state.tolerance >= _NARROWEST * _widest(problem):
            state = state._replace(tolerance=_NARROWER * state.tolerance)
            kinks = _rows_at_kinks(problem, state.z, state.tolerance)
    return _restart(problem, state)


_PHASES: tuple[tuple[Any, Any], ...] = (
    (_evaluate, _at_point),
    (_add_subgradient, _after_subgradient),
    (_look_along, _after_outputs),
)


# ---------------------------------------------------------------- rows at kinks


class Kinks(NamedTuple):
    """Rows within the tolerance of a kink."""

    which: Array
    lower: Array  # alpha right of the kink
    upper: Array  # alpha left of it


def _rows_at_kinks(problem: Problem, z: Array, tolerance: float) -> Kinks:
    labels, nothing = (problem.y, problem.cost, problem.loss), np.empty(0)
    n = _list_kinks(labels, z, tolerance, np.empty(0, dtype=np.int64), nothing, nothing)
    kinks = Kinks(np.empty(n, dtype=np.int64), np.empty(n), np.empty(n))
    _list_kinks(labels, z, tolerance, *kinks)
    return kinks


def _sides(problem: Problem) -> Array:
    """sign_i of every row."""
    return problem.y if is_margin_loss(problem.loss) else np.ones(problem.n_rows)


def _alpha_at_w(problem: Problem, state: SubLBFGSState) -> Array:
    """The alpha of the subgradient at w."""
    return -state.coefficients * _sides(problem)


@lean_kernel
def _list_kinks(labels, z, tolerance, which, lower, upper):
    """Write as many rows as there is room for; how many there are."""
    y, cost, loss = labels
    n = 0
    for i in range(len(z)):
        t = argument(loss, z[i], y[i])
        left, right = -cost[i] * derivative(loss, t - tolerance), -cost[i] * derivative(loss, t + tolerance)
        if left != right:
            if n < len(which):
                which[n], lower[n], upper[n] = i, right, left
            n += 1
    return n


@lean_kernel
def _add_largest(data, which, lower, upper, now, p, chosen, g):
    """Choose each alpha so that g'p is largest, and change g, which belongs to the alpha of now, accordingly."""
    rows, y, loss = data
    for k in range(len(which)):
        i = which[k]
        side = sign(loss, y[i])
        chosen[k] = lower[k] if side * row_dot(rows, i, p) > 0.0 else upper[k]
        if chosen[k] != now[k]:
            add_row(rows, i, (now[k] - chosen[k]) * side, g)


@kernel
def _offset(y, cost, loss, which, alpha):
    """The part of the dual objective that these rows have besides 1/2 |v|^2."""
    total = 0.0
    for k in range(len(which)):
        i = which[k]
        total += alpha[k] * target(loss, y[i]) - cost[i] * conjugate(loss, -alpha[k] / cost[i])
    return total


# ---------------------------------------------------------------- the direction


class Direction(NamedTuple):
    """A solution of (1), or as good as one."""

    model: float  # M(p)
    slope: float  # the largest g'p
    p: Array
    mixture: Array
    alpha: Array  # of the rows at kinks


class Found(NamedTuple):
    """The subgradients found so far, one a line, and their best mixture."""

    g: Array
    Bg: Array
    alpha: Array  # of the rows at kinks
    gram: Array  # g_j'B g_k
    mix: Array  # shares in the mixture
    order: Array  # `_reduced` explains these
    factor: Array


def _room_for(n: int, n_weights: int, n_kinks: int) -> Found:
    long, square = (n, n_weights), (n, n)
    return Found(
        g=np.zeros(long),
        Bg=np.zeros(long),
        alpha=np.zeros((n, n_kinks)),
        gram=np.zeros(square),
        mix=np.zeros(n),
        order=np.zeros(n, dtype=np.int64),
        factor=np.zeros(square),
    )


def _find_direction(solver: SubLBFGS, problem: Problem, state: SubLBFGSState, kinks: Kinks) -> tuple[Direction, int]:
    """Algorithm 2; and how many subgradients it took."""
    data, memory, scale = (problem.rows, problem.y, problem.loss), state.memory, latest_scale(state.memory)
    most = solver.subgradients if len(kinks.which) else 1
    first, now, chosen = state.w - state.at_w.v, _alpha_at_w(problem, state)[kinks.which], np.empty(len(kinks.which))
    found = _room_for(most, len(first), len(now))
    _add_found(found, 0, first, times_inverse(memory, scale, first), now)
    n_working, shift = 1, found.gram[0, 0] or 1.0
    found.mix[0], found.factor[0, 0] = 1.0, math.sqrt(found.gram[0, 0] + shift)
    p, mixture, best = -found.Bg[0], first, None
    for n in range(1, most + 1):
        newest = first.copy()
        _add_largest(data, *kinks, now, p, chosen, newest)
        slope, bound = dot(newest, p), 0.5 * dot(p, mixture)
        if best is None or slope - bound < best.model:
            alpha = np.clip(_mixed(found.alpha, found.mix, n), kinks.lower, kinks.upper)
            best = Direction(slope - bound, slope, p, mixture, alpha)
        excess = best.model - bound  # over the least value that M can have
        is_accurate = best.slope < 0.0 and excess <= _ACCURACY * -best.model
        if n == most or is_accurate or excess <= _ROUNDING * found.gram[0, 0]:
            break
        _add_found(found, n, newest, times_inverse(memory, scale, newest), chosen)
        n_working, _ = solve_reduced(
            found.gram, np.zeros(n + 1), n + 1, found.mix, found.order, found.factor, n_working, shift
        )
        p, mixture = -_mixed(found.Bg, found.mix, n + 1), _mixed(found.g, found.mix, n + 1)
    assert best is not None
    return best, n


def _add_found(found: Found, n: int, g: Array, Bg: Array, alpha: Array) -> None:
    found.g[n], found.Bg[n], found.alpha[n] = g, Bg, alpha
    for k in range(n + 1):
        found.gram[n, k] = found.gram[k, n] = dot(found.g[k], Bg)


def _mixed(lines: Array, mix: Array, n: int) -> Array:
    out = np.zeros(lines.shape[1])
    _add_lines(lines, mix, n, out)
    return out


@kernel(fastmath=DENSE_MATH)
def _add_lines(lines, mix, n, out):
    for k in range(n):
        if mix[k] > 0.0:
            for j in range(len(out)):
                out[j] += mix[k] * lines[k, j]


def _mix(problem: Problem, state: SubLBFGSState, kinks: Kinks, direction: Direction) -> SubLBFGSState:
    """The best dual point between the one so far, the subgradient at w, and the direction's mixture."""
    labels, here = (problem.y, problem.cost, problem.loss), _alpha_at_w(problem, state)
    now = here[kinks.which]
    change = _offset(*labels, kinks.which, direction.alpha) - _offset(*labels, kinks.which, now)
    points = state.best, state.at_w, Mixture(state.w - direction.mixture, state.at_w.b + change)
    gram = np.array([[dot(one.v, other.v) for other in points] for one in points])
    b, mix, factor = np.array([point.b for point in points]), np.array([1.0, 0.0, 0.0]), np.zeros((3, 3))
    shift = max(gram.diagonal()) or 1.0
    factor[0, 0] = math.sqrt(gram[0, 0] + shift)
    solve_reduced(gram, b, 3, mix, np.zeros(3, dtype=np.int64), factor, 1, shift)
    best = Mixture(sum(share * point.v for share, point in zip(mix, points)), float(dot(mix, b)))
    here *= mix[1] + mix[2]
    here += mix[0] * state.alpha
    here[kinks.which] += mix[2] * (direction.alpha - now)
    return state._replace(alpha=_feasible(problem, here), best=best, dual=_dual(best))
