"""Kernel classifiers of fixed size to and from model files.

The file holds the whole state of the training, so that `partial_fit` goes on after `load` as if nothing had happened.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin import kernels
from maxmargin.kernels import Kernel, as_support
from maxmargin.problem import Certificate

Arrays = dict[str, np.ndarray]


def pack(estimator: Any) -> tuple[dict[str, Any], Arrays]:
    """What is particular to a fitted `BudgetSVC`, as the `info` and the arrays of a file."""
    state = estimator._state
    size = state.counters.size
    info: dict[str, Any] = {
        "kernel": pack_kernel(estimator.kernel_),
        "training": {"stop_reason": estimator.stop_reason_, "n_iter": int(estimator.n_iter_)},
        "state": {
            "budget": int(estimator.budget_),
            "n": float(state.n),
            "counters": [None if math.isnan(number) else number for number in map(float, state.counters)],
        },
    }
    arrays = {
        "support_vectors": np.ascontiguousarray(estimator.support_vectors_),
        "norms2": state.support.norms2[:size],
        "alpha": np.ascontiguousarray(state.alpha[:, :size]),
        "offset": state.offset,
        "mean": state.coefficients,
        "mean_offset": state.mean_offset,
        "stream": state.stream,
    }
    if estimator.certificate_ is not None:
        certificates = estimator.certificate_
        arrays["certificates"] = np.array(certificates if isinstance(certificates, list) else [certificates])
    arrays |= {f"history.{name}": column for name, column in estimator.history_.items()}
    return info, arrays


def restore(estimator: Any, info: dict[str, Any], arrays: Arrays) -> None:
    """Give an estimator with parameters and `classes_` the rest of what `pack` has packed."""
    from maxmargin.solvers.budget_sgd import BudgetState, Counters

    vectors, norms2 = arrays["support_vectors"], arrays["norms2"]
    expansions = (arrays["alpha"], arrays["offset"]), (arrays["mean"], arrays["mean_offset"])
    n_outputs = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
    numbers: list[Any] = [math.nan if number is None else float(number) for number in info["state"]["counters"]]
    types: list[Any] = [type(default) for default in Counters()]
    counters = Counters(*(kind(number) for kind, number in zip(types, numbers, strict=True)))
    for alpha, offset in expansions:
        if vectors.ndim != 2 or alpha.shape != (n_outputs, len(vectors)) or offset.shape != (n_outputs,):
            shapes = f"vectors {vectors.shape}, coefficients {alpha.shape} and offset {offset.shape}"
            raise ValueError(f"{shapes} do not fit")
        if alpha.dtype != np.float64 or offset.dtype != np.float64:
            raise ValueError("coefficients are of another type of numbers")
        if not (np.isfinite(alpha).all() and np.isfinite(offset).all()):
            raise ValueError("coefficients are not finite")
    if norms2.shape != (len(vectors),) or norms2.dtype != vectors.dtype:
        raise ValueError(f"squared lengths {norms2.shape} do not fit the support vectors")
    if vectors.dtype not in (np.float32, np.float64):
        raise ValueError("support vectors are of another type of numbers")
    if not (np.isfinite(vectors).all() and np.isfinite(norms2).all()):
        raise ValueError("support vectors are not finite")
    n, stream = float(info["state"]["n"]), np.array(arrays["stream"])
    if counters.size != len(vectors) or counters.steps < 0 or not 0.0 < n < math.inf:
        raise ValueError(f"counters {counters} do not fit {len(vectors)} support vectors")
    if stream.shape != (1,) or stream.dtype != np.uint64 or stream[0] == 0:
        raise ValueError("not the state of a stream of random numbers")
    budget = info["state"]["budget"]
    if not isinstance(budget, int) or budget < max(2, len(vectors)):
        raise ValueError(f"a budget of {budget!r} does not fit {len(vectors)} support vectors")
    support = as_support(vectors, vectors.dtype, capacity=budget + 1)
    support.norms2[: len(vectors)] = norms2  # as they were computed, to the last bit
    rooms = np.zeros((2, n_outputs, len(support.norms2)))
    for room, (coefficients, _) in zip(rooms, expansions, strict=True):
        room[:, : len(vectors)] = coefficients
    (_, offset), (_, mean_offset) = expansions
    order = np.zeros(0, np.uint32)
    state = BudgetState(
        support, rooms[0], np.array(offset), rooms[1], np.array(mean_offset), order, stream, n, counters
    )
    estimator.kernel_ = unpack_kernel(info["kernel"])
    estimator.budget_ = budget
    estimator.n_features_in_ = vectors.shape[1]
    estimator._keep_state(state)
    training = info["training"]
    estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
    estimator.history_ = {
        name.removeprefix("history."): np.array(column)
        for name, column in arrays.items()
        if name.startswith("history.")
    }
    certificates = [Certificate(*map(float, bounds)) for bounds in arrays.get("certificates", ())]
    if len(certificates) not in (0, n_outputs):
        raise ValueError(f"{len(certificates)} certificates of {n_outputs} problems")
    estimator.certificate_ = certificates[0] if len(certificates) == 1 else certificates or None


def pack_kernel(function: Kernel) -> dict[str, Any]:
    """A kernel function as JSON."""
    return {"kernel": kernels.name_of(function), "fields": function._asdict()}


def unpack_kernel(packed: dict[str, Any]) -> Kernel:
    """The kernel function, checked."""
    return kernels.get(type(kernels.get(packed["kernel"]))(**packed["fields"]))
