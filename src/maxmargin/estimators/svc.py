"""The support vector classifier with kernels, scikit-learn's interface and a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.data.rows import Array
from maxmargin.estimators import _probability as probability
from maxmargin.estimators._decisions import as_array, one_vs_one_coef
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._kernel_machine import KernelMachine, finite, loss_pair
from maxmargin.estimators._kernel_stream import KernelStreamMixin
from maxmargin.estimators._one_vs_rest import class_factors, observed_classes
from maxmargin.estimators._pairs import AllClasses, BinaryMachines, OneVsOne, OneVsRest, TwoClasses
from maxmargin.estimators._parameters import seed_of
from maxmargin.models.pairs import votes, votes_and_margins
from maxmargin.problem import check_weights
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers import kernel as kernel_solvers

_CHOICES = {"decision_function_shape": ("ovr", "ovo"), "multi_class": ("ovo", "ovr", "crammer_singer")}


def _has_probability(estimator: Any) -> bool:
    if not estimator._wants_probability:
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class SVC(KernelStreamMixin, Classifier, KernelMachine):
    """Support vector classifier with a kernel, whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, the objective of scikit-learn's SVC
    and of LIBSVM, and stops when it has proven that the objective is within `tol` of the optimum. Parameters,
    attributes and their layout are those of scikit-learn's SVC; those after `random_state` are more.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. inf is taken as 1e10.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"}, kernel object or callable, default="rbf"
        A callable is given two arrays of rows and returns the matrix of their kernel values; as in scikit-learn, it is
        called once for all rows in `fit`, and with new rows and those of `fit` in `predict`. With "sigmoid", and
        whatever else is not positive semi-definite, `certificate_` tells the distance from a stationary point.
    degree : int, default=3
        Of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "sigmoid". "scale": 1 / (n_features * variance of X), weighted; "auto": 1 / n_features.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    shrinking : bool, default=True
        Of the solvers "smo" and "svmlight": whether rows that seem to stay at a bound are left out for a while.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`, at the price of five more fits. Probabilities never contradict
        `predict`.
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * primal. (In scikit-learn: the violation of an optimality
        condition.)
    cache_size : float, default=500
        Megabytes for kernel values.
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class.
    verbose : bool or int, default=False
        1: show a progress bar on a terminal.
    max_iter : float, default=-1
        Limit on passes over the rows; -1 or None: none. (In scikit-learn: on steps of two rows.)
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Of three classes or more: whether `decision_function` has a column for each class or for each pair of them.
    break_ties : bool, default=False
        Whether `predict` looks at the margins where classes have equally many votes of pairs; else the first wins.
    random_state : int, Generator, RandomState or None, default=None
        Seed of samples of rows. None is a fixed seed: the same data give the same bits.
    solver : str or Solver, default="auto"
        A name from ``maxmargin.solvers.kernel.names()`` or a solver object. "cvm" and "bvm" minimise the squared hinge,
        and they and "kernel_pegasos" penalise the intercept; "nystroem" and "fourier" approximate the kernel.
    max_time : float, default=None
        Limit in seconds on the whole fit, which the pairs of classes share. The model found by then is kept.
    n_jobs : int, default=None
        Threads, over pairs of classes and inside them; -1: all cores. Results do not depend on it.
    multi_class : {"ovo", "ovr", "crammer_singer"}, default="ovo"
        Of three classes or more: a machine for each pair of classes, or for each class against the rest, or one for all
        classes at once, without an intercept, by the solver "kernel_larank" (which "auto" means then).

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of X that are support vectors, class by class.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        Empty if the kernel is precomputed or a callable.
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray or sparse matrix of shape (n_classes - 1, n_support)
        In LIBSVM's layout; with `multi_class` "ovr" and "crammer_singer" of shape (n_classes, n_support).
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,), or (n_classes,) if not "ovo"
    coef_ : ndarray or sparse matrix of shape (n_problems, n_features)
        If the kernel is linear.
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    certificate_ : Certificate or list of Certificate
        `primal`, `dual`, `gap` and `relative_gap`; of several classes one for each machine.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding" or "stalled" (rounding ends it before
        the gap is at `tol`); of several machines the most severe.
    history_ : dict of str to ndarray, or list of such dicts
        Seconds, passes, primal, dual, relative_gap and work counters at each certificate.
    solver_ : Solver
        What ran.
    kernel_ : kernel object, "precomputed" or callable
        With the gamma that was used.
    fit_status_ : int
        0 if the fit converged, else 1.
    shape_fit_ : tuple of int
    n_iter_ : ndarray of int
        Passes over the rows of each machine, rounded up.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(n_samples=500, noise=0.15, random_state=0)
    >>> clf = SVC(C=10.0, gamma=2.0).fit(X, y)
    >>> clf.certificate_.relative_gap <= 1e-3
    True
    >>> bool(clf.score(X, y) > 0.98)
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = False,
        tol: float = 1e-3,
        cache_size: float = 500,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: Any = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        multi_class: str = "ovo",
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.multi_class = multi_class

    @property
    def _wants_probability(self) -> bool:
        return bool(self.probability) and self.probability != "deprecated"  # scikit-learn's default, taken for False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Train on rows X with labels y.

        Ctrl-C ends the training within a second or so and leaves the model found so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. Weight 2 is a row given twice, weight 0 a row left out.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        self._stream = None
        self._slopes = None
        if self._wants_probability:
            self._calibrate(X, column_or_1d(y), sample_weight)
        return self

    # ------------------------------------------------------------ parts of fit

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")

    @property
    def _takes_all_classes(self) -> bool:
        return self.multi_class == "crammer_singer"

    def _chosen_solver(self) -> Any:
        if self._takes_all_classes and isinstance(self.solver, str) and self.solver == "auto":
            return kernel_solvers.get("kernel_larank")
        solver = super()._chosen_solver()
        if (CrammerSinger in kernel_solvers.get(solver).risks) != self._takes_all_classes:
            raise ValueError(
                'multi_class="crammer_singer" and solver="kernel_larank" belong together; '
                f"got {self.multi_class!r} and {self.solver!r}"
            )
        return solver

    def _machines(self, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]) -> BinaryMachines:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weight = check_weights(sample_weight, len(y))
        classes = observed_classes(y, weight)
        factors = class_factors(self.class_weight, classes, y, weight)
        codes = np.where(np.isin(y, classes), np.searchsorted(classes, y).clip(max=len(classes) - 1), -1)
        codes[weight == 0.0] = -1
        self.classes_, self.class_weight_ = classes, factors
        if self._takes_all_classes:
            weight = weight * np.where(codes >= 0, factors[codes], 1.0)
            whole = KernelClasses(X, np.maximum(codes, 0), finite(self.C), sample_weight=weight, **options)
            return AllClasses(whole, codes, len(classes))
        return self._binary(X, codes, weight, self.multi_class == "ovr", options)

    def _binary(self, X: Any, codes: Array, weight: Array, rest: bool, options: dict[str, Any]) -> BinaryMachines:
        """The problems of rows with these numbers of classes; of several classes one against the `rest`, or pairs."""
        classes, factors, two = self.classes_, self.class_weight_, len(self.classes_) == 2
        of_row = np.where(codes >= 0, factors[codes], 1.0)
        loss, penalized = self._loss_for(*loss_pair())
        rest = rest and not two
        whole = KernelProblem(
            X,
            np.where(codes == 1, 1.0, -1.0),
            finite(self.C),
            loss,
            sample_weight=weight if rest else weight * of_row,
            penalize_intercept=penalized,
            **options,
        )
        if two:
            return TwoClasses(whole, codes, 2)
        if rest:
            return OneVsRest(whole, codes, factors, min(whole.n_jobs, len(classes)))
        return OneVsOne(whole, codes, len(classes), min(whole.n_jobs, len(classes) * (len(classes) - 1) // 2))

    def _keep(self, X: Any, machines: Any, results: list[Any]) -> None:
        super()._keep(X, machines, results)
        if self._takes_all_classes:
            self.intercept_ = np.zeros(self.dual_coef_.shape[0])

    def _layout(self, machines: Any, betas: list[Array]) -> tuple[Array, Array, Array]:
        coefficients = machines.coefficients(betas)
        support = np.flatnonzero(coefficients.any(axis=0))
        support = support[np.argsort(machines.codes[support], kind="stable")]
        counts = np.bincount(machines.codes[support], minlength=len(self.classes_)).astype(np.int32)
        return support, coefficients[:, support], counts

    def _calibrate(self, X: Any, y: Array, sample_weight: Any) -> None:
        """Find the slopes of `predict_proba`."""
        X = X.tocsr() if hasattr(X, "tocsr") else X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        outputs = probability.held_out_outputs(self, X, y, sample_weight, seed_of(self.random_state))
        weight = check_weights(sample_weight, len(y))
        known = weight > 0.0
        slopes = []
        for k in range(outputs.shape[1]):
            positive, negative = self._sides(k)
            taken = known & np.isin(y, self.classes_[[*positive, *negative]])
            is_positive = np.isin(y[taken], self.classes_[positive])
            slopes.append(probability.fit_slopes(outputs[taken, k], is_positive, weight[taken]))
        self._slopes = np.array(slopes)

    def _sides(self, k: int) -> tuple[list[int], list[int]]:
        """The classes that a positive and a negative output of machine k speak for."""
        n = len(self.classes_)
        if n == 2:
            return [1], [0]
        if not self.is_one_vs_one:
            return [k], [c for c in range(n) if c != k]
        i, j = np.triu_indices(n, 1)
        return [int(i[k])], [int(j[k])]

    # ------------------------------------------------------------ use

    @property
    def is_one_vs_one(self) -> bool:  # type: ignore[override]
        """Whether there is a decision function for each pair of several classes."""
        n = len(self.classes_)
        return n > 2 and self.dual_coef_.shape[0] == n - 1

    def _linear_weights(self) -> Any:
        if not self.is_one_vs_one:
            return super()._linear_weights()
        coef = one_vs_one_coef(as_array(self.dual_coef_), self.support_vectors_, self.n_support_)
        return type(self.dual_coef_)(coef) if hasattr(self.dual_coef_, "toarray") else coef

    def decision_function(self, X: Any) -> Array:
        """Values of the decision functions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples_fit) if precomputed

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, positive for the second; else (n_samples, n_classes), larger for
        the likelier class, or with ``decision_function_shape="ovo"`` (n_samples, n_pairs), positive for the first
        """
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return outputs.ravel()
        if self.is_one_vs_one and self.decision_function_shape == "ovr":
            return votes_and_margins(outputs, len(self.classes_))
        return outputs

    def predict(self, X: Any) -> Array:
        """Class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples_fit) if precomputed

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self, "dual_coef_")
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return self.classes_[self._codes(self._outputs(X))]

    def _codes(self, outputs: Array) -> Array:
        """Number of the class predicted."""
        n = len(self.classes_)
        if n == 2:
            return (outputs[:, 0] > 0.0).astype(int)
        if not self.is_one_vs_one:
            return outputs.argmax(axis=1)
        scores = votes_and_margins(outputs, n) if self.break_ties else votes(outputs, n)
        return scores.argmax(axis=1)

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class; the class predicted has the largest.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples_fit) if precomputed

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self, "dual_coef_")
        if self._slopes is None:
            raise NotFittedError("predict_proba is not available when fitted with probability=False")
        outputs = self._outputs(X)
        each = probability.sigmoids(outputs, self._slopes)
        if len(self.classes_) == 2:
            p = np.column_stack([1.0 - each[:, 0], each[:, 0]])
        elif self.is_one_vs_one:
            p = probability.class_probabilities(each, len(self.classes_))
        else:
            p = (each + 1e-12) / (each + 1e-12).sum(axis=1, keepdims=True)
        return probability.agree(p, self._codes(outputs))

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples_fit) if precomputed

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))
