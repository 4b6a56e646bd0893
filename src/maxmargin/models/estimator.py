"""Estimators to and from model files.

Numbers of which there may be many (coefficients, labels, names of features, histories) are arrays of the file; the rest
is its `info`. Strings are stored as one array of UTF-8 bytes and one of lengths.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from maxmargin import kernels, losses, solvers
from maxmargin.models import budget, online
from maxmargin.models._liblinear_text import LiblinearModel
from maxmargin.models.file import ModelFileError, read_model, write_model
from maxmargin.models.liblinear import is_liblinear, read_liblinear
from maxmargin.problem import Certificate
from maxmargin.solvers.base import Solver

_HOME = {
    "LinearSVC": "maxmargin.estimators.linear",
    "LinearSVR": "maxmargin.estimators.linear",
    "BudgetSVC": "maxmargin.estimators.budget",
    "OnlineSVC": "maxmargin.estimators.online",
    "StructuralSVC": "maxmargin.estimators.measures",
}
_OF_THEIR_OWN = {"BudgetSVC": budget, "OnlineSVC": online}  # these store the whole state of their training

Arrays = dict[str, np.ndarray]


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to a file that holds numbers and names, never code.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package. Its `random_state` is not saved if that is a generator, and what only a
        warm start needs is not saved either.
    path : path
        Replaced in one step: a full disk or a crash leaves what was there.

    Raises
    ------
    TypeError
        If a parameter or the class labels are of a kind that the file cannot hold.
    """
    from sklearn.utils.validation import check_is_fitted

    kind = type(estimator).__name__
    if type(estimator) is not _known(kind):
        raise TypeError(f"cannot save a {kind}; this version saves {', '.join(_HOME)}")
    check_is_fitted(estimator, "intercept_")
    params = estimator.get_params(deep=False)
    info: dict[str, Any] = {"params": {name: _encode(name, value) for name, value in params.items()}}
    arrays: Arrays = {}
    if hasattr(estimator, "classes_"):
        arrays |= _pack_labels(estimator.classes_)
        info["labels"] = "object" if estimator.classes_.dtype.kind in "OT" else estimator.classes_.dtype.kind
    if hasattr(estimator, "feature_names_in_"):
        arrays |= _pack_text("feature_names", estimator.feature_names_in_)
    if kind in _OF_THEIR_OWN:
        particular, more = _OF_THEIR_OWN[kind].pack(estimator)
        write_model(path, kind, info | particular, arrays | more)
        return
    arrays |= {"coef": np.atleast_2d(estimator.coef_), "intercept": estimator.intercept_}
    if hasattr(estimator, "certificate_"):  # a model that LIBLINEAR has trained has none
        info["training"] = {
            "stop_reason": estimator.stop_reason_,
            "n_iter": int(estimator.n_iter_),
            "solver": _encode("solver", estimator.solver_),
        }
        arrays["certificates"] = np.array(_as_list(estimator.certificate_))
        arrays |= _pack_histories(_as_list(estimator.history_))
    write_model(path, kind, info, arrays)


