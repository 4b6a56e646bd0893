"""Solvers of kernel machines (`maxmargin.problem.kernel_problem`), one method a file; how to choose one by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.solvers.kernel.registry import get, names

if TYPE_CHECKING:
    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers.base import Result, Solver

__all__ = ["get", "names", "solve"]

_PASSES = 4000.0  # of plain SMO on a small problem, where "auto" has come to no end
_QUICK_PASSES = 60.0  # of plain SMO on a small problem, before others are asked
_FIRST_TOL = 1e-3  # to which small problems are solved before their active set is tried
_ALL_DIGITS = 1e-10  # relative gap of an answer that needs no more


def solve(problem: KernelProblem, solver: str | Solver = "auto", *, tol: float = 1e-3, **options: Any) -> Result:
    """Train a kernel machine to a certified relative gap.

    Parameters
    ----------
    problem : KernelProblem
    solver : str or Solver
        A name from ``names()`` or a solver object. "auto" trains on each distinct row once, with
        "block_smo", or with "smo" if they are few. It ends small problems by an active set method (`polish`) where they
        do not have all digits yet. A linear kernel on many rows goes to the linear solvers (`linear`).
    tol : float
        Stop when primal - dual <= tol * |primal| is proven.
    **options
        `max_iter`, `max_time`, `callbacks`, `start`, `seed`, `checkpoint`, ...: see `maxmargin.solvers.base.run`.

    Returns
    -------
    Result
        `w` and `alpha` are the signed coefficients beta, one a row; ``result.state.intercept`` is the intercept. Of
        "nystroem" and "fourier", `w` are weights of approximate features and the certificate is that of the
        approximated problem: see `maxmargin.solvers.kernel.features`.

    Examples
    --------
    >>> from maxmargin.problem.kernel_problem import KernelProblem
    >>> result = solve(KernelProblem([[1.0], [-2.0], [0.5]], [1, -1, -1], kernel="rbf"), "smo", tol=1e-6)
    >>> result.stop_reason
    'converged'
    """
    from maxmargin.problem.gram import one_blas_thread

    with one_blas_thread():  # once for all: BLAS threads that are woken for a long vector wait on a processor of ours
        return _solve(problem, solver, tol, options)


def _solve(problem: KernelProblem, solver: str | Solver, tol: float, options: dict[str, Any]) -> Result:
    from maxmargin.problem.duplicates import merge_duplicates
    from maxmargin.solvers.base import run
    from maxmargin.solvers.kernel.polish import MOST_ROWS
    from maxmargin.solvers.kernel.start import Solution, starting_coefficients

    method = get(solver)
    if hasattr(method, "solve"):  # by way of a linear machine
        return method.solve(problem, tol=tol, **options)
    if solver != "auto":
        return run(method, problem, tol=tol, **options)  # type: ignore[arg-type]
    merged = merge_duplicates(problem)
    smaller = problem if merged is None else merged.problem
    start = options.pop("start", None)
    if start is not None and merged is not None:
        start = merged.contract(starting_coefficients(problem, start))
    is_small = smaller.n_rows <= MOST_ROWS
    is_watched = options.get("callbacks") or options.get("checkpoint")  # which are to see one solver, not two
    quick = _quickly(smaller, tol, start, options) if is_small and not is_watched else None
    if quick is not None and (quick.stop_reason != "max_iter" or quick.passes >= (options.get("max_iter") or np.inf)):
        result = quick
    else:
        result = _by_blocks(smaller, method, tol, start if quick is None else quick, options)
    state = result.state
    if merged is not None:
        state = Solution(merged.expand(state.beta), state.intercept)
    return replace(result, w=state.beta, alpha=state.beta, state=state)


def _quickly(problem: KernelProblem, tol: float, start: Any, options: dict[str, Any]) -> Result | None:
    """A small problem by a few steps of SMO on its whole kernel matrix, which is enough for most; None if they fail."""
    from maxmargin.solvers.base import run

    kept, limit = problem.with_kept_values(), min(options.get("max_iter") or _QUICK_PASSES, _QUICK_PASSES)
    result = run(get("smo"), kept, tol=max(tol, _FIRST_TOL), start=start, **options | {"max_iter": limit})  # type: ignore[arg-type]
    better = _polished(result, kept, tol)
    if better is not None:
        return better
    return result if result.stop_reason not in ("converged", "stalled", "rounding") else None


def _by_blocks(problem: KernelProblem, method: Any, tol: float, start: Any, options: dict[str, Any]) -> Result:
    """Block SMO, or the linear solvers for a linear kernel on many rows; small problems then get their last digits."""
    from maxmargin.solvers.base import run
    from maxmargin.solvers.kernel.linear import is_for_linear, solve_linear
    from maxmargin.solvers.kernel.polish import MOST_ROWS

    if problem.n_rows > MOST_ROWS:
        if not is_for_linear(problem):
            return run(method, problem, tol=tol, start=start, **options)  # type: ignore[arg-type]
        result = solve_linear(problem, tol=tol, **options)
        return run(method, problem, tol=tol, start=result, **options) if result.stop_reason == "stalled" else result  # type: ignore[arg-type]
    result = run(method, problem, tol=max(tol, _FIRST_TOL), start=start, **options)  # type: ignore[arg-type]
    better = _polished(result, problem, tol)
    if better is None and result.stop_reason == "converged" and result.certificate.relative_gap > tol:
        result = run(method, problem, tol=tol, start=result, **options)  # type: ignore[arg-type]
        better = _polished(result, problem, tol)
    result = better or result
    if result.stop_reason != "stalled":
        return result
    limit = min(options.get("max_iter") or _PASSES, _PASSES)  # singular systems, such as of rows around the origin
    rest, kept = options | {"max_iter": limit, "checkpoint": None}, problem.with_kept_values()
    other = run(get("smo"), kept, tol=tol, start=result, **rest)  # type: ignore[arg-type]
    return other if other.certificate.gap < result.certificate.gap else result


def _polished(result: Result, problem: KernelProblem, tol: float) -> Result | None:
    """The result with all its digits, if it then has the gap that was asked for, or rounding ended it anyhow."""
    from maxmargin.solvers.kernel.polish import polish

    if result.stop_reason not in ("converged", "rounding", "stalled"):
        return None
    if result.certificate.relative_gap <= min(tol, _ALL_DIGITS):
        return result
    found = polish(problem, result.state.beta, result.certificate.gap, tol)
    if found is None or (found[1].relative_gap > tol and result.stop_reason == "converged"):
        return None
    reason = "converged" if found[1].relative_gap <= tol else result.stop_reason
    return replace(result, state=found[0], certificate=found[1], stop_reason=reason)
