"""subLBFGS: what is particular to it. The rest is in `test_contract`."""

import itertools

import numpy as np
import pytest
import samples
from naive.lbfgs import inverse_hessian
from naive.sub_lbfgs import best_mix, sub_lbfgs

from maxmargin import Problem, losses, solve
from maxmargin.solvers.newton import sub_lbfgs as module
from maxmargin.solvers.newton.lbfgs import latest_scale, remember
from maxmargin.solvers.newton.sub_lbfgs import SubLBFGS
from maxmargin.solvers.newton.subgradients import find_direction, rows_at_kinks

LOSSES = ["hinge", "epsilon_insensitive"]

both_losses = pytest.mark.parametrize("loss", LOSSES)


@both_losses
@pytest.mark.parametrize("memory", [2, 10])
def test_every_pass_is_that_of_a_naive_version(loss, memory):
    """Through directions that are mixed of many subgradients, and tolerances that become narrower."""
    X, y = samples.sample(loss, n_rows=25, n_features=4)
    problem, events = Problem(X, y, 1.0, loss), {}
    oracle = sub_lbfgs(X, y, problem.cost, problem.loss, memory=memory, events=events)
    for passes, w in itertools.takewhile(lambda point: point[0] <= 14, itertools.islice(oracle, 1, None)):
        result = solve(problem, SubLBFGS(memory), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-7)
    assert events["mixed"] > 2
    assert memory < 10 or events["narrower"] > 0


# ---------------------------------------------------------------- the direction


def a_state_with_kinks(loss, n_kinks=5, seed=0):
    """A point with some rows at kinks, seen by a metric of a few pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 8))
    w = np.linalg.lstsq(X[:n_kinks], np.ones(n_kinks), rcond=None)[0] + 0.0
    y = np.sign(X @ w)
    if loss == "epsilon_insensitive":
        y = X @ w + rng.normal(size=30)
        y[:n_kinks] = (X @ w)[:n_kinks] + 0.1 * np.sign(rng.normal(size=n_kinks))
    problem, solver = Problem(X, y, 0.4, loss), SubLBFGS()
    state = solver.init_state(problem)._replace(w=w, tolerance=1e-9)
    root = rng.normal(size=(8, 8))
    pairs = [(s, s + root.T @ (root @ s)) for s in rng.normal(size=(3, 8))]
    for s, change in pairs:
        state = state._replace(memory=remember(state.memory, s, change))
    state = module.evaluated(problem, state)
    B = inverse_hessian(pairs, latest_scale(state.memory), 8)
    return solver, problem, state, B


def kinks_of(problem, state):
    return rows_at_kinks(problem, state.z, state.tolerance, module._alpha_at_w(problem, state))


def find(solver, state, kinks):
    return find_direction(state.memory, state.w - state.at_w.v, kinks, solver.subgradients)


def all_subgradients(problem, state, kinks):
    """Of every choice of sides at the kinks."""
    X, y, loss = problem.rows.values, problem.y, problem.loss
    side = y if losses.is_margin_loss(loss) else np.ones(len(y))
    alpha = module._alpha_at_w(problem, state)
    for choice in itertools.product(*zip(kinks.lower, kinks.upper)):
        alpha[kinks.which] = choice
        yield state.w - X.T @ (alpha * side)


@both_losses
@pytest.mark.parametrize("seed", range(4))
def test_the_direction_is_the_best_that_the_worst_subgradient_allows(loss, seed):
    solver, problem, state, B = a_state_with_kinks(loss, seed=seed)
    kinks = kinks_of(problem, state)
    np.testing.assert_array_equal(kinks.which, range(5))
    direction, n = find(solver, state, kinks)
    every = np.array(list(all_subgradients(problem, state, kinks)))
    assert n <= len(every)
    assert direction.slope == pytest.approx(max(every @ direction.p), rel=1e-9)
    assert direction.slope < 0.0
    np.testing.assert_allclose(direction.p, -B @ direction.mixture, rtol=1e-8, atol=1e-10)
    # M(p) is within a tenth of the least that it can be, which is that of the shortest mixture of all subgradients.
    shortest = best_mix(every, B) @ every
    least = -0.5 * shortest @ B @ shortest
    assert least * (1 + 1e-9) <= direction.model <= 0.9 * least
    # The mixture is what its alpha says.
    alpha = module._alpha_at_w(problem, state)
    alpha[kinks.which] = direction.alpha
    np.testing.assert_allclose(state.w - problem.weights(alpha), direction.mixture, atol=1e-10)


@both_losses
def test_no_direction_leads_downhill_at_the_optimum(loss):
    X, y = samples.sample(loss, n_rows=50, n_features=4)
    problem, solver = Problem(X, y, 1.0, loss), SubLBFGS()
    best = solve(problem, "interior_point", tol=1e-13)
    state = solver.init_state(problem)._replace(w=best.w, tolerance=1e-5)
    state = module.evaluated(problem, state)
    kinks = kinks_of(problem, state)
    assert len(kinks.which) > 0
    direction, _ = find(solver, state, kinks)
    assert direction.slope > -1e-6 * np.linalg.norm(state.w - state.at_w.v) ** 2
    # And that is the proof: the mixture's alpha is optimal.
    state = module._mix(problem, state, kinks, direction)
    assert problem.certificate(best.w, state.alpha).relative_gap < 1e-4


# ---------------------------------------------------------------- the method


@both_losses
@pytest.mark.parametrize("C", [1e-3, 1e-1, 10.0, 1e3])
def test_many_rows_and_few_features(loss, C):
    """Where first-order methods fail: a small gap after some dozen passes, whatever C."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 10))
    z = X @ rng.normal(size=10) + 2.0 * rng.normal(size=5000)
    problem = Problem(X, np.sign(z) if loss == "hinge" else z, C, loss)
    result = solve(problem, SubLBFGS(), tol=1e-5, max_iter=200)
    assert result.stop_reason == "converged"
    optimum = solve(problem, "interior_point", tol=1e-9).certificate.primal
    assert result.certificate.dual <= optimum * (1 + 1e-12)
    assert optimum <= result.certificate.primal * (1 + 1e-8)