def load(path: str | PathLike[str]) -> Any:
    """Read an estimator from a model file, or from a model file of LIBLINEAR.

    The file is read once, to verify its checksum; the coefficients are then mapped from it, so that processes that load
    the same model share their memory. They are read-only.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Ready to predict, or to be fitted anew with the same parameters.

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
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{path}: not a usable {model.kind} model: {error!r:.300}") from error


def _known(kind: str) -> Any:
    """The class of a kind of estimator, or None."""
    return getattr(importlib.import_module(_HOME[kind]), kind) if kind in _HOME else None


def _restore(kind: str, info: dict[str, Any], arrays: Arrays) -> Any:
    from sklearn.base import ClassifierMixin

    estimator = _known(kind)(**{name: _decode(value) for name, value in info["params"].items()})
    rows = 1
    if isinstance(estimator, ClassifierMixin):
        estimator.classes_ = _unpack_labels(info["labels"], arrays)
        rows = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        if len(estimator.classes_) < (1 if kind == "OnlineSVC" else 2):
            raise ValueError(f"{len(estimator.classes_)} classes")
    if kind in _OF_THEIR_OWN:
        _OF_THEIR_OWN[kind].restore(estimator, info, arrays)
    else:
        _restore_linear(estimator, info, arrays, rows)
    if "feature_names.text" in arrays:
        estimator.feature_names_in_ = np.array(_unpack_text("feature_names", arrays), dtype=object)
        if len(estimator.feature_names_in_) != estimator.n_features_in_:
            raise ValueError(f"{len(estimator.feature_names_in_)} names of {estimator.n_features_in_} features")
    return estimator


def _restore_linear(estimator: Any, info: dict[str, Any], arrays: Arrays, rows: int) -> None:
    """What a linear model has: coefficients, and how they were found."""
    from sklearn.base import ClassifierMixin

    coef, intercept = arrays["coef"], arrays["intercept"]
    if coef.ndim != 2 or intercept.shape != (rows,) or len(coef) != rows:
        raise ValueError(f"{rows} problems, coef {coef.shape} and intercept {intercept.shape} do not fit")
    if coef.dtype.kind != "f" or intercept.dtype.kind != "f":
        raise ValueError("coefficients are not floating-point numbers")
    estimator.coef_, estimator.intercept_ = coef if isinstance(estimator, ClassifierMixin) else coef[0], intercept
    estimator.n_features_in_ = coef.shape[1]
    if "training" in info:
        training = info["training"]
        certificates = [Certificate(*map(float, numbers)) for numbers in arrays["certificates"]]
        histories = _unpack_histories(arrays)
        problems = 1 if getattr(estimator, "multi_class", "ovr") == "crammer_singer" else rows
        if not len(certificates) == len(histories) == problems:
            raise ValueError(f"{len(certificates)} certificates and {len(histories)} histories of {problems} problems")
        estimator.certificate_ = certificates[0] if problems == 1 else certificates
        estimator.history_ = histories[0] if problems == 1 else histories
        estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
        estimator.solver_ = _decode(training["solver"])


def _from_liblinear(path: str | PathLike[str]) -> Any:
    from maxmargin.estimators.linear import LinearSVC

    model = read_liblinear(path)
    if model.classes is None:
        return _regressor_from_liblinear(model)
    if len(model.classes) < 2:
        raise ModelFileError(f"{path}: a LIBLINEAR model of a single class, {model.classes[0]}: nothing to decide")
    with_bias = model.bias > 0.0
    is_logistic, is_hinge = "_LR" in model.solver_type, "L1LOSS" in model.solver_type or "MCSVM" in model.solver_type
    estimator = LinearSVC(
        loss="logistic" if is_logistic else "hinge" if is_hinge else "squared_hinge",
        fit_intercept=with_bias,
        intercept_scaling=model.bias if with_bias else 1.0,
    )
    estimator.coef_, estimator.intercept_, estimator.classes_ = model.coef, model.intercept, model.classes
    estimator.n_features_in_ = model.coef.shape[1]
    return estimator


def _regressor_from_liblinear(model: LiblinearModel) -> Any:
    from maxmargin.estimators.linear import LinearSVR

    with_bias = model.bias > 0.0
    estimator = LinearSVR(
        loss="epsilon_insensitive" if "L1LOSS" in model.solver_type else "squared_epsilon_insensitive",
        fit_intercept=with_bias,
        intercept_scaling=model.bias if with_bias else 1.0,
    )
    estimator.coef_, estimator.intercept_ = model.coef[0], model.intercept
    estimator.n_features_in_ = model.coef.shape[1]
    return estimator


# ---------------------------------------------------------------- arrays


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _pack_labels(classes: np.ndarray) -> Arrays:
    if classes.dtype.kind in "biuf":
        return {"classes": classes}
    if not all(isinstance(label, str) for label in classes):
        raise TypeError(f"only numbers and strings can be saved as class labels, not {type(classes[0]).__name__}")
    return _pack_text("classes", classes)


def _unpack_labels(kind: str, arrays: Arrays) -> np.ndarray:
    if kind in ("U", "object"):
        labels = _unpack_text("classes", arrays)
        # An array of strings has room for the longest in every place: one long label of many could fill the memory.
        if max(map(len, labels), default=0) * len(labels) > 2**26:
            raise ValueError(f"{len(labels)} class labels are too long")
        return np.array(labels, dtype=str if kind == "U" else object)
    classes = arrays["classes"]
    if classes.ndim != 1:
        raise ValueError(f"class labels of shape {classes.shape}")
    return np.array(classes)  # a few numbers: better not mapped


def _pack_text(name: str, strings: Any) -> Arrays:
    encoded = [str(text).encode("utf-8", "surrogatepass") for text in strings]
    lengths = np.array([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.lengths": lengths}


def _unpack_text(name: str, arrays: Arrays) -> list[str]:
    parts = _split(arrays[f"{name}.text"], arrays[f"{name}.lengths"])
    return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]


def _pack_histories(histories: list[dict[str, np.ndarray]]) -> Arrays:
    """Every column of all problems one after the other; nan where a solver does not count it."""
    names = dict.fromkeys(name for each in histories for name in each)
    filled = [{name: each.get(name, np.full(len(each["passes"]), np.nan)) for name in names} for each in histories]
    columns = {f"history.{name}": np.concatenate([each[name] for each in filled]) for name in names}
    return {**columns, "history_lengths": np.array([len(each["passes"]) for each in histories], dtype=np.int64)}


def _unpack_histories(arrays: Arrays) -> list[dict[str, np.ndarray]]:
    lengths = arrays["history_lengths"]
    histories: list[dict[str, np.ndarray]] = [{} for _ in lengths]
    for name, column in arrays.items():
        if name.startswith("history."):
            for history, part in zip(histories, _split(column, lengths)):
                history[name.removeprefix("history.")] = part
    return histories


def _split(content: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Cut an array into pieces, if the lengths are those of pieces."""
    if content.ndim != 1 or lengths.ndim != 1 or lengths.dtype != np.int64:
        raise ValueError("lengths must be a row of integers")
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > len(content) or lengths.sum() != len(content):
        raise ValueError(f"lengths do not divide {len(content)} items")
    return np.split(content, np.cumsum(lengths)[:-1]) if len(lengths) else []


# ---------------------------------------------------------------- values that JSON does not know


def _encode(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, Solver) and value.name in solvers.names() and type(solvers.get(value.name)) is type(value):
        return {"solver": value.name, "fields": {key: _encode(name, item) for key, item in asdict(value).items()}}
    if type(value) in losses.MARGIN_LOSSES + losses.RESIDUAL_LOSSES:
        return {"loss": losses.name_of(value), "fields": {k: _encode(name, v) for k, v in value._asdict().items()}}
    if type(value) in kernels.TAGS:
        return budget.pack_kernel(value)
    if isinstance(value, dict):
        return {"pairs": [[_encode(name, key), _encode(name, item)] for key, item in value.items()]}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if name == "random_state":
        return None  # a generator has no name; the fitted model does not need it
    raise TypeError(f"parameter {name}={value!r} cannot be saved")


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "pairs" in value:
        return {_decode(key): _decode(item) for key, item in value["pairs"]}
    if "kernel" in value:
        return budget.unpack_kernel(value)
    fields = {name: _decode(item) for name, item in value["fields"].items()}
    if "solver" in value:
        return type(solvers.get(value["solver"]))(**fields)
    return losses.get(type(losses.get(value["loss"]))(**fields))
