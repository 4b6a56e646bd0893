"""Stochastic gradient descent: what is particular to it, and `learn`. The rest is in `test_contract`."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import samples
from naive.random import Xorshift
from naive.sgd import calibrated, milestones, mixed, sgd, start_of_window, step

from maxmargin import Problem, losses, solve
from maxmargin.data.rows import as_rows
from maxmargin.solvers import get
from maxmargin.solvers.base import Goal
from maxmargin.solvers.stochastic import solver as _solver
from maxmargin.solvers.stochastic.averaged import dual_point
from maxmargin.solvers.stochastic.online import learn, new_online_state, widened_state
from maxmargin.solvers.stochastic.sgd import SGD
from maxmargin.solvers.stochastic.truncation import truncated_slope
from maxmargin.solvers.stochastic.weights import dense
from maxmargin.solvers.visits import mix_rows, new_visits


def noisy(n_rows=2000, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.sign(X @ rng.normal(size=n_features) + rng.normal(size=n_rows))


# ---------------------------------------------------------------- the solver


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("variant", [{}, {"average": True}, {"average": False}, {"t0": 3.0}], ids=str)
def test_every_pass_is_that_of_a_naive_version(loss, variant):
    X, y = samples.sample(loss, n_rows=23, n_features=4)
    problem, solver = Problem(samples.csr(X), y, 0.2, loss, sample_weight=np.arange(23) % 4), SGD(**variant)
    oracle = sgd(X, y, problem.cost, problem.loss, 5, **variant)
    for passes, (w, alpha) in enumerate(itertools.islice(oracle, 7), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(dual_point(problem, result.state), alpha, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("t0", ["typical", None])
def test_svmsgd2_as_published_is_the_naive_version(loss, t0):
    """Untruncated steps, the last iterate, and t0 by the formula or calibrated."""
    X, y = samples.sample(loss, n_rows=23, n_features=4)
    problem, solver = Problem(samples.csr(X), y, 0.2, loss), replace(get("svmsgd2"), t0=t0)
    assert not solver.truncated
    assert solver.average is False
    oracle = sgd(X, y, problem.cost, problem.loss, 5, average=False, t0=t0, truncated=False)
    for passes, (w, _) in enumerate(itertools.islice(oracle, 4), start=1):
        np.testing.assert_allclose(solve(problem, solver, tol=0.0, max_iter=passes, seed=5).w, w, rtol=1e-9, atol=1e-11)


def test_the_rate_of_svmsgd2_for_the_hinge():
    """With |phi'| = 1, eta_0 = lambda^(-1/4), so t0 = lambda^(-3/4)."""
    X, y = samples.sample("hinge", n_rows=20, n_features=4)
    state = get("svmsgd2").init_state(Problem(X, y, 5.0, "hinge"))
    assert state.t0 == pytest.approx(100.0**0.75)


def test_many_rows_are_mixed_as_the_naive_version_does():
    """More rows than are mixed at a time, a last group that is not full, rows without a cost."""
    X, y = noisy(2500, 3)
    weights = (np.arange(2500) % 7 > 0).astype(float)
    problem = Problem(X, y, 1e-3, "hinge", sample_weight=weights)
    oracle = sgd(X, y, problem.cost, problem.loss, 5)
    for passes, (w, _) in enumerate(itertools.islice(oracle, 2), start=1):
        np.testing.assert_allclose(solve(problem, SGD(), tol=0.0, max_iter=passes, seed=5).w, w, rtol=1e-8)


