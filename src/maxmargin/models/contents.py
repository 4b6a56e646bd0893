"""What model files say, by kind: written, read, brought up to date, and checked before anybody relies on it.

Content is a tree (see `codec`) of names that all kinds of a family share:

    all                 params, chosen (those that are not as by default), classes, feature_names, first_index
    linear models       coef, intercept
    kernel machines     kernel, support_vectors, dual_coef, intercept, and n_support where classes meet in pairs
    how it was found    training: stop_reason, n_iter, solver, certificates, history

and, where learning can go on, the state of that, which is each kind's own (`budget`, `online`). `first_index` is what
the indices of the training file counted from: the same must hold for whatever the model is used on.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from maxmargin.models.codec import pack, split, unpack
from maxmargin.models.file import ModelFileError, read_model, write_model

LINEAR = ("LinearSVC", "LinearSVCCV", "LinearSVR", "StructuralSVC", "OnlineSVC")
KERNEL = ("BudgetSVC", "SVC", "SVR", "OneClassSVM")
REGRESSORS = ("LinearSVR", "SVR", "OneClassSVM")  # kinds without classes

# What reading nonsense may raise.
NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Content(NamedTuple):
    """A model file that has been read."""

    kind: str
    tree: dict[str, Any]
    written_by: str
    sha256: str  # of the model part


def write_content(path: str | os.PathLike[str], kind: str, tree: dict[str, Any]) -> None:
    """Write a tree as a model file, whole or not at all."""
    write_model(path, kind, *pack(tree))


def read_content(path: str | os.PathLike[str], *, mmap: bool | None = None, with_solvers: bool = True) -> Content:
    """Read a model file of this or an earlier version; see `read_model` and `unpack` for the options."""
    model = read_model(path, mmap=mmap)
    try:
        if model.version == 1:
            from maxmargin.models.version1 import brought_up_to_date

            tree = brought_up_to_date(model.kind, model.info, model.arrays)
        else:
            tree = unpack(model.info, model.arrays, model.clock, with_solvers=with_solvers)
        if not isinstance(tree, dict):
            raise ValueError("the content is not a dictionary")
    except NONSENSE as error:
        raise unusable(path, model.kind, error) from error
    return Content(model.kind, tree, model.written_by, model.sha256)


def unusable(path: str | os.PathLike[str], kind: str, error: Exception) -> ModelFileError:
    """The error for a file whose content makes no sense."""
    return ModelFileError(f"{os.fspath(path)}: not a usable {kind} model: {error!r:.300}")


# ---------------------------------------------------------------- checked parts


class Linear(NamedTuple):
    """Weights: a row for each class, or a single one for two classes and for a regressor."""

    classes: np.ndarray | None
    coef: np.ndarray
    intercept: np.ndarray


class Expansion(NamedTuple):
    """Support vectors and their coefficients: a row for each output; in pairs as LIBSVM has them."""

    classes: np.ndarray | None
    kernel: Any
    vectors: Any  # an array, or a sparse matrix
    coefficients: np.ndarray
    intercept: np.ndarray
    n_support: np.ndarray | None  # of each class, where classes meet in pairs


def classes_of(kind: str, tree: dict[str, Any]) -> np.ndarray | None:
    """The labels; None of a regressor."""
    if kind in REGRESSORS:
        return None
    classes = tree["classes"]
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise ValueError("class labels are not a row")
    if len(classes) < (1 if kind == "OnlineSVC" else 2):
        raise ValueError(f"{len(classes)} classes")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ValueError("class labels are not finite")
    if len(set(classes.tolist())) != len(classes):
        raise ValueError("a class occurs twice")
    return classes


def n_outputs_of(classes: np.ndarray | None) -> int:
    """One for two classes and for a regressor, else as many as there are classes."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def linear_parts(kind: str, tree: dict[str, Any]) -> Linear:
    """The weights of a linear model, checked."""
    classes = classes_of(kind, tree)
    coef, intercept, rows = tree["coef"], tree["intercept"], n_outputs_of(classes)
    if coef.ndim != 2 or intercept.shape != (rows,) or len(coef) != rows or not coef.shape[1]:
        raise ValueError(f"{rows} problems, coef {coef.shape} and intercept {intercept.shape} do not fit")
    _check_numbers("coefficients", coef, intercept)
    return Linear(classes, coef, intercept)


