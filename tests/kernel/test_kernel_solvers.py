"""Every exact kernel solver: optimality by independent code, and what all solvers promise."""

import numpy as np
import pytest
from machines import MACHINES, assert_optimal, bounds, machine, matrix, optimum, rows
from scipy.sparse import csr_matrix
from sklearn.svm import SVC, SVR, OneClassSVM

from maxmargin.problem.duplicates import merge_duplicates
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_program import Program, best_intercept
from maxmargin.solvers import kernel
from maxmargin.solvers.kernel.block import solve_working_set
from maxmargin.solvers.kernel.block_smo import BlockSMO

EXACT = ["smo", "block_smo", "auto"]
every_solver = pytest.mark.parametrize("solver", EXACT)


@every_solver
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_reaches_the_gap_that_it_claims(solver, kind, sparse, C):
    X, y = rows(sparse=sparse)
    problem = machine(kind, X, y, C)
    result = kernel.solve(problem, solver, tol=1e-8)
    assert result.stop_reason == "converged"
    assert_optimal(problem, X, result, 1e-8)


@every_solver
@pytest.mark.parametrize("kind", MACHINES)
def test_same_optimum_as_a_general_qp_solver(solver, kind):
    X, y = rows(24)
    problem = machine(kind, X, y, 2.0)
    result = kernel.solve(problem, solver, tol=1e-10)
    _, value = optimum(problem, matrix(problem, X))
    assert -value == pytest.approx(result.certificate.dual, rel=1e-6)


@every_solver
@pytest.mark.parametrize(("kind", "peer"), [("svc", SVC), ("svr", SVR), ("one_class", OneClassSVM)])
def test_same_objective_and_intercept_as_libsvm(solver, kind, peer):
    X, y = rows(150)
    problem = machine(kind, X, y, 5.0)
    result = kernel.solve(problem, solver, tol=1e-9)
    options = {"nu": 0.3} if kind == "one_class" else {"C": 5.0}
    fitted = peer(gamma=0.5, tol=1e-9, **options).fit(X, problem.y)
    beta = np.zeros(len(y))
    beta[fitted.support_] = fitted.dual_coef_[0]
    if kind == "svc" and fitted.classes_[1] < 0:
        beta = -beta
    K = matrix(problem, X)
    _, dual = bounds(problem, K, beta, fitted.intercept_[0])
    assert result.certificate.dual == pytest.approx(dual, rel=1e-6)
    assert result.state.intercept == pytest.approx(fitted.intercept_[0], rel=1e-4, abs=1e-5)


@every_solver
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("gamma", [1e-4, 1.0, 1e4])
def test_any_c_and_gamma(solver, C, gamma):
    X, y = rows(50, 3, seed=2)
    X[10:14] = X[20:24]  # duplicates, some with the other label
    X[30:33] = 0.0
    problem = machine("svc", X, y, C, gamma=gamma)
    result = kernel.solve(problem, solver, tol=1e-7)
    assert_optimal(problem, X, result, 1e-7)


@every_solver
@pytest.mark.parametrize("options", [
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0},
    {"kernel": lambda A, B: (A @ B.T + 1.0) ** 2},
], ids=["linear", "poly", "callable"])  # fmt: skip
def test_other_kernels(solver, options):
    X, y = rows(60)
    problem = machine("svc", X, y, 0.5, **options)
    assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-7), 1e-7)


@every_solver
def test_precomputed_equals_computed(solver):
    X, y = rows(60)
    computed = machine("svc", X, y)
    precomputed = machine("svc", matrix(computed, X), y, kernel="precomputed")
    one, two = (kernel.solve(problem, solver, tol=1e-9) for problem in (computed, precomputed))
    np.testing.assert_allclose(one.state.beta, two.state.beta, atol=1e-4)
    assert one.certificate.primal == pytest.approx(two.certificate.primal, rel=1e-8)


@every_solver
def test_an_indefinite_kernel_ends_at_a_stationary_point(solver):
    X, y = rows(60)
    problem = machine("svc", X, y, kernel="sigmoid", gamma=1.0, coef0=-0.5)
    assert np.linalg.eigvalsh(matrix(problem, X)).min() < -0.1
    result = kernel.solve(problem, solver, tol=1e-6, max_iter=1e5)
    assert result.stop_reason == "converged"
    assert problem.certificate(result.state.beta).gap <= 1e-6 * abs(result.certificate.primal) * 1.01


