"""What estimators of all kinds share: how a fitted one is used and saved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.data.outputs import decided
from maxmargin.data.rows import Array
from maxmargin.estimators._callbacks import CallbackSupportMixin
from maxmargin.estimators._docs import documented
from maxmargin.estimators._shared_parameters import Limits
from maxmargin.estimators._stored import outputs_of
from maxmargin.estimators._summary import Summary, summarize
from maxmargin.solvers.interrupts import end_of_fit


class Estimator(CallbackSupportMixin, BaseEstimator, Limits):
    """An estimator that takes sparse rows and can be saved.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names
    """

    # Further arguments of `run`, such as a checkpoint, for the command line.
    _run_options: Mapping[str, Any] = MappingProxyType({})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        raise NotImplementedError

    def _fit_and_warn(self, X: Any, y: Any, sample_weight: Any) -> None:
        complaint = self._train(X, y, sample_weight)
        if complaint:  # raised here, so that it points at the line that called `fit`
            end_of_fit(self.stop_reason_, complaint, ConvergenceWarning, stacklevel=3)

    @property
    def certificates_(self) -> list[Any]:
        """The certificates as a list, one for each binary problem, however many classes there are.

        Empty where nothing was certified. `certificate_` is the only one itself if there are two classes.
        """
        return self._of_each("certificate_")

    @property
    def histories_(self) -> list[dict[str, Array]]:
        """The histories as a list, one for each binary problem; `history_` is the only one itself."""
        return self._of_each("history_")

    def _of_each(self, name: str) -> list[Any]:
        if name not in vars(self):
            raise AttributeError(f"this {type(self).__name__} instance has no {name}; is it fitted?")
        found = vars(self)[name]
        return list(found) if isinstance(found, list) else [] if found is None else [found]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a safe file that ``maxmargin.load`` reads.

        Parameters
        ----------
        path : path
        """
        from maxmargin.models.estimator import save

        save(self, path)

    def to_onnx(self, path: str | PathLike[str] | None = None, *, dtype: Any = "float32") -> Any:
        """The fitted model as an ONNX graph, for ONNX Runtime and its like (extra `onnx`).

        Parameters
        ----------
        path : path, optional
            File to write it to.
        dtype : {"float32", "float64"}, default="float32"
            Numbers of the input and the outputs.

        Returns
        -------
        onnx.ModelProto
            See `maxmargin.export.to_onnx`, which takes pipelines as well.
        """
        from maxmargin.export import to_onnx

        return to_onnx(self, path, dtype=dtype)

    def to_c(self, path: str | PathLike[str] | None = None, *, name: str = "model") -> str:
        """The fitted model as one file of C99 that needs nothing else.

        Parameters
        ----------
        path, name :
            As of `maxmargin.export.to_c`.

        Returns
        -------
        str
        """
        from maxmargin.export import to_c

        return to_c(self, path, name=name)

    def summary(self) -> Summary:
        """What ran, how far it got and what was proven, in a few lines.

        Returns
        -------
        Summary
            Text at a prompt, a table in a notebook, and a mapping of names to strings.

        Examples
        --------
        >>> from maxmargin import LinearSVC
        >>> clf = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> clf.summary()["stopped"]
        'converged (tol = 0.001)'
        """
        check_is_fitted(self, "n_features_in_")
        return summarize(self)

    def _html_repr(self) -> str:
        """scikit-learn's diagram; of a fitted model the summary below it."""
        diagram = super()._html_repr()
        return diagram + self.summary()._repr_html_() if hasattr(self, "stop_reason_") else diagram


def _has_probabilities(estimator: Any) -> bool:
    return estimator._check_probabilities() is None


