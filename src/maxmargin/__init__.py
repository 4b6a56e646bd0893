"""Support vector machines for large data, each answer with a certificate of its distance from the optimum."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from maxmargin import kernels, losses, measures, solvers
    from maxmargin.data.stream import stream_svmlight
    from maxmargin.data.svmlight import load_svmlight, save_svmlight
    from maxmargin.estimators._suggest import suggest_rbf
    from maxmargin.estimators.budget import BudgetSVC
    from maxmargin.estimators.linear import LinearSVC, LinearSVR
    from maxmargin.estimators.measures import StructuralSVC
    from maxmargin.estimators.online import OnlineSVC
    from maxmargin.estimators.selection import LinearSVCCV
    from maxmargin.models.estimator import load
    from maxmargin.paths import RegularizationPath, path
    from maxmargin.problem import Certificate, Problem
    from maxmargin.solvers import solve

# Public names and where they live. They are imported when first used: `import maxmargin` costs nothing.
_HOME = {
    "BudgetSVC": "maxmargin.estimators.budget",
    "Certificate": "maxmargin.problem",
    "LinearSVC": "maxmargin.estimators.linear",
    "LinearSVCCV": "maxmargin.estimators.selection",
    "LinearSVR": "maxmargin.estimators.linear",
    "OnlineSVC": "maxmargin.estimators.online",
    "Problem": "maxmargin.problem",
    "RegularizationPath": "maxmargin.paths",
    "StructuralSVC": "maxmargin.estimators.measures",
    "load": "maxmargin.models.estimator",
    "load_svmlight": "maxmargin.data.svmlight",
    "path": "maxmargin.paths",
    "save_svmlight": "maxmargin.data.svmlight",
    "solve": "maxmargin.solvers",
    "stream_svmlight": "maxmargin.data.stream",
    "suggest_rbf": "maxmargin.estimators._suggest",
}
_MODULES = ("kernels", "losses", "measures", "solvers")

__all__ = [
    "BudgetSVC",
    "Certificate",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "OnlineSVC",
    "Problem",
    "RegularizationPath",
    "StructuralSVC",
    "__version__",
    "kernels",
    "load",
    "load_svmlight",
    "losses",
    "measures",
    "path",
    "save_svmlight",
    "solve",
    "solvers",
    "stream_svmlight",
    "suggest_rbf",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"maxmargin.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
