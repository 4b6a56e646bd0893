"""Classifiers that learn from streams as trees, with the whole state of their learning: `partial_fit` goes on after
`load` as if nothing had happened. The models of the classes lie one after the other in arrays of two dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from maxmargin.solvers.stochastic.online import OnlineState

_HISTORY = ("seconds", "passes", "rows", "held_out_loss")


def tree_of(estimator: Any) -> dict[str, Any]:
    """What is particular to a fitted `OnlineSVC`."""
    learnt = estimator._learnt
    return {
        "coef": np.ascontiguousarray(estimator.coef_),
        "intercept": np.ascontiguousarray(estimator.intercept_),
        "stream": {
            "is_announced": bool(learnt.is_announced),
            "bias": float(learnt.bias),
            **learnt.kept(),
        },
        "training": {
            "stop_reason": estimator.stop_reason_,
            "n_iter": int(estimator.n_iter_),
            "history": {name: estimator.history_[name] for name in _HISTORY},
        },
    }


def weights_of(states: list[OnlineState], bias: float, average: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and intercepts of models in these states."""
    weights = np.stack([state.w if average else state.last for state in states])
    n_features = weights.shape[1] - (bias != 0.0)
    return weights[:, :n_features], bias * weights[:, -1] if bias else np.zeros(len(weights))


def restore(estimator: Any, tree: dict[str, Any]) -> None:
    """Give an estimator, whose parameters and classes are set already, the rest; a file that makes no sense raises."""
    from maxmargin.solvers.stochastic.stream_models import StreamModels

    stream, training = tree["stream"], tree["training"]
    bias = float(stream["bias"])
    n_features = stream["states"]["v"].shape[1] - (bias != 0.0)
    if n_features < 1 or not np.isfinite(bias):
        raise ValueError(f"{n_features} features")

    estimator._check_parameters()
    learnt = StreamModels(None, float(estimator.alpha), bias, n_features, estimator.classes_)
    learnt.is_announced = bool(stream["is_announced"])
    learnt.restore(stream)
    estimator._learnt, estimator._progress, estimator.solver_ = learnt, None, estimator._solver()
    estimator.n_features_in_, estimator.t_ = n_features, learnt.n_seen
    estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
    history = {name: np.array(training["history"][name]) for name in _HISTORY}
    if len({column.shape for column in history.values()}) != 1 or history["rows"].ndim != 1:
        raise ValueError("columns of the history are of different lengths")
    estimator.history_ = history
