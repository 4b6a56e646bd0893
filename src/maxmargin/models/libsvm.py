"""LIBSVM's model files: text, one line per support vector.

    svm_type c_svc
    kernel_type rbf                    linear, polynomial, rbf or sigmoid, then the parameters that it has
    gamma 0.5
    nr_class 2
    total_sv 3
    rho -0.1                           minus the intercept
    label 1 -1                         a positive decision means the first
    nr_sv 2 1                          support vectors of each
    SV
    0.5 1:0.25 3:-1                    coefficient, then the features that are not zero, counted from 1
    ...

What differs from scikit-learn's convention: of two classes LIBSVM means the first by a positive decision, scikit-learn
the second. And more than two classes are one against one in LIBSVM, with a decision for each pair of classes; one
against the rest has no form in it.

Merged support vectors are vectors like others, of no class. They are counted to the class that they speak for.
"""

from __future__ import annotations

import os
import stat
from typing import Any

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.models._liblinear_text import Refused
from maxmargin.models._libsvm_text import LibsvmModel, parse
from maxmargin.models.file import ModelFileError

_INT_MAX = 2**31 - 1
_KERNEL_TYPES = {"rbf": "rbf", "linear": "linear", "poly": "polynomial", "sigmoid": "sigmoid"}
_DIGITS = {"float32": ".9g", "float64": ".17g"}  # that a number needs to be read back as itself


def write_libsvm(path: str | os.PathLike[str], estimator: Any) -> None:
    """Write a kernel machine for LIBSVM, whole or not at all.

    LIBSVM computes in double precision. Where the model keeps its support vectors in single precision, decision values
    agree to about six digits.

    Parameters
    ----------
    path : path-like
        The file to write.
    estimator : SVC, SVR, OneClassSVM or BudgetSVC, or what `open_model` has read
        Fitted. Labels are integers; more than two classes must meet in pairs.

    Raises
    ------
    ValueError
        If the model cannot be put in LIBSVM's terms.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxmargin import SVC
    >>> clf = SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_libsvm(os.path.join(folder, "svm.model"), clf)
    ...     len(os.listdir(folder))
    1
    """
    kind = getattr(estimator, "kind", type(estimator).__name__)
    if not (hasattr(type(estimator), "export_libsvm") or hasattr(estimator, "kernel_")):
        advice = "; for linear models there is write_liblinear" if hasattr(estimator, "coef_") else ""
        raise ValueError(f"LIBSVM's models are kernel machines; a {kind} is not{advice}")
    if not hasattr(estimator, "dual_coef_"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, "dual_coef_")
    from maxmargin import kernels  # brings Numba with it

    if not isinstance(estimator.kernel_, kernels.TAGS):
        raise ValueError("a kernel that is precomputed or a function of the user's has no form in LIBSVM's files")
    vectors, coefficients = estimator.support_vectors_, estimator.dual_coef_
    coefficients = coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients
    numbers = (vectors.data if hasattr(vectors, "tocsr") else vectors, coefficients, estimator.intercept_)
    if not all(np.isfinite(part).all() for part in numbers):
        raise ValueError("the support vectors, coefficients and intercept of a model must be finite")
    order = np.arange(vectors.shape[0])
    if hasattr(estimator, "classes_"):
        header, order, coefficients = _of_classes(estimator, coefficients)
    else:
        header = [f"rho {_rho(estimator.intercept_)}"]
    svm_type = {"SVR": "epsilon_svr", "OneClassSVM": "one_class"}.get(kind, "c_svc")
    n_classes = len(estimator.classes_) if hasattr(estimator, "classes_") else 2
    first = [f"svm_type {svm_type}", *_kernel_lines(estimator.kernel_), f"nr_class {n_classes}"]
    with atomic_write(path) as file:
        file.write(("\n".join([*first, f"total_sv {len(order)}", *header, "SV"]) + "\n").encode())
        digits = _DIGITS[vectors.dtype.name]
        for j in order.tolist():
            places, values = _nonzeros(vectors, j)
            entries = (f"{f + 1}:{value:{digits}}" for f, value in zip(places.tolist(), values.tolist()))
            file.write((" ".join([*(f"{c:.17g}" for c in coefficients[:, j]), *entries]) + " \n").encode())


def _nonzeros(vectors: Any, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of a support vector's features that are not zero."""
    if hasattr(vectors, "tocsr"):
        part = slice(vectors.indptr[j], vectors.indptr[j + 1])
        return vectors.indices[part], vectors.data[part]
    places = np.flatnonzero(vectors[j])
    return places, vectors[j, places]


def _rho(intercept: np.ndarray) -> str:
    return " ".join(f"{0.0 - float(b):.17g}" for b in intercept)


def _of_classes(estimator: Any, coefficients: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Header, order of the support vectors and coefficients of a classifier."""
    labels, n = _labels(estimator.classes_), coefficients.shape[1]
    if len(labels) > 2:
        n_support = getattr(estimator, "n_support_", None)
        if n_support is None or coefficients.shape[0] != len(labels) - 1:
            raise ValueError(
                f"LIBSVM's models of {len(labels)} classes have a decision for each pair of classes, and this one has "
                "a decision for each class against the rest, which that format cannot hold: only two classes can be "
                "exported"
            )
        header = [f"rho {_rho(estimator.intercept_)}", f"label {' '.join(map(str, labels))}"]
        return [*header, f"nr_sv {' '.join(map(str, np.asarray(n_support).tolist()))}"], np.arange(n), coefficients
    is_positive = coefficients[0] > 0.0
    order = np.argsort(~is_positive, kind="stable")  # LIBSVM has those of the first label first
    n_positive = int(np.count_nonzero(is_positive))
    header = [f"rho {_rho(estimator.intercept_)}", f"label {labels[1]} {labels[0]}"]
    return [*header, f"nr_sv {n_positive} {n - n_positive}"], order, coefficients


def is_libsvm(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a model file of LIBSVM."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return file.read(9) == b"svm_type "


def read_libsvm(path: str | os.PathLike[str]) -> LibsvmModel:
    """Read a kernel machine that LIBSVM has written.

    Parameters
    ----------
    path : path-like
        A model file of LIBSVM, of a classifier, a regressor or a one-class model.

    Returns
    -------
    model : LibsvmModel
        In LIBSVM's conventions and order of classes.

    Raises
    ------
    ModelFileError
        If the file is not such a model, with the line where it goes wrong.
    """
    with open(path, "rb") as file:
        text = file.read()
    try:
        return parse(text)
    except Refused as refusal:
        raise ModelFileError(f"{os.fspath(path)}:{refusal.line}: {refusal}") from None


def _kernel_lines(function: Any) -> list[str]:
    from maxmargin import kernels  # brings Numba with it

    lines = [f"kernel_type {_KERNEL_TYPES[kernels.name_of(function)]}"]
    return lines + [f"{name} {value:.17g}" for name, value in function._asdict().items()]


def _labels(classes: np.ndarray) -> list[int]:
    is_number = classes.dtype.kind in "iuf"
    if not is_number or not all(abs(label) <= _INT_MAX and label == int(label) for label in classes.tolist()):
        raise ValueError(f"LIBSVM's labels are integers of 32 bits; the classes are {classes.tolist()}")
    return [int(label) for label in classes.tolist()]
