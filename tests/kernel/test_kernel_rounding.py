"""Bounds of what float32 and float64 do to kernel values, and certificates that rest on them."""

from fractions import Fraction

import numpy as np
import pytest
from machines import MACHINES, assert_optimal, bounds, machine, rows
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, kernels, losses
from maxmargin.data.rows import as_rows
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.rounding import relative_error
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_rounding import errors_of_outputs
from maxmargin.solvers import kernel
from maxmargin.solvers.base import run
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.block_smo import BlockSMO
from maxmargin.solvers.kernel.kernel_larank import KernelLaRank

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


@pytest.mark.parametrize("storage", ["narrow", "wide", "sparse"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_matrix_of_a_block_takes_over_what_it_shares_with_the_last_one(storage, n_jobs):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 5 if storage == "narrow" else 80)) * 0.2
    values = KernelValues(kernels.RBF(0.5), as_rows(csr_matrix(X) if storage == "sparse" else X)[0], n_jobs)
    work, block, out = ActiveRows(values, 10.0), np.zeros(0, np.int64), np.empty((310, 310), np.float32)
    work.change(rng.permutation(500)[:400])
    for n_kept, n_new in ((0, 300), (150, 150), (300, 0), (7, 290), (120, 190), (0, 1)):
        kept = rng.permutation(block)[:n_kept]
        others = np.setdiff1d(np.arange(400), kept)
        block = work.order(np.concatenate([kept, rng.permutation(others)[:n_new]]))
        before = values.n_values
        K = work.gram(block, work.slots(block), out)[: len(block), : len(block)]
        part = X[work.rows[block]]
        wanted = np.exp(-0.5 * ((part[:, None] - part[None]) ** 2).sum(axis=2))
        np.testing.assert_allclose(K, wanted, atol=1e-5)
        np.testing.assert_array_equal(np.sort(block), np.unique(block))
        if storage == "narrow" and n_kept == 300:
            assert values.n_values == before


# ---------------------------------------------------------------- float64


def true_matrix(function, X):
    """Kernel values in 80 bits, by their definitions."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X).astype(np.longdouble)
    products = X @ X.T
    if isinstance(function, kernels.Linear):
        return products
    if isinstance(function, kernels.RBF):
        return np.exp(-np.longdouble(function.gamma) * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    inner = np.longdouble(function.gamma) * products + np.longdouble(function.coef0)
    return np.tanh(inner) if isinstance(function, kernels.Sigmoid) else inner**function.degree


FUNCTIONS = [
    kernels.Linear(),
    kernels.RBF(0.3),
    kernels.RBF(1e6),
    kernels.Polynomial(3, 0.5, 1.0),
    kernels.Polynomial(2, 1.0, -0.5),
    kernels.Sigmoid(0.1, -0.2),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@pytest.mark.parametrize("case", _cases())
def test_no_value_in_float64_is_larger_or_further_off_than_its_digits_say(case, function):
    X = _cases()[case]
    values, every = KernelValues(function, as_rows(X)[0]), np.arange(300)
    K, truth = np.empty((300, 300)), true_matrix(function, X)
    values.block(every, values.columns(every, np.float64), K, every)
    size, error = values.digits
    product = np.outer(size, size)
    assert np.all(np.abs(truth) <= product * (1.0 + 1e-12))
    assert np.all(np.abs(K - truth) <= product * (error[:, None] + error))
    assert error.max() <= 1e-11 * (1.0 + getattr(function, "gamma", 0.0))  # and it is of use


@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@pytest.mark.parametrize("case", _cases())
def test_no_output_in_float64_is_further_off_than_its_bound(case, function, penalized):
    X = _cases()[case]
    problem = KernelProblem(X, np.ones(300), kernel=function, penalize_intercept=penalized)
    beta = np.random.default_rng(1).normal(size=300) * 10.0 ** np.random.default_rng(2).uniform(-3, 3, 300)
    f = problem.decision(beta)
    truth = (true_matrix(function, X) + penalized) @ beta.astype(np.longdouble)
    assert np.all(np.abs(f - truth) <= errors_of_outputs(problem, beta, f).whole)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("kind", [*MACHINES, "squared_epsilon_insensitive"])
def test_certificates_hold_in_extended_precision(kind, name, scale):
    """Also where tol is out of reach, and the run ends for that reason."""
    X, y = rows(40)
    X = X * scale
    function = kernels.get(name, gamma=0.5 / scale**2, degree=3, coef0=1.0) if name != "precomputed" else name
    K = true_matrix(kernels.Linear() if name == "precomputed" else function, X)
    if name == "precomputed":
        X = np.asarray(K, dtype=float)
        K = X.astype(np.longdouble)
    problem = machine(kind, X, y, 1e4, kernel=function)
    for solver, tol in (("auto", 1e-3), ("auto", 1e-15), ("smo", 1e-15)):
        result = kernel.solve(problem, solver, tol=tol, max_iter=1000)
        beta, b = result.state.beta.astype(np.longdouble), np.longdouble(result.state.intercept)
        primal, dual = bounds(problem, K, beta, b)
        claimed = result.certificate
        assert primal - dual - b * (problem.total - beta.sum()) <= claimed.gap
        assert primal - claimed.gap <= claimed.primal <= primal + 2 * claimed.gap
        assert result.stop_reason != "converged" or claimed.relative_gap <= tol


def test_a_machine_whose_margins_are_lost_in_rounding_says_so():
    """C times the last digit of the outputs is more than the objective; without rounding the gap would be 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2, 100)) * 1e8
    problem = KernelProblem(X, [1.0, -1.0], C=1e4, kernel="linear")
    result = kernel.solve(problem)
    beta = result.state.beta.astype(np.longdouble)
    primal, _ = bounds(problem, true_matrix(problem.kernel, X), beta, np.longdouble(result.state.intercept))
    assert result.certificate.primal >= primal
    assert result.stop_reason == "rounding"
    with pytest.warns(ConvergenceWarning, match="what the rounding of float64 may hide"):
        SVC(kernel="linear", C=1e4).fit(X, [0, 1])


