"""The support vector classifier with kernels, scikit-learn's interface and a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from maxmargin.data.rows import Array
from maxmargin.estimators import _probability as probability
from maxmargin.estimators._decisions import one_vs_one_coef
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._kernel_machine import KernelMachine, finite, loss_pair
from maxmargin.estimators._kernel_stream import KernelStreamMixin
from maxmargin.estimators._one_vs_rest import class_factors, observed_classes
from maxmargin.estimators._pairs import AllClasses, BinaryMachines, OneVsOne, OneVsRest, TwoClasses
from maxmargin.estimators._parameters import seed_of
from maxmargin.estimators._shared_parameters import Gamma, LossWeight
from maxmargin.models.pairs import votes, votes_and_margins
from maxmargin.problem import check_weights
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers import kernel as kernel_solvers

_CHOICES = {"decision_function_shape": ("ovr", "ovo"), "multi_class": ("ovo", "ovr", "crammer_singer")}


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(Classifier, KernelMachine):
    """Base of `SVC` and `SVCCV`.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        A name from ``maxmargin.solvers.kernel.names()`` or a solver object. "cvm" and "bvm" minimise the squared hinge,
        and they and "kernel_pegasos" penalise the intercept; "nystroem" and "fourier" approximate the kernel.
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Of three classes or more: whether `decision_function` has a column for each class or for each pair of them.
    break_ties : bool, default=False
        Whether `predict` looks at the margins where classes have equally many votes of pairs; else the first wins.
    multi_class : {"ovo", "ovr", "crammer_singer"}, default="ovo"
        Of three classes or more: a machine for each pair of classes, or for each class against the rest, or one for all
        classes at once, without an intercept, by the solver "kernel_larank" (which "auto" means then).

    Attributes
    ----------
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray or sparse matrix of shape (n_classes - 1, n_support)
        In LIBSVM's layout; with `multi_class` "ovr" and "crammer_singer" of shape (n_classes, n_support).
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,), or (n_classes,) if not "ovo"
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    n_iter_ : ndarray of int
        Passes over the rows of each machine, rounded up.
    """

    class_weight: Any = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    multi_class: str = "ovo"

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
        if self._is_function:  # else `_checked_data` has done it
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
        coef = one_vs_one_coef(self)
        return type(self.dual_coef_)(coef) if hasattr(self.dual_coef_, "toarray") else coef

    def _decisions_of(self, outputs: Array) -> Array:
        if len(self.classes_) == 2:
            return outputs.ravel()
        if self.is_one_vs_one and self.decision_function_shape == "ovr":
            return votes_and_margins(outputs, len(self.classes_))
        return outputs

    def predict(self, X: Any) -> Array:
        """Class of each row: that with the most votes of pairs, or with the largest output of those against the rest.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return super().predict(X)

    def _labels_of(self, outputs: Array) -> Array:
        return self.classes_[self._codes(outputs)]

    def _codes(self, outputs: Array) -> Array:
        """Number of the class predicted."""
        n = len(self.classes_)
        if n == 2:
            return (outputs[:, 0] > 0.0).astype(int)
        if not self.is_one_vs_one:
            return outputs.argmax(axis=1)
        scores = votes_and_margins(outputs, n) if self.break_ties else votes(outputs, n)
        return scores.argmax(axis=1)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVC(KernelStreamMixin, KernelClassifier, Gamma, LossWeight):
    """Support vector classifier with a kernel, whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, the objective of scikit-learn's SVC
    and of LIBSVM, and stops when it has proven that the objective is within `tol` of the optimum. It takes the
    parameters of scikit-learn's SVC, and has its attributes in the same layout.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. inf is taken as 1e10.
    probability : bool, default=False
        Whether `fit` prepares `predict_proba`, at the price of five more fits. Probabilities never contradict
        `predict`.

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

    probability: Any = False

    @property
    def _wants_probability(self) -> bool:
        return bool(self.probability) and self.probability != "deprecated"  # scikit-learn's default, taken for False

    def _finish(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._stream = self._slopes = None
        if self._wants_probability:
            self._calibrate(X, column_or_1d(y), sample_weight)

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

    def _check_probabilities(self) -> None:
        if not self._wants_probability:
            raise AttributeError("predict_proba is not available when probability=False")

    def _probabilities_of(self, outputs: Array) -> Array:
        if self._slopes is None:
            raise NotFittedError("predict_proba is not available when fitted with probability=False")
        each = probability.sigmoids(outputs, self._slopes)
        if len(self.classes_) == 2:
            p = np.column_stack([1.0 - each[:, 0], each[:, 0]])
        elif self.is_one_vs_one:
            p = probability.class_probabilities(each, len(self.classes_))
        else:
            p = (each + 1e-12) / (each + 1e-12).sum(axis=1, keepdims=True)
        return probability.agree(p, self._codes(outputs))

    def _log_probabilities_of(self, outputs: Array) -> Array:
        return np.log(self._probabilities_of(outputs))
