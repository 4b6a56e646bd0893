"""`partial_fit` of kernel machines, for the solvers that learn from one row after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if

from maxmargin.data.rows import Array
from maxmargin.estimators._budget_store import stacked
from maxmargin.estimators._docs import documented
from maxmargin.estimators._one_vs_rest import check_labels, class_factors, stream_classes
from maxmargin.estimators._parameters import validated
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights
from maxmargin.solvers import kernel as kernel_solvers
from maxmargin.solvers.kernel.online import Horizon, learn, of_rows

_SETTINGS = ("solver", "C", "kernel", "gamma", "degree", "coef0", "class_weight")


class Stream(NamedTuple):
    """What is kept of a stream: the rows of the expansions, and the states of the binary machines."""

    X: Any
    codes: Array
    weight: Array
    numbers: Array  # of the rows, counted from the beginning of the stream
    n_rows: int
    states: list[Any]
    horizons: list[Horizon]
    settings: dict[str, Any]


def _is_online(estimator: Any) -> bool:
    solver = estimator.solver
    if isinstance(solver, str) and solver not in kernel_solvers.names():
        return False
    if not hasattr(kernel_solvers.get(solver), "step"):
        raise AttributeError(f'partial_fit is for solver="norma" and "kernel_pegasos", not {solver!r}')
    return True


@documented
class KernelStreamMixin:
    """Learning from parts of a stream."""

    _stream: Stream | None
    _slopes: Array | None
    _fourier: Any

    @available_if(_is_online)
    def partial_fit(self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from a part of a stream, once from each row, in their order; of "norma" and "kernel_pegasos" only.

        The first part tells gamma and lambda = 1 / (C n), of its n rows; later parts go on from there. Only rows that
        have a coefficient are kept, and `support_` counts them from the beginning of the stream; their number grows
        with it, unless the solver is ``NORMA(tau=...)``. Coefficients and intercept are those of the last step. There
        is no certificate: it needs all rows. Several classes have a machine each, against the rest.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), optional
            All classes that may occur; needed in the first call, if the first part does not have all of them.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. A row of weight 0 is as good as absent.

        Returns
        -------
        self
        """
        self._check_parameters()
        before: Stream | None = getattr(self, "_stream", None)
        _check_use(self, before)
        is_first = before is None
        X, y = validated(self, X, y, reset=is_first)
        check_labels(y)
        weight = check_weights(sample_weight, len(y), may_be_zero=not is_first)
        known = stream_classes(None if is_first else self.classes_, y, classes)
        taken = np.flatnonzero(weight)
        if not len(taken):
            return self
        X, y, weight = X[taken], y[taken], weight[taken]
        if is_first:
            self.kernel_ = self._resolved_kernel(X, weight)
            self.classes_, self.class_weight_ = known, class_factors(self.class_weight, known, y, weight)
        codes, numbers = np.searchsorted(known, y), np.arange(len(y))
        n_rows = len(y)
        if before is not None:
            X, codes, weight = (stacked(pair) for pair in zip(before[:3], (X, codes, weight)))
            numbers = np.concatenate([before.numbers, before.n_rows + numbers])
            n_rows += before.n_rows
        self._learn(before, Stream(X, codes, weight, numbers, n_rows, [], [], _settings(self)))
        return self

    def _learn(self: Any, before: Stream | None, part: Stream) -> None:
        """The steps of all machines on the rows of a part, which follow those that were kept."""
        solver = kernel_solvers.get(self._chosen_solver())
        options = {"kernel": self.kernel_, "cache_size": self.cache_size, "n_jobs": effective_n_jobs(self.n_jobs)}
        machines = self._binary(part.X, part.codes, part.weight, True, options)
        betas, intercepts, states, horizons = [], [], [], []
        for k in range(len(machines)):
            problem = machines[k]
            horizon = before.horizons[k] if before else Horizon(problem.n_rows, float(problem.cost.sum()))
            state = learn(solver, problem, before.states[k] if before else None, horizon)
            beta, intercept = solver.expansion(problem, state, horizon)  # type: ignore[attr-defined]
            betas.append(beta)
            intercepts.append(intercept)
            states.append(state)
            horizons.append(horizon)
        support, coefficients, counts = self._layout(machines, betas)
        kept = np.sort(support)
        self._keep_support(part.X, support, coefficients, counts)
        self.support_ = part.numbers[support].astype(np.int32)
        self.intercept_, self.solver_ = np.array(intercepts), solver
        self.shape_fit_ = (part.n_rows, part.X.shape[1])
        self._fourier = self._slopes = None
        self._stream = part._replace(
            X=part.X[kept],
            codes=part.codes[kept],
            weight=part.weight[kept],
            numbers=part.numbers[kept],
            states=[of_rows(solver, state, kept) for state in states],
            horizons=horizons,
        )


def _settings(estimator: Any) -> dict[str, Any]:
    return {name: getattr(estimator, name) for name in _SETTINGS}


def _check_use(estimator: Any, before: Stream | None) -> None:
    """Refuse what a stream cannot do."""
    if estimator._is_precomputed or estimator._is_function:
        raise ValueError("partial_fit needs a kernel by name or a kernel object, not a matrix or a function")
    if isinstance(estimator.class_weight, str):
        raise ValueError('class_weight="balanced" needs all of the data; give partial_fit a dict of weights')
    if estimator._wants_probability:
        raise ValueError("probability=True needs all of the data: it is for fit")
    if before is None and hasattr(estimator, "dual_coef_"):
        raise ValueError(
            "partial_fit goes on with what partial_fit has begun, but this model was fitted by fit or loaded from a "
            "file: start anew with a clone"
        )
    for name, value in _settings(estimator).items():
        if before is not None and value != before.settings[name]:
            raise ValueError(
                f"{name} has changed since the stream began (from {before.settings[name]!r} to {value!r}): set it "
                "back, or start anew with a clone"
            )