def test_an_order_is_random_and_has_every_row_once():
    rows = np.arange(5000, dtype=np.uint32)
    problem = Problem(np.ones((5000, 1)), np.ones(5000), 1.0, "hinge")
    order, ahead, *_ = mix_rows(problem, new_visits(problem, np.array([Xorshift(3).x], dtype=np.uint64)))
    assert order.tolist() == mixed(list(range(5000)), Xorshift(3))
    np.testing.assert_array_equal(np.sort(order), rows)
    np.testing.assert_array_equal(np.sort(ahead), rows)
    assert abs(np.corrcoef(order, rows)[0, 1]) < 0.1
    # What is fetched while 512 rows are visited are the next 512, mostly in runs as they lie in memory.
    assert set(ahead[:512]) == set(order[:512])
    assert np.mean(np.diff(ahead.astype(int)) == 1) > 0.7
    assert np.mean(np.diff(order.astype(int)) == 1) < 0.01


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared_error"])
def test_t0_is_that_of_a_naive_search(loss):
    """Also where the sample is not all of the rows."""
    X, y = samples.sample(loss, n_rows=1100, n_features=6)
    problem = Problem(X, y, 0.3, loss)
    t0 = SGD().init_state(problem, seed=5).t0
    unit = 0.3 * np.sum(X**2)
    assert t0 == pytest.approx(calibrated(X, y, problem.cost, problem.loss, list(range(1100)), Xorshift(5)))
    assert np.log2(t0 / unit) == pytest.approx(np.round(np.log2(t0 / unit)), abs=1e-9)


def test_t0_follows_the_units():
    """Features in other units, with a C to match, are the same problem: rates must be the same, too."""
    X, y = noisy(300)
    one, other = (SGD().init_state(Problem(scale * X, y, 0.1 / scale**2, "hinge")).t0 for scale in (1.0, 1024.0))
    assert one == pytest.approx(other)


def test_a_given_t0_is_taken():
    assert SGD(t0=12.0).init_state(Problem(*noisy(30), 1.0, "hinge")).t0 == 12.0


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("t", [-3.0, -0.4, 0.2, 0.99, 1.5])
def test_a_truncated_step_ends_beyond_the_zero_of_the_tangent_as_far_as_it_began_before_it(loss, t):
    loss, norm2 = losses.get(loss), 2.0
    slope, left = losses.derivative(loss, t), losses.value(loss, t)
    assert truncated_slope(loss, t, 1e-9, norm2) == -slope
    u = truncated_slope(loss, t, 1e6, norm2)
    if slope != 0.0:
        moved = 1e6 * u * norm2  # of t, with the sign of the row
        assert left + slope * moved == pytest.approx(-left, abs=1e-9)
    else:
        assert u == 0.0


@pytest.mark.parametrize("loss", losses.names())
def test_no_rate_is_too_large(loss):
    """Steps that are not truncated would explode: to 1e5 times P(0), the squared losses' beyond all numbers."""
    X, y = samples.sample(loss, n_rows=200)
    problem = Problem(100 * X, y, 100.0, loss)
    result = solve(problem, SGD(t0=0.0, average=False), tol=0.0, max_iter=3)
    assert result.certificate.primal < 20 * problem.primal(np.zeros(5))


def test_the_suffix_is_nearer_than_the_average_and_the_last():
    """Where there are many features; with few, an average of all is about as good."""
    X, y = noisy(1000, 300)
    problem = Problem(X, y, 0.01, "hinge")
    best = solve(problem, "dual_cd", tol=1e-6).certificate.primal
    above = {
        average: solve(problem, SGD(average=average), tol=0.0, max_iter=16).certificate.primal - best
        for average in ("suffix", True, False)
    }
    assert 0 < above["suffix"] < above[True]
    assert above["suffix"] < above[False]


def test_two_passes_are_worth_many_of_others():
    """What stochastic methods are for: after two passes it is nearer than a cutting plane method after six."""
    X, y = noisy(20_000)
    problem = Problem(X, y, 1.0, "hinge")
    ours, theirs = solve(problem, SGD(), tol=0.0, max_iter=2), solve(problem, "bmrm", tol=0.0, max_iter=6)
    best = solve(problem, "auto", tol=1e-6).certificate.primal
    assert 0 < ours.certificate.primal - best < 0.01 * best
    assert ours.certificate.primal < theirs.certificate.primal


