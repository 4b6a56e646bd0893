"""`solvers/primal_cd.py` step by step against plain numpy, and the L1 penalty, which only this solver takes.

What every solver promises is in `test_contract.py`, for the L2 penalty.
"""

import functools
import gc
import itertools
import os
import subprocess
import sys
import weakref

import naive
import numpy as np
import pytest
import samples
from naive.primal_cd import primal_cd
from sklearn.datasets import load_breast_cancer

from maxmargin import Problem, losses, solve
from maxmargin._jit import JIT_DISABLED
from maxmargin.data.source import Paused, pausing
from maxmargin.losses import Huber, Logistic, SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate import columns as _columns
from maxmargin.solvers.coordinate import coordinates as _coordinates
from maxmargin.solvers.coordinate import l1_newton as _l1_newton
from maxmargin.solvers.coordinate import primal_cd as module
from maxmargin.solvers.coordinate.coordinates import Moving, columnwise
from maxmargin.solvers.coordinate.primal_cd import PrimalCD

LOSSES = [SquaredHinge(), Logistic(), Huber(0.5), SquaredError(), SquaredEpsilonInsensitive(0.3)]
STORAGES = {
    "dense": lambda X: X,
    "csr": samples.csr,
    "float32": lambda X: X.astype(np.float32),
    "csr32": lambda X: samples.csr(X, np.int64, np.float32),
}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)
every_penalty = pytest.mark.parametrize("penalty", ["l2", "l1"])
every_storage = pytest.mark.parametrize("storage", STORAGES)


def assert_same_bits(one, other):
    assert one.w.tobytes() == other.w.tobytes()
    assert one.passes == other.passes
    assert one.certificate == other.certificate


