"""Pegasos: what is particular to it. The rest is in `test_contract`."""

import itertools

import numpy as np
import pytest
import samples
from naive.pegasos import pegasos

from maxmargin import Problem, losses, solve
from maxmargin.solvers.base import Goal
from maxmargin.solvers.stochastic import pegasos as module
from maxmargin.solvers.stochastic import solver as _solver
from maxmargin.solvers.stochastic.averaged import dual_point
from maxmargin.solvers.stochastic.pegasos import Pegasos
from maxmargin.solvers.stochastic.weights import dense, scaled_norm2

VARIANTS = [
    {},
    {"iterate": "last"},
    {"iterate": "average", "project": False},
    {"batch": 7},
    {"batch": 7, "project": False, "iterate": "last"},
    {"batch": 100},
    {"replacement": True},
    {"batch": 4, "replacement": True},
]


def noisy(n_rows=2000, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.sign(X @ rng.normal(size=n_features) + rng.normal(size=n_rows))


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_pass_is_that_of_a_naive_version(loss, variant):
    """With weights, batches that do not divide the rows, and one batch for all of them."""
    X, y = samples.sample(loss, n_rows=23, n_features=4)
    problem, solver = Problem(samples.csr(X), y, 0.2, loss, sample_weight=np.arange(23) % 4), Pegasos(**variant)
    oracle = pegasos(X, y, problem.cost, problem.loss, 5, **variant)
    for passes, (w, alpha, _) in enumerate(itertools.islice(oracle, 7), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(dual_point(problem, result.state), alpha, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("variant", [{"batch": 400}, {"batch": 400, "project": False}, {"batch": 1000}], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared_error"])
def test_large_batches_are_divided_and_the_same(variant, loss, monkeypatch):
    """For any number of threads, bit for bit; and equal to the naive version, which knows no blocks."""
    monkeypatch.setattr(module, "_PART", 500)
    X, y = samples.sample(loss, n_rows=1000, n_features=6)
    problem, solver = Problem(X, y, 0.01, loss), Pegasos(**variant)
    assert solver._n_blocks(problem) > 1
    one, two, three = (
        solve(problem.with_jobs(n_jobs), solver, tol=0.0, max_iter=3, seed=5, check_every=1.0) for n_jobs in (1, 2, 3)
    )
    w, alpha, _ = next(itertools.islice(pegasos(X, y, problem.cost, problem.loss, 5, **variant), 2, None))
    np.testing.assert_allclose(one.w, w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(dual_point(problem, one.state), alpha, rtol=1e-9, atol=1e-11)
    assert one.w.tobytes() == two.w.tobytes() == three.w.tobytes()
    assert one.certificate == two.certificate == three.certificate


@pytest.mark.parametrize("loss", losses.names())
def test_w_stays_in_the_ball_that_the_optimum_is_in(loss):
    """However large C is, and the first steps with it."""
    X, y = samples.sample(loss, n_rows=60)
    problem = Problem(X, y, 1e3, loss)
    radius2 = problem.primal(np.zeros(5))
    best = solve(problem, "auto", tol=1e-8).w
    assert best @ best <= radius2 * (1 + 1e-12)
    for batch in (1, 7):
        solver, longest = Pegasos(batch=batch), 0.0
        state = solver.init_state(problem)
        for visits in range(1, 180):
            state = solver.update(problem, state, Goal(0.0, visits / 60))
            w = dense(state.x)
            assert scaled_norm2(state.x) == pytest.approx(w @ w, rel=1e-9)
            longest = max(longest, w @ w)
        assert longest <= radius2 * (1 + 1e-9)


def test_the_projection_matters():
    """Without it the first iterates are far outside: else the test above would show nothing."""
    problem = Problem(*samples.sample("hinge", n_rows=60), 1e3, "hinge")
    solver = Pegasos(project=False)
    state = solver.update(problem, solver.init_state(problem), Goal(0.0, 1 / 60))
    assert scaled_norm2(state.x) > 2 * problem.primal(np.zeros(5))


def test_the_gradient_is_divided_by_the_batch_and_not_by_its_violators():
    """One batch of all rows is the gradient of P: the second w is known in closed form."""
    X, y = noisy(50)
    problem = Problem(X, y, 0.1, "hinge")
    result = solve(problem, Pegasos(batch=50, iterate="last", project=False), tol=0.0, max_iter=2)
    first = 0.1 * X.T @ y
    violators = y * (X @ first) < 1
    assert 0 < violators.sum() < 50
    np.testing.assert_allclose(result.w, 0.5 * first + 0.5 * 0.1 * X[violators].T @ y[violators])


def test_the_suffix_is_nearer_than_the_average_and_the_last():
    """As theory has it: 1/t without the logarithm, and without the last steps' noise."""
    X, y = noisy()
    problem = Problem(X, y, 0.1, "hinge")
    best = solve(problem, "dual_cd", tol=1e-6).certificate.primal
    above = {
        iterate: solve(problem, Pegasos(iterate=iterate), tol=0.0, max_iter=16).certificate.primal - best
        for iterate in ("suffix", "average", "last")
    }
    assert 0 < above["suffix"] < above["average"]
    assert above["suffix"] < above["last"]


@pytest.mark.parametrize("replacement", [False, True])
def test_a_pass_visits_every_row_once_or_draws_as_many(replacement):
    X, y = noisy(1500)
    problem = Problem(X, y, 1.0, "hinge")
    state = solve(problem, Pegasos(replacement=replacement), tol=0.0, max_iter=1).state
    visits = Pegasos(replacement=replacement)._next_pass(problem, state).before.visits
    assert visits.sum() == 1500
    if replacement:
        assert 1500 * (0.37 - 0.05) < np.count_nonzero(visits == 0) < 1500 * (0.37 + 0.05)  # 1 / e
    else:
        assert np.all(visits == 1)


@pytest.mark.parametrize("batch", [1, 10])
def test_pauses_change_nothing(batch, monkeypatch):
    X, y = noisy(137)
    problem, solver = Problem(X, y, 0.1, "hinge"), Pegasos(batch=batch)
    whole = solve(problem, solver, tol=0.0, max_iter=9).state
    monkeypatch.setattr(_solver, "_BLOCK", 50)
    state, rng, n = solver.init_state(problem), np.random.default_rng(0), 0
    while state.visits.count < 9 * 137:
        passes = solver.report(problem, state, Goal(0.0, 9.0)).passes
        if 137 * passes >= state.visits.next_certificate:
            state = solver.reconsider(problem, state, Goal(0.0, 9.0), None)
        state, n = solver.update(problem, state, Goal(0.0, min(passes + rng.random() / 3, 9.0))), n + 1
    assert n > 40
    assert state.w.tobytes() == whole.w.tobytes()
    assert state.t == whole.t


def test_certificates_are_asked_for_at_doublings():
    X, y = noisy(200)
    result = solve(Problem(X, y, 1.0, "hinge"), Pegasos(), tol=1e-9, max_iter=40, check_every=1000.0)
    np.testing.assert_array_equal(result.history["passes"], [1, 2, 4, 8, 16, 32, 40])
    assert result.stop_reason == "max_iter"


def test_a_warm_start_goes_on_with_the_rate():
    X, y = noisy(500)
    problem = Problem(X, y, 1.0, "hinge")
    first = solve(problem, Pegasos(), tol=0.0, max_iter=8)
    again = Pegasos().init_state(problem, start=first.state)
    assert again.t == first.state.t == 4000
    best = solve(problem, "dual_cd", tol=1e-3)
    other = Pegasos().init_state(problem, start=best)
    assert other.t == 500
    np.testing.assert_array_equal(other.w, best.w)
    assert Pegasos().certificate(problem, other).gap == pytest.approx(problem.certificate(best.w).gap, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch must be a whole number, 1 or more; got 0"),
        ({"batch": 2.5}, "batch must be a whole number, 1 or more; got 2.5"),
        ({"iterate": "best"}, 'iterate must be "suffix", "average" or "last"; got \'best\''),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Pegasos(**arguments)
