"""What estimators share that solve one problem, or one for each class or pair of classes: the loop and its report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from maxmargin.estimators._callbacks import FitTask
from maxmargin.estimators._estimator import Estimator
from maxmargin.estimators._parameters import SEVERITY, progress_bar, seed_of, share_of_time
from maxmargin.solvers.base import Result
from maxmargin.solvers.interrupts import catch_interrupt


class CertifiedEstimator(Estimator):
    """Base of the estimators whose answers carry a certificate.

    Attributes
    ----------
    certificate_ : Certificate or list of Certificate
        Proven bounds on the optimum: `primal`, `dual`, `gap` and `relative_gap`. Of several problems, such as the
        classes make, one for each. The property `certificates_` is a list in either case.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding" (the gap is no more than what the
        rounding of numbers may hide) or "stalled" (the solver could not go on); of several problems the most severe.
    history_ : dict of str to ndarray, or list of such dicts
        Seconds, passes, primal, dual, relative_gap and work counters at each certificate.
    solver_ : Solver
        What ran, to the end; of several problems in the one that took the most passes.
    n_iter_ : int
        Passes over the data, rounded up; of several problems the largest.
    """

    def _solve_each(self, solve: Callable[..., Result], schedule: Any, task: FitTask, started: float) -> list[Result]:
        """Solve the problems of a schedule by ``solve(k, problem, **options)``; the options are those of `run`."""
        seed, n_problems = seed_of(self.random_state), len(schedule.problems)
        with catch_interrupt() as interrupt, progress_bar(int(self.verbose), n_problems) as bars:

            def solve_one(k: int, problem: Any) -> Result:
                with task.callbacks(k) as callbacks:
                    options = {
                        "tol": self.tol,
                        "max_iter": self._max_passes,
                        "max_time": share_of_time(started, self.max_time, n_problems - k, schedule.at_once),
                        "callbacks": [*bars, *callbacks],
                        "seed": seed,
                        "interrupt": interrupt,
                    }
                    result = solve(k, problem, **options | self._options_of(k, n_problems))
                for bar in bars:
                    bar.end_of_model()
                return result

            return schedule.map(solve_one)

    @property
    def _max_passes(self) -> float | None:
        return self.max_iter

    def _options_of(self, k: int, n_problems: int) -> dict[str, Any]:
        """Further arguments of `run` for a problem; of several, each has a checkpoint of its own."""
        options = dict(self._run_options)
        if n_problems > 1 and "checkpoint" in options:
            options["checkpoint"] = f"{options['checkpoint']}.{k}"
        return options

    def _keep_training(self, results: list[Result]) -> None:
        """Turn the results into the fitted attributes that tell of the training."""
        only = len(results) == 1
        self.certificate_ = results[0].certificate if only else [r.certificate for r in results]
        self.history_ = results[0].history if only else [r.history for r in results]
        self.stop_reason_ = max((r.stop_reason for r in results), key=SEVERITY.index)
        self.n_iter_: Any = max(1, *(math.ceil(r.passes) for r in results))
        self.solver_ = max(results, key=lambda r: r.passes).solver

    @property
    def _is_finished(self) -> bool:
        return self.stop_reason_ in ("converged", "callback")

    def _complaint(self, n_rows: int, results: list[Result], names: list[str]) -> str:
        """What the one warning of a fit says: the gap reached, the likely cause, the one parameter to change."""
        k = max(range(len(results)), key=lambda k: results[k].certificate.relative_gap)
        of_what = f" ({names[k]})" if len(results) > 1 else ""
        gap = f"relative duality gap of {results[k].certificate.relative_gap:.1e}{of_what}"
        advice = self._advice(n_rows, results[k])
        return f"{type(self).__name__} stopped at a {gap}, not yet tol={self.tol:g}. {advice}"

    def _advice(self, n_rows: int, worst: Result) -> str:
        if self.stop_reason_ == "interrupted":
            return "It was interrupted, and the model found so far is kept: fit again to finish it."
        if self.stop_reason_ == "max_time":
            return f"max_time={self.max_time:g} seconds ran out: raise max_time, or tol."
        if self.stop_reason_ == "rounding":
            return (
                "What is left is no more than what the rounding of float64 may hide, so no solver could prove more: "
                "raise tol, or scale the features to about unit length."
            )
        if self.stop_reason_ == "stalled":
            why = worst.detail or "its gap no longer falls"
            return (
                f"{worst.solver.name} comes no closer ({why}): scale the features to about unit length, or raise tol."
            )
        if self._max_passes is not None and self._max_passes < worst.solver.max_passes:
            return f"max_iter={self._max_passes:g} was too small: raise max_iter, or tol."
        if worst.solver.accuracy > 0.0:
            return f'{worst.solver.name} comes no closer within {worst.passes:.0f} passes: take solver="auto".'
        return self._slow(n_rows, worst)

    def _slow(self, n_rows: int, worst: Result) -> str:
        """What to do if the passes that a solver makes were not enough."""
        return f"{worst.passes:.0f} passes were not enough: scale the features, lower C, or raise tol."
