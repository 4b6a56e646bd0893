"""Models that predict, and know what they are: all that the command line needs, without scikit-learn.

`open_model` reads maxmargin's own files and those of LIBLINEAR and LIBSVM. The attributes have the names that they have
in estimators.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from maxmargin.data.outputs import decided, linear_outputs
from maxmargin.models import contents
from maxmargin.models.contents import Content
from maxmargin.models.file import ModelFileError
from maxmargin.models.pairs import ON_THE_BORDER, given_outputs, of_classes, outputs_from, votes, votes_and_margins


class Predictor:
    """A model that predicts.

    Parameters
    ----------
    content : Content

    Attributes
    ----------
    kind : str
        The name of the estimator, or what LIBLINEAR or LIBSVM calls the model.
    tree : dict
        All of the file.
    classes_ : ndarray, of a classifier only
    n_features_in_ : int
    feature_names_in_ : ndarray of str, or None
    first_index : int or None
        What the indices of the training file counted from.
    intercept_ : ndarray
    """

    n_features_in_: int
    intercept_: np.ndarray

    def __init__(self, content: Content, classes: np.ndarray | None, n_features: int):
        self.kind, self.tree, self.written_by, self.sha256 = content
        self.n_features_in_ = n_features
        self.feature_names_in_ = contents.feature_names_of(self.tree, n_features)
        self.first_index = contents.first_index_of(self.tree)
        if classes is not None:
            self.classes_ = classes

    def outputs(self, X: Any) -> np.ndarray:
        """Values of the decision functions, of shape (n_rows, n_outputs)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Values of the decision functions; a row of them for more than two classes."""
        values = self.outputs(X)
        return values.ravel() if values.shape[1] == 1 else values

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row, or its value by a regressor."""
        values = self.decision_function(X)
        return decided(self.classes_, values) if hasattr(self, "classes_") else values


class LinearPredictor(Predictor):
    """x'w + b for each output."""

    def __init__(self, content: Content):
        parts = contents.linear_parts(content.kind, content.tree)
        super().__init__(content, parts.classes, parts.coef.shape[1])
        self.coef_, self.intercept_ = parts.coef, parts.intercept

    def outputs(self, X: Any) -> np.ndarray:
        """x'w + b."""
        return linear_outputs(X, self.coef_, self.intercept_)


class KernelPredictor(Predictor):
    """sum_j coefficient_j k(z_j, x) + b for each output; of classes that meet in pairs, a vote."""

    def __init__(self, content: Content):
        from maxmargin.kernels import as_support

        parts = contents.kernel_parts(content.kind, content.tree)
        super().__init__(content, parts.classes, parts.vectors.shape[1])
        self.kernel_, self.support_vectors_ = parts.kernel, parts.vectors
        self.dual_coef_, self.intercept_, self.n_support_ = parts.coefficients, parts.intercept, parts.n_support
        self._machine: Machine | None = None
        self._support: Any = None
        if parts.kernel == "precomputed":
            self.n_features_in_ = int(content.tree["shape_fit"][1])
            self._machine = GivenMachine(parts, content.tree["support"])
            return
        if content.kind != "BudgetSVC":
            self._machine = Machine(parts)
            return
        self._support = as_support(parts.vectors, parts.vectors.dtype)
        norms2 = content.tree.get("state", {}).get("norms2") if content.kind == "BudgetSVC" else None
        if norms2 is not None:
            if norms2.shape != (len(parts.vectors),) or not np.isfinite(norms2).all():
                raise ValueError("the squared lengths do not fit the support vectors")
            self._support.norms2[: len(norms2)] = norms2

    def outputs(self, X: Any) -> np.ndarray:
        """Sums of kernel values, of each output or each pair of classes."""
        from maxmargin.data.rows import as_rows
        from maxmargin.kernels import decision_values

        rows = as_rows(X)[0]
        if self._machine is not None:
            return self._machine.outputs(rows) + self.intercept_
        coefficients = np.ascontiguousarray(self.dual_coef_, dtype=np.float64)
        return decision_values(self.kernel_, rows, self._support, coefficients, self.intercept_, 1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Values of the decision functions; of classes that meet in pairs how often each wins, and by how much."""
        values = super().decision_function(X)
        return values if self.n_support_ is None else votes_and_margins(values, len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row, or its value by a regressor, or whether it is one (1) or not (-1)."""
        if self.n_support_ is not None:
            return self.classes_[votes(self.outputs(X), len(self.classes_)).argmax(axis=1)]
        values = super().predict(X)
        if self.kind != "OneClassSVM":
            return values
        small = ON_THE_BORDER * max(float(np.abs(self.intercept_[0])), float(np.abs(self.dual_coef_).sum()))
        return np.where(values >= -small, 1, -1)


class Machine:
    """The decision functions of a kernel machine; of classes that meet in pairs, one for each pair."""

    def __init__(self, parts: contents.Expansion):
        from maxmargin.data.rows import as_rows
        from maxmargin.kernels.expansion import Expansion

        places = of_classes(parts.n_support, parts.vectors.shape[0])
        self.parts = [Expansion(parts.kernel, as_rows(parts.vectors[p])[0], parts.coefficients[:, p]) for p in places]

    def outputs(self, rows: Any) -> np.ndarray:
        """Values without intercepts."""
        return outputs_from([part.outputs(rows) for part in self.parts])


class GivenMachine(Machine):
    """The same of kernel values that are given: rows have them with all rows of the training."""

    def __init__(self, parts: contents.Expansion, support: np.ndarray):
        self.support, self.coefficients = support, parts.coefficients
        self.places = of_classes(parts.n_support, len(support))

    def outputs(self, rows: Any) -> np.ndarray:
        """Values without intercepts."""
        from maxmargin.data.rows import as_dense

        return given_outputs(as_dense(rows)[:, self.support], self.coefficients, self.places)


def open_model(path: str | os.PathLike[str]) -> Predictor:
    """The model in a file of maxmargin, LIBLINEAR or LIBSVM.

    Raises
    ------
    ModelFileError
        If the file is no such model, is damaged or was made to do harm.
    """
    content = read_any(path, with_solvers=False)
    if content.kind not in contents.LINEAR + contents.KERNEL:
        raise ModelFileError(f"{os.fspath(path)}: holds a {content.kind!r}, which does not predict")
    try:
        return (LinearPredictor if content.kind in contents.LINEAR else KernelPredictor)(content)
    except contents.NONSENSE as error:
        raise contents.unusable(path, content.kind, error) from error


def read_any(path: str | os.PathLike[str], *, mmap: bool | None = None, with_solvers: bool = True) -> Content:
    """What a file of maxmargin, LIBLINEAR or LIBSVM says, in maxmargin's terms."""
    from maxmargin.models.liblinear import is_liblinear
    from maxmargin.models.libsvm import is_libsvm

    if is_liblinear(path):
        from maxmargin.models.foreign import from_liblinear

        return from_liblinear(path)
    if is_libsvm(path):
        from maxmargin.models.foreign import from_libsvm

        return from_libsvm(path)
    return contents.read_content(path, mmap=mmap, with_solvers=with_solvers)
