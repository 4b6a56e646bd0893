"""The solvers, one method per file; `registry` chooses one by name, `base` has the loop that runs them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxmargin.solvers import registry
from maxmargin.solvers.registry import get, names, published, supporting, takes

if TYPE_CHECKING:
    from maxmargin.problem import Problem
    from maxmargin.solvers.base import Result, Solver

__all__ = ["get", "names", "published", "solve", "supporting", "takes"]


def __getattr__(name: str) -> Any:
    """The class of a solver, imported when it is first used: ``solvers.OCAS(mix=0.1)``."""
    if name in registry.classes():
        return registry.class_of(name)
    raise AttributeError(f"module 'maxmargin.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *registry.classes()})


def solve(problem: Problem, solver: str | Solver = "auto", *, tol: float = 1e-3, **options: Any) -> Result:
    """Solve a problem to a certified relative gap.

    Parameters
    ----------
    problem : Problem
    solver : str or Solver
        "auto" (see `maxmargin.solvers.auto`), a name from ``names()``, or a solver object.
    tol : float
        Stop when primal - dual <= tol * primal is proven.
    **options
        `max_iter`, `max_time`, `callbacks`, `start`, `seed`, `checkpoint`, ...: see `maxmargin.solvers.base.run`.

    Returns
    -------
    Result
        With `w`, `alpha`, `certificate`, `history` and `stop_reason`.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> result = solve(Problem([[1.0], [-2.0], [0.5]], [1, -1, -1], loss="hinge"), tol=1e-6)
    >>> result.stop_reason
    'converged'
    """
    from maxmargin.problem import Problem
    from maxmargin.solvers.auto import solve_auto
    from maxmargin.solvers.base import run

    if not isinstance(problem, Problem):
        from maxmargin.solvers import kernel

        return kernel.solve(problem, solver, tol=tol, **options)

    if isinstance(solver, str) and solver == "auto":
        return solve_auto(problem, tol=tol, **options)
    return run(get(solver), problem, tol=tol, **options)