def kernel_parts(kind: str, tree: dict[str, Any]) -> Expansion:
    """The support vectors and coefficients of a kernel machine, checked."""
    from maxmargin import kernels

    classes, vectors = classes_of(kind, tree), tree["support_vectors"]
    vectors = _sparse(**vectors) if isinstance(vectors, dict) else vectors
    coefficients, intercept, n_support = tree["dual_coef"], tree["intercept"], tree.get("n_support")
    is_given = tree["kernel"] == "precomputed"
    if is_given:
        _check_places(tree, vectors.shape[0])
    elif type(tree["kernel"]) not in kernels.TAGS:
        raise ValueError("there is no kernel")
    if vectors.ndim != 2 or (not vectors.shape[1] and not is_given):
        raise ValueError(f"support vectors of shape {vectors.shape}")
    n, n_rows, n_values = vectors.shape[0], n_outputs_of(classes), n_outputs_of(classes)
    if n_support is not None:
        k = len(classes) if classes is not None else 0
        if n_support.shape != (k,) or n_support.dtype.kind not in "iu" or n_support.min() < 0 or n_support.sum() != n:
            raise ValueError(f"n_support does not divide {n} support vectors among {k} classes")
        n_rows, n_values = k - 1, k * (k - 1) // 2
        n_support = n_support if k > 2 else None  # two classes have one output, which speaks for the second
    if coefficients.shape != (n_rows, n) or intercept.shape != (n_values,):
        shapes = f"vectors {vectors.shape}, coefficients {coefficients.shape} and intercept {intercept.shape}"
        raise ValueError(f"{shapes} do not fit")
    _check_numbers("coefficients", coefficients, intercept)
    _check_numbers("support vectors", getattr(vectors, "data", vectors) if hasattr(vectors, "tocsr") else vectors)
    return Expansion(classes, tree["kernel"], vectors, coefficients, intercept, n_support)


def _check_places(tree: dict[str, Any], n: int) -> None:
    """Of a precomputed kernel: which of the rows of `fit` are support vectors."""
    support, shape = tree["support"], tree["shape_fit"]
    if support.shape != (n,) or support.dtype.kind != "i" or shape.shape != (2,) or shape[0] != shape[1]:
        raise ValueError(f"{support.shape} support vectors of a kernel matrix {shape}")
    if n and not (support.min() >= 0 and support.max() < shape[1]):
        raise ValueError(f"a support vector outside of a kernel matrix of {shape[1]} rows")


def _sparse(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray) -> Any:
    """A sparse matrix, checked from end to end."""
    from scipy.sparse import csr_matrix

    if not (data.ndim == indices.ndim == indptr.ndim == 1 and shape.shape == (2,)):
        raise ValueError("not the parts of a sparse matrix")
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or shape.dtype.kind != "i":
        raise ValueError("indices are not integers")
    matrix = csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    matrix.check_format(full_check=True)
    return matrix


def _check_numbers(what: str, *arrays: np.ndarray) -> None:
    for array in arrays:
        if array.dtype not in (np.float32, np.float64):
            raise ValueError(f"{what} are not floating-point numbers")
        if not np.isfinite(array).all():
            raise ValueError(f"{what} are not finite")


def feature_names_of(tree: dict[str, Any], n_features: int) -> np.ndarray | None:
    """The names of the features, if there are any, checked."""
    names = tree.get("feature_names")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n_features,)):
        raise ValueError(f"{len(names)} names of {n_features} features")
    return names


def first_index_of(tree: dict[str, Any]) -> int | None:
    """What the indices of the training file counted from; None if nobody knows."""
    first = tree.get("first_index")
    if first is not None and (type(first) is not int or first not in (0, 1)):
        raise ValueError(f"indices that count from {first!r}")
    return first


# ---------------------------------------------------------------- histories


def pack_histories(histories: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Every column of all problems one after the other; nan where a solver does not count it."""
    names = dict.fromkeys(name for each in histories for name in each)
    filled = [{name: each.get(name, np.full(len(each["passes"]), np.nan)) for name in names} for each in histories]
    columns = {name: np.concatenate([each[name] for each in filled]) for name in names}
    return {"columns": columns, "lengths": np.array([len(each["passes"]) for each in histories], dtype=np.int64)}


def unpack_histories(packed: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    """The history of each problem."""
    lengths = packed["lengths"]
    if len(lengths) and "passes" not in packed["columns"]:
        raise ValueError("a history without passes")
    histories: list[dict[str, np.ndarray]] = [{} for _ in lengths]
    for name, column in packed["columns"].items():
        for history, part in zip(histories, split(column, lengths)):
            history[name] = part
    return histories