@every_solver
def test_one_row_of_a_class_and_only_one_class(solver):
    X, _ = rows(30)
    lonely = np.where(np.arange(30) == 7, 1.0, -1.0)
    problem = machine("svc", X, lonely, 3.0)
    assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-8), 1e-8)
    problem = machine("svc", X, np.ones(30), 3.0)
    result = kernel.solve(problem, solver)
    assert not result.state.beta.any()
    assert result.certificate.primal == 0.0


@every_solver
@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_weights_are_repetitions(solver, kind):
    X, y = rows(40)
    weights = np.random.default_rng(3).integers(0, 3, 40)
    weighted = machine(kind, X, y, sample_weight=weights)
    repeated = machine(kind, np.repeat(X, weights, axis=0), np.repeat(y, weights))
    if kind == "svr":
        t = np.repeat(weighted.y, weights)
        repeated = type(repeated)(np.repeat(X, weights, axis=0), t, 1.0, weighted.loss, gamma=0.5)
    one, two = (kernel.solve(problem, solver, tol=1e-9) for problem in (weighted, repeated))
    assert one.certificate.primal == pytest.approx(two.certificate.primal, rel=1e-7)
    assert not one.state.beta[weights == 0].any()


@every_solver
def test_storage_and_precision_do_not_matter(solver):
    X, y = rows(80, sparse=True)
    reference = kernel.solve(machine("svc", X.toarray(), y), solver, tol=1e-9)
    for other in (X, X.astype(np.float32), X.toarray().astype(np.float32)):
        result = kernel.solve(machine("svc", other, y), solver, tol=1e-9)
        assert result.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-6)
    wide = csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    narrow, long = (kernel.solve(machine("svc", A, y), solver, tol=1e-6) for A in (X, wide))
    np.testing.assert_array_equal(narrow.state.beta, long.state.beta)


@every_solver
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_threads_do_not_change_a_bit(solver, sparse):
    X, y = rows(700, sparse=sparse)
    one, two = (kernel.solve(machine("svc", X, y, n_jobs=n_jobs), solver, tol=1e-6) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.state.beta, two.state.beta)
    assert one.certificate == two.certificate


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_threads_do_not_change_a_bit_of_samples_rounds_and_certificate(sparse):
    X, y = rows(6000, 6, sparse=sparse)  # several tiles of columns, and chunks of rows
    solver = BlockSMO(first_sample=2000, growth=2.0, least_active=0)
    one, *others = (kernel.solve(machine("svc", X, y, 5.0, n_jobs=n_jobs), solver, tol=1e-3) for n_jobs in (1, 2, 3))
    assert one.history["rounds"][-1] > 3
    for other in others:
        np.testing.assert_array_equal(one.state.beta, other.state.beta)
        np.testing.assert_array_equal(one.state.f, other.state.f)
        assert one.certificate == other.certificate


@every_solver
@pytest.mark.parametrize("kind", MACHINES)
def test_a_warm_start_at_the_optimum_stops_at_once(solver, kind):
    X, y = rows(80)
    problem = machine(kind, X, y)
    result = kernel.solve(problem, solver, tol=1e-6)
    again = kernel.solve(problem, solver, tol=1e-5, start=result)
    assert again.stop_reason == "converged"
    assert again.passes <= 1.0
    np.testing.assert_allclose(again.state.beta, result.state.beta, atol=1e-9)


@every_solver
def test_a_warm_start_from_another_problem_is_made_feasible(solver):
    X, y = rows(80)
    result = kernel.solve(machine("svc", X, y, 10.0), solver, tol=1e-6)
    problem = machine("svc", X, -y, 1.0)
    assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-7, start=result), 1e-7)


@every_solver
def test_a_run_goes_on_from_its_checkpoint(solver, tmp_path):
    X, y = rows(300)
    path = tmp_path / "run"
    stop = iter([False, True])
    kernel.solve(machine("svc", X, y, 50.0), solver, tol=1e-8, checkpoint=path, callbacks=[lambda _: next(stop, True)])
    problem = machine("svc", X, y, 50.0)
    result = kernel.solve(problem, solver, tol=1e-8, checkpoint=path)
    assert_optimal(problem, X, result, 1e-8)
    with pytest.raises(ValueError, match="belongs to other data"):
        kernel.solve(machine("svc", X, y, 50.0, gamma=0.7), solver, checkpoint=path)


