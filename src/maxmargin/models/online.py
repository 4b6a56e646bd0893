"""Classifiers that learn from streams, to and from model files.

The file holds the whole state of the learning, so that `partial_fit` goes on after `load` as if nothing had happened.
The models of the classes lie one after the other in arrays of two dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

_PARTS = ("v", "v_numbers", "u", "before", "u_numbers", "numbers")
_HISTORY = ("seconds", "passes", "rows", "held_out_loss")


def pack(estimator: Any) -> tuple[dict[str, Any], Arrays]:
    """What is particular to a fitted `OnlineSVC`, as the `info` and the arrays of a file."""
    learnt = estimator._learnt
    info = {
        "training": {"stop_reason": estimator.stop_reason_, "n_iter": int(estimator.n_iter_)},
        "stream": {"n_seen": int(learnt.n_seen), "is_announced": bool(learnt.is_announced), "bias": float(learnt.bias)},
    }
    parts = [(s.x.v, s.x.numbers, s.average.u, s.average.before, s.average.numbers, s.numbers) for s in learnt.states]
    arrays = {f"state.{name}": np.stack(column) for name, column in zip(_PARTS, zip(*parts))}
    arrays |= {"class_totals": learnt.class_totals, "total": np.array([learnt.total])}
    arrays |= {f"history.{name}": estimator.history_[name] for name in _HISTORY}
    return info, arrays


def restore(estimator: Any, info: dict[str, Any], arrays: Arrays) -> None:
    """Give an estimator, whose parameters and classes are set already, the rest; a file that makes no sense raises."""
    from maxmargin.estimators._stream_models import StreamModels, n_problems
    from maxmargin.solvers.sgd import OnlineState, new_online_state
    from maxmargin.weights import Average, ScaledVector

    parts = [np.array(arrays[f"state.{name}"]) for name in _PARTS]  # not mapped: learning changes them
    n_models, n_weights = n_problems(estimator.classes_), parts[0].shape[1]
    empty = new_online_state(n_weights)
    shapes = [part.shape for part in (*empty.x, *empty.average, empty.numbers)]
    for name, part, shape in zip(_PARTS, parts, shapes):
        if part.shape != (n_models, *shape) or part.dtype != np.float64:
            raise ValueError(f"{name} of shape {part.shape} does not fit {n_models} models of {n_weights} weights")
        if not np.isfinite(part).all():
            raise ValueError(f"{name} is not finite")
    stream = info["stream"]
    bias, n_seen, totals = float(stream["bias"]), int(stream["n_seen"]), np.array(arrays["class_totals"])
    n_features = n_weights - (bias != 0.0)
    if n_features < 1 or n_seen < 0 or not np.isfinite(bias):
        raise ValueError(f"{n_features} features and {n_seen} rows")
    if totals.shape != estimator.classes_.shape or arrays["total"].shape != (1,) or not np.isfinite(totals).all():
        raise ValueError("the weights of the classes do not fit them")

    estimator._check_parameters()
    learnt = StreamModels(None, float(estimator.alpha), bias, n_features, estimator.classes_)
    learnt.is_announced = bool(stream["is_announced"])
    learnt.class_totals, learnt.total, learnt.n_seen = totals, float(arrays["total"][0]), n_seen
    learnt.states = [
        OnlineState(ScaledVector(v, v_numbers), Average(u, before, u_numbers), numbers)
        for v, v_numbers, u, before, u_numbers, numbers in zip(*parts)
    ]
    estimator._learnt, estimator._progress = learnt, None
    estimator.n_features_in_, estimator.t_ = n_features, n_seen
    training = info["training"]
    estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
    history = {name: np.array(arrays[f"history.{name}"]) for name in _HISTORY}
    if len({column.shape for column in history.values()}) != 1 or history["rows"].ndim != 1:
        raise ValueError("columns of the history are of different lengths")
    estimator.history_ = history
