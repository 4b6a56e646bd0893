"""What linear estimators share: from X, y and parameters to solved problems, and to coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin._code_cache import working_time
from maxmargin.data.outputs import linear_outputs
from maxmargin.data.rows import Array
from maxmargin.data.source import Source
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parameters import bias_of, check_numbers, solver_for, validated
from maxmargin.estimators._stored import is_stored, see_features, stored_data
from maxmargin.estimators._training import CertifiedEstimator
from maxmargin.losses import Loss
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import Problem
from maxmargin.solvers import solve
from maxmargin.solvers.base import Result, Solver
from maxmargin.solvers.schedule import Schedule


@documented
class LinearEstimator(CertifiedEstimator):
    """Base of the linear estimators. A subclass says which problems its targets make, in the methods below.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    """

    coef_: Array
    intercept_: Array

    def _checked_loss(self) -> Loss:
        """The loss object of the parameters."""
        raise NotImplementedError

    def _problems(self, problem: Problem, y: Array) -> Sequence[Problem]:
        """The problems to solve; `problem` has the rows and their costs, and no labels yet."""
        raise NotImplementedError

    def _usable(self, coef: Array, intercept: Array, problems: Any) -> dict[str, Any]:
        """The attributes that `predict` needs; one row of `coef` for each problem."""
        return {"coef_": coef, "intercept_": intercept, "classes_": problems.classes}

    # ------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Train on rows X with labels, or targets of a regression, y.

        Ctrl-C ends the training within a second; the model found so far is kept, and KeyboardInterrupt raised (unless
        a `maxmargin.catch_interrupt` is around it).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or a store, opened by
            `maxmargin.open_store`, which has its labels and weights with it: ``fit(store)``.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        started = working_time()
        data, y, unlabelled = self._unlabelled(X, y, sample_weight)
        solver = self._chosen_solver(unlabelled)
        problems = self._problems(unlabelled, y)

        def usable(found: Sequence[Any]) -> dict[str, Any]:
            return self._usable(*self._coefficients([np.array(f.w) for f in found], unlabelled), problems)

        task = FitTask(self, len(problems), usable, data, y, sample_weight)
        starts = self._warm_starts(problems)

        def solve_one(k: int, problem: Problem, **options: Any) -> Result:
            result = solve(problem, solver, start=starts[k], **options)
            # Dual variables of many classes take more memory than the data: keep them only for a purpose.
            return result if self.warm_start else replace(result, alpha=None, state=None)

        results = self._solve_each(solve_one, Schedule(problems, solver, unlabelled.n_jobs), task, started)
        for name, fitted in usable(results).items():
            setattr(self, name, fitted)
        self._keep_training(results)
        self._states = [r.state for r in results] if self.warm_start else None
        task.end()
        return None if self._is_finished else self._complaint(len(y), results, self._names)

    def _check_parameters(self) -> None:
        check_numbers(self, "intercept_scaling", *(["C"] if hasattr(self, "C") else []))

    def _unlabelled(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Problem]:
        """X and y, checked like all parameters, and the rows with their costs as a problem without labels."""
        self._check_parameters()
        loss, bias, n_jobs = self._checked_loss(), bias_of(self), effective_n_jobs(self.n_jobs)
        rows: Any
        if is_stored(X):
            see_features(self, X)
            rows, y, sample_weight = stored_data(X, y, sample_weight, bias, n_jobs)
        elif isinstance(X, Source):
            see_features(self, X)
            rows = X
        else:
            X, y = validated(self, X, y)
            rows = X = X.tocsr() if hasattr(X, "tocsr") else X  # not every sparse format has rows to choose from
        problem = Problem(
            rows,
            None,
            getattr(self, "C", 1.0),
            loss,
            sample_weight=sample_weight,
            bias=bias,
            penalty=getattr(self, "penalty", "l2"),
            penalize_intercept=not self._has_free_intercept,
            n_jobs=n_jobs,
        )
        return X, y, problem

    @property
    def _has_free_intercept(self) -> bool:
        return bool(self.fit_intercept and not getattr(self, "penalize_intercept", True))

    def _coefficients(self, weights: list[Array], problem: Problem) -> tuple[Array, Array]:
        return coefficients_of(weights, problem.n_features, problem.source.bias)

    def _chosen_solver(self, problem: Problem) -> str | Solver:
        """The solver of the parameters."""
        return solver_for(self.solver, problem.loss, problem.penalty, self._has_free_intercept)

    def _warm_starts(self, problems: Sequence[Problem]) -> list[Any]:
        before = getattr(self, "_states", None)
        if not self.warm_start or before is None or len(before) != len(problems):
            return [None] * len(problems)
        first = problems[0]
        fits = all(len(s.w) == first.n_weights and len(getattr(s, "alpha", first.y)) == first.n_rows for s in before)
        return before if fits else [None] * len(problems)

    @property
    def _names(self) -> list[str]:
        """What the problems decide, for a message."""
        return [f"class {label!s}" for label in getattr(self, "classes_", ())]

    def _slow(self, n_rows: int, worst: Result) -> str:
        if n_rows > 10 * self.n_features_in_:
            return (
                f"{worst.passes:.0f} passes were not enough: with many more rows than features ({n_rows} x "
                f"{self.n_features_in_}) {worst.solver.name} is slow when C * |x|^2 is large. Take "
                'solver="auto", scale the features to about unit length, or lower C.'
            )
        return f"{worst.passes:.0f} passes were not enough: lower C, or raise max_iter."

    # ------------------------------------------------------------ use

    def _dense_coef(self) -> Array:
        """The coefficients as an array of shape (n_problems, n_features), `sparsify` or not."""
        coef: Any = self.coef_
        return np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)

    def _outputs(self, X: Any) -> Array:
        """x_i'w + b of every row and problem, of shape (n_samples, n_problems)."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False)
        return linear_outputs(X, self._dense_coef(), self.intercept_)


def coefficients_of(weights: list[Array], n_features: int, bias: float) -> tuple[Array, Array]:
    """(coef, intercept) of weight vectors whose last entry may belong to the constant column; a view if it can be."""
    stacked = weights[0][np.newaxis] if len(weights) == 1 else np.stack(weights)
    intercept = bias * stacked[:, n_features] if bias else np.zeros(len(stacked))
    return stacked[:, :n_features], intercept
