"""`solvers/tron.py` step by step against plain numpy, and what only this solver promises.

What every solver promises is in `test_contract.py`, for the method that "auto" takes on small data: "cholesky".
"""

import itertools

import naive
import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve
from maxmargin.data.rows import as_rows
from maxmargin.losses import Huber, Logistic, SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from maxmargin.solvers.base import Goal
from maxmargin.solvers.newton.tron import Tron

METHODS = ["cholesky", "line_search", "trust_region"]
LOSSES = [SquaredHinge(), Huber(0.5), Logistic(), SquaredError(), SquaredEpsilonInsensitive(0.3)]
STORAGES = {
    "dense": lambda X: X,
    "csr": samples.csr,
    "float32": lambda X: X.astype(np.float32),
    "csr32": lambda X: samples.csr(X, np.int64, np.float32),
}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)
every_method = pytest.mark.parametrize("method", METHODS)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def assert_same_bits(one, other):
    assert one.w.tobytes() == other.w.tobytes()
    assert one.passes == other.passes
    assert one.certificate == other.certificate


def weighted_problem(loss, storage="dense", n_rows=23, n_features=5):
    """A problem with costs of all kinds and an intercept; its rows with the intercept's column, in float64."""
    X, y = samples.sample(loss, n_rows=n_rows, n_features=n_features)
    X = X.astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).integers(0, 4, size=n_rows).astype(float)
    problem = Problem(STORAGES[storage](X), y, 0.7, loss, sample_weight=weight, bias=0.5)
    return problem, np.column_stack([X, np.full(n_rows, 0.5)])


# ---------------------------------------------------------------- step by step


@every_loss
@pytest.mark.parametrize("method", [*METHODS, "auto"])  # the latter takes its steps in a compiled loop
@pytest.mark.parametrize("C", [0.7, 50.0])
def test_every_pass_is_that_of_plain_numpy(loss, method, C):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, C, loss)
    oracle = naive.tron(X, y, problem.cost, loss, method="cholesky" if method == "auto" else method)
    for passes, w in itertools.takewhile(lambda point: point[0] <= 12, oracle):
        result = solve(problem, Tron(method), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)


@every_method
def test_an_iteration_is_one_step(method):
    problem, _ = weighted_problem(SquaredHinge())
    solver, state = Tron(method), Tron(method).init_state(problem)
    for steps in range(4):  # the first evaluates where it is
        state = solver.update(problem, state, Goal(0.0, 100.0))
        assert solver.counters(state)["steps"] == steps


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@every_storage
def test_steps_with_costs_of_their_own_and_an_intercept(method, storage):
    problem, X = weighted_problem(Logistic(), storage)
    oracle = naive.tron(X, problem.y, problem.cost, Logistic(), method="cholesky" if method == "auto" else method)
    for passes, w in itertools.takewhile(lambda point: point[0] <= 12, oracle):
        result = solve(problem, Tron(method), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-10)


def test_what_the_step_by_step_tests_go_through():
    """Else they would say less than they seem to."""
    events = {}
    for loss, method, C in itertools.product(LOSSES, METHODS, [0.7, 50.0]):
        X, y = samples.sample(loss, n_rows=20, n_features=3)
        oracle = naive.tron(X, y, np.full(20, C), loss, method=method, events=events)
        list(itertools.takewhile(lambda point: point[0] <= 12, oracle))
    assert set(events) == {"anew", "searches", "boundary", "rejected", "steps"}


