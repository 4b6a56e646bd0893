"""`solvers/svmperf.py`: step by step, its stopping rule, and the measures other than the error rate."""

import itertools

import naive
import numpy as np
import pytest
import samples
from naive.svmperf import f1_loss, most_violated, precision_loss, svmperf

from maxmargin import Problem, losses, measures, solve
from maxmargin.measures import F1, ErrorRate, PrecisionAtK, RecallAtK, ROCArea
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate.dual_cd import DualCD
from maxmargin.solvers.planes.cutting_plane import CuttingPlane
from maxmargin.solvers.planes.ocas import OCAS
from maxmargin.solvers.planes.svmperf import SVMPerf

OTHERS = [F1(), PrecisionAtK(), PrecisionAtK(20), RecallAtK(20), ROCArea()]
every_other = pytest.mark.parametrize("measure", OTHERS, ids=repr)
STORAGES = {"dense": np.asarray, "csr": samples.csr}


def unbalanced(n_rows=80, n_features=5, seed=0):
    """A sample with few positives."""
    X, _ = samples.sample("hinge", n_rows=n_rows, n_features=n_features, seed=seed)
    rng = np.random.default_rng(seed + 1)
    z = X @ rng.normal(size=n_features) + rng.normal(size=n_rows)
    return X, np.where(z > np.quantile(z, 0.8), 1.0, -1.0)


def objective(measure, X, y, cost, w):
    """P(w), with what the measure's own test has shown to be the most violated labelling."""
    p = np.empty(len(y))
    b = measure.most_violated(X @ w, y, cost, p)
    return 0.5 * w @ w + b + p @ (X @ w)


def pairs_problem(X, y, C):
    """The ROC area as an SVM of differences: a row for each pair, all labels +1."""
    pos, neg = X[y > 0], X[y < 0]
    differences = (pos[:, None, :] - neg[None, :, :]).reshape(-1, X.shape[1])
    return Problem(differences, np.ones(len(differences)), C * len(y) / len(differences), "hinge")


# ---------------------------------------------------------------- step by step


@pytest.mark.parametrize("C", [0.01, 0.7, 50.0])
def test_every_iteration_is_that_of_the_paper(C):
    X, y = samples.sample("hinge", n_rows=20, n_features=3)
    problem = Problem(X, y, C, "hinge")
    for passes, w in itertools.islice(svmperf(X, y, problem.cost, problem.loss), 1, 8):
        result = solve(problem, SVMPerf(), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("measure", "loss", "k"), [(F1(), f1_loss, None), (PrecisionAtK(), precision_loss, 3)], ids=["f1", "precision"]
)
def test_every_iteration_with_a_measure(measure, loss, k):
    """Against a search through all labellings."""
    X, _ = samples.sample("hinge", n_rows=8, n_features=2, seed=2)
    y = np.where(np.arange(8) < 3, 1.0, -1.0)
    problem = Problem(X, y, 0.7, "hinge")

    def allowed(labels):
        return k is None or np.sum(labels > 0) == k

    oracle = svmperf(X, y, problem.cost, problem.loss, multivariate_loss=loss, allowed=allowed)
    for passes, w in itertools.islice(oracle, 1, 6):
        result = solve(problem, SVMPerf(measure), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-7, atol=1e-9)


def test_constraints_are_those_of_cutting_planes():
    problem = Problem(*samples.sample("hinge", n_rows=60), 0.5, "hinge")
    ours, theirs = (solve(problem, solver, tol=0.0, max_iter=20) for solver in (SVMPerf(), CuttingPlane()))
    np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-9)
    n = theirs.state.planes.n
    np.testing.assert_allclose(ours.state.planes.a[:n], theirs.state.planes.a[:n], rtol=1e-9)


# ---------------------------------------------------------------- its own stopping rule


@pytest.mark.parametrize("measure", [ErrorRate(), F1(), ROCArea()], ids=repr)
@pytest.mark.parametrize("epsilon", [1e-1, 1e-3])
def test_the_run_ends_when_no_constraint_is_violated_by_more_than_epsilon(measure, epsilon):
    X, y = unbalanced()
    problem, solver = Problem(X, y, 0.3, "hinge"), SVMPerf(measure, epsilon=epsilon)
    result = solve(problem, solver, tol=0.0, callbacks=[solver.is_satisfied])
    assert result.stop_reason == "callback"
    planes, w = result.state.planes, result.w
    xi = max(0.0, np.max(planes.a[: planes.n] @ w + planes.b[: planes.n]))
    violation = objective(measure, X, y, problem.cost, w) - 0.5 * w @ w - xi
    assert violation <= epsilon * problem.cost.sum() * (1 + 1e-12)
    assert result.history["violation"][-1] <= epsilon
    # And not long after: with one iteration less, some constraint was violated by more.
    before = solve(problem, solver, tol=0.0, max_iter=result.passes - 2)
    assert before.history["violation"][-1] > epsilon