@pytest.mark.parametrize("off", [1e-12, -1e-12, 1e-7])
def test_coefficients_that_do_not_sum_up_prove_less(off):
    """They are no dual point; the bound is that of one nearby, or there is none."""
    X, y = rows(40)
    problem = machine("svc", X, y, 2.0)
    result = kernel.solve(problem, tol=1e-10)
    beta, K = result.state.beta.copy(), true_matrix(problem.kernel, X)
    free = np.flatnonzero((np.abs(beta) > 0.1) & (np.abs(beta) < 1.9))
    beta[free[0]] += off
    claimed = problem.certificate(beta, result.state.intercept)
    best = bounds(problem, K, result.state.beta.astype(np.longdouble), np.longdouble(result.state.intercept))[0]
    assert claimed.dual <= best
    if abs(off) < 1e-9:
        assert claimed.gap <= 1e-9 * claimed.primal
    else:
        assert claimed.dual == 0.0


@pytest.mark.parametrize("kernel_of", ["sigmoid", "precomputed", "function"])
def test_zero_is_no_bound_for_a_kernel_that_may_be_indefinite(kernel_of):
    """The objective of such a machine may be negative, so the gap is what rows add to it, however large."""
    X, y = rows(60)
    function = kernels.Sigmoid(1.0, -0.5)
    K = np.asarray(true_matrix(function, X), dtype=float)
    given = {"sigmoid": function, "precomputed": "precomputed", "function": lambda A, B: np.tanh(A @ B.T - 0.5)}
    problem = machine("svc", K if kernel_of == "precomputed" else X, y, 100.0, kernel=given[kernel_of])
    assert np.linalg.eigvalsh(K)[0] < -0.1
    beta = 50.0 * y * np.where(y > 0.0, np.mean(y < 0.0), np.mean(y > 0.0))
    claimed = problem.certificate(beta)
    primal, dual = bounds(problem, K, beta, problem.intercept(K @ beta))
    assert primal > 0.0 > dual
    assert primal - dual == pytest.approx(claimed.gap, rel=1e-9)


def test_a_kernel_known_to_be_positive_has_no_objective_below_zero():
    X, y = rows(60)
    for function in (kernels.Linear(), kernels.RBF(0.5), kernels.Polynomial(2, 1.0, 0.0)):
        claimed = machine("svc", X, y, 1.0, kernel=function).certificate(np.where(y > 0.0, 1.0, -0.5))
        assert claimed.dual >= 0.0
    assert not kernels.is_positive(kernels.Polynomial(2, 1.0, -0.5))


def test_the_certificate_of_all_classes_at_once_holds_in_extended_precision():
    X, _ = rows(60)
    y = np.arange(60) % 3
    for C, tol in ((1.0, 1e-3), (1e5, 1e-12)):
        problem = KernelClasses(X, y, C, kernels.RBF(0.5))
        result = run(KernelLaRank(), problem, tol=tol, max_iter=100)
        beta = result.state.beta.astype(np.longdouble)
        F = true_matrix(problem.kernel, X) @ beta
        margins = F - F[np.arange(60), y][:, None] + (np.arange(3) != y[:, None])
        primal = (beta * F).sum() / 2 + C * margins.max(axis=1).sum()
        dual = beta[np.arange(60), y].sum() - (beta * F).sum() / 2
        claimed = result.certificate
        assert primal - dual <= claimed.gap
        assert primal <= claimed.primal
        assert claimed.rounding > 0.0


@pytest.mark.parametrize("function", [kernels.RBF(0.3), kernels.Linear(), kernels.Polynomial(2, 0.1, 1.0)])
@pytest.mark.parametrize("case", ["narrow", "wide", "csr"])
def test_sums_among_the_same_rows_need_each_value_once(case, function):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2600, {"narrow": 7, "wide": 80, "csr": 200}[case])) / 9.0  # several tiles of columns
    X = csr_matrix(np.where(np.abs(X) > 0.15, X, 0.0)) if case == "csr" else X
    J, beta = np.sort(rng.permutation(2600)[:2305]), rng.normal(size=2305)
    found = []
    for n_jobs in (1, 2, 3):
        values = KernelValues(function, as_rows(X)[0], n_jobs)
        found.append(values.apply_symmetric(J, beta))
        assert values.n_values < 0.8 * len(J) ** 2
    wanted = KernelValues(function, as_rows(X)[0]).apply(J, J, beta, np.float64)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-11, atol=1e-11)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_loss_that_rounding_hides_is_in_the_certificate():
    """t - b rounds to epsilon, but is more than that: of coefficients that are all zero, too."""
    t, b = 3.0, 0.1
    epsilon = t - b
    assert Fraction(t) - Fraction(b) > Fraction(epsilon)
    problem = KernelProblem([[0.0], [0.0]], [t, t], C=1e3, loss=losses.EpsilonInsensitive(epsilon))
    exact = 2000 * max(Fraction(t) - Fraction(b) - Fraction(epsilon), Fraction(0))
    claimed = problem.certificate(np.zeros(2), b)
    assert Fraction(claimed.primal) >= exact
    assert claimed.rounding > 0.0
    inside = problem.certificate(np.zeros(2), t)
    assert inside.primal == inside.gap == inside.rounding == 0.0
