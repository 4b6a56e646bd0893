"""What estimators do with their parameters before anything else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from maxmargin import losses, penalties, solvers
from maxmargin._code_cache import working_time
from maxmargin._names import suggestion
from maxmargin.data.indices import check_same_base, index_base
from maxmargin.data.sparse import check_sparse
from maxmargin.losses import Loss
from maxmargin.parallel import effective_n_jobs
from maxmargin.solvers.base import Solver

if TYPE_CHECKING:
    from maxmargin.callbacks import ProgressBar

# What `validated` lets through. `as_rows` converts what has to be, and says where a value is not finite.
ROWS = {
    "accept_sparse": True,
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,
}
_LEAST_SECONDS = 1e-9  # where no time is left: what begins still gets its certificate
SEVERITY = [
    "converged",
    "callback",
    "rounding",
    "stalled",
    "max_iter",
    "max_time",
    "interrupted",
]  # of reasons to stop, least first


def validated(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
    """scikit-learn's `validate_data` for rows; what indices in their file count from is remembered, or compared.

    Parameters
    ----------
    estimator : estimator
    X : array-like or sparse matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
    reset : bool
        Whether the estimator is being fitted anew.
    """
    check_sparse(X, trust_columns=True)
    if not reset:
        check_same_base(X, getattr(estimator, "first_index_", None))
    checked = validate_data(estimator, X, y, reset=reset, **ROWS)
    if reset:
        base = index_base(X)
        if base is not None:
            estimator.first_index_ = base.first_index
        elif hasattr(estimator, "first_index_"):
            del estimator.first_index_
    return checked


def bias_of(estimator: Any) -> float:
    """Value of the constant feature whose weight makes the intercept; 0 if there is none."""
    return float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0


def check_numbers(estimator: Any, *others: str) -> None:
    """Refuse what is no number where one is needed, and what all estimators refuse; ranges of others are theirs."""
    for name in ("tol", "max_iter", "max_time", *others):
        value = getattr(estimator, name)
        is_number = isinstance(value, Real) and not (name in others and math.isnan(value))
        if not is_number and not (value is None and name.startswith("max_")):
            raise ValueError(f"{name} must be a number, got {value!r}")
    if not estimator.tol >= 0.0:
        raise ValueError(f"tol must be >= 0, got {estimator.tol!r}")
    if estimator.max_time is not None and not estimator.max_time > 0.0:
        raise ValueError(f"max_time must be positive or None, got {estimator.max_time!r}")
    if "intercept_scaling" in others and estimator.fit_intercept and not 0.0 < estimator.intercept_scaling < np.inf:
        raise ValueError(f"intercept_scaling must be positive and finite, got {estimator.intercept_scaling!r}")
    effective_n_jobs(estimator.n_jobs)
    if not isinstance(estimator.random_state, (np.random.Generator, np.random.RandomState)):
        seed_of(estimator.random_state)  # of a generator, asking would draw a number


def classifier_loss(loss: str | Loss, penalty: str = "l2", free_intercept: bool = False) -> Loss:
    """The loss object; the error lists the losses of classifiers that a solver takes with this penalty."""
    penalties.get(penalty)
    if isinstance(loss, str) and loss not in losses.names():
        raise ValueError(f"unknown loss {loss!r}{losses.suggestion(loss)}; {_choices(penalty)}")
    loss = losses.get(loss)
    if not losses.is_margin_loss(loss):
        raise ValueError(f"loss {losses.name_of(loss)!r} is for regression: use LinearSVR; {_choices(penalty)}")
    if not any(solvers.takes(name, loss, penalty, free_intercept=free_intercept) for name in solvers.names()):
        raise ValueError(f"no solver takes loss {losses.name_of(loss)!r} with this penalty; {_choices(penalty)}")
    return loss


def regressor_loss(loss: str | Loss, epsilon: float) -> Loss:
    """The loss object, with this epsilon if it is given by name and has one."""
    names = [losses.name_of_type(tag) for tag in losses.RESIDUAL_LOSSES]
    if isinstance(loss, str):
        if loss not in names:
            what = "is for classification" if loss in losses.names() else f"is not known{losses.suggestion(loss)}"
            raise ValueError(f"loss {loss!r} {what}; a regressor takes {', '.join(names)}")
        if not isinstance(epsilon, Real):
            raise ValueError(f"epsilon must be a number, got {epsilon!r}")
        tag = losses.get(loss)
        return losses.get(type(tag)(float(epsilon))) if hasattr(tag, "epsilon") else tag
    loss = losses.get(loss)
    if losses.is_margin_loss(loss):
        raise ValueError(f"loss {losses.name_of(loss)!r} is for classification; a regressor takes {', '.join(names)}")
    return loss


def _choices(penalty: str) -> str:
    takers = {losses.name_of_type(tag): solvers.supporting(tag(), penalty) for tag in losses.MARGIN_LOSSES}
    return f"a classifier{_with_penalty(penalty)} takes {', '.join(loss for loss, names in takers.items() if names)}"


def _with_penalty(penalty: str | penalties.Penalty) -> str:
    """Its name for an error; the default needs none."""
    name = penalties.name_of(penalties.get(penalty))
    return "" if name == "l2" else f" with penalty {name!r}"


def solver_for(
    solver: str | Solver, loss: Loss, penalty: str | penalties.Penalty = "l2", free_intercept: bool = False
) -> str | Solver:
    """A solver object, or "auto"; the error lists the solvers that take the loss, the penalty and the intercept."""
    if isinstance(solver, Solver) or (isinstance(solver, str) and solver == "auto"):
        return solver
    is_known = isinstance(solver, str) and solver in solvers.names()
    if not is_known or not solvers.takes(solver, loss, penalty, free_intercept=free_intercept):
        able = solvers.supporting(loss, penalty, free_intercept=free_intercept)
        meant = suggestion(solver, able)
        what = f"solver {solver!r} does not take loss" if is_known else f"unknown solver {solver!r}{meant}; for loss"
        kind = _with_penalty(penalty)
        kind += " and an intercept without penalty" if free_intercept else ""
        raise ValueError(f"{what} {losses.name_of(loss)!r}{kind}: choose one of auto, {', '.join(able)}")
    return solvers.get(solver)


def seed_of(random_state: Any) -> int:
    """A seed for a solver; None is a fixed one."""
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ValueError(f"random_state must be an integer, a generator of numpy or None, got {random_state!r}")


def share_of_time(started: float, max_time: float | None, n_left: int, at_once: int = 1) -> float | None:
    """Seconds for the next of `n_left` pieces of work, several of which are done at once: a fair share of the rest."""
    if max_time is None:
        return None
    return max(started + max_time - working_time(), _LEAST_SECONDS) / math.ceil(n_left / at_once)


@contextmanager
def progress_bar(verbose: int, n_models: int = 1) -> Iterator[list[ProgressBar]]:
    """The callbacks of `verbose`: one bar, for all the models that a fit trains."""
    if not verbose:
        yield []
        return
    from maxmargin.callbacks import ProgressBar

    with ProgressBar(n_models=n_models) as bar:
        yield [bar]
