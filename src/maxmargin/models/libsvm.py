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

_INT_MAX = 2**31 - 1
_KERNEL_TYPES = {"rbf": "rbf", "linear": "linear", "poly": "polynomial", "sigmoid": "sigmoid"}
_DIGITS = {"float32": ".9g", "float64": ".17g"}  # that a number needs to be read back as itself


def write_libsvm(path: str | os.PathLike[str], estimator: Any) -> None:
    """Write a kernel classifier of two classes for LIBSVM, whole or not at all.

    LIBSVM computes in double precision. Where the model keeps its support vectors in single precision, decision values
    agree to about six digits.

    Parameters
    ----------
    path : path-like
        The file to write.
    estimator : BudgetSVC
        Fitted, with two classes whose labels are integers.

    Raises
    ------
    ValueError
        If the model cannot be put in LIBSVM's terms.
    OSError
        If the file cannot be written.
    """
    from sklearn.utils.validation import check_is_fitted

    kind = type(estimator).__name__
    if not hasattr(type(estimator), "export_libsvm"):
        advice = "; for linear models there is write_liblinear" if hasattr(estimator, "coef_") else ""
        raise ValueError(f"LIBSVM's models are kernel classifiers; a {kind} is not{advice}")
    check_is_fitted(estimator, "dual_coef_")
    labels = _two_labels(estimator.classes_)
    vectors, coefficients = estimator.support_vectors_, estimator.dual_coef_[0]
    if not (np.isfinite(vectors).all() and np.isfinite(coefficients).all() and np.isfinite(estimator.intercept_).all()):
        raise ValueError("the support vectors, coefficients and intercept of a model must be finite")
    is_positive = coefficients > 0.0
    order = np.argsort(~is_positive, kind="stable")  # LIBSVM has those of the first label first
    n_positive = int(np.count_nonzero(is_positive))
    header = [
        "svm_type c_svc",
        *_kernel_lines(estimator.kernel_),
        "nr_class 2",
        f"total_sv {len(order)}",
        f"rho {0.0 - float(estimator.intercept_[0]):.17g}",
        f"label {labels[1]} {labels[0]}",
        f"nr_sv {n_positive} {len(order) - n_positive}",
        "SV",
    ]
    digits = _DIGITS[vectors.dtype.name]
    with atomic_write(path) as file:
        file.write(("\n".join(header) + "\n").encode())
        for j in order.tolist():
            places = np.flatnonzero(vectors[j])
            entries = (f"{f + 1}:{value:{digits}}" for f, value in zip(places.tolist(), vectors[j, places].tolist()))
            file.write((" ".join([f"{coefficients[j]:.17g}", *entries]) + " \n").encode())


def is_libsvm(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a model file of LIBSVM."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return file.read(9) == b"svm_type "


def _kernel_lines(function: Any) -> list[str]:
    from maxmargin import kernels  # brings Numba with it

    lines = [f"kernel_type {_KERNEL_TYPES[kernels.name_of(function)]}"]
    return lines + [f"{name} {value:.17g}" for name, value in function._asdict().items()]


def _two_labels(classes: np.ndarray) -> list[int]:
    if len(classes) != 2:
        raise ValueError(
            f"LIBSVM's models of {len(classes)} classes have a decision for each pair of classes, and this one has a "
            "decision for each class against the rest, which that format cannot hold: only two classes can be exported"
        )
    is_number = classes.dtype.kind in "iuf"
    if not is_number or not all(abs(label) <= _INT_MAX and label == int(label) for label in classes.tolist()):
        raise ValueError(f"LIBSVM's labels are integers of 32 bits; the classes are {classes.tolist()}")
    return [int(label) for label in classes.tolist()]
