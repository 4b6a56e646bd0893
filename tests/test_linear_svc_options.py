"""Parameters of the linear estimators beyond the common ones: penalty, free intercept, all classes at once, saving."""

import numpy as np
import pytest
import samples
import sklearn.svm

import maxmargin
from maxmargin import LinearSVC, LinearSVR, StructuralSVC

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
X[RNG.random(X.shape) < 0.3] = 0.0
Y = np.where(X[:, 0] - X[:, 1] + 0.7 * RNG.normal(size=120) > 0.4, "yes", "no")
Y3 = np.array(["a", "b", "c"])[(X[:, :3] + 0.5 * RNG.normal(size=(120, 3))).argmax(axis=1)]


@pytest.mark.parametrize(("loss", "C"), [("squared_hinge", 0.03), ("logistic", 0.1), ("hinge", 0.1)])
def test_an_l1_penalty_makes_zeros(loss, C):
    sparse = LinearSVC(C=C, loss=loss, penalty="l1", tol=1e-6).fit(X, Y)
    assert sparse.stop_reason_ == "converged"
    assert 0 < np.count_nonzero(np.abs(sparse.coef_) > 1e-7) < 5
    assert np.count_nonzero(LinearSVC(C=C, loss=loss).fit(X, Y).coef_) == 5
    if loss == "squared_hinge":
        theirs = sklearn.svm.LinearSVC(C=C, penalty="l1", dual=False, tol=1e-10, max_iter=100_000).fit(X, Y)
        np.testing.assert_allclose(sparse.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("make", [np.asarray, samples.csr])
def test_a_free_intercept_is_libsvms(make):
    ours = LinearSVC(C=0.5, loss="hinge", penalize_intercept=False, tol=1e-8).fit(make(X), Y)
    theirs = sklearn.svm.SVC(C=0.5, kernel="linear", tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.decision_function(make(X)), theirs.decision_function(X), atol=5e-3)
    regressor = LinearSVR(C=0.5, epsilon=0.1, penalize_intercept=False, tol=1e-8).fit(make(X), X[:, 0] + 100.0)
    theirs = sklearn.svm.SVR(C=0.5, epsilon=0.1, kernel="linear", tol=1e-9).fit(X, X[:, 0] + 100.0)
    np.testing.assert_allclose(regressor.predict(make(X)), theirs.predict(X), atol=5e-3)


def test_a_free_intercept_of_each_class():
    several = LinearSVC(loss="hinge", penalize_intercept=False, tol=1e-7).fit(X, Y3)
    for k, label in enumerate(several.classes_):
        alone = LinearSVC(loss="hinge", penalize_intercept=False, tol=1e-7).fit(X, label == Y3)
        np.testing.assert_allclose(several.intercept_[k], alone.intercept_[0], atol=1e-2)
    with pytest.raises(ValueError, match=r"intercept without penalty: choose one of auto, .*interior_point"):
        LinearSVC(loss="hinge", penalize_intercept=False, solver="dual_cd").fit(X, Y)
    # Without an intercept there is none to be free.
    assert LinearSVC(solver="dual_cd", fit_intercept=False, penalize_intercept=False).fit(X, Y).intercept_ == [0.0]


@pytest.mark.parametrize("y", [Y, Y3], ids=["two", "three"])
def test_all_classes_at_once(y):
    ours = LinearSVC(C=0.2, multi_class="crammer_singer", tol=1e-6).fit(X, y)
    theirs = sklearn.svm.LinearSVC(C=0.2, multi_class="crammer_singer", tol=1e-10, max_iter=100_000, random_state=0)
    theirs.fit(X, y)
    assert ours.stop_reason_ == "converged"
    assert ours.certificate_.relative_gap <= 1e-6
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-2)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.98
    with pytest.raises(ValueError, match="multi_class must be"):
        LinearSVC(multi_class="both").fit(X, y)
    with pytest.raises(ValueError, match='takes penalty "l2"'):
        LinearSVC(multi_class="crammer_singer", penalty="l1").fit(X, y)


def test_such_models_are_saved(tmp_path):
    fitted = [
        LinearSVC(C=0.1, penalty="l1").fit(X, Y),
        LinearSVC(penalize_intercept=False, loss="hinge").fit(X, Y3),
        LinearSVC(multi_class="crammer_singer").fit(X, Y3),
        StructuralSVC("f1").fit(X, Y),
    ]
    for k, model in enumerate(fitted):
        model.save(tmp_path / str(k))
        again = maxmargin.load(tmp_path / str(k))
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.certificate_ == model.certificate_
