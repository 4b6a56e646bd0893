"""The path over C: the same optima as single fits, fewer iterations, whatever the order."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import metrics
from sklearn.svm import LinearSVC as Liblinear

from maxmargin import LinearSVC, Problem, load, solve
from maxmargin.selection.paths import Start, grid, path, solve_path
from maxmargin.solvers.planes.ocas import OCAS

CS = [0.003, 0.03, 0.3, 3.0, 30.0]


def rows(n=400, n_features=6, n_classes=2, seed=0):
    """Rows and noisy classes 0, 1, ..."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7)
    scores = X @ rng.normal(size=(n_features, n_classes)) + rng.normal(size=(n, n_classes))
    return X, scores.argmax(axis=1)


@pytest.fixture(scope="module")
def two():
    return rows()


@pytest.fixture(scope="module")
def three():
    return rows(n_classes=3, seed=3)


def signs(y):
    return np.where(y == y.max(), 1.0, -1.0)


# ---------------------------------------------------------------- what is found


@pytest.mark.parametrize("solver", ["ocas", "cutting_plane", "bmrm", "dual_cd", "tron", "interior_point", "auto"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_every_C_has_the_optimum_of_a_single_fit(two, solver, loss, storage):
    if solver == "tron" and loss == "hinge":
        pytest.skip("takes smooth losses")
    X, y = two
    tol = 1e-2 if solver == "cutting_plane" else 1e-5
    found = path(storage(X), y, CS, loss=loss, solver=solver, tol=tol)
    assert len(found) == len(CS)
    for C, result in zip(CS, found):
        problem = Problem(X, signs(y), C, loss, bias=1.0)
        single = solve(problem, "dual_cd", tol=1e-9, max_iter=1e5).certificate
        assert result.stop_reason == "converged"
        # The bounds are true ones: both enclose the optimum, and the objective is that of these weights, and rounding.
        assert result.certificate.primal == pytest.approx(problem.primal(result.w), rel=1e-11)
        assert result.certificate.dual <= single.primal * (1 + 1e-12)
        assert single.dual * (1 - 1e-12) <= result.certificate.primal <= single.primal * (1 + tol)
        assert result.certificate.relative_gap <= tol


def test_weights_agree_with_liblinear(two):
    X, y = two
    found = path(X, y, CS, loss="squared_hinge", tol=1e-10)
    for k, C in enumerate(CS):
        other = Liblinear(C=C, tol=1e-10, max_iter=10_000, dual=False).fit(X, y)
        model = found.model(k)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-3, atol=1e-4)


def test_planes_are_shared_over_C():
    X, y = rows(3000, 12, seed=5)
    problem = Problem(X, signs(y), 1.0, "hinge", bias=1.0)
    together = solve_path(problem, CS, "ocas", tol=1e-4)

    def solved(C, start=None):
        return solve(problem.with_labels(problem.y, C * problem.cost), "ocas", tol=1e-4, start=start)

    cold = [solved(C) for C in CS]
    # Without planes, from the same points: the planes are what counts.
    at_w = [cold[0], *(solved(C, Start(before.w)) for C, before in zip(CS[1:], together))]
    together_it, cold_it, at_w_it = ([r.history["iterations"][-1] for r in each] for each in (together, cold, at_w))
    assert together_it[0] == cold_it[0]
    assert sum(together_it) < 0.7 * sum(cold_it)
    assert sum(together_it) < 0.8 * sum(at_w_it)
    assert together_it[-1] < 0.3 * cold_it[-1]
    assert sum(r.passes for r in together) < 2.0 * max(r.passes for r in cold)


def test_dual_variables_are_scaled():
    X, y = rows(3000, 12, seed=5)
    problem = Problem(X, signs(y), 1.0, "squared_hinge", bias=1.0)
    together = solve_path(problem, CS, "dual_cd", tol=1e-5)
    apart = [solve(problem.with_labels(problem.y, C * problem.cost), "dual_cd", tol=1e-5) for C in CS]
    assert sum(r.passes for r in together) < 0.7 * sum(r.passes for r in apart)


# ---------------------------------------------------------------- order, threads, weights


@pytest.mark.parametrize("solver", ["ocas", "dual_cd"])
def test_the_order_of_Cs_does_not_matter(two, solver):
    X, y = two
    ascending = path(X, y, CS, solver=solver)
    shuffled = [3.0, 0.003, 30.0, 0.3, 3.0, 0.03]
    found = path(X, y, shuffled, solver=solver)
    np.testing.assert_array_equal(found.Cs, shuffled)
    for C, result in zip(shuffled, found):
        np.testing.assert_array_equal(result.w, ascending[CS.index(C)].w)
        assert result.certificate == ascending[CS.index(C)].certificate


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_do_not_change_a_bit(n_classes):
    X, y = rows(n_classes=n_classes, seed=2)
    one, two = path(X, y, CS, n_jobs=1), path(X, y, CS, n_jobs=2)
    for k in range(len(CS)):
        np.testing.assert_array_equal(one.model(k).coef_, two.model(k).coef_)


def test_weight_k_is_a_row_given_k_times(two):
    X, y = two
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = path(X, y, CS, sample_weight=weight, tol=1e-8)
    repeated = path(X.repeat(weight, axis=0), y.repeat(weight), CS, tol=1e-8)
    np.testing.assert_allclose(weighted.objective, repeated.objective, rtol=1e-7)


# ---------------------------------------------------------------- labels, models, scores


def test_classes_of_any_kind_one_against_the_rest(three):
    X, y = three
    names = np.array(["ant", "bee", "cat"])[y]
    found = path(X, names, CS, loss="hinge", class_weight="balanced", tol=1e-6)
    assert found.classes.tolist() == ["ant", "bee", "cat"]
    assert [len(each) for each in found] == [3] * len(CS)
    for k, C in enumerate(CS):
        single = LinearSVC(C=C, loss="hinge", class_weight="balanced", tol=1e-6).fit(X, names)
        np.testing.assert_allclose(found.objective[k], sum(c.primal for c in single.certificate_), rtol=2e-6)
        assert np.mean(found.model(k).predict(X) == single.predict(X)) > 0.99


def test_a_model_of_the_path_is_a_fitted_classifier(two, tmp_path):
    X, y = two
    found = path(X, y, CS, fit_intercept=False)
    model = found.model(1)
    assert found.Cs[1] == model.C
    assert model.certificate_ == found[1].certificate
    assert (model.coef_.shape, model.intercept_.tolist()) == ((1, X.shape[1]), [0.0])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").decision_function(X), model.decision_function(X))


def test_scores_on_other_rows(two, three):
    X, y = two
    found = path(X[:300], y[:300], CS)
    weight = np.arange(100.0)
    auc = [metrics.roc_auc_score(y[300:], found.model(k).decision_function(X[300:])) for k in range(len(CS))]
    np.testing.assert_allclose(found.score(X[300:], y[300:]), auc)
    weighed = metrics.roc_auc_score(y[300:], found.model(0).decision_function(X[300:]), sample_weight=weight)
    assert found.score(X[300:], y[300:], sample_weight=weight)[0] == pytest.approx(weighed)
    X, y = three
    found = path(X, y, CS)
    np.testing.assert_allclose(found.score(X, y), [found.model(k).score(X, y) for k in range(len(CS))])


def test_a_result_of_the_path_can_be_started_from(two):
    X, y = two
    found = path(X, y, CS, loss="squared_hinge", tol=1e-10)
    problem = Problem(X, signs(y), CS[2], "squared_hinge", bias=1.0)
    for solver in ("ocas", "dual_cd", "tron"):
        assert solve(problem, solver, tol=1e-3, start=found[2]).certificate.relative_gap <= 1e-3
    assert solve(problem, "tron", tol=1e-6, start=found[2]).passes < solve(problem, "tron", tol=1e-6).passes


# ---------------------------------------------------------------- limits


def test_limits_leave_results_that_say_so(two):
    X, y = two
    short = path(X, y, CS, tol=0.0, max_iter=4)
    assert [result.stop_reason for result in short] == ["max_iter"] * len(CS)
    assert (short.relative_gap > 0.0).all()
    none = path(X, y, CS, tol=0.0, max_time=1e-6)
    assert [result.stop_reason for result in none] == ["max_time"] * len(CS)
    assert all(np.isfinite(result.certificate.primal) for result in none)


def test_callbacks_see_every_C(two):
    X, y = two
    seen = set()
    path(X, y, CS, tol=1e-8, callbacks=[lambda progress: seen.add(float(progress.problem.cost[0]))])
    assert seen == set(CS)


def test_a_solver_object_is_as_good_as_a_name(two):
    X, y = two
    found = path(X, y, CS, solver=OCAS(mix=0.3))
    assert all(result.solver == OCAS(mix=0.3) for result in found)


@pytest.mark.parametrize(
    ("Cs", "what"),
    [
        (0, "at least one"),
        ([], "list of numbers"),
        ([1.0, 0.0], r"Cs\[1\] is 0"),
        ([-1.0], r"Cs\[0\] is -1"),
        ([np.nan], r"Cs\[0\] is nan"),
        (1.5, "list of numbers"),
        ("many", "must be numbers"),
    ],
)
def test_a_bad_grid_is_refused(two, Cs, what):
    with pytest.raises(ValueError, match=what):
        path(*two, Cs)


def test_a_number_is_a_grid_of_so_many():
    np.testing.assert_allclose(grid(8), 10.0 ** np.arange(-4, 4))


def test_other_mistakes_are_refused(two):
    X, y = two
    with pytest.raises(ValueError, match="unknown solver 'nonsense'"):
        path(X, y, CS, solver="nonsense")
    with pytest.raises(ValueError, match="only one class"):
        path(X, np.ones(len(y)), CS)
    with pytest.raises(ValueError, match="does not take loss"):
        path(X, y, CS, solver="tron", loss="hinge")


# ---------------------------------------------------------------- the picture


def test_plot(two, tmp_path):
    pytest.importorskip("matplotlib")
    X, y = two
    found = path(X, y, CS[::-1])
    objective, gap = found.plot().axes
    np.testing.assert_allclose(gap.lines[0].get_xdata(), CS)  # in the order of C
    np.testing.assert_allclose(gap.lines[0].get_ydata(), found.relative_gap[::-1])
    np.testing.assert_allclose(objective.lines[0].get_ydata(), found.objective[::-1] / CS)
    figure = found.plot(X, y, scoring="accuracy")
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), found.score(X, y, "accuracy")[::-1])
    assert figure.axes[0].get_ylabel() == "accuracy"
    figure.savefig(tmp_path / "path.png")
    assert (tmp_path / "path.png").stat().st_size > 1000
