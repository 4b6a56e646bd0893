"""What comes in with a stream, checked: chunks, features, classes, and settings that must not change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from maxmargin.data.indices import index_base
from maxmargin.data.rows import Array, Dense, as_rows, n_features
from maxmargin.data.sparse import check_sparse
from maxmargin.data.stream import Chunk, as_chunks, is_repeatable
from maxmargin.estimators._one_vs_rest import check_labels, observed_classes
from maxmargin.estimators._parameters import ROWS, bias_of, check_numbers, classifier_loss
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem import check_weights
from maxmargin.solvers.stochastic.online_sgd import Some
from maxmargin.solvers.stochastic.stream_models import StreamModels

if TYPE_CHECKING:
    from maxmargin.estimators.online import OnlineSVC


def check_passes(data: Any, n: int) -> None:
    """Refuse several passes over what is gone after one."""
    if n > 1 and not is_repeatable(data):
        raise ValueError(
            f"max_iter={n} passes were asked for, but a pipe or an iterator can be passed over only once: "
            "give paths, or an object whose __iter__ begins anew"
        )


def checked_chunks(estimator: OnlineSVC, data: Any, interrupt: threading.Event) -> Iterator[Some]:
    """One pass over a stream; the estimator learns what the indices of text count from."""
    widest = 0
    with closing(as_chunks(data, interrupt, estimator.n_jobs)) as chunks:  # type: ignore[type-var]
        for number, chunk in enumerate(chunks):
            base = index_base(chunk.X)
            if base is not None:
                estimator._first_index = base.first_index
            some = _checked_chunk(chunk, number, bias_of(estimator), widest)
            widest = max(widest, n_features(some.rows))
            yield some


def _checked_chunk(chunk: Chunk, number: int, bias: float, before: int) -> Some:
    """A chunk's rows and what is known of them; errors name it. `before` is the number of features so far."""
    try:
        check_sparse(chunk.X, trust_columns=True)
        X = check_array(chunk.X, ensure_min_samples=0, **ROWS)
        y = column_or_1d(chunk.y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}")
        if len(y):
            check_labels(y)
        weight = check_weights(chunk.sample_weight, len(y), may_be_zero=True)
        rows, norms2 = as_rows(X, bias)
    except ValueError as error:
        raise ValueError(f"chunk {number} of the stream: {error}") from error
    if isinstance(rows, Dense) and before not in (0, X.shape[1]):
        raise ValueError(f"chunk {number} of the stream has {X.shape[1]} features, those before {before}")
    return Some(rows, norms2, y, weight)


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
    if bias_of(estimator) != learnt.bias:
        raise ValueError(
            f"fit_intercept or intercept_scaling has changed since the stream began (from {learnt.bias:g} to "
            f"{bias_of(estimator):g}): set it back, or start anew with a clone"
        )
    learnt.loss, learnt.alpha = classifier_loss(estimator.loss), float(estimator.alpha)
    learnt.n_jobs = effective_n_jobs(estimator.n_jobs)


def check_parameters(estimator: OnlineSVC) -> None:
    """Refuse parameters that mean nothing."""
    check_numbers(estimator, "alpha", "intercept_scaling", "validation_fraction")
    if not 0.0 < estimator.alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite, got {estimator.alpha!r}")
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
