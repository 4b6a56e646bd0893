"""A linear classifier that chooses C itself, by cross validation over a path."""

from __future__ import annotations

import threading
import time
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._base import _coefficients
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._parameters import progress_bar, seed_of
from maxmargin.estimators.linear import LinearSVC
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.paths import (
    RegularizationPath,
    Start,
    grid,
    prepared,
    scorer_for,
    scoring_name,
    share_of_time,
    solve_paths,
)
from maxmargin.problem import Problem
from maxmargin.rows import Array
from maxmargin.solvers.base import Progress, catch_interrupt

_SHARED = (  # parameters of `LinearSVC` that are ours as well
    "loss",
    "solver",
    "tol",
    "max_iter",
    "max_time",
    "fit_intercept",
    "intercept_scaling",
    "class_weight",
    "random_state",
    "penalty",
)


class _Fold(NamedTuple):
    """What is kept of a fold, for each C."""

    scores: Array
    gaps: Array
    seconds: Array
    passes: Array
    all_converged: bool
    weights: list[list[Array]] | None  # of each class, if there was an interrupt: all that is left then


class LinearSVCCV(LinearSVC):
    """Linear support vector classifier that chooses C by cross validation, with a certificate for every model.

    Each fold solves a path over all C, whose models share their cutting planes: it costs about as much as its largest
    C alone. The model is then trained on all rows, along the path up to the chosen C.

    Parameters
    ----------
    Cs : int or array-like of float, default=8
        The values of C to choose from, or how many of them between 0.0001 and 1000.
    cv : int, splitter or iterable, default=5
        As in scikit-learn: an integer is a number of stratified folds. Held-out rows get weight zero: nothing of X is
        copied for training.
    scoring : str or callable, default=None
        As in scikit-learn; None is "roc_auc" for two classes, else "accuracy". Scores are weighed by `sample_weight`,
        if the scorer can do that.
    loss : {"squared_hinge", "hinge", "huber", "logistic"} or loss object, default="squared_hinge"
    solver : str or Solver, default="ocas"
        Cutting-plane solvers share their planes over all C; every other solver begins at the solution of the C before.
        With more features than rows, as in text, take "dual_cd": a plane is as long as w, and many are needed.
    tol : float, default=1e-3
        Relative duality gap to reach in every fold, for every C.
    max_iter : float, default=None
        Limit on passes over the data, for each fold, C and class.
    max_time : float, default=None
        Limit in seconds on the whole fit.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int, default=None
        Threads, over folds, classes and inside passes over the data; -1: all cores. Results do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of solvers that visit rows in random order.
    verbose : int, default=0
        1: show a progress bar on a terminal.
    penalty : {"l2", "l1"}, default="l2"
        "l1" takes another solver than the default, such as "auto".

    Attributes
    ----------
    C_ : float
        The C with the best mean score; of equal ones the smallest.
    Cs_ : ndarray of shape (n_Cs,)
    scores_ : ndarray of shape (n_folds, n_Cs)
    best_score_ : float
        Mean score of `C_`.
    best_index_ : int
        Place of `C_` in `Cs_`.
    cv_results_ : dict of str to ndarray
        With scikit-learn's names, for each C: param_C, mean_test_score, std_test_score, rank_test_score,
        split0_test_score and so on, mean_fit_time; and relative_gap, the largest that a fold was left with.
    path_ : RegularizationPath
        The models on all rows, for the C up to the chosen one.
    coef_, intercept_, classes_, certificate_, stop_reason_, history_, solver_, n_iter_, n_features_in_ :
        Of the model on all rows, as in `LinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=500, flip_y=0.2, random_state=0)
    >>> clf = LinearSVCCV(Cs=[0.001, 0.01, 0.1, 1.0]).fit(X, y)
    >>> clf.scores_.shape
    (5, 4)
    >>> bool(clf.best_score_ == clf.scores_.mean(axis=0).max())
    True
    """

    warm_start = False

    def __init__(
        self,
        Cs: Any = 8,
        cv: Any = 5,
        scoring: Any = None,
        loss: Any = "squared_hinge",
        solver: Any = "ocas",
        tol: float = 1e-3,
        max_iter: float | None = None,
        max_time: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        penalty: str = "l2",
    ):
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.penalty = penalty

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVCCV:
        """Choose C by cross validation, and train on all rows with it.

        Ctrl-C ends this within a second or two, and leaves the best model found so far: that of a fold, if the folds
        were not done. Scores are then the means of complete folds, if there are any.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out, in training and in the scores.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning. Callbacks of scikit-learn see the passes of the path on all rows."""
        started = time.perf_counter()
        values, n_jobs = grid(self.Cs), effective_n_jobs(self.n_jobs)
        template = LinearSVC(**{name: getattr(self, name) for name in _SHARED}, n_jobs=self.n_jobs)
        X, y, problem, solver = prepared(self, template, X, y, sample_weight)
        template.n_features_in_ = self.n_features_in_
        whole = self._problems(problem, y)
        splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
        weights = None if sample_weight is None else problem.cost
        rows = _Rows(X, y, weights, problem, template, scorer_for(self.scoring, len(whole.classes)))
        together = min(n_jobs, len(splits))
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}

        def usable(weights: list[Array]) -> Any:
            if len(whole) > 1:
                return None  # the other classes' weights are not there yet
            bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
            return self._usable(*_coefficients(weights, self.n_features_in_, bias), whole)

        task = FitTask(self, 1, usable, {"X": X, "y": y, "metadata": metadata})

        with catch_interrupt() as interrupt, progress_bar(self.verbose) as bars:
            options: dict[str, Any] = {
                "tol": self.tol,
                "max_iter": self.max_iter,
                "seed": seed_of(self.random_state),
                "interrupt": interrupt,
                **self._run_options,
            }

            def one_fold(k: int) -> _Fold:
                seconds = share_of_time(started, self.max_time, len(splits) + 1 - k, together)
                threads = max(1, n_jobs // together)
                return _fold(
                    rows, splits[k], values, solver, n_jobs=threads, max_time=seconds, callbacks=bars, **options
                )

            folds = map_ordered(one_fold, range(len(splits)), together)
            self._choose(values, folds)
            up_to, starts = np.unique(values[values <= self.C_]), None
            if interrupt.is_set():  # no time for a path: the model of a fold is better than none
                up_to, starts = up_to[-1:], _salvaged(folds, self.best_index_, len(whole))
            with task.callbacks(0) as reporters:
                callbacks = [*bars, *(_OfEachRun(reporter) for reporter in reporters)]
                seconds = share_of_time(started, self.max_time, 1, 1)
                by_class = solve_paths(
                    whole,
                    up_to,
                    solver,
                    n_jobs=n_jobs,
                    max_time=seconds,
                    starts=starts,
                    callbacks=callbacks,
                    **options,
                )
        if hasattr(self, "feature_names_in_"):  # not earlier: the folds have arrays, without names, to predict
            template.feature_names_in_ = self.feature_names_in_
        self.path_ = RegularizationPath(up_to, whole.classes, [list(each) for each in zip(*by_class)], template)
        best = self.path_.model(-1)
        self.coef_, self.intercept_, self.classes_ = best.coef_, best.intercept_, best.classes_
        self._keep(self.path_.results[-1])
        task.end()
        if self.stop_reason_ not in ("converged", "callback"):
            return self._complaint(len(y), self.path_.results[-1])
        return None if all(fold.all_converged for fold in folds) else self._complaint_of_folds()

    def _choose(self, values: Array, folds: list[_Fold]) -> None:
        """The C with the best mean score, and the table. After an interrupt, complete folds count if there are any."""
        self.Cs_, self.scores_ = values, np.array([fold.scores for fold in folds])
        is_interrupted = any(fold.weights is not None for fold in folds)
        complete = [k for k, fold in enumerate(folds) if fold.all_converged]
        counted = self.scores_[complete] if is_interrupted and complete else self.scores_
        mean = counted.mean(axis=0)
        if not np.isfinite(mean).any():
            name = scoring_name(self.scoring, 2)
            raise ValueError(
                f"no C has a score in all folds: {name!r} may need rows of every class in each of them; take fewer "
                "folds, or another scoring"
            )
        ranked = np.where(np.isfinite(mean), mean, -np.inf)
        order = np.lexsort((values, -ranked))  # of equal scores the smallest C
        self.best_index_ = int(order[0])
        self.C_, self.best_score_ = float(values[self.best_index_]), float(mean[self.best_index_])
        self.cv_results_ = {
            "param_C": values.copy(),
            **{f"split{k}_test_score": fold.scores for k, fold in enumerate(folds)},
            "mean_test_score": mean,
            "std_test_score": counted.std(axis=0),
            "rank_test_score": 1 + np.sum(ranked[:, np.newaxis] > ranked, axis=0),
            "mean_fit_time": np.mean([fold.seconds for fold in folds], axis=0),
            "mean_passes": np.mean([fold.passes for fold in folds], axis=0),
            "relative_gap": np.max([fold.gaps for fold in folds], axis=0),
        }

    def _complaint_of_folds(self) -> str:
        worst = int(np.argmax(self.cv_results_["relative_gap"]))
        return (
            f"{type(self).__name__}: some models of the cross validation stopped early, the worst (C = "
            f"{self.Cs_[worst]:g}) at a relative duality gap of {self.cv_results_['relative_gap'][worst]:.1e}, not yet "
            f"tol={self.tol:g}. Raise max_time or max_iter, or tol, or leave out the largest Cs."
        )

    # ------------------------------------------------------------ use

    def to_linear_svc(self) -> LinearSVC:
        """The chosen model, as a fitted `LinearSVC`."""
        check_is_fitted(self, "coef_")
        return self.path_.model(-1)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the chosen model, a `LinearSVC`, to a safe file that ``maxmargin.load`` reads.

        Parameters
        ----------
        path : path
        """
        self.to_linear_svc().save(path)

    def plot(self) -> Any:
        """Draw the scores of all folds over C, with the chosen one, and the gaps that were certified.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig("selection.png")`` writes it.
        """
        from maxmargin._path_plot import draw_selection

        check_is_fitted(self, "coef_")
        name = scoring_name(self.scoring, len(self.classes_))
        return draw_selection(self.Cs_, self.scores_, self.cv_results_["relative_gap"], self.tol, name)


class _Rows(NamedTuple):
    """What folds share."""

    X: Any
    y: Array
    sample_weight: Array | None
    problem: Problem
    template: LinearSVC
    score: Any


def _fold(rows: _Rows, split: tuple[Any, Any], values: Array, solver: Any, **options: Any) -> _Fold:
    """Solve the path of one fold and score its models on the rows held out."""
    train, test = split
    # A row of weight zero is as good as absent: no fold needs a copy of its rows. (One that is named twice counts so.)
    cost = rows.problem.cost * _counts(train, len(rows.y))
    problems = rows.template._problems(rows.problem.with_labels(rows.problem.y, cost), rows.y)
    by_class = solve_paths(problems, values, solver, **options)
    held_out, labels = rows.X[test], rows.y[test]
    weights = None if rows.sample_weight is None else rows.sample_weight[test]
    results = [list(each) for each in zip(*by_class)]
    path = RegularizationPath(values, problems.classes, results, rows.template)
    return _Fold(
        scores=np.array([rows.score(path.model(k), held_out, labels, weights) for k in range(len(path))]),
        gaps=path.relative_gap,
        seconds=path.seconds,
        passes=path.passes,
        all_converged=all(result.stop_reason in ("converged", "callback") for each in results for result in each),
        weights=[[result.w for result in each] for each in results] if options["interrupt"].is_set() else None,
    )


def _salvaged(folds: list[_Fold], k: int, n_problems: int) -> list[Start] | None:
    """Where the model of the k-th C stood at an interrupt of the folds: weights of the one that came farthest."""
    able = [fold for fold in folds if fold.weights is not None and len(fold.weights[k]) == n_problems]
    if not able:
        return None
    farthest = min(able, key=lambda fold: float(fold.gaps[k]))
    assert farthest.weights is not None
    return [Start(w) for w in farthest.weights[k]]


def _counts(train: Any, n_rows: int) -> Array:
    """How often a fold trains on each row: indices may name one twice; a mask is as good as indices."""
    train = np.asarray(train)
    return np.bincount(np.flatnonzero(train) if train.dtype == bool else train, minlength=n_rows)


class _OfEachRun:
    """A reporter counts the passes of one run; this lets it count those of each C and class."""

    def __init__(self, reporter: Any):
        self.reporter, self.lock = reporter, threading.Lock()
        self.reported: dict[int, tuple[Problem, int]] = {}  # the problem is there to keep its id its own

    def __call__(self, progress: Progress) -> bool:
        problem = progress.problem
        with self.lock:
            self.reporter.n_reported = self.reported.get(id(problem), (problem, 0))[1]
            stop = self.reporter(progress)
            self.reported[id(problem)] = problem, self.reporter.n_reported
        return stop
