"""The solvers, one method per file, and how to choose one by name.

A name stands for a solver with its default hyper-parameters; a solver object, such as ``DualCD(shrinking=False)``,
may be given wherever a name may.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin.losses import Loss
    from maxmargin.problem import Problem
    from maxmargin.solvers.base import Result, Solver

_LINEAR = {  # name: (module, class); imported when asked for
    "dual_cd": ("maxmargin.solvers.dual_cd", "DualCD"),
    "interior_point": ("maxmargin.solvers.interior_point", "InteriorPoint"),
    "augmented_lagrangian": ("maxmargin.solvers.augmented_lagrangian", "AugmentedLagrangian"),
    "tron": ("maxmargin.solvers.tron", "Tron"),
    "primal_cd": ("maxmargin.solvers.primal_cd", "PrimalCD"),
    "ocas": ("maxmargin.solvers.ocas", "OCAS"),
    "cutting_plane": ("maxmargin.solvers.cutting_plane", "CuttingPlane"),
    "bmrm": ("maxmargin.solvers.bmrm", "BMRM"),
    "svmperf": ("maxmargin.solvers.svmperf", "SVMPerf"),
    "lbfgs": ("maxmargin.solvers.lbfgs", "LBFGS"),
    "sub_lbfgs": ("maxmargin.solvers.sub_lbfgs", "SubLBFGS"),
    "olbfgs": ("maxmargin.solvers.online_lbfgs", "OnlineLBFGS"),
    "sgd": ("maxmargin.solvers.sgd", "SGD"),
    "pegasos": ("maxmargin.solvers.pegasos", "Pegasos"),
    "sgd_qn": ("maxmargin.solvers.sgd_qn", "SGDQN"),
    "folos": ("maxmargin.solvers.folos", "FOLOS"),
    "gd": ("maxmargin.solvers.gradient_descent", "GradientDescent"),
    "2gd": ("maxmargin.solvers.gradient_descent", "NewtonDescent"),
    "sgd_plain": ("maxmargin.solvers.gradient_descent", "PlainSGD"),
    "2sgd": ("maxmargin.solvers.gradient_descent", "SecondOrderSGD"),
}


def names() -> list[str]:
    """Names of all solvers."""
    return list(_LINEAR)


def get(solver: str | Solver) -> Solver:
    """The solver of this name, or the solver object itself.

    Examples
    --------
    >>> get("dual_cd")
    DualCD(shrinking=True, order='permutation')
    """
    from maxmargin.solvers.base import Solver

    if isinstance(solver, Solver):
        return solver
    if solver not in _LINEAR:
        raise ValueError(f"unknown solver {solver!r}; choose one of auto, {', '.join(names())}")
    module, name = _LINEAR[solver]
    return getattr(importlib.import_module(module), name)()


def takes(solver: str | Solver, loss: Loss, penalty: str = "l2", *, free_intercept: bool = False) -> bool:
    """Whether a solver takes a loss with this penalty, and an intercept without one if that is asked for."""
    able = get(solver)
    return (
        isinstance(loss, able.losses)
        and penalty in able.penalties
        and (able.takes_free_intercept or not free_intercept)
    )


def supporting(loss: Loss, penalty: str = "l2", *, free_intercept: bool = False) -> list[str]:
    """Names of the solvers that `takes` says yes to; to find out, all of them are imported."""
    return [name for name in names() if takes(name, loss, penalty, free_intercept=free_intercept)]


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
    from maxmargin.solvers.auto import solve_auto
    from maxmargin.solvers.base import run

    if isinstance(solver, str) and solver == "auto":
        return solve_auto(problem, tol=tol, **options)
    return run(get(solver), problem, tol=tol, **options)
