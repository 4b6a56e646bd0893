"""Estimators to and from model files."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from maxmargin import losses, solvers
from maxmargin.models.file import ModelFileError, read_model, write_model
from maxmargin.models.liblinear import is_liblinear, read_liblinear
from maxmargin.problem import Certificate
from maxmargin.solvers.base import Solver

_HOME = {"LinearSVC": "maxmargin.estimators.linear"}


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to a file that holds numbers and names, never code.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package.
    path : path
        Replaced in one step: a full disk or a crash leaves what was there.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    params = estimator.get_params(deep=False)
    info = {
        "params": {name: _encode(name, value) for name, value in params.items()},
        "classes": _labels(estimator.classes_),
        "certificates": [list(c) for c in _as_list(estimator.certificate_)],
        "stop_reason": estimator.stop_reason_,
        "n_iter": int(estimator.n_iter_),
        "solver": _encode("solver", estimator.solver_),
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
    }
    arrays = {"coef": estimator.coef_, "intercept": estimator.intercept_}
    for k, history in enumerate(_as_list(estimator.history_)):
        arrays |= {f"history.{k}.{name}": column for name, column in history.items()}
    write_model(path, type(estimator).__name__, info, arrays)


def load(path: str | PathLike[str]) -> Any:
    """Read an estimator from a model file, or from a model file of LIBLINEAR.

    Coefficients are mapped from the file, not read: loading takes no time and processes share the memory.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged or was made to do harm.
    """
    if is_liblinear(path):
        return _from_liblinear(path)
    model = read_model(path)
    if model.kind not in _HOME:
        raise ModelFileError(f"{path}: holds a {model.kind!r}, not an estimator; this version reads {', '.join(_HOME)}")
    try:
        return _restore(model.kind, model.info, model.arrays)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: not a usable {model.kind} model: {error!r}") from error


def _restore(kind: str, info: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    known = getattr(importlib.import_module(_HOME[kind]), kind)
    estimator = known(**{name: _decode(value) for name, value in info["params"].items()})
    coef, intercept = arrays["coef"], arrays["intercept"]
    classes = np.array(info["classes"]["values"], dtype=info["classes"]["dtype"])
    rows = 1 if len(classes) == 2 else len(classes)
    if coef.ndim != 2 or intercept.shape != (rows,) or len(coef) != rows or len(classes) < 2:
        raise ValueError(f"{len(classes)} classes, coef {coef.shape} and intercept {intercept.shape} do not fit")
    if coef.dtype.kind != "f" or intercept.dtype.kind != "f":
        raise ValueError("coefficients are not floating-point numbers")
    estimator.coef_, estimator.intercept_, estimator.classes_ = coef, intercept, classes
    estimator.n_features_in_ = coef.shape[1]
    certificates = [Certificate(*map(float, numbers)) for numbers in info["certificates"]]
    histories: list[dict[str, np.ndarray]] = [{} for _ in certificates]
    for name, column in arrays.items():
        if name.startswith("history."):
            _, k, column_name = name.split(".", 2)
            histories[int(k)][column_name] = column
    estimator.certificate_ = certificates[0] if rows == 1 else certificates
    estimator.history_ = histories[0] if rows == 1 else histories
    estimator.stop_reason_, estimator.n_iter_ = str(info["stop_reason"]), int(info["n_iter"])
    estimator.solver_ = _decode(info["solver"])
    if info["feature_names"]:
        estimator.feature_names_in_ = np.array(info["feature_names"], dtype=object)
    return estimator


def _from_liblinear(path: str | PathLike[str]) -> Any:
    from maxmargin.estimators.linear import LinearSVC

    model = read_liblinear(path)
    if model.classes is None:
        raise ModelFileError(f"{path}: a LIBLINEAR regression model ({model.solver_type}); only classifiers are read")
    with_bias = model.bias > 0.0
    estimator = LinearSVC(
        loss="hinge" if "L1LOSS" in model.solver_type else "squared_hinge",
        fit_intercept=with_bias,
        intercept_scaling=model.bias if with_bias else 1.0,
    )
    estimator.coef_, estimator.intercept_, estimator.classes_ = model.coef, model.intercept, model.classes
    estimator.n_features_in_ = model.coef.shape[1]
    return estimator


# ---------------------------------------------------------------- values that JSON does not know


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _labels(classes: np.ndarray) -> dict[str, Any]:
    """Class labels as JSON: numbers, booleans or strings."""
    if classes.dtype.kind == "O" and not all(isinstance(label, str) for label in classes):
        raise TypeError(f"only numbers and strings can be saved as class labels, not {type(classes[0]).__name__}")
    dtype = "str" if classes.dtype.kind == "U" else "object" if classes.dtype.kind == "O" else classes.dtype.str
    return {"values": classes.tolist(), "dtype": dtype}


def _encode(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, Solver):
        return {"solver": value.name, "fields": asdict(value)}
    if value is not None and type(value) in losses.MARGIN_LOSSES + losses.RESIDUAL_LOSSES:
        return {"loss": losses.name_of(value), "fields": value._asdict()}
    if isinstance(value, dict):
        return {"pairs": [[_encode(name, key), _encode(name, item)] for key, item in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if name == "random_state":
        return None  # a generator has no name; the fitted model does not need it
    raise TypeError(f"parameter {name}={value!r} cannot be saved")


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "solver" in value:
        return type(solvers.get(value["solver"]))(**value["fields"])
    if "loss" in value:
        return losses.get(type(losses.get(value["loss"]))(**value["fields"]))
    return {_decode(key): _decode(item) for key, item in value["pairs"]}
