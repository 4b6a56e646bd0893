"""Fewer support vectors for a fitted kernel machine, and what that costs.

The decision functions of a machine are vectors w = sum_j beta_j phi(z_j). Of its support vectors, one after the other
is kept, the one nearest in direction to what is not yet explained (orthogonal matching pursuit; the reduced sets of
Schoelkopf et al. 1999 by selection), and w is projected on the span of those kept. Of several classes that meet in
pairs, each class keeps its share of the budget, and the layout of coefficients stays LIBSVM's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin import kernels
from maxmargin.data.rows import Array
from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svr import SVR

_OURS = {"SVC": SVC, "SVR": SVR, "OneClassSVM": OneClassSVM}
_INDEPENDENT = 1e-10  # of k(z, z): what must be left of a support vector that is not explained by others


class Compression(NamedTuple):
    """What a smaller machine has lost."""

    n_before: int
    n_after: int
    distance: float  # |w - w'| / |w| in the kernel's space, all decision functions together
    score_before: float | None  # of the rows given: accuracy, or R^2 of a regression
    score_after: float | None
    agreement: float | None  # share of these rows of which both machines say the same class


def compress(model: Any, budget: int, X: Any = None, y: Any = None) -> Any:
    """A machine that predicts nearly the same from fewer support vectors.

    Parameters
    ----------
    model : fitted SVC, SVR or OneClassSVM, of maxmargin or of scikit-learn
        Its kernel has a name. It stays what it is.
    budget : int
        Support vectors to keep, at most.
    X : array-like or sparse matrix of shape (n_samples, n_features), optional
        Rows by which the loss is told; better not those of the training.
    y : array-like of shape (n_samples,), optional
        Their targets.

    Returns
    -------
    SVC, SVR or OneClassSVM of maxmargin
        Fitted; `compression_` tells what was lost. It has no certificate: it is no optimum of anything.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC, compress
    >>> X, y = make_moons(n_samples=600, noise=0.2, random_state=0)
    >>> small = compress(SVC(gamma=1.0).fit(X[:300], y[:300]), 20, X[300:], y[300:])
    >>> small.support_vectors_.shape, small.compression_.agreement > 0.95
    ((20, 2), True)
    """
    name = type(model).__name__
    if name not in _OURS:
        raise TypeError(f"compress takes {', '.join(_OURS)}, got {name}")
    if budget < 1:
        raise ValueError(f"budget must be at least 1, got {budget!r}")
    function, coefficients = _kernel_of(model), _dense(model.dual_coef_)
    vectors, n = model.support_vectors_, model.support_vectors_.shape[0]
    small = _OURS[name](**{k: v for k, v in model.get_params().items() if k in _OURS[name]().get_params()})
    is_pairs = hasattr(model, "classes_") and len(model.classes_) > 2 and len(coefficients) == len(model.classes_) - 1
    sizes = np.asarray(model.n_support_) if is_pairs else np.array([n])
    shares = _shares(sizes, min(budget, n))
    kept, new, lost, total = [], [], 0.0, 0.0
    for begin, size, share in zip(np.cumsum(sizes) - sizes, sizes, shares):
        part = slice(int(begin), int(begin + size))
        K = kernels.kernel_matrix(function, *_rows_and_support(vectors[part]), int(size))
        chosen, projected, left, whole = _pursue(K, coefficients[:, part], int(share))
        kept.append(begin + chosen)
        new.append(projected)
        lost, total = lost + left, total + whole
    places = np.concatenate(kept).astype(int)
    if hasattr(model, "classes_"):
        small.classes_ = model.classes_
        small.class_weight_, small._slopes = model.class_weight_, None
        owner = np.repeat(np.arange(len(model.classes_)), model.n_support_)[places]
        counts = np.bincount(owner, minlength=len(model.classes_)).astype(np.int32)
    else:
        counts = np.array([len(places)], np.int32)
    small.kernel_, small._fourier, small.intercept_ = function, None, np.array(model.intercept_)
    small.n_features_in_, small.shape_fit_ = vectors.shape[1], tuple(model.shape_fit_)
    small._set_machine(vectors[places], np.concatenate(new, axis=1), np.asarray(model.support_)[places], counts)
    if name == "OneClassSVM":
        small.offset_ = -float(small.intercept_[0])
    before, after, agreement = _scores(model, small, X, y)
    small.compression_ = Compression(n, len(places), float(np.sqrt(lost / total)), before, after, agreement)
    return small


def _kernel_of(model: Any) -> Any:
    if hasattr(model, "kernel_"):
        function = model.kernel_
    elif isinstance(model.kernel, str) and model.kernel != "precomputed":
        function = kernels.get(model.kernel, gamma=model._gamma, degree=model.degree, coef0=model.coef0)
    else:
        function = None
    if not isinstance(function, kernels.TAGS):
        raise ValueError("compress needs a kernel with a name: support vectors of others are not known")
    return function


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def _rows_and_support(vectors: Any) -> tuple[Any, Any]:
    from maxmargin.data.rows import as_rows

    return as_rows(vectors)[0], kernels.as_support(vectors, np.float64)


def _shares(sizes: Array, budget: int) -> Array:
    """How many of each class are kept, in proportion and one at least."""
    shares = np.maximum(1, np.floor(budget * sizes / sizes.sum())).astype(int)
    for k in np.argsort(shares - budget * sizes / sizes.sum(), kind="stable"):
        shares[k] += shares.sum() < budget and shares[k] < sizes[k]
    return np.minimum(shares, sizes)


def _pursue(K: Array, coefficients: Array, n_kept: int) -> tuple[Array, Array, float, float]:
    """Columns kept, their coefficients, and |w - w'|^2 and |w|^2."""
    residual = coefficients @ K  # w_c at every support vector
    whole = float(np.einsum("cj,cj->", coefficients, residual))
    left, L = np.diagonal(K).copy(), np.zeros((n_kept, len(K)))  # rows of a Cholesky factor, by pivots
    floor = _INDEPENDENT * np.diagonal(K)
    chosen: list[int] = []
    explained = 0.0
    for step in range(n_kept):
        usable = left > floor
        usable[chosen] = False
        if not usable.any():
            break
        gains = np.where(usable, (residual**2).sum(axis=0) / np.where(usable, left, 1.0), -np.inf)
        j = int(np.argmax(gains))
        L[step] = (K[j] - L[:step, j] @ L[:step]) / np.sqrt(left[j])
        along = residual[:, j] / np.sqrt(left[j])
        residual = residual - along[:, np.newaxis] * L[step]
        explained += float(along @ along)
        left = left - L[step] ** 2
        chosen.append(j)
    order = np.sort(np.array(chosen, dtype=int))
    projected = np.linalg.lstsq(K[np.ix_(order, order)], (coefficients @ K[:, order]).T, rcond=1e-13)[0].T
    return order, projected, max(whole - explained, 0.0), whole


def _scores(model: Any, small: Any, X: Any, y: Any) -> tuple[float | None, float | None, float | None]:
    if X is None:
        return None, None, None
    agreement = None if isinstance(small, SVR) else float(np.mean(model.predict(X) == small.predict(X)))
    if y is None:
        return None, None, agreement
    if isinstance(small, OneClassSVM):
        return float(np.mean(model.predict(X) == y)), float(np.mean(small.predict(X) == y)), agreement
    return float(model.score(X, y)), float(small.score(X, y)), agreement