def one_hot(n_rows=400, n_groups=6, n_values=5, seed=0):
    """Groups of columns that add up to one: they depend on each other."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_values, size=(n_rows, n_groups))
    X = (codes[:, :, None] == np.arange(n_values)).reshape(n_rows, -1).astype(float)
    z = X @ rng.normal(size=X.shape[1])
    return X, np.where(z - z.mean() + rng.normal(size=n_rows) > 0, 1.0, -1.0)


# ---------------------------------------------------------------- step by step


def iterates(problem, solver, seed):
    """w after each update; all features come back when none is left, as the loop has it."""
    state, goal = solver.init_state(problem, seed), Goal(0.0, 1000.0)
    while True:
        if state.sweep.n_kept == 0:
            state = solver.reconsider(problem, state, goal, solver.certificate(problem, state))
        state = solver.update(problem, state, goal)
        yield state.w


@every_loss
@every_penalty
@pytest.mark.parametrize("C", [0.1, 0.7, 20.0])
def test_every_sweep_is_that_of_plain_numpy(loss, penalty, C):
    X, y = samples.sample(loss, n_rows=20, n_features=4)
    problem = Problem(X, y, C, loss, penalty=penalty)
    oracle = primal_cd(X, y, problem.cost, loss, seed=3, penalty=penalty)
    for ours, (w,) in zip(iterates(problem, PrimalCD(newton=False), seed=3), itertools.islice(oracle, 8)):
        np.testing.assert_allclose(ours, w, rtol=1e-8, atol=1e-9)
        np.testing.assert_array_equal(ours == 0.0, w == 0.0)


@every_penalty
@every_storage
def test_steps_with_costs_of_their_own_and_an_intercept(penalty, storage):
    X, y = samples.sample("logistic", n_rows=23)
    X = X.astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).integers(0, 4, size=23).astype(float)
    problem = Problem(STORAGES[storage](X), y, 0.7, "logistic", sample_weight=weight, bias=0.3, penalty=penalty)
    full = np.column_stack([X, np.full(23, 0.3)])
    oracle = primal_cd(full, y, problem.cost, Logistic(), seed=1, penalty=penalty, shrinking=False)
    solver = PrimalCD(shrinking=False, newton=False)
    for ours, (w,) in zip(iterates(problem, solver, seed=1), itertools.islice(oracle, 6)):
        np.testing.assert_allclose(ours, w, rtol=1e-8, atol=1e-9)


def test_what_the_step_by_step_tests_go_through():
    """Else they would say less than they seem to."""
    events = {}
    for loss, penalty, C in itertools.product(LOSSES, ["l2", "l1"], [0.1, 0.7, 20.0]):
        X, y = samples.sample(loss, n_rows=20, n_features=4)
        oracle = primal_cd(X, y, np.full(20, C), loss, seed=3, penalty=penalty, events=events)
        list(itertools.islice(oracle, 8))
    assert all(events[name] > 5 for name in ("shrunk", "proven", "searched", "halved"))


@every_loss
def test_the_parts_of_a_step(loss):
    rng = np.random.default_rng(0)
    for t, dt in zip(np.linspace(-2.5, 3.5, 41) + 1e-3, 0.8 * rng.normal(size=41)):
        slope = losses.derivative(loss, t)
        assert _coordinates.curvature(loss, slope) == pytest.approx(naive.curvature(loss, np.array(t)), rel=1e-9)
        exact = naive.phi(loss, t + dt) - naive.phi(loss, t)
        assert _coordinates.difference(loss, t, slope, dt) == pytest.approx(exact, rel=1e-9, abs=1e-13)
        # The mean curvature bounds what phi has more than its tangent.
        H, most = _coordinates.curvature(loss, slope), losses.largest_curvature(loss)
        bound = _coordinates.mean_curvature(loss, H, most, abs(dt))
        assert exact - slope * dt <= 0.5 * bound * dt**2 * (1 + 1e-9) + 1e-15
        assert H * (1 - 1e-9) <= bound <= most
    assert _coordinates.difference(loss, 0.3, losses.derivative(loss, 0.3), 0.0) == 0.0


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), SquaredError()], ids=losses.name_of)
def test_differences_have_digits_where_values_have_none(loss):
    slope = losses.derivative(loss, -0.5)
    for dt in (1e-12, -1e-12):
        expected = slope * dt + 0.5 * _coordinates.curvature(loss, slope) * dt**2
        assert _coordinates.difference(loss, -0.5, slope, dt) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- the L1 penalty


LIBLINEAR = {"squared_hinge": 5, "logistic": 6}


@functools.cache
def liblinear_weights(loss, C, n_rows=80, n_features=8):
    X, y = samples.sample(loss, n_rows=n_rows, n_features=n_features)
    options = f"-s {LIBLINEAR[loss]} -c {C} -e 1e-10"
    return samples.liblinear_weights(X, y, options, Problem(X, y, C, loss, penalty="l1").primal)


@pytest.mark.parametrize("loss", LIBLINEAR)
@pytest.mark.parametrize("C", [0.03, 0.1, 0.5, 5.0])
@pytest.mark.parametrize("newton", [True, False])
def test_the_optimum_is_that_of_liblinear(loss, C, newton):
    X, y = samples.sample(loss, n_rows=80, n_features=8)
    theirs = liblinear_weights(loss, C)
    for make in (np.asarray, samples.csr):
        problem = Problem(make(X), y, C, loss, penalty="l1")
        result = solve(problem, PrimalCD(newton=newton), tol=1e-10)
        assert result.stop_reason == "converged"
        assert result.certificate.primal == pytest.approx(problem.primal(theirs), rel=1e-8)
        np.testing.assert_allclose(result.w, theirs, atol=1e-5)
        np.testing.assert_array_equal(result.w != 0.0, theirs != 0.0)


def test_the_supports_that_are_compared_are_no_trivial_ones():
    sizes = {np.count_nonzero(liblinear_weights(loss, C)) for loss in LIBLINEAR for C in (0.03, 0.1, 0.5)}
    assert 0 in sizes
    assert any(0 < size < 8 for size in sizes)


@pytest.mark.parametrize("C", [0.05, 0.5, 20.0])
def test_squared_error_is_the_lasso(C):
    from sklearn.linear_model import Lasso

    X, y = samples.sample("squared_error", n_rows=60, n_features=10)
    result = solve(Problem(X, y, C, "squared_error", penalty="l1"), PrimalCD(), tol=1e-12)
    # 1 / (2 n) |y - Xw|^2 + a |w|_1 is P / (2 n C) for a = 1 / (2 n C).
    lasso = Lasso(alpha=1 / (2 * 60 * C), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(result.w, lasso.coef_, atol=1e-6)
    np.testing.assert_array_equal(result.w != 0.0, lasso.coef_ != 0.0)


@pytest.mark.parametrize(
    ("loss", "storage"),
    [*itertools.product(LOSSES, ["dense", "csr"]), (LOSSES[0], "float32"), (LOSSES[0], "csr32")],
    ids=lambda part: part if isinstance(part, str) else losses.name_of(part),
)
@pytest.mark.parametrize("C", [1e-3, 0.05, 1.0, 100.0])
def test_the_gap_is_below_the_tolerance(loss, C, storage):
    X, y = samples.sample(loss, n_rows=80)
    problem = Problem(STORAGES[storage](X), y, C, loss, bias=1.0, penalty="l1")
    result = solve(problem, PrimalCD(), tol=1e-7)
    assert result.stop_reason == "converged"
    assert result.certificate == problem.with_rounding(result.w, problem.certificate(result.w))[0]
    # The conditions of optimality, by plain numpy: |G_j| <= 1, and G_j = -sign(w_j) where w_j is not zero.
    full = np.column_stack([X, np.ones(80)])
    G = naive.gradient(full, y, problem.cost, loss, result.w) - result.w
    slack = 0.02 * max(1.0, C)  # the gap is quadratic in what is wrong with G
    assert np.all(np.abs(G) <= 1 + slack)
    np.testing.assert_allclose(G[result.w != 0], -np.sign(result.w[result.w != 0]), atol=slack)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_small_C_leaves_nothing_and_says_so_at_once(loss):
    X, y = samples.sample(loss, n_rows=40)
    result = solve(Problem(X, y, 1e-4, loss, penalty="l1"), PrimalCD(), tol=1e-9)
    assert not result.w.any()
    assert result.certificate.relative_gap <= 1e-12  # rounding alone
    assert result.passes == 1.0


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "huber"])
def test_columns_that_depend_on_each_other_need_newton_steps(loss):
    X, y = one_hot(n_rows=2000)
    problem = Problem(samples.csr(X), y, 1.0, loss, penalty="l1")
    quick = solve(problem, PrimalCD(), tol=1e-8)
    slow = solve(problem, PrimalCD(newton=False), tol=1e-8, max_iter=quick.passes)
    assert quick.stop_reason == "converged"
    assert quick.history["newton_steps"][-1] > 0
    assert slow.history["newton_steps"][-1] == 0
    assert slow.certificate.relative_gap > 100 * quick.certificate.relative_gap
    assert quick.certificate.dual <= slow.certificate.primal
    assert quick.certificate.primal <= slow.certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_newton_step_is_that_of_plain_numpy(storage, monkeypatch):
    """H and G of the model, its minimum, and t after it."""
    X, y = samples.sample("squared_error", n_rows=40, n_features=6)
    weight = np.random.default_rng(0).integers(0, 3, size=40).astype(float)
    problem = Problem(STORAGES[storage](X), y, 0.3, "squared_error", sample_weight=weight, bias=0.5, penalty="l1")
    full, features = np.column_stack([X, np.full(40, 0.5)]), np.array([6, 0, 2, 3])
    state, data = PrimalCD().init_state(problem), columnwise(problem)
    monkeypatch.setattr(_l1_newton, "_PART", 100)  # H is summed in parts
    model = _l1_newton.build(problem, data, state.slope, np.sort(features), 500.0)
    state, _ = _l1_newton.take_step(problem, data, Moving(state.w, state.t, state.slope), np.sort(features))
    some = full[:, np.sort(features)]
    H = 2 * some.T @ (problem.cost[:, None] * some)
    G = -2 * some.T @ (problem.cost * y)
    np.testing.assert_allclose(model.H, H, rtol=1e-12)
    np.testing.assert_allclose(model.G, G, rtol=1e-12)
    assert 0 < np.count_nonzero(state.w) == np.count_nonzero(state.w[features])
    np.testing.assert_allclose(state.t, (full @ state.w - y)[weight > 0], rtol=1e-10)
    np.testing.assert_allclose(state.slope, 2 * state.t, rtol=1e-12)
    # The loss is the model: what is left of the violation is what was allowed.
    whole = naive.gradient(full, y, problem.cost, SquaredError(), state.w) - state.w
    left = [module.violation(w, g) for w, g in zip(state.w[features], whole[features])]
    assert max(left) <= 0.01 * np.abs(G).max()


def test_the_model_is_minimised_where_sweeps_alone_get_nowhere(monkeypatch):
    """With columns that are nearly one: how far from optimal the answer of the model is, with faces and without."""
    rng = np.random.default_rng(3)
    common, target = rng.normal(size=60), rng.normal(size=60)
    target -= common * (common @ target) / (common @ common)  # what they have in common is of no use
    A = 300.0 * (common[:, None] + 0.01 * rng.normal(size=(60, 12)))
    H, weight = A.T @ A, rng.normal(size=12)
    model = _l1_newton.Model(np.arange(12), np.ones(12), None, H, -10.0 * A.T @ target)

    def left(most_faces):
        monkeypatch.setattr(_l1_newton, "_MOST_FACES", most_faces)
        d, work = _l1_newton._minimum(model, np.diag(H).copy(), weight, np.inf)
        assert work > 0.0
        return max(module.violation(w, g) for w, g in zip(weight + d, model.G + H @ d))

    assert 10.0 * left(50) < left(0)


def test_the_best_point_on_a_face_is_the_best_of_a_fine_grid():
    rng = np.random.default_rng(5)
    for _ in range(20):
        A, weight = rng.normal(size=(20, 6)), rng.normal(size=6) * (rng.random(6) < 0.8)
        H, G = A.T @ A, 10.0 * rng.normal(size=6)
        there = _l1_newton._best_on_face(H, np.zeros(6), weight, np.zeros(6), G)

        def of_model(d, H=H, G=G, weight=weight):
            return G @ d + 0.5 * d @ H @ d + np.abs(weight + d).sum()

        assert not there[weight == 0.0].any()
        face = np.flatnonzero(weight)
        whole = np.zeros(6)
        whole[face] = np.linalg.solve(H[np.ix_(face, face)], -(G[face] + np.sign(weight[face])))
        best = min(of_model(step * whole) for step in np.linspace(0.0, 1.0, 2001))
        assert best - 1e-3 * abs(best) <= of_model(there) <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("loss", ["huber", "squared_hinge"])
def test_unscaled_features_are_no_obstacle(loss):
    X, y = load_breast_cancer(return_X_y=True)
    problem = Problem(X, 2.0 * y - 1.0, 100.0, loss, bias=1.0, penalty="l1")
    result = solve(problem, "auto", tol=1e-3, max_iter=4000)
    assert result.stop_reason == "converged"


def test_newton_steps_are_shortened_until_they_help():
    """Far from the optimum a quadratic model of the logistic loss promises too much."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.sign(X[:, 0])
    problem = Problem(X, y, 1e3, "logistic", penalty="l1")
    start = type("Start", (), {"w": np.array([-40.0, 3.0, 0.0])})
    state = PrimalCD().init_state(problem, start=start)
    before = problem.primal(state.w)
    state, _ = _l1_newton.take_step(problem, columnwise(problem), Moving(state.w, state.t, state.slope), np.arange(3))
    assert problem.primal(state.w) < before
    np.testing.assert_allclose(state.t, y * (X @ state.w), atol=1e-9)


