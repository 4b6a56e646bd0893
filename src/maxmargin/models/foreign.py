"""Models of LIBLINEAR and LIBSVM in maxmargin's terms: the trees that model files hold."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from maxmargin.models.contents import Content
from maxmargin.models.file import ModelFileError
from maxmargin.models.liblinear import read_liblinear
from maxmargin.models.libsvm import read_libsvm


def from_liblinear(path: str | os.PathLike[str]) -> Content:
    """A linear classifier or regressor. LIBLINEAR's indices count from 1."""
    model = read_liblinear(path)
    with_bias, name = model.bias > 0.0, model.solver_type
    params: dict[str, Any] = {"fit_intercept": with_bias, "intercept_scaling": model.bias if with_bias else 1.0}
    tree: dict[str, Any] = {"coef": model.coef, "intercept": model.intercept, "first_index": 1}
    if model.classes is None:
        kind = "LinearSVR"
        params["loss"] = "epsilon_insensitive" if "L1LOSS" in name else "squared_epsilon_insensitive"
    else:
        if len(model.classes) < 2:
            raise ModelFileError(f"{path}: a LIBLINEAR model of a single class, {model.classes[0]}: nothing to decide")
        kind, tree["classes"] = "LinearSVC", model.classes
        is_hinge = "L1LOSS" in name or "MCSVM" in name
        params["loss"] = "logistic" if "_LR" in name else "hinge" if is_hinge else "squared_hinge"
        if name.startswith("L1R_"):
            params["penalty"] = "l1"
        if "MCSVM" in name:
            params["multi_class"] = "crammer_singer"
    tree |= {"params": params, "chosen": list(params)}
    return Content(kind, tree, f"LIBLINEAR ({name})", "")


def from_libsvm(path: str | os.PathLike[str]) -> Content:
    """A kernel machine. LIBSVM's indices count from 1, and of two classes it means the first by a positive decision."""
    model = read_libsvm(path)
    kind = {"c_svc": "SVC", "nu_svc": "SVC", "epsilon_svr": "SVR", "nu_svr": "SVR", "one_class": "OneClassSVM"}
    tree: dict[str, Any] = {
        "params": {},
        "chosen": [],
        "kernel": model.kernel,
        "support_vectors": model.vectors,
        "dual_coef": model.coefficients,
        "intercept": -model.rho,
        "first_index": 1,
    }
    if model.classes is not None:
        classes, n_support = model.classes, model.n_support
        tree |= {"classes": classes, "n_support": n_support}
        if len(classes) == 2:  # in ascending order, with a single output that speaks for the second
            sign = 1.0 if classes[0] > classes[1] else -1.0
            del tree["n_support"]
            tree |= {
                "classes": np.sort(classes),
                "dual_coef": sign * model.coefficients,
                "intercept": -sign * model.rho,
            }
    return Content(kind[model.svm_type], tree, f"LIBSVM ({model.svm_type})", "")
