"""What SVC, SVR and OneClassSVM share: from X, y and parameters to solved problems, and to support vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from maxmargin import kernels, losses
from maxmargin._code_cache import working_time
from maxmargin.data.outputs import checked_rows
from maxmargin.data.rows import Array, as_rows
from maxmargin.estimators._callbacks import FitTask, with_callbacks
from maxmargin.estimators._decisions import Decisions, as_array, places_of
from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import LibsvmExport
from maxmargin.estimators._parameters import ROWS, check_numbers
from maxmargin.estimators._shared_parameters import KernelFunction, Seeded, SolverChoice
from maxmargin.estimators._training import CertifiedEstimator
from maxmargin.kernels.scale import gamma_for
from maxmargin.losses import Loss
from maxmargin.models.pairs import given_outputs
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.problem import check_weights
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers
from maxmargin.solvers.base import Result, Solver
from maxmargin.solvers.interrupts import catch_interrupt
from maxmargin.solvers.kernel.features import FourierState


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KernelMachine(Seeded, LibsvmExport, CertifiedEstimator, SolverChoice, KernelFunction):
    """Base of the kernel machines. A subclass says which problems its targets make, in `_machines`.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * |primal|. (In scikit-learn: the violation of an
        optimality condition.)
    max_iter : float, default=-1
        Limit on passes over the rows; -1 or None: none. (In scikit-learn: on steps of two rows.)
    max_time : float, default=None
        Limit in seconds on the whole fit, which pairs of classes share. The model found by then is kept.
    n_jobs : int, default=None
        Threads, over pairs of classes and inside them; -1: all cores. Results do not depend on it, but within `tol`
        where pairs that are trained side by side share a `cache_size` that is small beside their kernel matrices.
    verbose : bool or int, default=False
        1: show a progress bar on a terminal.
    random_state : int, Generator, RandomState or None, default=None
        Seed of samples of rows. None is a fixed seed: the same data give the same bits.
    shrinking : bool, default=True
        Of the solvers "smo" and "svmlight": whether rows that seem to stay at a bound are left out for a while.
    cache_size : float, default=500
        Megabytes for kernel values.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of X that are support vectors, class by class.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        Empty if the kernel is precomputed or a callable.
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray or sparse matrix of shape (1, n_support)
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or sparse matrix of shape (n_problems, n_features)
        If the kernel is linear.
    class_weight_ : ndarray of shape (n_classes,)
        Empty where there are no classes.
    kernel_ : kernel object, "precomputed" or callable
        With the gamma that was used.
    fit_status_ : int
        0 if the fit converged, else 1.
    shape_fit_ : tuple of int
    """

    max_iter: Any = -1
    verbose: Any = False
    shrinking: bool = True
    cache_size: float = 500

    is_one_vs_one = False  # whether there is a decision function for each pair of several classes

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Train on rows X with labels or targets y.

        Ctrl-C ends the training within a second or so and leaves the model found so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
            `OneClassSVM` does not look at it.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        self._finish(X, y, sample_weight)
        return self

    def _finish(self, X: Any, y: Any, sample_weight: Any) -> None:
        """What is left to do when the machines are trained."""

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
        task = FitTask(self, len(machines), lambda states: {}, X, y, sample_weight)

        def solve_one(k: int, machine: KernelProblem, **options: Any) -> Result:
            return kernel_solvers.solve(machine, solver, start=self._start(k), **options)

        with catch_interrupt() as interrupt:
            small: dict[str, Any] = {"max_time": self.max_time, "max_iter": self._max_passes, "interrupt": interrupt}
            small |= {"callbacks": self.verbose or task.is_watched, **self._run_options}
            known = kernel_solvers.solve_pairs(
                machines, solver, tol=self.tol, started=started, n_jobs=options["n_jobs"], **small
            )
            schedule = _SeveralAtOnce(machines, min(options["n_jobs"], len(machines)), known)
            results = self._solve_each(solve_one, schedule, task, started)
        self.shape_fit_ = X.shape
        self._keep(X, machines, results)
        task.end()
        if self._is_finished:
            return None
        names = machines.names(self.classes_) if len(machines) > 1 else [""]  # type: ignore[attr-defined]
        return self._complaint(X.shape[0], results, names)

    def _check_parameters(self) -> None:
        check_numbers(self, *(name for name in ("C", "coef0", "epsilon", "nu", "cache_size") if hasattr(self, name)))
        if not self.cache_size > 0.0:
            raise ValueError(f"cache_size must be positive, got {self.cache_size!r}")
        if self._max_passes is not None and not self._max_passes > 0:
            raise ValueError(f"max_iter must be positive, or -1 or None for no limit, got {self.max_iter!r}")

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
        if y is None and not self.__sklearn_tags__().target_tags.required:
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

    @property
    def _max_passes(self) -> float | None:
        return None if self.max_iter == -1 else self.max_iter

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
        self._keep_training(results)
        self.fit_status_ = int(not self._is_finished)
        if hasattr(self, "classes_"):
            self.n_iter_ = np.array([max(1, math.ceil(r.passes)) for r in results], np.int32)

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
        return given_outputs(values, as_array(self.dual_coef_), places_of(self)) + self.intercept_

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


class _SeveralAtOnce(NamedTuple):
    """Machines that are trained several at a time, in threads, but for those that are known."""

    problems: Sequence[KernelProblem]
    at_once: int
    known: Sequence[Result | None]

    def map(self, function: Callable[[int, KernelProblem], Result]) -> list[Result]:
        """`function(k, machine)` of each, in their order."""
        return map_ordered(
            lambda k: self.known[k] or function(k, self.problems[k]), range(len(self.problems)), self.at_once
        )


def finite(C: Any) -> Any:
    """C, or for infinity a number that is as good."""
    return 1e10 if math.inf == C else C


def loss_pair(epsilon: float | None = None) -> tuple[Loss, Loss]:
    """The loss of a machine and its square, for solvers that take only that."""
    if epsilon is None:
        return losses.Hinge(), losses.SquaredHinge()
    return losses.get(losses.EpsilonInsensitive(epsilon)), losses.get(losses.SquaredEpsilonInsensitive(epsilon))
