"""`problem/risks.py`: multi-class and one-class optima against scikit-learn's, and against other problems."""

import itertools
import warnings

import numpy as np
import pytest
import samples
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, OneClassSVM

from maxmargin import LinearSVC as OurLinearSVC
from maxmargin import Problem, measures, solve
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.problem.risks import CrammerSinger, OneClass, Structural

STORAGES = {
    "dense": np.asarray,
    "csr": samples.csr,
    "float32": lambda X: X.astype(np.float32),
    "csr int64": lambda X: samples.csr(X, np.int64),
}


def classes(n_rows=90, n_features=5, n_classes=3, seed=0):
    """Rows of several classes, with noise; values have few digits, so that float32 holds them exactly."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), 1).astype(np.float32).astype(np.float64)
    scores = X @ rng.normal(size=(n_features, n_classes)) + rng.normal(size=(n_rows, n_classes))
    return X, scores.argmax(axis=1)


def away_from_the_origin(n_rows=80, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_features)) + rng.uniform(1.0, 2.0, size=n_features)


def multiclass(X, y, C=1.0, bias=0.0, sample_weight=None, n_jobs=1, **options):
    """The answer of BMRM for all classes at once, and its weights, one row a class."""
    n_classes = int(np.max(y)) + 1
    risk = CrammerSinger(n_classes)
    problem = Problem(X, y, C, risk=risk, bias=bias, sample_weight=sample_weight, n_jobs=n_jobs)
    result = solve(problem, "bmrm", **options)
    return result, result.w.reshape(n_classes, -1)


def one_class(X, nu, sample_weight=None, **options):
    """The answer of BMRM, and rho."""
    problem = Problem(X, None, 1.0, risk=OneClass(nu), sample_weight=sample_weight)
    result = solve(problem, "bmrm", **options)
    return result, problem.risk.rho(problem, result.w)


def multiclass_primal(X, y, cost, W):
    """As Crammer and Singer define it."""
    Z = X @ W.T
    margins = Z - Z[np.arange(len(y)), y][:, None] + (np.arange(len(W)) != y[:, None])
    return 0.5 * np.sum(W**2) + np.sum(cost * margins.max(axis=1))


def one_class_primal(X, w, rho, nu):
    """As Schoelkopf and others define it, in LIBSVM's scaling."""
    return 0.5 * w @ w - nu * len(X) * rho + np.sum(np.maximum(0, rho - X @ w))


def crammer_singer_of_liblinear(X, y, C):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=False, tol=1e-10, max_iter=200_000)
        return model.fit(X, y).coef_


# ---------------------------------------------------------------- Crammer and Singer


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("C", [0.02, 0.5])
def test_the_multiclass_optimum_is_that_of_liblinear(n_classes, C):
    X, y = classes(n_classes=n_classes)
    result, W = multiclass(X, y, C, tol=1e-7)
    reference = multiclass_primal(X, y, C, crammer_singer_of_liblinear(X, y, C))
    assert result.stop_reason == "converged"
    assert result.certificate.primal == pytest.approx(multiclass_primal(X, y, C, W), rel=1e-12)
    assert result.certificate.primal == pytest.approx(reference, rel=1e-6)
    assert result.certificate.dual <= reference


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_two_classes_are_a_binary_problem_of_twice_the_cost(C):
    """W = (-w/2, w/2): half of the binary objective with 2C."""
    X, y = classes(n_classes=2)
    result, W = multiclass(X, y, C, tol=1e-8)
    binary = solve(Problem(X, np.where(y == 1, 1.0, -1.0), 2 * C, "hinge"), "dual_cd", tol=1e-8)
    assert result.certificate.primal == pytest.approx(0.5 * binary.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(W[1] - W[0], binary.w, atol=1e-3)
    np.testing.assert_allclose(W[1], -W[0], atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_multiclass_storage(storage):
    X, y = classes()
    result, W = multiclass(STORAGES[storage](X), y, 0.5, tol=0.0, max_iter=20)
    _, reference = multiclass(X, y, 0.5, tol=0.0, max_iter=20)
    assert result.stop_reason == "max_iter"
    np.testing.assert_allclose(W, reference, rtol=1e-9, atol=1e-11)


def test_multiclass_weights_and_an_intercept():
    X, y = classes()
    copies = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted, W = multiclass(X, y, 0.3, sample_weight=copies, bias=1.0, tol=1e-7)
    explicit = np.column_stack([np.repeat(X, copies, axis=0), np.ones(copies.sum())])
    repeated, W_then = multiclass(explicit, np.repeat(y, copies), 0.3, tol=1e-7)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-6)
    np.testing.assert_allclose(W, W_then, atol=1e-2)
    assert np.mean((np.column_stack([X, np.ones(len(y))]) @ W.T).argmax(axis=1) == y) > 0.6


def test_the_multiclass_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 40))
    y = (X @ rng.normal(size=(40, 4))).argmax(axis=1)
    (one, _), (two, _) = (multiclass(X, y, 1e-4, n_jobs=n, tol=0.0, max_iter=8) for n in (1, 2))
    assert one.w.tobytes() == two.w.tobytes()
    assert one.certificate == two.certificate