@every_penalty
def test_a_sweep_that_is_interrupted_leaves_everything_as_it_was(penalty, monkeypatch):
    X, y = samples.sample("logistic", n_rows=40, n_features=6)
    problem, solver, goal = Problem(X, y, 1.0, "logistic", penalty=penalty), PrimalCD(), Goal(1e-8, 1000.0)
    state = solver.update(problem, solver.init_state(problem), goal)
    kept = [part.copy() if isinstance(part, np.ndarray) else part for part in state]
    whole = solver.update(problem, state, goal)
    monkeypatch.setattr(module, "_BLOCK", 100)  # two or three features
    for n in (0, 1, 2):
        looks = itertools.count()
        with pausing(lambda looks=looks, n=n: next(looks) >= n), pytest.raises(Paused):
            solver.update(problem, state, goal)
        assert next(looks) == n + 1
    for before, now in zip(kept, state):
        np.testing.assert_array_equal(before, now)
    again = solver.update(problem, state, goal)
    assert again.w.tobytes() == whole.w.tobytes()
    assert again.sweep == whole.sweep


def test_a_newton_step_that_is_interrupted_leaves_everything_as_it_was():
    X, y = one_hot(n_rows=400)
    problem, solver, goal = Problem(samples.csr(X), y, 1.0, "logistic", penalty="l1"), PrimalCD(), Goal(1e-8, 1000.0)
    state = solver.init_state(problem)
    while not solver._is_time_for_newton(columnwise(problem), state):
        state = solver.update(problem, state, goal)
    kept = [part.copy() if isinstance(part, np.ndarray) else part for part in state]
    with pausing(lambda: True), pytest.raises(Paused):
        solver.update(problem, state, goal)
    for before, now in zip(kept, state):
        np.testing.assert_array_equal(before, now)
    assert solver.update(problem, state, goal).newton_steps == 1


