"""LinearSVC: scikit-learn's contract, LIBLINEAR's optimum, and what a user sees when something goes wrong."""

import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import docstrings
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, catch_interrupt, solve
from maxmargin.estimators import _base, _parameters
from maxmargin.losses import EpsilonInsensitive, Huber
from maxmargin.solvers import interrupts
from maxmargin.solvers.coordinate.dual_cd import DualCD

LOSSES = ["squared_hinge", "hinge"]


def rows(n=120, n_features=8, seed=0):
    """Rows whose values have few digits: float32 holds them exactly."""
    return np.random.default_rng(seed).integers(-16, 17, (n, n_features)) / 16.0


def labels(X, n_classes=2, seed=0):
    """Classes 0, 1, ... of linear scores with noise, so that none can be told apart wholly."""
    rng = np.random.default_rng(seed + 1)
    scores = X @ rng.normal(size=(X.shape[1], n_classes)) + 0.3 * np.arange(n_classes)
    return np.argmax(scores + 0.7 * rng.normal(size=scores.shape), axis=1)


@pytest.fixture(scope="module")
def two():
    X = rows()
    return X, labels(X)


@pytest.fixture(scope="module")
def three():
    X = rows(seed=5)
    return X, labels(X, 3, seed=5)


@pytest.fixture(scope="module")
def endless():
    """Many rows of few features and a large C: dual coordinate descent needs thousands of passes."""
    X = rows(4000, 5, seed=9)
    return X, labels(X, seed=9)


ENDLESS = {"C": 1e4, "loss": "hinge", "tol": 1e-12, "solver": "dual_cd"}


