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

How it compares: papers/newton/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled
from maxmargin.data.rows import Array
from maxmargin.problem import Problem
from maxmargin.problem.questions import Evaluation
from maxmargin.solvers.base import GaveUp, Goal
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.newton.descent import (
    Descent,
    evaluated_start,
    gap_at,
    is_better,
    is_known,
    least_along,
    unknown_point,
)
from maxmargin.vectors import dot

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


def remember(memory: Memory, s: Array, y: Array) -> Memory:
    """The memory with one more pair, in place of the oldest if it is full; without it if rounding has spoilt it."""
    sy, yy = dot(s, y), dot(y, y)
    if not sy >= 0.5 * dot(s, s) > 0.0:
        return memory
    line = memory.n % len(memory.S)  # it is written in place, which is safe: n alone says which lines count
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


@compiled(fastmath=DENSE_MATH)
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


# ---------------------------------------------------------------- the method


class LBFGSState(NamedTuple):
    """What moves in L-BFGS."""

    here: Evaluation
    gap: float  # P(w) - D(alpha), alpha_i = -C_i phi'(t_i)
    memory: Memory
    visits: int  # of rows
    steps: int
    searches: int  # steps for which 1 would not do

    @property
    def w(self) -> Array:
        """The weights."""
        return self.here.w


@dataclass(frozen=True)
class LBFGS(Descent):
    """L-BFGS: a gradient and some vectors a step, for every smooth loss and any number of features.

    Parameters
    ----------
    memory : int
        Pairs that are remembered. Each takes two vectors as long as w, and makes the next direction a little better:
        3 to 20 are usual.

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

    def __post_init__(self) -> None:
        check_count(self, "memory", 1)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> LBFGSState:
        """Start at w = 0, or at the w of another state."""
        here = unknown_point(problem, start)
        return LBFGSState(here, math.inf, empty_memory(self.memory, len(here.w)), 0, 0, 0)

    def update(self, problem: Problem, state: LBFGSState, goal: Goal) -> LBFGSState:
        """One iteration: the direction -B g, step 1 along it or the best one, and what the step teaches."""
        here, memory, visits, searches = state.here, state.memory, state.visits + problem.n_weighted, state.searches
        if not is_known(here):
            there = evaluated_start(problem, here)
            return state._replace(here=there, gap=gap_at(problem, there), visits=visits)
        s = -times_inverse(memory, latest_scale(memory), here.gradient)
        there = problem.evaluate(here.w + s)
        if not _is_good_step(here, there, s):
            there = problem.evaluate(here.w + least_along(problem, here, there, s) * s)
            visits, searches = visits + problem.n_weighted, searches + 1
        state = state._replace(visits=visits, steps=state.steps + 1, searches=searches)
        if is_better(there, here):
            memory = remember(memory, there.w - here.w, there.gradient - here.gradient)
            return state._replace(here=there, gap=gap_at(problem, there), memory=memory)
        if memory.n == 0:
            raise GaveUp("rounding hides what is left to gain")
        return state._replace(memory=memory._replace(n=0))  # then along the gradient itself

    def counters(self, state: LBFGSState) -> dict[str, float]:
        """Steps, and how many of them took a search."""
        return {"steps": state.steps, "searches": state.searches}


def _is_good_step(here: Evaluation, there: Evaluation, s: Array) -> bool:
    """The strong Wolfe conditions (3.7) for step 1."""
    slope, slope_there = dot(here.gradient, s), dot(there.gradient, s)
    return there.value <= here.value + _DECREASE * slope and abs(slope_there) <= _CURVATURE * abs(slope)
