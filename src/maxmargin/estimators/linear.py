"""Linear classifiers with scikit-learn's interface and a certificate."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.estimators._callbacks import CallbackSupportMixin, FitTask, with_callbacks
from maxmargin.estimators._one_vs_rest import OneVsRest
from maxmargin.estimators._parameters import check_numbers, classifier_loss, progress_bar, seed_of, solver_for
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import Problem
from maxmargin.rows import CSR, Array, Rows, as_rows, matvec, view_rows
from maxmargin.solvers import solve
from maxmargin.solvers.base import Result, Solver, catch_interrupt

# What `validate_data` lets through. `as_rows` converts what has to be, and says where a value is not finite.
_ROWS = {
    "accept_sparse": True,
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,
}
_GRAVITY = ["converged", "callback", "max_iter", "max_time", "interrupted"]


class LinearSVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classifier whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i loss(y_i (x_i'w + b))``, the objective of scikit-learn's LinearSVC and
    of LIBLINEAR, and stops when it has proven that the objective is within `tol` of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. In terms of SGD's ``alpha`` (or lambda), C = 1 / (alpha * n_samples).
    loss : {"squared_hinge", "hinge", "huber"} or loss object, default="squared_hinge"
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

    # Further arguments of `run`, such as a checkpoint, for the command line.
    _run_options: Mapping[str, Any] = MappingProxyType({})

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------ fit

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
        complaint = self._train(X, y, sample_weight)
        if complaint:  # raised here, so that it points at the line that called `fit`
            warnings.warn(complaint, ConvergenceWarning, stacklevel=2)
        return self

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        started = time.perf_counter()
        check_numbers(self)
        loss, seed, n_jobs = classifier_loss(self.loss), seed_of(self.random_state), effective_n_jobs(self.n_jobs)
        X, y = validate_data(self, X, y, **_ROWS)
        check_classification_targets(y)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        unlabelled = Problem(X, np.ones(len(y)), self.C, loss, sample_weight=sample_weight, bias=bias, n_jobs=n_jobs)
        problems = OneVsRest(unlabelled, y, self.class_weight)
        solver = solver_for(self.solver, loss)

        def usable(weights: list[Array]) -> dict[str, Any]:
            coef, intercept = _coefficients(weights, unlabelled.n_features, bias)
            return {"coef_": coef, "intercept_": intercept, "classes_": problems.classes}

        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        task = FitTask(self, len(problems), usable, {"X": X, "y": y, "metadata": metadata})
        results = self._solve(solver, problems, seed, n_jobs, task, started)
        for name, fitted in usable([r.w for r in results]).items():
            setattr(self, name, fitted)
        self._keep(results)
        task.end()
        return None if self.stop_reason_ in ("converged", "callback") else self._complaint(len(y), results)

    def _solve(
        self, solver: str | Solver, problems: OneVsRest, seed: int, n_jobs: int, task: FitTask, started: float
    ) -> list[Result]:
        """Solve the binary problems, several at a time."""
        starts = self._warm_starts(problems)
        at_once = min(n_jobs, len(problems))

        def seconds_for(k: int) -> float | None:
            """A fair share of the time that is left."""
            if self.max_time is None:
                return None
            left = started + self.max_time - time.perf_counter()
            return max(left, 1e-9) / math.ceil((len(problems) - k) / at_once)

        with catch_interrupt() as interrupt, progress_bar(self.verbose) as bars:

            def solve_one(k: int) -> Result:
                with task.callbacks(k) as callbacks:
                    result = solve(
                        problems[k] if at_once == 1 else problems[k].with_jobs(1),
                        solver,
                        tol=self.tol,
                        max_iter=self.max_iter,
                        max_time=seconds_for(k),
                        callbacks=[*bars, *callbacks],
                        start=starts[k],
                        seed=seed,
                        **{"interrupt": interrupt, **self._run_options},
                    )
                # Dual variables of many classes take more memory than the data: keep them only for a purpose.
                return result if self.warm_start else replace(result, alpha=None, state=None)

            return map_ordered(solve_one, range(len(problems)), at_once)

    def _warm_starts(self, problems: OneVsRest) -> list[Any]:
        before, whole = getattr(self, "_states", None), problems.problem
        if not self.warm_start or before is None or len(before) != len(problems):
            return [None] * len(problems)
        fits = all(len(s.w) == whole.n_weights and len(getattr(s, "alpha", whole.y)) == whole.n_rows for s in before)
        return before if fits else [None] * len(problems)

    def _keep(self, results: list[Result]) -> None:
        """Turn the results into the fitted attributes that tell of the training."""
        only = len(results) == 1
        self.certificate_ = results[0].certificate if only else [r.certificate for r in results]
        self.history_ = results[0].history if only else [r.history for r in results]
        self.stop_reason_ = max((r.stop_reason for r in results), key=_GRAVITY.index)
        self.n_iter_ = max(1, *(math.ceil(r.passes) for r in results))
        self.solver_ = max(results, key=lambda r: r.passes).solver
        self._states = [r.state for r in results] if self.warm_start else None

    def _complaint(self, n_rows: int, results: list[Result]) -> str:
        """What the one warning of a fit says: the gap reached, the likely cause, the one parameter to change."""
        k = max(range(len(results)), key=lambda k: results[k].certificate.relative_gap)
        worst = results[k]
        of_class = "" if len(results) == 1 else f" (class {self.classes_[k]!s})"
        if self.stop_reason_ == "interrupted":
            advice = "It was interrupted, and the model found so far is kept: fit again to finish it."
        elif self.stop_reason_ == "max_time":
            advice = f"max_time={self.max_time:g} seconds ran out: raise max_time, or tol."
        elif self.max_iter is not None and self.max_iter < worst.solver.max_passes:
            advice = f"max_iter={self.max_iter:g} was too small: raise max_iter, or tol."
        elif n_rows > 10 * self.n_features_in_:
            advice = (
                f"{worst.passes:.0f} passes were not enough: with many more rows than features ({n_rows} x "
                f"{self.n_features_in_}) {worst.solver.name} is slow when C * |x|^2 is large. Scale the features to "
                "about unit length, or lower C."
            )
        else:
            advice = f"{worst.passes:.0f} passes were not enough: lower C, or raise max_iter."
        gap = f"relative duality gap of {worst.certificate.relative_gap:.1e}{of_class}"
        return f"LinearSVC stopped at a {gap}, not yet tol={self.tol:g}. {advice}"

    # ------------------------------------------------------------ use

    def decision_function(self, X: Any) -> Array:
        """Signed distances from the separating hyperplanes, times |w|.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, **_ROWS)
        rows = _checked_rows(X)
        if X.dtype == self.coef_.dtype:
            scores = np.asarray(X @ self.coef_.T)
        else:  # float32 rows: summed in float64, without a float64 copy of X
            scores = np.stack([matvec(rows, w) for w in np.ascontiguousarray(self.coef_)], axis=1)
        scores += self.intercept_
        return scores.ravel() if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Array:
        """Class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a safe file that ``maxmargin.load`` reads.

        Parameters
        ----------
        path : path
        """
        from maxmargin.models.estimator import save

        save(self, path)


def _coefficients(weights: list[Array], n_features: int, bias: float) -> tuple[Array, Array]:
    """(coef, intercept) of weight vectors whose last entry may belong to the constant column; a view if it can be."""
    stacked = weights[0][np.newaxis] if len(weights) == 1 else np.stack(weights)
    intercept = bias * stacked[:, n_features] if bias else np.zeros(len(stacked))
    return stacked[:, :n_features], intercept


def _checked_rows(X: Any) -> Rows:
    """View X as rows at little cost; only if something is wrong is it looked through for where that is."""
    rows = view_rows(X)
    with np.errstate(all="ignore"):
        in_doubt = not np.isfinite(np.sum(rows.data if isinstance(rows, CSR) else rows.values))
    if isinstance(rows, CSR) and len(rows.indices):
        in_doubt |= bool(rows.indices.min() < 0 or rows.indices.max() >= rows.n_features)
    return as_rows(X)[0] if in_doubt else rows
