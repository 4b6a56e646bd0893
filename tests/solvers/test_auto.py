"""`auto.py`: who runs, when it is given up, and what is carried over."""

import numpy as np
import pytest

from maxmargin import Problem, solve, solvers
from maxmargin.solvers.auto import _is_hopeless, plan
from maxmargin.solvers.dual_cd import DualCD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 6))
Y = np.where(X[:, 0] + RNG.normal(size=2000) > 0.0, 1.0, -1.0)


@pytest.fixture
def both(monkeypatch):
    """Let "auto" choose among dual coordinate descent and the interior point."""
    second = ("maxmargin.solvers.interior_point", "InteriorPoint")
    monkeypatch.setattr(solvers, "_LINEAR", {**solvers._LINEAR, "interior_point": second})


def test_a_plan_has_a_solver():
    assert plan(Problem(X, Y, loss="hinge"))[0] == DualCD()


def test_a_stalled_solver_is_relieved(both):
    problem = Problem(X, Y, 1e4, "hinge")
    result = solve(problem, tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.solver.name == "interior_point"
    assert np.all(np.diff(result.history["passes"]) >= 0.0)
    assert result.history["passes"][0] < 20.0 < result.passes  # both are counted
    assert problem.certificate(result.w, result.alpha).relative_gap <= 2e-6


def test_an_easy_problem_is_left_to_the_first_solver(both):
    result = solve(Problem(X, Y, 1e-4, "hinge"), tol=1e-6)
    assert (result.solver.name, result.stop_reason) == ("dual_cd", "converged")


def test_limits_count_for_all_solvers_together(both):
    result = solve(Problem(X, Y, 1e4, "hinge"), tol=1e-6, max_iter=22)
    assert result.stop_reason == "max_iter"
    assert 22.0 <= result.passes <= 26.0


def entries(*pairs):
    return [{"passes": passes, "relative_gap": gap} for passes, gap in pairs]


def test_the_judge_extrapolates():
    judge = _is_hopeless(1e-6)
    assert not judge(entries((10, 1e-2)))  # two digits in ten passes: twenty more
    assert judge(entries((10, 1e-2), (20, 0.99e-2)))  # no progress at all
    assert judge(entries((10, 0.9)))
    assert not judge(entries((10, 1e-2), (11, 1e-2)))  # too short a time to tell from