# ---------------------------------------------------------------- shrinking


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_shrinking_saves_work_and_not_accuracy(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 300)) * (rng.random((100, 300)) < 0.1)
    y = np.sign(X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=100))
    problem = Problem(samples.csr(X), y, 0.5, loss, penalty="l1")
    with_shrinking, without = (
        solve(problem, PrimalCD(shrinking, newton=False), tol=1e-7) for shrinking in (True, False)
    )
    assert with_shrinking.stop_reason == without.stop_reason == "converged"
    assert with_shrinking.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-7)
    assert with_shrinking.history["active"].min() < 100
    assert np.all(without.history["active"] == 300)
    assert with_shrinking.passes < 0.7 * without.passes


def test_features_that_were_shrunk_too_early_come_back():
    X, y = samples.sample("squared_hinge", n_rows=60, n_features=8)
    problem, solver = Problem(X, y, 0.5, "squared_hinge", penalty="l1"), PrimalCD()
    state = solver.init_state(problem)
    state = state._replace(sweep=state.sweep._replace(n_kept=2))  # as if six had been shrunk
    goal = Goal(1e-8, 1000.0)
    while not solver.report(problem, state, goal).believes:
        state = solver.update(problem, state, goal)
    certificate = solver.certificate(problem, state)
    assert certificate.relative_gap > 1e-3
    assert np.count_nonzero(state.w) <= 2
    state = solver.reconsider(problem, state, goal, certificate)
    assert sorted(state.order) == list(range(8))
    assert not solver.report(problem, state, goal).believes
    optimum = solve(problem, solver, tol=1e-9)
    for _ in range(200):
        state = solver.update(problem, state, goal)
    assert problem.primal(state.w) == pytest.approx(optimum.certificate.primal, rel=1e-8)


