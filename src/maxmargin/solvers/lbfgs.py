"""L-BFGS on the primal, for losses with a derivative.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

Each step goes along  s = -B g,  g the gradient of P at w. B stands for the inverse of the Hessian: a multiple of the
identity, corrected by what the last few steps have seen, (s, y) with y the change of g along s. It is never formed:
a product with it takes four multiplications for each number that is remembered (`times_inverse`: the two loops).

Liu, Nocedal: On the limited memory BFGS method for large scale optimization, Mathematical Programming 45, 1989.
Nocedal, Wright: Numerical Optimization, algorithms 7.4 (two loops) and 7.5, (7.20) the scale, (3.7) strong Wolfe.

Paper -> code: H_k -> B (never formed), s_k and y_k -> the lines of S and Y, rho_k -> 1 / sy, gamma_k -> scale,
c_1 and c_2 -> _DECREASE and _CURVATURE, m -> memory.

What differs from the papers, and why:

* The stop. alpha_i = -C_i phi'(t_i) is feasible in the dual and belongs to w - g, so P(w) - D(alpha) is 1/2 |g|^2:
  every evaluation brings its certificate.
* The search. Step 1 is tried at once, with its gradient: it is what most steps need, in one pass. If it will not do,
  the x_i's are known, and the best step along s is found without looking at X again. A step costs one pass or two.
* Pairs need no check of their sign: P is strongly convex, so s'y >= |s|^2. Only rounding can spoil that.

Does it compete? Menon's survey (section 6) expects it to, where accuracy is asked for. Seconds of processor time to a
certified relative gap of 1e-2, 1e-3, 1e-6 at C = 1: medians of three, one thread (text: 50,000 x 50,000, dense:
200,000 x 54; -: not in 10 s of a shared machine):

                               L-BFGS (10)       L-BFGS (30)       tron              dual_cd
    a9a     squared hinge    .11  .25  .60     .07  .15  .31     .02  .02  .02     .11  .14  .25
            logistic         .12  .20  .48     .08  .12  .26     .03  .03  .04
    text    squared hinge    2.0  2.5  4.1     1.1  1.4  2.8     .33  .40  .60     .13  .28  .53
            logistic         .17  .19  .37     .18  .20  .27     .25  .14  .26
    dense   squared hinge    .20  .21  .31     .20  .20  .26     .10  .10  .11      -    -    -
            logistic         .35  .43  .50     .35  .43  .49     .21  .21  .24
    20news  squared hinge    5.9  8.2   -      6.3   -    -      2.5  3.3  5.2     .20  .33  .56
            logistic         3.4  3.9  6.6     2.8  4.3  9.1     1.2  1.6  2.4

Hardly. For the logistic loss it is level with Newton's method on text and needs two to twelve times as long elsewhere:
products with the Hessian cost what gradients cost, and know what pairs have to learn. The squared hinge is worse,
because its curvature jumps whenever a row crosses the margin. 20news has 1.7 million features, so that the memory takes
longer than the data. (_CURVATURE was chosen among 0.1, 0.5 and 0.9 on these very sets; 0.5 is faster for the squared
hinge on text, and slower on a9a.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, kernel
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, n_stored
from maxmargin.solvers._hessian import SMOOTH, add_evaluation, dot, n_blocks
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of, weights_to_start_at
from maxmargin.solvers.tron import Trial, _best_step, _trial

_BLOCK = 1 << 26  # multiplications that one update makes: 10 to 100 ms
_DECREASE = 1e-4  # of P, as a share of what the slope promises
_CURVATURE = 0.9  # share of the slope that may be left


# ---------------------------------------------------------------- the memory, for all of the family


class Memory(NamedTuple):
    """The last steps and what they did to the gradient: a ring of lines."""

    S: Array  # steps s
    Y: Array  # changes y of the gradient
    sy: Array  # s'y
    yy: Array  # y'y
    n: int  # pairs so far; the latest is in line (n - 1) % memory


def empty_memory(size: int, n: int) -> Memory:
    """Room for so many pairs of n numbers."""
    return Memory(np.zeros((size, n)), np.zeros((size, n)), np.zeros(size), np.zeros(size), 0)


def check_memory(size: int) -> None:
    """The error for a memory that is none."""
    if not (isinstance(size, int | np.integer) and size >= 1):
        raise ValueError(f"memory must be a whole number of pairs, 1 or more; got {size!r}")


def remember(memory: Memory, s: Array, y: Array) -> Memory:
    """The memory with one more pair, in place of the oldest if it is full; without it if rounding has spoilt it."""
    sy, yy = dot(s, y), dot(y, y)
    if not sy >= 0.5 * dot(s, s) > 0.0:
        return memory
    line = memory.n % len(memory.S)
    memory.S[line], memory.Y[line], memory.sy[line], memory.yy[line] = s, y, sy, yy
    return memory._replace(n=memory.n + 1)


def latest_scale(memory: Memory) -> float:
    """The multiple of the identity that B begins with: s'y / y'y of the latest pair (7.20)."""
    line = (memory.n - 1) % len(memory.S)
    return float(memory.sy[line] / memory.yy[line]) if memory.n else 1.0


def times_inverse(memory: Memory, scale: float, g: Array) -> Array:
    """B g."""
    q, size = g.copy(), len(memory.S)
    lines = np.arange(max(memory.n - size, 0), memory.n)[::-1] % size
    _two_loops(memory.S, memory.Y, memory.sy, lines, np.empty(len(lines)), scale, q)
    return q


@kernel(fastmath=DENSE_MATH)
def _two_loops(S, Y, sy, lines, a, scale, q):
    """Algorithm 7.4: from q = g to q = B g; `lines` are those of the pairs, the latest first."""
    n = len(q)
    for k in range(len(lines)):
        line = lines[k]
        total = 0.0
        for j in range(n):
            total += S[line, j] * q[j]
        a[k] = total / sy[line]
        for j in range(n):
            q[j] -= a[k] * Y[line, j]
    for j in range(n):
        q[j] *= scale
    for k in range(len(lines) - 1, -1, -1):
        line = lines[k]
        total = 0.0
        for j in range(n):
            total += Y[line, j] * q[j]
        step = a[k] - total / sy[line]
        for j in range(n):
            q[j] += step * S[line, j]


def part_of_pass(problem: Problem, position: int, room: int, block: float) -> tuple[int, int, float]:
    """How far to go from here in one go, in how many blocks, and what it costs; no more than `room` rows.

    Sums must not depend on where a run pauses: what is divided into blocks is done whole, up to borders that the data
    alone decide.
    """
    cost = 4.0 * (1.0 + n_stored(problem.rows) / problem.n_rows)  # of a row, in multiplications
    grid = max(1, int(block / cost))
    end = min((position // grid + 1) * grid, problem.n_rows)
    blocks = n_blocks(problem.rows, min(grid, problem.n_rows) * cost / 4.0, problem.n_weights)
    if blocks == 1:
        end = min(end, position + room)
    return end, blocks, cost * (end - position)


# ---------------------------------------------------------------- the method


class Course(NamedTuple):
    """Where the method is, and the work so far."""

    position: int  # of the next row to visit
    rows: int  # that have a cost: a pass visits so many
    visits: int
    steps: int
    searches: int  # steps for which 1 would not do


class LBFGSState(NamedTuple):
    """What moves in L-BFGS."""

    w: Array  # the last point that was accepted, and all that is known of it
    z: Array  # x_i'w
    gradient: Array
    primal: float  # infinite before the first evaluation
    s: Array  # the direction from it
    trial: Trial
    memory: Memory
    course: Course


@dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS: a gradient and some vectors a step, for every smooth loss and any number of features.

    Parameters
    ----------
    memory : int
        Pairs that are remembered. Each takes two vectors as long as w.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> result = solve(problem, solver=LBFGS(memory=5), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    memory: int = 10

    name: ClassVar[str] = "lbfgs"
    losses: ClassVar[tuple[type, ...]] = SMOOTH

    def __post_init__(self) -> None:
        check_memory(self.memory)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> LBFGSState:
        """Start at w = 0, or at the w of another state."""
        w, nothing = weights_to_start_at(problem, start), np.zeros(0)
        course = Course(0, int(np.count_nonzero(problem.cost)), 0, 0, 0)
        memory = empty_memory(self.memory, len(w))
        return LBFGSState(w, nothing, nothing, math.inf, np.zeros(len(w)), _trial(problem, w), memory, course)

    def update(self, problem: Problem, state: LBFGSState, goal: Goal) -> LBFGSState:
        """Evaluate points, for a block of work or as far as the goal's passes allow."""
        visits_before, work = state.course.visits, float(_BLOCK)
        last_visit = last_visit_of(goal, state.course.rows)
        while not _is_reached(state, goal) and state.course.visits < last_visit:
            if work <= 0.0 and state.course.visits > visits_before:
                break
            course, trial = state.course, state.trial
            begin = course.position
            end, blocks, cost = part_of_pass(problem, begin, last_visit - course.visits, _BLOCK)
            risk = add_evaluation(problem, trial.w, trial.z, trial.gradient, trial.risk, begin, end, blocks)
            visits = course.visits + int(np.count_nonzero(problem.cost[begin:end]))
            course = course._replace(position=end, visits=visits)
            state, work = state._replace(trial=trial._replace(risk=risk), course=course), work - cost
            if end == problem.n_rows:
                state = _judge_point(problem, state)
        return state

    def report(self, problem: Problem, state: LBFGSState, goal: Goal) -> Report:
        """The gap is that of the last point, exactly."""
        course, is_evaluated = state.course, state.primal < math.inf
        return Report(
            passes=course.visits / course.rows,
            primal=state.primal if is_evaluated else math.nan,
            dual=state.primal - _gap(state) if is_evaluated else math.nan,
            believes=_is_reached(state, goal),
            counters={"steps": course.steps, "searches": course.searches},
        )

    def certificate(self, problem: Problem, state: LBFGSState) -> Certificate:
        """No pass: P and its gradient at w were summed over the rows when w was reached."""
        if state.primal == math.inf:
            return problem.certificate(state.w)
        return Certificate(state.primal, state.primal - _gap(state), _gap(state))


