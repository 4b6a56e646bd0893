"""`gram.py`: the weighted Gram matrix of every storage, its factor, and the peace with BLAS' own threads."""

import threading

import numpy as np
import pytest
import samples

from maxmargin.data import cuts
from maxmargin.data.rows import as_rows
from maxmargin.problem import gram
from maxmargin.problem.gram import cholesky, cholesky_solve, newton_step, one_blas_thread, weighted_gram
from maxmargin.problem.gram_rows import least_recently_used


def data(n_rows=300, n_features=7, density=0.6, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    d = rng.exponential(size=n_rows) * (rng.random(n_rows) < 0.8)
    return X.astype(dtype), d


@pytest.mark.parametrize("density", [0.05, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_the_matrix_of_the_formula(density, bias, dtype, tmp_path):
    X, d = data(density=density, dtype=dtype)
    full = np.column_stack([X, np.full(len(X), bias)]) if bias else X
    expected = (full.T.astype(float) * d) @ full
    for matrix in (X, samples.csr(X, dtype=dtype), samples.csr(X, np.int64, dtype), samples.memmap(X, tmp_path / "X")):
        rows, _ = as_rows(matrix, bias)
        result = weighted_gram(rows, d)
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(result, result.T)
        signs = np.where(np.arange(len(d)) % 3, 1.0, -1.0)
        mixed = (full.T.astype(float) * (d * signs)) @ full
        np.testing.assert_allclose(weighted_gram(rows, d * signs), mixed, rtol=1e-10, atol=1e-10)


def test_all_ways_are_tested(monkeypatch):
    """Products of stored values below a density that falls with the number of columns; BLAS above it and if wide."""
    assert [gram._is_very_sparse(int(300 * 7 * density), 300, 7) for density in (0.2, 0.6)] == [True, False]
    assert not gram._is_very_sparse(25_000, 50, 5000)
    X, d = data()
    by_panels = weighted_gram(as_rows(X)[0], d)
    monkeypatch.setattr(gram, "_WIDE", 5)
    monkeypatch.setattr(gram, "_BLAS_ROWS", 20)
    monkeypatch.setattr(gram, "_BLAS_VALUES", 50)
    np.testing.assert_allclose(weighted_gram(as_rows(X)[0], d), by_panels, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("density", [0.2, 0.6])
def test_blocks_add_up_to_the_same_bits_on_any_number_of_threads(density, monkeypatch):
    monkeypatch.setattr(cuts, "LEAST_VALUES", 50)
    X, d = data(density=density)
    expected = (X.T * d) @ X
    for matrix in (X, samples.csr(X)):
        rows, _ = as_rows(matrix)
        one, two, five = (weighted_gram(rows, d, n_jobs) for n_jobs in (1, 2, 5))
        assert one.tobytes() == two.tobytes() == five.tobytes()
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- the factor


def test_the_factor_solves_what_spans_24_orders_of_magnitude():
    """Scaling costs no digits: the error is that of the well-conditioned matrix inside."""
    rng = np.random.default_rng(0)
    inside = np.eye(40) + 0.3 * rng.normal(size=(40, 40))
    inside = inside @ inside.T
    units = 10.0 ** rng.uniform(-12, 12, size=40)
    x = rng.normal(size=40)
    matrix = np.triu(inside * np.outer(units, units))  # the lower triangle is not looked at
    b = units * (inside @ x)
    scale = cholesky(matrix)
    np.testing.assert_allclose(units * cholesky_solve(matrix, scale, b), x, rtol=1e-10)


@pytest.mark.parametrize("weight", [1.0, 1e10, 1e30])
def test_columns_that_depend_on_each_other(weight):
    """I + X'DX with the identity lost beside X'DX: finite, and right in what the rows see of it."""
    X, d = data(density=1.0)
    X = np.hstack([X, X, np.zeros((300, 2)), X @ np.ones((7, 1))])
    rows, _ = as_rows(X)
    matrix = weighted_gram(rows, weight * d)
    np.fill_diagonal(matrix, matrix.diagonal() + 1.0)
    z = np.random.default_rng(2).normal(size=300)
    b = X.T @ (weight * d * z)
    scale = cholesky(matrix)
    root = np.sqrt(weight * d)[:, None]
    expected = X @ np.linalg.lstsq(np.vstack([root * X, np.eye(17)]), np.append(root[:, 0] * z, np.zeros(17)))[0]
    np.testing.assert_allclose(X @ cholesky_solve(matrix, scale, b), expected, rtol=1e-5, atol=1e-6)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky(np.array([[1.0, 5.0], [5.0, 1.0]]))


def test_a_newton_step_reads_the_upper_triangle_and_leaves_the_matrix():
    X, d = data(density=1.0)
    full = (X.T * d) @ X
    padded = np.full((8, 8), np.nan)
    padded[:7, :7] = np.triu(full) + np.tril(np.full((7, 7), np.nan), -1)
    before, identity, b = padded.copy(), np.arange(1.0, 8.0), np.arange(7.0)
    np.testing.assert_allclose(newton_step(padded, identity, b), np.linalg.solve(full + np.diag(identity), b))
    np.testing.assert_array_equal(padded, before)


def test_no_columns():
    matrix = np.zeros((0, 0))
    assert len(cholesky_solve(matrix, cholesky(matrix), np.zeros(0))) == 0
    assert weighted_gram(as_rows(np.zeros((3, 0)))[0], np.ones(3)).shape == (0, 0)


# ---------------------------------------------------------------- BLAS


def blas_threads():
    return [library["num_threads"] for library in gram._controller().info() if library["user_api"] == "blas"]


def test_blas_keeps_to_one_thread_and_gets_them_back():
    """Whoever leaves first does not lift the limit under the other, and the last one does."""
    with gram._controller().limit(limits=2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        entered = threading.Event()

        def enter_elsewhere():
            second.__enter__()
            entered.set()

        first.__enter__()
        assert set(blas_threads()) <= {1}
        thread = threading.Thread(target=enter_elsewhere)
        thread.start()
        thread.join()
        assert entered.is_set()
        first.__exit__(None, None, None)
        assert set(blas_threads()) <= {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


@pytest.mark.parametrize(
    ("used", "owner", "n", "expected"),
    [
        ([1, 2, 3], [0, 1, 2], 1, [0]),  # row 0 is as good as any other
        ([3, 1, 2], [4, 0, 2], 2, [1, 2]),
        ([9, 1, 2], [-1, 5, 0], 2, [0, 1]),  # what is empty comes first, however it was used
        ([0, 0, 5], [-1, -1, 3], 2, [0, 1]),
    ],
)
def test_the_slots_used_longest_ago_are_taken(used, owner, n, expected):
    assert sorted(least_recently_used(np.array(used), np.array(owner), n)) == expected