# ---------------------------------------------------------------- the copy by columns


@every_storage
def test_columns_are_those_of_the_rows_that_have_a_cost(storage):
    X, y = samples.sample("squared_hinge", n_rows=150, n_features=70)
    X = X.astype(np.float32).astype(np.float64)
    kept = np.random.default_rng(0).random(150) < 0.6
    for weight, which in ((None, np.ones(150, dtype=bool)), (kept.astype(float), kept)):
        for bias in (0.0, 2.5):
            problem = Problem(STORAGES[storage](X), y, 1.0, "squared_hinge", sample_weight=weight, bias=bias)
            columns = _columns.columns_of(problem).transposed
            full = X[which].T if bias == 0.0 else np.vstack([X[which].T, np.ones(which.sum())])
            np.testing.assert_array_equal(_dense(columns), full)
            assert columns[0].dtype == problem.rows[0].dtype


def _dense(columns):
    if hasattr(columns, "values"):
        return columns.values
    out = np.zeros((len(columns.indptr) - 1, columns.n_features))
    for j, (begin, end) in enumerate(itertools.pairwise(columns.indptr)):
        assert np.all(np.diff(columns.indices[begin:end]) > 0)
        out[j, columns.indices[begin:end]] = columns.data[begin:end]
    return out


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_problems_of_the_same_rows_share_one_copy_and_it_dies_with_them(storage):
    X, y = samples.sample("squared_hinge")
    problem = Problem(STORAGES[storage](X), y, 1.0, "squared_hinge")
    others = [problem.with_labels(-y), problem.with_labels(y, cost=2.0 * problem.cost), problem.with_jobs(2)]
    columns = _columns.columns_of(problem)
    assert all(_columns.columns_of(other) is columns for other in others)
    assert _columns.columns_of(Problem(STORAGES[storage](X), y, 1.0, "squared_hinge", bias=1.0)) is not columns
    assert _columns.columns_of(problem.with_labels(y, cost=problem.cost * (np.arange(30) != 7))) is not columns
    solve(problem, PrimalCD(), tol=1e-2)
    alive = weakref.ref(columns)
    del problem, others, columns
    gc.collect()
    assert alive() is None


