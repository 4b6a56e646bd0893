"""What `BudgetSVC` does between its parameters and its fitted attributes: a size, support vectors, coefficients."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from maxmargin import kernels
from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array
from maxmargin.estimators._budget_size import DEFAULT_TIME, SHARE_OF_PASSES, Trial, announce, choose
from maxmargin.estimators._budget_store import StoredRows
from maxmargin.estimators._callbacks import FitTask
from maxmargin.estimators._estimator import Estimator, LibsvmExport
from maxmargin.estimators._parameters import SEVERITY, check_numbers, progress_bar, seed_of
from maxmargin.kernels import Kernel
from maxmargin.kernels.scale import gamma_for
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.base import Result, run
from maxmargin.solvers.budget.budget_sgd import BudgetSGD
from maxmargin.solvers.budget.refit import OutOfTime, Refit, distinct_rows, refit
from maxmargin.solvers.budget.state import BudgetState
from maxmargin.solvers.interrupts import catch_interrupt


class BudgetMachine(LibsvmExport, Estimator):
    """Base of `BudgetSVC`, which has the parameters: the parts of its `fit` and `partial_fit`."""

    def _check_parameters(self) -> None:
        check_numbers(self, "C", "coef0")
        if self.max_iter is None:
            raise ValueError("max_iter must be a number of passes, got None")
        is_auto = isinstance(self.budget, str) and self.budget == "auto"
        if not is_auto and not (isinstance(self.budget, Integral) and int(self.budget) >= 2):
            raise ValueError(f'budget must be an integer of at least 2 or "auto", got {self.budget!r}')
        if is_auto and not self.max_iter < math.inf:
            raise ValueError(f'budget="auto" needs a finite number of passes, got max_iter={self.max_iter!r}')

    def _kernel_function(self, rows: Any, weight: Array) -> Kernel:
        """The kernel object, with its gamma as a number."""
        gamma = gamma_for(self.gamma, rows, weight)
        return kernels.get(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _function(self) -> Kernel:
        """The kernel of an earlier fit."""
        return self.kernel_

    def _solver(self, function: Kernel, budget: int, bias: float, dtype: str = "auto") -> BudgetSGD:
        return BudgetSGD(function, budget, self.maintenance, bias=bias, dtype=dtype)

    def _solver_of_passes(self, function: Kernel, budget: int) -> BudgetSGD:
        """What finds support vectors. The noise of an intercept disturbs all steps; a refit brings it later."""
        return self._solver(function, budget, 1.0 if self.fit_intercept and not self.refit else 0.0)

    def _size(self, function: Kernel, problem: BudgetProblem, before: BudgetState | None, started: float) -> Any:
        """The budget (of "auto", what fits into the time, unless an earlier fit is gone on with) and the start."""
        if not isinstance(self.budget, str):
            return int(self.budget), started
        if before is not None:
            return self.budget_, started
        bias, seed = 1.0 if self.fit_intercept else 0.0, seed_of(self.random_state)
        options = {"bias": bias, "tol": self.tol, "seed": seed, "n_jobs": effective_n_jobs(self.n_jobs)}
        trial = Trial(
            lambda budget: self._solver_of_passes(function, budget),
            problem,
            float(self.max_iter),
            options if self.refit else None,
            seed,
        )
        trial.compile()
        limit = DEFAULT_TIME if self.max_time is None else float(self.max_time)
        plan = choose(trial, max(0.1 * limit, limit - (working_time() - started)))
        announce(plan)
        return plan.budget, started

    def _start(self, classes: Array) -> BudgetState | None:
        """The state to go on from, if that is asked for and possible."""
        state = getattr(self, "_state", None)
        if not self.warm_start or state is None or not np.array_equal(classes, self.classes_):
            return None
        return state if len(state.support.vectors) == self.n_features_in_ else None

    def _find(
        self,
        function: Kernel,
        problem: BudgetProblem,
        budget: int,
        before: BudgetState | None,
        started: float,
        task: FitTask,
        stored: StoredRows | None = None,
    ) -> tuple[Result, Refit | None, BudgetState]:
        """Support vectors by passes over the rows, which may be stored, then their coefficients."""
        bias, seed = 1.0 if self.fit_intercept else 0.0, seed_of(self.random_state)

        def seconds_left(share: float) -> float | None:
            left = None if self.max_time is None else self.max_time - (working_time() - started)
            return None if left is None else max(1e-9, share * left)

        with catch_interrupt() as interrupt, progress_bar(self.verbose) as bars, task.callbacks(0) as callbacks:
            may_be_few = self.refit and before is None and (stored is None or stored.n == problem.n_rows)
            everything = distinct_rows(problem, budget) if may_be_few else None
            if everything is not None:
                result = self._all_rows(function, problem, budget, everything, started)
            else:
                make_passes = partial(run, problem=problem) if stored is None else stored.run  # type: ignore[arg-type]
                result = make_passes(
                    self._solver_of_passes(function, budget),
                    max_iter=self.max_iter,
                    max_time=seconds_left(SHARE_OF_PASSES if self.refit else 1.0),
                    callbacks=[*bars, *callbacks],
                    start=before,
                    seed=seed,
                    **{"interrupt": interrupt, **self._run_options},
                )
            state = result.state
            if not self.refit or interrupt.is_set() or state.counters.size == 0:
                return result, None, state
            try:
                best = refit(
                    function,
                    state.support,
                    state.counters.size,
                    problem,
                    bias=bias,
                    tol=self.tol,
                    max_time=seconds_left(1.0),
                    seed=seed,
                    n_jobs=effective_n_jobs(self.n_jobs),
                    callbacks=bars,
                    interrupt=interrupt,
                )
            except OutOfTime:
                reason = "interrupted" if interrupt.is_set() else "max_time"
                return replace(result, stop_reason=reason), None, state
        state.set_coefficients(best.coefficients, best.intercepts)
        return result, best, state

    def _all_rows(self, function: Kernel, problem: BudgetProblem, budget: int, rows: Array, started: float) -> Result:
        """As if a pass had made every row a support vector: there is room for all of them."""
        solver = self._solver(function, budget, 0.0, dtype="float64")
        state = solver.init_state(problem, seed_of(self.random_state)).filled(rows)
        n, size = len(state.order), len(rows)
        state = state._replace(counters=state.counters._replace(steps=n, visits=n, violations=n, repeats=n - size))
        seconds = working_time() - started
        report = solver.report(problem, state, None)
        entry = {"seconds": seconds, "passes": report.passes, **report.counters}
        history = {name: np.array([number]) for name, number in entry.items()}
        return Result(None, None, None, history, "max_iter", report.passes, seconds, solver, state)

    def _keep(self, result: Result, best: Refit | None, state: BudgetState) -> None:
        """Turn what was found into fitted attributes."""
        self._keep_state(state)
        self.history_, self.n_iter_ = result.history, max(1, math.ceil(result.passes))
        self.solver_ = result.solver
        reasons = [] if result.stop_reason == "max_iter" and best is not None else [result.stop_reason]
        certificates = []
        if best is not None:
            reasons += [r.stop_reason for r in best.results]
            certificates = [r.certificate for r in best.results]
        self.certificate_ = None if best is None else certificates[0] if len(certificates) == 1 else certificates
        self.stop_reason_ = max(reasons, key=SEVERITY.index)

    def _keep_state(self, state: BudgetState) -> None:
        for name, fitted in expansion(state).items():
            setattr(self, name, fitted)

    def _complaint(self) -> str:
        """What the one warning of a fit says."""
        passes = f"BudgetSVC stopped after {self.history_['passes'][-1]:.2f} of {self.max_iter:g} passes"
        if self.stop_reason_ == "interrupted":
            return f"{passes}: it was interrupted, and the model found so far is kept. Fit again to finish it."
        gap = max((certificate.relative_gap for certificate in self.certificates_), default=math.inf)
        reached = f" and at a relative gap of {gap:.1e} of its coefficients, not tol={self.tol:g}" if self.refit else ""
        what = "max_time" if self.stop_reason_ == "max_time" else "tol"
        return f"{passes}{reached}. Raise {what}, or take a smaller budget."


def expansion(state: BudgetState) -> dict[str, Any]:
    """The attributes that `predict` needs."""
    return {
        "_state": state,
        "support_vectors_": state.support.vectors[:, : state.counters.size].T,
        "dual_coef_": state.coefficients,
        "intercept_": state.intercepts,
    }
