"""Linear classifiers and regressors with scikit-learn's interface and a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.rows import Array
from maxmargin.estimators._base import LinearEstimator
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Classifier, Regressor, as_targets
from maxmargin.estimators._one_vs_rest import AllClasses, OneVsRest, check_labels
from maxmargin.estimators._parameters import classifier_loss, regressor_loss
from maxmargin.estimators._shared_parameters import Intercept, LossWeight, Seeded, SolverChoice
from maxmargin.estimators._stored import StoredLabels
from maxmargin.losses import Loss
from maxmargin.problem import Problem
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers import registry as solvers
from maxmargin.solvers.planes.bmrm import BMRM


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(Classifier, Intercept, Seeded, LinearEstimator, SolverChoice):
    """Base of `LinearSVC` and `LinearSVCCV`: a problem for each class against the rest.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class. With more than two classes a class's factor applies in the problem that separates it
        from the rest, as in LIBLINEAR. A class that the dict does not name has factor 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    """

    class_weight: Any = None

    def _checked_loss(self) -> Loss:
        return classifier_loss(self.loss, self.penalty, self._has_free_intercept)

    def _problems(self, problem: Problem, y: Any) -> OneVsRest | AllClasses:
        if isinstance(y, StoredLabels):
            return y.problems(problem, self.class_weight)
        check_labels(y)
        return OneVsRest(problem, y, self.class_weight)

    def sparsify(self) -> Any:
        """Make `coef_` a sparse matrix: less memory if most weights are zero, as with the L1 penalty.

        Predictions are the same.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import LinearSVC
        >>> X, y = np.random.default_rng(0).normal(size=(100, 20)), np.arange(100) % 2
        >>> LinearSVC("l1", C=0.1).fit(X, y).sparsify().coef_.format
        'csr'
        """
        from scipy.sparse import csr_matrix

        check_is_fitted(self, "coef_")
        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> Any:
        """Make `coef_` an array again.

        Returns
        -------
        self
        """
        check_is_fitted(self, "coef_")
        self.coef_ = self._dense_coef()
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class _ForOneC:
    """Parameters of `LinearSVC` and `LinearSVR` that are not of a search for C.

    Parameters
    ----------
    warm_start : bool, default=False
        Begin `fit` at the previous solution, if that was of as many rows and classes.
    penalize_intercept : bool, default=True
        False leaves the intercept out of the penalty, as in LIBSVM and scikit-learn's SVC.
    dual : bool or "auto", default="auto"
        Chooses nothing: it is here for programs written for scikit-learn. Primal or dual is a matter of `solver`.
    """

    warm_start: bool = False
    penalize_intercept: bool = True
    dual: Any = "auto"

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc]
        if not isinstance(self.dual, (bool, np.bool_)) and not (isinstance(self.dual, str) and self.dual == "auto"):
            raise ValueError(f'dual must be True, False or "auto" (it chooses nothing here), got {self.dual!r}')


@documented
@dataclass(eq=False, repr=False)
class LinearSVC(_ForOneC, LinearClassifier, LossWeight):
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
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        A problem for each class against the rest, or one problem for all classes, which solvers "bmrm" (the "auto" of
        it), "ocas" and "larank" take; `loss` is then of no account.

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

    penalty: str = "l2"
    loss: Any = "squared_hinge"
    _: KW_ONLY
    multi_class: str = "ovr"

    @property
    def _takes_all_classes(self) -> bool:
        """Whether one problem is for all classes."""
        if self.multi_class not in ("ovr", "crammer_singer"):
            raise ValueError(f'multi_class must be "ovr" or "crammer_singer", got {self.multi_class!r}')
        return self.multi_class == "crammer_singer"

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

    def _problems(self, problem: Problem, y: Any) -> OneVsRest | AllClasses:
        if not self._takes_all_classes:
            return super()._problems(problem, y)
        if isinstance(y, StoredLabels):
            raise ValueError('multi_class="crammer_singer" takes rows in memory; a store takes "ovr"')
        check_labels(y)
        return AllClasses(problem, y, self.class_weight)

    def _coefficients(self, weights: list[Array], problem: Problem) -> tuple[Array, Array]:
        if self._takes_all_classes:
            W = weights[0].reshape(-1, problem.n_weights)
            weights = [W[1] - W[0]] if len(W) == 2 else list(W)
        return super()._coefficients(weights, problem)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVR(_ForOneC, Regressor, Intercept, Seeded, LinearEstimator, SolverChoice, LossWeight):
    """Linear support vector regression whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i loss(x_i'w + b - y_i)``, the objective of scikit-learn's LinearSVR and of
    LIBLINEAR, and stops when it has proven that the objective is within `tol` of the optimum.

    Parameters
    ----------
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "squared_error"} or loss object, \
            default="epsilon_insensitive"
        A loss object, such as ``losses.EpsilonInsensitive(0.1)``, has its own epsilon.
    epsilon : float, default=0.0
        Errors up to this size cost nothing. Its scale is that of y. The default is scikit-learn's; everywhere else
        (loss objects, ``Problem(loss="epsilon_insensitive")``, `SVR`, ``maxmargin train -p``) it is 0.1.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(n_samples=500, noise=5.0, random_state=0)
    >>> reg = LinearSVR(C=10.0, epsilon=1.0, tol=1e-6).fit(X, y)
    >>> reg.certificate_.relative_gap <= 1e-6
    True
    """

    loss: Any = "epsilon_insensitive"
    epsilon: float = 0.0

    def _checked_loss(self) -> Loss:
        return regressor_loss(self.loss, self.epsilon)

    def _problems(self, problem: Problem, y: Any) -> list[Problem]:
        return [problem.with_labels(y.targets() if isinstance(y, StoredLabels) else as_targets(y))]

    def _usable(self, coef: Array, intercept: Array, problems: Any) -> dict[str, Any]:
        return {"coef_": coef[0], "intercept_": intercept}
