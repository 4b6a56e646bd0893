"""L-BFGS: what is particular to it. The rest is in `test_contract`."""

import itertools

import naive
import numpy as np
import pytest
import samples
from naive.lbfgs import inverse_hessian, lbfgs, scale_of

from maxmargin import Problem, solve
from maxmargin.solvers.newton.lbfgs import LBFGS, empty_memory, latest_scale, remember, times_inverse

SMOOTH = ["squared_hinge", "huber", "logistic", "squared_error", "squared_epsilon_insensitive"]


def pairs_of(n_pairs, n, seed=0):
    """Steps, and what a positive definite Hessian above the identity makes of them."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return [(s, s + root.T @ (root @ s)) for s in rng.normal(size=(n_pairs, n))]


# ---------------------------------------------------------------- the memory


@pytest.mark.parametrize("n_pairs", [0, 1, 3, 4, 11])
def test_two_loops_are_a_product_with_the_matrix(n_pairs):
    """Also when the memory has been full for long."""
    pairs, memory = pairs_of(n_pairs, 6), empty_memory(4, 6)
    for s, y in pairs:
        memory = remember(memory, s, y)
    g = np.random.default_rng(1).normal(size=6)
    scale = latest_scale(memory)
    assert scale == pytest.approx(scale_of(pairs[-1]) if pairs else 1.0)
    np.testing.assert_allclose(times_inverse(memory, scale, g), inverse_hessian(pairs[-4:], scale, 6) @ g, rtol=1e-9)


def test_the_latest_pair_is_met_exactly():
    memory = empty_memory(3, 6)
    for s, y in pairs_of(5, 6):
        memory = remember(memory, s, y)
        np.testing.assert_allclose(times_inverse(memory, 0.1, y), s, rtol=1e-9)


def test_a_pair_that_rounding_has_spoilt_is_left_out():
    s = np.array([1.0, 2.0])
    memory = remember(empty_memory(2, 2), s, 3.0 * s)
    for y in (-s, 0.1 * s, np.array([np.nan, 1.0])):
        assert remember(memory, s, y).n == 1
    assert remember(memory, 0.0 * s, 0.0 * s).n == 1
    np.testing.assert_array_equal(memory.Y, [3.0 * s, [0.0, 0.0]])


# ---------------------------------------------------------------- the method


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("memory", [1, 3])
def test_every_pass_is_that_of_a_naive_version(loss, memory):
    """With a memory that is soon full, and with steps for which 1 will not do."""
    X, y = samples.sample(loss, n_rows=25, n_features=6)
    problem, events = Problem(X, y, 3.0, loss), {}
    oracle = lbfgs(X, y, problem.cost, problem.loss, memory=memory, events=events)
    for passes, w in itertools.islice(oracle, 1, 12):
        result = solve(problem, LBFGS(memory), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-7, atol=1e-8)
    assert events["searches"] > 0
    assert events["forgotten"]


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_step_takes_one_pass_or_two(loss):
    X, y = samples.sample(loss, n_rows=60)
    history = solve(Problem(X, y, 10.0, loss), LBFGS(), tol=1e-10).history
    np.testing.assert_array_equal(history["passes"][-1], 1 + history["steps"][-1] + history["searches"][-1])
    assert history["searches"][-1] < 0.5 * history["steps"][-1]


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_certificate_is_that_of_the_problem(loss):
    X, y = samples.sample(loss, n_rows=60)
    problem = Problem(X, y, 0.5, loss)
    for max_iter in (1, 4, 8):
        result = solve(problem, LBFGS(), tol=0.0, max_iter=max_iter)
        other = problem.certificate(result.w)
        rounding = problem.with_rounding(result.w, other)[1]
        assert result.certificate.gap == pytest.approx(other.gap, rel=1e-8, abs=1.01 * rounding)
        assert result.certificate.primal == pytest.approx(other.primal, rel=1e-12)


def test_the_objective_never_grows():
    X, y = samples.sample("squared_hinge", n_rows=200, n_features=20)
    primal = []
    solve(
        Problem(X, y, 100.0, "squared_hinge"),
        LBFGS(),
        tol=1e-8,
        callbacks=[lambda progress: primal.append(progress.report.primal)],
    )
    primal = [value for value in primal if np.isfinite(value)]
    assert len(primal) > 15
    assert np.all(np.diff(primal) <= 0.0)


def test_more_memory_takes_fewer_passes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) * np.logspace(-1, 1, 40)
    y = np.sign(X.sum(axis=1) + rng.normal(size=300))
    problem = Problem(X, y, 1.0, "logistic")
    few, many = (solve(problem, LBFGS(memory), tol=1e-6) for memory in (2, 40))
    assert few.stop_reason == many.stop_reason == "converged"
    assert many.passes < 0.7 * few.passes


def test_the_optimum_of_a_parabola_in_as_many_steps_as_features():
    """With exact searches L-BFGS is the method of conjugate gradients; nearly exact ones do not change much."""
    X, y = samples.sample("squared_error", n_rows=100, n_features=6)
    result = solve(Problem(X, y, 0.1, "squared_error"), LBFGS(20), tol=1e-10)
    assert result.history["steps"][-1] <= 2 * 6 + 2
    optimum = np.linalg.solve(X.T @ X + np.eye(6) / 0.2, X.T @ y)
    np.testing.assert_allclose(result.w, optimum, atol=1e-4)


def test_bad_arguments():
    for memory in (0, -1, 2.5, "ten"):
        with pytest.raises(ValueError, match="memory must be a whole number, 1 or more; got"):
            LBFGS(memory)
    X, y = samples.sample("logistic")
    with pytest.raises(ValueError, match="does not take loss 'hinge'; it takes squared_hinge, huber, logistic"):
        solve(Problem(X, y, 1.0, "hinge"), LBFGS())
    start = solve(Problem(X, y, 1.0, "logistic"), LBFGS())
    with pytest.raises(ValueError, match="cannot start at 5 weights: the problem has 4"):
        solve(Problem(X[:, :4], y, 1.0, "logistic"), LBFGS(), start=start)


# ---------------------------------------------------------------- starts, hard data


def test_a_start_from_another_solver_needs_its_w_alone():
    X, y = samples.sample("squared_hinge", n_rows=60)
    problem = Problem(X, y, 0.5, "squared_hinge")
    near = solve(problem, "dual_cd", tol=1e-6)
    result = solve(problem, LBFGS(), tol=1e-10, start=near)
    assert result.stop_reason == "converged"
    assert result.passes < solve(problem, LBFGS(), tol=1e-10).passes


def test_the_answer_is_no_worse_than_promised_on_large_values():
    """Features of very different size: a gap is reached, or the truth is told."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8)) * np.logspace(-3, 3, 8)
    y = np.sign(rng.normal(size=100))
    problem = Problem(X, y, 10.0, "squared_hinge")
    result = solve(problem, LBFGS(), tol=1e-6, max_iter=500)
    best = naive.optimum(X, y, problem.cost, problem.loss).primal
    assert result.certificate.dual <= best * (1 + 1e-10)
    assert best <= result.certificate.primal * (1 + 1e-10)
