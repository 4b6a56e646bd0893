"""Data sets made on the spot, of any size: sparse text-like rows and dense noisy rows.

Both are two-class problems shaped like the data that linear support vector machines meet in practice, neither
separable nor hopeless, and both are the same for the same seed. They serve the demo, the tests and the benchmarks,
so that none of these needs a download.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_ROWS_AT_ONCE = 8192  # a block's draws (some MB) stay in the processor's cache while they are sorted
_ZIPF_EXPONENT = 1.0
_LENGTH_SPREAD = 0.4  # standard deviation of the logarithm of a document's length
_WAVE_HEIGHT = 0.6  # against a linear score of standard deviation 1


def make_text(
    n_rows: int = 200_000,
    n_features: int = 50_000,
    nonzeros: float = 87,
    noise: float = 0.05,
    random_state: int | np.random.Generator | None = 0,
    dtype: Any = np.float64,
) -> tuple[csr_matrix, np.ndarray]:
    """Documents as tf-idf rows of unit length, with labels from a noisy linear rule.

    Words follow Zipf's law: the k-th most frequent one is drawn with a probability proportional to 1/k. Documents
    differ in length. A weight is (1 + log tf) * log(1 + n/df). The rule gives every word a random weight, so much
    of it hangs on words too rare to learn it from, which is what keeps text from being easy.

    Parameters
    ----------
    n_rows, n_features : int
        Number of documents and of words.
    nonzeros : float
        About the mean number of distinct words in a document; below `n_features`.
    noise : float
        Share of the labels that are flipped, between 0 and 1.
    random_state : int, numpy.random.Generator or None
        The seed; None for a different set every time.
    dtype : data-type
        Of the values: float64 or float32.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        With int32 indices (int64 where int32 cannot count the nonzeros), sorted and distinct in every row.
    y : ndarray of shape (n_rows,)
        Labels -1.0 and +1.0.

    Examples
    --------
    >>> X, y = make_text(n_rows=1000, n_features=5000, nonzeros=40)
    >>> X.shape, X.indices.dtype.name
    ((1000, 5000), 'int32')
    >>> bool(35 < X.nnz / 1000 < 45)
    True
    """
    from scipy.sparse import csr_matrix

    _check_shape(n_rows, n_features, noise)
    if not 1 <= nonzeros < n_features:
        raise ValueError(f"nonzeros must be at least 1 and below n_features={n_features}, got {nonzeros}")
    rng = np.random.default_rng(random_state)

    probabilities = 1.0 / np.arange(1, n_features + 1) ** _ZIPF_EXPONENT
    probabilities /= probabilities.sum()
    word_of_rank = rng.permutation(n_features).astype(np.int32)  # the frequent words are not the first columns
    mean_length = _draws_for_distinct(probabilities, nonzeros)
    spread = _LENGTH_SPREAD * rng.standard_normal(n_rows) - _LENGTH_SPREAD**2 / 2
    lengths = np.maximum(1, np.rint(mean_length * np.exp(spread))).astype(np.int64)

    cumulative = np.cumsum(probabilities)
    cumulative[-1] = 1.0
    blocks = [
        _count_words(lengths[start : start + _ROWS_AT_ONCE], cumulative, word_of_rank, rng)
        for start in range(0, n_rows, _ROWS_AT_ONCE)
    ]
    row_counts, indices, term_counts = (np.concatenate(parts) for parts in zip(*blocks))
    del blocks

    indptr = np.concatenate([[0], np.cumsum(row_counts)])
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    else:
        indices = indices.astype(np.int64)
    data = _tf_idf(term_counts, indices, indptr, n_features)
    X = csr_matrix((data, indices, indptr), shape=(n_rows, n_features), copy=False)
    X.has_sorted_indices = X.has_canonical_format = True
    y = _noisy_labels(X @ rng.standard_normal(n_features), noise, rng)  # before rounding: the same for any dtype
    X.data = data.astype(dtype, copy=False)
    return X, y


def make_dense(
    n_rows: int = 200_000,
    n_features: int = 54,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = 0,
    dtype: Any = np.float64,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of correlated, standardised measurements, with labels that no linear rule can get right.

    The columns are mixed from a few hidden factors plus noise of their own, then shifted to mean 0 and scaled to
    variance 1. The score behind the labels is linear in the columns plus a wave along one of them.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data.
    noise : float
        Share of the labels that are flipped on top of what the wave does, between 0 and 1.
    random_state : int, numpy.random.Generator or None
        The seed; None for a different set every time.
    dtype : data-type
        Of the values: float64 or float32.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        In C order.
    y : ndarray of shape (n_rows,)
        Labels -1.0 and +1.0.

    Examples
    --------
    >>> X, y = make_dense(n_rows=1000, n_features=10)
    >>> X.shape, X.flags.c_contiguous
    ((1000, 10), True)
    """
    _check_shape(n_rows, n_features, noise)
    rng = np.random.default_rng(random_state)
    n_factors = max(1, n_features // 4)
    mixing = rng.standard_normal((n_factors, n_features)) / np.sqrt(n_factors)
    X = rng.standard_normal((n_rows, n_factors)) @ mixing
    X += rng.standard_normal((n_rows, n_features))
    X -= X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), np.finfo(float).tiny)

    score = X @ rng.standard_normal(n_features)
    score /= max(score.std(), np.finfo(float).tiny)
    score += _WAVE_HEIGHT * np.sin(3.0 * X[:, 0])
    return X.astype(dtype, copy=False), _noisy_labels(score, noise, rng)


