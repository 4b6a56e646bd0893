"""The last digits of small problems: Newton steps on the free coefficients, with an active set.

At the optimum every row is at a bound, at zero or free, and the free ones solve a linear system with the intercept:

    K_FF beta_F + D_F beta_F + b = t_F - s_F eps_F - K_FB beta_B,      sum beta_F = total - sum beta_B,

where s is the sign of a free coefficient and B are the rows at a bound. Begun with the sets of a solution that is
almost right, this primal-dual active set method (Hintermüller, Ito, Kunisch 2002) ends within a few steps, and its
answer depends on neither the order of the rows nor the tolerance: a row of weight two is a row given twice, to the
last digits. A singular system is solved by proximal steps. Where the method does not end, or proves no smaller gap,
the solution stays what it was.
"""

from __future__ import annotations

import numpy as np

from maxmargin import kernels
from maxmargin.data.rows import Array
from maxmargin.problem.gram import one_blas_thread
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_program import KernelCertificate
from maxmargin.solvers.kernel.start import Solution

MOST_ROWS = 512  # of a problem that is worth it: its kernel matrix takes two megabytes
_STEPS = 30
_PROXIMAL_STEPS = 20
_RIDGE = 1e-7  # of the largest diagonal entry, in the first proximal step
_SHRINK = 0.1  # what it becomes where such steps no longer gain, and tol is not reached
_SMALL = 1e-11  # violation that may be a rounding error, relative to the largest number that it is made of


def polish(problem: KernelProblem, beta: Array, gap: float, tol: float) -> tuple[Solution, KernelCertificate] | None:
    """A solution with a smaller gap than this, if there is one near beta; its certificate is computed in float64."""
    n = problem.n_rows
    if n > MOST_ROWS or problem.penalize_intercept:
        return None
    problem = problem.with_kept_values()
    with one_blas_thread():  # or the last bits would depend on what other threads do
        return _polished(problem, problem.values.matrix, beta, gap, tol)


def _polished(
    problem: KernelProblem, K: Array, beta: Array, gap: float, tol: float
) -> tuple[Solution, KernelCertificate] | None:
    ridge = _RIDGE * max(float(np.abs(np.diagonal(K)).max()), 1e-300)
    best = _certified(problem, _active_set(problem, K, beta, 0.0))
    if best is not None and best[1].gap <= min(gap, _SMALL * abs(best[1].primal)):
        return best
    for _ in range(_PROXIMAL_STEPS):  # where the system is singular, as that of a linear kernel often is
        new = _certified(problem, _active_set(problem, K, beta, ridge))
        if new is None:
            break
        if best is None or new[1].gap <= 0.5 * best[1].gap:
            best, beta = new, new[0].beta
        elif best[1].relative_gap > tol and kernels.is_positive(problem.kernel):
            ridge *= _SHRINK
        else:
            break
    return best if best is not None and best[1].gap <= gap else None


def _certified(
    problem: KernelProblem, found: tuple[Array, float | None] | None
) -> tuple[Solution, KernelCertificate] | None:
    if found is None:
        return None
    beta, b = found
    f = problem.decision(beta)
    b = problem.intercept(f) if b is None else b
    return Solution(beta, b), problem.certificate(beta, b, f)


def _active_set(problem: KernelProblem, K: Array, start: Array, ridge: float) -> tuple[Array, float | None] | None:
    """Coefficients and intercept (None: the best one) that a step would not change; None if there are none.

    With a ridge, this is a proximal step: ridge/2 |beta - start|^2 is added to the objective.
    """
    p = problem.program
    target, diagonal = p.target + ridge * start, p.diagonal + ridge
    upper, lower = np.where(p.upper > 0.0, p.upper, np.inf), np.where(p.lower < 0.0, p.lower, -np.inf)
    side = np.where(start >= upper, 2, np.where(start <= lower, -2, np.sign(start))).astype(int)  # 1 and -1: free
    for _ in range(_STEPS):
        free = np.abs(side) == 1
        new = np.where(side == 2, p.upper, np.where(side == -2, p.lower, 0.0))
        b = None
        if free.any():
            system = np.block([[K[np.ix_(free, free)] + np.diag(diagonal[free]), np.ones((free.sum(), 1))],
                               [np.ones((1, free.sum())), np.zeros((1, 1))]])  # fmt: skip
            wanted = (target - side * p.kink - K @ new)[free]
            try:
                solution = np.linalg.solve(system, np.append(wanted, problem.total - new.sum()))
            except np.linalg.LinAlgError:
                return None
            new[free], b = solution[:-1], float(solution[-1])
        f = K @ new
        z = target - f - diagonal * new - (problem.intercept(f) if b is None else b)
        moved = _next_sides(p, side, new, z, upper, lower)
        if np.array_equal(moved, side):
            return np.clip(new, p.lower, p.upper), None if ridge else b
        side = moved
    return None


def _next_sides(p, side, beta, z, upper, lower):  # type: ignore[no-untyped-def]
    """Where each row belongs: out of bounds at the bound, and off it if that lowers the objective."""
    eps = _SMALL * (1.0 + np.abs(p.target) + np.abs(beta).max(initial=0.0))
    up, down = z - p.kink > eps, z + p.kink < -eps  # which way a coefficient of zero would go
    moved = side.copy()
    moved[(side == 0) & up & (p.upper > 0.0)] = 1
    moved[(side == 0) & down & (p.lower < 0.0)] = -1
    moved[(side == 2) & (z - p.kink < -eps)] = 1
    moved[(side == -2) & (z + p.kink > eps)] = -1
    moved[(side == 1) & (beta < -eps) | (side == -1) & (beta > eps)] = 0
    moved[(side == 1) & (beta > upper + eps)] = 2
    moved[(side == -1) & (beta < lower - eps)] = -2
    return moved
