"""Classifiers that learn from streams as trees, with the whole state of their learning: `partial_fit` goes on after
`load` as if nothing had happened. The models of the classes lie one after the other in arrays of two dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from maxmargin.solvers.stochastic.online import OnlineState

PARTS = ("v", "v_numbers", "u", "before", "u_numbers", "numbers")  # the arrays of a state
_HISTORY = ("seconds", "passes", "rows", "held_out_loss")


def tree_of(estimator: Any) -> dict[str, Any]:
    """What is particular to a fitted `OnlineSVC`."""
    learnt = estimator._learnt
    return {
        "coef": np.ascontiguousarray(estimator.coef_),
        "intercept": np.ascontiguousarray(estimator.intercept_),
        "stream": {
            "n_seen": int(learnt.n_seen),
            "is_announced": bool(learnt.is_announced),
            "bias": float(learnt.bias),
            "class_totals": learnt.class_totals,
            "total": np.array([learnt.total]),
            "states": {name: np.stack(column) for name, column in zip(PARTS, zip(*map(_parts, learnt.states)))},
        },
        "training": {
            "stop_reason": estimator.stop_reason_,
            "n_iter": int(estimator.n_iter_),
            "history": {name: estimator.history_[name] for name in _HISTORY},
        },
    }


def _parts(state: OnlineState) -> list[np.ndarray]:
    """The arrays of a state; those of one number each are joined."""
    (v, *of_v), (u, before, *of_u), *numbers = state
    return [v, np.concatenate(of_v), u, before, np.concatenate(of_u), np.concatenate(numbers)]


def state_of(v: Any, of_v: Any, u: Any, before: Any, of_u: Any, numbers: Any) -> OnlineState:
    """The state that has these parts."""
    from maxmargin.solvers.stochastic.online import OnlineState
    from maxmargin.solvers.stochastic.weights import Average, ScaledVector

    x, average = ScaledVector(v, *np.split(of_v, 2)), Average(u, before, *np.split(of_u, 3))
    return OnlineState(x, average, *np.split(numbers, 4))


def weights_of(states: list[OnlineState], bias: float, average: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and intercepts of models in these states."""
    weights = np.stack([state.w if average else state.last for state in states])
    n_features = weights.shape[1] - (bias != 0.0)
    return weights[:, :n_features], bias * weights[:, -1] if bias else np.zeros(len(weights))


def restore(estimator: Any, tree: dict[str, Any]) -> None:
    """Give an estimator, whose parameters and classes are set already, the rest; a file that makes no sense raises."""
    from maxmargin.estimators._stream_models import StreamModels, n_problems
    from maxmargin.solvers.stochastic.online import new_online_state

    stream, training = tree["stream"], tree["training"]
    parts = [np.array(stream["states"][name]) for name in PARTS]  # not mapped: learning changes them
    n_models, n_weights = n_problems(estimator.classes_), parts[0].shape[1]
    shapes = [part.shape for part in _parts(new_online_state(n_weights))]
    for name, part, shape in zip(PARTS, parts, shapes):
        if part.shape != (n_models, *shape) or part.dtype != np.float64:
            raise ValueError(f"{name} of shape {part.shape} does not fit {n_models} models of {n_weights} weights")
        if not np.isfinite(part).all():
            raise ValueError(f"{name} is not finite")
    bias, n_seen, totals = float(stream["bias"]), int(stream["n_seen"]), np.array(stream["class_totals"])
    n_features = n_weights - (bias != 0.0)
    if n_features < 1 or n_seen < 0 or not np.isfinite(bias):
        raise ValueError(f"{n_features} features and {n_seen} rows")
    if totals.shape != estimator.classes_.shape or stream["total"].shape != (1,) or not np.isfinite(totals).all():
        raise ValueError("the weights of the classes do not fit them")

    estimator._check_parameters()
    learnt = StreamModels(None, float(estimator.alpha), bias, n_features, estimator.classes_)
    learnt.is_announced = bool(stream["is_announced"])
    learnt.class_totals, learnt.total, learnt.n_seen = totals, float(stream["total"][0]), n_seen
    learnt.states = [state_of(*part) for part in zip(*parts)]
    estimator._learnt, estimator._progress = learnt, None
    estimator.n_features_in_, estimator.t_ = n_features, n_seen
    estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
    history = {name: np.array(training["history"][name]) for name in _HISTORY}
    if len({column.shape for column in history.values()}) != 1 or history["rows"].ndim != 1:
        raise ValueError("columns of the history are of different lengths")
    estimator.history_ = history
