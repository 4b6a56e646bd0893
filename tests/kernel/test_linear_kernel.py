"""Machines with a linear kernel, which the linear solvers train: still kernel machines, and as exact."""

import numpy as np
import pytest
import sklearn.svm as peers
from machines import assert_optimal
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, losses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers
from maxmargin.solvers.kernel import linear


def data(kind="svc", n=1500, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.7, rng.normal(size=(n, d)), 0.0) + 0.5
    y = X @ rng.normal(size=d) + 2.0 + rng.standard_t(3, size=n)
    return X, np.where(y > 1.0, 1.0, -1.0) if kind == "svc" else y


LOSSES = {"svc": losses.Hinge(), "svr": losses.EpsilonInsensitive(0.3)}


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", ["svc", "svr"])
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix, np.float32])
def test_the_certificate_is_that_of_the_coefficients(kind, C, storage):
    X, y = data(kind)
    X = storage(X)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 3.0], len(y))
    for tol in (1e-3, 1e-8):
        problem = KernelProblem(X, y, C, LOSSES[kind], kernel="linear", sample_weight=weight)
        result = kernel_solvers.solve(problem, tol=tol)
        assert result.solver.name == "interior_point"
        assert result.stop_reason == "converged"
        assert_optimal(problem, X, result, tol)


@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_same_machine_as_libsvm(kind):
    X, y = data(kind)
    ours = {"svc": SVC, "svr": SVR}[kind](kernel="linear", C=10.0, tol=1e-10).fit(X, y)
    theirs = {"svc": peers.SVC, "svr": peers.SVR}[kind](kernel="linear", C=10.0, tol=1e-8).fit(X, y)
    assert ours.solver_.name == "interior_point"
    rounding = 2e-4 * np.abs(ours.coef_).max()  # LIBSVM keeps products in float32: see test_libsvm.py
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=rounding)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=rounding)
    np.testing.assert_allclose(ours.dual_coef_ @ ours.support_vectors_, ours.coef_)
    inside = np.abs(ours.dual_coef_[0]) < 10.0 * (1.0 - 1e-9)  # a general position has no more than this many
    assert inside.sum() <= X.shape[1] + 1
    assert abs(len(ours.support_) - len(theirs.support_)) <= X.shape[1]


def test_pairs_of_classes_and_threads():
    X, y = data("svr", n=3000)
    y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    one, two = (SVC(kernel="linear", n_jobs=n_jobs, tol=1e-6).fit(X, y) for n_jobs in (1, 2))
    assert one.solver_.name == "interior_point"
    assert max(c.relative_gap for c in one.certificate_) <= 1e-6
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    theirs = peers.SVC(kernel="linear", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(one.coef_, theirs.coef_, atol=1e-3 * np.abs(theirs.coef_).max())


def test_where_rounding_to_support_vectors_fails_the_kernel_solver_goes_on(monkeypatch):
    X, y = data()
    monkeypatch.setattr(linear, "_MOST_FREE", 0)
    monkeypatch.setattr(linear, "_SHARPER", 1.0)
    problem = KernelProblem(X, y, 10.0, kernel="linear")
    result = kernel_solvers.solve(problem, tol=1e-6)
    assert result.solver.name == "block_smo"
    assert result.stop_reason == "converged"
    assert_optimal(problem, X, result, 1e-6)


def test_a_limit_of_time_leaves_a_model_with_a_true_certificate():
    X, y = data(n=20_000)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = SVC(kernel="linear", max_time=1e-4).fit(X, y)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    w = X.T @ beta
    primal = 0.5 * w @ w + np.maximum(0.0, 1.0 - y * (X @ w + model.intercept_[0])).sum()
    assert model.certificate_.primal == pytest.approx(primal)
    assert model.certificate_.dual <= primal


def test_wide_data_and_few_rows_stay_with_the_kernel_solvers():
    X, y = data(n=700, d=80)
    assert SVC(kernel="linear").fit(X, y).solver_.name == "block_smo"
    assert SVC(kernel="linear", solver="smo").fit(*data()).solver_.name == "smo"
