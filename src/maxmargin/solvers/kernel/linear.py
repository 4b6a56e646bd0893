"""A machine with a linear kernel by way of the linear solvers: an interior point, and from it support vectors.

The interior point (`solvers.newton.interior_point`, free intercept) needs some dozen passes over the rows whatever C
is, where SMO needs n x nSV products. But it keeps every coefficient inside its box, and sum_i beta_i x_i equals its w
only within the gap. So its answer is rounded to that of a kernel machine:

* A row goes to the end of its box that its output asks for (`best_coefficient`) if its coefficient is nearer to that
  end, as a share of C, than the output is to the margin's edge, as a share of the targets' spread. By complementarity
  the product of the two is the same small number for all rows, so few rows remain between.
* These few take up what was rounded: the least change with sum_i beta_i x_i = w and sum_i beta_i = 0. What leaves its
  box is put at its end, and the others are asked again.

The certificate is that of these coefficients, as of any kernel machine. Where it misses the goal, the kernel solvers go
on from them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from maxmargin import kernels
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, as_dense, n_features, take
from maxmargin.losses import is_margin_loss
from maxmargin.problem import Problem
from maxmargin.problem.gram import one_blas_thread
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Result, run
from maxmargin.solvers.kernel.start import Solution, balanced
from maxmargin.solvers.registry import get

_MOST_FEATURES = 1000  # of which the interior point builds a matrix
_ROWS_A_FEATURE = 10  # from which it is faster than the kernel solvers (mnist: equal at C = 1, several times at 100)
_SHARPER = 1e-4  # relative gap of the interior point beside that asked for: the last digits cost it an iteration or two
_SHARPEST = 1e-11
_MOST_FREE = 5000  # rows between the ends of their boxes that one matrix is made of
_ROUNDS = 10


def is_for_linear(problem: KernelProblem) -> bool:
    """Whether the linear solvers are faster on this problem."""
    return (
        isinstance(problem.kernel, kernels.Linear)
        and problem.machine != "one class"
        and not problem.penalize_intercept
        and n_features(problem.rows) <= _MOST_FEATURES
        and problem.n_rows >= _ROWS_A_FEATURE * n_features(problem.rows)
    )


def solve_linear(problem: KernelProblem, *, tol: float, **options: Any) -> Result:
    """Train a linear machine; "converged" if its kernel certificate, with `Result.state.beta`, is within `tol`."""
    source = InMemory((problem.rows._replace(bias=1.0),), problem.n_jobs)
    linear = Problem(source, problem.y, 1.0, problem.loss, sample_weight=problem.cost, penalize_intercept=False)
    result = run(get("interior_point"), linear, tol=max(_SHARPER * tol, min(tol, _SHARPEST)), **options)
    assert result.alpha is not None
    beta = result.alpha * problem.y if is_margin_loss(problem.loss) else result.alpha
    beta = balanced(problem, _rounded(problem, linear, np.clip(beta, problem.lower, problem.upper), result.w))
    f = problem.decision(beta)
    b = problem.intercept(f)
    certificate = problem.certificate(beta, b, f)
    reason = result.stop_reason
    if certificate.relative_gap <= tol and reason != "interrupted":
        reason = "converged"
    elif reason == "converged":
        reason = "stalled"  # as far as the interior point goes
    return replace(result, w=beta, alpha=beta, state=Solution(beta, b), certificate=certificate, stop_reason=reason)


def _rounded(problem: KernelProblem, linear: Problem, beta: Array, w: Array) -> Array:
    """Coefficients near beta, most of them at an end of their boxes or zero, whose combination of rows is w."""
    z = problem.target - linear.outputs(w)
    beyond = np.abs(z) - problem.kink if problem.kink.any() else problem.target * z
    end = np.where(beyond > 0.0, np.where(z > 0.0, problem.upper, problem.lower), 0.0)
    spread = float(problem.target.std()) or 1.0
    is_free = np.abs(beta - end) * spread > np.abs(beyond) * problem.cost
    beta = np.where(is_free, beta, end)
    for _ in range(_ROUNDS):
        free = np.flatnonzero(is_free)
        if not 0 < len(free) <= _MOST_FREE:
            break
        missing = np.append(w[:-1], 0.0) - linear.combine(beta)
        matrix = np.column_stack([as_dense(take(problem.rows, free)), np.ones(len(free))]).T
        with one_blas_thread():  # so that results do not depend on threads
            wanted = beta[free] + lstsq(matrix.astype(np.float64), missing, lapack_driver="gelsy")[0]
        beta[free] = np.clip(wanted, problem.lower[free], problem.upper[free])
        if np.array_equal(beta[free], wanted):
            break
        is_free[free] = beta[free] == wanted
    return beta
