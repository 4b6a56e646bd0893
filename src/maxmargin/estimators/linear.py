"""Linear classifiers and regressors with scikit-learn's interface and a certificate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from maxmargin.estimators._base import LinearEstimator
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._one_vs_rest import OneVsRest
from maxmargin.estimators._parameters import classifier_loss, regressor_loss
from maxmargin.losses import Loss
from maxmargin.problem import Problem
from maxmargin.rows import Array


class LinearSVC(Classifier, LinearEstimator):
    """Linear support vector classifier whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i loss(y_i (x_i'w + b))``, the objective of scikit-learn's LinearSVC and
    of LIBLINEAR, and stops when it has proven that the objective is within `tol` of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. In terms of SGD's ``alpha`` (or lambda), C = 1 / (alpha * n_samples).
    loss : {"squared_hinge", "hinge", "huber", "logistic"} or loss object, default="squared_hinge"
    solver : str or Solver, default="auto"
        A name from ``maxmargin.solvers.names()``, a solver object with its own parameters, or "auto".
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * primal.
    max_iter : float, default=None
        Limit on passes over the data, for each class; None: the solver's own, 1000 for most.
    max_time : float, default=None
        Limit in seconds on the whole fit, which several classes share. The model found by then is kept.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is penalised like the other weights; larger `intercept_scaling` makes that
        penalty smaller.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept.
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class. With more than two classes a class's factor applies in the problem that separates it
        from the rest, as in LIBLINEAR. A class that the dict does not name has factor 1.
    warm_start : bool, default=False
        Begin `fit` at the previous solution, if that was of as many rows and classes.
    n_jobs : int, default=None
        Threads, over classes and inside passes over the data; -1: all cores.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the order in which rows are visited. None is a fixed seed: the same data give the same bits.
    verbose : int, default=0
        1: show a progress bar on a terminal.
    penalty : {"l2", "l1", "l2_norm", "linf"}, default="l2"
        "l1" has |w|_1 in the place of 1/2 |w|^2, and makes many weights exactly zero; "l2_norm" has |w|, and "linf" the
        largest |w_j| (solver "folos", to a rough gap).
    penalize_intercept : bool, default=True
        False leaves the intercept out of the penalty, as in LIBSVM and scikit-learn's SVC.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        A problem for each class against the rest, or one problem for all classes (by cutting planes; `loss` and
        `solver` are then of no account).

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    certificate_ : Certificate or list of Certificate
        `primal`, `dual`, `gap` and `relative_gap`; with more than two classes one for each.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted" or "callback"; of several classes the gravest.
    history_ : dict of str to ndarray, or list of such dicts
        Seconds, passes, primal, dual, relative_gap and work counters at each certificate.
    solver_ : Solver
        What ran, to the end; of several classes in the one that took the most passes.
    n_iter_ : int
        Passes over the data, rounded up; of several classes the largest.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names

    See Also
    --------
    maxmargin.solve : The layer below, with callbacks and checkpoints.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=500, random_state=0)
    >>> clf = LinearSVC(C=0.1, loss="hinge", tol=1e-4).fit(X, y)
    >>> clf.certificate_.relative_gap <= 1e-4
    True
    >>> clf.stop_reason_
    'converged'
    """

    def __init__(
        self,
        C: float = 1.0,
        loss: Any = "squared_hinge",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: float | None = None,
        max_time: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        penalty: str = "l2",
        penalize_intercept: bool = True,
        multi_class: str = "ovr",
    ):
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.penalty = penalty
        self.penalize_intercept = penalize_intercept
        self.multi_class = multi_class

    def _checked_loss(self) -> Loss:
        return classifier_loss(self.loss, self.penalty, self._has_free_intercept)

    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        if self.multi_class == "ovr":
            return super()._train(X, y, sample_weight)
        if self.multi_class != "crammer_singer":
            raise ValueError(f'multi_class must be "ovr" or "crammer_singer", got {self.multi_class!r}')
        return self._train_all_classes_at_once(X, y, sample_weight)

    def _train_all_classes_at_once(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        from maxmargin.solvers.bmrm import BMRM
        from maxmargin.solvers.structured import solve_crammer_singer

        if self.penalty != "l2" or self._has_free_intercept:
            raise ValueError('multi_class="crammer_singer" takes penalty "l2" and penalises the intercept')
        problem, y = self._unlabelled(X, y, sample_weight)
        check_classification_targets(y)
        rows = OneVsRest(problem, y, self.class_weight)
        labels = np.searchsorted(rows.classes, y).clip(max=len(rows.classes) - 1)  # rows without weight: any will do
        weighted = problem.with_labels(problem.y, problem.cost * rows.factors[labels])
        found = solve_crammer_singer(weighted, labels, tol=self.tol, max_iter=self.max_iter, max_time=self.max_time)
        weights = [found.W[1] - found.W[0]] if len(rows.classes) == 2 else list(found.W)
        for name, fitted in self._usable(*self._coefficients(weights, problem), rows).items():
            setattr(self, name, fitted)
        self.certificate_, self.history_, self.stop_reason_ = found.certificate, found.history, found.stop_reason
        self.n_iter_, self.solver_, self._states = max(1, math.ceil(found.history["passes"][-1])), BMRM(), None
        if found.stop_reason == "converged":
            return None
        gap = f"relative duality gap of {found.certificate.relative_gap:.1e}"
        return f"LinearSVC stopped at a {gap}, not yet tol={self.tol:g}. Raise max_iter or max_time, or tol."

    def _problems(self, problem: Problem, y: Array) -> OneVsRest:
        check_classification_targets(y)
        return OneVsRest(problem, y, self.class_weight)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Train on rows X with labels y.

        Ctrl-C ends the training within a second and leaves the model found so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self


class LinearSVR(RegressorMixin, LinearEstimator):
    """Linear support vector regression whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i loss(x_i'w + b - y_i)``, the objective of scikit-learn's LinearSVR and of
    LIBLINEAR, and stops when it has proven that the objective is within `tol` of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared_error"} or loss object, \
            default="epsilon_insensitive"
        A loss object, such as ``losses.EpsilonInsensitive(0.1)``, has its own epsilon.
    epsilon : float, default=0.0
        Errors up to this size cost nothing. Its scale is that of y.
    solver : str or Solver, default="auto"
        A name from ``maxmargin.solvers.names()``, a solver object with its own parameters, or "auto".
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * primal.
    max_iter : float, default=None
        Limit on passes over the data; None: the solver's own, 1000 for most.
    max_time : float, default=None
        Limit in seconds. The model found by then is kept.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is penalised like the other weights; larger `intercept_scaling` makes that
        penalty smaller.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept.
    warm_start : bool, default=False
        Begin `fit` at the previous solution, if that was of as many rows.
    n_jobs : int, default=None
        Threads inside passes over the data; -1: all cores.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the order in which rows are visited. None is a fixed seed: the same data give the same bits.
    verbose : int, default=0
        1: show a progress bar on a terminal.
    penalize_intercept : bool, default=True
        False leaves the intercept out of the penalty, as in LIBSVM and scikit-learn's SVC.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    certificate_ : Certificate
        Proven bounds on the optimum: primal, dual, gap, relative_gap.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted" or "callback".
    history_ : dict of str to ndarray
        Seconds, passes, primal, dual, relative_gap and work counters at each certificate.
    solver_ : Solver
        What ran, to the end.
    n_iter_ : int
        Passes over the data, rounded up.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(n_samples=500, noise=5.0, random_state=0)
    >>> reg = LinearSVR(C=10.0, epsilon=1.0, tol=1e-6).fit(X, y)
    >>> reg.certificate_.relative_gap <= 1e-6
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        loss: Any = "epsilon_insensitive",
        epsilon: float = 0.0,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: float | None = None,
        max_time: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        penalize_intercept: bool = True,
    ):
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.penalize_intercept = penalize_intercept

    def _checked_loss(self) -> Loss:
        return regressor_loss(self.loss, self.epsilon)

    def _problems(self, problem: Problem, y: Array) -> list[Problem]:
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the targets of a regression must be numbers: {error}") from error
        return [problem.with_labels(targets)]

    def _usable(self, coef: Array, intercept: Array, problems: list[Problem]) -> dict[str, Any]:
        return {"coef_": coef[0], "intercept_": intercept}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVR:
        """Train on rows X with targets y.

        Ctrl-C ends the training within a second and leaves the model found so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Value foretold for each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._outputs(X).ravel()