def fit_quietly(classifier, X, y, **fit_params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(X, y, **fit_params)


def weights_of(classifier):
    return np.column_stack([classifier.coef_, classifier.intercept_])


def assert_same_bits(one, other):
    np.testing.assert_array_equal(weights_of(one), weights_of(other))


# ---------------------------------------------------------------- scikit-learn's contract


# Equality to 7 digits: small problems are finished to rounding.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LinearSVC(), LinearSVC(loss="hinge", n_jobs=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(("loss", "tol"), [("squared_hinge", 1e-18), ("hinge", 1e-10), (Huber(0.1), 1e-18)])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_scikit_learns_check_of_sample_weights(loss, tol, storage, n_jobs):
    check = getattr(estimator_checks, f"check_sample_weight_equivalence_on_{storage}_data")
    check("LinearSVC", LinearSVC(loss=loss, tol=tol, max_iter=100_000, n_jobs=n_jobs))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", LOSSES)
def test_weight_k_is_a_row_given_k_times(three, loss, storage):
    X, y = three
    times = np.random.default_rng(0).integers(0, 4, len(y))
    params = {"loss": loss, "tol": 1e-10, "max_iter": 20_000, "class_weight": "balanced"}
    weighted = LinearSVC(**params).fit(storage(X), y, sample_weight=times)
    repeated = LinearSVC(**params).fit(storage(np.repeat(X, times, axis=0)), np.repeat(y, times))
    np.testing.assert_allclose(weights_of(weighted), weights_of(repeated), atol=2e-5)
    primals = [[c.primal for c in classifier.certificate_] for classifier in (weighted, repeated)]
    np.testing.assert_allclose(*primals, rtol=1e-9)


def test_class_of_zero_weight_is_absent(three):
    X, y = three
    without = LinearSVC(tol=1e-10).fit(X[y != 1], y[y != 1])
    weightless = LinearSVC(tol=1e-10).fit(X, y, sample_weight=(y != 1).astype(float))
    assert weightless.classes_.tolist() == without.classes_.tolist() == [0, 2]
    reach = [np.sqrt(2.0 * model.certificate_.gap) for model in (weightless, without)]  # how far the optimum may be
    assert np.linalg.norm(weights_of(weightless) - weights_of(without)) <= sum(reach) < 1e-3


def test_parameters_are_stored_got_set_and_cloned():
    given = {"C": 3.0, "loss": Huber(0.2), "solver": DualCD(shrinking=False), "class_weight": {0: 2.0}, "n_jobs": 2}
    classifier = LinearSVC(**given)
    assert all(classifier.get_params()[name] is value for name, value in given.items())
    assert clone(classifier).get_params() == classifier.get_params()
    assert classifier.set_params(C=0.5, tol=1e-2) is classifier
    assert (classifier.C, classifier.tol) == (0.5, 1e-2)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        classifier.set_params(c=1.0)


def test_docstring_lists_the_parameters_and_the_attributes(two):
    documented = docstrings.defaults(LinearSVC)
    assert documented == LinearSVC().get_params()
    assert list(documented) == list(inspect.signature(LinearSVC).parameters)
    frame = pd.DataFrame(two[0]).add_prefix("x")
    fitted = {name for name in vars(LinearSVC().fit(frame, two[1])) if name.endswith("_") and name[0] != "_"}
    assert set(docstrings.entries(LinearSVC, "Attributes")) == fitted
    for method in (LinearSVC.fit, LinearSVC.decision_function, LinearSVC.predict, LinearSVC.save):
        assert ["self", *docstrings.entries(method)] == list(inspect.signature(method).parameters)


def test_html_and_text_representations(two):
    classifier = LinearSVC(C=0.25)
    assert repr(classifier) == "LinearSVC(C=0.25)"
    assert "LinearSVC" in classifier._repr_html_()
    assert "LinearSVC" in classifier.fit(*two)._repr_html_()


def test_pickled_estimator_predicts_the_same(three, tmp_path):
    X, y = three
    classifier = LinearSVC(warm_start=True, solver=DualCD(), loss=Huber(0.3)).fit(X, y)
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    copies = pickle.loads(pickle.dumps(classifier)), joblib.load(tmp_path / "classifier.joblib")
    for copy in copies:
        assert_same_bits(copy, classifier)
        assert copy.certificate_ == classifier.certificate_
    again = classifier.fit(X, y)
    for copy in copies:
        assert_same_bits(copy.fit(X, y), again)  # the warm start came along


def test_search_pipeline_and_cross_validation(three):
    X, y = three
    chain = make_pipeline(StandardScaler(), LinearSVC())
    search = GridSearchCV(chain, {"linearsvc__C": [1e-6, 1.0], "linearsvc__loss": LOSSES}, cv=3).fit(X, y)
    assert search.best_params_["linearsvc__C"] == 1.0
    assert search.best_score_ > 0.5
    with joblib.parallel_config("threading"):
        scores = cross_val_score(LinearSVC(), sp.csr_array(X), y, cv=3, n_jobs=2)
    np.testing.assert_array_equal(scores, cross_val_score(LinearSVC(), sp.csr_array(X), y, cv=3))


def test_sample_weight_is_routed(two):
    X, y = two
    weight = np.where(y == 1, 1e-3, 1.0)  # as good as without class 1: everything is predicted to be 0
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        classifier = LinearSVC(C=0.1).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        for wrapped in (make_pipeline(scaler, classifier), GridSearchCV(classifier, {"C": [0.1]}, cv=3)):
            assert wrapped.fit(X, y, sample_weight=weight).predict(X).max() == 0
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            GridSearchCV(LinearSVC(), {"C": [0.1]}, cv=3).fit(X, y, sample_weight=weight)
    assert LinearSVC(C=0.1).fit(X, y).predict(X).max() == 1


# ---------------------------------------------------------------- what X may be


@pytest.fixture(scope="module")
def reference(two):
    return LinearSVC(tol=1e-14).fit(*two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_every_csr_gives_the_same(two, reference, make, index, dtype):
    X, y = two
    given = make(X.astype(dtype))
    given.indices, given.indptr = given.indices.astype(index), given.indptr.astype(index)
    classifier = LinearSVC(tol=1e-14).fit(given, y)
    assert_same_bits(classifier, LinearSVC(tol=1e-14).fit(sp.csr_array(X), y))
    np.testing.assert_allclose(weights_of(classifier), weights_of(reference), atol=1e-6)
    assert given.indices.dtype == index
    np.testing.assert_allclose(classifier.decision_function(given), classifier.decision_function(X), atol=1e-13)
    np.testing.assert_array_equal(classifier.predict(given), classifier.predict(X))


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.astype(np.float32),
        np.asfortranarray,
        lambda X: X[:, ::-1][:, ::-1],
        lambda X: X.tolist(),
        lambda X: (16 * X).astype(int) / np.float64(16),
        sp.csc_array,
        sp.coo_matrix,
        sp.lil_array,
        pd.DataFrame,
    ],
)
def test_everything_else_is_taken_too(two, reference, convert):
    classifier = LinearSVC(tol=1e-14).fit(convert(two[0]), two[1])
    np.testing.assert_allclose(weights_of(classifier), weights_of(reference), atol=1e-6)
    decisions = classifier.decision_function(two[0])
    np.testing.assert_allclose(classifier.decision_function(convert(two[0])), decisions, atol=1e-13)


def test_names_of_features_are_kept_and_compared(two):
    X, y = two
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    classifier = LinearSVC().fit(frame, pd.Series(y))
    assert classifier.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(classifier.predict(frame), LinearSVC().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[frame.columns[::-1]])


@pytest.fixture(scope="module")
def text():
    """Sparse rows of 80 values, as in text."""
    rng = np.random.default_rng(3)
    n, n_features = 6000, 2000
    indices = np.sort(rng.permuted(np.tile(np.arange(n_features), (n, 1)), axis=1)[:, :80], axis=1)
    X = sp.csr_array(
        (rng.random(80 * n), indices.ravel().astype(np.int32), np.arange(0, 80 * n + 1, 80)), (n, n_features)
    )
    return X, rng.integers(0, 4, n)


