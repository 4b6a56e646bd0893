"""Linear classifiers with scikit-learn's interface and a certificate."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin import losses, solvers
from maxmargin.estimators._callbacks import CallbackSupportMixin, FitTask, with_callbacks
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, matvec, view_rows
from maxmargin.solvers.base import Callback, Result, Solver, catch_interrupt, run


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
        Limit on passes over the data; None: the solver's own, 1000 for most.
    max_time : float, default=None
        Limit in seconds. The model found by then is kept.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is penalised like the other weights; larger `intercept_scaling` makes that
        penalty smaller.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept.
    class_weight : dict, "balanced" or None, default=None
        Factors of C by class. With more than two classes a class's factor applies in the problem that separates it
        from the rest, as in LIBLINEAR.
    warm_start : bool, default=False
        Begin `fit` at the previous solution, if that was of as many rows and classes.
    n_jobs : int, default=None
        Threads, over classes and inside passes over the data; -1: all cores.
    random_state : int, RandomState or None, default=None
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
        What ran.
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

    @with_callbacks
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
        loss = losses.get(self.loss)
        if not losses.is_margin_loss(loss):
            able = ", ".join(losses.name_of_type(tag) for tag in losses.MARGIN_LOSSES)
            raise ValueError(f"loss {losses.name_of(loss)!r} is for regression; a classifier takes {able}")
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,  # `Problem` checks, and says where
        )
        check_classification_targets(y)
        n_jobs = effective_n_jobs(self.n_jobs)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        if self.fit_intercept and not 0.0 < bias < np.inf:
            raise ValueError(f"intercept_scaling must be positive and finite, got {self.intercept_scaling!r}")
        everywhere = np.ones(len(y))
        problem = Problem(X, everywhere, self.C, loss, sample_weight=sample_weight, bias=bias, n_jobs=n_jobs)
        self.classes_ = _observed_classes(y, problem.cost)
        tasks = self._binary_problems(problem, y)
        solver = solvers.choose(problem, self.tol) if self.solver == "auto" else solvers.get(self.solver)
        self._keep(problem, solver, self._solve(solver, tasks, n_jobs, X, y))
        return self

    def _binary_problems(self, problem: Problem, y: Array) -> list[Problem]:
        """One problem that separates classes_[1] from classes_[0], or each class from the rest."""
        factors = _class_factors(self.class_weight, self.classes_, y, problem.cost)
        if len(self.classes_) == 2:
            positive = y == self.classes_[1]
            return [problem.with_labels(np.where(positive, 1.0, -1.0), problem.cost * np.where(positive, *factors[::-1]))]
        tasks = []
        for label, factor in zip(self.classes_, factors):
            positive = y == label
            cost = problem.cost if factor == 1.0 else problem.cost * np.where(positive, factor, 1.0)
            tasks.append(problem.with_labels(np.where(positive, 1.0, -1.0), cost))
        return tasks

    def _solve(self, solver: Solver, tasks: list[Problem], n_jobs: int, X: Any, y: Any) -> list[Result]:
        """Solve the binary problems, several at a time."""
        starts = self._warm_starts(tasks)
        seed = _seed(self.random_state)
        together = min(n_jobs, len(tasks))
        fit_task = FitTask(self, X, y, n_problems=len(tasks))

        with catch_interrupt() as interrupt, _progress_bars(self.verbose, len(tasks)) as bars:

            def solve_one(k: int) -> Result:
                callbacks: list[Callback] = [*bars, *fit_task.callbacks(k)]
                return run(
                    solver,
                    tasks[k] if together == 1 else tasks[k].with_jobs(1),
                    tol=self.tol,
                    max_iter=self.max_iter,
                    max_time=self.max_time,
                    callbacks=callbacks,
                    start=starts[k],
                    seed=seed,
                    interrupt=interrupt,
                )

            return map_ordered(solve_one, range(len(tasks)), together)

    def _warm_starts(self, tasks: list[Problem]) -> list[Any]:
        before = getattr(self, "_states", None)
        if not self.warm_start or before is None or len(before) != len(tasks):
            return [None] * len(tasks)
        fits = all(len(s.w) == t.n_weights and len(s.alpha) == t.n_rows for s, t in zip(before, tasks))
        return before if fits else [None] * len(tasks)

    def _keep(self, problem: Problem, solver: Solver, results: list[Result]) -> None:
        """Turn the results into the fitted attributes."""
        self.coef_, self.intercept_ = _coefficients([r.w for r in results], problem.n_features, problem.rows.bias)
        only = len(results) == 1
        self.certificate_ = results[0].certificate if only else [r.certificate for r in results]
        self.history_ = results[0].history if only else [r.history for r in results]
        self.stop_reason_ = max((r.stop_reason for r in results), key=_GRAVITY.index)
        self.n_iter_ = max(1, *(int(np.ceil(r.passes)) for r in results))
        self.solver_ = solver
        if self.warm_start:
            self._states = [r.state for r in results]
        _warn_if_not_converged(self.stop_reason_, problem, max(results, key=lambda r: r.certificate.relative_gap), self)

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
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            order="C",
            reset=False,
        )
        scores = X @ self.coef_.T if X.dtype == self.coef_.dtype else _without_widening(X, self.coef_)
        scores = np.asarray(scores) + self.intercept_
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


# ---------------------------------------------------------------- what fit needs

_GRAVITY = ["converged", "callback", "max_iter", "max_time", "interrupted"]


def _observed_classes(y: Array, cost: Array) -> Array:
    """The classes that have a row of positive weight."""
    classes = np.unique(y[cost > 0.0])
    if len(classes) < 2:
        raise ValueError(
            "LinearSVC needs samples of at least 2 classes in the data, "
            f"but the data contains only one class: {classes[0]!r}"
        )
    return classes


def _class_factors(class_weight: Any, classes: Array, y: Array, cost: Array) -> Array:
    """Factor of C for each class. Balanced: as if every class had the same total weight."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f'class_weight must be a dict, "balanced" or None, got {class_weight!r}')
        totals = np.array([cost[y == label].sum() for label in classes])
        return totals.sum() / (len(classes) * totals)
    unknown = [label for label in class_weight if label not in classes]
    if unknown:
        raise ValueError(f"class_weight names classes that are not in y: {unknown}")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    if not np.all((factors > 0.0) & np.isfinite(factors)):
        raise ValueError(f"class weights must be positive and finite, got {class_weight!r}")
    return factors


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}")
        return int(random_state)
    if hasattr(random_state, "integers"):
        return int(random_state.integers(2**31))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    raise ValueError(f"random_state must be an integer, a numpy generator or None, got {random_state!r}")


