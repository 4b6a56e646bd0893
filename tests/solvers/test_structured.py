"""`solvers/structured.py`: multi-class and one-class optima against scikit-learn's, and against other problems."""

import warnings

import numpy as np
import pytest
import samples
from sklearn.svm import LinearSVC, OneClassSVM

from maxmargin import Problem, solve
from maxmargin.solvers.structured import CrammerSinger, OneClass, solve_crammer_singer, solve_one_class

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


def unlabelled(X, C=1.0, **options):
    return Problem(X, np.ones(X.shape[0]), C, "hinge", **options)


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
    result = solve_crammer_singer(unlabelled(X, C), y, tol=1e-7)
    reference = multiclass_primal(X, y, C, crammer_singer_of_liblinear(X, y, C))
    assert result.stop_reason == "converged"
    assert result.certificate.primal == pytest.approx(multiclass_primal(X, y, C, result.W), rel=1e-12)
    assert result.certificate.primal == pytest.approx(reference, rel=1e-6)
    assert result.certificate.dual <= reference


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_two_classes_are_a_binary_problem_of_twice_the_cost(C):
    """W = (-w/2, w/2): half of the binary objective with 2C."""
    X, y = classes(n_classes=2)
    result = solve_crammer_singer(unlabelled(X, C), y, tol=1e-8)
    binary = solve(Problem(X, np.where(y == 1, 1.0, -1.0), 2 * C, "hinge"), "dual_cd", tol=1e-8)
    assert result.certificate.primal == pytest.approx(0.5 * binary.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(result.W[1] - result.W[0], binary.w, atol=1e-3)
    np.testing.assert_allclose(result.W[1], -result.W[0], atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_multiclass_storage(storage):
    X, y = classes()
    result = solve_crammer_singer(unlabelled(STORAGES[storage](X), 0.5), y, tol=0.0, max_iter=20)
    reference = solve_crammer_singer(unlabelled(X, 0.5), y, tol=0.0, max_iter=20)
    assert result.stop_reason == "max_iter"
    np.testing.assert_allclose(result.W, reference.W, rtol=1e-9, atol=1e-11)


def test_multiclass_weights_names_and_an_intercept():
    X, y = classes()
    names = np.array(["ash", "oak", "elm"])[y]
    copies = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = solve_crammer_singer(unlabelled(X, 0.3, sample_weight=copies, bias=1.0), names, tol=1e-7)
    explicit = np.column_stack([np.repeat(X, copies, axis=0), np.ones(copies.sum())])
    repeated = solve_crammer_singer(unlabelled(explicit, 0.3), np.repeat(names, copies), tol=1e-7)
    np.testing.assert_array_equal(weighted.classes, ["ash", "elm", "oak"])
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-6)
    np.testing.assert_allclose(weighted.W, repeated.W, atol=1e-2)
    found = weighted.classes[(np.column_stack([X, np.ones(len(y))]) @ weighted.W.T).argmax(axis=1)]
    assert np.mean(found == names) > 0.6


def test_the_multiclass_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 40))
    y = (X @ rng.normal(size=(40, 4))).argmax(axis=1)
    one, two = (solve_crammer_singer(unlabelled(X, 1e-4, n_jobs=n), y, tol=0.0, max_iter=8) for n in (1, 2))
    assert one.W.tobytes() == two.W.tobytes()
    assert one.certificate == two.certificate


def test_planes_of_both_risks_are_below_them_and_touch():
    X, y = classes()
    rng = np.random.default_rng(0)
    cost = unlabelled(X, 0.7, sample_weight=rng.integers(0, 3, size=len(y)))
    for risk in (CrammerSinger(cost, y, 3), OneClass(cost, 0.3)):
        points = [scale * rng.normal(size=risk.n_weights) for scale in (0.0, 0.1, 1.0, 10.0)]
        values = [risk.value(risk.outputs(w), risk.outputs(w), 0.0) for w in points]
        for w, own in zip(points, values):
            a, b = risk.plane(risk.outputs(w))
            assert a @ w + b == pytest.approx(own, rel=1e-11, abs=1e-11)
            assert all(a @ other + b <= value + 1e-9 for other, value in zip(points, values))
        halfway = risk.outputs(0.5 * (points[1] + points[2]))
        between = risk.value(risk.outputs(points[1]), risk.outputs(points[2]), 0.5)
        assert between == pytest.approx(risk.value(halfway, halfway, 0.0), rel=1e-11)


# ---------------------------------------------------------------- one class


