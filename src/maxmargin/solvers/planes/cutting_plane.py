"""The cutting plane algorithm, CPA: the risk is replaced by a maximum of planes, one more in each iteration.

    (1)  min_w  F(w) = 1/2 |w|^2 + R(w),          R(w) = sum_i C_i phi(t_i)
    (3)  min_w  F_t(w) = 1/2 |w|^2 + R_t(w),      R_t(w) = max(0, max_k a_k'w + b_k) <= R(w)          (6)

    repeat:  w_t = the solution of (3);  add the plane that touches R at w_t                          (5)

Joachims: Training linear SVMs in linear time, KDD 2006. Franc, Sonnenburg: Optimized cutting plane algorithm for
support vector machines, ICML 2008, section 2. The number of iterations does not depend on the number of rows.

Paper -> code: w_t, a, b, R as they are, C/m -> C_i, pi_i -> p_i = C_i phi'(t_i) sign_i (the coefficients of the rows).

What differs from the papers, and why:

* Any convex loss: all that the method asks for is a subgradient.
* F(w_t) goes up and down; the answer is the best of the w_t, and the gap is that between it and the bound F_t(w_t).
* At the kink of the hinge loss (5) has pi_i = 1 and we have 0. Both are subgradients.
* Planes that were not needed for long are dropped; the reduced problem is solved exactly. See `store` and `reduced`.

Where it is slow: large C, and noise. New planes then touch the risk far from the optimum, and hundreds are needed
before any is of use there. `ocas` chooses better ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problem.risks import Structural, SumOfLosses
from maxmargin.solvers.planes.bundle import Bundle


@dataclass(frozen=True)
class CuttingPlane(Bundle):
    """The cutting plane algorithm: the method that SVM-perf, BMRM and OCAS started from, to compare them with.

    Its iteration is that of `Bundle.update`.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=CuttingPlane(), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    name: ClassVar[str] = "cutting_plane"
    risks: ClassVar[tuple[type, ...]] = (SumOfLosses, Structural)
    takes_free_intercept: ClassVar[bool] = True
