"""What SVC, SVR and OneClassSVM share: from X, y and parameters to solved problems, and to support vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from maxmargin import kernels, losses
from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array, as_rows
from maxmargin.estimators._callbacks import CallbackSupportMixin, FitTask, with_callbacks
from maxmargin.estimators._decisions import Decisions, as_array, checked_rows, pair_sums
from maxmargin.estimators._estimator import Estimator
from maxmargin.estimators._parameters import ROWS, SEVERITY, progress_bar, seed_of
from maxmargin.kernels.scale import gamma_for
from maxmargin.losses import Loss
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import check_weights
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers
from maxmargin.solvers.base import Result, Solver
from maxmargin.solvers.interrupts import catch_interrupt, end_of_fit
from maxmargin.solvers.kernel.features import FourierState


class KernelMachine(CallbackSupportMixin, Estimator):
    """Base of the kernel machines. A subclass says which problems its targets make, in `_machines`."""

    is_one_vs_one = False  # whether there is a decision function for each pair of several classes

    dual_coef_: Any
    intercept_: Array
    n_support_: Array
    support_vectors_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse = not self._is_precomputed
        return tags

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _is_function(self) -> bool:
        return callable(self.kernel) and not isinstance(self.kernel, kernels.TAGS)

    def _machines(self, X: Any, y: Any, weight: Any, options: dict[str, Any]) -> Sequence[KernelProblem]:
        """The problems to solve; `options` are arguments of `KernelProblem`."""
        raise NotImplementedError

    def _layout(self, machines: Any, betas: list[Array]) -> tuple[Array, Array, Array]:
        """Rows with a coefficient, their coefficients and how many there are of each class."""
        support = np.flatnonzero(betas[0])
        return support, betas[0][np.newaxis, support], np.array([len(support)], np.int32)

    # ------------------------------------------------------------ fit

    def _fit_and_warn(self, X: Any, y: Any, sample_weight: Any) -> None:
        complaint = self._train(X, y, sample_weight)
        if complaint:  # raised here, so that it points at the line that called `fit`
            end_of_fit(self.stop_reason_, complaint, ConvergenceWarning, stacklevel=3)

    @with_callbacks
    def _train(self, X: Any, y: Any, sample_weight: Any) -> str | None:
        """All of `fit` but its warning, which is returned if there should be one."""
        started = working_time()
        self._check_parameters()
        solver = self._chosen_solver()
        X, y = self._checked_data(X, y)
        self.kernel_ = self._resolved_kernel(X, sample_weight)
        given = self._matrix(X, X) if self._is_function else X
        options: dict[str, Any] = {
            "kernel": "precomputed" if self._is_function else self.kernel_,
            "cache_size": float(self.cache_size),
            "n_jobs": effective_n_jobs(self.n_jobs),
        }
        machines = self._machines(given, y, sample_weight, options)
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        task = FitTask(self, len(machines), lambda states: {}, {"X": X, "y": y, "metadata": metadata})
        results = self._solve(solver, machines, options["n_jobs"], task, started)
        self.shape_fit_ = X.shape
        self._keep(X, machines, results)
        task.end()
        return None if self.stop_reason_ in ("converged", "callback") else self._complaint(machines, results)

    def _check_parameters(self) -> None:
        for name in ("C", "tol", "coef0", "epsilon", "nu", "cache_size", "max_iter", "max_time"):
            value = getattr(self, name, 0.0)
            if not (isinstance(value, Real) and not math.isnan(value)) and not (value is None and name[:4] == "max_"):
                raise ValueError(f"{name} must be a number, got {value!r}")
        if not self.cache_size > 0.0:
            raise ValueError(f"cache_size must be positive, got {self.cache_size!r}")
        if self.max_iter is not None and self.max_iter != -1 and not self.max_iter > 0:
            raise ValueError(f"max_iter must be positive, or -1 or None for no limit, got {self.max_iter!r}")
        if self.max_time is not None and not self.max_time > 0.0:
            raise ValueError(f"max_time must be positive or None, got {self.max_time!r}")
        if not self.tol >= 0.0:
            raise ValueError(f"tol must be >= 0, got {self.tol!r}")
        effective_n_jobs(self.n_jobs)

    def _chosen_solver(self) -> str | Solver:
        """The solver, or "auto"; one with a parameter `shrinking` gets the estimator's."""
        if not isinstance(self.solver, (str, Solver)):
            raise ValueError(f"solver must be a name ({', '.join(kernel_solvers.names())}) or a solver object")
        if self.solver == "auto" or isinstance(self.solver, Solver):
            return self.solver
        solver = kernel_solvers.get(self.solver)
        has_shrinking = any(field.name == "shrinking" for field in fields(solver))
        return replace(solver, shrinking=bool(self.shrinking)) if has_shrinking else solver  # type: ignore[call-arg]

    def _loss_for(self, loss: Loss, squared: Loss) -> tuple[Loss, bool]:
        """The loss that the solver takes of these two, and whether the intercept is penalised."""
        solver = kernel_solvers.get(self.solver)
        return loss if isinstance(loss, solver.losses) else squared, not solver.takes_free_intercept

    def _checked_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        if self._is_function:
            X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
            if y is not None:
                check_consistent_length(X, y)
            self.n_features_in_ = X.shape[1] if X.ndim == 2 else 1
            return X, y
        if self._is_precomputed and hasattr(X, "tocsr"):
            raise TypeError("Sparse precomputed kernels are not supported.")
        rules = ROWS | ({"accept_sparse": False} if self._is_precomputed else {})
        if y is None:
            return validate_data(self, X, **rules), None
        return validate_data(self, X, y, **rules)

    def _resolved_kernel(self, X: Any, sample_weight: Any) -> Any:
        """The kernel object with its gamma as a number, "precomputed", or the function itself."""
        if self._is_precomputed or self._is_function or isinstance(self.kernel, kernels.TAGS):
            return self.kernel
        gamma = self.gamma
        if isinstance(gamma, str):
            gamma = gamma_for(gamma, as_rows(X)[0], check_weights(sample_weight, X.shape[0]))
        return kernels.get(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _solve(self, solver: str | Solver, machines: Any, n_jobs: int, task: FitTask, started: float) -> list[Result]:
        """Solve the problems, several at a time."""
        at_once, n, seed = min(n_jobs, len(machines)), len(machines), seed_of(self.random_state)
        max_iter = None if self.max_iter in (None, -1) else self.max_iter

        def seconds_for(k: int) -> float | None:
            """A fair share of the time that is left."""
            if self.max_time is None:
                return None
            return max(started + self.max_time - working_time(), 1e-9) / math.ceil((n - k) / at_once)

        with catch_interrupt() as interrupt, progress_bar(int(self.verbose), n) as bars:

            def solve_one(k: int) -> Result:
                with task.callbacks(k) as callbacks:
                    result = kernel_solvers.solve(
                        machines[k],
                        solver,
                        tol=self.tol,
                        max_iter=max_iter,
                        max_time=seconds_for(k),
                        callbacks=[*bars, *callbacks],
                        seed=seed,
                        start=self._start(k),
                        **{"interrupt": interrupt, **self._run_options},
                    )
                for bar in bars:
                    bar.end_of_model()
                return result

            return map_ordered(solve_one, range(n), at_once)

    def _start(self, k: int) -> Any:
        """Coefficients at which problem k begins, or None."""
        return None

    def _keep(self, X: Any, machines: Any, results: list[Result]) -> None:
        """Turn the results into fitted attributes."""
        self.intercept_ = np.array([float(r.state.intercept) for r in results])
        self._fourier: Any = None
        states = [r.state for r in results]
        if isinstance(states[0], FourierState):  # all problems have the same random features
            self._fourier = (states[0].frequencies, states[0].phases, np.stack([s.weights for s in states]))
            betas = [np.zeros(machines[k].n_rows) for k in range(len(machines))]
        else:
            betas = [state.beta for state in states]
        self._keep_support(X, *self._layout(machines, betas))
        only = len(results) == 1
        self.certificate_ = results[0].certificate if only else [r.certificate for r in results]
        self.history_ = results[0].history if only else [r.history for r in results]
        self.stop_reason_ = max((r.stop_reason for r in results), key=SEVERITY.index)
        self.solver_ = max(results, key=lambda r: r.passes).solver
        self.fit_status_ = int(self.stop_reason_ not in ("converged", "callback"))
        passes = np.array([max(1, math.ceil(r.passes)) for r in results], np.int32)
        self.n_iter_ = passes if hasattr(self, "classes_") else int(passes[0])

    def _keep_support(self, X: Any, support: Array, coefficients: Array, n_support: Array) -> None:
        if self._is_precomputed or self._is_function:
            vectors = np.empty((0, 0))
            self._fit_rows = X if self._is_function else None
        else:
            vectors = (X.tocsr() if hasattr(X, "tocsr") else X)[support]
        self._set_machine(vectors, coefficients, support.astype(np.int32), n_support)

    def _set_machine(self, vectors: Any, coefficients: Array, support: Array, n_support: Array) -> None:
        """The attributes that `predict` needs, but for intercepts."""
        self.support_, self.n_support_, self.support_vectors_ = support, n_support, vectors
        self.dual_coef_ = np.ascontiguousarray(coefficients)
        if hasattr(vectors, "tocsr"):
            from scipy.sparse import csr_matrix

            self.dual_coef_ = csr_matrix(coefficients)
        self._decisions = Decisions()

    def _complaint(self, machines: Any, results: list[Result]) -> str:
        """What the one warning of a fit says: the gap reached, and the one parameter to change."""
        k = max(range(len(results)), key=lambda k: results[k].certificate.relative_gap)
        worst, where = results[k], machines.names(self.classes_)[k] if len(results) > 1 else ""
        of_what = f" ({where})" if where else ""
        gap = f"relative duality gap of {worst.certificate.relative_gap:.1e}{of_what}"
        if self.stop_reason_ == "interrupted":
            advice = "It was interrupted, and the model found so far is kept: fit again to finish it."
        elif self.stop_reason_ == "max_time":
            advice = f"max_time={self.max_time:g} seconds ran out: raise max_time, or tol."
        elif self.stop_reason_ == "rounding":
            advice = (
                "What is left is no more than what the rounding of float64 may hide, so no solver could prove more: "
                "raise tol, lower C or scale X."
            )
        elif self.stop_reason_ == "stalled":
            advice = "It comes no closer, by rounding errors or since C is too large: raise tol, lower C or scale X."
        elif self.max_iter not in (None, -1) and self.max_iter < worst.solver.max_passes:
            advice = f"max_iter={self.max_iter:g} passes were too few: raise max_iter, or tol."
        elif worst.solver.accuracy > 0.0:
            advice = f'{worst.solver.name} comes no closer within {worst.passes:.0f} passes: take solver="auto".'
        else:
            advice = f"{worst.passes:.0f} passes were not enough: scale the features, lower C, or raise tol."
        return f"{type(self).__name__} stopped at a {gap}, not yet tol={self.tol:g}. {advice}"

    # ------------------------------------------------------------ use

    def _outputs(self, X: Any) -> Array:
        """Values of all decision functions, of shape (n_samples, n_problems)."""
        check_is_fitted(self, "dual_coef_")
        n_jobs = effective_n_jobs(self.n_jobs)
        if self._is_function:
            X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
            return self._given_outputs(self._matrix(X, self._fit_rows)[:, self.support_])
        if self._is_precomputed:
            X = validate_data(self, X, reset=False, **(ROWS | {"accept_sparse": False}))
            return self._given_outputs(as_rows(X)[0][0][:, self.support_])
        rows = checked_rows(validate_data(self, X, reset=False, **ROWS))
        if self._fourier is not None:
            from maxmargin.solvers.kernel.features import fourier_features

            frequencies, phases, weights = self._fourier
            return fourier_features(rows, frequencies, phases, n_jobs) @ weights.T + self.intercept_
        return self._decisions.outputs(self, rows, n_jobs) + self.intercept_

    def _matrix(self, A: Any, B: Any) -> Array:
        """Kernel values by the user's function."""
        values = as_array(self.kernel_(A, B)).astype(np.float64, copy=False)
        if values.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {values.shape} for {A.shape[0]} and {B.shape[0]} rows"
            )
        return values

    def _given_outputs(self, values: Array) -> Array:
        """From kernel values with the support vectors."""
        return pair_sums(values, as_array(self.dual_coef_), self.n_support_, self.is_one_vs_one) + self.intercept_

    @property
    def coef_(self) -> Any:
        """Weights of the features, if the kernel is linear; read-only."""
        if not isinstance(self.kernel_ if hasattr(self, "kernel_") else None, kernels.Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        coef = self._linear_weights()
        (coef.data if hasattr(coef, "toarray") else coef).flags.writeable = False
        return coef

    def _linear_weights(self) -> Any:
        return self.dual_coef_ @ self.support_vectors_

    def export_libsvm(self, path: Any) -> None:
        """Write the fitted model for LIBSVM's ``svm-predict`` and its like.

        Parameters
        ----------
        path : path
        """
        from maxmargin.models.libsvm import write_libsvm

        write_libsvm(path, self)


def finite(C: Any) -> Any:
    """C, or for infinity a number that is as good."""
    return 1e10 if math.inf == C else C


def loss_pair(epsilon: float | None = None) -> tuple[Loss, Loss]:
    """The loss of a machine and its square, for solvers that take only that."""
    if epsilon is None:
        return losses.Hinge(), losses.SquaredHinge()
    return losses.get(losses.EpsilonInsensitive(epsilon)), losses.get(losses.SquaredEpsilonInsensitive(epsilon))
