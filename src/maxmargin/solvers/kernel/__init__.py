"""Solvers of kernel machines (`maxmargin.problem.kernel_problem`), one method a file; how to choose one by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maxmargin.solvers.kernel.registry import get, names

if TYPE_CHECKING:
    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers.base import Result, Solver

__all__ = ["get", "names", "solve", "solve_pairs"]

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


def solve_pairs(
    problems: Sequence[KernelProblem], solver: str | Solver, *, tol: float, started: float, **options: Any
) -> list[Result | None]:
    """What some steps of plain SMO, in one call for all, find of several small problems; None where that is too little.

    Parameters
    ----------
    problems : Sequence of KernelProblem
        With a method `together`; see `maxmargin.solvers.kernel.small`.
    solver, tol :
        As of `solve`.
    started : float
        When `max_time` began.
    **options
        Those of `run`; and `n_jobs`.
    """
    from maxmargin.solvers.kernel.small import solve_together

    n_jobs = options.pop("n_jobs")
    nothing: list[Result | None] = [None] * len(problems)
    if solver != "auto" or len(problems) == 1 or is_watched(options):
        return nothing
    whole = problems.together()  # type: ignore[attr-defined]
    if whole is None or whole.program.diagonal.any():
        return nothing
    goes_on = clock(options.get("max_time"), options.get("interrupt"), started)
    found = solve_together(whole, problems.problem.kernel, n_jobs=n_jobs, goes_on=goes_on)  # type: ignore[attr-defined]
    return [quick if _is_enough(quick, tol) else _ended(problems[k], quick, tol) for k, quick in enumerate(found)]


def _solve(problem: KernelProblem, solver: str | Solver, tol: float, options: dict[str, Any]) -> Result:
    from maxmargin.problem.duplicates import merge_duplicates
    from maxmargin.solvers.base import run
    from maxmargin.solvers.kernel.small import is_small
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
    quick = _quickly(smaller, start, options) if is_small(smaller) and not is_watched(options) else None
    result = _ended(smaller, quick, tol)
    if result is None:
        begun = quick is not None and math.isfinite(quick.certificate.gap)
        result = _by_blocks(smaller, method, tol, quick if begun else start, options)
    if merged is None and result is quick:
        return result
    state = result.state
    if merged is not None:
        state = Solution(merged.expand(state.beta), state.intercept)
    return replace(result, w=state.beta, alpha=state.beta, state=state)


def is_watched(options: dict[str, Any]) -> bool:
    """Whether a run has somebody who is to see it, or a limit that it may meet: then it is one of the loop's."""
    return bool(options.get("callbacks") or options.get("checkpoint") or options.get("give_up")) or (
        (options.get("max_iter") or math.inf) < _QUICK_PASSES
    )


def _quickly(problem: KernelProblem, start: Any, options: dict[str, Any]) -> Result | None:
    """A small problem by some steps of plain SMO, which are enough for most; None if there is no time."""
    from maxmargin.solvers.kernel.small import alone, solve_together
    from maxmargin.solvers.kernel.start import starting_point

    begin, goes_on = starting_point(problem, start), clock(options.get("max_time"), options.get("interrupt"))
    return solve_together(alone(problem), problem.kernel, start=begin, scale=problem.scale, goes_on=goes_on)[0]


def clock(max_time: float | None, interrupt: Any, started: float | None = None) -> Callable[[], bool]:
    """Whether there is time left, and nobody has interrupted."""
    from maxmargin._code_cache import working_time

    end = math.inf if max_time is None else (working_time() if started is None else started) + max_time
    return lambda: working_time() < end and not (interrupt is not None and interrupt.is_set())


def _is_enough(quick: Result | None, tol: float) -> bool:
    return quick is not None and quick.stop_reason == "converged" and quick.certificate.relative_gap <= tol


def _ended(problem: KernelProblem, quick: Result | None, tol: float) -> Result | None:
    """What some steps have found, if it is good enough by itself or with its last digits."""
    if quick is None or not quick.certificate.relative_gap <= max(tol, _FIRST_TOL):
        return None
    if _is_enough(quick, tol):
        return quick
    return _polished(replace(quick, stop_reason="converged"), problem, tol)


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
