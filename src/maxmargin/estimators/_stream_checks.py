"""What comes in with a stream, checked: chunks, features, classes, and settings that must not change."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from maxmargin.data.rows import Array, Dense, Rows, as_rows
from maxmargin.data.sparse import check_sparse
from maxmargin.data.stream import Chunk
from maxmargin.estimators._one_vs_rest import check_labels, observed_classes
from maxmargin.estimators._parameters import ROWS, classifier_loss, seed_of
from maxmargin.estimators._stream_models import StreamModels, with_features
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights

if TYPE_CHECKING:
    from maxmargin.estimators.online import OnlineSVC


def checked_chunk(chunk: Chunk, number: int) -> tuple[Any, Array, Array]:
    """The rows, labels and weights of a chunk; errors name it."""
    try:
        check_sparse(chunk.X, trust_columns=True)
        X = check_array(chunk.X, ensure_min_samples=0, **ROWS)
        y = column_or_1d(chunk.y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}")
        if len(y):
            check_labels(y)
        return X, y, check_weights(chunk.sample_weight, len(y), may_be_zero=True)
    except ValueError as error:
        raise ValueError(f"chunk {number} of the stream: {error}") from error


def fitting_rows(X: Any, models: StreamModels, number: int) -> tuple[Rows, Array]:
    """Rows of as many features as the models have, which are made wider if a sparse chunk is."""
    try:
        rows, norms2 = as_rows(X, models.bias)
    except ValueError as error:
        raise ValueError(f"chunk {number} of the stream: {error}") from error
    if isinstance(rows, Dense) and models.n_features not in (0, X.shape[1]):
        raise ValueError(f"chunk {number} of the stream has {X.shape[1]} features, those before {models.n_features}")
    models.widen(X.shape[1])
    return with_features(rows, models.n_features), norms2


def check_classes(found: Array) -> None:
    """At the end of a stream there must be something to tell apart."""
    if not len(found):
        raise ValueError("the stream has no rows (of positive weight): there is nothing to learn from")
    observed_classes(found, np.ones(len(found)))


def announced(classes: Any) -> Array:
    """The classes that a stream will have, in order."""
    known = np.unique(classes)
    if len(known) < 2:
        raise ValueError(f"a classifier needs at least 2 classes, but classes={classes!r} names {len(known)}")
    return known


def check_known(learnt: StreamModels, y: Array) -> None:
    """Refuse labels that were not announced."""
    strange = np.setdiff1d(y, learnt.classes)
    if len(strange):
        raise ValueError(f"y has labels {strange.tolist()}, not among the announced classes {learnt.classes.tolist()}")


def check_settings(estimator: OnlineSVC, learnt: StreamModels) -> None:
    """A stream goes on with the objective that it was begun with, but for the weights of loss and penalty."""
    if estimator._bias != learnt.bias:
        raise ValueError(
            f"fit_intercept or intercept_scaling has changed since the stream began (from {learnt.bias:g} to "
            f"{estimator._bias:g}): set it back, or start anew with a clone"
        )
    learnt.loss, learnt.alpha = classifier_loss(estimator.loss), float(estimator.alpha)
    learnt.n_jobs = effective_n_jobs(estimator.n_jobs)


def check_parameters(estimator: OnlineSVC) -> None:
    """Refuse parameters that mean nothing."""
    for name in ("alpha", "tol", "intercept_scaling", "validation_fraction"):
        if not isinstance(getattr(estimator, name), Real):
            raise ValueError(f"{name} must be a number, got {getattr(estimator, name)!r}")
    if not 0.0 < estimator.alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite, got {estimator.alpha!r}")
    if estimator.fit_intercept and not 0.0 < estimator.intercept_scaling < np.inf:
        raise ValueError(f"intercept_scaling must be positive and finite, got {estimator.intercept_scaling!r}")
    if not estimator.tol >= 0.0:
        raise ValueError(f"tol must be >= 0, got {estimator.tol!r}")
    if not 0.0 < estimator.validation_fraction <= 0.5:
        raise ValueError(f"validation_fraction must be above 0 and at most 0.5, got {estimator.validation_fraction!r}")
    for name in ("max_iter", "n_iter_no_change"):
        value: Any = getattr(estimator, name)
        if not (isinstance(value, Integral) and int(value) >= 1) and not (value is None and name == "max_iter"):
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    if isinstance(estimator.class_weight, Mapping):
        if not all(isinstance(w, Real) and 0.0 < float(w) < np.inf for w in estimator.class_weight.values()):
            raise ValueError(f"weights in class_weight must be positive and finite, got {estimator.class_weight!r}")
    elif estimator.class_weight is not None and not (
        isinstance(estimator.class_weight, str) and estimator.class_weight == "balanced"
    ):
        raise ValueError(f'class_weight must be a dict, "balanced" or None, got {estimator.class_weight!r}')
    classifier_loss(estimator.loss)
    effective_n_jobs(estimator.n_jobs)
    if not isinstance(estimator.random_state, (np.random.Generator, np.random.RandomState)):
        seed_of(estimator.random_state)  # of a generator, asking would draw a number
