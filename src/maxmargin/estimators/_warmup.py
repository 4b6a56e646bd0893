"""Compile beforehand what the first fits would have to wait for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin._code_cache import compile_seconds

_ROWS, _FEATURES = 60, 4


def warmup(estimators: Iterable[str] = ("LinearSVC", "LinearSVR"), *, dtype: Any = np.float64) -> float:
    """Compile what fits of these estimators need, for dense and for sparse rows.

    Compiled code is kept on disk, so that once for each machine and version is enough; a second call takes a moment.
    Other losses than the default are compiled when they are first asked for.

    Parameters
    ----------
    estimators : iterable of str, default=("LinearSVC", "LinearSVR")
        Names such as "LinearSVC", "LinearSVCCV", "BudgetSVC", "OnlineSVC", "StructuralSVC", "SVC".
    dtype : dtype, default=float64
        Of the values of rows: float64 or float32.

    Returns
    -------
    float
        Seconds that compiling has taken.

    Examples
    --------
    >>> warmup(["LinearSVC"]) >= 0.0
    True
    """
    import maxmargin

    rng, before = np.random.default_rng(0), compile_seconds()
    X = rng.normal(size=(_ROWS, _FEATURES)).astype(dtype)
    y = (X[:, 0] + rng.normal(size=_ROWS) > 0.0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in estimators:
            kind: Any = getattr(maxmargin, name, None)
            if not hasattr(kind, "fit"):
                raise ValueError(f"no estimator of the name {name!r}")
            for rows in (X, _sparse(X)):
                for options in _variants(name):
                    kind(**options).fit(rows, y).predict(rows)
    return compile_seconds() - before


def _sparse(X: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array(X)


def _variants(name: str) -> list[dict[str, Any]]:
    """Parameters with which to fit: the solvers that "auto" may take for the default loss, and then some."""
    if name == "LinearSVC":
        of_squared = [{"solver": solver} for solver in ("dual_cd", "tron", "augmented_lagrangian")]
        of_hinge = [{"loss": "hinge", "solver": solver} for solver in ("dual_cd", "augmented_lagrangian")]
        return [{}, *of_squared, *of_hinge]
    if name == "BudgetSVC":
        return [{"budget": 10}]
    return [{}]
