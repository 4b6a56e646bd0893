"""Kernel values that the pairs of classes share."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, kernels
from maxmargin.data.rows import view_rows
from maxmargin.estimators import _pairs
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.classes import ClassBlocks, ValuesOfPair
from maxmargin.kernels.kept import KeptValues
from maxmargin.kernels.part import PartOfValues
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.kernel import solve


def letters(n=600, n_classes=6, seed=0):
    """Overlapping classes of a few clusters each."""
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(size=(n_classes, 3, 8)), rng.integers(0, n_classes, n)
    return centres[y, rng.integers(0, 3, n)] + 0.5 * rng.normal(size=(n, 8)), y


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_values_of_a_pair_are_kernel_values_whatever_the_order_of_rows_and_columns(sparse):
    X, y = letters(200)
    values = KernelValues(kernels.RBF(0.3), view_rows(csr_matrix(X) if sparse else X))
    rows = np.concatenate([np.flatnonzero(y == 4), np.flatnonzero(y == 1)])
    pair = ValuesOfPair(ClassBlocks(values, y, 6), rows)
    rng = np.random.default_rng(1)
    for which, J in [
        (rng.permutation(len(rows)), rng.permutation(len(rows))[:31]),  # runs of columns of either class
        (np.arange(5), np.arange(len(rows))),  # rows of one class
        (np.arange(3), np.zeros(0, np.int64)),
    ]:
        out, places = np.full((len(which) + 2, len(J) + 3), -1.0, np.float32), np.arange(len(which))[::-1] + 1
        pair.block(which, pair.columns(J), out, places, 2)
        expected = rbf_kernel(X[rows[which]], X[rows[J]], gamma=0.3) if len(J) else np.zeros((len(which), 0))
        np.testing.assert_allclose(out[places, 2 : 2 + len(J)], expected, rtol=1e-5)
        assert np.all(out[[0, -1]] == -1.0)
        assert np.all(out[:, [0, 1, -1]] == -1.0)


def test_values_within_a_class_are_computed_once():
    X, y = letters()
    values = KernelValues(kernels.RBF(0.3), view_rows(X))
    blocks, sizes, of_pairs = ClassBlocks(values, y, 6), np.bincount(y), 0
    for c in range(1, 6):
        rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == c)])
        pair, every = ValuesOfPair(blocks, rows), np.arange(len(rows))
        pair.block(every, pair.columns(every), np.empty((len(rows), len(rows)), np.float32), every)
        of_pairs += pair.n_values
    assert values.n_values == np.sum(sizes**2)
    assert of_pairs == 2 * sizes[0] * sizes[1:].sum()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("few_rows", [0, 2000], ids=["blocks of classes", "whole matrix"])
def test_any_number_of_threads_gives_the_same_bits_and_sharing_the_same_machine(sparse, few_rows, monkeypatch):
    monkeypatch.setattr(_pairs, "_FEW_ROWS", few_rows)
    X, y = letters(1800)  # pairs of more rows than `polish` takes
    X[5] = X[9]
    y[5] = y[9]  # rows that are there twice are merged
    X = csr_matrix(X) if sparse else X
    one, two = (SVC(C=4.0, gamma=0.3, tol=1e-6, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    apart = SVC(C=4.0, gamma=0.3, tol=1e-6, cache_size=3.0).fit(X, y)  # 2 MB of 3 MB would be too much
    assert np.array_equal(one.support_, two.support_)
    assert abs(one.dual_coef_ - two.dual_coef_).max() == 0.0
    assert np.array_equal(one.intercept_, two.intercept_)
    for a, b in zip(one.certificate_, apart.certificate_):
        assert max(a.relative_gap, b.relative_gap) <= 1e-6
        assert a.primal == pytest.approx(b.primal, rel=2e-6)
    np.testing.assert_allclose(one.decision_function(X), apart.decision_function(X), atol=2e-2)


@pytest.mark.parametrize("kernel", [kernels.RBF(0.3), kernels.Linear()], ids=["rbf", "linear"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_kept_values_are_those_that_they_are_kept_of(kernel, sparse):
    X, _ = letters(120)
    values = KernelValues(kernel, view_rows(csr_matrix(X) if sparse else X))
    rng = np.random.default_rng(2)
    expected = rbf_kernel(X, gamma=0.3) if kernel != kernels.Linear() else X @ X.T
    kept = KeptValues(values)
    n_computed, rows = values.n_values, rng.permutation(120)[:70]
    for few in (KeptValues(PartOfValues(values, rows)), KeptValues(PartOfValues(kept, rows))):
        which, J, beta = rng.permutation(70)[:20], rng.permutation(70)[:30], rng.normal(size=30)
        K = expected[np.ix_(rows[which], rows[J])]
        out = np.empty((20, 30))
        few.block(which, few.columns(J), out, np.arange(20))
        np.testing.assert_allclose(out, K, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(few.apply(which, J, beta), K @ beta, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(few.diagonal_of(which), np.diagonal(expected)[rows[which]], rtol=1e-12)
        np.testing.assert_array_equal(few.digits.size, values.digits.size[rows])
    assert values.n_values == n_computed or kernel == kernels.Linear()  # which makes outputs by way of w


def test_all_pairs_of_few_rows_share_one_matrix():
    X, y = letters(300)
    problem = KernelProblem(X, np.ones(300), kernel="rbf", gamma=0.3)
    pairs = _pairs.OneVsOne(problem, y, 6)
    for machine in pairs:
        machine.with_kept_values()
    assert 300 * 301 // 2 <= problem.values.n_values < 300 * 300  # once: one triangle and blocks of the diagonal
    few = _pairs.OneVsOne(KernelProblem(X, np.ones(300), kernel="rbf", cache_size=1.0), y, 6)
    assert not isinstance(few.problem.values, KeptValues)  # which would take most of the cache


def test_a_few_rows_get_all_digits_whatever_the_tolerance():
    X, y = letters(240, 2, seed=3)
    for C in (0.1, 1.0, 100.0):
        loose, tight = (SVC(C=C, gamma=0.3, tol=tol).fit(X, y) for tol in (0.1, 1e-10))
        assert loose.certificate_.gap - loose.certificate_.rounding < 1e-10 * loose.certificate_.primal
        np.testing.assert_allclose(loose.decision_function(X), tight.decision_function(X), rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kernel", "C"), [("linear", 1e4), ("rbf", 1e6), ("rbf", 1e10)])
def test_a_few_rows_that_are_hard_come_to_an_end(kernel, C):
    """SMO alone would take hundreds of thousands of passes: block SMO goes on where it was."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)
    model = SVC(kernel=kernel, C=C, gamma=1e-3 if C > 1e9 else "scale").fit(X, y)
    assert model.n_iter_.max() < 20_000
    assert model.stop_reason_ in ("converged", "rounding", "stalled", "max_iter")
    assert model.stop_reason_ == "converged" or C > 1e9


def test_a_hard_problem_of_a_few_rows_has_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    problem = KernelProblem(rng.normal(size=(200, 5)), rng.choice([-1.0, 1.0], 200), 1e6, gamma=0.2)
    result = solve(problem, checkpoint=tmp_path / "c")
    assert result.certificate.relative_gap <= 1e-3
    assert (tmp_path / "c").exists()
