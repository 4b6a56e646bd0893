"""Certificates hold in exact arithmetic, and a fit ends where rounding leaves nothing to be proven."""

import warnings
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import samples
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, LinearSVR, Problem, losses, penalties, solve
from maxmargin.problem import Certificate
from maxmargin.solvers.auto import _is_stuck
from maxmargin.solvers.base import Report, Solver, run

LOSSES = ["hinge", "squared_hinge", "huber", "squared_error", "epsilon_insensitive", "squared_epsilon_insensitive"]


def exact_primal(problem, w):
    """P(w) of the numbers as they are, in fractions; the losses that are piecewise polynomials."""
    X, (delta, epsilon) = problem.rows.values, (getattr(problem.loss, name, 0.0) for name in ("delta", "epsilon"))
    delta, epsilon, bias = Fraction(delta), Fraction(epsilon), problem.source.bias
    w = list(map(Fraction, w))
    is_l1 = isinstance(problem.penalty, penalties.L1)
    total = sum(map(abs, w)) if is_l1 else sum(c * c for c in w) / 2
    for x, y, cost in zip(X, problem.y, problem.cost):
        z = sum((Fraction(float(a)) * b for a, b in zip(x, w)), Fraction(0)) + (Fraction(bias) * w[-1] if bias else 0)
        total += Fraction(cost) * exact_loss(losses.name_of(problem.loss), z, Fraction(y), delta, epsilon)
    return total


def exact_loss(name, z, y, delta, epsilon):
    short, off = max(1 - y * z, Fraction(0)), max(abs(z - y) - epsilon, Fraction(0))
    if name == "huber":
        return short**2 / (2 * delta) if short < delta else short - delta / 2
    if name == "squared_error":
        return (z - y) ** 2 * Fraction(losses.value(losses.SquaredError(), 1.0))
    return {
        "hinge": short,
        "squared_hinge": short**2,
        "epsilon_insensitive": off,
        "squared_epsilon_insensitive": off**2,
    }[name]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_primal_value_is_above_the_certified_one(loss, scale):
    """Whatever the scale of the rows: rounding is in the certificate."""
    X, y = samples.sample(loss, n_rows=12, n_features=5, seed=3)
    problem = Problem(X * scale, y, 50.0, loss, bias=1.0)
    result = solve(problem, tol=0.0, max_iter=300)
    exact = exact_primal(problem, result.w)
    assert exact <= Fraction(result.certificate.primal)
    allowed = problem.with_rounding(result.w, problem.certificate(result.w))[1]
    assert abs(exact - Fraction(problem.primal(result.w))) <= Fraction(allowed)
    reached = [solve(problem, solver, tol=1e-3, max_iter=15).certificate for solver in ("dual_cd", "ocas")]
    assert all(Fraction(certificate.dual) <= exact for certificate in reached)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_bound_beside_a_poor_answer_holds_to_the_last_digit(penalty):
    """The gap is large beside what rounding can do to it, but the bound that it tells is not: both are counted."""
    X, y = samples.sample("squared_hinge", n_rows=30, n_features=5, seed=4)
    problem = Problem(X, y, 1.0, "squared_hinge", penalty=penalty)
    best = solve(problem, tol=1e-14).w
    alpha, least = problem.dual_point(best), exact_primal(problem, best)
    for w in np.random.default_rng(5).normal(size=(40, 5)) * 1e3:
        bound = problem.with_rounding(w, problem.certificate(w, alpha), alpha)[0].dual
        assert least * (1 - Fraction(1, 10**6)) <= Fraction(bound) <= least


def test_a_row_whose_margin_is_lost_in_rounding():
    """The weights are exact to the last bit, and C times that bit is more than the objective."""
    X = np.random.default_rng(1).normal(size=(1, 100)) * 1e8
    problem = Problem(X, [1.0], C=1e4, loss="hinge")
    result = solve(problem)
    exact = exact_primal(problem, result.w)
    assert result.certificate.primal >= exact > 1e3 * problem.certificate(result.w, result.alpha).primal
    assert result.stop_reason == "rounding"
    assert result.certificate.relative_gap > 1e-3


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (LinearSVR(penalize_intercept=False), np.random.default_rng(0).normal(size=(20, 3)), np.ones(20)),
        (LinearSVC(tol=0.0), *load_iris(return_X_y=True)),
        (LinearSVC(tol=0.0, loss="hinge"), *load_iris(return_X_y=True)),
        (LinearSVC(tol=1e-15, loss="huber"), *load_iris(return_X_y=True)),
    ],
)
def test_a_fit_that_cannot_be_proven_ends_and_says_why(estimator, X, y):
    """Within passes that a few rows take no time for, and with one warning."""
    with pytest.warns(ConvergenceWarning, match="what the rounding of float64 may hide") as caught:
        estimator.fit(X, y)
    assert len(caught) == 1
    assert estimator.stop_reason_ == "rounding"
    assert estimator.n_iter_ < 5000


def test_large_features_are_no_reason_to_go_on_for_ever():
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC().fit(X * 1e9, y)
    assert model.n_iter_ < 5000
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(("C", "scale"), [(1e300, 1.0), (1.0, 1e150)])
def test_numbers_that_float64_cannot_square_are_refused_by_name(C, scale):
    X = scale * np.random.default_rng(0).normal(size=(20, 3))
    for fit in (LinearSVC(C=C).fit, LinearSVR(C=C).fit):
        with pytest.raises(ValueError, match=r"C = .* too large for float64.*: scale the features, or lower C"):
            fit(X, np.arange(20) % 2)


# ---------------------------------------------------------------- progress


class StuckState(NamedTuple):
    w: np.ndarray
    passes: float


class Stuck(Solver):
    """Each update is a pass that changes nothing."""

    name, losses = "stuck", (losses.Hinge,)

    def init_state(self, problem, seed=0, start=None):
        return StuckState(np.zeros(problem.n_weights), 0.0)

    def update(self, problem, state, goal):
        return state._replace(passes=state.passes + 1.0)

    def report(self, problem, state, goal):
        return Report(state.passes, np.nan, np.nan, False, {})


def test_the_last_solver_of_a_plan_stops_when_the_gap_no_longer_falls():
    problem = Problem(*samples.sample("hinge", n_rows=20, n_features=3), loss="hinge")
    result = run(Stuck(), problem, max_iter=1e6, give_up=_is_stuck)
    assert result.stop_reason == "stalled"
    assert 400 <= result.passes < 500
    falling = [{"passes": 10.0 * k, "relative_gap": 1 / k, "dual": -1 / k, "primal": 0.0} for k in range(1, 200)]
    assert not _is_stuck(falling)
    assert _is_stuck(falling + [{**falling[-1], "passes": 2000.0 + 10.0 * k} for k in range(400)])


def test_an_objective_that_is_no_number_ends_the_run():
    class Lost(Stuck):
        def certificate(self, problem, state):
            return Certificate(np.nan, np.nan, np.nan)

    problem = Problem(*samples.sample("hinge", n_rows=20, n_features=3), loss="hinge")
    result = run(Lost(), problem, max_iter=1e6)
    assert (result.stop_reason, result.passes) == ("stalled", 10.0)
    assert "no longer a finite number" in result.detail