def _check_shape(n_rows: int, n_features: int, noise: float) -> None:
    """Refuse what no data set can have."""
    if n_rows < 1 or n_features < 1:
        raise ValueError(f"n_rows and n_features must be at least 1, got {n_rows} and {n_features}")
    if not 0.0 <= noise <= 1.0:
        raise ValueError(f"noise is a share of the labels, between 0 and 1, got {noise}")


def _draws_for_distinct(probabilities: np.ndarray, distinct: float) -> float:
    """How many draws with replacement give `distinct` different words in the mean.

    L draws give sum_j 1 - (1 - p_j)^L different words, which grows with L: bisection.
    """
    log_absent = np.log1p(-np.minimum(probabilities, 1 - 1e-12))
    low, high = distinct, 2.0 * distinct
    while -np.expm1(high * log_absent).sum() < distinct:
        high *= 2.0
    for _ in range(50):
        middle = (low + high) / 2
        if -np.expm1(middle * log_absent).sum() < distinct:
            low = middle
        else:
            high = middle
    return high


def _count_words(
    lengths: np.ndarray, cumulative: np.ndarray, word_of_rank: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a block of documents: distinct words in each, the words in ascending order, how often each occurs."""
    n_features = len(cumulative)
    ranks = np.searchsorted(cumulative, rng.random(lengths.sum()), side="right")
    keys = np.repeat(np.arange(len(lengths)) * n_features, lengths) + word_of_rank[ranks]
    keys.sort()  # by document, then by word
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    positions = np.flatnonzero(first)
    term_counts = np.diff(positions, append=len(keys)).astype(np.int32)
    documents, words = np.divmod(keys[positions], n_features)
    return np.bincount(documents, minlength=len(lengths)), words.astype(np.int32), term_counts


def _tf_idf(term_counts: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int) -> np.ndarray:
    """(1 + log tf) * log(1 + n/df), rows scaled to unit length."""
    n_rows = len(indptr) - 1
    document_frequency = np.maximum(np.bincount(indices, minlength=n_features), 1)
    values = 1.0 + np.log(np.arange(1, term_counts.max() + 1))  # one logarithm per count, not per nonzero
    weights = values[term_counts - 1]
    weights *= np.log1p(n_rows / document_frequency)[indices]
    norms = np.sqrt(np.add.reduceat(weights * weights, indptr[:-1]))
    weights /= np.repeat(norms, np.diff(indptr))
    return weights


def _noisy_labels(score: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Labels by the side of the median score, so that the classes are of equal size, some of them flipped."""
    y = np.where(score > np.median(score), 1.0, -1.0)
    y[rng.random(len(y)) < noise] *= -1.0
    return y
