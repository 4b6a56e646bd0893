"""GD, 2GD, SGD and 2SGD beyond the contract: that each has the rate of its row in table 2, and what is refused."""

import numpy as np
import pytest
import samples

from maxmargin import Problem, solve
from maxmargin.solvers.textbook import gradient_descent
from maxmargin.solvers.textbook.gradient_descent import GradientDescent, NewtonDescent
from maxmargin.solvers.textbook.plain_sgd import PlainSGD, SecondOrderSGD

SMOOTH = ["squared_hinge", "huber", "logistic", "squared_error", "squared_epsilon_insensitive"]


def ill_conditioned(kappa):
    """Least squares whose matrix of second derivatives has a condition number of about kappa."""
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(100, 4)))[0] * np.sqrt([kappa, kappa, 1.0, 1.0])
    return Problem(X, X @ np.ones(4) + 0.1 * rng.normal(size=100), 1.0, "squared_error")


def test_passes_of_gd_grow_with_the_condition_number_and_those_of_newton_do_not():
    easy, hard = (ill_conditioned(kappa) for kappa in (10.0, 1000.0))
    of_gd = [solve(problem, GradientDescent(), tol=1e-8).passes for problem in (easy, hard)]
    of_newton = [solve(problem, NewtonDescent(), tol=1e-8).passes for problem in (easy, hard)]
    assert of_gd[1] > 5 * of_gd[0]
    assert of_newton[0] == of_newton[1] == 2.0  # P is a parabola: one step


@pytest.mark.parametrize("loss", SMOOTH)
def test_newton_converges_quadratically(loss):
    problem = Problem(*samples.sample(loss, n_rows=80), 1.0, loss)
    rough, sharp = (solve(problem, NewtonDescent(), tol=tol).passes for tol in (1e-4, 1e-12))
    assert sharp <= rough + 3.0


@pytest.mark.parametrize("solver", [PlainSGD(), SecondOrderSGD()], ids=lambda solver: solver.name)
def test_stochastic_gaps_fall_as_one_over_t(solver):
    problem = Problem(*samples.sample("logistic", n_rows=200), 0.2, "logistic")
    early, late = (solve(problem, solver, tol=0.0, max_iter=passes).certificate.gap for passes in (20, 200))
    assert late < 0.25 * early


def test_2sgd_learns_the_matrix():
    problem = Problem(*samples.sample("logistic", n_rows=100), 1.0, "logistic")
    state = solve(problem, SecondOrderSGD(), tol=0.0, max_iter=300).state
    X, w = problem.rows.values, solve(problem, "tron", tol=1e-9).w
    p = 1.0 / (1.0 + np.exp(-X @ w))
    H = np.eye(5) + (X.T * (p * (1.0 - p))) @ X
    np.testing.assert_allclose(state.inverse @ H, np.eye(5), atol=0.05)


@pytest.mark.parametrize("solver", [NewtonDescent(), SecondOrderSGD()], ids=lambda solver: solver.name)
def test_a_matrix_that_is_too_large_is_refused(solver, monkeypatch):
    monkeypatch.setattr(gradient_descent, "LARGEST", 4)
    problem = Problem(*samples.sample("logistic"), 1.0, "logistic")
    with pytest.raises(ValueError, match=f"'{solver.name}' keeps a matrix of 5 x 5 numbers, and takes 4 features or"):
        solve(problem, solver)
    assert solve(problem, GradientDescent(), tol=1e-3).stop_reason == "converged"


def test_a_kink_is_refused():
    for solver in (GradientDescent(), NewtonDescent(), PlainSGD(), SecondOrderSGD()):
        with pytest.raises(ValueError, match=f"solver {solver.name!r} does not take loss 'hinge'"):
            solve(Problem(*samples.sample("hinge"), 1.0, "hinge"), solver)


def test_rounding_at_the_optimum_does_no_harm():
    """Long after all digits are there, w stays where it is."""
    problem = Problem(*samples.sample("huber", n_rows=40), 1.0, "huber")
    for solver in (GradientDescent(), NewtonDescent()):
        early, late = (solve(problem, solver, tol=0.0, max_iter=passes) for passes in (1500, 3000))
        np.testing.assert_allclose(late.w, early.w, rtol=1e-5)
        assert late.certificate.relative_gap <= 1e-11