def bytes_of(X):
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def peak_memory(work):
    """Bytes that `work` allocates at its worst moment, seen by tracemalloc, which sees numpy's arrays."""
    work()  # what is compiled or imported stays out of the account
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_fit_and_predict_take_little_memory_beyond_x(text, dtype, n_classes):
    X, y = text[0].astype(dtype), text[1] % n_classes
    classifier = LinearSVC(max_iter=2, n_jobs=2)
    assert peak_memory(lambda: fit_quietly(classifier, X, y)) < 0.3 * bytes_of(X)
    assert peak_memory(lambda: classifier.predict(X)) < 0.3 * bytes_of(X)


def test_memory_does_not_grow_with_the_classes(text):
    X, _ = text
    y = np.arange(X.shape[0]) % 60
    assert peak_memory(lambda: fit_quietly(LinearSVC(max_iter=0.1), X, y)) < 0.5 * bytes_of(X)


def test_x_is_not_changed_and_may_be_read_only(two, tmp_path):
    X, y = two
    joblib.dump((X, sp.csr_array(X)), tmp_path / "X")
    mapped, sparse = joblib.load(tmp_path / "X", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert not sparse.data.flags.writeable
    for given, same in ((mapped, X), (sparse, sp.csr_array(X))):
        assert_same_bits(LinearSVC().fit(given, y), LinearSVC().fit(same, y))
    writable, weight = X.copy(), np.ones(len(y))
    LinearSVC().fit(writable, y, sample_weight=weight)
    np.testing.assert_array_equal(writable, X)
    assert np.all(weight == 1.0)


# ---------------------------------------------------------------- the same optimum as LIBLINEAR


def objective(classifier, coef, intercept, X, y_signed, cost):
    """The documented objective of one binary problem, in the plainest way."""
    violations = np.maximum(0.0, 1.0 - y_signed * (X @ coef + intercept))
    w2 = coef @ coef + (intercept / classifier.intercept_scaling) ** 2
    return 0.5 * w2 + cost @ (violations if classifier.loss == "hinge" else violations**2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 1: 4.0}])
@pytest.mark.parametrize(
    "params", [{"fit_intercept": False}, {}, {"intercept_scaling": 10.0, "C": 0.1}], ids=["no b", "b", "b/10"]
)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_optimum_is_that_of_liblinear(n_classes, loss, params, class_weight, weighted):
    X = rows(seed=5)
    y = labels(X, n_classes, seed=5)
    weight = np.random.default_rng(2).random(len(y)) + 0.1 if weighted else None
    params = {"loss": loss, "class_weight": class_weight, **params}
    ours = LinearSVC(tol=1e-9, max_iter=50_000, **params).fit(X, y, sample_weight=weight)
    theirs = sklearn.svm.LinearSVC(tol=1e-9, max_iter=1_000_000, dual=True, random_state=0, **params)
    theirs.fit(X, y, sample_weight=weight)

    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    their_intercept = np.broadcast_to(theirs.intercept_, ours.intercept_.shape)  # a lone 0.0 if there is none
    np.testing.assert_allclose(ours.intercept_, their_intercept, atol=2e-4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)

    weight = np.ones(len(y)) if weight is None else weight
    totals = np.array([weight[y == k].sum() for k in range(n_classes)])
    factor = class_weight or {}
    if class_weight == "balanced":
        factor = dict(enumerate(totals.sum() / n_classes / totals))
    for k, certificate in enumerate(ours.certificate_ if n_classes > 2 else [ours.certificate_]):
        positive = y == (k if n_classes > 2 else 1)
        rest = (
            1.0 if n_classes > 2 else factor.get(0, 1.0)
        )  # LIBLINEAR: a class's weight counts in its own problem only
        own = factor.get(k if n_classes > 2 else 1, 1.0)
        cost = ours.C * weight * np.where(positive, own, rest)
        reached, known = (
            objective(ours, coef[k], intercept[k], X, np.where(positive, 1, -1), cost)
            for coef, intercept in ((ours.coef_, ours.intercept_), (theirs.coef_, their_intercept))
        )
        assert certificate.primal == pytest.approx(reached, rel=1e-12)
        assert certificate.dual <= known * (1 + 1e-14)  # a lower bound of the optimum bounds theirs as well
        assert reached <= known * (1 + 1e-9)
        assert certificate.relative_gap <= 1e-9


def test_class_weights_are_those_of_equal_sample_weights(two):
    X, y = two
    by_class = LinearSVC(class_weight={0: 2.0, 1: 0.25}).fit(X, y)
    by_row = LinearSVC().fit(X, y, sample_weight=np.where(y == 1, 0.25, 2.0))
    assert_same_bits(by_class, by_row)


def test_class_weight_may_name_some_classes_or_classes_that_are_absent(three):
    X, y = three
    assert_same_bits(LinearSVC(class_weight={1: 2.0}).fit(X, y), LinearSVC(class_weight={0: 1, 1: 2, 2: 1}).fit(X, y))
    everything = LinearSVC(class_weight={0: 1.0, 1: 2.0, 2: 1.0})
    assert everything.fit(X[y != 2], y[y != 2]).classes_.tolist() == [0, 1]  # as in a fold that lacks a class
    with pytest.raises(ValueError, match=r"class_weight names \['1'\], which are not in y.* \[0, 1, 2\]"):
        LinearSVC(class_weight={"1": 2.0}).fit(X, y)


