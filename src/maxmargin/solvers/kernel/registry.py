"""Kernel solvers by name; imported when they are asked for."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from maxmargin._names import unknown

if TYPE_CHECKING:
    from maxmargin.solvers.base import Solver

_SOLVERS = {  # name: (module, class); imported when asked for
    "auto": ("block_smo", "BlockSMO"),
    "block_smo": ("block_smo", "BlockSMO"),
    "smo": ("smo", "SMO"),
    "svmlight": ("svmlight", "SVMLight"),
    "cvm": ("cvm", "CVM"),
    "bvm": ("cvm", "BVM"),
    "kernel_pegasos": ("kernel_pegasos", "KernelPegasos"),
    "norma": ("norma", "NORMA"),
    "nystroem": ("features", "Nystroem"),
    "fourier": ("features", "Fourier"),
}
_ALL_CLASSES = {"kernel_larank": ("kernel_larank", "KernelLaRank")}  # of problems of `kernel_classes` alone


def names() -> list[str]:
    """Names of all kernel solvers; "auto" is the first."""
    return list(_SOLVERS)


def of_all_classes() -> list[str]:
    """Names of solvers that train several classes at once and nothing else; `get` takes them, too."""
    return list(_ALL_CLASSES)


def get(solver: str | Solver) -> Solver:
    """The kernel solver of this name, or the solver object itself.

    Examples
    --------
    >>> get("smo")
    SMO(shrinking=True)
    """
    if not isinstance(solver, str):
        return solver
    if solver not in _SOLVERS | _ALL_CLASSES:
        raise unknown("kernel solver", solver, names())
    return _made(solver)


@functools.cache
def _made(solver: str) -> Solver:
    module, name = (_SOLVERS | _ALL_CLASSES)[solver]
    return getattr(importlib.import_module(f"maxmargin.solvers.kernel.{module}"), name)()
