"""Estimators to and from model files."""

from __future__ import annotations

import importlib
from os import PathLike
from typing import Any

import numpy as np

from maxmargin.models import contents
from maxmargin.models.file import ModelFileError
from maxmargin.models.predictor import read_any

_HOME = {
    "LinearSVC": "maxmargin.estimators.linear",
    "LinearSVCCV": "maxmargin.estimators.selection",
    "LinearSVR": "maxmargin.estimators.linear",
    "BudgetSVC": "maxmargin.estimators.budget",
    "OnlineSVC": "maxmargin.estimators.online",
    "StructuralSVC": "maxmargin.estimators.measures",
    "SVC": "maxmargin.estimators.svc",
    "SVR": "maxmargin.estimators.svr",
    "OneClassSVM": "maxmargin.estimators.one_class",
}
_OF_THEIR_OWN = {  # these store the whole state of their training
    "BudgetSVC": "maxmargin.models.budget",
    "OnlineSVC": "maxmargin.models.online",
    "SVC": "maxmargin.models.machines",
    "SVR": "maxmargin.models.machines",
    "OneClassSVM": "maxmargin.models.machines",
}


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to a file that holds numbers and names, never code.

    Equal data and parameters give the same bytes, but for the last part of the file, which tells seconds.

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
    tree = _common(estimator)
    if kind in _OF_THEIR_OWN:
        tree |= importlib.import_module(_OF_THEIR_OWN[kind]).tree_of(estimator)
    else:
        tree |= _linear(estimator)
    contents.write_content(path, kind, tree)


def _common(estimator: Any) -> dict[str, Any]:
    """What all estimators have."""
    params = estimator.get_params(deep=False)
    if not isinstance(params.get("random_state"), (int, np.integer, type(None))):
        params["random_state"] = None  # a generator has no name; the fitted model does not need it
    if hasattr(estimator, "cv_results_"):  # neither have folds and scorers that are objects
        params |= {name: None for name in ("cv", "scoring") if not isinstance(params[name], (int, str))}
    defaults = type(estimator)().get_params(deep=False)
    tree: dict[str, Any] = {
        "params": params,
        "chosen": [name for name in params if _differ(params[name], defaults[name])],
    }
    for name, attribute in (("classes", "classes_"), ("feature_names", "feature_names_in_")):
        if hasattr(estimator, attribute):
            tree[name] = getattr(estimator, attribute)
    if getattr(estimator, "first_index_", None) is not None:
        tree["first_index"] = int(estimator.first_index_)
    return tree


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or bool(np.any(one != other))


def _linear(estimator: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {"coef": _dense(estimator.coef_), "intercept": estimator.intercept_}
    if hasattr(estimator, "certificate_"):  # a model that LIBLINEAR has trained has none
        tree["training"] = {
            "stop_reason": estimator.stop_reason_,
            "n_iter": int(estimator.n_iter_),
            "solver": estimator.solver_,
            "certificates": np.array(estimator.certificates_),
            "history": contents.pack_histories(estimator.histories_),
        }
    if hasattr(estimator, "cv_results_"):
        columns = estimator.cv_results_.items()
        table = {name: np.asarray(column) for name, column in columns if not name.endswith("_time")}
        tree["selection"] = {"C": float(estimator.C_), "scores": estimator.scores_, "table": table}
    return tree


def _dense(coef: Any) -> np.ndarray:
    """Coefficients of a sparse model (`sparsify`) as those of any other."""
    return np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)


def load(path: str | PathLike[str], *, mmap: bool | None = None) -> Any:
    """Read an estimator from a model file, or from a model file of LIBLINEAR or LIBSVM.

    Parameters
    ----------
    path : path
    mmap : bool, optional
        True: map the numbers from the file, read-only, so that processes that load the same model share its memory;
        the file must then not be changed in place. False: copy them, so that whatever happens to the file does not
        matter. None: copy them, unless the file has more than 256 MiB.

    Returns
    -------
    estimator
        Ready to predict, or to be fitted anew with the same parameters.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged or was made to do harm.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxmargin import LinearSVC
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LinearSVC().fit([[0.0], [1.0]], ["no", "yes"]).save(os.path.join(folder, "a.mm"))
    ...     load(os.path.join(folder, "a.mm")).predict([[2.0]])
    array(['yes'], dtype='<U3')
    """
    content = read_any(path, mmap=mmap)
    if content.kind not in _HOME:
        known = ", ".join(_HOME)
        raise ModelFileError(f"{path}: holds a {content.kind!r}, not an estimator; this version reads {known}")
    try:
        return _restored(content.kind, content.tree)
    except contents.NONSENSE as error:
        raise contents.unusable(path, content.kind, error) from error


def _known(kind: str) -> Any:
    """The class of a kind of estimator, or None."""
    return getattr(importlib.import_module(_HOME[kind]), kind) if kind in _HOME else None


def _restored(kind: str, tree: dict[str, Any]) -> Any:
    estimator = _known(kind)(**tree["params"])
    classes = contents.classes_of(kind, tree)
    if classes is not None:
        estimator.classes_ = np.array(classes)  # a few numbers: better not mapped
    if kind in _OF_THEIR_OWN:
        importlib.import_module(_OF_THEIR_OWN[kind]).restore(estimator, tree)
    else:
        _restore_linear(estimator, kind, tree)
    names = contents.feature_names_of(tree, estimator.n_features_in_)
    if names is not None:
        estimator.feature_names_in_ = names
    first_index = contents.first_index_of(tree)
    if first_index is not None:
        estimator.first_index_ = first_index
    return estimator


def _restore_linear(estimator: Any, kind: str, tree: dict[str, Any]) -> None:
    """What a linear model has: coefficients, and how they were found."""
    classes, coef, intercept = contents.linear_parts(kind, tree)
    estimator.coef_, estimator.intercept_ = coef if classes is not None else coef[0], intercept
    estimator.n_features_in_ = coef.shape[1]
    if "training" in tree:
        from maxmargin.problem import Certificate

        training = tree["training"]
        certificates = [Certificate(*map(float, numbers)) for numbers in training["certificates"]]
        histories = contents.unpack_histories(training["history"])
        problems = 1 if getattr(estimator, "multi_class", "ovr") == "crammer_singer" else len(coef)
        if not len(certificates) == len(histories) == problems:
            raise ValueError(f"{len(certificates)} certificates and {len(histories)} histories of {problems} problems")
        estimator.certificate_ = certificates[0] if problems == 1 else certificates
        estimator.history_ = histories[0] if problems == 1 else histories
        estimator.stop_reason_, estimator.n_iter_ = str(training["stop_reason"]), int(training["n_iter"])
        estimator.solver_ = training["solver"]
    if "selection" in tree:
        _restore_selection(estimator, tree["selection"])


def _restore_selection(estimator: Any, selection: dict[str, Any]) -> None:
    """What a choice of C has besides."""
    table = {str(name): np.array(column) for name, column in selection["table"].items()}
    scores, values = np.array(selection["scores"], dtype=np.float64), table["param_C"]
    chosen = np.flatnonzero(values == float(selection["C"]))
    if scores.ndim != 2 or scores.shape[1:] != values.shape or not len(chosen):
        raise ValueError(f"scores {scores.shape} of {len(values)} values of C do not fit C = {selection['C']!r}")
    estimator.cv_results_, estimator.scores_, estimator.Cs_ = table, scores, values
    estimator.C_, estimator.best_index_ = float(selection["C"]), int(chosen[0])
    estimator.best_score_ = float(table["mean_test_score"][chosen[0]])