# ---------------------------------------------------------------- labels, shapes, predictions


@pytest.mark.parametrize(
    "names",
    [
        np.array([-1, 1]),
        np.array([1, 2], dtype=np.uint8),
        np.array([False, True]),
        np.array([0.5, 1.5]),
        np.array(["ham", "spam"]),
        np.array(["ham", "spam"], dtype=object),
        np.array(["ham", "spam", "zebra"]),
        np.array([-3, 0, 7]),
    ],
)
def test_labels_of_every_kind(names):
    X = rows()
    y = labels(X, len(names))
    if names.dtype.kind == "f":  # scikit-learn takes fractions for a regression
        names = np.round(names)
    classifier, plain = LinearSVC().fit(X, names[y]), LinearSVC().fit(X, y)
    assert_same_bits(classifier, plain)
    assert classifier.classes_.tolist() == names.tolist()
    assert classifier.classes_.dtype == names.dtype
    assert classifier.predict(X).dtype == names.dtype
    np.testing.assert_array_equal(classifier.predict(X), names[plain.predict(X)])
    assert classifier.score(X, names[y]) == plain.score(X, y) > 0.6


def test_shapes_of_decisions(two, three):
    X, y = two
    binary = LinearSVC().fit(X, y)
    assert binary.coef_.shape == (1, X.shape[1])
    assert binary.intercept_.shape == (1,)
    np.testing.assert_allclose(binary.decision_function(X), X @ binary.coef_[0] + binary.intercept_[0])
    np.testing.assert_array_equal(binary.predict(X), (binary.decision_function(X) > 0).astype(int))
    X, y = three
    several = LinearSVC(fit_intercept=False).fit(X, y)
    assert several.coef_.shape == (3, X.shape[1])
    assert several.intercept_.tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(several.decision_function(X), X @ several.coef_.T)
    np.testing.assert_array_equal(several.predict(X), several.decision_function(X).argmax(axis=1))
    for classifier, shape in ((binary, (1,)), (several, (1, 3))):
        for one in (X[:1], X[:1].astype(np.float32), sp.csr_matrix(X[:1]), X[:1].tolist()):
            assert classifier.decision_function(one).shape == shape
            assert classifier.predict(one).shape == (1,)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_float32_is_predicted_in_double_precision_without_widening(three, storage):
    X, y = three
    classifier = LinearSVC().fit(X, y)
    many = storage(np.tile(X, (200, 1)).astype(np.float32))  # exact: see `rows`
    assert classifier.decision_function(many).dtype == np.float64
    np.testing.assert_allclose(
        classifier.decision_function(many)[: len(X)], classifier.decision_function(X), atol=1e-13
    )
    scores = 8 * 3 * many.shape[0]
    needed = many.nbytes if storage is np.asarray else bytes_of(many)
    assert peak_memory(lambda: classifier.decision_function(many)) < 3 * scores + 0.5 * needed


# ---------------------------------------------------------------- several classes


@pytest.mark.parametrize("class_weight", [None, {2: 3.0}])
def test_each_class_is_separated_from_the_rest(three, class_weight):
    X, y = three
    several = LinearSVC(class_weight=class_weight).fit(X, y)
    for k in range(3):
        factor = {True: (class_weight or {}).get(k, 1.0)}
        alone = LinearSVC(class_weight=factor).fit(X, y == k)
        np.testing.assert_array_equal(several.coef_[k], alone.coef_[0])
        np.testing.assert_array_equal(several.intercept_[k], alone.intercept_[0])
        assert several.certificate_[k] == alone.certificate_
        np.testing.assert_array_equal(several.history_[k]["primal"], alone.history_["primal"])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_threads_change_nothing(three, storage, loss):
    X, y = three
    one = LinearSVC(loss=loss).fit(storage(X), y)
    for n_jobs in (2, 3, -1):
        other = LinearSVC(loss=loss, n_jobs=n_jobs).fit(storage(X), y)
        assert_same_bits(other, one)
        assert other.certificate_ == one.certificate_
        assert other.n_iter_ == one.n_iter_


def test_threads_change_nothing_of_a_large_binary_problem(text):
    X, y = text[0], text[1] % 2
    X = sp.vstack([X] * 4, format="csr")  # 1.9 million values: several blocks of rows
    one, two = (fit_quietly(LinearSVC(max_iter=3, n_jobs=k), X, np.tile(y, 4)) for k in (1, 2))
    assert_same_bits(one, two)
    assert one.certificate_ == two.certificate_