@documented
class Classifier(ClassifierMixin):
    """One output for two classes (the second's, in their order), else one for each. A subclass has `_outputs`."""

    classes_: Array

    if TYPE_CHECKING:

        def _outputs(self, X: Any) -> Array:
            """Values of the decision functions, of shape (n_samples, n_outputs)."""

    def decision_function(self, X: Any) -> Array:
        """Values of the decision functions: positive for the class, and the larger the surer.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        return self._decisions_of(outputs_of(X, self._outputs))

    def predict(self, X: Any) -> Array:
        """Class of each row.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._labels_of(outputs_of(X, self._outputs))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities of all classes; see `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._log_probabilities_of(outputs_of(X, self._outputs))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of all classes, where there are any: ``loss="logistic"``, `SVC` with ``probability=True``.

        Of the logistic loss for two classes 1 / (1 + exp(-decision)); for more, those of each class against the rest,
        divided by their sum. The most probable class is the one that `predict` says.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.

        Examples
        --------
        >>> from maxmargin import LinearSVC
        >>> clf = LinearSVC(loss="logistic").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> clf.predict_proba([[9.0]]).round(1)
        array([[0., 1.]])
        """
        return self._probabilities_of(outputs_of(X, self._outputs))

    # ------------------------------------------------------------ from outputs; subclasses may see more in them

    def _decisions_of(self, outputs: Array) -> Array:
        return outputs.ravel() if outputs.shape[1] == 1 else outputs

    def _labels_of(self, outputs: Array) -> Array:
        return decided(self.classes_, self._decisions_of(outputs))

    def _check_probabilities(self) -> None:
        """Refuse them unless the loss is a likelihood: then its outputs say how probable a class is."""
        loss = getattr(self, "loss", None)
        is_logistic = loss == "logistic" or type(loss).__name__ == "Logistic"
        if not is_logistic or getattr(self, "multi_class", "ovr") == "crammer_singer":
            raise AttributeError(
                f"only the logistic loss has probabilities, not loss={loss!r}; "
                "calibrate(X, y) makes them for any classifier with a decision function"
            )

    def _probabilities_of(self, outputs: Array) -> Array:
        return np.exp(self._log_probabilities_of(outputs))

    def _log_probabilities_of(self, outputs: Array) -> Array:
        """Exact, too, where a probability is too small for a number."""
        if len(self.classes_) == 1:  # so far, in a stream
            return np.zeros((len(outputs), 1))
        if outputs.shape[1] == 1:
            return -np.logaddexp(0.0, np.hstack([outputs, -outputs]))
        logs = -np.logaddexp(0.0, -outputs)  # of each class against the rest; they do not add up to 1 yet
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def calibrate(self, X: Any, y: Any, *, method: str = "sigmoid", cv: Any = 5, sample_weight: Any = None) -> Any:
        """A classifier with probabilities, made from this one and scikit-learn's `CalibratedClassifierCV`.

        Margins are no probabilities. Here every row gets a margin from a model that has not seen it, a curve from
        margins to probabilities is fitted to these, and one model is trained on all rows. `predict` of what is returned
        says its most probable class.

        Parameters
        ----------
        method : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
            Platt's curve; any rising one, which takes thousands of rows; or a temperature (scikit-learn 1.8).
        cv : int, splitter or "prefit", default=5
            Folds. "prefit": this classifier has been fitted, to other rows; X and y are for the curve alone.

        Returns
        -------
        CalibratedClassifierCV
            Fitted. ``calibrated_classifiers_[0].estimator`` is the model, with its certificate.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from maxmargin import LinearSVC
        >>> X, y = make_classification(n_samples=500, random_state=0)
        >>> calibrated = LinearSVC().calibrate(X, y)
        >>> calibrated.predict_proba(X[:3]).shape
        (3, 2)
        """
        from sklearn.calibration import CalibratedClassifierCV

        if isinstance(cv, str):
            from sklearn.frozen import FrozenEstimator

            if cv != "prefit":
                raise ValueError(f'cv must be a number of folds, a splitter or "prefit", got {cv!r}')
            check_is_fitted(self, "classes_")
            curve = CalibratedClassifierCV(FrozenEstimator(self), method=method, ensemble=False)
        else:
            curve = CalibratedClassifierCV(self, method=method, cv=cv, ensemble=False)
        with warnings.catch_warnings():  # a frozen model needs no weights: the curve has them
            warnings.filterwarnings("ignore", "Since FrozenEstimator", UserWarning)
            return curve.fit(X, y, sample_weight=sample_weight)


@documented
class Regressor(RegressorMixin):
    """One output, which is the value predicted. A subclass has `_outputs`."""

    if TYPE_CHECKING:

        def _outputs(self, X: Any) -> Array:
            """Values of the regression function, of shape (n_samples, 1)."""

    def predict(self, X: Any) -> Array:
        """Value predicted for each row.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return outputs_of(X, self._outputs).ravel()


class LibsvmExport:
    """A kernel machine that can be written as LIBSVM's models are."""

    def export_libsvm(self, path: str | PathLike[str]) -> None:
        """Write the fitted model for LIBSVM's ``svm-predict`` and its like; class labels must be integers.

        Parameters
        ----------
        path : path
        """
        from maxmargin.models.libsvm import write_libsvm

        write_libsvm(path, self)


def as_targets(y: Any) -> Array:
    """The targets of a regression as numbers."""
    try:
        return np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the targets of a regression must be numbers: {error}") from error
