"""The reduced problem of cutting-plane methods with the L1 penalty: a linear program, solved by HiGHS.

    min_w  |w|_1 + max(0, max_k a_k'w + b_k)   =   max_alpha  b'alpha,    alpha >= 0,  sum_k alpha_k <= 1,
                                                                          |sum_k alpha_k a_kj| <= 1 for every j

The left side is put as  w = u - v,  min sum u + sum v + xi,  A(u - v) + b <= xi,  u, v, xi >= 0.  No risk here is
negative, so xi need not be, and that makes the first programs bounded: 1/2 |w|^2 would hold w back whatever the planes
are, |w|_1 does not where some |a_j| > 1.

A linear program is solved up to tolerances, a certificate must hold without: alpha from the solver is cut to zero, and
divided by what it takes to satisfy the constraints. b'alpha is then a bound, whatever the solver did.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.solvers.planes.store import Planes

_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def reduce_l1(planes: Planes) -> tuple[Planes, Array, float]:
    """Solve the reduced problem: the planes with their new alpha, its solution w_t, and a bound on its value."""
    n = planes.n
    w, alpha = _solve(planes.a[:n], planes.b[:n])
    bound = float(planes.b[:n] @ alpha)
    working = np.flatnonzero(alpha)
    planes.alpha[:n] = alpha
    planes.idle[:n] += 1
    planes.idle[working] = 0
    planes.order[: len(working)] = working
    return planes._replace(n_working=len(working)), w, bound


def _solve(a: Array, b: Array) -> tuple[Array, Array]:
    """(w, alpha); alpha is feasible."""
    from scipy.optimize import linprog

    n_planes, n = a.shape
    used = np.flatnonzero(np.abs(a).max(axis=0) > 0.0)  # a weight that is in no plane is zero
    slopes = a[:, used]
    costs = np.ones(2 * len(used) + 1)
    constraints = np.hstack([slopes, -slopes, np.full((n_planes, 1), -1.0)])
    w = np.zeros(n)
    for options in (_EXACT, {}):
        answer = linprog(costs, constraints, -b, bounds=(0.0, None), method="highs", options=options)
        if answer.x is not None:
            break
    else:  # no progress then, but nothing false either
        return w, np.zeros(n_planes)
    w[used] = answer.x[: len(used)] - answer.x[len(used) : -1]
    alpha = np.maximum(-answer.ineqlin.marginals, 0.0)
    return w, alpha / max(1.0, float(alpha.sum()), float(np.abs(alpha @ slopes).max(initial=0.0)))