@both_losses
def test_the_objective_never_grows_nor_does_the_bound_fall(loss):
    X, y = samples.sample(loss, n_rows=200, n_features=10)
    primal, dual = [], []

    def look(progress):
        primal.append(progress.report.primal)
        dual.append(progress.report.dual)

    solve(Problem(X, y, 10.0, loss), SubLBFGS(), tol=1e-6, callbacks=[look])
    primal = np.array([value for value in primal if np.isfinite(value)])
    assert len(primal) > 12
    assert np.all(np.diff(primal) <= 1e-12 * primal[1:])
    assert np.all(np.diff(dual) >= -1e-12 * np.abs(dual[1:]))


def test_a_loss_whose_two_kinks_are_one():
    X, y = samples.sample("epsilon_insensitive", n_rows=40, n_features=3)
    problem = Problem(X, y, 0.5, losses.EpsilonInsensitive(0.0))
    result = solve(problem, SubLBFGS(), tol=1e-8)
    assert result.stop_reason == "converged"
    assert result.certificate.primal == pytest.approx(solve(problem, "interior_point", tol=1e-9).certificate.primal)


def test_targets_of_any_size():
    """The tolerance is measured by the targets: in other units the method takes the same steps."""
    X, y = samples.sample("epsilon_insensitive", n_rows=60)
    one = solve(Problem(X, y, 0.5, losses.EpsilonInsensitive(0.1)), SubLBFGS(), tol=1e-6)
    other = solve(Problem(X, 1024 * y, 512.0, losses.EpsilonInsensitive(102.4)), SubLBFGS(), tol=1e-6)
    np.testing.assert_allclose(other.w, 1024 * one.w, rtol=1e-9)
    assert one.passes == other.passes


