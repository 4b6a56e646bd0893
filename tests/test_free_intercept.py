"""An intercept that is not penalised: objectives, certificates and every solver that takes it.

LIBSVM (`sklearn.svm.SVC` and `SVR`) solves the same problem for the hinge and the epsilon-insensitive loss; the slow
optimum here is that of a problem whose intercept is a variable like the others but not in the penalty.
"""

import functools
import itertools
import math

import naive
import numpy as np
import pytest
import samples
from sklearn.svm import SVC, SVR

from maxmargin import Problem, losses, solve, solvers
from maxmargin.models.checkpoint import _fingerprint
from maxmargin.problem.intercept import balanced_gap, balanced_plane, best_shift
from maxmargin.solvers.newton.tron import Tron

BIAS = 0.5
TOL = {"interior_point": 1e-9, "tron": 1e-9, "ocas": 1e-6, "cutting_plane": 1e-4, "bmrm": 1e-4}
SMOOTH = ["squared_hinge", "huber", "logistic", "squared_error", "squared_epsilon_insensitive"]
every_loss = pytest.mark.parametrize("loss", losses.names())
solvers_and_losses = pytest.mark.parametrize(
    ("solver", "loss"),
    [(s, loss) for s in TOL for loss in losses.names() if isinstance(losses.get(loss), solvers.get(s).losses)],
)


@functools.cache
def data(loss, n_rows=60, shift=2.0):
    """Features and targets far from zero, four labels out of five -1; costs that differ, one of them zero."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 4)) * [1.0, 2.0, 0.5, 1.0] + shift
    X[rng.random(X.shape) < 0.2] = 0.0
    z = X @ np.array([1.0, -0.5, 0.3, 0.0]) + rng.normal(size=n_rows)
    y = np.where(z > np.quantile(z, 0.8), 1.0, -1.0) if losses.is_margin_loss(losses.get(loss)) else z + 10.0
    weight = rng.integers(1, 4, size=n_rows).astype(float)
    weight[7] = 0.0
    return X, y, weight


def free(loss, C=0.7, make=np.asarray, penalty="l2", **options):
    X, y, weight = data(loss)
    options = {"sample_weight": weight, "bias": BIAS, "penalize_intercept": False, "penalty": penalty} | options
    return Problem(make(X), y, C, loss, **options)


def naive_dual(problem, alpha):
    """D(alpha) by the books: minus infinity without balance, else the intercept's column does not count."""
    X, y = problem.rows.values, problem.y
    side = alpha * (y if losses.is_margin_loss(problem.loss) else 1.0)
    if abs(side.sum()) > 1e-12 * np.abs(side).sum():
        return -np.inf
    return naive.dual(X, y, problem.cost, problem.loss, alpha)


@functools.cache
def optimum(loss, C=0.7):
    """The least P, and its w."""
    X, y, weight = data(loss)
    full = np.column_stack([X, np.full(len(y), BIAS)])
    best = naive.optimum(full, y, C * weight, losses.get(loss), free_intercept=True)
    return best.primal, best.w


# ---------------------------------------------------------------- the problem


@every_loss
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
def test_the_intercept_costs_nothing(loss, make):
    free_one, w = free(loss, make=make), np.array([0.3, -1.0, 0.5, 2.0, 7.0])
    penalised = free(loss, make=make, penalize_intercept=True)
    assert free_one.has_free_intercept
    assert not penalised.has_free_intercept
    assert (free_one.n_penalized, penalised.n_penalized) == (4, 5)
    assert free_one.primal(w) == pytest.approx(penalised.primal(w) - 0.5 * 7.0**2, rel=1e-13)
    l1 = [free(loss, make=make, penalty="l1", penalize_intercept=flag).primal(w) for flag in (False, True)]
    assert l1[0] == pytest.approx(l1[1] - 7.0, rel=1e-13)


def test_without_an_intercept_there_is_nothing_to_free():
    problem = free("hinge", bias=0.0)
    assert not problem.has_free_intercept
    assert problem.n_penalized == 4
    assert solve(problem, "dual_cd", tol=1e-3).stop_reason == "converged"


