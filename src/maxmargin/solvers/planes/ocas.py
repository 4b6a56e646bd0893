"""The optimised cutting plane algorithm, OCAS: cutting planes where they count, found with an exact line search.

    (1)  min_w  F(w) = 1/2 |w|^2 + R(w),          R(w) = sum_i C_i phi(t_i)
    (3)  min_w  F_t(w) = 1/2 |w|^2 + R_t(w),      R_t(w) = max(0, max_k a_k'w + b_k) <= R(w)

    from w_b = 0, repeat (algorithm 1):
        w_t = the solution of (3)
        w_b = the best point on the line from w_b through w_t                          (7), changes 1 and 2
        add the plane that touches R at  w_c = (1 - mix) w_b + mix w_t                 (8), change 3
    until  F(w_b) - F_t(w_t)  is small                                                 (9)

Franc, Sonnenburg: Optimized cutting plane algorithm for support vector machines, ICML 2008. F(w_b) only falls and
F_t(w_t) only rises, where CPA's objective goes up and down: several times fewer iterations.

Paper -> code: w_t^b -> w, w_t -> w_t, w_t^c -> its outputs in p, lambda -> mix, k as it is, C/m -> C_i,
pi_i -> p_i = C_i phi'(t_i) sign_i (the coefficients of the rows in the plane).

What differs from the paper, and why:

* (7) takes linear time: breakpoints are selected, not sorted. See `line_search`.
* All classes at once (`CrammerSinger`), which the authors announce in their conclusion, and one class (`OneClass`),
  both with an exact line search, too.
* Any loss, of classification or regression: the line search is exact for all with linear pieces in the derivative.
* Outputs of w_b and w_c are combined from those of the last w_b and of w_t, so an iteration makes one product X w.
* At the kink of the hinge loss the paper has pi_i = 1 and we have 0. Both are subgradients.
* Planes that were not needed for long are dropped; the reduced problem is solved exactly. See `store` and `reduced`.

Where it is slow: gaps far below 1e-4 with many features, where the number of planes goes into the hundreds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.problem import Problem
from maxmargin.problem.intercept import best_step
from maxmargin.problem.line_search import line_search
from maxmargin.problem.risks import CrammerSinger, OneClass, SumOfLosses
from maxmargin.solvers.base import Goal, Progress
from maxmargin.solvers.planes.bundle import Bundle, BundleState, Point, Stopwatch, between, linearize, solution
from maxmargin.vectors import dot

_LONGEST_STEP = 1e4  # times w_t - w_b: where the two differ by rounding alone, a longer step would magnify that


@dataclass(frozen=True)
class OCAS(Bundle):
    """Optimised cutting planes: many rows, whatever the loss and C, to gaps of 1e-2 to 1e-4.

    Parameters
    ----------
    mix : float
        How far from the best point, towards the reduced problem's solution, the next plane touches the risk; above 0,
        at most 1. (The paper's lambda; its section 3: "0.1 works consistently well in all experiments".)
    epsilon : float
        The stop of the paper's experiments, (F(w_b) - F_t(w_t)) / C <= epsilon, where its C is the sum of our C_i. Give
        ``callbacks=[solver.is_satisfied]`` to `solve` for the run to end there.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=OCAS(mix=0.2), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    >>> solver = OCAS(epsilon=1e-3)  # section 4.1
    >>> solve(problem, solver, tol=0.0, callbacks=[solver.is_satisfied]).stop_reason
    'callback'
    """

    mix: float = 0.1
    epsilon: float = 0.0

    name: ClassVar[str] = "ocas"
    takes_free_intercept: ClassVar[bool] = True
    risks: ClassVar[tuple[type, ...]] = (SumOfLosses, CrammerSinger, OneClass)

    def __post_init__(self) -> None:
        if not 0.0 < self.mix <= 1.0:
            raise ValueError(f"mix must be above 0 and at most 1, got {self.mix!r}")
        if not 0.0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be a finite number >= 0, got {self.epsilon!r}")

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """One iteration of algorithm 1, whose first line, the solution of (3), was the end of the last iteration."""
        watch = Stopwatch(state.clock)
        w_t, z_t, passes = solution(problem, state)
        watch.lap("output")
        w_b = self.best_on_line(problem, state, w_t, z_t)  # (7)
        state = state._replace(best=w_b)
        watch.lap("line_search")
        if self.is_there(problem, state, goal):  # (9)
            return state._replace(passes=passes, iterations=state.iterations + 1, clock=watch.clock)
        plane = linearize(problem, w_b.z, z_t, self.mix)  # (8): it touches R at w_c
        return self.with_plane(problem, state, plane, passes, watch)  # and (3)

    def is_satisfied(self, progress: Progress) -> bool:
        """A callback that ends a run when (F(w_b) - F_t(w_t)) / C <= epsilon, C the sum of all costs."""
        state = progress.state
        return bool(state.best.primal - state.bound <= self.epsilon * state.cost)

    def best_on_line(self, problem: Problem, state: BundleState, w_t: Array, z_t: RowVector) -> Point:
        """The best point on the line from w_b through w_t (7)."""
        w_b, n = state.best, problem.n_penalized
        direction = (w_t - w_b.w)[:n]
        A0, B0 = dot(direction, direction), dot(w_b.w[:n], direction)
        if problem.has_free_intercept:
            # R has the best intercept everywhere on the line. By convexity the plane at w_c cuts off w_t if F is
            # nowhere on the line less than F(w_b) by `mix` times the gap: k need not be exact.
            enough, risk = 0.2 * self.mix * (w_b.primal - state.bound), w_b.primal - problem.regularizer(w_b.w)
            k = best_step(problem, w_b.z, z_t, A0, B0, risk, enough)
        else:
            k = line_search(problem, w_b.z, z_t, A0, B0)
        found = between(problem, w_b, w_t, z_t, min(k, _LONGEST_STEP))
        return found if found.primal < w_b.primal else w_b  # else nothing but rounding is left to gain