def test_fits_at_once_in_two_threads_give_what_they_give_one_after_the_other(two, three):
    jobs = [
        (LinearSVC(loss="hinge", tol=1e-8), *two),
        (LinearSVC(tol=1e-8, n_jobs=2), sp.csr_array(three[0]), three[1]),
        (LinearSVC(loss="hinge", C=0.1), sp.csr_array(two[0]), two[1]),
        (LinearSVC(random_state=7), *three),
    ] * 3
    alone = [clone(classifier).fit(X, y) for classifier, X, y in jobs]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda job: clone(job[0]).fit(*job[1:]), jobs))
    for one, other in zip(alone, together):
        assert_same_bits(one, other)
        assert one.certificate_ == other.certificate_


def test_random_state(two):
    X, y = two
    assert_same_bits(LinearSVC().fit(X, y), LinearSVC().fit(X, y))  # None is a fixed seed
    assert_same_bits(LinearSVC(random_state=3).fit(X, y), LinearSVC(random_state=np.int64(3)).fit(X, y))
    for make in (np.random.default_rng, np.random.RandomState):
        assert_same_bits(*(LinearSVC(random_state=make(3)).fit(X, y) for _ in range(2)))
        generator = make(3)
        first, second = (LinearSVC(solver="dual_cd", random_state=generator).fit(X, y) for _ in range(2))
        assert np.any(first.coef_ != second.coef_)  # the generator has moved on
    np.random.seed(0)  # noqa: NPY002  whoever uses the global generator may go on as if nothing had happened
    LinearSVC().fit(X, y)
    assert np.random.random() == np.random.RandomState(0).random()  # noqa: NPY002


# ---------------------------------------------------------------- certificate, history, limits, warnings


@pytest.mark.parametrize("loss", [*LOSSES, "huber"])
def test_fit_is_certified_and_says_so(two, loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = LinearSVC(loss=loss, tol=1e-4, solver="dual_cd").fit(*two)
    certificate, history = classifier.certificate_, classifier.history_
    assert classifier.stop_reason_ == "converged"
    assert 0.0 <= certificate.relative_gap <= 1e-4
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual)
    assert {"seconds", "passes", "primal", "dual", "relative_gap"} <= history.keys()
    assert len({len(column) for column in history.values()}) == 1
    assert history["relative_gap"][-1] == certificate.relative_gap
    assert classifier.n_iter_ == np.ceil(history["passes"][-1]) >= 1
    assert classifier.solver_ == DualCD()
    tighter = LinearSVC(loss=loss, tol=1e-9).fit(*two).certificate_
    assert certificate.dual <= tighter.primal  # both bounds hold for the optimum
    assert tighter.dual <= certificate.primal


def test_limit_of_passes_is_kept_and_told_once(endless):
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(ConvergenceWarning) as caught:
        classifier = LinearSVC(max_iter=3, **ENDLESS).fit(*endless)
    assert len(caught) == 1
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)  # the user's own line
    message, gap = str(caught[0].message), classifier.certificate_.relative_gap
    assert f"gap of {gap:.1e}" in message
    assert "tol=1e-12" in message
    assert "max_iter=3 was too small: raise max_iter" in message
    assert (classifier.stop_reason_, classifier.n_iter_) == ("max_iter", 3)
    assert classifier.score(*endless) > 0.5


def test_cause_of_a_stall_is_named(endless):
    X, y = endless
    with pytest.warns(ConvergenceWarning, match=r"4000 x 5\) dual_cd is slow.*scale the features.*or lower C"):
        LinearSVC(**ENDLESS).fit(X, y)
    X = rows(20, 30)
    with pytest.warns(ConvergenceWarning, match="1000 passes were not enough: lower C, or raise max_iter"):
        LinearSVC(tol=0.0, solver="dual_cd", max_iter=1000).fit(X, labels(X))  # tol=0 alone would end at rounding


def test_several_classes_warn_once_of_the_worst(three):
    with pytest.warns(ConvergenceWarning) as caught:
        classifier = LinearSVC(max_iter=1, tol=1e-9, n_jobs=2).fit(three[0], np.array(["a", "b", "c"])[three[1]])
    gaps = [certificate.relative_gap for certificate in classifier.certificate_]
    assert len(caught) == 1
    assert f"gap of {max(gaps):.1e} (class {'abc'[np.argmax(gaps)]})" in str(caught[0].message)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_limit_of_time_is_kept_by_all_classes_together(n_classes):
    X = rows(4000, 5, seed=9)
    y = labels(X, n_classes, seed=9)
    fit_quietly(LinearSVC(max_iter=1, **ENDLESS), X, y)  # compile
    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match=r"max_time=0.9 seconds ran out: raise max_time") as caught:
        classifier = LinearSVC(max_time=0.9, max_iter=1e9, **ENDLESS).fit(X, y)
    assert len(caught) == 1
    assert 0.8 < time.perf_counter() - started < 2.0
    assert classifier.stop_reason_ == "max_time"
    assert np.isfinite(classifier.decision_function(X)).all()