@every_loss
def test_balanced_dual_variables_are_feasible_and_near(loss):
    problem, rng = free(loss), np.random.default_rng(1)
    low, high = np.clip(naive.conjugate_domain(problem.loss), -3.0, 3.0)
    alpha = -problem.cost * rng.uniform(low, high, size=problem.n_rows)
    before = alpha.copy()
    balanced = problem.balanced(alpha)
    np.testing.assert_array_equal(alpha, before)
    signs = problem.y if losses.is_margin_loss(problem.loss) else np.ones(problem.n_rows)
    assert abs(balanced @ signs) <= 1e-13 * np.abs(balanced).sum()
    assert problem.dual(alpha) == -np.inf  # as it was
    assert problem.dual(balanced) == pytest.approx(naive_dual(problem, balanced), rel=1e-12)
    np.testing.assert_allclose(problem.balanced(balanced), balanced, rtol=1e-13)
    is_other_side = (alpha * signs > 0.0) != (alpha @ signs > 0.0)
    np.testing.assert_array_equal(balanced[is_other_side], alpha[is_other_side])
    penalised = free(loss, penalize_intercept=True)
    assert penalised.balanced(alpha) is alpha


@every_loss
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_certificate_is_the_distance_of_primal_and_dual(loss, penalty):
    problem, rng = free(loss, penalty=penalty), np.random.default_rng(2)
    for _ in range(5):
        w = 0.1 * rng.normal(size=5)
        certificate, alpha = problem.certificate(w), problem.dual_point(w)
        dual = naive_dual(problem, alpha)
        if penalty == "l1":  # its dual has no quadratic term, but a bound on every weight
            v = problem.weights(alpha)[:-1]
            assert np.abs(v).max() <= 1.0 + 1e-9
            dual += 0.5 * v @ v
        assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-13)
        assert problem.dual(alpha) == pytest.approx(dual, rel=1e-10, abs=1e-12)
        assert certificate.gap == pytest.approx(min(problem.primal(w) - dual, problem.primal(w)), rel=1e-9)


@pytest.mark.oracle
@every_loss
def test_no_certificate_exceeds_the_optimum(loss):
    least, _ = optimum(loss)
    problem, rng = free(loss), np.random.default_rng(3)
    for size in (0.0, 0.01, 1.0):
        w = optimum(loss)[1] + size * rng.normal(size=5)
        certificate = problem.certificate(w, belongs=True)  # a promise that a free intercept cannot keep
        assert certificate.dual <= least * (1.0 + 1e-10)
        assert certificate.primal >= least * (1.0 - 1e-10)
    if loss in SMOOTH:
        assert problem.certificate(optimum(loss)[1]).relative_gap <= 1e-9


def test_the_checkpoint_of_the_other_problem_is_refused():
    solver = solvers.get("tron")
    assert _fingerprint(solver, free("logistic"), 0) != _fingerprint(
        solver, free("logistic", penalize_intercept=True), 0
    )


# ---------------------------------------------------------------- outputs alone


@every_loss
def test_the_best_shift_makes_the_risk_least(loss):
    problem = free(loss)
    z = np.random.default_rng(5).normal(size=problem.n_rows) * 3.0

    def risk(shift):
        return float(problem.cost @ naive.phi(problem.loss, naive.argument(problem.loss, z + shift, problem.y)))

    shift = best_shift(problem, z)
    near = np.concatenate([-np.logspace(-6, 2, 50), np.logspace(-6, 2, 50)])
    assert risk(shift) <= min(risk(shift + step) for step in near) * (1.0 + 1e-12)
    assert best_shift(problem, z + 3.0) == pytest.approx(shift - 3.0, abs=1e-6)


@every_loss
def test_a_balanced_plane_touches_the_risk_and_never_exceeds_it(loss):
    problem, rng = free(loss), np.random.default_rng(6)

    def risk(z):
        return float(problem.cost @ naive.phi(problem.loss, naive.argument(problem.loss, z, problem.y)))

    z = rng.normal(size=problem.n_rows)
    z += best_shift(problem, z)
    p, b = balanced_plane(problem, z)
    assert abs(p.sum()) <= 1e-13 * np.abs(p).sum()
    assert p @ z + b == pytest.approx(risk(z), rel=1e-11)
    for _ in range(20):
        other = z + rng.normal(size=len(z)) * rng.choice([0.01, 1.0, 10.0])
        assert p @ other + b <= risk(other) * (1.0 + 1e-12)
    p, far = balanced_plane(problem, z + 5.0)  # where the shift is not the best one, it is a bound all the same
    assert abs(p.sum()) <= 1e-13 * np.abs(p).sum()
    assert p @ z + far <= risk(z) * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_gap_without_a_look_at_rows_is_no_less_than_the_true_one(loss):
    problem, (_, best), rng = free(loss), optimum(loss), np.random.default_rng(7)
    for size in (1e-4, 1e-2, 1.0):
        w = best + size * rng.normal(size=5)
        z = problem.decision(w)
        slopes = problem._slopes(w)
        bound = balanced_gap(problem, z, float(np.linalg.norm((w - problem.weights(slopes))[:-1])))
        gap = problem.primal(w) - naive_dual(problem, problem.balanced(slopes))
        assert gap * (1.0 - 1e-9) <= bound <= 1e4 * gap


