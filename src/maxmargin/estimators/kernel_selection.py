"""A kernel machine that chooses C and gamma itself, by cross validation over a grid.

What folds and values of C have in common is shared where it was measured to pay (ijcnn1, a9a, phishing and mnist, 3000
to 12,000 rows). A fit with another C begins at the coefficients of the one before: up to two thirds of the time are
saved at C = 1000, nothing below 100. A kernel matrix that is kept for all of them is not worth its memory: fetching its
values takes as long as computing them, and up to three times as long if the rows are short.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.validation import column_or_1d

from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array, as_rows
from maxmargin.estimators._docs import documented
from maxmargin.estimators._folds import number_of_folds
from maxmargin.estimators._kernel_machine import KernelMachine
from maxmargin.estimators._parameters import share_of_time
from maxmargin.estimators._shared_parameters import Search
from maxmargin.estimators.svc import SVC, KernelClassifier
from maxmargin.estimators.svr import SVR, KernelRegressor
from maxmargin.kernels.scale import gamma_for
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import check_weights
from maxmargin.selection.paths import grid
from maxmargin.selection.scoring import scorer_for
from maxmargin.solvers.interrupts import catch_interrupt, end_of_fit

_FOLDS = 5
_LOWEST, _HIGHEST = 0.1, 1000.0  # C
_FACTOR = 4.0  # from a gamma to the next; the second is "scale", as in `suggest_rbf`
_KEPT = ("_decisions", "_fourier", "_fit_rows", "_slopes")  # what `predict` needs besides attributes


class _AlongC(KernelMachine):
    """A machine whose next fit, on the same rows with another C, begins where this one has ended."""

    _last: tuple[float, list[Any]] | None = None

    def _start(self, k: int) -> Any:
        if self._last is None or self._last[1][k] is None:
            return None
        return self._last[1][k] * (self.C / self._last[0])  # rows at the bound stay at it

    def _solve_each(self, *arguments: Any) -> Any:
        results = super()._solve_each(*arguments)
        self._last = self.C, [getattr(result.state, "beta", None) for result in results]
        return results


class _SVCAlongC(_AlongC, SVC):
    pass


class _SVRAlongC(_AlongC, SVR):
    pass


class _Cell(NamedTuple):
    """A model of the grid on a fold."""

    score: float
    relative_gap: float
    seconds: float
    has_converged: bool


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GridOfMachines(KernelMachine, Search):
    """The grid, its folds, and the model on all rows. A subclass says of which machines.

    Parameters
    ----------
    Cs : int or array-like of float, default=5
        The values of C to choose from, or how many of them between 0.1 and 1000.
    gammas : int or array-like of float, default=5
        The values of gamma to choose from, or how many: 1/4, 1, 4, 16, ... times "scale". Of no account where the
        kernel has none.
    tol : float, default=1e-3
        Relative duality gap to reach by every model.
    max_iter : float, default=-1
        Limit on passes over the rows, for each model.
    n_jobs : int, default=None
        Threads, over folds and gammas; -1: all cores. Results do not depend on it.
    verbose : bool or int, default=False
        1: show a progress bar of the last fit on a terminal.

    Attributes
    ----------
    C_, gamma_ : float
        Those with the best mean score; of equal ones the smallest C, then the smallest gamma. `gamma_` is "scale" where
        the kernel has none.
    Cs_, gammas_ : ndarray
    scores_ : ndarray of shape (n_folds, n_Cs, n_gammas)
    best_score_ : float
    best_index_ : int
        Place of the pair in `cv_results_`.
    cv_results_ : dict of str to ndarray
        With scikit-learn's names, for each pair: param_C, param_gamma, mean_test_score, std_test_score,
        rank_test_score, split0_test_score and so on, mean_fit_time; and relative_gap, the largest of the folds.
    """

    Cs: Any = 5
    gammas: Any = 5

    _machine: ClassVar[type[KernelMachine]]
    _along: ClassVar[type[_AlongC]]
    default_scoring: ClassVar[str]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Choose C and gamma by cross validation, and train on all rows with them.

        Ctrl-C ends this within a second or two with KeyboardInterrupt; before the last fit there is no model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 is a row given twice, weight 0 a row left out, in training and in the scores.

        Returns
        -------
        self
        """
        self._choose_and_fit(X, y, sample_weight)
        return self

    def _parameters(self) -> dict[str, Any]:
        own = {"gammas", *(field.name for field in fields(Search))}
        return {name: value for name, value in self.get_params(deep=False).items() if name not in own}

    def _choose_and_fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fill the table, choose, train on all rows, and warn if something has not converged."""
        started = working_time()
        given = X
        probe = self._machine(**self._parameters())
        probe._check_parameters()
        probe._chosen_solver()
        X, y = probe._checked_data(X, y)
        X, y = X.tocsr() if hasattr(X, "tocsr") else X, column_or_1d(y, warn=True)
        weight = None if sample_weight is None else check_weights(sample_weight, len(y))
        self.Cs_ = np.unique(grid(np.geomspace(_LOWEST, _HIGHEST, self.Cs) if _is_count(self.Cs) else self.Cs))
        self.gammas_ = self._gammas(X, weight)
        n_folds = number_of_folds(y) if is_classifier(self) else max(2, min(_FOLDS, len(y)))
        splits = list(check_cv(n_folds if self.cv is None else self.cv, y, classifier=is_classifier(self)).split(X, y))
        score = scorer_for(self.scoring or self.default_scoring, 2)
        tasks = list(itertools.product(range(len(self.gammas_)), range(len(splits))))
        n_jobs = effective_n_jobs(self.n_jobs)
        at_once = min(n_jobs, len(tasks))

        with catch_interrupt() as interrupt:

            def path(number: int) -> list[_Cell]:
                j, k = tasks[number]
                model = self._along(**self._parameters())
                model.set_params(gamma=self.gammas_[j], n_jobs=max(1, n_jobs // at_once), verbose=0)
                model._run_options = {"interrupt": interrupt}
                held_out = _part(X, splits[k], self._is_precomputed)
                cells = []
                for i, C in enumerate(self.Cs_):
                    left = (len(tasks) - number + 1) * len(self.Cs_) - i
                    model.set_params(C=float(C), max_time=share_of_time(started, self.max_time, left, at_once))
                    cells.append(_trained(model, held_out, y, weight, splits[k], score))
                    if interrupt.is_set():
                        break
                return cells

            cells = map_ordered(path, range(len(tasks)), at_once)
            if interrupt.is_set():
                raise KeyboardInterrupt(f"{type(self).__name__} was interrupted before C and gamma were chosen")
            self._choose(cells, len(splits))
            left = share_of_time(started, self.max_time, 1, 1)
            best = self._machine(**self._parameters() | {"max_time": left, "C": self.C_, "gamma": self.gamma_})
            best._run_options = {"interrupt": interrupt}
            complaint = best._train(given, y, sample_weight)
        for name, value in vars(best).items():
            if (name.endswith("_") and not name.startswith("_")) or name in _KEPT:
                setattr(self, name, value)
        if complaint is None and not all(cell.has_converged for path in cells for cell in path):
            complaint = (
                f"{type(self).__name__}: some models of the cross validation stopped early, the worst at a relative "
                f"duality gap of {self.cv_results_['relative_gap'].max():.1e}, not yet tol={self.tol:g}. Raise "
                "max_time, or tol, or leave out the largest Cs."
            )
        if complaint:
            end_of_fit(self.stop_reason_, complaint, ConvergenceWarning, stacklevel=3)

    def _gammas(self, X: Any, weight: Array | None) -> Array:
        """The values of gamma; of a kernel that has none, "scale" stands for it."""
        if not isinstance(self.kernel, str) or self.kernel in ("linear", "precomputed"):
            return np.array(["scale"], dtype=object)
        if not _is_count(self.gammas):
            return np.unique(grid(self.gammas))
        if self.gammas < 1:
            raise ValueError(f"gammas must be at least one value, or how many, got {self.gammas!r}")
        unit = gamma_for("scale", as_rows(X)[0], np.ones(X.shape[0]) if weight is None else weight)
        return unit * _FACTOR ** (np.arange(self.gammas) - min(1, self.gammas - 1))

    def _choose(self, cells: list[list[_Cell]], n_folds: int) -> None:
        """The best mean score; of equal ones the smallest C, then the smallest gamma."""
        shape = len(self.gammas_), n_folds, len(self.Cs_)

        def table(name: str) -> Array:
            each = np.array([[getattr(cell, name) for cell in path] for path in cells], dtype=np.float64)
            return each.reshape(shape).transpose(1, 2, 0)  # fold, C, gamma

        self.scores_ = table("score")
        mean = self.scores_.mean(axis=0)
        if not np.isfinite(mean).any():
            raise ValueError("no C and gamma have a score in all folds: take fewer folds, or another scoring")
        ranked = np.where(np.isfinite(mean), mean, -np.inf)
        i, j = np.unravel_index(int(np.argmax(ranked)), mean.shape)
        self.best_index_ = int(i * len(self.gammas_) + j)
        self.C_, self.gamma_, self.best_score_ = float(self.Cs_[i]), self.gammas_.tolist()[j], float(mean[i, j])
        pairs = list(itertools.product(self.Cs_, self.gammas_))
        self.cv_results_ = {
            "param_C": np.array([C for C, _ in pairs]),
            "param_gamma": np.array([gamma for _, gamma in pairs]),
            **{f"split{k}_test_score": self.scores_[k].ravel() for k in range(n_folds)},
            "mean_test_score": mean.ravel(),
            "std_test_score": self.scores_.std(axis=0).ravel(),
            "rank_test_score": 1 + np.sum(ranked.ravel()[:, np.newaxis] > ranked.ravel(), axis=0),
            "mean_fit_time": table("seconds").mean(axis=0).ravel(),
            "relative_gap": table("relative_gap").max(axis=0).ravel(),
        }

    def _chosen(self) -> Any:
        """The chosen model as a machine of its own, fitted."""
        model = self._machine(**self._parameters() | {"C": self.C_, "gamma": self.gamma_})
        own = ("Cs_", "gammas_", "C_", "gamma_", "scores_", "best_score_", "best_index_", "cv_results_")
        for name, value in vars(self).items():
            if (name.endswith("_") and name not in own) or name in _KEPT:
                setattr(model, name, value)
        return model

    def save(self, path: Any) -> None:
        """Write the chosen model to a safe file that ``maxmargin.load`` reads, as a machine without the grid.

        Parameters
        ----------
        path : path
        """
        self._chosen().save(path)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _part(X: Any, split: tuple[Any, Any], is_precomputed: bool) -> tuple[Any, Any]:
    """Rows to train on and rows to be scored."""
    train, test = split
    if is_precomputed:
        return X[train][:, train], X[test][:, train]
    return X[train], X[test]


def _trained(model: Any, rows: tuple[Any, Any], y: Array, weight: Array | None, split: Any, score: Any) -> _Cell:
    """Fit and score one cell."""
    began = working_time()
    train, test = split
    complaint = model._train(rows[0], y[train], None if weight is None else weight[train])
    model._slopes = None
    gap = max(certificate.relative_gap for certificate in model.certificates_)
    seconds = working_time() - began
    found = score(model, rows[1], y[test], None if weight is None else weight[test])
    return _Cell(found, gap, seconds, complaint is None)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVCCV(GridOfMachines, KernelClassifier):
    """Support vector classifier that chooses C and gamma by cross validation, with a certificate for every model.

    Each fold trains the machines of a gamma from the smallest C to the largest, each begun where the one before has
    ended. The model is then trained on all rows with the best pair. `suggest_rbf` gives a first pair in seconds, to lay
    a finer grid around.

    Parameters
    ----------
    scoring : str or callable, default=None
        As in scikit-learn; None is "accuracy". Scores are weighed by `sample_weight`, if the scorer can do that.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(n_samples=300, noise=0.2, random_state=0)
    >>> clf = SVCCV(Cs=[1.0, 10.0], gammas=[0.1, 1.0, 10.0], cv=3).fit(X, y)
    >>> clf.scores_.shape
    (3, 2, 3)
    >>> bool(clf.gamma_ > 0.1)
    True
    """

    _machine, _along, default_scoring = SVC, _SVCAlongC, "accuracy"

    def to_svc(self) -> SVC:
        """The chosen model, as a fitted `SVC`."""
        return self._chosen()


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVRCV(GridOfMachines, KernelRegressor):
    """Support vector regression that chooses C and gamma by cross validation, with a certificate for every model.

    As `SVCCV`, for a regression: `epsilon` is given.

    Parameters
    ----------
    cv : int, splitter or iterable, default=None
        As in scikit-learn: an integer is a number of folds. None are five.
    scoring : str or callable, default=None
        As in scikit-learn; None is "r2". Scores are weighed by `sample_weight`, if the scorer can do that.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(0.0, 6.0, size=(150, 1))
    >>> reg = SVRCV(Cs=[1.0, 10.0], gammas=[0.01, 1.0], cv=3).fit(X, np.sin(X[:, 0]))
    >>> reg.scores_.shape, reg.gamma_
    ((3, 2, 2), 1.0)
    >>> bool(reg.best_score_ > 0.9)
    True
    """

    _machine, _along, default_scoring = SVR, _SVRAlongC, "r2"

    def to_svr(self) -> SVR:
        """The chosen model, as a fitted `SVR`."""
        return self._chosen()
