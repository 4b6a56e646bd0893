import subprocess
import sys

import numpy as np
import pytest

from maxmargin.data.generators import make_dense, make_text


def text(**changes):
    return make_text(**{"n_rows": 9000, "n_features": 2000, "nonzeros": 30, **changes})


def dense(**changes):
    return make_dense(**{"n_rows": 3000, "n_features": 20, **changes})


def fitted_accuracy(X, y):
    """Test accuracy of ridge regression on the labels: an oracle of how learnable a set is."""
    half = len(y) // 2
    A, B = X[:half], X[half:]
    gram = A.T @ A
    gram = gram.toarray() if hasattr(gram, "toarray") else gram
    w = np.linalg.solve(gram + np.eye(X.shape[1]), A.T @ y[:half])
    return np.mean(np.sign(B @ w) == y[half:])


def test_text_rows_are_sorted_distinct_and_of_unit_length():
    X, _ = text()
    assert X.format == "csr"
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.indices.min() >= 0
    assert X.indices.max() < 2000
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    assert np.all(np.diff(row * 2000 + X.indices) > 0)
    np.testing.assert_allclose(np.sqrt((X.multiply(X)).sum(axis=1)), 1.0)
    assert np.all(X.data > 0)


@pytest.mark.parametrize("nonzeros", [5, 30, 300])
def test_text_has_the_nonzeros_asked_for(nonzeros):
    X, _ = text(nonzeros=nonzeros)
    assert X.nnz / X.shape[0] == pytest.approx(nonzeros, rel=0.05)
    assert np.diff(X.indptr).std() > 0.1 * nonzeros  # documents differ in length


def test_text_words_follow_zipf():
    X, _ = text(n_rows=20000, nonzeros=5)  # short documents: hardly a word occurs twice, so counts are draws
    frequency = np.sort(np.bincount(X.indices, minlength=2000))[::-1]
    ranks = np.arange(20, 400)
    slope = np.polyfit(np.log(ranks), np.log(frequency[ranks - 1]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)
    # The frequent words stand anywhere, not in the first columns.
    assert np.bincount(X.indices, minlength=2000)[:200].sum() < 0.5 * X.nnz


def test_text_weighs_rare_words_more():
    X, _ = text()
    frequency = np.bincount(X.indices, minlength=2000)
    mean_weight = np.bincount(X.indices, X.data, minlength=2000) / np.maximum(frequency, 1)
    order = np.argsort(frequency)
    assert mean_weight[order[:500]].mean() > 1.5 * mean_weight[order[-50:]].mean()


def test_dense_is_standardised_and_in_c_order():
    X, _ = dense()
    assert X.flags.c_contiguous
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    correlation = np.corrcoef(X.T) - np.eye(20)
    assert np.abs(correlation).max() > 0.2


@pytest.mark.parametrize("make", [text, dense])
def test_labels_are_balanced_and_learnable_but_not_separable(make):
    X, y = make(noise=0.05)
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert abs(y.mean()) < 0.05
    assert 0.7 < fitted_accuracy(X, y) < 0.95


@pytest.mark.parametrize("make", [text, dense])
def test_noise_flips_its_share_of_the_labels(make):
    X_clean, clean = make(noise=0.0)
    X_noisy, noisy = make(noise=0.2)
    assert abs(X_clean - X_noisy).max() == 0.0
    assert np.mean(clean != noisy) == pytest.approx(0.2, abs=0.03)
    np.testing.assert_array_equal(make(noise=1.0)[1], -clean)


@pytest.mark.parametrize("make", [text, dense])
def test_same_seed_same_set(make):
    X, y = make(random_state=3)
    X_again, y_again = make(random_state=np.random.default_rng(3))
    X_other, y_other = make(random_state=4)
    assert abs(X - X_again).max() == 0.0
    np.testing.assert_array_equal(y, y_again)
    assert abs(X - X_other).max() > 0.0
    assert np.any(y != y_other)


@pytest.mark.parametrize("make", [text, dense])
def test_float32_is_the_float64_set_rounded(make):
    X, y = make()
    X_single, y_single = make(dtype=np.float32)
    assert X_single.dtype == np.float32
    assert X.dtype == np.float64
    assert abs(X.astype(np.float32) - X_single).max() == 0.0
    np.testing.assert_array_equal(y, y_single)


def test_smallest_sets():
    X, y = make_text(n_rows=1, n_features=2, nonzeros=1)
    assert X.shape == (1, 2)
    assert y.shape == (1,)
    X, y = make_dense(n_rows=2, n_features=1)
    assert X.shape == (2, 1)
    assert np.all(np.isfinite(X))


@pytest.mark.parametrize(
    ("make", "bad", "message"),
    [
        (text, {"nonzeros": 2000}, "nonzeros must be"),
        (text, {"nonzeros": 0}, "nonzeros must be"),
        (text, {"noise": 1.5}, "between 0 and 1"),
        (text, {"n_rows": 0}, "at least 1"),
        (dense, {"noise": -0.1}, "between 0 and 1"),
        (dense, {"n_features": 0}, "at least 1"),
    ],
)
def test_impossible_sets_are_refused(make, bad, message):
    with pytest.raises(ValueError, match=message):
        make(**bad)


def test_import_stays_light():
    code = "import maxmargin.data.generators, sys; sys.exit('scipy.sparse' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