# ---------------------------------------------------------------- solvers


@solvers_and_losses
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
def test_solvers_find_the_optimum(solver, loss, make):
    problem, tol = free(loss, make=make), TOL[solver]
    result = solve(problem, solver, tol=tol)
    c = result.certificate
    assert result.stop_reason == "converged"
    assert c.relative_gap <= tol
    assert c.primal == pytest.approx(problem.primal(result.w), rel=1e-12)
    least = optimum(loss)[0]
    assert c.dual <= least * (1.0 + 1e-9) <= c.primal * (1.0 + 2e-9)
    if result.alpha is not None:
        assert problem.dual(result.alpha) == pytest.approx(c.dual, rel=1e-9)


@pytest.mark.parametrize("solver", ["interior_point", "ocas"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_kinks_as_in_libsvm(solver, loss, C):
    X, y, _ = data(loss)
    problem = Problem(X, y, C, loss, bias=1.0, penalize_intercept=False)
    model = SVC if loss == "hinge" else SVR
    theirs = model(kernel="linear", C=C, tol=1e-9, **({} if loss == "hinge" else {"epsilon": 0.1})).fit(X, y)
    w = np.append(theirs.coef_.ravel(), theirs.intercept_)
    result = solve(problem, solver, tol=TOL[solver])
    assert result.certificate.primal <= problem.primal(w) * (1.0 + TOL[solver])
    assert problem.primal(w) <= result.certificate.dual * (1.0 + 1e-4)
    np.testing.assert_allclose(result.w[:-1], w[:-1], atol=0.02 * np.abs(w[:-1]).max())
    # LIBSVM's own dual variables bound the optimum here, too.
    alpha = np.zeros(len(y))
    alpha[theirs.support_] = theirs.dual_coef_.ravel() * (y[theirs.support_] if loss == "hinge" else 1.0)
    assert problem.certificate(result.w, alpha).dual <= result.certificate.primal


@pytest.mark.parametrize("method", ["cholesky", "line_search", "trust_region"])
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("C", [1e-3, 1e2])
def test_every_way_of_newton(method, loss, C):
    problem = free(loss, C=C)
    result = solve(problem, Tron(method), tol=1e-8)
    assert result.stop_reason == "converged"
    honest = problem.certificate(result.w)
    assert honest.gap <= result.certificate.gap * (1.0 + 1e-9) + 1e-13 * honest.primal
    assert result.certificate.primal <= optimum(loss, C)[0] * (1.0 + 1e-7)


@solvers_and_losses
def test_nothing_but_the_intercept_changes_when_all_outputs_shift(solver, loss):
    """Moving a feature by a constant, and a regression's targets, is made up for by the intercept alone."""
    tag, tol = losses.get(loss), min(TOL[solver], 1e-7)
    X, y, weight = data(loss)
    is_regression = not losses.is_margin_loss(tag)
    options = {"sample_weight": weight, "bias": BIAS, "penalize_intercept": False}
    one = Problem(X, y, 0.7, loss, **options)
    other = Problem(X + 3.0, y + 100.0 * is_regression, 0.7, loss, **options)
    results = [solve(problem, solver, tol=tol) for problem in (one, other)]
    w, w2, b2 = results[0].w[:-1], results[1].w[:-1], results[1].w[-1] * BIAS
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=3.0 * tol)
    # P is strongly convex in w: each is as near to the optimum as its gap says.
    assert np.linalg.norm(w - w2) <= sum(math.sqrt(2.0 * r.certificate.gap) for r in results) * (1.0 + 1e-6) + 1e-9
    moved = np.append(w2, (b2 + 3.0 * w2.sum() - 100.0 * is_regression) / BIAS)
    assert one.primal(moved) == pytest.approx(other.primal(results[1].w), rel=1e-9)


@pytest.mark.parametrize("solver", TOL)
def test_separable_classes(solver):
    loss = "squared_hinge" if solver == "tron" else "hinge"
    X = np.array([[2.0, 9.0], [3.0, 10.0], [7.0, 9.0], [8.0, 10.0]])
    problem = Problem(X, [-1, -1, 1, 1], 1e3, loss, bias=1.0, penalize_intercept=False)
    result = solve(problem, solver, tol=1e-6)
    assert result.stop_reason == "converged"
    # The widest margin between (3, 10) and (7, 9): w along their difference, and halfway between b puts no one else.
    direction = np.array([4.0, -1.0])
    np.testing.assert_allclose(result.w[:2], 2.0 * direction / 17.0, rtol=2e-3)
    np.testing.assert_allclose(result.w[2], -2.0 * direction @ [5.0, 9.5] / 17.0, rtol=2e-3)


@pytest.mark.parametrize("solver", TOL)
def test_one_class_is_answered_by_the_intercept_alone(solver):
    loss = "squared_hinge" if solver == "tron" else "hinge"
    X, _, _ = data("hinge")
    result = solve(
        Problem(X, np.ones(len(X)), 1.0, loss, bias=1.0, penalize_intercept=False), solver, tol=1e-3, max_iter=60
    )
    assert result.certificate.primal <= 1e-6 * len(X)
    assert np.isfinite(result.w).all()


@pytest.mark.parametrize("solver", TOL)
def test_a_weight_is_a_repeated_row_and_threads_do_not_matter(solver):
    loss = "huber"
    X, y, weight = data(loss)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    options = {"bias": BIAS, "penalize_intercept": False}
    weighed = solve(Problem(X, y, 0.7, loss, sample_weight=weight, **options), solver, tol=1e-7)
    threaded = solve(Problem(X, y, 0.7, loss, sample_weight=weight, n_jobs=2, **options), solver, tol=1e-7)
    given = solve(Problem(X[repeated], y[repeated], 0.7, loss, **options), solver, tol=1e-7)
    np.testing.assert_array_equal(weighed.w, threaded.w)
    assert weighed.certificate.primal == pytest.approx(given.certificate.primal, rel=2e-7)


@pytest.mark.parametrize("solver", TOL)
def test_a_warm_start_at_the_optimum_stops_at_once(solver):
    problem, tol = free("squared_hinge"), TOL[solver]
    first = solve(problem, solver, tol=tol / 10.0)
    again = solve(problem, solver, tol=tol, start=first)
    assert again.stop_reason == "converged"
    assert again.passes < first.passes / 2.0
    fresh = solve(problem, solver, tol=tol, start=solve(problem, "interior_point", tol=1e-9))
    assert fresh.stop_reason == "converged"


@pytest.mark.parametrize("solver", ["interior_point", "tron", "ocas"])
def test_a_resumed_run_is_the_same_to_the_last_bit(solver, tmp_path):
    problem, options = free("squared_hinge"), {"tol": TOL[solver], "seed": 3}
    whole = solve(problem, solver, **options)
    calls = itertools.count(1)
    stop = [lambda _: next(calls) >= 3]
    cut = solve(problem, solver, checkpoint=tmp_path / "state", callbacks=stop, **options)
    assert cut.stop_reason == "callback"
    resumed = solve(problem, solver, checkpoint=tmp_path / "state", **options)
    np.testing.assert_array_equal(whole.w, resumed.w)
    assert whole.certificate == resumed.certificate


def test_planes_of_a_penalised_intercept_are_not_taken_over():
    penalised = solve(free("hinge", penalize_intercept=True), "ocas", tol=1e-4)
    cold, warm = (solve(free("hinge"), "ocas", tol=1e-6, start=start) for start in (None, penalised))
    assert warm.certificate.dual <= cold.certificate.primal
    assert cold.certificate.dual <= warm.certificate.primal


# ---------------------------------------------------------------- who takes it


def test_a_solver_that_cannot_names_those_that_can():
    with pytest.raises(ValueError, match=r"'dual_cd' does not take an intercept.*interior_point.*ocas"):
        solve(free("hinge"), "dual_cd")
    assert "dual_cd" not in solvers.supporting(losses.Hinge(), free_intercept=True)
    assert "dual_cd" in solvers.supporting(losses.Hinge())


@every_loss
@pytest.mark.parametrize("n_features", [3, 3500])
def test_auto_takes_one_that_can(loss, n_features):
    rng = np.random.default_rng(8)
    X = np.zeros((30, n_features))
    X[:, :3] = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    result = solve(Problem(samples.csr(X), y, 1.0, loss, bias=1.0, penalize_intercept=False), tol=1e-3)
    assert result.stop_reason == "converged"
    assert type(result.solver).takes_free_intercept