def test_a_full_step_is_the_minimum_over_the_rows_within_the_margin():
    X, y = samples.sample("squared_hinge", n_rows=60)
    problem, solver = Problem(X, y, 0.3, "squared_hinge"), Tron("cholesky")
    state = solver.init_state(problem)
    while state.steps < 1:
        state = solver.update(problem, state, Goal(0.0, np.inf))
    # At w = 0 every row is within the margin.
    np.testing.assert_allclose(state.w, np.linalg.solve(X.T @ X + np.eye(5) / 0.6, X.T @ y), rtol=1e-12)
    before = y * (X @ state.w) < 1.0
    assert 0 < before.sum() < 60
    state = solver.update(problem, state, Goal(0.0, np.inf))
    inside = X[before]
    closed_form = np.linalg.solve(inside.T @ inside + np.eye(5) / 0.6, inside.T @ y[before])
    np.testing.assert_allclose(state.w, closed_form, rtol=1e-12)


def test_least_squares_take_one_step():
    X, y = samples.sample("squared_error", n_rows=50)
    result = solve(Problem(X, y, 10.0, "squared_error"), Tron(), tol=1e-12)
    np.testing.assert_allclose(result.w, np.linalg.solve(X.T @ X + np.eye(5) / 20.0, X.T @ y), rtol=1e-12)
    assert result.history["steps"][-1] == 1
    assert result.passes == 3.0  # zero, the matrix, the solution


# ---------------------------------------------------------------- derivatives


@every_loss
def test_the_second_derivative_is_the_slope_of_the_first(loss):
    kinks = np.array([*naive.kinks(loss), np.inf])
    for t in np.linspace(-3.0, 3.0, 61) + 0.003:
        if np.abs(kinks - t).min() > 0.002:
            slope = (losses.derivative(loss, t + 1e-5) - losses.derivative(loss, t - 1e-5)) / 2e-5
            assert losses.second_derivative(loss, t) == pytest.approx(slope, abs=1e-6)


def test_the_second_derivative_of_large_margins_does_not_overflow():
    assert losses.second_derivative(Logistic(), 1e4) == losses.second_derivative(Logistic(), -1e4) == 0.0
    with pytest.raises(TypeError, match="not a smooth loss"):
        losses.second_derivative(losses.Hinge(), 0.0)


@every_loss
@every_storage
def test_value_and_gradient(loss, storage):
    problem, X = weighted_problem(loss, storage)
    w = np.random.default_rng(1).normal(size=6)
    _, z, value, gradient = problem.evaluate(w)
    counts = problem.cost > 0
    np.testing.assert_allclose(z[counts], (X @ w)[counts], rtol=1e-12)
    assert not z[~counts].any()
    assert value == pytest.approx(naive.primal(X, problem.y, problem.cost, loss, w), rel=1e-12)
    np.testing.assert_allclose(gradient, naive.gradient(X, problem.y, problem.cost, loss, w), rtol=1e-10, atol=1e-10)
    for j in range(6):  # and the oracle's gradient is that of the oracle's value
        e = 1e-6 * np.eye(6)[j]
        ahead, behind = (naive.primal(X, problem.y, problem.cost, loss, w + d) for d in (e, -e))
        assert gradient[j] == pytest.approx((ahead - behind) / 2e-6, rel=1e-4, abs=1e-4)


@every_storage
def test_products_and_matrices_are_those_of_numpy(storage):
    problem, X = weighted_problem(SquaredHinge(), storage, n_rows=300, n_features=6)
    rng = np.random.default_rng(2)
    D, v = rng.normal(size=300) * (rng.random(300) < 0.7), rng.normal(size=7)
    expected = X.T @ (D[:, None] * X)
    np.testing.assert_allclose(problem.hessian_product(D, v), expected @ v, rtol=1e-10)
    gram = problem.gram(D)
    np.testing.assert_allclose(np.triu(gram[:7, :7]), np.triu(expected), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.triu(problem.gram(-D, onto=gram)), 0.0, atol=1e-10)  # taken away as they are added
    np.testing.assert_allclose(problem.column_squares(), (X**2).T @ problem.cost, rtol=1e-12)
    sizes = np.full(300, 7) if storage in ("dense", "float32") else np.count_nonzero(X, axis=1)
    assert problem.gram_work == np.sum(sizes * (sizes + 1)) / 2


