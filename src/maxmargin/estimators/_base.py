"""What linear estimators share: from X, y and parameters to solved problems, and to coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin._code_cache import working_time
from maxmargin.data.outputs import linear_outputs
from maxmargin.data.rows import Array
from maxmargin.data.source import Source
from maxmargin.estimators._callbacks import CallbackSupportMixin, FitTask, with_callbacks
from maxmargin.estimators._estimator import Estimator
from maxmargin.estimators._parameters import SEVERITY, check_numbers, progress_bar, seed_of, solver_for, validated
from maxmargin.estimators._stored import is_stored, see_features, stored_data
from maxmargin.losses import Loss
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import Problem
from maxmargin.solvers import solve
from maxmargin.solvers.base import Result, Solver
from maxmargin.solvers.interrupts import catch_interrupt, end_of_fit
from maxmargin.solvers.schedule import Schedule


class LinearEstimator(CallbackSupportMixin, Estimator):
    """Base of the linear estimators. A subclass says which problems its targets make, in the methods below."""

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

    def _fit_and_warn(self, X: Any, y: Any, sample_weight: Any) -> None:
        complaint = self._train(X, y, sample_weight)
        if complaint:  # raised here, so that it points at the line that called `fit`
            end_of_fit(self.stop_reason_, complaint, ConvergenceWarning, stacklevel=3)

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        started = working_time()
        unlabelled, y = self._unlabelled(X, y, sample_weight)
        solver = self._chosen_solver(unlabelled)
        problems = self._problems(unlabelled, y)

        def usable(found: Sequence[Any]) -> dict[str, Any]:
            return self._usable(*self._coefficients([np.array(f.w) for f in found], unlabelled), problems)

        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        task = FitTask(self, len(problems), usable, {"X": X, "y": y, "metadata": metadata})
        starts, seed = self._warm_starts(problems), seed_of(self.random_state)
        results = self._solve(solver, problems, starts, seed, unlabelled.n_jobs, task, started)
        for name, fitted in usable(results).items():
            setattr(self, name, fitted)
        self._keep(results)
        task.end()
        return None if self.stop_reason_ in ("converged", "callback") else self._complaint(len(y), results)

    def _unlabelled(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, Array]:
        """The rows with their costs, all parameters checked, as a problem without labels; and the targets."""
        check_numbers(self)
        loss, n_jobs = self._checked_loss(), effective_n_jobs(self.n_jobs)
        seed_of(self.random_state)
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        if is_stored(X):
            see_features(self, X)
            X, y, sample_weight = stored_data(X, y, sample_weight, bias, n_jobs)
        elif isinstance(X, Source):
            see_features(self, X)
        else:
            X, y = validated(self, X, y)
        problem = Problem(
            X,
            None,
            self.C,
            loss,
            sample_weight=sample_weight,
            bias=bias,
            penalty=getattr(self, "penalty", "l2"),
            penalize_intercept=not self._has_free_intercept,
            n_jobs=n_jobs,
        )
        return problem, y

    @property
    def _has_free_intercept(self) -> bool:
        return bool(self.fit_intercept and not getattr(self, "penalize_intercept", True))

    def _coefficients(self, weights: list[Array], problem: Problem) -> tuple[Array, Array]:
        return coefficients_of(weights, problem.n_features, problem.source.bias)

    def _solve(
        self,
        solver: str | Solver,
        problems: Sequence[Problem],
        starts: list[Any],
        seed: int,
        n_jobs: int,
        task: FitTask,
        started: float,
    ) -> list[Result]:
        """Solve the problems, several at a time."""
        schedule = Schedule(problems, solver, n_jobs)

        def seconds_for(k: int) -> float | None:
            """A fair share of the time that is left."""
            if self.max_time is None:
                return None
            left = started + self.max_time - working_time()
            return max(left, 1e-9) / math.ceil((len(problems) - k) / schedule.at_once)

        with catch_interrupt() as interrupt, progress_bar(self.verbose, len(problems)) as bars:

            def solve_one(k: int, problem: Problem) -> Result:
                with task.callbacks(k) as callbacks:
                    result = solve(
                        problem,
                        solver,
                        tol=self.tol,
                        max_iter=self.max_iter,
                        max_time=seconds_for(k),
                        callbacks=[*bars, *callbacks],
                        start=starts[k],
                        seed=seed,
                        **{"interrupt": interrupt, **self._options_of(k, len(problems))},
                    )
                for bar in bars:
                    bar.end_of_model()
                # Dual variables of many classes take more memory than the data: keep them only for a purpose.
                return result if self.warm_start else replace(result, alpha=None, state=None)

            return schedule.map(solve_one)

    def _options_of(self, k: int, n_problems: int) -> dict[str, Any]:
        """Further arguments of `run` for a problem; of several, each has a checkpoint of its own."""
        options = dict(self._run_options)
        if n_problems > 1 and "checkpoint" in options:
            options["checkpoint"] = f"{options['checkpoint']}.{k}"
        return options

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

    def _keep(self, results: list[Result]) -> None:
        """Turn the results into the fitted attributes that tell of the training."""
        only = len(results) == 1
        self.certificate_ = results[0].certificate if only else [r.certificate for r in results]
        self.history_ = results[0].history if only else [r.history for r in results]
        self.stop_reason_ = max((r.stop_reason for r in results), key=SEVERITY.index)
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
        elif self.stop_reason_ == "rounding":
            advice = (
                "What is left is no more than what the rounding of float64 may hide, so no solver could prove more: "
                "raise tol, or scale the features to about unit length."
            )
        elif self.stop_reason_ == "stalled":
            why = worst.detail or "its gap no longer falls"
            advice = (
                f"{worst.solver.name} could not go on ({why}): scale the features to about unit length, or raise tol."
            )
        elif self.max_iter is not None and self.max_iter < worst.solver.max_passes:
            advice = f"max_iter={self.max_iter:g} was too small: raise max_iter, or tol."
        elif n_rows > 10 * self.n_features_in_:
            advice = (
                f"{worst.passes:.0f} passes were not enough: with many more rows than features ({n_rows} x "
                f"{self.n_features_in_}) {worst.solver.name} is slow when C * |x|^2 is large. Take "
                'solver="auto", scale the features to about unit length, or lower C.'
            )
        else:
            advice = f"{worst.passes:.0f} passes were not enough: lower C, or raise max_iter."
        gap = f"relative duality gap of {worst.certificate.relative_gap:.1e}{of_class}"
        return f"{type(self).__name__} stopped at a {gap}, not yet tol={self.tol:g}. {advice}"

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
