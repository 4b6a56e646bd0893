"""Online L-BFGS: what is particular to it. The rest is in `test_contract`."""

import itertools

import numpy as np
import pytest
import samples
from naive.online_lbfgs import online_lbfgs

from maxmargin import Problem, solve
from maxmargin.solvers.base import Goal
from maxmargin.solvers.newton.lbfgs import LBFGS
from maxmargin.solvers.stochastic import online_lbfgs as module
from maxmargin.solvers.stochastic.online_lbfgs import OnlineLBFGS

SMOOTH = ["squared_hinge", "huber", "logistic", "squared_error", "squared_epsilon_insensitive"]


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize(("batch", "tau", "damping"), [(7, 1.0, 0.0), (9, 0.3, 2.0), (1, 0.1, 50.0)])
def test_every_pass_is_that_of_a_naive_version(loss, batch, tau, damping):
    """With batches that do not divide the rows evenly, and of one row each."""
    X, y = samples.sample(loss, n_rows=23, n_features=4)
    problem = Problem(X, y, 0.2, loss, sample_weight=np.arange(23) % 4)
    solver = OnlineLBFGS(memory=3, batch=batch, tau=tau, damping=damping, growth=1)
    oracle = online_lbfgs(X, y, problem.cost, problem.loss, 5, 3, batch, tau, damping)
    for passes, (w,) in enumerate(itertools.islice(oracle, 7), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-8)


def noisy(n_rows=6000, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.sign(X @ rng.normal(size=n_features) + rng.normal(size=n_rows))


def test_a_few_passes_are_worth_many_of_l_bfgs():
    """After two passes it is nearer to the optimum than L-BFGS, which has seen two gradients."""
    X, y = noisy()
    problem = Problem(X, y, 1.0, "logistic")
    best = solve(problem, "tron", tol=1e-10).certificate.primal
    online, batch = (
        solve(problem, solver, tol=0.0, max_iter=2).certificate.primal for solver in (OnlineLBFGS(batch=100), LBFGS())
    )
    assert 0.0 < online - best < 0.5 * (batch - best)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_batches_grow_until_the_goal_is_proven(loss):
    X, y = noisy()
    problem = Problem(X, y, 1.0, loss)
    growing = solve(problem, OnlineLBFGS(batch=100), tol=1e-6, max_iter=200)
    assert growing.stop_reason == "converged"
    assert growing.state.course.n_batches == 1
    best = solve(problem, "tron", tol=1e-10).certificate.primal
    assert growing.certificate.primal == pytest.approx(best, rel=1e-6)
    fixed = solve(problem, OnlineLBFGS(batch=100, growth=1), tol=1e-6, max_iter=growing.passes)
    assert fixed.state.course.n_batches == 60
    assert best < growing.certificate.primal < fixed.certificate.primal


def test_a_batch_is_as_large_as_the_step_is_expensive():
    """Sparse rows and many features: batches of thousands of rows; few features: the least there is."""
    rng = np.random.default_rng(0)
    X = samples.csr(np.zeros((12_000, 10)))
    X = type(X)((rng.normal(size=24_000), rng.integers(0, 2000, 24_000), np.arange(0, 24_001, 2)), shape=(12_000, 2000))
    X.sum_duplicates()
    y = np.sign(rng.normal(size=12_000))
    n_batches = [
        OnlineLBFGS(memory).init_state(Problem(matrix, y, 1.0, "logistic")).course.n_batches
        for matrix, memory in [(X, 1), (X, 10), (rng.normal(size=(12_000, 5)), 10)]
    ]
    assert n_batches == [12, 2, 12]


def test_steps_stay_where_the_optimum_is():
    """However badly a small batch speaks for the others."""
    X, y = noisy(300)
    problem = Problem(100 * X, y, 1e4, "squared_hinge")
    solver = OnlineLBFGS(batch=2, growth=1)
    lengths = []
    result = solve(
        problem,
        solver,
        tol=1e-9,
        max_iter=20,
        callbacks=[lambda progress: lengths.append(np.linalg.norm(progress.state.w))],
    )
    radius = np.sqrt(2 * problem.primal(np.zeros(8)))
    assert max(lengths) <= radius * (1 + 1e-12)
    assert result.state.radius == pytest.approx(radius)
    assert np.linalg.norm(solve(problem, "tron", tol=1e-9).w) <= radius


def test_the_change_of_the_gradient_is_that_of_one_batch():
    """y would not be the Hessian's times s, if it were of two batches: then s'y might have any sign and size."""
    X, y = noisy(2000)
    problem = Problem(X, y, 1.0, "squared_error")
    state = solve(problem, OnlineLBFGS(batch=100, growth=1), tol=0.0, max_iter=4).state
    H = np.eye(8) + 2 * X.T @ X
    for s, change in zip(state.memory.S, state.memory.Y):
        # A hundred rows know the curvature along s to a few parts in ten.
        assert s @ change == pytest.approx(s @ H @ s, rel=0.6)


def test_a_step_of_all_rows_takes_one_pass():
    X, y = noisy(500)
    result = solve(Problem(X, y, 1.0, "logistic"), OnlineLBFGS(), tol=1e-8)
    assert result.stop_reason == "converged"
    assert result.history["steps"][-1] == result.passes - 1


def test_the_seed_decides_the_batches():
    X, y = noisy(500)
    problem = Problem(X, y, 1.0, "logistic")
    one, same, other = (solve(problem, OnlineLBFGS(batch=50), tol=0.0, max_iter=2, seed=seed).w for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert np.abs(one - other).max() > 1e-6


@pytest.mark.parametrize("batch", [10, None])
def test_pauses_change_nothing(batch, monkeypatch):
    X, y = noisy(137)
    problem, solver, goal = Problem(X, y, 0.1, "logistic"), OnlineLBFGS(batch=batch), Goal(0.0, 9.0)
    whole = solver.update(problem, solver.init_state(problem)._replace(), goal)
    while whole.course.visits < 9 * 137:
        whole = solver.update(problem, whole, goal)
    monkeypatch.setattr(module, "_BLOCK", 300)
    state, rng, n = solver.init_state(problem), np.random.default_rng(0), 0
    while state.course.visits < 9 * 137:
        passes = solver.report(problem, state, goal).passes
        state, n = solver.update(problem, state, Goal(0.0, min(passes + rng.random() / 3, 9.0))), n + 1
    assert n > 40
    assert state.w.tobytes() == whole.w.tobytes()
    assert state.course == whole.course


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": 0}, "memory must be a whole number, 1 or more; got 0"),
        ({"batch": 0}, "batch must be a whole number, 1 or more; got 0"),
        ({"batch": 2.5}, "batch must be a whole number, 1 or more; got 2.5"),
        ({"tau": 0.0}, "tau must be a finite number, above 0; got 0.0"),
        ({"tau": np.inf}, "tau must be a finite number, above 0; got inf"),
        ({"damping": -1.0}, "damping must be a finite number, 0 or more; got -1.0"),
        ({"growth": 0}, "growth must be a whole number, 1 or more; got 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        OnlineLBFGS(**arguments)


def test_it_takes_no_hinge():
    X, y = samples.sample("hinge")
    with pytest.raises(ValueError, match="solver 'olbfgs' does not take loss 'hinge'; it takes squared_hinge"):
        solve(Problem(X, y, 1.0, "hinge"), OnlineLBFGS())