def test_the_violation_is_the_gap_as_a_share_of_all_costs():
    problem = Problem(*samples.sample("hinge", n_rows=60), 0.5, "hinge")
    result = solve(problem, SVMPerf(), tol=1e-4)
    assert result.stop_reason == "converged"
    shares = (result.history["primal"] - result.history["dual"]) / problem.cost.sum()
    np.testing.assert_allclose(result.history["violation"], shares, rtol=1e-6, atol=1e-12)


# ---------------------------------------------------------------- the measures' optima


@every_other
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_certificate_is_honest(measure, storage, C):
    X, y = unbalanced()
    problem = Problem(STORAGES[storage](X), y, C, "hinge")
    result = solve(problem, SVMPerf(measure), tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.certificate.relative_gap <= 1e-6
    primal = objective(measure, X, y, problem.cost, result.w)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-10)
    # No point nearby, nor far, is better than the bound.
    rng = np.random.default_rng(0)
    for scale in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            w = result.w + scale * rng.normal(size=5)
            assert objective(measure, X, y, problem.cost, w) >= result.certificate.dual


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_roc_area_is_an_svm_of_differences(C):
    """With a row for each pair another solver finds the same optimum."""
    X, y = unbalanced()
    result = solve(Problem(X, y, C, "hinge"), SVMPerf(ROCArea()), tol=1e-8)
    other = solve(pairs_problem(X, y, C), DualCD(), tol=1e-8)
    assert result.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-7)
    apart = np.linalg.norm(result.w - other.w)
    assert apart <= np.sqrt(2 * result.certificate.gap) + np.sqrt(2 * other.certificate.gap) + 1e-12


def test_the_f1_optimum_is_that_of_all_constraints():
    """The whole structural problem at once, a plane for each of 128 labellings, solved by scipy."""
    from scipy.optimize import minimize

    X, _ = samples.sample("hinge", n_rows=7, n_features=2, seed=4)
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0])
    labellings = [np.array(labels) for labels in itertools.product([-1.0, 1.0], repeat=7)]
    A = np.array([-0.5 * X.T @ (y - labels) for labels in labellings])
    b = np.array([7 * f1_loss(labels, y) for labels in labellings])
    slacks = {"type": "ineq", "fun": lambda v: v[2] - A @ v[:2] - b, "jac": lambda v: np.c_[-A, np.ones(len(b))]}
    reference = minimize(lambda v: 0.5 * v[:2] @ v[:2] + v[2], np.ones(3), constraints=slacks, tol=1e-14)
    result = solve(Problem(X, y, 1.0, "hinge"), SVMPerf(F1()), tol=1e-9)
    assert result.certificate.primal == pytest.approx(reference.fun, rel=1e-6)
    np.testing.assert_allclose(result.w, reference.x[:2], atol=1e-4)


def test_every_measure_is_best_on_its_own():
    """What a measure's risk is minimised for: on noisy rows none of the others' solutions has a lower one."""
    X, y = unbalanced(n_rows=300, n_features=6)
    problem = Problem(X, y, 1.0, "hinge")
    answers = {measure: solve(problem, SVMPerf(measure), tol=1e-4).w for measure in [ErrorRate(), *OTHERS]}
    for measure, own in answers.items():
        for w in answers.values():
            least = objective(measure, X, y, problem.cost, own)
            assert least <= objective(measure, X, y, problem.cost, w) * (1 + 1e-4)
    areas = {measure: ROCArea().value(X @ w, y) for measure, w in answers.items()}
    assert max(areas, key=areas.get) == ROCArea()