def test_classes_have_fair_shares_of_the_time(three, monkeypatch):
    now, given = 0.0, []

    def solve_to_the_limit(problem, solver, *, max_time, **options):
        nonlocal now
        given.append(max_time)
        now += max_time
        return solve(problem, solver, **options | {"max_iter": 1})

    monkeypatch.setattr(_base, "solve", solve_to_the_limit)
    for module in (_base, _parameters):
        monkeypatch.setattr(module, "working_time", lambda: now)
    fit_quietly(LinearSVC(max_time=9.0), *three)
    assert given == [3.0, 3.0, 3.0]


def test_most_severe_reason_counts(three):
    X, y = three
    assert LinearSVC(tol=0.5).fit(X, y).stop_reason_ == "converged"
    passes = [history["passes"][-1] for history in LinearSVC(solver="dual_cd", tol=1e-6).fit(X, y).history_]
    limit = (min(passes) + max(passes)) / 2
    some = fit_quietly(LinearSVC(solver="dual_cd", tol=1e-6, max_iter=limit), X, y)
    reached = [certificate.relative_gap <= 1e-6 for certificate in some.certificate_]
    assert any(reached)
    assert not all(reached)
    assert some.stop_reason_ == "max_iter"


INTERRUPTED = """
import contextlib, os, signal, sys, threading, time, warnings
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from maxmargin import LinearSVC, catch_interrupt

n_classes = int(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 5))
y = rng.integers(0, n_classes, len(X))
classifier = LinearSVC(C=1e4, loss="hinge", solver="dual_cd", tol=1e-12, max_iter=1, n_jobs=int(sys.argv[2]))
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    classifier.fit(X, y)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
started = time.perf_counter()
with contextlib.ExitStack() as stack, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    if sys.argv[3] == "caught":
        stack.enter_context(catch_interrupt())
    try:
        classifier.set_params(max_iter=1e9, max_time=60.0).fit(X, y)
        assert sys.argv[3] == "caught"
    except KeyboardInterrupt as error:
        assert sys.argv[3] != "caught" and not caught
        caught.append(warnings.WarningMessage(error, ConvergenceWarning, "", 0))
assert 0.4 < time.perf_counter() - started < 5.0, time.perf_counter() - started
assert classifier.stop_reason_ == "interrupted"
assert len(caught) == 1 and "interrupted, and the model found so far is kept" in str(caught[0].message)
assert set(classifier.predict(X)) <= set(range(n_classes)) and classifier.coef_[0].any()
assert np.isfinite(classifier.decision_function(X)).all()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("usable")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT there")
@pytest.mark.parametrize(("n_classes", "n_jobs", "how"), [(2, 1, "raised"), (3, 2, "raised"), (2, 1, "caught")])
def test_interrupt_leaves_a_usable_model(n_classes, n_jobs, how):
    command = [sys.executable, "-c", INTERRUPTED, str(n_classes), str(n_jobs), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout == "usable\n", done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_search_of_scikit_learns_ends_with_one_control_c(two, monkeypatch):
    """And what was cut off is in no table of results."""
    monkeypatch.setattr(interrupts, "_last_caught", -np.inf)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    fits = []

    class Interrupted(LinearSVC):
        def _solve_each(self, *arguments):
            fits.append(self)
            if len(fits) == 3:
                with catch_interrupt():
                    signal.raise_signal(signal.SIGINT)
                    return super()._solve_each(*arguments)
            return super()._solve_each(*arguments)

    try:
        search = GridSearchCV(Interrupted(tol=1e-9), {"C": [0.1, 1.0, 10.0]}, cv=2)
        with pytest.raises(KeyboardInterrupt):
            search.fit(*two)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(fits) == 3
    assert fits[-1].stop_reason_ == "interrupted"
    assert not hasattr(search, "cv_results_")


def test_verbose_draws_nothing_where_there_is_no_terminal(three, capfd):
    loud = LinearSVC(verbose=1, n_jobs=2).fit(*three)
    assert_same_bits(loud, LinearSVC().fit(*three))
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_start_at_the_solution_stops_at_once(n_classes, loss):
    X = rows(n=400)
    y = labels(X, n_classes)
    cold = LinearSVC(loss=loss, tol=1e-6, warm_start=True).fit(X, y)
    solution, passes = weights_of(cold), cold.n_iter_
    warm = cold.fit(X, y)
    assert warm.n_iter_ <= 3 < passes
    assert warm.stop_reason_ == "converged"
    np.testing.assert_allclose(weights_of(warm), solution, atol=1e-2)


def test_warm_start_helps_after_a_change_of_c(two):
    X, y = two
    path = LinearSVC(C=1.0, tol=1e-6, warm_start=True).fit(X, y)
    near = path.set_params(C=1.01).fit(X, y)
    cold = LinearSVC(C=1.01, tol=1e-6).fit(X, y)
    assert near.n_iter_ < cold.n_iter_
    assert near.certificate_.relative_gap <= 1e-6
    assert near.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)
    hinge = path.set_params(loss="hinge", C=0.01).fit(X, y)  # other bounds: the old dual variables are cut to them
    assert hinge.certificate_.relative_gap <= 1e-6
    assert hinge.certificate_.primal == pytest.approx(
        LinearSVC(C=0.01, loss="hinge", tol=1e-6).fit(X, y).certificate_.primal, rel=2e-6
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (X[:-7], y[:-7]),
        lambda X, y: (X[:, :-1], y),
        lambda X, y: (X[y < 2], y[y < 2]),
    ],
    ids=["rows", "features", "classes"],
)
def test_warm_start_without_a_fitting_solution_is_a_cold_one(three, change):
    classifier = LinearSVC(warm_start=True, solver="dual_cd").fit(*three)
    X, y = change(*three)
    assert_same_bits(classifier.fit(X, y), LinearSVC(solver="dual_cd").fit(X, y))


def test_without_warm_start_nothing_of_the_last_fit_counts(two, three):
    classifier = LinearSVC(warm_start=True).fit(*two)
    classifier.set_params(warm_start=False).fit(*two)
    assert_same_bits(classifier, LinearSVC().fit(*two))
    assert_same_bits(classifier.fit(*three), LinearSVC().fit(*three))
    assert_same_bits(classifier.set_params(warm_start=True).fit(*two), LinearSVC().fit(*two))


# ---------------------------------------------------------------- without callbacks (more: test_linear_svc_callbacks)


def test_older_scikit_learn_has_no_callbacks():
    program = """
