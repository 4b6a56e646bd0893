"""`interior_point.py` against dual coordinate descent, which shares no line with it."""

import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve
from maxmargin.solvers.newton.interior_point import InteriorPoint

LOSSES = [name for name in losses.names() if name != "logistic"]


@pytest.mark.parametrize("loss", LOSSES)
def test_same_optimum_as_dual_cd(loss):
    X, y = samples.sample(loss, n_rows=60, n_features=5)
    for storage in (np.asarray, samples.csr):
        problem = Problem(storage(X), y, 0.5, loss, bias=1.0)
        result = solve(problem, InteriorPoint(), tol=1e-8)
        reference = solve(problem, "dual_cd", tol=1e-9)
        assert result.stop_reason == "converged"
        assert result.certificate.primal == pytest.approx(reference.certificate.primal, rel=2e-8)
        assert problem.certificate(result.w, result.alpha).relative_gap <= 2e-8  # proven by what it returns


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_hard_problems_are_no_harder(C):
    """Many rows, few features: dual coordinate descent needs thousands of passes for the large C."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    y = np.where(X[:, 0] + rng.normal(size=2000) > 0.0, 1.0, -1.0)
    result = solve(Problem(X, y, C, "hinge"), InteriorPoint(), tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.passes <= 120


def test_same_bits_for_any_number_of_threads():
    X, y = samples.sample("hinge", n_rows=3000, n_features=8)
    one, two = (solve(Problem(X, y, 1.0, "hinge", n_jobs=n), InteriorPoint(), tol=1e-8) for n in (1, 2))
    assert one.w.tobytes() == two.w.tobytes()


@pytest.mark.parametrize("loss", ["hinge", "huber", "squared_hinge"])
def test_rows_of_all_sizes_and_a_large_C_give_finite_weights(loss):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(15, 6)) * 10 ** rng.uniform(-8, 8, (15, 1))
        y = np.where(rng.random(15) < 0.5, 1.0, -1.0)
        result = solve(Problem(X, y, 4000.0, loss, bias=1.0, penalize_intercept=False), InteriorPoint(), tol=1e-6)
        assert np.isfinite(result.w).all()
        assert np.isfinite(result.certificate).all()
        assert result.stop_reason in ("converged", "stalled", "max_iter", "rounding")


def test_it_ends_where_rounding_hides_what_is_left():
    X, y = samples.sample("hinge", n_rows=60)
    result = solve(Problem(X, y, 1.0, "hinge"), InteriorPoint(), tol=0.0)
    assert result.stop_reason in ("stalled", "rounding")
    assert result.certificate.relative_gap < 1e-12