@pytest.mark.parametrize("nu", [0.06, 0.31, 0.77])  # nu times 80 is no whole number: else rho is not unique
def test_the_one_class_optimum_is_that_of_libsvm(nu):
    X = away_from_the_origin()
    result = solve_one_class(unlabelled(X), nu, tol=1e-8)
    reference = OneClassSVM(kernel="linear", nu=nu, tol=1e-12).fit(X)
    assert result.stop_reason == "converged"
    w, rho = reference.coef_[0], -reference.intercept_[0]
    np.testing.assert_allclose(result.w, w, rtol=1e-3, atol=1e-3 * np.linalg.norm(w))
    optimum = one_class_primal(X, w, rho, nu)
    assert one_class_primal(X, result.w, result.rho, nu) == pytest.approx(optimum, rel=1e-6)
    # Of the dual problem: its least value is between the two numbers, and is that of LIBSVM's w.
    assert result.certificate.dual <= 0.5 * w @ w * (1 + 1e-9)
    assert result.certificate.primal == pytest.approx(0.5 * w @ w, rel=1e-6)
    scale = np.abs(reference.decision_function(X)).max()
    np.testing.assert_allclose(X @ result.w - result.rho, reference.decision_function(X), atol=1e-3 * scale)


@pytest.mark.parametrize("nu", [0.3, 0.31, 1.0])
def test_rho_is_the_best_offset(nu):
    X = away_from_the_origin()
    result = solve_one_class(unlabelled(X), nu, tol=1e-6)
    best = one_class_primal(X, result.w, result.rho, nu)
    assert all(one_class_primal(X, result.w, result.rho + d, nu) >= best for d in (-1.0, -1e-3, 1e-3, 1.0))
    assert -best == pytest.approx(result.certificate.dual, rel=1e-9)
    assert np.mean(X @ result.w < result.rho) <= nu


@pytest.mark.parametrize("storage", STORAGES)
def test_the_one_class_storage_and_weights(storage):
    X = np.round(away_from_the_origin(), 1).astype(np.float32).astype(np.float64)
    copies = np.random.default_rng(0).integers(0, 3, size=len(X))
    problem = unlabelled(STORAGES[storage](X), sample_weight=copies)
    weighted = solve_one_class(problem, 0.3, tol=1e-7)
    repeated = solve_one_class(unlabelled(np.repeat(X, copies, axis=0)), 0.3, tol=1e-7)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-6)
    assert weighted.rho == pytest.approx(repeated.rho, rel=1e-3)


@pytest.mark.parametrize("nu", [0.01, 0.3, 0.31, 1.0])
def test_the_one_class_risk_is_found_with_and_without_sorting(nu):
    """Equal costs take a selection; a row of cost zero makes them unequal."""
    X = away_from_the_origin()
    with_another = np.vstack([X, 100.0 * X[:1]])
    w = np.array([1.0, -0.5, 0.3, 2.0])
    values = []
    for rows, weight in ((X, None), (with_another, np.arange(81) < 80)):
        risk = OneClass(unlabelled(rows, sample_weight=weight), nu)
        values.append(risk.value(risk.outputs(w), risk.outputs(w), 0.0))
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_rows_around_the_origin_have_no_hyperplane():
    """The optimum is w = 0: proven, though no gap is relative to it."""
    X = np.vstack([np.eye(3), -np.eye(3)])
    result = solve_one_class(unlabelled(X), 1.0, tol=1e-6)
    assert result.stop_reason == "converged"
    assert np.linalg.norm(result.w) < 1e-6


# ---------------------------------------------------------------- limits and errors


def test_limits_and_history():
    X, y = classes()
    few = solve_crammer_singer(unlabelled(X, 1.0), y, tol=0.0, max_iter=6)
    assert few.stop_reason == "max_iter"
    np.testing.assert_array_equal(few.history["passes"], [2.0, 4.0, 6.0])
    assert np.all(np.diff(few.history["primal"]) <= 0.0)
    assert np.all(np.diff(few.history["dual"]) >= 0.0)
    assert solve_one_class(unlabelled(X), 0.5, tol=0.0, max_time=1e-9).stop_reason == "max_time"


def test_errors():
    X, y = classes()
    with pytest.raises(ValueError, match="at least 2 classes"):
        solve_crammer_singer(unlabelled(X), np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"90 rows but y has shape \(3,\)"):
        solve_crammer_singer(unlabelled(X), [0, 1, 2])
    with pytest.raises(ValueError, match="penalty 'l2', not 'l1'"):
        solve_crammer_singer(unlabelled(X, penalty="l1"), y)
    with pytest.raises(ValueError, match="nu must be above 0"):
        solve_one_class(unlabelled(X), 0.0)
    with pytest.raises(ValueError, match="bias=0"):
        solve_one_class(unlabelled(X, bias=1.0), 0.5)
