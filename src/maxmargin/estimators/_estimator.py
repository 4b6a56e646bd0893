"""What estimators of all kinds share: how a fitted one is used and saved."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from maxmargin.rows import Array


class Estimator(BaseEstimator):
    """An estimator that takes sparse rows and can be saved."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a safe file that ``maxmargin.load`` reads.

        Parameters
        ----------
        path : path
        """
        from maxmargin.models.estimator import save

        save(self, path)


class Classifier(ClassifierMixin):
    """One output for two classes (the second's, in their order), else one for each. A subclass has `_outputs`."""

    classes_: Array

    if TYPE_CHECKING:

        def _outputs(self, X: Any) -> Array:
            """Values of the decision functions, of shape (n_samples, n_outputs)."""

    def decision_function(self, X: Any) -> Array:
        """Values of the decision functions: positive for the class, and the larger the surer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        values = self._outputs(X)
        return values.ravel() if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Array:
        """Class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self.decision_function(X)
        if len(self.classes_) == 1:  # so far, in a stream
            return np.repeat(self.classes_, len(values))
        return self.classes_[(values > 0.0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]