RISKS = {
    "crammer_singer": (CrammerSinger(3), lambda y: y),
    "one_class": (OneClass(0.3), lambda y: None),
    "roc_area": (Structural(measures.ROCArea()), lambda y: np.where(y > 0, 1.0, -1.0)),
}
every_risk = pytest.mark.parametrize("name", RISKS)


def problem_of(name, X, y, **options):
    risk, labels = RISKS[name]
    return Problem(X, labels(y), 0.7, risk=risk, **options)


@every_risk
def test_planes_are_below_the_risk_and_touch_it(name):
    X, y = classes()
    rng = np.random.default_rng(0)
    problem = problem_of(name, X, y, sample_weight=rng.integers(0, 3, size=len(y)))
    points = [scale * rng.normal(size=problem.n_weights) for scale in (0.0, 0.1, 1.0, 10.0)]
    values = [problem.risk.value(problem, w) for w in points]
    for w, own in zip(points, values):
        z = problem.outputs(w)
        p, b, value = problem.linearize(z, z, 0.0)
        a = problem.combine(p)
        assert a @ w + b == pytest.approx(own, rel=1e-11, abs=1e-11)
        assert value == pytest.approx(own, rel=1e-11, abs=1e-11)
        assert all(a @ other + b <= risk + 1e-9 for other, risk in zip(points, values))
    z, z_t = (problem.outputs(points[k]) for k in (1, 2))
    between, risk = problem.risk_between(z, z_t, 0.5)
    np.testing.assert_allclose(between, 0.5 * (z + z_t), rtol=1e-12, atol=1e-12)
    assert risk == pytest.approx(problem.risk.value(problem, 0.5 * (points[1] + points[2])), rel=1e-11)
    halfway, there = problem.linearize(z, z_t, 0.5), problem.linearize(between, between, 0.0)
    assert halfway.b == pytest.approx(there.b, rel=1e-11)
    np.testing.assert_allclose(halfway.p, there.p, rtol=1e-12)