def _gap(state: LBFGSState) -> float:
    """P(w) - D(alpha), alpha_i = -C_i phi'(t_i); no loss is negative, so zero is a dual bound, too."""
    return min(0.5 * dot(state.gradient, state.gradient), state.primal)


def _is_reached(state: LBFGSState, goal: Goal) -> bool:
    return state.primal < math.inf and _gap(state) <= goal.tol * state.primal


def _to_trial(problem: Problem, state: LBFGSState, step: float) -> LBFGSState:
    trial = _trial(problem, state.w + step * state.s, step)
    return state._replace(trial=trial, course=state.course._replace(position=0))


def _judge_point(problem: Problem, state: LBFGSState) -> LBFGSState:
    """Take the trial for the next point and turn to a new direction; or look for a better point on the line."""
    w, z, gradient, risk, step = state.trial
    primal, memory, course = 0.5 * dot(w, w) + risk, state.memory, state.course
    is_better = True
    if state.primal < math.inf:
        at_0, at_trial = dot(state.gradient, state.s), dot(gradient, state.s)
        is_good = primal <= state.primal + _DECREASE * at_0 and abs(at_trial) <= _CURVATURE * abs(at_0)
        if step == 1.0 and not is_good:
            state = state._replace(course=course._replace(searches=course.searches + 1))
            line: Any = state  # all that a search needs has the same name in Newton's method
            return _to_trial(problem, state, _best_step(problem, line, z - state.z))
        # At the limit of what rounding allows, P no longer tells the better of two points; the gradient does.
        is_better = primal < state.primal or dot(gradient, gradient) < dot(state.gradient, state.gradient)
        memory = remember(memory, w - state.w, gradient - state.gradient) if is_better else memory._replace(n=0)
        course = course._replace(steps=course.steps + 1)
    if is_better:
        state = state._replace(w=w, z=z, gradient=gradient, primal=primal)
    s = -times_inverse(memory, latest_scale(memory), state.gradient)
    return _to_trial(problem, state._replace(s=s, memory=memory, course=course), 1.0)
