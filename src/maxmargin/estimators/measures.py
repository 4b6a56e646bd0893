"""Classifiers for a measure of all predictions together, with scikit-learn's interface and a certificate.

A class of its own rather than a loss of `LinearSVC`: these measures are no losses of single rows, so that one-vs-rest,
class weights and most solvers mean nothing to them, and for rankings the intercept has another meaning.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight, _num_samples, column_or_1d

from maxmargin import losses, measures
from maxmargin.data.rows import Array
from maxmargin.estimators._base import LinearEstimator
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._one_vs_rest import OneVsRest, check_labels
from maxmargin.estimators._shared_parameters import LossWeight
from maxmargin.losses import Loss
from maxmargin.problem import Problem
from maxmargin.solvers.planes.svmperf import SVMPerf


@documented
@dataclass(eq=False, repr=False)
class StructuralSVC(Classifier, LinearEstimator, LossWeight):
    """Linear classifier of two classes that is trained for F1, ROC area, or precision or recall among the first k.

    Minimises ``1/2 |w|^2 + C n R``, where R, a convex function of the outputs of all n rows, bounds 1 - measure from
    above: the structural SVM of Joachims (2005). With measure "error_rate" it is the SVM of the hinge loss. Training
    stops when it has proven that the objective is within `tol` of the optimum. See `maxmargin.measures`, also
    for when F1, precision and recall are not the measures to train for.

    Parameters
    ----------
    measure : str or measure object, default="roc_area"
        "error_rate", "f1", "precision_at_k", "recall_at_k" or "roc_area".
    k : int, default=0
        Of precision and recall at k; 0: as many as there are positive rows.
    C : float, default=1.0
        Weight of the risk; the same scale as that of `LinearSVC` with the hinge loss.
    max_iter : float, default=None
        Limit on passes over the data; None: 10,000.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept, for "error_rate" and "f1". The other measures
        are of the order of outputs. Their intercept is set after training, for `predict`: as many training rows are
        positive as k says, or as were positive (where precision is equal to recall).
    warm_start : bool, default=False
        Begin `fit` at the previous solution, if that was of as many rows.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The second is the positive one.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=500, weights=[0.9], random_state=0)
    >>> clf = StructuralSVC("roc_area", C=0.1).fit(X, y)
    >>> clf.certificate_.relative_gap <= 1e-3
    True
    >>> clf.score(X, y) > 0.9
    True
    """

    measure: Any = "roc_area"
    k: int = 0
    _: KW_ONLY
    intercept_scaling: float = 1.0
    warm_start: bool = False

    random_state = None  # nothing is random

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def solver(self) -> SVMPerf:
        """The solver that trains for the measure."""
        return SVMPerf(self.measure, self.k)

    @property
    def fit_intercept(self) -> bool:
        """Whether the intercept is found in training: it is not if the measure does not depend on it."""
        return not measures.is_ranking(measures.get(self.measure, self.k))

    def _checked_loss(self) -> Loss:
        measures.get(self.measure, self.k)
        return losses.Hinge()

    def _problems(self, problem: Problem, y: Array) -> OneVsRest:
        check_labels(y)
        problems = OneVsRest(problem, y, None)
        if len(problems.classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The target has {len(problems.classes)} classes: "
                "sklearn.multiclass.OneVsRestClassifier can make a StructuralSVC of each"
            )
        return problems

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StructuralSVC:
        """Train on rows X with labels y.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
            Labels of two classes; the second, in their order, is the positive one.
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out. F1, precision and recall count rows: weights must
            be whole numbers (rows are then copied as often), or zero or all the same.

        Returns
        -------
        self
        """
        copies = self._copies(sample_weight)
        if copies is not None and len(copies) == _num_samples(X) == _num_samples(y):
            X, y, sample_weight = _repeated(X, copies), column_or_1d(y).repeat(copies), None
        self._fit_and_warn(X, y, sample_weight)
        if not self.fit_intercept:
            self._set_threshold(X, column_or_1d(y), sample_weight)
        return self

    def _copies(self, sample_weight: Any) -> Array | None:
        """How often each row counts, where the measure counts rows and their weights are different whole numbers."""
        if sample_weight is None or not isinstance(measures.get(self.measure, self.k), measures.OF_COUNTS):
            return None
        weight = np.asarray(sample_weight)
        if (
            weight.ndim != 1
            or weight.dtype.kind not in "iuf"
            or not np.all(weight == np.clip(np.rint(weight), 0, None))
        ):
            return None
        present = weight[weight > 0]
        is_plain = len(present) == 0 or present.min() == present.max() or not np.isfinite(present).all()
        return None if is_plain else weight.astype(np.int64)

    def _set_threshold(self, X: Any, y: Array, sample_weight: Any) -> None:
        """Let as many rows be positive as the measure speaks of; half-way between two outputs."""
        z = self._outputs(X).ravel()
        weight = _check_sample_weight(sample_weight, z)
        k = self.solver.k
        wanted = k * weight.max() if k else weight[y == self.classes_[1]].sum()
        order = np.argsort(-z, kind="stable")
        order = order[weight[order] > 0.0]
        above = np.cumsum(weight[order])
        last = int(np.searchsorted(above, wanted * (1.0 - 1e-12)))
        lower = z[order[last + 1]] if last + 1 < len(order) else z[order[last]] - 1.0
        self.intercept_ = np.array([-0.5 * (z[order[last]] + lower)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The measure that the classifier was trained for (for the error rate: the share of rows that are right).

        Returns
        -------
        float
        """
        z = self.decision_function(X)
        labels = np.where(column_or_1d(y) == self.classes_[1], 1.0, -1.0)
        copies = self._copies(sample_weight)
        if copies is not None:
            z, labels, sample_weight = z.repeat(copies), labels.repeat(copies), None
        return 1.0 - measures.get(self.measure, self.k).loss(z, labels, sample_weight)


def _repeated(X: Any, copies: Array) -> Any:
    """The rows of X, each as often as told, in what X is: a table stays one, with its names."""
    return _safe_indexing(X.tocsr() if issparse(X) else X, np.repeat(np.arange(len(copies)), copies))
