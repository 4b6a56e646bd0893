"""Probabilities: where the loss has them, and by calibration."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from maxmargin import BudgetSVC, LinearSVC, OnlineSVC, losses


@pytest.fixture(scope="module")
def two():
    return make_classification(n_samples=600, n_features=6, flip_y=0.2, random_state=0)


def test_those_of_logistic_regression(two):
    X, y = two
    clf = LinearSVC(C=0.3, loss="logistic", tol=1e-9, penalize_intercept=False, solver="tron").fit(X, y)
    same = LogisticRegression(C=0.3, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), same.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], expit(clf.decision_function(X)), rtol=1e-12)


@pytest.mark.parametrize("estimator", [LinearSVC(loss=losses.Logistic()), OnlineSVC(loss="logistic")])
def test_several_classes_add_up_and_agree_with_predict(estimator):
    X, y = load_iris(return_X_y=True)
    clf = estimator.fit(X, y)
    probabilities = clf.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.classes_[probabilities.argmax(axis=1)], clf.predict(X))
    by_hand = expit(clf.decision_function(X))
    np.testing.assert_allclose(probabilities, by_hand / by_hand.sum(axis=1, keepdims=True))


def test_far_away_they_are_still_numbers(two):
    X, y = two
    clf = LinearSVC(loss="logistic").fit(X, y)
    far = 1e6 * X[:5]
    assert np.isfinite(clf.predict_proba(far)).all()
    assert np.isfinite(clf.predict_log_proba(far)).all()
    np.testing.assert_allclose(clf.predict_log_proba(far).min(axis=1), -np.abs(clf.decision_function(far)))
    three = LinearSVC(loss="logistic").fit(*load_iris(return_X_y=True))
    np.testing.assert_allclose(three.predict_proba(-1e6 * np.ones((1, 4))).sum(), 1.0)


@pytest.mark.parametrize(
    "estimator", [LinearSVC(), LinearSVC(loss="logistic", multi_class="crammer_singer"), BudgetSVC(), OnlineSVC()]
)
def test_other_losses_have_none(two, estimator):
    assert not hasattr(estimator, "predict_proba")
    assert not hasattr(estimator, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        estimator.predict_proba(two[0])
    assert "calibrate(X, y)" in str(caught.value.__cause__ or caught.value)


def test_calibration_improves_the_likelihood_and_agrees_with_predict(two):
    X, X_test, y, y_test = train_test_split(*two, random_state=0)
    calibrated = LinearSVC(C=0.1, loss="hinge").calibrate(X, y)
    assert isinstance(calibrated, CalibratedClassifierCV)
    (only,) = calibrated.calibrated_classifiers_
    assert only.estimator.certificate_.relative_gap <= 1e-3
    np.testing.assert_array_equal(only.estimator.coef_, LinearSVC(C=0.1, loss="hinge").fit(X, y).coef_)
    probabilities = calibrated.predict_proba(X_test)
    np.testing.assert_array_equal(calibrated.classes_[probabilities.argmax(axis=1)], calibrated.predict(X_test))
    order = np.argsort(only.estimator.decision_function(X_test))
    assert (np.diff(probabilities[order, 1]) >= 0.0).all()  # monotone in the margin
    prior = np.full(len(y_test), y.mean())
    assert log_loss(y_test, probabilities) < 0.9 * log_loss(y_test, prior)


def test_calibration_of_a_fitted_model_on_other_rows(two):
    X, X_other, y, y_other = train_test_split(*two, random_state=0)
    clf = BudgetSVC(budget=20).fit(X, y)
    calibrated = clf.calibrate(X_other, y_other, method="isotonic", cv="prefit")
    order = np.argsort(clf.decision_function(X_other))
    assert (np.diff(calibrated.predict_proba(X_other)[order, 1]) >= 0.0).all()
    weights = np.linspace(0.0, 1.0, len(y_other))
    assert clf.calibrate(X_other, y_other, cv="prefit", sample_weight=weights).predict_proba(X).shape == (len(y), 2)
    with pytest.raises(ValueError, match="\"prefit\", got 'fitted'"):
        clf.calibrate(X_other, y_other, cv="fitted")
    with pytest.raises(ValueError, match="not fitted"):
        LinearSVC().calibrate(X, y, cv="prefit")