def test_a_state_holds_no_copy_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    result = solve(Problem(X, np.sign(X[:, 0]), 1.0, "squared_hinge", penalty="l1"), PrimalCD(), tol=1e-3)
    arrays = [part for part in result.state if isinstance(part, np.ndarray)]
    assert sum(array.size for array in arrays) < 0.05 * X.size


# ---------------------------------------------------------------- reproducibility, with the L1 penalty


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_run_that_is_stopped_and_resumed_is_one_run(loss, storage, tmp_path):
    """Before and after a Newton step; not near the end, which the certificate of a stop may find sooner."""
    X, y = one_hot(n_rows=3000, n_groups=3)
    problem, path = Problem(STORAGES[storage](X), y, 0.5, loss, penalty="l1"), tmp_path / "state"
    whole = solve(problem, PrimalCD(), tol=1e-7)
    assert whole.history["newton_steps"][-1] > 0
    calls, newton_steps = itertools.count(1), set()
    for _ in range(60):
        stopped = solve(problem, PrimalCD(), tol=1e-7, checkpoint=path, callbacks=[lambda _: next(calls) % 2 == 0])
        newton_steps.add(stopped.state.newton_steps)
        assert stopped.stop_reason == "callback"
        if stopped.state.newton_steps == 2:
            break
    assert newton_steps == {0, 1, 2}
    resumed = solve(problem, PrimalCD(), tol=1e-7, checkpoint=path)
    assert_same_bits(resumed, whole)
    for name in set(whole.history) - {"seconds"}:
        np.testing.assert_array_equal(resumed.history[name], whole.history[name], err_msg=name)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_watching_a_run_does_not_change_it(loss):
    X, y = one_hot()
    problem = Problem(X, y, 2.0, loss, penalty="l1")
    passes = [0.0]
    alone = solve(problem, PrimalCD(), tol=1e-8)
    watched = solve(problem, PrimalCD(), tol=1e-8, callbacks=[lambda progress: passes.append(progress.passes)])
    assert_same_bits(alone, watched)
    assert np.all(np.diff(passes) > 0)


def test_any_number_of_threads_gives_the_same_bits():
    X, y = one_hot(n_rows=20_000)
    for make in (np.asarray, samples.csr):
        problem = Problem(make(X), y, 1e-2, "logistic", penalty="l1")
        one, two, three = (solve(problem.with_jobs(n), PrimalCD(), tol=1e-6) for n in (1, 2, 3))
        assert one.history["newton_steps"][-1] > 0
        assert_same_bits(one, two)
        assert_same_bits(one, three)


@every_storage
def test_a_row_without_cost_is_no_row(storage):
    X, y = one_hot()
    kept = np.random.default_rng(0).random(400) < 0.6
    make = STORAGES[storage]
    weighted = solve(Problem(make(X), y, 3.0, "logistic", sample_weight=kept, penalty="l1"), PrimalCD(), tol=1e-8)
    removed = solve(Problem(make(X[kept]), y[kept], 3.0, "logistic", penalty="l1"), PrimalCD(), tol=1e-8)
    assert weighted.w.tobytes() == removed.w.tobytes()
    assert weighted.passes == removed.passes