@every_storage
def test_no_rows_add_nothing(storage):
    problem, _ = weighted_problem(SquaredHinge(), storage)
    assert not problem.hessian_product(np.zeros(23), np.ones(6)).any()
    assert not problem.gram(np.zeros(23)).any()


def test_the_hessian_of_every_loss_is_the_slope_of_its_gradient():
    for loss in LOSSES:
        problem, X = weighted_problem(loss)
        w = np.random.default_rng(3).normal(size=6)
        D, total, n_curved = problem.curvatures(X @ w)
        assert (total, n_curved) == (pytest.approx(D.sum()), np.count_nonzero(D))
        H = np.eye(6) + X.T @ (D[:, None] * X)
        for j in range(6):
            e = 1e-7 * np.eye(6)[j]
            ahead, behind = (naive.gradient(X, problem.y, problem.cost, loss, w + d) for d in (e, -e))
            np.testing.assert_allclose(H[j], (ahead - behind) / 2e-7, atol=1e-5)


@every_loss
def test_slopes_along_a_line(loss):
    problem, X = weighted_problem(loss)
    w, s = np.random.default_rng(4).normal(size=(2, 6))

    def risk(step):
        return naive.primal(X, problem.y, problem.cost, loss, w + step * s) - 0.5 * np.sum((w + step * s) ** 2)

    first, second = problem.along(X @ w, X @ s, 0.3)
    assert first == pytest.approx((risk(0.3 + 1e-6) - risk(0.3 - 1e-6)) / 2e-6, rel=1e-5, abs=1e-5)
    D = problem.cost * naive.curvature(loss, naive.argument(loss, X @ (w + 0.3 * s), problem.y))
    assert second == pytest.approx(D @ (X @ s) ** 2, rel=1e-10)


# ---------------------------------------------------------------- the answer


@every_loss
@every_method
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_the_certificate_is_that_of_the_problem(loss, method, storage):
    """It is read off the gradient; the problem computes a dual point, and the gap from all its rows."""
    X, y = samples.sample(loss, n_rows=40)
    problem = Problem(STORAGES[storage](X), y, 2.0, loss, bias=1.0)
    for max_iter in (2, 6.5, 30):
        result = solve(problem, Tron(method), tol=1e-9, max_iter=max_iter)
        honest = problem.certificate(result.w)
        assert result.certificate.primal == pytest.approx(honest.primal, rel=1e-12)
        assert result.certificate.gap == pytest.approx(honest.gap, rel=1e-6, abs=1e-12 * honest.primal)
    assert result.stop_reason == "converged"


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@every_method
def test_the_optimum_is_that_of_scikit_learn(C, method):
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC, LinearSVR

    peers = {
        "squared_hinge": LinearSVC(C=C, dual=False, fit_intercept=False, tol=1e-12, max_iter=10**6),
        "logistic": LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-12),
        "squared_epsilon_insensitive": LinearSVR(
            C=C, loss="squared_epsilon_insensitive", epsilon=0.1, dual=False, fit_intercept=False, tol=1e-12
        ),
    }
    for loss, peer in peers.items():
        X, y = samples.sample(loss, n_rows=80)
        problem = Problem(X, y, C, loss)
        result = solve(problem, Tron(method), tol=1e-12)
        assert result.stop_reason == "converged"
        theirs = peer.fit(X, y).coef_.ravel()
        assert problem.primal(theirs) == pytest.approx(result.certificate.primal, rel=1e-8)
        np.testing.assert_allclose(result.w, theirs, atol=1e-5)


@every_loss
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_features_from_0_to_255_and_any_C(loss, C):
    """Columns of very different size, some rarely there, as pixels are."""
    rng = np.random.default_rng(0)
    X = np.floor(256 * rng.random((400, 12))) * (rng.random((400, 12)) < np.linspace(0.01, 0.9, 12))
    z = (X - X.mean()) @ rng.normal(size=12) / 100 + rng.normal(size=400)
    y = np.sign(z) if losses.is_margin_loss(loss) else z
    result = solve(Problem(X, y, C, loss, bias=1.0), Tron(), tol=1e-6, max_iter=300)
    assert result.stop_reason == "converged"


