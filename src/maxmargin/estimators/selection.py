"""A linear classifier that chooses C itself, by cross validation over a path."""

from __future__ import annotations

import contextlib
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._docs import documented
from maxmargin.estimators._folds import (
    Fold,
    Folds,
    OfEachRun,
    SharedRows,
    from_the_best,
    mean_scores,
    number_of_folds,
    train_fold,
)
from maxmargin.estimators._parameters import progress_bar, seed_of, share_of_time
from maxmargin.estimators._shared_parameters import Search
from maxmargin.estimators._stored import is_stored
from maxmargin.estimators.linear import LinearClassifier, LinearSVC
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.selection.paths import (
    PathInterrupted,
    Start,
    grid,
    solve_paths,
)
from maxmargin.selection.regularization_path import RegularizationPath
from maxmargin.selection.scoring import scorer_for, scoring_name
from maxmargin.solvers.interrupts import catch_interrupt

_OF_THE_CHOICE = ("C_", "Cs_", "scores_", "best_score_", "best_index_", "cv_results_", "path_")


@documented
@dataclass(eq=False, repr=False)
class LinearSVCCV(LinearClassifier, Search):
    """Linear support vector classifier that chooses C by cross validation, with a certificate for every model.

    Each fold solves a path over all C, each begun where the one before has ended: it costs little more than its largest
    C alone. The model is then trained on all rows, along the path up to the chosen C.

    Ctrl-C ends `fit` within a second or two: the estimator then has the best model found so far, that of a fold, chosen
    by the scores of complete folds; before the first is complete there is none. Weights of rows count in the scores,
    too.

    Parameters
    ----------
    cv : int, splitter or iterable, default=None
        As in scikit-learn: an integer is a number of stratified folds. None are five, or as many as the smallest class
        has rows, at least two. Held-out rows get weight zero: nothing of X is copied for training.
    scoring : str or callable, default=None
        As in scikit-learn; None is "roc_auc" for two classes, else "accuracy". Scores are weighed by `sample_weight`,
        if the scorer can do that.
    loss : {"squared_hinge", "hinge", "huber", "logistic"} or loss object, default="squared_hinge"
    solver : str or Solver, default="auto"
        Cutting-plane solvers, such as "ocas", share their planes over all C, which pays for the hinge loss and many
        more rows than features; every other solver begins at the solution of the C before.
    tol : float, default=1e-3
        Relative duality gap to reach in every fold, for every C.
    max_iter : float, default=None
        Limit on passes over the data, for each fold, C and class.
    n_jobs : int, default=None
        Threads, over folds, classes and inside passes over the data; -1: all cores. Results do not depend on it.
    verbose : int, default=0
        1: show a progress bar on a terminal, one over all folds, C and classes.
    penalty : {"l2", "l1"}, default="l2"
        1/2 |w|^2, or |w|_1.

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
        The models on all rows, for the C up to the chosen one. It is not saved with the model.

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

    Cs: Any = 8
    cv: Any = None
    scoring: Any = None
    _: KW_ONLY
    loss: Any = "squared_hinge"
    penalty: str = "l2"

    # ------------------------------------------------------------ fit

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning. Callbacks of scikit-learn see the passes of the path on all rows."""
        started = working_time()
        values, n_jobs = grid(self.Cs), effective_n_jobs(self.n_jobs)
        X, y, problem = self._unlabelled(X, y, sample_weight)
        y = X.labels() if is_stored(X) else y
        solver, whole = self._chosen_solver(problem), self._problems(problem, y)
        template = LinearSVC(**self._parameters())
        template.n_features_in_ = self.n_features_in_
        cv = number_of_folds(y) if self.cv is None else self.cv
        splits = list(check_cv(cv, y, classifier=True).split(X, y))
        weights = problem.cost if sample_weight is not None or getattr(X, "has_weights", False) else None
        rows = SharedRows(X, y, weights, problem, template, scorer_for(self.scoring, len(whole.classes)))
        together = min(n_jobs, len(splits)) if "rows" in problem.accesses else 1

        def usable(states: list[Any]) -> Any:
            if len(whole) > 1:
                return None  # the other classes' weights are not there yet
            return self._usable(*self._coefficients([states[0].w.copy()], problem), whole)

        task = FitTask(self, 1, usable, X, y, sample_weight)

        n_models = (len(splits) + 1) * len(np.unique(values)) * len(whole)  # the last path may be shorter
        with catch_interrupt() as interrupt, progress_bar(self.verbose, n_models) as bars:
            options: dict[str, Any] = {
                "tol": self.tol,
                "max_iter": self.max_iter,
                "seed": seed_of(self.random_state),
                "interrupt": interrupt,
                "bars": bars,
                **self._run_options,
            }

            done = Folds(len(splits))

            def one_fold(k: int) -> None:
                if interrupt.is_set():
                    return
                seconds = share_of_time(started, self.max_time, len(splits) + 1 - k, together)
                threads = max(1, n_jobs // together)
                with contextlib.suppress(PathInterrupted):
                    done.add(
                        k,
                        *train_fold(rows, splits[k], values, solver, n_jobs=threads, max_time=seconds, **options),
                    )

            map_ordered(one_fold, range(len(splits)), together)
            folds = done.complete
            if not folds:
                raise KeyboardInterrupt(f"{type(self).__name__} was interrupted before there was a score of any C")
            self._choose(values, folds)
            up_to, starts = np.unique(values[values <= self.C_]), None
            if interrupt.is_set():  # no time for a path: the model of a fold is better than none
                assert done.best_weights is not None
                up_to, starts = up_to[-1:], [Start(w) for w in done.best_weights]
            for bar in bars:
                bar.n_models = len(whole) * (len(splits) * len(np.unique(values)) + len(up_to))
            with task.callbacks(0) as reporters:
                seconds = share_of_time(started, self.max_time, 1, 1)
                by_class = solve_paths(
                    whole,
                    up_to,
                    solver,
                    n_jobs=n_jobs,
                    max_time=seconds,
                    starts=starts,
                    callbacks=[OfEachRun(reporter) for reporter in reporters],
                    **options,
                )
        if hasattr(self, "feature_names_in_"):  # not earlier: the folds have arrays, without names, to predict
            template.feature_names_in_ = self.feature_names_in_
        self.path_ = RegularizationPath(up_to, whole.classes, [list(each) for each in zip(*by_class)], template)
        best = self.path_.model(-1)
        self.coef_, self.intercept_, self.classes_ = best.coef_, best.intercept_, best.classes_
        self._keep_training(self.path_.results[-1])
        task.end()
        if not self._is_finished:
            return self._complaint(len(y), self.path_.results[-1], self._names)
        return None if all(fold.all_converged for fold in folds) else self._complaint_of_folds()

    def _choose(self, values: Array, folds: list[Fold]) -> None:
        """The C with the best mean score, and the table."""
        self.Cs_, self.scores_ = values, np.array([fold.scores for fold in folds])
        mean = mean_scores(folds)
        if not np.isfinite(mean).any():
            name = scoring_name(self.scoring, 2)
            raise ValueError(
                f"no C has a score in all folds: {name!r} may need rows of every class in each of them; take fewer "
                "folds, or another scoring"
            )
        self.best_index_, ranked = int(from_the_best(values, mean)[0]), np.where(np.isfinite(mean), mean, -np.inf)
        self.C_, self.best_score_ = float(values[self.best_index_]), float(mean[self.best_index_])
        self.cv_results_ = {
            "param_C": values.copy(),
            **{f"split{k}_test_score": fold.scores for k, fold in enumerate(folds)},
            "mean_test_score": mean,
            "std_test_score": self.scores_.std(axis=0),
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

    def _parameters(self) -> dict[str, Any]:
        """Those of the models that are chosen from."""
        search = [field.name for field in fields(Search)]
        return {name: value for name, value in self.get_params(deep=False).items() if name not in search}

    def to_linear_svc(self) -> LinearSVC:
        """The chosen model, as a fitted `LinearSVC`."""
        check_is_fitted(self, "coef_")
        model = LinearSVC(C=self.C_, **self._parameters())
        fitted = (name for name in vars(self) if name.endswith("_") and name not in _OF_THE_CHOICE)
        for name in fitted:
            setattr(model, name, getattr(self, name))
        return model

    def plot(self) -> Any:
        """Draw the scores of all folds over C, with the chosen one, and the gaps that were certified.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig("selection.png")`` writes it.
        """
        from maxmargin.displays import PathDisplay

        return PathDisplay.of_selection(self).stacked()