@every_solver
def test_a_small_cache_changes_nothing_but_the_work(solver):
    X, y = rows(300)
    for megabytes in (1e-3, 0.1):
        problem = machine("svc", X, y, 10.0, cache_size=megabytes)
        assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-7), 1e-7)


@every_solver
def test_the_certificate_of_a_run_that_was_stopped_is_of_its_own_intercept(solver):
    X, y = rows(400)
    problem = machine("svc", X, y, 1e2)
    for start in (None, kernel.solve(problem, solver, tol=1e-2)):
        result = kernel.solve(problem, solver, tol=0.0, max_iter=2.0, start=start)
        primal, dual = bounds(problem, matrix(problem, X), result.state.beta, result.state.intercept)
        assert result.certificate.primal == pytest.approx(primal, rel=1e-8)
        assert result.certificate.dual == pytest.approx(max(dual, 0.0), rel=1e-8)


@every_solver
def test_limits_and_callbacks(solver):
    X, y = rows(400)
    problem = machine("svc", X, y, 1e3)
    assert kernel.solve(problem, solver, tol=0.0, max_iter=1.0).stop_reason == "max_iter"
    assert kernel.solve(problem, solver, tol=0.0, max_time=0.05).stop_reason == "max_time"
    seen = []
    result = kernel.solve(problem, solver, tol=1e-3, callbacks=[lambda p: seen.append(p.passes)])
    assert seen == sorted(seen)
    assert result.history["relative_gap"][-1] <= 1e-3


def test_a_solver_that_samples_and_freezes_rows_is_as_exact():
    X, y = rows(900)
    solver = BlockSMO(block_size=200, first_sample=60, growth=3.0, least_active=0)
    for kind in MACHINES:
        problem = machine(kind, X, y, 20.0)
        result = kernel.solve(problem, solver, tol=1e-8)
        assert result.history["rounds"][-1] > (1 if kind == "one_class" else 4)
        assert_optimal(problem, X, result, 1e-8)
    for megabytes, sparse in ((1.0, False), (1.0, True)):  # room for 87 kernel rows of 3000
        X, y = rows(3000, sparse=sparse)
        problem = machine("svc", X, y, 5.0, cache_size=megabytes)
        assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-4), 1e-4)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", MACHINES)
def test_duplicates_are_one_row_of_their_summed_weight(kind, sparse):
    X, y = rows(80, sparse=sparse)
    again = np.random.default_rng(4).integers(0, 80, 200)
    weights = np.random.default_rng(5).choice([0.0, 0.5, 2.0], 200)
    problem = machine(kind, X[again], y[again], 3.0, sample_weight=weights)
    if kind == "svr":
        problem = type(problem)(X[again], machine(kind, X, y).y[again], 3.0, problem.loss, gamma=0.5,
                                sample_weight=weights)  # fmt: skip
    merged = merge_duplicates(problem)
    dense = X.toarray() if sparse else X
    pairs = np.column_stack([dense[again], problem.target])[weights > 0.0]
    assert merged.problem.n_rows == len(np.unique(pairs, axis=0))
    result = kernel.solve(problem, "auto", tol=1e-8)
    assert_optimal(problem, X[again], result, 1e-8)
    reference = kernel.solve(problem, "smo", tol=1e-9)
    assert result.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-7)
    warm = kernel.solve(problem, "auto", tol=1e-7, start=result)
    assert warm.passes <= 1.0
    assert_optimal(problem, X[again], warm, 1e-7)


def test_errors_name_what_is_wrong():
    X, y = rows(10)
    with pytest.raises(ValueError, match="unknown kernel solver 'sgd'"):
        kernel.solve(machine("svc", X, y), "sgd")
    with pytest.raises(ValueError, match="square matrix"):
        machine("svc", X, y, kernel="precomputed")
    with pytest.raises(ValueError, match="kernel machines take the losses"):
        machine("logistic", X, y)
    with pytest.raises(ValueError, match="kernel must be"):
        machine("svc", X, y, kernel=3)
    with pytest.raises(ValueError, match="nu must be"):
        type(machine("svc", X, y)).one_class(X, 0.0)
    with pytest.raises(ValueError, match="cannot start at 3 coefficients"):
        kernel.solve(machine("svc", X, y), "smo", start=np.zeros(3))


