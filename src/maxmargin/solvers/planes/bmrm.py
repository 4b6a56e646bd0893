"""The bundle method for regularised risk minimisation, BMRM: any convex risk of which value and subgradient are known.

    J(w) = Omega(w) + R(w),      Omega(w) = 1/2 |w|^2,      R any of `maxmargin.problem.risks`

    repeat, from w_0 = 0:
        a_{t+1} = a subgradient of R at w_t,      b_{t+1} = R(w_t) - a_{t+1}'w_t
        w_{t+1} = argmin_w  J_{t+1}(w) = Omega(w) + max_{k <= t+1} (a_k'w + b_k)
    until  min_i J(w_i) - J_t(w_t)  is small

Teo, Smola, Vishwanathan, Le: A scalable modular convex solver for regularized risk minimization, KDD 2007, and Bundle
methods for regularized risk minimization, JMLR 2010, algorithm 1. The reduced problem is solved in its dual,

    max_alpha  b'alpha - 1/2 |sum_k alpha_k a_k|^2,      alpha >= 0,  sum_k alpha_k = 1,

O(1 / gap) times in all, or O(log(1 / gap)) if the loss has a Lipschitz derivative.

Paper -> code: J -> primal, J_t(w_t) -> bound, lambda -> 1, in units of which the C_i are; Q -> gram.

For the hinge loss this is `cutting_plane`, but for the plane zero: here the risk need not be positive.

With the L1 penalty, Omega(w) = |w|_1, the reduced problem is a linear program (`reduced_l1`), whose solutions are
corners. They jump from one end of the known region to the other. So (as in OCAS, and in the "in-out" cuts of Ben-Ameur
and Neto, Networks 2007)

    w   = the best of w + 2^-j (w_t - w), j = 0 to 8: outputs are combined, so a trial is a sum over rows
    the next plane touches R near it, at w + mix (w_t - w), not at w_t.

That the risk is never negative keeps the first programs bounded; no trust region or box is needed. As the answer is
between corners, weights that are zero at the optimum are small in it, not always zero: `primal_cd` gives exact zeros.

What differs from the papers: the answer is the best of the w_i; planes that were not needed for long are dropped; the
dual is solved exactly. See `store` and `reduced`. L1, multi-class and one-class: see above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.penalties import L1, L2
from maxmargin.problem import Problem
from maxmargin.problem.risks import CrammerSinger, OneClass, Structural, SumOfLosses
from maxmargin.solvers.base import Goal
from maxmargin.solvers.planes.bundle import Bundle, BundleState, Point, Stopwatch, between, linearize, solution
from maxmargin.solvers.planes.reduced_l1 import reduce_l1
from maxmargin.solvers.planes.store import Planes

_STEPS = 0.5 ** np.arange(9)  # towards the solution of the reduced problem, that are tried
_MIX, _MIX_L1 = 0.1, 0.05  # how far from the best point towards that solution the next plane touches the risk


@dataclass(frozen=True)
class BMRM(Bundle):
    """Bundle method for regularised risks: one that needs nothing of a risk but its value and a subgradient.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="logistic")
    >>> result = solve(problem, solver=BMRM(), tol=1e-6)
    >>> result.certificate.relative_gap <= 1e-6
    True
    """

    name: ClassVar[str] = "bmrm"
    penalties: ClassVar[tuple[type, ...]] = (L2, L1)
    risks: ClassVar[tuple[type, ...]] = (SumOfLosses, Structural, CrammerSinger, OneClass)
    takes_free_intercept: ClassVar[bool] = True
    has_zero_plane: ClassVar[bool] = False

    def update(self, problem: Problem, state: BundleState, goal: Goal) -> BundleState:
        """One iteration: the plain one, or where w_t is far off the one of the head of this file."""
        if isinstance(problem.penalty, L2) and isinstance(problem.risk, (SumOfLosses, Structural)):
            return super().update(problem, state, goal)
        watch, mix = Stopwatch(state.clock), _MIX_L1 if isinstance(problem.penalty, L1) else _MIX
        w_t, z_t, passes = solution(problem, state)
        watch.lap("output")
        best = _best_on_line(problem, state.best, w_t, z_t)
        state = state._replace(best=best)
        watch.lap("line_search")
        if self.is_there(problem, state, goal):
            return state._replace(passes=passes, iterations=state.iterations + 1, clock=watch.clock)
        plane = linearize(problem, best.z, z_t, mix)
        return self.with_plane(problem, state, plane, passes, watch)

    def reduce(self, problem: Problem, planes: Planes) -> tuple[Planes, Array, float]:
        """Solve the reduced problem; with the L1 penalty, a linear program."""
        return super().reduce(problem, planes) if isinstance(problem.penalty, L2) else reduce_l1(planes)

    def warm_start(self, problem: Problem, key: Array, start: Any, none: Planes) -> tuple[Array, Planes]:
        """Dual variables make a plane with the L2 penalty only: with L1 they are rarely feasible."""
        if isinstance(problem.penalty, L1) and not isinstance(start, BundleState):
            start = _Weights(start.w)
        return super().warm_start(problem, key, start, none)


class _Weights(NamedTuple):
    """What is left of a state without its dual variables."""

    w: Array


def _best_on_line(problem: Problem, best: Point, w_t: Array, z_t: RowVector) -> Point:
    """The best of w + k (w_t - w) for the steps k, if that is better than w."""
    start = best
    for k in _STEPS:
        found = between(problem, start, w_t, z_t, float(k))
        if found.primal < best.primal:
            best = found
    return best
