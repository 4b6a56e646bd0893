"""C and gamma by cross validation: the same table as scikit-learn's grid search, and a model of the best pair."""

import numpy as np
import pytest
import sklearn.svm as peers
from machines import rows
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin
from maxmargin import SVC, SVCCV, SVR, SVRCV, suggest_rbf

GRID = {"Cs": [0.1, 1.0, 30.0], "gammas": [0.05, 0.5]}


@parametrize_with_checks([SVCCV(Cs=2, gammas=2, cv=2), SVRCV(Cs=2, gammas=2, cv=2)])
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SVCCV(), SVRCV()])
def test_sklearn_with_default_parameters(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix, coo_matrix])
def test_same_table_as_a_grid_search_of_libsvm(classes, storage):
    X, y = rows(240)
    if classes == 3:
        y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    folds = StratifiedKFold(4)
    ours = SVCCV(**GRID, cv=folds, tol=1e-8).fit(storage(X), y)
    parameters = {"C": GRID["Cs"], "gamma": GRID["gammas"]}
    theirs = GridSearchCV(peers.SVC(tol=1e-8), parameters, cv=folds).fit(X, y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(ours.cv_results_["param_gamma"], [p["gamma"] for p in theirs.cv_results_["params"]])
    np.testing.assert_array_equal(ours.cv_results_["rank_test_score"], theirs.cv_results_["rank_test_score"])
    assert ours.best_index_ == theirs.best_index_
    assert (ours.C_, ours.gamma_) == (theirs.best_params_["C"], theirs.best_params_["gamma"])
    assert ours.scores_.shape == (4, 3, 2)
    assert ours.cv_results_["relative_gap"].max() <= 1e-8
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_the_model_is_that_of_the_chosen_pair(tmp_path):
    X, y = rows(150)
    chosen = SVCCV(**GRID, cv=3).fit(X, y)
    alone = SVC(C=chosen.C_, gamma=chosen.gamma_).fit(X, y)
    np.testing.assert_array_equal(chosen.dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(chosen.decision_function(X), alone.decision_function(X))
    assert chosen.certificate_ == alone.certificate_
    svc = chosen.to_svc()
    assert svc.get_params() == alone.get_params()
    chosen.save(tmp_path / "m")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "m").decision_function(X), alone.decision_function(X))
    assert isinstance(clone(chosen), SVCCV)


def test_threads_do_not_matter_nor_does_the_order_of_the_grid():
    X, y = rows(150)
    one = SVCCV(**GRID, cv=3, n_jobs=1).fit(X, y)
    two = SVCCV(Cs=GRID["Cs"][::-1], gammas=GRID["gammas"][::-1], cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.cv_results_["relative_gap"], two.cv_results_["relative_gap"])


def test_weights_are_copies_of_rows_in_training_and_in_scores():
    X, y = rows(90)
    weight = np.ones(90)
    weight[60:] = 0.0
    splits = [(np.arange(0, 60, 2), np.arange(1, 60, 2))]
    with_zeros = [(np.r_[train, 60:80], np.r_[test, 80:90]) for train, test in splits]
    few = SVCCV(**GRID, cv=splits, tol=1e-8).fit(X[:60], y[:60])
    weighted = SVCCV(**GRID, cv=with_zeros, tol=1e-8).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.scores_, few.scores_)


@pytest.mark.parametrize("kernel", ["linear", "precomputed", lambda A, B: A @ B.T])
def test_kernels_without_gamma(kernel):
    X, y = rows(120)
    given = X @ X.T if kernel == "precomputed" else X
    model = SVCCV(Cs=[0.1, 10.0], kernel=kernel, cv=3).fit(given, y)
    assert model.scores_.shape == (3, 2, 1)
    assert model.gamma_ == "scale"
    linear = SVCCV(Cs=[0.1, 10.0], kernel="linear", cv=3).fit(X, y)
    np.testing.assert_array_equal(model.scores_, linear.scores_)
    np.testing.assert_allclose(model.decision_function(given), linear.decision_function(X), atol=1e-2)