@pytest.mark.parametrize("loss", ["squared_hinge", "squared_epsilon_insensitive"])
def test_weight_k_is_a_row_k_times(loss):
    X, y = samples.sample(loss, n_rows=60)
    copies = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = solve(Problem(X, y, 0.3, loss, sample_weight=copies, penalty="l1"), PrimalCD(), tol=1e-11)
    repeated = Problem(np.repeat(X, copies, axis=0), np.repeat(y, copies), 0.3, loss, penalty="l1")
    np.testing.assert_allclose(weighted.w, solve(repeated, PrimalCD(), tol=1e-11).w, atol=1e-5)


def test_odd_data():
    X, y = samples.sample("logistic", n_rows=12, n_features=4)
    odd = [(np.zeros((12, 4)), y), (X[:, :1], y), (X[:1], y[:1]), (np.tile(X[:1], (12, 1)), y), (X, np.abs(y))]
    for (rows, labels), make, loss in itertools.product(odd, (np.asarray, samples.csr), ("logistic", "huber")):
        result = solve(Problem(make(rows), labels, 5.0, loss, penalty="l1"), PrimalCD(), tol=1e-6)
        assert result.stop_reason == "converged"
        assert rows.any() or not result.w.any()


def test_a_warm_start_at_the_optimum_stops_at_once():
    X, y = samples.sample("squared_hinge", n_rows=60)
    problem = Problem(X, y, 0.5, "squared_hinge", penalty="l1")
    first = solve(problem, PrimalCD(), tol=1e-9)
    again = solve(problem, PrimalCD(), tol=1e-8, start=first)
    assert again.stop_reason == "converged"
    assert again.passes == 0.0
    other = solve(Problem(X, y, 0.5, "squared_hinge"), "dual_cd", tol=1e-6)  # any w will do
    assert solve(problem, PrimalCD(), tol=1e-8, start=other).stop_reason == "converged"


def answers():
    """Weights after a few passes, for the comparison of compiled and interpreted code."""
    out = {}
    cases = [*itertools.product(LOSSES, ["dense", "csr"]), (LOSSES[0], "float32"), (LOSSES[0], "csr32")]
    for loss, storage in cases:
        X, y = samples.sample(loss, n_rows=25, n_features=4)
        problem = Problem(STORAGES[storage](X), y, 0.7, loss, bias=1.0, penalty="l1")
        result = solve(problem, PrimalCD(), tol=0.0, max_iter=12)
        out[f"{losses.name_of(loss)} {storage}"] = np.append(result.w, result.certificate.primal)
    return out


@pytest.mark.skipif(JIT_DISABLED, reason="there is nothing to compare with")
def test_compiled_is_interpreted(tmp_path):
    path, here = tmp_path / "interpreted.npz", os.path.dirname(os.path.abspath(__file__))
    places = os.pathsep.join([os.path.dirname(here), *sys.path])
    command = [sys.executable, "-W", "error::RuntimeWarning", os.path.abspath(__file__), str(path)]
    subprocess.run(command, env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": places}, check=True, timeout=300)
    interpreted = np.load(path)
    for name, compiled in answers().items():
        np.testing.assert_allclose(compiled, interpreted[name], rtol=1e-7, atol=1e-9, err_msg=name)


# ---------------------------------------------------------------- arguments


def test_bad_arguments():
    X, y = samples.sample("squared_hinge")
    with pytest.raises(ValueError, match="does not take loss 'hinge'; it takes squared_hinge, huber, logistic"):
        solve(Problem(X, y, 1.0, "hinge"), PrimalCD())
    with pytest.raises(ValueError, match="solver 'dual_cd' does not take penalty 'l1'; "):
        solve(Problem(X, y, 1.0, "squared_hinge", penalty="l1"), "dual_cd")
    start = solve(Problem(X, y, 1.0, "squared_hinge"), PrimalCD())
    with pytest.raises(ValueError, match="cannot start at 5 weights: the problem has 4"):
        solve(Problem(X[:, :4], y, 1.0, "squared_hinge"), PrimalCD(), start=start)


if __name__ == "__main__":
    np.savez(sys.argv[1], **answers())