def test_the_dual_point_is_a_mean_of_slopes():
    """In the middle of a pass, too; always feasible, whatever its window."""
    X, y = noisy(100)
    problem, solver = Problem(X, y, 0.7, "hinge", sample_weight=1.0 + np.arange(100) % 3), SGD()
    state = solver.init_state(problem)
    for visits in range(10, 1000, 10):
        if state.visits.count >= state.visits.next_certificate:
            state = solver.reconsider(problem, state, Goal(0.0, 99.0), None)
        state = solver.update(problem, state, Goal(0.0, visits / 100))
        alpha = dual_point(problem, state)
        assert np.all((alpha >= 0.0) & (alpha <= problem.cost))
        assert np.isfinite(problem.dual(alpha))


def test_pauses_change_nothing(monkeypatch):
    X, y = noisy(137)
    problem, solver = Problem(X, y, 0.1, "hinge"), SGD()
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


def test_certificates_are_asked_for_at_doublings():
    X, y = noisy(200)
    result = solve(Problem(X, y, 1.0, "hinge"), SGD(), tol=1e-9, max_iter=40, check_every=1000.0)
    np.testing.assert_array_equal(result.history["passes"], [1, 2, 4, 8, 16, 32, 40])
    assert result.stop_reason == "max_iter"


def test_a_warm_start_goes_on_with_the_rate_or_finds_a_small_one():
    """From one's own state t goes on; from an optimum of another solver's, large steps would only lead away."""
    X, y = noisy(500)
    problem = Problem(X, y, 1.0, "hinge")
    first = solve(problem, SGD(), tol=0.0, max_iter=8)
    again = SGD().init_state(problem, start=first.state)
    assert again.t0 == first.state.t0 + 4000
    cold, warm = (SGD().init_state(problem, start=start) for start in (None, solve(problem, "dual_cd", tol=1e-4)))
    assert warm.t0 >= 4 * cold.t0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"average": "best"}, "average must be \"suffix\", True or False; got 'best'"),
        ({"t0": -1.0}, 't0 must be a number of steps, 0 or more, "typical" or None; got -1.0'),
        ({"t0": np.inf}, 't0 must be a number of steps, 0 or more, "typical" or None; got inf'),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SGD(**arguments)


# ---------------------------------------------------------------- learn


