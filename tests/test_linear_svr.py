"""`LinearSVR`: the optimum of LIBLINEAR's objective, its certificate, scikit-learn's contract."""

import inspect

import docstrings
import numpy as np
import pytest
import samples
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin
from maxmargin import LinearSVR
from maxmargin.losses import EpsilonInsensitive
from maxmargin.solvers.coordinate.dual_cd import DualCD

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    return X, X @ rng.normal(size=5) + 0.3 * rng.normal(size=120) + 1.5


@parametrize_with_checks([LinearSVR(), LinearSVR(loss="squared_epsilon_insensitive", n_jobs=2)])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("solver", ["auto", "dual_cd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_that_of_liblinear(data, loss, epsilon, solver, weighted):
    X, y = data
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    ours = LinearSVR(C=0.3, loss=loss, epsilon=epsilon, solver=solver, tol=1e-9, max_iter=1e5).fit(X, y, weight)
    theirs = sklearn.svm.LinearSVR(C=0.3, loss=loss, epsilon=epsilon, tol=1e-10, max_iter=1_000_000, random_state=0)
    theirs.fit(X, y, weight)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == (1,)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)


@pytest.mark.parametrize("loss", [*LOSSES, "squared_error"])
def test_fit_is_certified(data, loss):
    X, y = data
    for rows in (X, samples.csr(X), X.astype(np.float32)):
        regressor = LinearSVR(loss=loss, epsilon=0.1, tol=1e-6).fit(rows, y)
        assert regressor.stop_reason_ == "converged"
        assert 0.0 <= regressor.certificate_.relative_gap <= 1e-6
        np.testing.assert_allclose(regressor.predict(rows), X @ regressor.coef_ + regressor.intercept_, atol=1e-5)
        assert regressor.score(rows, y) > 0.9


def test_a_loss_object_has_its_own_epsilon(data):
    one = LinearSVR(loss=EpsilonInsensitive(0.3), epsilon=7.0).fit(*data)
    other = LinearSVR(epsilon=0.3).fit(*data)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_a_limit_warns_once(data):
    with pytest.warns(ConvergenceWarning, match="LinearSVR stopped at a relative duality gap of") as caught:
        LinearSVR(max_iter=1, tol=1e-9).fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_warm_start_goes_on(data):
    X, y = data
    regressor = LinearSVR(solver="dual_cd", tol=1e-6, warm_start=True).fit(X, y)
    passes = regressor.n_iter_
    assert regressor.fit(X, y).n_iter_ < passes


def test_save_and_load(data, tmp_path):
    X, y = data
    regressor = LinearSVR(C=0.5, epsilon=0.1, solver=DualCD(shrinking=False)).fit(X, y)
    regressor.save(tmp_path / "m")
    again = maxmargin.load(tmp_path / "m")
    assert type(again) is LinearSVR
    assert again.get_params() == regressor.get_params()
    assert again.certificate_ == regressor.certificate_
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "hinge"}, "loss 'hinge' is for classification; a regressor takes squared_error, epsilon_insensitive"),
        ({"loss": "huber"}, "is for classification"),
        ({"loss": "nonsense"}, "loss 'nonsense' is not known"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": "small"}, "epsilon must be a number"),
        ({"solver": "tron"}, "solver 'tron' does not take loss 'epsilon_insensitive'"),
        ({"C": 0.0}, "C must be"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR(**params).fit(*data)


def test_targets_must_be_finite_numbers(data):
    X, y = data
    with pytest.raises(ValueError, match=r"y\[3\] is nan|[Ii]nput y contains NaN"):
        LinearSVR().fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))
    with pytest.raises(ValueError, match="numbers"):
        LinearSVR().fit(X, np.where(y > 0, "high", "low"))


def test_docstring_lists_the_parameters_with_their_defaults():
    documented = docstrings.defaults(LinearSVR)
    assert documented == LinearSVR().get_params()
    assert list(documented) == list(inspect.signature(LinearSVR).parameters)
