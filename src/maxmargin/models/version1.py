"""Files of version 1 of the format, which maxmargin 0.1.0 wrote, as the trees that are written today.

Version 1 had an encoding of values for each kind of model, labels and histories as arrays of agreed names, and
coefficients of `OnlineSVC` only in the state of its learning. It did not know what indices count from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.models.codec import split

Arrays = dict[str, np.ndarray]

_COUNTERS = (  # of budgeted gradient descent
    "size",
    "steps",
    "position",
    "visits",
    "violations",
    "repeats",
    "merges",
    "kernel_rows",
    "pairs",
    "training_seconds",
    "maintenance_seconds",
    "finding_seconds",
)


def brought_up_to_date(kind: str, info: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The tree of a file of version 1."""
    if kind == "checkpoint":
        raise ValueError("a checkpoint of maxmargin 0.1.0, which cannot be gone on from; delete it to start anew")
    tree: dict[str, Any] = {"params": {name: _value(value) for name, value in info["params"].items()}}
    if "labels" in info:
        tree["classes"] = _labels(info["labels"], arrays)
    if "feature_names.text" in arrays:
        tree["feature_names"] = np.array(_strings("feature_names", arrays), dtype=object)
    if kind == "BudgetSVC":
        return tree | _budget(info, arrays)
    if kind == "OnlineSVC":
        return tree | _online(tree["params"], info, arrays)
    tree |= {"coef": arrays["coef"], "intercept": arrays["intercept"]}
    if "training" in info:
        columns = {name.removeprefix("history."): a for name, a in arrays.items() if name.startswith("history.")}
        tree["training"] = {
            "stop_reason": info["training"]["stop_reason"],
            "n_iter": info["training"]["n_iter"],
            "solver": _value(info["training"]["solver"]),
            "certificates": arrays["certificates"],
            "history": {"columns": columns, "lengths": arrays["history_lengths"]},
        }
    return tree


def _budget(info: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    state, training = info["state"], info["training"]
    counters = [math.nan if number is None else float(number) for number in state["counters"]]
    history = {name.removeprefix("history."): a for name, a in arrays.items() if name.startswith("history.")}
    return {
        "kernel": _value(info["kernel"]),
        "support_vectors": arrays["support_vectors"],
        "dual_coef": arrays["mean"],
        "intercept": arrays["mean_offset"],
        "state": {
            "budget": state["budget"],
            "n": float(state["n"]),
            "norms2": arrays["norms2"],
            "alpha": arrays["alpha"],
            "offset": arrays["offset"],
            "rng": arrays["stream"],
            "counters": dict(zip(_COUNTERS, counters, strict=True)),
        },
        "training": {
            "stop_reason": training["stop_reason"],
            "n_iter": training["n_iter"],
            "certificates": arrays.get("certificates"),
            "history": history,
        },
    }


def _online(params: dict[str, Any], info: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    from maxmargin.models.online import weights_of
    from maxmargin.solvers.stochastic.stream_models import PARTS, state_of

    parts = {name: arrays[f"state.{name}"] for name in PARTS}
    stream, training = info["stream"], info["training"]
    states = [state_of(*part) for part in zip(*parts.values())]
    coef, intercept = weights_of(states, float(stream["bias"]), params.get("average", True))
    history = {name.removeprefix("history."): a for name, a in arrays.items() if name.startswith("history.")}
    return {
        "coef": coef,
        "intercept": intercept,
        "stream": {
            "n_seen": stream["n_seen"],
            "is_announced": stream["is_announced"],
            "bias": stream["bias"],
            "class_totals": arrays["class_totals"],
            "total": arrays["total"],
            "states": parts,
        },
        "training": {"stop_reason": training["stop_reason"], "n_iter": training["n_iter"], "history": history},
    }


# ---------------------------------------------------------------- its encoding


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "pairs" in value:
        return {_value(key): _value(item) for key, item in value["pairs"]}
    from maxmargin import kernels, losses
    from maxmargin.solvers import registry

    fields = {name: _value(item) for name, item in value["fields"].items()}
    if "kernel" in value:
        return kernels.get(type(kernels.get(value["kernel"]))(**fields))
    if "solver" in value:
        return type(registry.get(value["solver"]))(**fields)
    return losses.get(type(losses.get(value["loss"]))(**fields))


def _labels(kind: str, arrays: Arrays) -> np.ndarray:
    if kind not in ("U", "object"):
        return np.array(arrays["classes"])
    labels = _strings("classes", arrays)
    if max(map(len, labels), default=0) * len(labels) > 2**26:
        raise ValueError(f"{len(labels)} class labels are too long")
    return np.array(labels, dtype=str if kind == "U" else object)


def _strings(name: str, arrays: Arrays) -> list[str]:
    parts = split(arrays[f"{name}.text"], arrays[f"{name}.lengths"])
    return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]
