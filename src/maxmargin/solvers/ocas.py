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

* (7) takes linear time: breakpoints are selected, not sorted. See `_line_search`.
* Any loss, of classification or regression: the line search is exact for all with linear pieces in the derivative.
* Outputs of w_b and w_c are combined from those of the last w_b and of w_t, so an iteration makes one product X w.
* At the kink of the hinge loss the paper has pi_i = 1 and we have 0. Both are subgradients.
* Planes that were not needed for long are dropped; the reduced problem is solved exactly. See `_planes` and `_reduced`.

Where it is slow: gaps far below 1e-4 with many features, where the number of planes goes into the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problem import Problem
from maxmargin.solvers._bundle import Bundle, BundleState, advance, centred, penalty
from maxmargin.solvers._free_intercept import best_step
from maxmargin.solvers._hessian import dot
from maxmargin.solvers.base import Goal

_BLOCK = 1 << 26  # stored values that one update walks over: 10 to 100 ms


@dataclass(frozen=True)
class OCAS(Bundle):
    """Optimised cutting planes: many rows, whatever the loss and C, to gaps of 1e-2 to 1e-4.

    Parameters
    ----------
    mix : float
        How far from the best point, towards the reduced problem's solution, the next plane touches the risk; above 0,
        at most 1. (The paper's lambda; its section 3: "0.1 works consistently well in all experiments".)

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=OCAS(mix=0.2), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    mix: float = 0.1

    name: ClassVar[str] = "ocas"
    takes_free_intercept: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.mix <= 1.0:
            raise ValueError(f"mix must be above 0 and at most 1, got {self.mix!r}")

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """Go on with the iteration: outputs of w_t, the line search, the plane at w_c, the reduced problem (3)."""
        return advance(self, problem, state, goal, _BLOCK)

    def improve(self, problem: Problem, state: BundleState) -> BundleState:
        """The best point on the line (7)."""
        if problem.has_free_intercept:
            return self._improve_with_best_intercept(problem, state)
        w_b, direction = state.w, state.w_t - state.w
        k = self.risk.line_search(problem, state.z, state.z_t, dot(direction, direction), dot(w_b, direction))
        w = w_b + k * direction
        primal = 0.5 * dot(w, w) + self.risk.value(problem, state.z, state.z_t, k, state.p)
        if primal < state.primal:  # else nothing but rounding is left to gain
            state = state._replace(w=w, z=state.p, p=state.z, primal=primal)
        return state

    def _improve_with_best_intercept(self, problem: Problem, state: BundleState) -> BundleState:
        """The best point on the line (7) for R with the best intercept everywhere, as nearly as it must be.

        By convexity the plane at w_c cuts off w_t if F is nowhere on the line less than F(w_b) by `mix` times the gap.
        """
        direction, n = state.w_t - state.w, problem.n_penalized
        A0, B0 = dot(direction[:n], direction[:n]), dot(state.w[:n], direction[:n])
        enough, risk = 0.2 * self.mix * (state.primal - state.bound), state.primal - penalty(problem, state.w)
        k = best_step(problem, state.z, state.z_t, A0, B0, risk, enough)
        w, z = centred(problem, state.w + k * direction, state.z + k * (state.z_t - state.z))
        primal = penalty(problem, w) + self.risk.value(problem, z, z, 0.0, state.p)
        return state._replace(w=w, z=z, primal=primal) if primal < state.primal else state

    def touch(self, problem: Problem, state: BundleState) -> float:
        """The plane at w_c (8)."""
        return self.linearize(problem, state.z, state.z_t, self.mix, state.p)
