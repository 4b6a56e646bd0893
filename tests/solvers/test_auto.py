"""`auto.py`: who runs, when it is given up, and what is carried over."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import samples
from sklearn.datasets import load_iris

from maxmargin import Problem, solve
from maxmargin.models.checkpoint import solver_of
from maxmargin.solvers import auto, base
from maxmargin.solvers.auto import _is_hopeless, plan, price
from maxmargin.solvers.newton.augmented_lagrangian import AugmentedLagrangian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 6))
Y = np.where(X[:, 0] + RNG.normal(size=2000) > 0.0, 1.0, -1.0)


@pytest.fixture
def optimist(monkeypatch):
    """Let coordinate descent have a try everywhere."""
    monkeypatch.setattr(auto, "_HINGE_HARD", np.inf)


def planned(*args, **options):
    return [solver.name for solver in plan(Problem(*args, **options))]


def test_the_plan_follows_shape_loss_and_difficulty():
    wide = samples.csr(RNG.normal(size=(20, 4000)) * (RNG.random((20, 4000)) < 0.01))
    y = Y[:20]
    assert planned(X, Y, C=0.1, loss="hinge") == ["dual_cd", "augmented_lagrangian", "interior_point"]
    assert planned(X, Y, C=10.0, loss="hinge") == ["augmented_lagrangian", "interior_point"]
    assert planned(samples.csr(X), Y, C=100.0, loss="hinge") == ["augmented_lagrangian", "interior_point"]
    # A matrix of 300 columns is dear beside passes over a dozen values a row, so that C |x|^2 may be larger.
    columns = samples.csr(RNG.normal(size=(2000, 300)) * (RNG.random((2000, 300)) < 0.04))
    assert planned(columns, Y, C=1.0, loss="hinge")[0] == "dual_cd"
    assert planned(columns, Y, C=100.0, loss="hinge")[0] == "augmented_lagrangian"
    # The matrix of a problem with few rows is no smaller, however easy or hard the problem.
    few = RNG.normal(size=(20, 30))
    assert planned(few, Y[:20], C=1e4, loss="hinge")[0] == "dual_cd"
    assert planned(few[:, :20], Y[:20], C=1e4, loss="hinge") == ["augmented_lagrangian", "interior_point"]
    assert planned(X, X[:, 0], C=100.0, loss="epsilon_insensitive") == ["augmented_lagrangian", "interior_point"]
    assert planned(X, Y, C=100.0, loss="hinge", bias=1.0, penalize_intercept=False) == ["interior_point"]
    assert planned(X, Y, C=1e-4, loss="squared_hinge") == ["tron", "augmented_lagrangian"]
    assert planned(samples.csr(X), Y, C=1e-4, loss="squared_hinge") == ["dual_cd", "tron", "augmented_lagrangian"]
    assert planned(samples.csr(X), Y, C=1.0, loss="squared_hinge") == ["tron", "augmented_lagrangian"]
    assert planned(X, Y, loss="logistic") == planned(wide, y, loss="logistic") == ["tron"]
    assert planned(wide, y, C=100.0, loss="hinge") == ["dual_cd"]
    assert planned(wide, y, C=100.0, loss="squared_hinge") == ["dual_cd"]
    large = samples.csr(np.eye(3500, 3100))
    assert planned(large, np.tile([1.0, -1.0], 1750), C=100.0, loss="squared_hinge") == ["dual_cd", "tron"]
    larger = samples.csr(np.eye(6300, 3100))
    assert planned(larger, np.tile([1.0, -1.0], 3150), C=100.0, loss="squared_hinge") == ["tron"]
    assert planned(wide[:, :2000], y, C=100.0, loss="squared_hinge") == ["dual_cd", "tron", "augmented_lagrangian"]


def test_the_price_of_a_matrix_grows_with_the_features():
    prices = [
        price(Problem(RNG.normal(size=(500, n)), Y[:500], loss="hinge"), AugmentedLagrangian()) for n in (50, 200, 800)
    ]
    assert prices == sorted(prices)


def test_a_stalled_solver_is_relieved(optimist):
    problem = Problem(X, Y, 1e4, "hinge")
    result = solve(problem, tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.solver.name == "augmented_lagrangian"
    assert np.all(np.diff(result.history["passes"]) >= 0.0)
    first = result.history["passes"][0]
    assert first < 15.0 < result.passes  # both are counted
    assert len({len(column) for column in result.history.values()}) == 1
    assert np.isnan(result.history["updates"][-1])  # a count of the first solver alone
    assert problem.certificate(result.w, result.alpha).relative_gap <= 2e-6


def test_newtons_method_is_relieved_where_its_gap_does_not_fall():
    """Features of 0..255, rows that can nearly be separated, and a large C."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(3000, 60)).astype(float)
    labels = np.where((pixels - 128.0) @ rng.normal(size=60) + 10.0 * rng.normal(size=3000) > 0.0, 1.0, -1.0)
    result = solve(Problem(pixels, labels, 1e9, "squared_hinge", bias=1.0), tol=1e-3)
    assert (result.solver.name, result.stop_reason) == ("augmented_lagrangian", "converged")
    assert result.passes < 400.0


