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

With the L1 penalty, Omega(w) = |w|_1, the reduced problem is a linear program (`_reduced_l1`),
whose solutions are corners. They jump from one end of the known region to the other: on 300 random rows of 20 features
plain BMRM took 163 to 586 iterations to a gap of 1e-4 (hinge and squared hinge, C = 0.1 and 10). 54 to 98 are enough
when (as in OCAS, and in the "in-out" cuts of Ben-Ameur and Neto, Networks 2007)

    w   = the best of w + 2^-j (w_t - w), j = 0 to 8: outputs are combined, so a trial is a sum over rows
    the next plane touches R near it, at w + mix (w_t - w), not at w_t.

That the risk is never negative keeps the first programs bounded; no trust region or box is needed. As the answer is
between corners, weights that are zero at the optimum are small in it, not always zero: `primal_cd` gives exact zeros.

What differs from the papers: the answer is the best of the w_i; planes that were not needed for long are dropped; the
dual is solved exactly. See `_planes` and `_reduced`. The risk is an object of its own, see `_risk`. L1: see above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.problem import Problem
from maxmargin.rows import Array
from maxmargin.solvers._bundle import _OUTPUT, Bundle, BundleState, advance, centred, keep_better, penalty
from maxmargin.solvers._planes import Planes
from maxmargin.solvers._reduced_l1 import reduce_l1
from maxmargin.solvers.base import Goal

_BLOCK = 1 << 26  # stored values that one update walks over: 10 to 100 ms
_STEPS = 0.5 ** np.arange(9)  # towards the solution of the linear program, that are tried
_MIX = 0.05  # how far from the best point towards that solution the next plane touches the risk


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
    penalties: ClassVar[tuple[str, ...]] = ("l2", "l1")
    takes_free_intercept: ClassVar[bool] = True
    has_zero_plane: ClassVar[bool] = False

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """Go on with the iteration: the risk and a subgradient at w_t, then the reduced problem."""
        return advance(self, problem, state, goal, _BLOCK)

    def improve(self, problem: Problem, state: BundleState) -> BundleState:
        """The best of the w_i, by the value of J; with the L1 penalty, of points on the line to w_t."""
        return _best_on_line(self, problem, state) if problem.penalty == "l1" else keep_better(self, problem, state)

    def touch(self, problem: Problem, state: BundleState) -> float:
        """A subgradient of R at w_t; with the L1 penalty, near the best point."""
        if problem.penalty == "l1":
            return self.linearize(problem, state.z, state.z_t, _MIX, state.p)
        return self.linearize(problem, state.z_t, state.z_t, 0.0, state.p)

    def _reduce(self, problem: Problem, state: BundleState) -> BundleState:
        if problem.penalty == "l2":
            return super()._reduce(problem, state)
        planes, w_t, bound = reduce_l1(state.planes)
        course = state.course._replace(phase=_OUTPUT, position=0)
        return state._replace(planes=planes, w_t=w_t, bound=max(state.bound, bound), course=course)

    def _warm_start(self, problem: Problem, key: int, start: Any, none: Planes) -> tuple[Array, Planes]:
        """Dual variables make a plane with the L2 penalty only: with L1 they are rarely feasible."""
        if problem.penalty == "l1" and not isinstance(start, BundleState):
            start = _Point(start.w)
        return super()._warm_start(problem, key, start, none)


@dataclass(frozen=True)
class _Point:
    """What is left of a state without its dual variables."""

    w: Array


def _best_on_line(solver: BMRM, problem: Problem, state: BundleState) -> BundleState:
    """The best of w + k (w_t - w) for the steps k, if that is better than w."""
    direction = state.w_t - state.w

    def point(k: float) -> tuple[Array, float]:
        """The point and its objective; its outputs are in p."""
        w, risk = state.w + k * direction, solver.risk.value(problem, state.z, state.z_t, k, state.p)
        if problem.has_free_intercept:  # the best one is not on the line
            w, z = centred(problem, w, state.p)
            risk = solver.risk.value(problem, z, z, 0.0, state.p)
        return w, penalty(problem, w) + risk

    k = float(min(_STEPS, key=lambda k: point(k)[1]))
    w, least = point(k)
    if least >= state.primal:
        return state
    return state._replace(w=w, z=state.p.copy(), primal=least)