def test_f1_finds_rare_positives_where_the_error_rate_gives_up():
    """All negative is the best that an SVM can say of noise with few positives."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=400) > 1.5, 1.0, -1.0)
    problem = Problem(X, y, 0.05, "hinge")
    f1, errors = (F1().value(X @ solve(problem, SVMPerf(m), tol=1e-4).w, y) for m in (F1(), ErrorRate()))
    assert errors < 0.05
    assert f1 > 0.4


@every_other
def test_an_intercept_and_odd_costs(measure):
    """Rows of weight zero are not there."""
    X, y = unbalanced()
    kept = np.random.default_rng(0).random(len(y)) < 0.8
    weighted = solve(Problem(X, y, 0.3, "hinge", sample_weight=kept, bias=1.0), SVMPerf(measure), tol=1e-7)
    removed = solve(Problem(X[kept], y[kept], 0.3, "hinge", bias=1.0), SVMPerf(measure), tol=1e-7)
    assert weighted.certificate.primal == pytest.approx(removed.certificate.primal, rel=1e-6)
    assert abs(weighted.passes - removed.passes) <= 4.0
    apart = np.linalg.norm(weighted.w - removed.w)
    assert apart <= np.sqrt(2 * weighted.certificate.gap) + np.sqrt(2 * removed.certificate.gap) + 1e-12
    if isinstance(measure, ROCArea):
        assert abs(weighted.w[-1]) < 1e-12  # differences of outputs do not see it


def test_weights_of_the_roc_area_are_repeated_rows():
    X, y = unbalanced()
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = solve(Problem(X, y, 0.3, "hinge", sample_weight=copies), SVMPerf(ROCArea()), tol=1e-8)
    repeated = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    other = solve(Problem(*repeated, 0.3, "hinge"), SVMPerf(ROCArea()), tol=1e-8)
    assert weighted.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(weighted.w, other.w, atol=1e-4)


# ---------------------------------------------------------------- as other solvers


@every_other
def test_a_run_that_is_resumed_is_one_run(measure, tmp_path):
    problem, solver, path = Problem(*unbalanced(), 0.3, "hinge"), SVMPerf(measure), tmp_path / "state"
    whole = solve(problem, solver, tol=1e-5)
    for limit in (3, 1, 8):
        calls = itertools.count(1)
        stop = [lambda _, c=calls, n=limit: next(c) >= n]
        solve(problem, solver, tol=1e-5, checkpoint=path, callbacks=stop)
    resumed = solve(problem, solver, tol=1e-5, checkpoint=path)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.passes == whole.passes
    assert resumed.certificate == whole.certificate


@every_other
def test_any_number_of_threads_gives_the_same_bits(measure):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 40))
    y = np.where(X @ rng.normal(size=40) + 3 * rng.normal(size=40_000) > 3, 1.0, -1.0)
    problem = Problem(X, y, 1e-4, "hinge")
    one, two = (solve(problem.with_jobs(n), SVMPerf(measure), tol=1e-3, max_iter=9) for n in (1, 2))
    assert one.w.tobytes() == two.w.tobytes()
    assert one.certificate == two.certificate


def test_planes_serve_other_solvers_and_other_C_but_no_other_measure():
    X, y = unbalanced()
    problem = Problem(X, y, 0.3, "hinge")
    for first, second in [(OCAS(), SVMPerf()), (SVMPerf(F1()), SVMPerf(F1()))]:
        done = solve(problem, first, tol=1e-7)
        again = solve(problem, second, tol=1e-6, start=done)
        assert again.stop_reason == "converged"
        assert again.passes <= 1.0
    other_C = Problem(X, y, 0.4, "hinge")
    assert solve(other_C, SVMPerf(F1()), start=done, tol=1e-5).passes < solve(other_C, SVMPerf(F1()), tol=1e-5).passes
    result = solve(problem, SVMPerf(ROCArea()), start=done, tol=1e-6)
    fresh = solve(problem, SVMPerf(ROCArea()), tol=1e-6)
    assert result.certificate.primal == pytest.approx(fresh.certificate.primal, rel=2e-6)


def test_updates_move_on_after_the_rule_is_met():
    problem, solver = Problem(*unbalanced(), 0.3, "hinge"), SVMPerf(F1(), epsilon=0.5)
    state, passes = solver.init_state(problem), [0.0]
    for _ in range(10):
        state = solver.update(problem, state, Goal(0.0, 50.0))
        passes.append(solver.report(problem, state, Goal(0.0, 50.0)).passes)
    assert np.all(np.diff(passes) > 0)


def test_errors():
    X, y = unbalanced()
    with pytest.raises(ValueError, match="unknown measure 'auc'"):
        SVMPerf("auc")
    with pytest.raises(ValueError, match="epsilon must be"):
        SVMPerf(epsilon=-1.0)
    with pytest.raises(ValueError, match="does not take loss 'logistic'; it takes hinge"):
        solve(Problem(X, y, 1.0, "logistic"), SVMPerf())
    with pytest.raises(ValueError, match="no negative row"):
        solve(Problem(X, np.ones(len(y)), 1.0, "hinge"), SVMPerf("roc_area"))
    with pytest.raises(ValueError, match="weights must be 0 or all the same"):
        solve(Problem(X, y, 1.0, "hinge", sample_weight=np.arange(len(y))), SVMPerf("f1"))
    with pytest.raises(ValueError, match=r"ROCArea\(\) does not take k=3"):
        SVMPerf("roc_area", k=3)
    assert SVMPerf(measures.F1()) == SVMPerf("f1") != SVMPerf("roc_area")
    assert SVMPerf(PrecisionAtK(3)) == SVMPerf("precision_at_k", 3) != SVMPerf("precision_at_k")


def test_the_oracles_agree():
    """The worst labelling of all, by the error rate, is that of the margins below one."""
    z, y = np.array([0.2, -3.0, 1.4, 0.9]), np.array([1.0, -1.0, 1.0, -1.0])
    labels, slack = most_violated(z, y, np.ones(4), lambda labels, y: np.mean(labels != y))
    np.testing.assert_array_equal(labels, np.where(y * z < 1, -y, y))
    assert slack == pytest.approx(np.sum(naive.phi(losses.Hinge(), y * z)))
