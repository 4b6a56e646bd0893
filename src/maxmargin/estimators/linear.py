"""Linear classifiers and regressors with scikit-learn's interface and a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.rows import Array
from maxmargin.estimators._base import LinearEstimator
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._one_vs_rest import AllClasses, OneVsRest, check_labels
from maxmargin.estimators._parameters import classifier_loss, regressor_loss
from maxmargin.estimators._stored import StoredLabels, outputs_of
from maxmargin.losses import Loss
from maxmargin.problem import Problem
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers import registry as solvers
from maxmargin.solvers.planes.bmrm import BMRM


class LinearSVC(Classifier, LinearEstimator):
    """Linear support vector classifier whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i loss(y_i (x_i'w + b))``, the objective of scikit-learn's LinearSVC and
    of LIBLINEAR, and stops when it has proven that the objective is within `tol` of the optimum.

    Parameters
    ----------
    penalty : {"l2", "l1", "l2_norm", "linf"}, default="l2"
        "l1" has |w|_1 in the place of 1/2 |w|^2, and makes many weights exactly zero; "l2_norm" has |w|, and "linf" the
        largest |w_j| (solver "folos", to a rough gap).
    loss : {"squared_hinge", "hinge", "huber", "logistic"} or loss object, default="squared_hinge"
    C : float, default=1.0
        Weight of the loss. In terms of SGD's ``alpha`` (or lambda), C = 1 / (alpha * n_samples).
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
    penalize_intercept : bool, default=True
        False leaves the intercept out of the penalty, as in LIBSVM and scikit-learn's SVC.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        A problem for each class against the rest, or one problem for all classes, which solvers "bmrm" (the "auto" of
        it), "ocas" and "larank" take; `loss` is then of no account.
    dual : bool or "auto", default="auto"
        Chooses nothing: it is here for programs written for scikit-learn. Primal or dual is a matter of `solver`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    certificate_ : Certificate or list of Certificate
        `primal`, `dual`, `gap` and `relative_gap`; with more than two classes one for each. The property
        `certificates_` is a list in either case.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding" (the gap is no more than what the
        rounding of numbers may hide) or "stalled" (the solver could not go on); of several classes the most severe.
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
        penalty: str = "l2",
        loss: Any = "squared_hinge",
        *,
        C: float = 1.0,
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
        penalize_intercept: bool = True,
        multi_class: str = "ovr",
        dual: Any = "auto",
    ):
        self.penalty = penalty
        self.loss = loss
        self.C = C
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
        self.penalize_intercept = penalize_intercept
        self.multi_class = multi_class
        self.dual = dual

    def _checked_loss(self) -> Loss:
        return classifier_loss(self.loss, self.penalty, self._has_free_intercept)

    @property
    def _takes_all_classes(self) -> bool:
        """Whether one problem is for all classes."""
        multi_class = getattr(self, "multi_class", "ovr")  # LinearSVCCV has no choice
        if multi_class not in ("ovr", "crammer_singer"):
            raise ValueError(f'multi_class must be "ovr" or "crammer_singer", got {multi_class!r}')
        return multi_class == "crammer_singer"

    def _chosen_solver(self, problem: Problem) -> Any:
        if not self._takes_all_classes:
            return super()._chosen_solver(problem)
        if self.penalty != "l2" or self._has_free_intercept:
            raise ValueError('multi_class="crammer_singer" takes penalty "l2" and penalises the intercept')
        solver = BMRM() if isinstance(self.solver, str) and self.solver == "auto" else solvers.get(self.solver)
        if CrammerSinger not in solver.risks:
            able = ", ".join(name for name in (*solvers.names(), "larank") if CrammerSinger in solvers.get(name).risks)
            raise ValueError(
                f'with multi_class="crammer_singer" solver must be one of auto, {able}; got {solver.name!r}'
            )
        return solver

    def _problems(self, problem: Problem, y: Array) -> OneVsRest | AllClasses:
        if isinstance(y, StoredLabels):
            if self._takes_all_classes:
                raise ValueError('multi_class="crammer_singer" takes rows in memory; a store takes "ovr"')
            return y.problems(problem, self.class_weight)
        check_labels(y)
        return (AllClasses if self._takes_all_classes else OneVsRest)(problem, y, self.class_weight)

    def _coefficients(self, weights: list[Array], problem: Problem) -> tuple[Array, Array]:
        if self._takes_all_classes:
            W = weights[0].reshape(-1, problem.n_weights)
            weights = [W[1] - W[0]] if len(W) == 2 else list(W)
        return super()._coefficients(weights, problem)

    def sparsify(self) -> LinearSVC:
        """Make `coef_` a sparse matrix: less memory if most weights are zero, as with the L1 penalty.

        Predictions are the same.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> X, y = np.random.default_rng(0).normal(size=(100, 20)), np.arange(100) % 2
        >>> LinearSVC("l1", C=0.1).fit(X, y).sparsify().coef_.format
        'csr'
        """
        from scipy.sparse import csr_matrix

        check_is_fitted(self, "coef_")
        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Make `coef_` an array again.

        Returns
        -------
        self
        """
        check_is_fitted(self, "coef_")
        self.coef_ = self._dense_coef()
        return self

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVC:
        """Train on rows X with labels y.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or a store, opened by
            `maxmargin.open_store`, which has its labels and weights with it: ``fit(store)``.
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
        Errors up to this size cost nothing. Its scale is that of y. The default is scikit-learn's; everywhere else
        (loss objects, ``Problem(loss="epsilon_insensitive")``, `SVR`, ``maxmargin train -p``) it is 0.1.
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
    dual : bool or "auto", default="auto"
        Chooses nothing: it is here for programs written for scikit-learn. Primal or dual is a matter of `solver`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    certificate_ : Certificate
        Proven bounds on the optimum: primal, dual, gap, relative_gap.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding" (the gap is no more than what the
        rounding of numbers may hide) or "stalled" (the solver could not go on).
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
        *,
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
        dual: Any = "auto",
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
        self.dual = dual

    def _checked_loss(self) -> Loss:
        return regressor_loss(self.loss, self.epsilon)

    def _problems(self, problem: Problem, y: Array) -> list[Problem]:
        if isinstance(y, StoredLabels):
            return [problem.with_labels(y.targets())]
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the targets of a regression must be numbers: {error}") from error
        return [problem.with_labels(targets)]

    def _usable(self, coef: Array, intercept: Array, problems: list[Problem]) -> dict[str, Any]:
        return {"coef_": coef[0], "intercept_": intercept}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVR:
        """Train on rows X with targets y.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or a store, opened by
            `maxmargin.open_store`, which has its labels and weights with it: ``fit(store)``.
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
        """Value predicted for each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return outputs_of(X, self._outputs).ravel()
