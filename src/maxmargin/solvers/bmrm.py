"""The bundle method for regularised risk minimisation, BMRM: any convex risk of which value and subgradient are known.

    J(w) = Omega(w) + R(w),      Omega(w) = 1/2 |w|^2,      R(w) = sum_i C_i phi(t_i)

    repeat, from w_0 = 0:
        a_{t+1} = a subgradient of R at w_t,      b_{t+1} = R(w_t) - a_{t+1}'w_t
        w_{t+1} = argmin_w  J_{t+1}(w) = Omega(w) + max_{k <= t+1} (a_k'w + b_k)
    until  min_i J(w_i) - J_t(w_t)  is small

Teo, Smola, Vishwanathan, Le: A scalable modular convex solver for regularized risk minimization, KDD 2007, and Bundle
methods for regularized risk minimization, JMLR 2010, algorithm 1. The reduced problem is solved in its dual,

    max_alpha  b'alpha - 1/2 |sum_k alpha_k a_k|^2,      alpha >= 0,  sum_k alpha_k = 1,

after O(1 / gap) iterations, or O(log(1 / gap)) if the loss has a Lipschitz derivative.

Paper -> code: J -> primal, J_t(w_t) -> bound, lambda -> 1, in units of which the C_i are; Q -> gram.

For the hinge loss this is the cutting plane algorithm (`cutting_plane`), but for the plane zero: here the risk need not
be positive, and the planes' alpha sum up to one from the beginning.

What differs from the papers: the answer is the best of the w_i; planes that were not needed for long are dropped; the
dual is solved exactly. See `_planes` and `_reduced`. The risk is an object of its own, see `_risk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problem import Problem
from maxmargin.solvers._bundle import Bundle, BundleState, advance, keep_better
from maxmargin.solvers.base import Goal

_BLOCK = 1 << 26  # stored values that one update walks over: 10 to 100 ms


@dataclass(frozen=True)
class BMRM(Bundle):
    """Bundle method for regularised risks: one that needs nothing of a loss but a subgradient.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> result = solve(problem, solver=BMRM(), tol=1e-6)
    >>> result.certificate.relative_gap <= 1e-6
    True
    """

    name: ClassVar[str] = "bmrm"
    has_zero_plane: ClassVar[bool] = False

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """Go on with the iteration: the risk and a subgradient at w_t, then the reduced problem."""
        return advance(self, problem, state, goal, _BLOCK)

    def improve(self, problem: Problem, state: BundleState) -> BundleState:
        """The best of the w_i, by the value of J."""
        return keep_better(self, problem, state)

    def touch(self, problem: Problem, state: BundleState) -> float:
        """A subgradient of R at w_t."""
        return self.risk.linearize(problem, state.z_t, state.z_t, 0.0, state.p)
