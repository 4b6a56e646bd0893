"""Support vector machines for large data, each answer with a certificate of its distance from the optimum."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from maxmargin import export, kernels, losses, measures, solvers
    from maxmargin.certificate import Certificate
    from maxmargin.data.store import open_store, pack
    from maxmargin.data.stream import stream_svmlight
    from maxmargin.data.svmlight import load_svmlight, save_svmlight
    from maxmargin.displays import BudgetDisplay, ConvergenceDisplay, PathDisplay
    from maxmargin.estimators._suggest import suggest_rbf
    from maxmargin.estimators._warmup import warmup
    from maxmargin.estimators.budget import BudgetSVC
    from maxmargin.estimators.compress import compress
    from maxmargin.estimators.kernel_selection import SVCCV, SVRCV
    from maxmargin.estimators.linear import LinearSVC, LinearSVR
    from maxmargin.estimators.measures import StructuralSVC
    from maxmargin.estimators.one_class import OneClassSVM
    from maxmargin.estimators.online import OnlineSVC
    from maxmargin.estimators.selection import LinearSVCCV
    from maxmargin.estimators.svc import SVC
    from maxmargin.estimators.svr import SVR
    from maxmargin.models.estimator import load
    from maxmargin.problem import Problem
    from maxmargin.selection.paths import path
    from maxmargin.selection.regularization_path import RegularizationPath
    from maxmargin.solvers import solve
    from maxmargin.solvers.interrupts import catch_interrupt

# Public names and where they live. They are imported when first used: `import maxmargin` costs nothing.
_HOME = {
    "BudgetDisplay": "maxmargin.displays",
    "BudgetSVC": "maxmargin.estimators.budget",
    "Certificate": "maxmargin.certificate",
    "ConvergenceDisplay": "maxmargin.displays",
    "LinearSVC": "maxmargin.estimators.linear",
    "LinearSVCCV": "maxmargin.estimators.selection",
    "LinearSVR": "maxmargin.estimators.linear",
    "OnlineSVC": "maxmargin.estimators.online",
    "PathDisplay": "maxmargin.displays",
    "Problem": "maxmargin.problem",
    "RegularizationPath": "maxmargin.selection.regularization_path",
    "OneClassSVM": "maxmargin.estimators.one_class",
    "SVC": "maxmargin.estimators.svc",
    "SVCCV": "maxmargin.estimators.kernel_selection",
    "SVR": "maxmargin.estimators.svr",
    "SVRCV": "maxmargin.estimators.kernel_selection",
    "StructuralSVC": "maxmargin.estimators.measures",
    "catch_interrupt": "maxmargin.solvers.interrupts",
    "compress": "maxmargin.estimators.compress",
    "load": "maxmargin.models.estimator",
    "load_svmlight": "maxmargin.data.svmlight",
    "open_store": "maxmargin.data.store",
    "pack": "maxmargin.data.store",
    "path": "maxmargin.selection.paths",
    "save_svmlight": "maxmargin.data.svmlight",
    "solve": "maxmargin.solvers",
    "stream_svmlight": "maxmargin.data.stream",
    "suggest_rbf": "maxmargin.estimators._suggest",
    "warmup": "maxmargin.estimators._warmup",
}
_MODULES = ("callbacks", "export", "kernels", "losses", "measures", "penalties", "solvers")

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "SVRCV",
    "BudgetDisplay",
    "BudgetSVC",
    "Certificate",
    "ConvergenceDisplay",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "OneClassSVM",
    "OnlineSVC",
    "PathDisplay",
    "Problem",
    "RegularizationPath",
    "StructuralSVC",
    "__version__",
    "callbacks",
    "catch_interrupt",
    "compress",
    "export",
    "kernels",
    "load",
    "load_svmlight",
    "losses",
    "measures",
    "open_store",
    "pack",
    "path",
    "penalties",
    "save_svmlight",
    "solve",
    "solvers",
    "stream_svmlight",
    "suggest_rbf",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"maxmargin.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