@every_risk
def test_partitions_do_not_matter(name):
    """Five of them, the second empty, the fourth of one class."""
    X, y = classes()
    order = np.argsort(y, kind="stable")
    X, y = X[order] + 1e-3 * np.random.default_rng(0).normal(size=X.shape), y[order]  # without ties
    borders = (0, 40, 40, 70, 80, 90)
    parts = InMemory(tuple(as_rows(X[lo:hi])[0] for lo, hi in itertools.pairwise(borders)))
    answers = [solve(problem_of(name, rows, y), "bmrm", tol=0.0, max_iter=11) for rows in (X, parts)]
    np.testing.assert_allclose(answers[0].w, answers[1].w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(*(answer.certificate for answer in answers), rtol=1e-9, atol=1e-9)


@every_risk
def test_a_run_that_is_resumed_is_one_run_and_a_warm_start_ends_at_once(name, tmp_path):
    X, y = classes()
    problem, path = problem_of(name, X, y), tmp_path / "state"
    whole = solve(problem, "bmrm", tol=1e-5)
    for limit in (1, 2):
        calls = itertools.count(1)
        stop = [lambda _, c=calls, n=limit: next(c) >= n]
        solve(problem, "bmrm", tol=1e-5, checkpoint=path, callbacks=stop)
    resumed = solve(problem, "bmrm", tol=1e-5, checkpoint=path)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.certificate == whole.certificate
    again = solve(problem, "bmrm", tol=1e-5, start=whole)
    assert (again.stop_reason, again.passes) == ("converged", 0.0)
    with pytest.raises(ValueError, match="belongs to other data, another solver or other parameters"):
        solve(Problem(X, np.where(y > 0, 1.0, -1.0), 0.7), "bmrm", checkpoint=path)


def test_all_classes_at_once_have_what_other_fits_have():
    """A true solver, warm starts, limits and a progress that callbacks could see."""
    X, y = classes()
    clf = OurLinearSVC(C=0.5, multi_class="crammer_singer", tol=1e-6, warm_start=True).fit(X, y)
    assert clf.solver_.name == "bmrm"
    assert clf.stop_reason_ == "converged"
    assert clf.history_["iterations"][-1] > 5
    passes = clf.n_iter_
    assert clf.fit(X, y).n_iter_ == 1 < passes
    assert clf.stop_reason_ == "converged"
    with pytest.warns(ConvergenceWarning, match="max_iter=3 was too small"):
        few = OurLinearSVC(C=0.5, multi_class="crammer_singer", max_iter=3, tol=1e-9).fit(X, y)
    assert few.certificate_.dual <= clf.certificate_.primal <= few.certificate_.primal * (1 + 1e-12)
    file = OurLinearSVC(C=0.5, multi_class="crammer_singer", tol=1e-6, warm_start=False)
    np.testing.assert_array_equal(file.fit(X, y).coef_, OurLinearSVC(**file.get_params()).fit(X, y).coef_)


# ---------------------------------------------------------------- one class


@pytest.mark.parametrize("nu", [0.06, 0.31, 0.77])  # nu times 80 is no whole number: else rho is not unique
def test_the_one_class_optimum_is_that_of_libsvm(nu):
    X = away_from_the_origin()
    result, own_rho = one_class(X, nu, tol=1e-8)
    reference = OneClassSVM(kernel="linear", nu=nu, tol=1e-12).fit(X)
    assert result.stop_reason == "converged"
    w, rho = reference.coef_[0], -reference.intercept_[0]
    np.testing.assert_allclose(result.w, w, rtol=1e-3, atol=1e-3 * np.linalg.norm(w))
    optimum = one_class_primal(X, w, rho, nu)
    assert one_class_primal(X, result.w, own_rho, nu) == pytest.approx(optimum, rel=1e-6)
    # Of the dual problem: its least value is between the two numbers, and is that of LIBSVM's w.
    assert result.certificate.dual <= 0.5 * w @ w * (1 + 1e-9)
    assert result.certificate.primal == pytest.approx(0.5 * w @ w, rel=1e-6)
    scale = np.abs(reference.decision_function(X)).max()
    np.testing.assert_allclose(X @ result.w - own_rho, reference.decision_function(X), atol=1e-3 * scale)


@pytest.mark.parametrize("nu", [0.3, 0.31, 1.0])
def test_rho_is_the_best_offset(nu):
    X = away_from_the_origin()
    result, rho = one_class(X, nu, tol=1e-6)
    best = one_class_primal(X, result.w, rho, nu)
    assert all(one_class_primal(X, result.w, rho + d, nu) >= best for d in (-1.0, -1e-3, 1e-3, 1.0))
    assert -best == pytest.approx(result.certificate.dual, rel=1e-9)
    assert np.mean(X @ result.w < rho) <= nu


@pytest.mark.parametrize("storage", STORAGES)
def test_the_one_class_storage_and_weights(storage):
    X = np.round(away_from_the_origin(), 1).astype(np.float32).astype(np.float64)
    copies = np.random.default_rng(0).integers(0, 3, size=len(X))
    weighted, rho = one_class(STORAGES[storage](X), 0.3, sample_weight=copies, tol=1e-7)
    repeated, rho_then = one_class(np.repeat(X, copies, axis=0), 0.3, tol=1e-7)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-6)
    assert rho == pytest.approx(rho_then, rel=1e-3)


