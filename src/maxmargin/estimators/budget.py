"""Kernel classifiers of fixed size with scikit-learn's interface."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin import kernels
from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array, as_rows
from maxmargin.estimators._budget_machine import BudgetMachine, expansion
from maxmargin.estimators._budget_store import StoredRows, stacked
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Classifier
from maxmargin.estimators._one_vs_rest import check_labels, class_factors, observed_classes, stream_classes
from maxmargin.estimators._parameters import progress_bar, seed_of, validated
from maxmargin.estimators._shared_parameters import Gamma, KernelFunction, LossWeight, Seeded
from maxmargin.estimators._stored import is_stored, see_features
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.base import run
from maxmargin.solvers.budget.state import BudgetState
from maxmargin.solvers.interrupts import end_of_fit

_FEWEST_ROWS = 512  # of a stream that tell its scales well enough


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class BudgetSVC(Seeded, Classifier, BudgetMachine, Gamma, KernelFunction, LossWeight):
    """Kernel support vector classifier with a limited number of support vectors, for data of any size.

    Stochastic gradient descent passes over the rows and keeps at most `budget` support vectors by merging them; its
    time grows linearly with the rows, its memory not at all. Then the coefficients of the support vectors found are
    fitted by solving the convex problem that they make, to a certified gap; that takes up to half a gigabyte.

    Approximates the minimum of ``1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i f(x_i))``, the objective of scikit-learn's
    SVC. If all rows fit into the budget, it is that minimum.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid"} or kernel object, default="rbf"
        Merging needs "rbf"; for the others choose the maintenance "project" or "remove".
    budget : int or "auto", default=500
        The largest number of support vectors. "auto": as many as can be trained in `max_time`, or in a minute if that
        is None, and in a quarter of the machine's memory; seconds of compiling, once a machine, do not count. Some
        steps are timed to find out, so the choice, and with it the result, depends on the machine. Size, memory and
        the time expected are printed on stderr before the training starts.
    maintenance : str, default="lookup_wd"
        How to stay within the budget: "lookup_wd", "lookup_h", "gss" and "gss_precise" merge, "remove" and "project" do
        what they say. See `maxmargin.solvers.budget.budget_sgd.BudgetSGD`.
    max_iter : float, default=1
        Passes over the data.
    refit : bool, default=True
        Whether `fit` ends with the convex problem of the coefficients. Without it they are a mean over the last steps.
    tol : float, default=1e-2
        Relative duality gap of that problem to reach.
    fit_intercept : bool, default=True
        Whether there is an intercept. It is penalised like the coefficients.
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class. With more than two classes a class's factor applies in the problem that separates it
        from the rest.
    warm_start : bool, default=False
        Go on from the previous fit's support vectors, if it had as many features and the same classes.
    n_jobs : int, default=None
        Threads for predictions and the final fit of coefficients; -1: all cores. The passes run on one.

    Attributes
    ----------
    budget_ : int
        The budget that was used: `budget`, or what "auto" has chosen.
    support_vectors_ : ndarray of shape (n_support, n_features)
        Merged vectors lie between rows, so these are no rows of X in general.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Factor of the kernel value of each support vector in each decision function; the classes share the vectors.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    kernel_ : kernel object
        With the gamma that was used.
    certificate_ : Certificate, list of Certificate or None
        Of the coefficients, for the support vectors found; with more than two classes one for each. None if they were
        not refitted.
    stop_reason_ : str
        "converged" if all passes were made and the coefficients' gap was reached; "max_iter" without `refit`; else
        "max_time" or "interrupted".
    solver_ : BudgetSGD
        What passed over the rows.
    history_ : dict of str to ndarray
        After each pass: seconds, passes, support vectors, violations, merges, kernel rows, and the seconds spent on
        maintenance and, of these, on finding whom to merge.
    n_iter_ : int
        Passes over the data, rounded up.

    References
    ----------
    Wang, Crammer, Vucetic: Breaking the curse of kernelization, JMLR 2012. Glasmachers, Qaadan: Speeding up budgeted
    stochastic gradient descent SVM training with precomputed golden section search, 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(n_samples=2000, noise=0.15, random_state=0)
    >>> clf = BudgetSVC(budget=30, gamma=2.0).fit(X, y)
    >>> clf.support_vectors_.shape
    (30, 2)
    >>> bool(clf.score(X, y) > 0.97)
    True
    """

    max_iter: Any = 1
    tol: float = 1e-2
    budget: Any = 500
    maintenance: str = "lookup_wd"
    refit: bool = True
    fit_intercept: bool = True
    class_weight: Any = None
    warm_start: bool = False

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BudgetSVC:
        """Train on rows X with labels y.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or a store (`maxmargin.open_store`),
            which has its labels with it, in random order (``pack(shuffle=True)``): its blocks are learnt from one after
            the other, and `refit` and ``gamma="scale"`` look at a random sample that fits into its memory.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. A row of weight 0 is as good as absent.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> BudgetSVC:
        """One pass of stochastic gradient descent over a part of a stream, from where the last part has left.

        The kernel and lambda = 1 / (C n) are made for the first parts together, those up to the 512th row, of n rows:
        as long as there are fewer, the parts so far are kept and each new one trains on all of them anew, so that it
        does not matter how they were divided. (A model that is saved and loaded goes on with what it has by then.) The
        coefficients are not refitted; they are a mean over the last steps.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), optional
            All classes that may occur; needed in the first call, if the first part does not have all of them.

        Returns
        -------
        self
        """
        self._check_parameters()
        if isinstance(self.class_weight, str):
            raise ValueError('class_weight="balanced" needs all of the data; give partial_fit a dict of weights')
        is_first = not hasattr(self, "classes_")
        if is_first and isinstance(self.budget, str):
            raise ValueError('budget="auto" needs all of the data; give partial_fit a number of support vectors')
        X, y = validated(self, X, y, reset=is_first)
        check_labels(y)
        rows, _ = as_rows(X)
        weight = check_weights(sample_weight, len(y), may_be_zero=not is_first)
        if not weight.any():
            return self  # a part in which nothing counts
        known = stream_classes(getattr(self, "classes_", None), y, classes)
        held = [] if is_first else getattr(self, "_held", None)  # parts of a stream too short to tell its scales
        if held is not None:
            held = [*held, (X, y, weight)]
            X, y, weight = (stacked(parts) for parts in zip(*held))
            rows, is_first = as_rows(X)[0], True
        codes = np.searchsorted(known, y)
        factors = class_factors(self.class_weight, known, y, weight)
        function = self._kernel_function(rows, weight) if is_first else self._function()
        problem = BudgetProblem(X, codes, len(known), self.C, sample_weight=weight, class_factors=factors)
        budget: int = vars(self)["budget_"] if isinstance(self.budget, str) else int(self.budget)
        solver = self._solver(function, budget, 1.0 if self.fit_intercept else 0.0)
        with progress_bar(self.verbose) as bars:
            start = None if is_first else self._state
            result = run(
                solver,
                problem,  # type: ignore[arg-type]
                max_time=self.max_time,
                callbacks=bars,
                start=start,
                seed=seed_of(self.random_state),
            )
        self.classes_, self.kernel_, self.budget_ = known, function, budget
        self._held: list[Any] | None = held if held is not None and len(y) < _FEWEST_ROWS else None
        self._keep(result, None, result.state)
        if self.stop_reason_ == "interrupted":
            message = "BudgetSVC was interrupted: of the last part it has learnt from some of the rows."
            end_of_fit(self.stop_reason_, message, ConvergenceWarning, stacklevel=2)
        return self

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        started = working_time()
        self._check_parameters()
        stored = None
        if is_stored(X):
            see_features(self, X)
            stored = StoredRows(X, y, sample_weight, self)
            weight, classes = stored.weight, stored.classes
            problem = stored.problem(stored.X, stored.y, weight)
        else:
            X, y = validated(self, X, y)
            check_labels(y)
            weight = check_weights(sample_weight, len(y))
            classes = observed_classes(y, weight)
            known = weight > 0.0
            codes = np.where(known, np.searchsorted(classes, np.where(known, y, classes[0])), 0)
            factors = class_factors(self.class_weight, classes, y, weight)
            problem = BudgetProblem(X, codes, len(classes), self.C, sample_weight=weight, class_factors=factors)
        before = self._start(classes)
        function = self._kernel_function(problem.rows, weight) if before is None else self._function()
        budget, started = self._size(function, problem, before, started)

        def usable(states: list[BudgetState]) -> dict[str, Any]:
            return {"classes_": classes, "kernel_": function, "budget_": budget, **expansion(deepcopy(states[0]))}

        task = FitTask(self, 1, usable, X, y, sample_weight)
        found = self._find(function, problem, budget, before, started, task, stored)
        self.classes_, self.kernel_, self.budget_ = classes, function, budget
        self._held = None
        self._keep(*found)
        task.end()
        if self.stop_reason_ in ("max_time", "interrupted") or (self.refit and self.stop_reason_ == "max_iter"):
            return self._complaint()
        return None

    # ------------------------------------------------------------ use

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self, "dual_coef_")
        X = validated(self, X, reset=False)
        rows, _ = as_rows(X)
        n_jobs, support = effective_n_jobs(self.n_jobs), self._state.support
        return kernels.decision_values(self.kernel_, rows, support, self.dual_coef_, self.intercept_, n_jobs)
