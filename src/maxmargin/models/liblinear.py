"""LIBLINEAR's model files: text, one line per feature.

    solver_type L2R_L2LOSS_SVC_DUAL
    nr_class 2                         2 for regression, too, which has no label line
    label 1 -1                         in the order of the columns of w
    nr_feature 3
    bias 1                             the value of an added last feature, or negative if there is none
    w
    0.5                                one row per feature, and one for the bias if there is one;
    ...                                one column per class, but a single one if there are two classes

What differs from scikit-learn's convention: of two classes LIBLINEAR means the first by a positive decision,
scikit-learn the second; and LIBLINEAR's classes are in the order of the training data, scikit-learn's are sorted.
"""

from __future__ import annotations

import os
import stat
from typing import Any

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.models._liblinear_text import CLASSIFIERS, INT_MAX, REGRESSORS, LiblinearModel, Refused, parse
from maxmargin.models.file import ModelFileError

_NUMBERS_AT_ONCE = 1 << 16


# ---------------------------------------------------------------- writing


def write_liblinear(
    path: str | os.PathLike[str],
    coef: np.ndarray,
    intercept: np.ndarray | float,
    classes: np.ndarray | None,
    *,
    solver_type: str = "L2R_L2LOSS_SVC_DUAL",
    bias: float = -1.0,
) -> None:
    """Write a linear model for LIBLINEAR, whole or not at all.

    LIBLINEAR predicts with it what ``classes[argmax(X @ coef.T + intercept)]`` gives, ties included (for two classes:
    ``classes[1]`` where the decision is positive).

    Parameters
    ----------
    path : path-like
        The file to write.
    coef : array-like of shape (n_classes, n_features), or (1, n_features) for two classes and for regression
        The weights, in scikit-learn's convention.
    intercept : array-like of shape (n_classes,) or (1,), or float
        The intercepts.
    classes : array-like of shape (n_classes,), or None
        The labels, which must be integers; None for regression.
    solver_type : str
        LIBLINEAR's name of the solver, one of `CLASSIFIERS` or, for regression, of `REGRESSORS`.
    bias : float, default=-1.0
        The value of LIBLINEAR's added feature (its option ``-B``), whose weights will be ``intercept / bias``.
        Negative: the model has no intercept.

    Raises
    ------
    ValueError
        If the model cannot be put in LIBLINEAR's terms.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "liblinear.model")
    ...     write_liblinear(file, np.ones((1, 3)), np.zeros(1), np.array([0, 1]))
    ...     read_liblinear(file).coef
    array([[1., 1., 1.]])
    """
    known = REGRESSORS if classes is None else CLASSIFIERS
    if solver_type not in known:
        task = "regression (classes=None)" if classes is None else "classification"
        raise ValueError(f"solver_type for {task} must be one of {', '.join(known)}, not {solver_type!r}")
    labels = None if classes is None else _integer_labels(np.asarray(classes))
    n_columns = 1 if labels is None or len(labels) == 2 else len(labels)
    bias = float(bias)
    w = _weights(coef, intercept, bias, n_columns)
    n_features = w.shape[0] - (bias >= 0)

    lines = [f"solver_type {solver_type}", f"nr_class {2 if labels is None else len(labels)}"]
    if labels is not None:
        if len(labels) == 2:
            labels = labels[::-1]
            if solver_type == "MCSVM_CS":
                w = np.hstack([w, -w])  # this solver alone stores both columns of two classes
        lines.append("label " + " ".join(map(str, labels)))
    lines += [f"nr_feature {n_features}", f"bias {bias:.17g}", "w", ""]

    row_format = "%.17g " * w.shape[1] + "\n"
    step = max(1, _NUMBERS_AT_ONCE // w.shape[1])
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())
        for start in range(0, len(w), step):
            rows = w[start : start + step]
            file.write((row_format * len(rows) % tuple(rows.ravel().tolist())).encode())


def _integer_labels(classes: np.ndarray) -> list[int]:
    if classes.ndim != 1 or len(classes) == 0:
        raise ValueError(f"classes must be one-dimensional and not empty; their shape is {classes.shape}")
    is_number = classes.dtype.kind in "iuf"
    if not is_number or not all(abs(label) <= INT_MAX and label == int(label) for label in classes.tolist()):
        raise ValueError(f"LIBLINEAR's labels are integers of 32 bits; the classes are {_excerpt(classes)}")
    labels = [int(label) for label in classes.tolist()]
    if len(set(labels)) != len(labels):
        raise ValueError(f"a class occurs twice in {_excerpt(classes)}")
    return labels


def _excerpt(classes: np.ndarray) -> str:
    shown = ", ".join(map(repr, classes[:5].tolist()))
    return f"[{shown}{', ...' if len(classes) > 5 else ''}]"


def _weights(coef: Any, intercept: Any, bias: float, n_columns: int) -> np.ndarray:
    """LIBLINEAR's w: a row per feature, then one for the bias, if any."""
    coef = np.asarray(coef, dtype=np.float64)
    intercept = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    if coef.ndim != 2 or coef.shape[0] != n_columns or not 1 <= coef.shape[1] < INT_MAX:
        raise ValueError(f"coef must have shape ({n_columns}, n_features) for these classes, not {coef.shape}")
    if intercept.shape != (n_columns,) and intercept.shape != (1,):
        raise ValueError(f"intercept must have shape ({n_columns},), not {intercept.shape}")
    if bias <= 0 and intercept.any():
        raise ValueError(f"bias={bias} stores no intercept, and the model has one: pass bias=1.0")
    w = coef.T
    if bias >= 0:
        with np.errstate(over="ignore"):
            last = intercept / bias if bias > 0 else np.zeros(1)
        w = np.vstack([w, np.broadcast_to(last, (1, n_columns))])
    if not (np.isfinite(w).all() and np.isfinite(bias)):
        raise ValueError("coef, intercept, bias and intercept / bias must be finite")
    return w


# ---------------------------------------------------------------- reading


def is_liblinear(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a model file of LIBLINEAR."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return file.read(12) in (b"solver_type ", b"solver_type\t")


def read_liblinear(path: str | os.PathLike[str], *, sort_classes: bool = True) -> LiblinearModel:
    """Read a linear model that LIBLINEAR has written.

    Parameters
    ----------
    path : path-like
        A model file of LIBLINEAR, of a classifier or a regressor.
    sort_classes : bool, default=True
        Bring the classes in increasing order, as scikit-learn has them. LIBLINEAR's predictions are then reproduced
        but for exact ties, such as a row of zeros in a model without bias; with False for those, too.

    Returns
    -------
    model : LiblinearModel

    Raises
    ------
    ModelFileError
        If the file is not such a model, with the line where it goes wrong.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "liblinear.model")
    ...     write_liblinear(file, [[1.0, 2.0]], [0.0], [0, 1])
    ...     read_liblinear(file).classes
    array([0, 1])
    """
    with open(path, "rb") as file:
        text = file.read()
    try:
        model = parse(text)
    except Refused as refusal:
        raise ModelFileError(f"{os.fspath(path)}:{refusal.line}: {refusal}") from None
    return _in_order(model) if sort_classes else model


def _in_order(model: LiblinearModel) -> LiblinearModel:
    """The same model with increasing classes."""
    if model.classes is None:
        return model
    order = np.argsort(model.classes)
    if len(order) != 2:
        return model._replace(classes=model.classes[order], coef=model.coef[order], intercept=model.intercept[order])
    if order[0] == 0:
        return model
    return model._replace(classes=model.classes[order], coef=-model.coef, intercept=0.0 - model.intercept)