@pytest.mark.parametrize("nu", [0.01, 0.3, 0.31, 1.0])
def test_the_one_class_risk_is_found_with_and_without_sorting(nu):
    """Equal costs take a selection; a row of cost zero makes them unequal."""
    X = away_from_the_origin()
    with_another = np.vstack([X, 100.0 * X[:1]])
    w = np.array([1.0, -0.5, 0.3, 2.0])
    values = []
    for rows, weight in ((X, None), (with_another, np.arange(81) < 80)):
        problem = Problem(rows, None, risk=OneClass(nu), sample_weight=weight)
        values.append(problem.risk.value(problem, w))
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_rows_around_the_origin_have_no_hyperplane():
    """The optimum is w = 0: proven, though no gap is relative to it."""
    X = np.vstack([np.eye(3), -np.eye(3)])
    result, _ = one_class(X, 1.0, tol=1e-6)
    assert result.stop_reason == "converged"
    assert np.linalg.norm(result.w) < 1e-6


# ---------------------------------------------------------------- limits and errors


def test_limits_and_history():
    X, y = classes()
    seen = []
    few, _ = multiclass(X, y, tol=0.0, max_iter=6, callbacks=[lambda p: seen.append((p.passes, *p.report[1:3]))])
    assert few.stop_reason == "max_iter"
    passes, primals, duals = np.array(seen).T
    np.testing.assert_array_equal(passes, [1.0, 3.0, 5.0, 7.0])
    assert np.all(np.diff(primals) <= 0.0)
    assert np.all(np.diff(duals) >= 0.0)
    stopped, _ = one_class(X, 0.5, tol=0.0, max_time=1e-9)
    assert stopped.stop_reason == "max_time"
    assert 0.0 <= stopped.certificate.gap <= stopped.certificate.primal < np.inf


def test_errors():
    X, y = classes()
    labels = np.where(y > 0, 1.0, -1.0)
    with pytest.raises(ValueError, match="at least 2 classes"):
        CrammerSinger(1)
    with pytest.raises(ValueError, match=r"90 rows but y has shape \(3,\)"):
        Problem(X, [0, 1, 2], risk=CrammerSinger(3))
    with pytest.raises(ValueError, match="classes must be the numbers 0 to 1"):
        Problem(X, y, risk=CrammerSinger(2))
    with pytest.raises(ValueError, match="penalty 'l2', not 'l1'"):
        Problem(X, y, risk=CrammerSinger(3), penalty="l1")
    with pytest.raises(ValueError, match="no intercept without penalty"):
        Problem(X, y, risk=CrammerSinger(3), bias=1.0, penalize_intercept=False)
    with pytest.raises(ValueError, match="nu must be above 0"):
        OneClass(0.0)
    with pytest.raises(ValueError, match="bias=0"):
        Problem(X, None, risk=OneClass(0.5), bias=1.0)
    with pytest.raises(ValueError, match="no negative row"):
        Problem(X, np.ones(len(y)), risk=Structural(measures.ROCArea()))
    with pytest.raises(
        ValueError, match=r"'cutting_plane' does not take the risk CrammerSinger\(n_classes=3\); bmrm takes all"
    ):
        solve(Problem(X, y, risk=CrammerSinger(3)), "cutting_plane")
    with pytest.raises(ValueError, match="ask the solver for a certificate"):
        Problem(X, labels, risk=Structural(measures.F1())).certificate(np.zeros(5))
