"""Bounds of what float32 does to kernel values, and certificates that rest on them."""

import numpy as np
import pytest
from machines import MACHINES, assert_optimal, bounds, machine, rows
from scipy.sparse import csr_matrix

from maxmargin import kernels
from maxmargin.data.rows import as_rows
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.rounding import relative_error
from maxmargin.solvers import kernel
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.block_smo import BlockSMO

_TINY = 2e-34  # values below are made zero


def _cases():
    rng = np.random.default_rng(0)
    lengths = 10.0 ** rng.uniform(-2, 0.7, size=(300, 1))
    return {
        "normal": rng.normal(size=(300, 6)),
        "far from the origin": 50.0 + rng.normal(size=(300, 6)),
        "of many lengths": lengths * rng.normal(size=(300, 3)),
        "many features": rng.normal(size=(300, 500)) / 10.0,
        "sparse": csr_matrix(np.where(rng.random((300, 200)) < 0.05, rng.normal(size=(300, 200)), 0.0)),
        "sparse and of many lengths": csr_matrix(lengths * np.where(rng.random((300, 40)) < 0.3, 1.0, 0.0)),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("case", _cases())
def test_no_sum_of_float32_values_is_further_off_than_its_bound(case, gamma, dtype):
    X = _cases()[case]
    values = KernelValues(kernels.RBF(gamma), as_rows(X)[0])
    values.dtype = dtype  # also where the solvers would take the other one
    every, J = np.arange(300), np.arange(0, 300, 2)
    beta = np.random.default_rng(1).normal(size=len(J)) * 10.0
    dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X).astype(np.longdouble)
    distance2 = ((dense[:, None, :] - dense[None, J, :]) ** 2).sum(axis=2)
    truth = np.exp(-gamma * distance2) @ beta.astype(np.longdouble)
    rough, sizes = values.apply(every, J, np.stack([beta, np.abs(beta)]))
    bound = values.errors(every, sizes) + _TINY * np.abs(beta).sum()
    assert np.all(np.abs(rough - truth) <= bound)
    assert np.all(bound <= 1e-2 * sizes + 1e-30)  # and it is of use
    for one in range(0, 150, 37):  # single values, where nothing cancels
        value, size = values.apply(every, J[one : one + 1], np.ones((2, 1)))
        assert np.all(np.abs(value - np.exp(-gamma * distance2[:, one])) <= values.errors(every, size) + _TINY)
    work = ActiveRows(values, 10.0)
    work.change(every)
    f = np.zeros(300)
    bound = work.add(work.slots(J), beta, f) + _TINY * np.abs(beta).sum()
    assert np.all(np.abs(f - truth) <= bound)


def test_an_unlucky_sum_stays_within_the_bound():
    """Rows whose products all round the same way: the bound holds for the worst order of sums, not on average."""
    x = np.full((2, 4096), 1.0 / 3.0)
    x[1] *= 1.0 + 1e-3
    values = KernelValues(kernels.RBF(0.01), as_rows(csr_matrix(x))[0])
    value, size = values.apply(np.arange(2), np.arange(1), np.ones((2, 1)))
    truth = np.exp(-0.01 * ((x - x[0]) ** 2).sum(axis=1))
    assert np.all(np.abs(value - truth) <= values.errors(np.arange(2), size))


def test_the_bound_grows_with_all_that_makes_errors_grow():
    least = relative_error(0.1, np.array([1.0]), 1.0, 10)
    for other in ((0.2, 1.0, 1.0, 10), (0.1, 2.0, 1.0, 10), (0.1, 1.0, 2.0, 10), (0.1, 1.0, 1.0, 30)):
        gamma, norm2, largest, n_terms = other
        assert relative_error(gamma, np.array([norm2]), largest, n_terms) > least


def test_values_without_a_bound_say_so():
    X, _ = rows(20)
    every = np.arange(20)
    for function in (kernels.Linear(), kernels.Polynomial(2, 1.0, 1.0), kernels.Sigmoid(0.1, 0.0)):
        assert np.all(np.isinf(KernelValues(function, as_rows(X)[0]).errors(every, np.zeros(20))))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("C", [0.3, 300.0])
def test_the_certificate_is_that_of_all_rows_though_not_all_are_computed_anew(kind, sparse, C):
    X, y = rows(1500, sparse=sparse)
    X = X * 3.0  # most outputs are far from the margin
    problem = machine(kind, X, y, C)
    seen = {}
    whole = problem.values.apply

    def counting(which, J, beta, dtype=None):
        if dtype == np.float64:
            seen["rows"] = max(seen.get("rows", 0), len(which))
        return whole(which, J, beta, dtype)

    problem.values.apply = counting
    result = kernel.solve(problem, BlockSMO(first_sample=200, least_active=0), tol=1e-3)
    assert result.stop_reason == "converged"
    assert seen["rows"] < 1500 or kind == "one_class"  # which begins with all rows
    del problem.values.apply
    truth = problem.certificate(result.state.beta, result.state.intercept)
    assert result.certificate.primal == pytest.approx(truth.primal, rel=1e-12)
    assert result.certificate.gap == pytest.approx(truth.gap, rel=1e-9, abs=1e-12 * abs(truth.primal))
    assert_optimal(problem, X, result, 1e-3)


@pytest.mark.parametrize("kind", MACHINES)
def test_the_claimed_gap_is_true_in_extended_precision(kind):
    X, y = rows(200)
    problem = machine(kind, X, y, 30.0)
    result = kernel.solve(problem, BlockSMO(first_sample=40, least_active=0), tol=1e-5)
    distance2 = ((X[:, None].astype(np.longdouble) - X[None].astype(np.longdouble)) ** 2).sum(axis=2)
    beta = result.state.beta.astype(np.longdouble)
    primal, dual = bounds(problem, np.exp(-np.longdouble(0.5) * distance2), beta, np.longdouble(result.state.intercept))
    assert primal - dual <= result.certificate.gap + 1e-12 * abs(primal)


def test_the_matrix_of_a_block_is_computed_anew_when_the_active_rows_change():
    X = np.random.default_rng(1).normal(size=(40, 3))
    values = KernelValues(kernels.RBF(0.5), as_rows(X)[0])
    work, block, out = ActiveRows(values, 10.0), np.arange(12), np.empty((12, 12), np.float32)
    for active in (np.arange(12), np.arange(12), np.arange(20, 40)):
        work.change(active)
        for _ in range(2):
            part = X[work.rows[block]]
            wanted = np.exp(-0.5 * ((part[:, None] - part[None]) ** 2).sum(axis=2))
            np.testing.assert_allclose(work.gram(block, work.slots(block), out), wanted, atol=1e-5)