@every_method
def test_large_C_on_data_of_unit_size(method):
    X, y = samples.sample("squared_hinge", n_rows=200, n_features=20)
    for loss, C in itertools.product(["squared_hinge", "logistic"], [1e-4, 1e4]):
        assert solve(Problem(X, y, C, loss), Tron(method), tol=1e-6).stop_reason == "converged"


@every_method
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_empty_rows_one_feature_one_row(method, storage):
    make = STORAGES[storage]
    X, y = samples.sample("logistic", n_rows=12, n_features=4)
    for rows, labels in [(np.zeros((12, 4)), y), (X[:, :1], y), (X[:1], y[:1]), (np.tile(X[:1], (12, 1)), y)]:
        result = solve(Problem(make(rows), labels, 0.5, "logistic"), Tron(method), tol=1e-9)
        assert result.stop_reason == "converged"
        assert result.w.any() == rows.any()


def test_the_last_step_is_no_more_exact_than_it_must_be():
    """Conjugate gradients stop at the residual that the goal asks for."""
    X, y = samples.sample("squared_error", n_rows=300, n_features=40)
    problem = Problem(X, y, 1e-3, "squared_error")
    loose, tight = (solve(problem, Tron("line_search"), tol=tol) for tol in (1e-2, 1e-10))
    assert loose.history["products"][-1] < tight.history["products"][-1]
    assert loose.certificate.relative_gap > 1e-9  # a part of the way only


# ---------------------------------------------------------------- the choice of a method


