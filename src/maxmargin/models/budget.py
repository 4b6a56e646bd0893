"""Kernel classifiers of fixed size as trees, with the whole state of their training: `partial_fit` goes on after
`load` as if nothing had happened."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.kernels import as_support
from maxmargin.models.contents import Expansion, kernel_parts


def tree_of(estimator: Any) -> dict[str, Any]:
    """What is particular to a fitted `BudgetSVC`."""
    state, size = estimator._state, estimator._state.counters.size
    certificates = None if estimator.certificate_ is None else np.array(estimator.certificates_)
    return {
        "kernel": estimator.kernel_,
        "support_vectors": np.ascontiguousarray(estimator.support_vectors_),
        "dual_coef": state.coefficients,
        "intercept": state.intercepts,
        "state": {
            "budget": int(estimator.budget_),
            "n": float(state.n),
            "norms2": state.support.norms2[:size],
            "alpha": np.ascontiguousarray(state.alpha[:, :size]),
            "offset": state.offset,
            "rng": state.rng,
            "counters": state.counters,
        },
        "training": {
            "stop_reason": estimator.stop_reason_,
            "n_iter": int(estimator.n_iter_),
            "certificates": certificates,
            "history": estimator.history_,
        },
    }


def restore(estimator: Any, tree: dict[str, Any]) -> None:
    """Give an estimator with parameters and `classes_` the rest of what `tree_of` has told."""
    from maxmargin.problem import Certificate

    parts, training = kernel_parts("BudgetSVC", tree), tree["training"]
    estimator.kernel_, estimator.n_features_in_ = parts.kernel, parts.vectors.shape[1]
    estimator.budget_ = _checked_budget(tree["state"]["budget"], len(parts.vectors))
    estimator._keep_state(_state(parts, tree["state"]))
    estimator.solver_ = estimator._solver_of_passes(estimator.kernel_, estimator.budget_)
    estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
    estimator.history_ = {str(name): np.array(column, dtype=float) for name, column in training["history"].items()}
    found = training["certificates"]
    certificates = [Certificate(*map(float, bounds)) for bounds in (() if found is None else found)]
    if len(certificates) not in (0, len(parts.coefficients)):
        raise ValueError(f"{len(certificates)} certificates of {len(parts.coefficients)} problems")
    estimator.certificate_ = certificates[0] if len(certificates) == 1 else certificates or None


def _checked_budget(budget: Any, size: int) -> int:
    if type(budget) is not int or budget < max(2, size):
        raise ValueError(f"a budget of {budget!r} does not fit {size} support vectors")
    return budget


def _state(parts: Expansion, packed: dict[str, Any]) -> Any:
    """The state of the training. Room up to the budget is made when the training goes on, not here."""
    from maxmargin.solvers.budget.state import BudgetState, Counters

    size, n_outputs = len(parts.vectors), len(parts.coefficients)
    alpha, offset, norms2, rng = (np.array(packed[name]) for name in ("alpha", "offset", "norms2", "rng"))
    if alpha.shape != (n_outputs, size) or offset.shape != (n_outputs,) or norms2.shape != (size,):
        raise ValueError(f"alpha {alpha.shape}, offset {offset.shape} and norms2 {norms2.shape} do not fit")
    if not alpha.dtype == offset.dtype == parts.coefficients.dtype == parts.intercept.dtype == np.float64:
        raise ValueError("coefficients are of another type of numbers")
    if norms2.dtype != parts.vectors.dtype or not all(np.isfinite(a).all() for a in (alpha, offset, norms2)):
        raise ValueError("the state has numbers that make no sense")
    if rng.shape != (1,) or rng.dtype != np.uint64 or rng[0] == 0:
        raise ValueError("not a random state")
    types: dict[str, Any] = {name: type(default) for name, default in zip(Counters._fields, Counters())}
    given = packed["counters"]
    counters = Counters(**{name: types[name](float(given[name])) for name in types if name in given})
    n = float(packed["n"])
    if counters.size != size or counters.steps < 0 or not 0.0 < n < math.inf:
        raise ValueError(f"counters {counters} do not fit {size} support vectors")
    support = as_support(parts.vectors, parts.vectors.dtype, capacity=size)
    support.norms2[:size] = norms2  # as they were computed, to the last bit
    rooms = np.zeros((2, n_outputs, len(support.norms2)))
    rooms[0, :, :size], rooms[1, :, :size] = alpha, parts.coefficients
    order = np.zeros(0, np.uint32)
    return BudgetState(support, rooms[0], offset, rooms[1], np.array(parts.intercept), order, rng, n, counters)