def test_two_subgradients_at_a_time_get_some_way():
    X, y = samples.sample("hinge", n_rows=80)
    result = solve(Problem(X, y, 0.5, "hinge"), SubLBFGS(subgradients=2), tol=1e-3, max_iter=300)
    assert result.stop_reason == "converged"


def test_rows_at_kinks_are_no_large_part_of_all(monkeypatch):
    """However many rows are near the margin, a direction stays cheaper than a few passes."""
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.normal(size=(2000, 5)) + np.array([1.0, 0, 0, 0, 0])  # all rows meet the margin at once
    y = np.ones(2000)
    sizes = []
    monkeypatch.setattr(module, "find_direction", lambda *a: sizes.append(len(a[2].which)) or find_direction(*a))
    result = solve(Problem(X, y, 1.0, "hinge"), SubLBFGS(), tol=1e-4, max_iter=100)
    assert result.stop_reason == "converged"
    assert 0 < max(sizes) <= 250


def test_bad_arguments():
    with pytest.raises(ValueError, match="memory must be a whole number, 1 or more; got 0"):
        SubLBFGS(0)
    with pytest.raises(ValueError, match="subgradients must be a whole number, 2 or more; got 1"):
        SubLBFGS(subgradients=1)
    X, y = samples.sample("logistic")
    with pytest.raises(ValueError, match="does not take loss 'logistic'; it takes hinge, epsilon_insensitive"):
        solve(Problem(X, y, 1.0, "logistic"), SubLBFGS())
    start = solve(Problem(X, y, 1.0, "hinge"), SubLBFGS())
    with pytest.raises(ValueError, match="cannot start at 5 weights: the problem has 4"):
        solve(Problem(X[:, :4], y, 1.0, "hinge"), SubLBFGS(), start=start)


# ---------------------------------------------------------------- starts, pauses, threads


@both_losses
def test_starts_at_the_answers_of_others(loss):
    X, y = samples.sample(loss, n_rows=60)
    problem = Problem(X, y, 0.5, loss)
    near = solve(problem, "dual_cd", tol=1e-6)
    result = solve(problem, SubLBFGS(), tol=1e-5, start=near)
    assert (result.stop_reason, result.passes) == ("converged", 0.0)
    smaller = solve(Problem(X, y, 0.4, loss), SubLBFGS(), tol=1e-8, start=near)  # whose alpha has to be cut
    assert smaller.stop_reason == "converged"


def test_features_of_very_different_size_and_a_large_C():
    """Pairs that rounding has spoilt make no direction."""
    rng = np.random.default_rng(133)
    X = rng.normal(size=(30, 40)) * (rng.random((30, 40)) < 0.2) * 10 ** rng.uniform(-3, 3, 40)
    y = np.where(X @ rng.normal(size=40) > 0.0, 1.0, -1.0)
    result = solve(Problem(X, y, 1000.0, "hinge", bias=1.0), SubLBFGS(), tol=1e-9, max_iter=400)
    assert np.isfinite(result.w).all()
    assert np.isfinite(result.certificate).all()
    solver, problem, state, _ = a_state_with_kinks("hinge")
    state.memory.sy[:3] *= -1e-3  # then g'B g is negative
    direction, _ = find(solver, state, kinks_of(problem, state))
    assert np.isfinite(direction.p).all()


def test_rounding_ends_it():
    """Asked for more than floating point has, it gives up, and what it says is true."""
    X, y = samples.sample("hinge", n_rows=30)
    problem = Problem(X, y, 1.0, "hinge")
    result = solve(problem, SubLBFGS(), tol=0.0, max_iter=2000)
    assert result.stop_reason in ("stalled", "max_iter", "rounding")
    assert result.history["restarts"][-1] > 1
    assert result.certificate.relative_gap < 1e-9
