"""Certificates hold in exact arithmetic, and a fit ends where rounding leaves nothing to be proven."""

import warnings
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import samples
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, LinearSVR, Problem, losses, measures, penalties, solve
from maxmargin.problem import Certificate
from maxmargin.problem.risks import CrammerSinger, OneClass, Structural
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


# ---------------------------------------------------------------- risks that compare classes, or rows


def exact_outputs(problem, w):
    """x_i'w in fractions, a line for each of the weight vectors."""
    W = [list(map(Fraction, line)) for line in np.reshape(w, (problem.risk.n_outputs, -1))]
    X = [list(map(Fraction, x.astype(float))) for x in problem.rows.values]
    return [[sum((a * b for a, b in zip(x, line)), Fraction(0)) for x in X] for line in W]


def exact_risk(problem, Z):
    """R in fractions, by what the risks' own docstrings say; costs are all the same."""
    risk, cost, n = problem.risk, Fraction(problem.cost[0]), problem.n_rows
    if isinstance(risk, CrammerSinger):
        rows = ((int(own), [z[i] for z in Z]) for i, own in enumerate(problem.y))
        return cost * sum(max(z[r] - z[own] + (r != own) for r in range(len(z))) for own, z in rows)
    if isinstance(risk, OneClass):
        left, total = Fraction(risk.nu * problem.total_cost), Fraction(0)
        for z in sorted(Z[0]):
            total -= min(left, cost) * z
            left -= min(left, cost)
        return total
    positive, negative = ([z for z, y in zip(Z[0], problem.y) if y == sign] for sign in (1.0, -1.0))
    if isinstance(risk.measure, measures.ROCArea):
        pairs = sum(max(Fraction(0), 1 - (a - b)) for a in positive for b in negative)
        return cost * n * pairs / (len(positive) * len(negative))
    best, P = Fraction(0), len(positive)
    for missed in range(P + 1):  # of the positives the lowest, of the negatives the highest
        for taken in range(len(negative) + 1):
            loss = 1 - Fraction(2 * (P - missed), 2 * P - missed + taken)
            gained = sum(sorted(negative)[len(negative) - taken :]) - sum(sorted(positive)[:missed])
            best = max(best, n * loss + gained)
    return cost * best


RISKS = {
    "classes": (CrammerSinger(3), "bmrm"),
    "classes by rows": (CrammerSinger(3), "larank"),
    "one class": (OneClass(0.3), "bmrm"),
    "ranking": (Structural(measures.ROCArea()), "bmrm"),
    "f1": (Structural(measures.F1()), "bmrm"),
}


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("name", RISKS)
def test_certificates_of_other_risks_hold_in_exact_arithmetic(name, scale):
    """At answers that are as good as they get, where what is left of the gap is rounding."""
    risk, solver = RISKS[name]
    rng = np.random.default_rng(7)
    X = scale * (rng.normal(size=(12, 4)) + 1.0)
    y = rng.integers(0, 3, 12) if isinstance(risk, CrammerSinger) else np.where(rng.random(12) < 0.5, 1.0, -1.0)
    problem = Problem(X, y, 20.0, risk=risk)
    answers = [solve(problem, solver, tol=tol, max_iter=300) for tol in (1e-3, 0.0)]
    exact = [exact_risk(problem, exact_outputs(problem, a.w)) + sum(Fraction(c) ** 2 for c in a.w) / 2 for a in answers]
    for answer, objective in zip(answers, exact):
        # of one class the certificate is that of the dual problem, whose sign is the other one
        bounds = answer.certificate.primal, answer.certificate.dual
        upper, lower = bounds if risk.is_nonnegative else (-bounds[1], -bounds[0])
        assert objective <= Fraction(upper)
        assert Fraction(lower) <= min(exact)


def test_a_risk_whose_outputs_are_lost_in_rounding():
    """What is computed may be a thousandth too small and more, what is certified never is."""
    lost = []
    for seed in range(12):
        X = np.random.default_rng(seed).normal(size=(2, 100)) * 1e8
        problem = Problem(X, [0, 1], 1e4, risk=CrammerSinger(2))
        result = solve(problem, "larank", max_iter=50)
        exact = exact_risk(problem, exact_outputs(problem, result.w)) + sum(Fraction(c) ** 2 for c in result.w) / 2
        assert exact <= Fraction(result.certificate.primal)
        assert result.stop_reason == "rounding"
        lost.append(1.0 - problem.primal(result.w) / float(exact))
    assert max(lost) > 1e-3


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