def badly_scaled(n_rows, n_features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * np.logspace(-2, 2, n_features)
    return X, np.sign(rng.normal(size=n_rows))


def test_auto_takes_a_matrix_where_it_is_cheap():
    X, y = badly_scaled(200, 10)
    result = solve(Problem(X, y, 1.0, "logistic"), Tron(), tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.history["products"][-1] == 0


def test_auto_changes_to_a_matrix_when_products_have_cost_as_much():
    X, y = badly_scaled(500, 300)
    problem = Problem(X, y, 1.0, "squared_hinge")
    result = solve(problem, Tron(), tol=1e-6)
    products = result.history["products"][-1]
    assert result.stop_reason == "converged"
    assert 10 < products < solve(problem, Tron("line_search"), tol=1e-6, max_iter=200).history["products"][-1]
    assert result.state.matrix_D.any()
    assert solve(problem, Tron("cholesky"), tol=1e-6).certificate.primal == pytest.approx(
        result.certificate.primal, rel=1e-6
    )


def test_auto_stays_with_products_where_few_of_them_do():
    X, y = badly_scaled(500, 300)
    result = solve(Problem(X / X.std(axis=0), y, 1e-4, "squared_hinge"), Tron(), tol=1e-6)
    assert result.stop_reason == "converged"
    assert 0 < result.history["products"][-1] < 20
    assert result.state.matrix.gram.size == 0


def test_auto_makes_no_matrix_that_is_large_beside_the_data():
    X, y = badly_scaled(60, 2100)
    result = solve(Problem(X, y, 1.0, "squared_hinge"), Tron(), tol=1e-3, max_iter=500)
    assert result.history["products"][-1] > 30
    assert result.state.matrix.gram.size == 0


def test_bad_arguments():
    with pytest.raises(
        ValueError, match="method must be one of auto, cholesky, line_search, trust_region; got 'newton'"
    ):
        Tron("newton")
    X, y = samples.sample("logistic")
    with pytest.raises(ValueError, match="does not take loss 'hinge'; it takes squared_hinge, huber, logistic"):
        solve(Problem(X, y, 1.0, "hinge"), Tron())
    start = solve(Problem(X, y, 1.0, "logistic"), Tron())
    with pytest.raises(ValueError, match="cannot start at 5 weights: the problem has 4"):
        solve(Problem(X[:, :4], y, 1.0, "logistic"), Tron(), start=start)


# ---------------------------------------------------------------- starts, pauses, threads


@every_method
def test_a_start_from_another_solver_needs_its_w_alone(method):
    X, y = samples.sample("squared_hinge", n_rows=60)
    problem = Problem(X, y, 0.5, "squared_hinge")
    near = solve(problem, "dual_cd", tol=1e-6)
    result = solve(problem, Tron(method), tol=1e-10, start=near)
    assert result.stop_reason == "converged"
    assert result.history["steps"][-1] < solve(problem, Tron(method), tol=1e-10).history["steps"][-1]


@every_method
def test_a_run_from_checkpoint_to_checkpoint_is_one_run(method, tmp_path):
    X, y = samples.sample("logistic", n_rows=60)
    problem, path = Problem(X, y, 0.5, "logistic"), tmp_path / "state"
    whole = solve(problem, Tron(method), tol=1e-7)
    for _ in range(3):
        solve(problem, Tron(method), tol=1e-7, checkpoint=path, callbacks=[lambda _: True])
    assert_same_bits(solve(problem, Tron(method), tol=1e-7, checkpoint=path), whole)


@every_method
def test_a_row_without_cost_is_no_row(method):
    X, y = samples.sample("squared_hinge", n_rows=50)
    kept = np.random.default_rng(0).random(50) < 0.6
    weighted = solve(Problem(X, y, 3.0, "squared_hinge", sample_weight=kept.astype(float)), Tron(method), tol=1e-6)
    removed = solve(Problem(X[kept], y[kept], 3.0, "squared_hinge"), Tron(method), tol=1e-6)
    assert weighted.w.tobytes() == removed.w.tobytes()
    assert weighted.passes == removed.passes
    np.testing.assert_allclose(weighted.certificate, removed.certificate, rtol=1e-9, atol=1e-9)


def test_the_data_are_not_copied():
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 60))
    y = np.sign(X[:, 0] + rng.normal(size=20_000))
    for matrix, method in itertools.product((X, samples.csr(X)), METHODS):
        rows, _ = as_rows(matrix)
        problem = Problem(matrix, y, 1.0, "squared_hinge")
        solve(problem, Tron(method), tol=1e-3)
        tracemalloc.start()
        solve(problem, Tron(method), tol=1e-3)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 0.3 * sum(part.nbytes for part in rows if isinstance(part, np.ndarray))


@every_loss
def test_a_small_problem_is_solved_in_a_compiled_loop(loss):
    """Its steps are those that passes over the data make; several are one update."""
    X, y = samples.sample(loss, n_rows=150, n_features=6)
    problem = Problem(X, y, 1.0, loss, bias=1.0)
    small, by_passes = (solve(problem, Tron(method), tol=1e-9) for method in ("auto", "cholesky"))
    assert small.passes == by_passes.passes
    np.testing.assert_allclose(small.w, by_passes.w, rtol=1e-9, atol=1e-12)
    calls = []
    solve(problem, Tron(), tol=1e-9, callbacks=[lambda progress: calls.append(progress.passes)])
    assert len(calls) > 1  # whoever watches sees every pass


def test_a_matrix_that_rounding_has_spoilt_is_left_to_the_search():
    """Features that depend on each other under a weight that hides the identity: Cholesky fails in the loop."""
    x = np.random.default_rng(0).normal(size=(40, 1))
    X, y = np.hstack([x, x, -x]), np.sign(x[:, 0] + 0.5 * np.random.default_rng(1).normal(size=40))
    problem = Problem(X, y, 1e20, "squared_hinge")
    result = solve(problem, Tron(), tol=1e-3, max_iter=50)
    assert np.isfinite(result.w).all()
    assert result.certificate.primal < 0.9 * problem.primal(np.zeros(3))
