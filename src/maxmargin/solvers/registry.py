"""Solvers by name: which there are, and which of them take a loss, a penalty and an intercept.

A name stands for a solver with its default hyper-parameters; a solver object, such as ``DualCD(shrinking=False)``,
may be given wherever a name may. Solvers are imported when they are asked for.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maxmargin._names import unknown

if TYPE_CHECKING:
    from maxmargin.losses import Loss
    from maxmargin.penalties import Penalty
    from maxmargin.solvers.base import Solver

_LINEAR = {  # name: (module, class); imported when asked for
    "dual_cd": ("maxmargin.solvers.coordinate.dual_cd", "DualCD"),
    "block_cd": ("maxmargin.solvers.coordinate.block_cd", "BlockCD"),
    "interior_point": ("maxmargin.solvers.newton.interior_point", "InteriorPoint"),
    "augmented_lagrangian": ("maxmargin.solvers.newton.augmented_lagrangian", "AugmentedLagrangian"),
    "tron": ("maxmargin.solvers.newton.tron", "Tron"),
    "primal_cd": ("maxmargin.solvers.coordinate.primal_cd", "PrimalCD"),
    "ocas": ("maxmargin.solvers.planes.ocas", "OCAS"),
    "cutting_plane": ("maxmargin.solvers.planes.cutting_plane", "CuttingPlane"),
    "bmrm": ("maxmargin.solvers.planes.bmrm", "BMRM"),
    "svmperf": ("maxmargin.solvers.planes.svmperf", "SVMPerf"),
    "lbfgs": ("maxmargin.solvers.newton.lbfgs", "LBFGS"),
    "sub_lbfgs": ("maxmargin.solvers.newton.sub_lbfgs", "SubLBFGS"),
    "olbfgs": ("maxmargin.solvers.stochastic.online_lbfgs", "OnlineLBFGS"),
    "sub_olbfgs": ("maxmargin.solvers.stochastic.online_sub_lbfgs", "OnlineSubLBFGS"),
    "sgd": ("maxmargin.solvers.stochastic.sgd", "SGD"),
    "pegasos": ("maxmargin.solvers.stochastic.pegasos", "Pegasos"),
    "sgd_qn": ("maxmargin.solvers.stochastic.sgd_qn", "SGDQN"),
    "folos": ("maxmargin.solvers.stochastic.folos", "FOLOS"),
    "folos_batch": ("maxmargin.solvers.stochastic.folos_batch", "BatchFOLOS"),
    "gd": ("maxmargin.solvers.textbook.gradient_descent", "GradientDescent"),
    "2gd": ("maxmargin.solvers.textbook.gradient_descent", "NewtonDescent"),
    "sgd_plain": ("maxmargin.solvers.textbook.plain_sgd", "PlainSGD"),
    "2sgd": ("maxmargin.solvers.textbook.plain_sgd", "SecondOrderSGD"),
}


_ALL_CLASSES = {"larank": ("maxmargin.solvers.coordinate.larank", "LaRank")}  # of the risk `CrammerSinger` alone
_PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {  # name: (solver, options)
    "dual_cd_published": ("dual_cd", {"threshold": 1.0}),
    "svmsgd2": ("sgd", {"truncated": False, "average": False, "t0": "typical"}),
    "sgd_qn_published": ("sgd_qn", {"estimate": "secant", "clip": 100.0}),
    "folos_published": ("folos", {"every": 1, "schedule": "steps"}),
}


def classes() -> list[str]:
    """Names of the solvers' classes."""
    return [name for _, name in _LINEAR.values()]


def class_of(name: str) -> Any:
    """The class of this name."""
    module = next(module for module, known in _LINEAR.values() if known == name)
    return getattr(importlib.import_module(module), name)


def published() -> list[str]:
    """Names of methods as their papers have them, where the default of the solver differs; `get` takes them, too.

    Examples
    --------
    >>> get("svmsgd2").truncated
    False
    """
    return list(_PUBLISHED)


def of_all_classes() -> list[str]:
    """Names of solvers that train several classes at once and nothing else; `get` takes them, too."""
    return list(_ALL_CLASSES)


def names() -> list[str]:
    """Names of all solvers.

    Examples
    --------
    >>> names()[0]
    'dual_cd'
    """
    return list(_LINEAR)


def get(solver: str | Solver) -> Solver:
    """The solver of this name, or the solver object itself.

    Examples
    --------
    >>> get("dual_cd")
    DualCD(shrinking=True, order='permutation', threshold=None, epsilon=0.0)
    """
    if hasattr(solver, "init_state"):
        return solver  # type: ignore[return-value]
    if solver in _PUBLISHED:
        base, options = _PUBLISHED[solver]
        return replace(get(base), **options)
    if solver not in _LINEAR and solver not in _ALL_CLASSES:
        raise unknown("solver", solver, ["auto", *names()])
    return _default(solver)  # type: ignore[arg-type]


@functools.cache
def _default(name: str) -> Solver:
    """The solver with its default hyper-parameters, which never change."""
    module, name = (_LINEAR | _ALL_CLASSES)[name]
    return getattr(importlib.import_module(module), name)()


def takes(solver: str | Solver, loss: Loss, penalty: str | Penalty = "l2", *, free_intercept: bool = False) -> bool:
    """Whether a solver takes a loss with this penalty, and an intercept without one if that is asked for."""
    from maxmargin import penalties

    able = get(solver)
    return (
        isinstance(loss, able.losses)
        and isinstance(penalties.get(penalty), able.penalties)
        and (able.takes_free_intercept or not free_intercept)
    )


def supporting(loss: Loss, penalty: str | Penalty = "l2", *, free_intercept: bool = False) -> list[str]:
    """Names of the solvers that `takes` says yes to; to find out, all of them are imported.

    Examples
    --------
    >>> from maxmargin import losses
    >>> supporting(losses.Logistic(), "l1")
    ['primal_cd', 'bmrm', 'folos', 'folos_batch']
    """
    return [name for name in names() if takes(name, loss, penalty, free_intercept=free_intercept)]