@contextmanager
def _progress_bars(verbose: int, n_problems: int) -> Iterator[list[Callback]]:
    """The callbacks of `verbose`: one bar, for whichever binary problem reports."""
    with ExitStack() as stack:
        bars: list[Callback] = []
        if verbose:
            from maxmargin.callbacks import ProgressBar

            lock, bar = threading.Lock(), stack.enter_context(ProgressBar())

            def locked(progress: Any) -> bool:
                with lock:
                    return bar(progress)

            bars.append(locked)
        yield bars


def _coefficients(weights: list[Array], n_features: int, bias: float) -> tuple[Array, Array]:
    """(coef, intercept) of weight vectors whose last entry may belong to the constant column; a view if it can be."""
    stacked = weights[0][np.newaxis] if len(weights) == 1 else np.stack(weights)
    intercept = bias * stacked[:, n_features] if bias else np.zeros(len(stacked))
    return stacked[:, :n_features], intercept


def _without_widening(X: Any, coef: Array) -> Array:
    """X @ coef.T for float32 rows, summed in float64 without a float64 copy of X."""
    rows = view_rows(X)
    return np.stack([matvec(rows, np.ascontiguousarray(w)) for w in coef], axis=1)


def _warn_if_not_converged(reason: str, problem: Problem, worst: Result, estimator: LinearSVC) -> None:
    """One warning per fit: the gap reached, the likely cause, the one parameter to change."""
    if reason in ("converged", "callback"):
        return
    reached = f"relative duality gap {worst.certificate.relative_gap:.1e}, not yet tol={estimator.tol:.0e}"
    if reason == "interrupted":
        advice = "It was interrupted; the model found so far is kept."
    elif reason == "max_time":
        advice = f"max_time={estimator.max_time} s ran out; raise it, or tol."
    elif problem.n_rows > 10 * problem.n_features:
        advice = (
            f"{worst.passes:.0f} passes were not enough: with many more rows than features ({problem.n_rows} x "
            f"{problem.n_features}) {worst.solver.name} is slow when C * |x|^2 is large. Scale the features or lower C."
        )
    else:
        advice = f"max_iter={worst.passes:.0f} passes were not enough; raise max_iter, or lower C."
    warnings.warn(f"LinearSVC stopped at a {reached}. {advice}", ConvergenceWarning, stacklevel=4)
