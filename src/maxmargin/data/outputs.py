"""What linear models say of rows, and of which class that speaks: shared by estimators and bare model files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.data.sparse import check_sparse

if TYPE_CHECKING:  # what brings Numba with it is imported where it is needed
    from maxmargin.data.rows import Array, Rows


def linear_outputs(X: Any, coef: Array, intercept: Array) -> Array:
    """x_i'w + b of every row and model, of shape (n_rows, n_models); malformed and non-finite rows are refused.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_rows, n_features), float32 or float64
    coef : ndarray of shape (n_models, n_features)
    intercept : ndarray of shape (n_models,)
    """
    if X.dtype == coef.dtype:
        if _in_doubt(X):
            checked_rows(X)
        return np.asarray(X @ coef.T) + intercept
    from maxmargin.data.rows import matvec

    rows = checked_rows(X)  # float32: summed in float64, without a float64 copy of X
    return np.stack([matvec(rows, w) for w in np.ascontiguousarray(coef)], axis=1) + intercept


def checked_rows(X: Any) -> Rows:
    """View X as rows at little cost; only if something is wrong is it looked through for where that is."""
    from maxmargin.data.rows import as_rows, view_rows

    rows = view_rows(X)
    return as_rows(X)[0] if _in_doubt(X) else rows


def _in_doubt(X: Any) -> bool:
    """Whether a number may not be finite, or an index out of range."""
    is_sparse = hasattr(X, "tocsr")
    if is_sparse:
        check_sparse(X, trust_columns=True)
        X = X.tocsr()
    with np.errstate(all="ignore"):
        if not np.isfinite(np.sum(X.data if is_sparse else np.asarray(X))):
            return True
    return is_sparse and len(X.indices) > 0 and not 0 <= X.indices.min() <= X.indices.max() < X.shape[1]


def decided(classes: Array, values: Array) -> Array:
    """The class of each row, by the sign of a single output for two classes, else by the largest of several."""
    if len(classes) == 1:  # so far, in a stream
        return np.repeat(classes, len(values))
    return classes[(values > 0.0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]