@pytest.mark.parametrize("of_class", range(3))
def test_small_unscaled_data_are_left_to_the_interior_point_method(of_class):
    """Separable and not: all else takes some ten times as many steps where C |x|^2 is 1e11."""
    iris = load_iris()
    problem = Problem(iris.data * 1e5, np.where(iris.target == of_class, 1.0, -1.0), 1.0, "hinge", bias=1.0)
    result = solve(problem)
    assert result.solver.name == "interior_point"
    assert result.stop_reason in ("converged", "rounding")
    assert result.passes < 100


def test_an_easy_problem_is_left_to_the_first_solver(optimist):
    result = solve(Problem(X, Y, 1e-4, "hinge"), tol=1e-6)
    assert (result.solver.name, result.stop_reason) == ("dual_cd", "converged")


def test_limits_count_for_all_solvers_together(optimist):
    result = solve(Problem(X, Y, 1e4, "hinge"), tol=1e-6, max_iter=22)
    assert result.solver.name == "augmented_lagrangian"
    assert result.stop_reason == "max_iter"
    assert 22.0 <= result.passes <= 26.0


def test_the_last_solver_has_time_if_the_data_are_small(monkeypatch):
    """A thousand passes over few numbers are nothing."""
    wide = samples.csr(RNG.normal(size=(20, 4000)) * (RNG.random((20, 4000)) < 0.01))
    slow = Problem(wide, Y[:20] * RNG.random(20), 1.0, "epsilon_insensitive")
    monkeypatch.setattr(auto, "_WORK", 1500.0 * (wide.nnz + 4 * 20))
    result = solve(slow, tol=0.0)
    assert (result.solver.name, result.stop_reason) == ("dual_cd", "rounding")
    monkeypatch.setattr(auto, "_is_stuck", lambda history: False)
    monkeypatch.setattr(base._Loop, "_is_down_to_rounding", lambda loop: False)
    result = solve(slow, tol=0.0)
    assert (result.solver.name, result.stop_reason, result.passes) == ("dual_cd", "max_iter", 1500.0)
    limited = solve(slow, tol=0.0, max_iter=7)
    assert (limited.passes, limited.stop_reason) == (7.0, "max_iter")


def test_a_run_over_two_solvers_is_resumed_in_either(optimist, tmp_path):
    problem, path = Problem(X, Y, 1e4, "hinge"), tmp_path / "state"
    whole = solve(problem, tol=1e-6)
    seen = []
    for _ in range(100):
        calls = itertools.count()
        result = solve(problem, tol=1e-6, checkpoint=path, callbacks=[lambda _, c=calls: next(c) >= 1])
        seen.append(solver_of(path))
        if result.stop_reason == "converged":
            break
    assert list(dict.fromkeys(seen)) == ["dual_cd", "augmented_lagrangian"]
    assert result.w.tobytes() == whole.w.tobytes()


def entries(*pairs):
    """A history of a problem whose optimum is 1, and whose primal objective is there already."""
    return [{"passes": passes, "relative_gap": gap, "primal": 1.0, "dual": 1.0 - gap} for passes, gap in pairs]


def test_the_judge_extrapolates():
    judge = _is_hopeless(1e-6, patience=100.0, first_look=10.0)
    assert not judge(entries((10, 1e-2)))  # two digits in ten passes: twenty more
    assert judge(entries((10, 1e-2), (20, 0.99e-2)))  # no progress at all
    assert not judge(entries((10, 0.9)))  # a tenth of the way in ten passes: ninety more
    assert judge(entries((10, 0.95)))
    assert not judge(entries((10, 0.95), (20, 0.8)))
    assert not judge(entries((10, 1e-2), (11, 1e-2)))  # too short a time to tell from
    # A pause is forgiven if the last third of the way was good.
    assert not judge(entries((60, 1e-2), (90, 1e-4), (100, 1e-4)))


def test_of_two_solvers_the_better_answer_counts():
    """The bounds of both hold; what the later one proves of the optimum holds for the earlier one's weights."""
    problem = Problem(X[:100], Y[:100], C=1.0, loss="hinge")
    good = solve(problem, "dual_cd", tol=1e-3)
    poor = solve(problem, "dual_cd", tol=0.0, max_iter=1)
    assert poor.certificate.primal > good.certificate.primal
    for first, second in ((good, poor), (poor, good)):
        joined = auto._joined(first, second)
        assert np.array_equal(joined.w, good.w)
        assert joined.certificate.primal == good.certificate.primal
        assert joined.certificate.gap <= good.certificate.gap
        assert joined.passes == good.passes + poor.passes
        assert joined.stop_reason == second.stop_reason
    tight = solve(problem, "dual_cd", tol=1e-9)
    above = replace(poor, certificate=tight.certificate._replace(primal=poor.certificate.primal))
    assert auto._joined(good, above).certificate.gap < good.certificate.gap
