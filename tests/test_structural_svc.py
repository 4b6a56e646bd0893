"""`estimators/measures.py`: scikit-learn's contract, and what a StructuralSVC is good for."""

import numpy as np
import pytest
import samples
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, Problem, measures, solve
from maxmargin.estimators.measures import StructuralSVC
from maxmargin.measures import F1, PrecisionAtK, RecallAtK, ROCArea
from maxmargin.solvers.planes.svmperf import SVMPerf


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 10, n_informative=4, weights=[0.7], flip_y=0.02, class_sep=1.5, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([StructuralSVC(), StructuralSVC("error_rate", tol=1e-10), StructuralSVC("f1")])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["f1", "precision_at_k", "recall_at_k"])
@pytest.mark.parametrize("make", [np.asarray, samples.csr, lambda X: X.tolist()])
def test_where_rows_are_counted_whole_weights_are_copies(data, name, make):
    (X, y), copies = data, np.random.default_rng(0).integers(0, 4, 400)
    weighted = StructuralSVC(name, C=0.1).fit(make(X), y, sample_weight=copies.astype(float))
    many = X.repeat(copies, axis=0), y.repeat(copies)
    repeated = StructuralSVC(name, C=0.1).fit(make(many[0]), many[1])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-9)
    assert weighted.score(X, y, sample_weight=copies) == repeated.score(*many) != repeated.score(X, y)


def test_the_error_rate_is_the_svm_of_the_hinge_loss(data):
    ours = StructuralSVC("error_rate", C=0.1, tol=1e-7).fit(*data)
    hinge = LinearSVC(loss="hinge", C=0.1, tol=1e-7, solver="dual_cd").fit(*data)
    np.testing.assert_allclose(ours.coef_, hinge.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, hinge.intercept_, atol=2e-3)
    assert ours.certificate_.primal == pytest.approx(hinge.certificate_.primal, rel=1e-6)
    assert ours.score(*data) == pytest.approx(hinge.score(*data), abs=0.01)


@pytest.mark.parametrize("name", measures.names())
@pytest.mark.parametrize("make", [np.asarray, samples.csr, lambda X: X.astype(np.float32)])
def test_the_layer_below(data, name, make):
    """The estimator's weights are those of `solve`; the score is the measure of its outputs."""
    X, y = make(data[0]), data[1]
    clf = StructuralSVC(name, C=0.2, tol=1e-4).fit(X, y)
    bias = 0.0 if measures.is_ranking(measures.get(name)) else 1.0
    result = solve(Problem(X, np.where(y == 1, 1.0, -1.0), 0.2, "hinge", bias=bias), SVMPerf(name), tol=1e-4)
    np.testing.assert_array_equal(clf.coef_[0], result.w[:10])
    assert clf.certificate_ == result.certificate
    assert clf.stop_reason_ == "converged"
    z = clf.decision_function(X)
    assert clf.score(X, y) == 1.0 - measures.get(name).loss(z, np.where(y == 1, 1.0, -1.0))
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[(z > 0).astype(int)])


def test_the_roc_area_is_that_of_scikit_learn_and_the_best_in_training(data):
    X, y = data
    areas = {name: roc_auc_score(y, StructuralSVC(name).fit(X, y).decision_function(X)) for name in measures.names()}
    assert StructuralSVC("roc_area").fit(X, y).score(X, y) == pytest.approx(areas["roc_area"])
    assert max(areas, key=areas.get) == "roc_area"


@pytest.mark.parametrize("measure", [ROCArea(), PrecisionAtK(), PrecisionAtK(10), RecallAtK(100), PrecisionAtK(390)])
def test_as_many_rows_are_positive_as_the_measure_speaks_of(data, measure):
    X, y = data
    found = StructuralSVC(measure).fit(X, y).predict(X)
    assert np.sum(found == 1) == (getattr(measure, "k", 0) or np.sum(y == 1))


def test_the_threshold_with_weights(data):
    """As with rows that are repeated."""
    X, y = data
    copies = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = StructuralSVC(tol=1e-8).fit(X, y, sample_weight=copies)
    repeated = StructuralSVC(tol=1e-8).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-3)


def test_model_selection_by_the_measure(data):
    search = GridSearchCV(StructuralSVC("f1", tol=1e-2), {"C": [1e-3, 1.0]}, cv=3).fit(*data)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert 0.0 < search.score(*data) <= 1.0


def test_a_warm_start(data):
    clf = StructuralSVC(F1(), warm_start=True, tol=1e-6).fit(*data)
    first = clf.n_iter_
    assert clf.fit(*data).n_iter_ < first


def test_the_solver_survives_a_file(data):
    """Of a LinearSVC that was trained by it: a solver's parameters are plain values."""
    import json
    from dataclasses import asdict

    for solver in (SVMPerf(), SVMPerf("roc_area"), SVMPerf(PrecisionAtK(7), epsilon=0.1)):
        assert SVMPerf(**json.loads(json.dumps(asdict(solver)))) == solver
    X, y = data
    by_name = StructuralSVC("precision_at_k", k=10).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, StructuralSVC(PrecisionAtK(10)).fit(X, y).coef_)


def test_errors(data):
    X, y = data
    with pytest.raises(ValueError, match="unknown measure 'auc'; choose one of error_rate"):
        StructuralSVC("auc").fit(X, y)
    with pytest.raises(ValueError, match="weights must be 0 or all the same"):
        StructuralSVC("f1").fit(X, y, sample_weight=0.5 + np.arange(len(y)))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        StructuralSVC().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="needs 500 rows or more, but there are 400"):
        StructuralSVC(PrecisionAtK(500)).fit(X, y)