def test_default_grid_is_around_scale_and_a_suggestion_can_be_its_middle():
    X, y = rows(200)
    model = SVCCV(Cs=2, gammas=3, cv=2).fit(X, y)
    scale = SVC().fit(X, y).kernel_.gamma
    np.testing.assert_allclose(model.gammas_, [scale / 4.0, scale, 4.0 * scale])
    np.testing.assert_allclose(model.Cs_, [0.1, 1000.0])
    first = suggest_rbf(X, y)
    around = SVCCV(Cs=first["C"] * 2.0 ** np.arange(-1, 2), gammas=[first["gamma"]], cv=2).fit(X, y)
    assert around.gamma_ == first["gamma"]
    assert SVC(**first).fit(X, y).stop_reason_ == "converged"


def test_what_cannot_be_is_refused_and_what_did_not_end_is_told():
    X, y = rows(60)
    for options, match in (({"Cs": [0.0]}, "positive"), ({"gammas": [-1.0]}, "positive"), ({"gammas": 0}, "gammas")):
        with pytest.raises(ValueError, match=match):
            SVCCV(**options).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        SVCCV(Cs=[1.0, 1e4], gammas=1, cv=2, max_iter=1, solver="smo", tol=1e-9).fit(X, y)


def wave(n):
    X, _ = rows(n)
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1]


@pytest.mark.parametrize("storage", [np.asarray, csr_matrix])
def test_regression_has_the_table_of_a_grid_search_of_libsvm(storage):
    X, y = wave(150)
    folds = KFold(3, shuffle=True, random_state=0)
    ours = SVRCV(**GRID, epsilon=0.05, cv=folds, tol=1e-9).fit(storage(X), y)
    parameters = {"C": GRID["Cs"], "gamma": GRID["gammas"]}
    theirs = GridSearchCV(peers.SVR(epsilon=0.05, tol=1e-9), parameters, cv=folds).fit(X, y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-4)
    assert (ours.C_, ours.gamma_) == (theirs.best_params_["C"], theirs.best_params_["gamma"])
    assert ours.cv_results_["relative_gap"].max() <= 1e-9
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def test_the_regression_is_that_of_the_chosen_pair(tmp_path):
    X, y = wave(120)
    chosen = SVRCV(**GRID, epsilon=0.05, n_jobs=2).fit(X, y)
    assert chosen.scores_.shape == (5, 3, 2)
    alone = SVR(C=chosen.C_, gamma=chosen.gamma_, epsilon=0.05, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(chosen.dual_coef_, alone.dual_coef_)
    assert chosen.to_svr().get_params() == alone.get_params()
    assert chosen.certificate_ == alone.certificate_
    assert chosen.score(X, y) == alone.score(X, y)
    chosen.save(tmp_path / "m")
    loaded = maxmargin.load(tmp_path / "m")
    assert type(loaded) is SVR
    np.testing.assert_array_equal(loaded.predict(X), chosen.predict(X))
    worst = SVRCV(**GRID, epsilon=0.05, scoring="neg_mean_absolute_error").fit(X, y)
    assert worst.best_score_ < 0.0


def test_weights_of_a_regression_are_copies_of_rows():
    X, y = wave(60)
    copies = 1 + np.arange(60) % 2
    splits = [(np.arange(0, 60, 2), np.arange(1, 60, 2))]
    places = np.repeat(np.arange(60), copies)
    as_copies = [tuple(np.flatnonzero(np.isin(places, part)) for part in split) for split in splits]
    weighted = SVRCV(**GRID, cv=splits, tol=1e-9).fit(X, y, sample_weight=copies)
    repeated = SVRCV(**GRID, cv=as_copies, tol=1e-9).fit(X[places], y[places])
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, atol=1e-5)
