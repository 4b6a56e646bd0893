"""LinearSVC and LinearSVR in the place of scikit-learn's: what programs written for these may say."""

import argparse
import inspect

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm

import maxmargin
from maxmargin import BudgetSVC, LinearSVC, LinearSVCCV, LinearSVR, OnlineSVC, Problem, StructuralSVC, load, losses
from maxmargin.cli import train


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    return X, (X @ rng.normal(size=5) + rng.normal(size=80) > 0).astype(int)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
def test_every_parameter_of_scikit_learns_is_taken(name):
    """Positional where it is there, keyword-only where it is not."""
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (maxmargin, sklearn.svm))
    assert set(theirs) <= set(ours)
    for parameters in (ours, theirs):
        positional = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == (["penalty", "loss"] if name == "LinearSVC" else [])
    # Defaults differ where ours mean something else: a certified gap, and passes without a limit.
    same = [key for key in theirs if ours[key].default == theirs[key].default]
    assert set(theirs) - set(same) == {"tol", "max_iter"}


def test_dual_chooses_nothing(two):
    X, y = two
    bits = {LinearSVC(dual=dual).fit(X, y).coef_.tobytes() for dual in ("auto", True, False, np.bool_(True))}
    bits |= {LinearSVC(penalty="l2", loss="squared_hinge").fit(X, y).coef_.tobytes()}
    bits |= {LinearSVC("l2", "squared_hinge").fit(X, y).coef_.tobytes()}
    assert len(bits) == 1
    assert LinearSVR(dual=True).fit(X, y).coef_.tobytes() == LinearSVR().fit(X, y).coef_.tobytes()
    for estimator in (LinearSVC(dual="always"), LinearSVR(dual=2)):
        with pytest.raises(ValueError, match='dual must be True, False or "auto"'):
            estimator.fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparsify_and_densify(n_classes, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 30))
    y = np.argmax(X[:, :n_classes] + rng.normal(size=(90, n_classes)), axis=1)
    model = LinearSVC("l1", C=0.05).fit(X, y)
    coef, outputs = model.coef_.copy(), model.decision_function(X)
    assert 0 < np.count_nonzero(coef) < coef.size
    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    assert model.coef_.nnz == np.count_nonzero(coef)
    np.testing.assert_array_equal(model.decision_function(X), outputs)
    np.testing.assert_allclose(model.decision_function(np.float32(X)), outputs, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").coef_, coef)
    np.testing.assert_array_equal(model.sparsify().densify().coef_, coef)
    assert isinstance(model.densify().coef_, np.ndarray)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        LinearSVC().sparsify()


@pytest.mark.parametrize("estimator", [LinearSVC(), LinearSVR(), BudgetSVC(budget=5), OnlineSVC(), StructuralSVC()])
def test_one_weight_for_all_rows(two, estimator):
    X, y = two
    expected = estimator.fit(X, y, sample_weight=np.full(len(y), 2.0)).predict(X)
    np.testing.assert_array_equal(estimator.fit(X, y, sample_weight=2.0).predict(X), expected)
    if hasattr(estimator, "partial_fit"):
        estimator.partial_fit(X, y, sample_weight=2)
        estimator.partial_fit(X, y, sample_weight=0.0)
    with pytest.raises(ValueError, match="weight"):
        estimator.fit(X, y, sample_weight=-1.0)


@pytest.mark.parametrize("estimator", [LinearSVC(), BudgetSVC(), OnlineSVC(), StructuralSVC()])
def test_labels_that_are_missing_are_named(two, estimator):
    X, y = two
    for missing, what in ((None, r"no label in row 7 \(counted from 0\): it is None"), (np.nan, "NaN")):
        labels = np.array(["a", "b"], dtype=object)[y]
        labels[7] = missing
        with pytest.raises(ValueError, match=what):
            estimator.fit(X, labels)
    with pytest.raises(ValueError, match="two kinds, text and numbers"):
        estimator.fit(X, np.array(["a", 1], dtype=object)[y])


def test_names_of_other_libraries_are_understood_well_enough_to_answer(two):
    for name, meant in (("log_loss", "logistic"), ("squared-hinge", "squared_hinge"), ("Hinge", "hinge")):
        with pytest.raises(ValueError, match=f'unknown loss {name!r} .did you mean "{meant}"'):
            LinearSVC(loss=name).fit(*two)
        with pytest.raises(ValueError, match=f'unknown loss {name!r} .did you mean "{meant}"'):
            maxmargin.losses.get(name)
    with pytest.raises(ValueError, match=r'is not known .did you mean "epsilon_insensitive"'):
        LinearSVR(loss="epsilon-insensitive").fit(*two)
    with pytest.raises(ValueError, match="unknown loss 'zzz'; a classifier takes"):
        LinearSVC(loss="zzz").fit(*two)


@pytest.mark.parametrize("n_jobs", [1.5, "2", True, 0])
def test_a_number_of_threads_that_is_none(two, n_jobs):
    for estimator in (LinearSVC(n_jobs=n_jobs), LinearSVR(n_jobs=n_jobs), BudgetSVC(n_jobs=n_jobs)):
        with pytest.raises(ValueError, match="n_jobs must"):
            estimator.fit(*two)
    assert LinearSVC(n_jobs=np.int64(2)).fit(*two).n_jobs == 2


# ---------------------------------------------------------------- one front door


def test_certificates_as_a_list_whatever_the_number_of_classes(two):
    X, y = two
    three = LinearSVC().fit(X, np.argmax(X[:, :3], axis=1))
    assert three.certificates_ == three.certificate_
    assert three.certificates_ is not three.certificate_
    assert all(ours is theirs for ours, theirs in zip(three.histories_, three.history_))
    for estimator in (LinearSVC(), LinearSVR(), StructuralSVC(), BudgetSVC(budget=5)):
        with pytest.raises(AttributeError, match="is it fitted"):
            estimator.certificates_  # noqa: B018
        assert estimator.fit(X, y).certificates_ == [estimator.certificate_]
        assert estimator.histories_[0] is estimator.history_
    assert BudgetSVC(budget=5, refit=False).fit(X, y).certificates_ == []


def test_defaults_are_the_same_everywhere():
    of_a_path = maxmargin.path([[0.0], [1.0]], [0, 1], Cs=[1.0]).model(0)
    for estimator in (LinearSVC(), LinearSVCCV(), of_a_path):
        assert (estimator.loss, estimator.solver) == ("squared_hinge", "auto")
    for name in ("C", "warm_start", "multi_class"):
        with pytest.raises(TypeError, match=f"path has no parameter '{name}'"):
            maxmargin.path([[0.0], [1.0]], [0, 1], **{name: 1.0})


def test_epsilon_is_scikit_learns_in_estimators_and_one_number_elsewhere():
    for ours, theirs in ((LinearSVR, sklearn.svm.LinearSVR), (maxmargin.SVR, sklearn.svm.SVR)):
        assert ours().epsilon == theirs().epsilon
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    elsewhere = {maxmargin.SVR().epsilon, parser.parse_args(["data", "model"]).epsilon}
    for name in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        tag = type(losses.get(name))
        elsewhere |= {tag().epsilon, losses.get(name).epsilon, Problem([[1.0]], [0.5], loss=name).loss.epsilon}
    assert elsewhere == {0.1}


def test_classes_of_solvers_callbacks_and_penalties_are_at_hand(two):
    assert LinearSVC(solver=maxmargin.solvers.OCAS(mix=0.2)).fit(*two).solver_.mix == 0.2
    assert {type(maxmargin.solvers.get(name)).__name__ for name in maxmargin.solvers.names()} <= set(
        dir(maxmargin.solvers)
    )
    with pytest.raises(AttributeError, match="has no attribute 'Simplex'"):
        maxmargin.solvers.Simplex  # noqa: B018
    assert callable(maxmargin.callbacks.EarlyStopping)
    assert maxmargin.penalties.get("l1") == maxmargin.penalties.L1()


@pytest.mark.parametrize("old", ["lookup-wd", "lookup-h", "gss-precise"])
def test_hyphens_in_names_of_maintenance_are_as_good(two, old):
    X, y = two
    one, other = (BudgetSVC(budget=5, maintenance=name).fit(X, y) for name in (old, old.replace("-", "_")))
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert one.maintenance == old