import sys
import sklearn.base, sklearn.linear_model, sklearn.pipeline, sklearn.model_selection
sys.modules["sklearn.callback"] = None
from maxmargin import LinearSVC
classifier = LinearSVC().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
assert classifier.stop_reason_ == "converged"
print(hasattr(classifier, "set_callbacks"), [name for name in vars(classifier) if "callback" in name])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "False []\n", done.stderr


# ---------------------------------------------------------------- bad input


def spoiled(value, storage=np.asarray):
    X = rows()
    X[17, 3] = value
    return storage(X)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, pd.DataFrame, lambda X: np.float32(X)])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_place_of_a_value_that_is_not_finite_is_named(two, value, name, storage):
    X, y = two
    with pytest.raises(ValueError, match=f"contains {name}: row 17, column 3"):
        LinearSVC().fit(spoiled(value, storage), y)
    with pytest.raises(ValueError, match=f"contains {name}: row 17, column 3"):
        LinearSVC().fit(X, y).predict(spoiled(value, storage))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, "C must be a positive finite number, got 0.0"),
        ({"C": -1.0}, "C must be .*-1.0"),
        ({"C": np.nan}, "C must be .*nan"),
        ({"C": np.inf}, "C must be .*inf"),
        ({"C": "1"}, "C must be a number, got '1'"),
        ({"C": None}, "C must be a number"),
        ({"tol": -1e-3}, "tol must be >= 0, got -0.001"),
        ({"tol": np.nan}, "tol must be >= 0, got nan"),
        ({"tol": "small"}, "tol must be a number"),
        ({"max_iter": 0}, "max_iter must be positive or None, got 0"),
        ({"max_iter": -5}, "max_iter must be positive"),
        ({"max_iter": np.nan}, "max_iter must be positive"),
        ({"max_iter": "all"}, "max_iter must be a number"),
        ({"max_time": 0.0}, "max_time must be positive or None, got 0"),
        ({"max_time": np.nan}, "max_time must be positive"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be positive and finite"),
        ({"intercept_scaling": np.inf}, "intercept_scaling must be positive and finite"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"random_state": -1}, "random_state must not be negative"),
        ({"random_state": "chance"}, "random_state must be an integer, a generator of numpy or None"),
        ({"class_weight": "equal"}, 'class_weight must be a dict, "balanced" or None'),
        ({"class_weight": [1.0, 2.0]}, "class_weight must be a dict"),
        ({"class_weight": {0: 0.0}}, "class weights must be positive and finite"),
        ({"class_weight": {1: np.nan}}, "class weights must be positive and finite"),
        (
            {"loss": "hnge"},
            r"unknown loss 'hnge' .did you mean .hinge...; a classifier takes hinge, squared_hinge, huber, logistic",
        ),
        (
            {"loss": "logistic", "solver": "dual_cd"},
            r"solver 'dual_cd' does not take loss 'logistic': choose one of auto, .*tron",
        ),
        (
            {"loss": "squared_error"},
            "loss 'squared_error' is for regression: use LinearSVR; a classifier takes hinge, squared_hinge",
        ),
        (
            {"loss": EpsilonInsensitive(0.1)},
            "loss 'epsilon_insensitive' is for regression: use LinearSVR; a classifier takes hinge",
        ),
        ({"loss": Huber(-1.0)}, r"parameters of Huber\(delta=-1.0\) must be finite and positive"),
        ({"loss": 3}, "loss must be a name"),
        ({"solver": "dcd"}, "unknown solver 'dcd'; for loss 'squared_hinge': choose one of auto, dual_cd"),
        ({"solver": None}, "unknown solver None"),
    ],
)
def test_bad_parameters_are_named(two, params, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**params).fit(*two)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda w: w[:-1], r"X has 120 rows but sample_weight has shape \(119,\)"),
        (lambda w: np.where(np.arange(len(w)) == 4, -0.5, w), r"sample_weight\[4\] is -0.5"),
        (lambda w: np.where(np.arange(len(w)) == 4, np.nan, w), r"sample_weight\[4\] is nan"),
        (lambda w: np.where(np.arange(len(w)) == 4, np.inf, w), r"sample_weight\[4\] is inf"),
        (lambda w: 0.0 * w, "all sample weights are zero"),
        (lambda w: np.column_stack([w, w]), r"sample_weight has shape \(120, 2\)"),
    ],
)
def test_bad_weights_are_named(two, weight, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(*two, sample_weight=weight(np.ones(len(two[1]))))


def test_bad_rows_and_labels_are_named(two):
    X, y = two
    with pytest.raises(ValueError, match=r"only one class.*: 1"):
        LinearSVC().fit(X, np.ones(len(X), dtype=int))
    with pytest.raises(ValueError, match=r"only one class.*: ham"):
        LinearSVC().fit(X, np.array(["ham", "spam"])[y], sample_weight=(y == 0).astype(float))
    with pytest.raises(ValueError, match="0 sample"):
        LinearSVC().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="0 feature"):
        LinearSVC().fit(X[:, :0], y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[120, 119\]"):
        LinearSVC().fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        LinearSVC().fit(X, y + 0.5)
    with pytest.raises(ValueError, match="Reshape your data"):
        LinearSVC().fit(X[0], y)
    with pytest.raises(ValueError, match="y contains NaN"):
        LinearSVC().fit(X, np.where(y == 1, np.nan, 0.0))


def test_malformed_sparse_matrix_is_refused(two):
    X, y = sp.csr_array(two[0]), two[1]
    classifier = LinearSVC().fit(X, y)
    for dtype in (np.float64, np.float32):
        broken = X.astype(dtype)
        broken.indices[5] = 1_000_000_000
        with pytest.raises(ValueError, match=r"malformed sparse matrix: row 0 has an index outside 0\.\.7"):
            LinearSVC().fit(broken, y)
        with pytest.raises(ValueError, match="malformed sparse matrix: row 0"):
            classifier.predict(broken)
    broken = X.tocsc()
    broken.indices[5] = 1_000_000_000
    for method in (lambda: LinearSVC().fit(broken, y), lambda: classifier.predict(broken)):
        with pytest.raises(ValueError, match="malformed sparse matrix"):
            method()


def test_use_before_fit_and_with_other_features(two):
    X, y = two
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(LinearSVC(), method)(X)
        with pytest.raises(ValueError, match="X has 7 features, but LinearSVC is expecting 8"):
            getattr(LinearSVC().fit(X, y), method)(X[:, 1:])


def test_failed_fit_leaves_the_model_as_it_was(two):
    X, y = two
    classifier = LinearSVC().fit(X, y)
    before = classifier.predict(X)
    with pytest.raises(ValueError, match="tol"):
        classifier.set_params(tol=-1.0).fit(X, np.array(["a", "b", "c"])[labels(X, 3)])
    np.testing.assert_array_equal(classifier.predict(X), before)


def test_plain_python_gives_the_same():
    program = """
import json, sys, warnings
warnings.simplefilter("error")
import numpy as np
from scipy.sparse import csr_array
from maxmargin import LinearSVC, catch_interrupt, solve
X = np.random.default_rng(0).integers(-16, 17, (30, 4)) / 16.0
fits = [LinearSVC(loss="hinge").fit(make(X), np.arange(30) % 3) for make in (np.asarray, csr_array)]
print(json.dumps([fit.decision_function(np.float32(X)).tolist() for fit in fits]))
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=environment)
    assert done.stdout, done.stderr
    X = np.random.default_rng(0).integers(-16, 17, (30, 4)) / 16.0
    for plain, make in zip(json.loads(done.stdout), (np.asarray, sp.csr_array)):
        compiled = LinearSVC(loss="hinge").fit(make(X), np.arange(30) % 3)
        np.testing.assert_allclose(plain, compiled.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("solver", ["ocas", "larank"])
def test_crammer_singer_by_another_solver(solver):
    X, y = make_classification(120, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    options = {"multi_class": "crammer_singer", "tol": 1e-4}
    usual, other = (LinearSVC(solver=name, **options).fit(X, y) for name in ("auto", solver))
    assert other.stop_reason_ == "converged"
    assert other.solver_.name == solver
    assert other.certificate_.primal == pytest.approx(usual.certificate_.primal, rel=2e-4)


def test_crammer_singer_by_a_solver_that_cannot():
    message = "with multi_class=\"crammer_singer\" solver must be one of auto, ocas, bmrm, larank; got 'dual_cd'"
    with pytest.raises(ValueError, match=message):
        LinearSVC(multi_class="crammer_singer", solver="dual_cd").fit([[0.0], [1.0]], [0, 1])
