"""What linear models say of rows, and of which class that speaks: shared by estimators and bare model files."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import CSR, Array, Rows, as_rows, matvec, view_rows


def linear_outputs(X: Any, coef: Array, intercept: Array) -> Array:
    """x_i'w + b of every row and model, of shape (n_rows, n_models); malformed and non-finite rows are refused.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_rows, n_features), float32 or float64
    coef : ndarray of shape (n_models, n_features)
    intercept : ndarray of shape (n_models,)
    """
    rows = checked_rows(X)
    if X.dtype == coef.dtype:
        scores = np.asarray(X @ coef.T)
    else:  # float32 rows: summed in float64, without a float64 copy of X
        scores = np.stack([matvec(rows, w) for w in np.ascontiguousarray(coef)], axis=1)
    return scores + intercept


def checked_rows(X: Any) -> Rows:
    """View X as rows at little cost; only if something is wrong is it looked through for where that is."""
    rows = view_rows(X)
    with np.errstate(all="ignore"):
        in_doubt = not np.isfinite(np.sum(rows.data if isinstance(rows, CSR) else rows.values))
    if isinstance(rows, CSR) and len(rows.indices):
        in_doubt |= bool(rows.indices.min() < 0 or rows.indices.max() >= rows.n_features)
    return as_rows(X)[0] if in_doubt else rows


def decided(classes: Array, values: Array) -> Array:
    """The class of each row, by the sign of a single output for two classes, else by the largest of several."""
    if len(classes) == 1:  # so far, in a stream
        return np.repeat(classes, len(values))
    return classes[(values > 0.0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]