@pytest.mark.parametrize("solver", ["smo", "svmlight"])
def test_rows_so_long_that_the_first_outputs_are_rounded_are_no_error(solver):
    """Outputs of 1e16 have no digits for the first level of violations: that is no reason to give up at the start."""
    X = np.random.default_rng(0).normal(size=(10, 3)) * 1e8
    result = kernel.solve(KernelProblem.one_class(X, 0.5, "linear"), solver, tol=1e-2, max_iter=200)
    assert np.isfinite(result.w).all()
    assert result.stop_reason in ("converged", "stalled", "max_iter")


def test_steps_whose_gain_float32_cannot_hold_stay_within_the_bounds():
    """Violations of 1e-16 beside kernel values of 1e14: their squares over them are zero in float32."""
    K = (1e14 * np.eye(4)).astype(np.float32)
    e = np.array([1e-16, -1e-16, 5e-17, 0.0])
    beta, zero = np.zeros(4), np.zeros(4)
    lower, upper = np.array([0.0, -1.0, 0.0, 0.0]), np.array([1.0, 0.0, 1.0, 1.0])  # the last can go up only
    solve_working_set(K, e, beta, Program(zero, zero, lower, upper, zero), 1e-18, 100)
    assert np.all((beta >= lower) & (beta <= upper))
    level = e[:3].mean()  # the three that are free have the same slope
    np.testing.assert_allclose(beta, [*(e[:3] - level) / 1e14, 0.0], rtol=0.02, atol=1e-32)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_rows_that_were_set_aside_count_in_the_end(sparse):
    """Rows far beyond the margin wait until the others are solved; the answer is that of all, and any threads' bits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where(X[:, 0] + 0.3 * np.sin(4.0 * X[:, 1]) > 0.0, 1.0, -1.0)
    storage = csr_matrix(X) if sparse else X
    solver, n_aside, betas = BlockSMO(first_sample=300, least_active=64), [], []
    for n_jobs in (1, 3):
        problem = KernelProblem(storage, y, 10.0, kernel="rbf", gamma=0.5, n_jobs=n_jobs)
        result = kernel.solve(
            problem, solver, tol=1e-5, callbacks=[lambda progress: n_aside.append(len(progress.state.aside)) or False]
        )
        assert result.stop_reason == "converged"
        betas.append(result.state.beta)
    assert max(n_aside) > 500
    np.testing.assert_array_equal(*betas)
    assert_optimal(problem, storage, result, 1e-5)


@pytest.mark.parametrize("kind", ["classes", "targets", "one class"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_intercept_of_many_rows_is_where_the_primal_is_least(kind, ties):
    """No point at which the slope of the primal changes is better."""
    rng = np.random.default_rng(1)
    n = 5000
    e = rng.integers(0, 7, n).astype(float) if ties else rng.normal(size=n)
    cost, y = rng.choice([0.5, 2.0], n), rng.choice([-1.0, 1.0], n)
    lower = {"classes": np.where(y < 0.0, -cost, 0.0), "targets": -cost, "one class": np.zeros(n)}[kind]
    upper = np.where(y > 0.0, cost, 0.0) if kind == "classes" else cost
    kink = np.full(n, 0.1 if kind == "targets" else 0.0)
    total = 0.3 * cost.sum() if kind == "one class" else 0.0

    def primal(b):
        z = e - b
        return (upper * np.maximum(z - kink, 0.0) - lower * np.maximum(-z - kink, 0.0)).sum() + total * b

    found = best_intercept(Program(e, kink, lower, upper, np.zeros(n)), e, total)
    around = np.concatenate([e - 0.1, e, e + 0.1])
    near = around[np.argsort(np.abs(around - found))[:200]]  # the primal is convex: what is near decides
    assert primal(found) <= min(primal(b) for b in near) * (1.0 + 1e-12)
