"""SVC, SVR and OneClassSVM as trees: support vectors, coefficients, and how they were found."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin import kernels
from maxmargin.models import contents


def tree_of(estimator: Any) -> dict[str, Any]:
    """What is particular to a fitted kernel machine.

    Raises
    ------
    TypeError
        If its kernel is a function of the user's, or its features are random: a file cannot hold that.
    """
    if not isinstance(estimator.kernel_, (str, *kernels.TAGS)):
        raise TypeError(
            "a kernel that is a function cannot be saved: a file holds numbers, not code. Give the name of a kernel, "
            'or take kernel="precomputed" and call the function yourself'
        )
    if estimator._fourier is not None:
        raise TypeError('a model of solver="fourier" cannot be saved: take solver="nystroem" or "auto"')
    coefficients = estimator.dual_coef_
    tree: dict[str, Any] = {
        "kernel": estimator.kernel_,
        "support": estimator.support_,
        "support_vectors": _vectors(estimator),
        "dual_coef": coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients,
        "intercept": estimator.intercept_,
        "shape_fit": np.array(estimator.shape_fit_, dtype=np.int64),
        "slopes": getattr(estimator, "_slopes", None),
    }
    if hasattr(estimator, "classes_"):
        tree |= {"class_sizes": estimator.n_support_, "class_weight": estimator.class_weight_}
        if estimator.is_one_vs_one:
            tree["n_support"] = estimator.n_support_
    if hasattr(estimator, "certificate_"):  # a model that LIBSVM has trained has none
        tree["training"] = {
            "stop_reason": estimator.stop_reason_,
            "n_iter": np.atleast_1d(estimator.n_iter_),
            "solver": estimator.solver_,
            "certificates": np.array([[*c, getattr(c, "scale", 0.0)] for c in estimator.certificates_]),
            "history": contents.pack_histories(estimator.histories_),
        }
    return tree


def _vectors(estimator: Any) -> Any:
    vectors = estimator.support_vectors_
    if estimator.kernel_ == "precomputed":  # their places stand for them; they are columns of what `predict` is given
        return np.zeros((len(estimator.support_), 0))
    if not hasattr(vectors, "tocsr"):
        return np.ascontiguousarray(vectors)
    parts = {"data": vectors.data, "indices": vectors.indices, "indptr": vectors.indptr}
    return parts | {"shape": np.array(vectors.shape, dtype=np.int64)}


def restore(estimator: Any, tree: dict[str, Any]) -> None:
    """Give an estimator with parameters and `classes_` the rest of what `tree_of` has told, or LIBSVM."""
    kind = type(estimator).__name__
    parts = contents.kernel_parts(kind, tree)
    n, n_features = parts.vectors.shape
    vectors = parts.vectors
    if parts.kernel == "precomputed":
        n_features, vectors, estimator._fit_rows = int(tree["shape_fit"][1]), np.empty((0, 0)), None
    estimator.kernel_, estimator.n_features_in_, estimator._fourier = parts.kernel, n_features, None
    estimator.intercept_ = np.array(parts.intercept)
    support = tree.get("support", np.zeros(0, np.int32))  # LIBSVM does not say which rows they were
    sizes = tree.get("class_sizes", tree.get("n_support"))
    if sizes is None:
        first = int(np.count_nonzero(parts.coefficients[0] < 0.0)) if parts.classes is not None else n
        sizes = np.array([first, n - first] if parts.classes is not None else [n])
    if sizes.sum() != n or len(support) not in (0, n):
        raise ValueError(f"{len(support)} rows and counts {sizes.tolist()} do not fit {n} support vectors")
    estimator._set_machine(vectors, parts.coefficients, np.asarray(support, np.int32), np.array(sizes, np.int32))
    estimator.shape_fit_ = tuple(int(size) for size in tree.get("shape_fit", (n, n_features)))
    if parts.classes is not None:
        estimator.class_weight_ = np.array(tree.get("class_weight", np.ones(len(parts.classes))))
        estimator._slopes = tree.get("slopes")
        if estimator._slopes is not None and estimator._slopes.shape != (len(parts.intercept), 2):
            raise ValueError(f"slopes of shape {estimator._slopes.shape}")
    if kind == "OneClassSVM":
        estimator.offset_ = -float(parts.intercept[0])
    if "training" in tree:
        is_joint = getattr(estimator, "multi_class", "ovo") == "crammer_singer"
        _restore_training(estimator, tree["training"], 1 if is_joint else len(parts.intercept))


def _restore_training(estimator: Any, training: dict[str, Any], problems: int) -> None:
    from maxmargin.problem.kernel_program import KernelCertificate

    certificates = []
    for *bounds, scale in training["certificates"]:
        certificates.append(KernelCertificate(*map(float, bounds)))
        certificates[-1].scale = float(scale)
    histories, passes = contents.unpack_histories(training["history"]), training["n_iter"]
    if not len(certificates) == len(histories) == len(passes) == problems:
        raise ValueError(f"{len(certificates)} certificates and {len(histories)} histories of {problems} problems")
    estimator.certificate_ = certificates[0] if problems == 1 else certificates
    estimator.history_ = histories[0] if problems == 1 else histories
    estimator.n_iter_ = np.array(passes, np.int32) if hasattr(estimator, "classes_") else int(passes[0])
    estimator.stop_reason_, estimator.solver_ = str(training["stop_reason"]), training["solver"]
    estimator.fit_status_ = int(estimator.stop_reason_ not in ("converged", "callback"))
