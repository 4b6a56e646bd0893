"""`augmented_lagrangian.py` beyond the contract: its parts, its starts, and that C makes little difference."""

import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve
from maxmargin.solvers.base import Goal
from maxmargin.solvers.newton import augmented_lagrangian, augmented_rows
from maxmargin.solvers.newton.augmented_lagrangian import AugmentedLagrangian, _Line

QUADRATIC = [name for name in losses.names() if name != "logistic"]


def states(problem, passes, **options):
    """The states of a run, update by update."""
    solver = AugmentedLagrangian()
    state = solver.init_state(problem, **options)
    while solver.report(problem, state, Goal(0.0, passes)).passes < passes:
        state = solver.update(problem, state, Goal(0.0, passes))
        yield state


@pytest.mark.parametrize("loss", QUADRATIC)
def test_alpha_is_the_best_there_is(loss):
    """Against a search over a fine grid."""
    phi, rng = losses.get(loss), np.random.default_rng(0)
    form = losses.dual_form(phi)
    for _ in range(30):
        t, C, s = rng.normal(), rng.uniform(0.1, 3.0), 10.0 ** rng.uniform(-2, 2)
        centre = C * rng.uniform(max(form.lower, -2.0), min(form.upper, 2.0))
        grid = np.linspace(max(form.lower, -20.0) * C, min(form.upper, 20.0) * C, 40_001)
        conjugates = np.array([losses.conjugate(phi, -a / C) for a in grid])
        worth = -grid * t - C * conjugates - (grid - centre) ** 2 / (2.0 * s * C)
        alpha, is_free = augmented_rows.best_alpha(form, t, C, centre, s)
        if abs(alpha) < 20.0 * C:
            assert alpha == pytest.approx(grid[worth.argmax()], abs=40.0 * C / 40_000)
        h = 1e-7
        moves = (
            augmented_rows.best_alpha(form, t + h, C, centre, s)[0]
            != augmented_rows.best_alpha(form, t - h, C, centre, s)[0]
        )
        assert is_free == moves


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
def test_matrix_and_sum_are_kept_in_step(storage):
    X, y = samples.sample("hinge", n_rows=200, n_features=6)
    weights = np.random.default_rng(1).integers(0, 3, size=200)
    problem = Problem(storage(X), y, 1.0, "hinge", sample_weight=weights, bias=1.0)
    rows, n_seen = np.column_stack([X, np.ones(200)]), 0
    for state in states(problem, 40.0):
        free = state.is_free
        gram = (rows[free].T * problem.cost[free]) @ rows[free]
        np.testing.assert_allclose(np.triu(state.matrix.gram[:7, :7]), np.triu(gram), rtol=1e-9, atol=1e-9)
        assert free.sum() == state.free
        np.testing.assert_allclose(state.v, problem.weights(state.alpha), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(state.z[weights > 0], (rows @ state.w)[weights > 0], rtol=1e-9, atol=1e-11)
        known = problem.certificate(state.w, state.alpha)
        assert state.primal == pytest.approx(known.primal, rel=1e-10)
        assert min(state.gap, state.primal) == pytest.approx(known.gap, rel=1e-6, abs=1e-9 * known.primal)
        n_seen += 1
    assert n_seen > 5


def test_rows_that_are_left_out_of_the_line_search_add_what_they_should():
    X, y = samples.sample("hinge", n_rows=300, n_features=5)
    problem = Problem(X, y, 1.0, "hinge")
    *_, state = states(problem, 12.0)
    whole, part = (_Line(problem, state, 0.5 * state.w, 0.5 * state.z) for _ in range(2))
    part.slope(0.5)
    assert 0 < len(part.left.y) < problem.n_rows
    for step in (0.0, 0.3, 0.999):
        first, second = augmented_rows.slope(problem.labels, whole.s, step, *whole.rows)
        expected = whole.at_zero + step * whole.dd - first, whole.dd + whole.curvature * second
        np.testing.assert_allclose(part.slope(step), expected, rtol=1e-12)


@pytest.mark.parametrize(("loss", "rows"), [("squared_hinge", [[-6e6], [-5e-5], [-4e-8], [-9e-3]]), ("huber", None)])
def test_rows_of_all_sizes_and_a_large_C_give_finite_weights(loss, rows):
    """What rounding leaves of large rows in the matrix must not outweigh the small ones that are left in it."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.array(rows) if rows else rng.normal(size=(15, 6)) * 10 ** rng.uniform(-8, 8, (15, 1))
        y = np.ones(4) if rows else np.where(rng.random(15) < 0.5, 1.0, -1.0)
        problem = Problem(X, y, 5e6 if rows else 4000.0, loss)
        result = solve(problem, "augmented_lagrangian", tol=1e-6)
        assert np.isfinite(result.w).all()
        assert np.isfinite(result.certificate).all()
        assert result.stop_reason in ("converged", "stalled", "max_iter", "rounding")
        assert result.certificate.primal <= problem.primal(np.zeros(X.shape[1])) * (1.0 + 1e-9)


def test_few_steps_whatever_C():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    y = np.where(X @ rng.normal(size=10) + rng.normal(size=20_000) > 0.0, 1.0, -1.0)
    for C in 10.0 ** np.arange(-4, 5):
        result = solve(Problem(X, y, C, "hinge"), "augmented_lagrangian", tol=1e-8)
        assert result.stop_reason == "converged"
        assert result.history["steps"][-1] <= 60
        assert result.history["free"][-1] < 2000


def test_a_search_that_rounding_would_keep_going_ends():
    """Features of 0..255, rows that can nearly be separated, and a large C: no w is ever that of its alpha."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(3000, 60)).astype(float)
    y = np.where((X - 128.0) @ rng.normal(size=60) + 10.0 * rng.normal(size=3000) > 0.0, 1.0, -1.0)
    result = solve(Problem(X, y, 1e8, "hinge", bias=1.0), "augmented_lagrangian", tol=1e-3)
    assert result.stop_reason in ("converged", "rounding")  # such numbers may not allow a proof


def test_a_start_at_anothers_weights_saves_steps():
    X, y = samples.sample("hinge", n_rows=2000, n_features=8)
    problem = Problem(X, y, 10.0, "hinge")
    cold = solve(problem, "augmented_lagrangian", tol=1e-8)
    near = solve(problem, "interior_point", tol=1e-4)
    warm = solve(problem, "augmented_lagrangian", tol=1e-8, start=near)
    assert warm.stop_reason == "converged"
    assert warm.history["steps"][-1] < cold.history["steps"][-1]


def test_too_many_features_are_refused():
    wide = samples.csr(np.eye(2, 20_000))
    with pytest.raises(ValueError, match=r"at most 10000 features, got 20000.*use dual_cd"):
        solve(Problem(wide, [1, -1], 1.0, "hinge"), "augmented_lagrangian")


def test_of_many_rows_few_are_kept_apart_for_a_line_search(monkeypatch):
    X, y = samples.sample("hinge", n_rows=400, n_features=6)
    expected = solve(Problem(X, y, 50.0, "hinge"), "augmented_lagrangian", tol=1e-8)
    monkeypatch.setattr(augmented_lagrangian, "_MANY", 100)
    found = solve(Problem(X, y, 50.0, "hinge"), "augmented_lagrangian", tol=1e-8)
    assert found.certificate.relative_gap <= 1e-8
    np.testing.assert_allclose(found.w, expected.w, rtol=1e-3, atol=1e-6)