def online(X, y, weight, loss, lam):
    """Every iterate, with every weight touched at every step."""
    w, norms, t, iterates = np.zeros(X.shape[1]), 0.0, 0, []
    for x, label, factor in zip(X, y, weight):
        if factor > 0:
            norms += min(factor * x @ x, 4 * norms / t) if norms else factor * x @ x
            t += 1
            # The same step in our scaling, in which the penalty is 1/2 |w|^2: see the module's docstring.
            w, _ = step(x, label, factor / lam, loss, w, t + norms / t / lam)
            iterates.append(w)
    return iterates


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_learning_is_that_of_a_naive_version(loss, storage):
    X, y = samples.sample(loss, n_rows=64)
    weight = np.random.default_rng(0).integers(0, 3, 64).astype(float)
    n = int(np.count_nonzero(weight))
    rows, norms2 = as_rows(X if storage == "dense" else samples.csr(X))
    state, loss = new_online_state(5), losses.get(loss)
    iterates = online(X, y, weight, loss, 0.02)
    assert learn(rows, y, weight, loss, state, 0.02, norms2) is state
    assert state.t == n
    np.testing.assert_allclose(state.last, iterates[-1], rtol=1e-9, atol=1e-12)
    last_ones = iterates[start_of_window(n, milestones(n)) :]  # as for passes, here in steps
    np.testing.assert_allclose(state.w, np.mean(last_ones, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_one_by_one_is_all_at_once(storage, bias):
    """Bit for bit, with and without norms; rows of weight zero change nothing."""
    X, y = noisy(300)
    make, weight = {"dense": np.asarray, "csr": samples.csr}[storage], np.arange(300) % 4 * 0.5
    rows, norms2 = as_rows(make(X), bias)
    whole = learn(rows, y, weight, losses.Hinge(), new_online_state(8 + (bias > 0)), 1e-2, norms2)
    chunks, ones = (new_online_state(8 + (bias > 0)) for _ in range(2))
    for begin in range(0, 300, 70):
        part = slice(begin, min(300, begin + 70))
        learn(as_rows(make(X[part]), bias)[0], y[part], weight[part], losses.Hinge(), chunks, 1e-2)
    for i in np.flatnonzero(weight):
        learn(as_rows(make(X[i : i + 1]), bias)[0], y[i : i + 1], weight[i : i + 1], losses.Hinge(), ones, 1e-2)
    for other in (chunks, ones):
        assert other.w.tobytes() == whole.w.tobytes()
        assert other.last.tobytes() == whole.last.tobytes()
        assert other[2:] == whole[2:]  # what is counted


def test_one_pass_learns():
    """A stream of rows from one source: the objective on the rows seen is near its least."""
    X, y = noisy(20_000)
    rows, norms2 = as_rows(X)
    state = learn(rows, y, np.ones(20_000), losses.Hinge(), new_online_state(8), 1e-4, norms2)
    problem = Problem(X, y, 0.5, "hinge")  # lambda = 1 / (C m)
    best = solve(problem, "auto", tol=1e-6).certificate.primal
    assert problem.primal(state.w) < 1.02 * best
    assert problem.primal(state.w) < problem.primal(state.last)


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_features_that_come_later(bias):
    """A state that is widened goes on as if the features had been there, and zero, from the beginning."""
    X, y = noisy(200)
    X[:120, 5:] = 0.0
    loss, ones = losses.Logistic(), np.ones(200)
    whole = learn(as_rows(X, bias)[0], y, ones, loss, new_online_state(8 + (bias > 0)), 1e-2)
    early = learn(as_rows(X[:120, :5], bias)[0], y[:120], ones[:120], loss, new_online_state(5 + (bias > 0)), 1e-2)
    wide = widened_state(early, 8 + (bias > 0), keep_last=bias > 0)
    late = learn(as_rows(X[120:], bias)[0], y[120:], ones[120:], loss, wide, 1e-2)
    np.testing.assert_allclose(late.w, whole.w, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(late.last, whole.last, rtol=1e-10, atol=1e-13)
    assert early.t == 120
    assert late.t == 200


def test_one_huge_row_does_no_harm():
    X, y = noisy(3000)
    X[30] *= 1e6
    rows, norms2 = as_rows(X)
    weight = np.ones(3000)
    for loss in ("hinge", "squared_hinge", "logistic", "squared_error"):
        state = learn(rows, y, weight, losses.get(loss), new_online_state(8), 1e-3, norms2)
        assert np.all(np.isfinite(state.w))
        kept = np.arange(3000) != 30
        assert np.mean(np.sign(X[kept] @ state.w) == y[kept]) > 0.8


def test_learning_checks_what_it_is_given():
    rows, _ = as_rows(np.ones((2, 3)))
    y = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match=r"lambda must be a positive finite number, got 0\.0"):
        learn(rows, y, np.ones(2), losses.Hinge(), new_online_state(3), 0.0)
    with pytest.raises(ValueError, match="the rows ask for 3 weights but the state has 2: widen it"):
        learn(rows, y, np.ones(2), losses.Hinge(), new_online_state(2), 0.1)
    with pytest.raises(ValueError, match="2 rows, but 2 labels and 3 weights"):
        learn(rows, y, np.ones(3), losses.Hinge(), new_online_state(3), 0.1)
    assert dense(learn(rows, y, np.zeros(2), losses.Hinge(), new_online_state(3), 0.1).x).tolist() == [0.0] * 3
