"""`solvers/ocas.py`: the paper's algorithm step by step, and what sets it apart from plain cutting planes."""

import itertools

import numpy as np
import pytest
import samples
from naive.ocas import ocas

from maxmargin import Problem, losses, solve
from maxmargin.data.generators import make_dense, make_text
from maxmargin.solvers.base import Goal
from maxmargin.solvers.planes.cutting_plane import CuttingPlane
from maxmargin.solvers.planes.ocas import OCAS

LOSSES = [losses.get(name) for name in losses.names()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)


@every_loss
@pytest.mark.parametrize(("C", "mix"), [(0.7, 0.1), (50.0, 0.1), (0.7, 0.5), (0.7, 1.0)])
def test_every_iteration_is_that_of_the_paper(loss, C, mix):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, C, loss)
    oracle = ocas(X, y, problem.cost, loss, mix=mix)
    for passes, w in itertools.islice(oracle, 1, 7):
        result = solve(problem, OCAS(mix), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", [lambda X: X, samples.csr, lambda X: samples.csr(X, np.int64, np.float32)])
def test_steps_with_costs_of_their_own_and_an_intercept(make):
    loss = losses.EpsilonInsensitive(0.2)
    X, y = samples.sample(loss, n_rows=23, n_features=3)
    X = X.astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).integers(0, 4, size=23).astype(float)
    problem = Problem(make(X), y, 0.7, loss, sample_weight=weight, bias=0.5)
    oracle = ocas(np.column_stack([X, np.full(23, 0.5)]), y, problem.cost, loss)
    for passes, w in itertools.islice(oracle, 1, 6):
        result = solve(problem, OCAS(), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mix", [0.0, -0.1, 1.5, np.nan])
def test_mix_is_a_share(mix):
    with pytest.raises(ValueError, match="mix must be above 0 and at most 1"):
        OCAS(mix)


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3])
def test_the_stop_of_the_papers_experiments(epsilon):
    """(F(w_b) - F_t(w_t)) / C <= epsilon at the first iteration where that is so, C the sum of all costs."""
    X, y = samples.sample("hinge", n_rows=60, n_features=4)
    problem, solver = Problem(X, y, 2.0, "hinge"), OCAS(epsilon=epsilon)
    result = solve(problem, solver, tol=0.0, callbacks=[solver.is_satisfied])
    assert result.stop_reason == "callback"
    assert result.certificate.gap <= 1.000001 * epsilon * 120.0
    before = solve(problem, OCAS(), tol=0.0, max_iter=result.passes - 2.0)
    assert before.certificate.gap > epsilon * 120.0
    with pytest.raises(ValueError, match="epsilon"):
        OCAS(epsilon=-1.0)


def test_outputs_stay_in_step_with_weights():
    """They are combined, never computed anew."""
    problem = Problem(*samples.sample("hinge", n_rows=300, n_features=12), 5.0, "hinge")
    result = solve(problem, OCAS(), tol=0.0, max_iter=200)
    np.testing.assert_allclose(result.state.best.z, problem.decision(result.w), rtol=1e-11, atol=1e-11)
    assert result.state.best.primal == pytest.approx(problem.primal(result.w), rel=1e-13)


@pytest.mark.parametrize("free_intercept", [False, True])
def test_a_direction_that_is_rounding_leads_nowhere(free_intercept):
    """At the optimum w_t and w_b differ by rounding; a long step would tear outputs and weights apart."""
    X, y = samples.sample("epsilon_insensitive", n_rows=40)
    problem = Problem(X, y, 0.5, "epsilon_insensitive", bias=1.0, penalize_intercept=not free_intercept)
    best = solve(problem, OCAS(), tol=1e-13, max_iter=300)
    rng = np.random.default_rng(0)
    for _ in range(50):
        z_t = best.state.best.z + 1e-15 * rng.normal(size=40)
        found = OCAS().best_on_line(problem, best.state, best.state.w + 1e-17 * rng.normal(size=6), z_t)
        np.testing.assert_allclose(found.z, problem.decision(found.w), atol=1e-9)
        assert found.primal == pytest.approx(problem.primal(found.w), rel=1e-9)


def test_the_best_point_is_best_on_its_line():
    """No step towards or beyond the reduced problem's solution, nor back, is better."""
    problem = Problem(*samples.sample("hinge", n_rows=100), 1.0, "hinge")
    solver = OCAS()
    state = solver.init_state(problem)
    for _ in range(8):
        state, before = solver.update(problem, state, Goal(0.0, np.inf)), state
        direction = before.w_t - before.w
        for step in np.linspace(0.0, 3.0, 61):
            assert state.best.primal <= problem.primal(before.w + step * direction) * (1 + 1e-13)


@pytest.mark.parametrize(
    ("data", "C", "times"),
    [(make_dense(4000, 20, random_state=1), 1.0, 3), (make_text(3000, 2000, 30, random_state=1), 10.0, 1.5)],
    ids=["dense", "text"],
)
def test_fewer_iterations_than_plain_cutting_planes(data, C, times):
    """Table 2 of the paper, to (F - F_t) / C <= 1e-3 in its units: 1.8 times fewer on text there, 6.5 on covtype."""
    X, y = data
    problem, enough = Problem(X, y, C, "hinge"), 1e-3 * C * len(y)

    def is_enough(progress):
        return progress.report.primal - progress.report.dual <= enough

    optimised, plain = (solve(problem, solver, tol=0.0, callbacks=[is_enough]) for solver in (OCAS(), CuttingPlane()))
    assert optimised.stop_reason == plain.stop_reason == "callback"
    assert times * optimised.history["iterations"][-1] < plain.history["iterations"][-1]


def test_the_number_of_iterations_does_not_grow_with_the_rows():
    """Theorem 1: it depends on C (in the paper's units, C times the rows) and on the gap."""
    iterations = []
    for n_rows in (2000, 20_000):
        X, y = make_dense(n_rows, 20, random_state=0)
        result = solve(Problem(X, y, 100.0 / n_rows, "hinge"), OCAS(), tol=1e-3)
        iterations.append(result.history["iterations"][-1])
    assert iterations[1] <= 1.5 * iterations[0]
