"""OnlineSVC: scikit-learn's contract, streams in any pieces, classes as they come, and what a user sees."""

import inspect
import io
import itertools
import os
import pickle
import signal
import subprocess
import sys

import docstrings
import numpy as np
import pandas as pd
import pytest
import samples
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, OnlineSVC, Problem, load, save_svmlight, solve, stream_svmlight
from maxmargin.data.rows import as_rows, take
from maxmargin.estimators import _held_out
from maxmargin.losses import Huber
from maxmargin.models.file import ModelFileError, read_model, write_model
from maxmargin.solvers.base import run
from maxmargin.solvers.stochastic import online_sgd
from maxmargin.solvers.stochastic.online_sgd import OnlineSGD
from maxmargin.solvers.stochastic.row_order import Reordered, rows_between
from maxmargin.solvers.stochastic.stream_models import StreamModels

MARGIN_LOSSES = ["hinge", "squared_hinge", "huber", "logistic"]


def blobs(n=300, n_classes=2, n_features=6, seed=0):
    """Overlapping clouds, sparse: a third of the values are zero."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, n_features)) + 1.5 * rng.normal(size=(n_classes, n_features))[y]
    return np.round(X * (rng.random(X.shape) < 0.7), 3), y


@pytest.fixture(scope="module")
def two():
    return blobs()


@pytest.fixture(scope="module")
def three():
    return blobs(n_classes=3)


def assert_same_bits(one, other):
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.t_ == other.t_
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.intercept_.tobytes() == other.intercept_.tobytes()


def in_parts(classifier, X, y, cuts, sample_weight=None, **options):
    for begin, end in zip([0, *cuts], [*cuts, X.shape[0]]):
        weight = None if sample_weight is None else sample_weight[begin:end]
        classifier.partial_fit(X[begin:end], y[begin:end], sample_weight=weight, **options)
    return classifier


def risk(classifier, X, y, alpha):
    """The objective for two classes, from the formula."""
    signs = np.where(y == classifier.classes_[1], 1.0, -1.0)
    problem = Problem(X, signs, C=1 / (alpha * len(y)), loss=classifier.loss, bias=1.0)
    return problem.primal(np.r_[classifier.coef_[0], classifier.intercept_[0]])


# ---------------------------------------------------------------- scikit-learn's contract


@parametrize_with_checks([OnlineSVC(), OnlineSVC(loss="squared_hinge", class_weight="balanced", n_jobs=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_docstring_lists_the_parameters_and_the_attributes(two):
    documented = docstrings.defaults(OnlineSVC)
    assert documented == OnlineSVC().get_params()
    assert list(documented) == list(inspect.signature(OnlineSVC).parameters)
    fitted = OnlineSVC().fit(pd.DataFrame(two[0]).add_prefix("x"), two[1])
    names = {name for name in dir(fitted) if name.endswith("_") and name[0] != "_" and hasattr(fitted, name)}
    assert set(docstrings.entries(OnlineSVC, "Attributes")) == names - {"histories_"}  # it has a text of its own
    for method in (OnlineSVC.fit, OnlineSVC.partial_fit, OnlineSVC.decision_function, OnlineSVC.predict):
        assert ["self", *docstrings.entries(method)] == list(inspect.signature(method).parameters)


def test_pickle_and_clone(three):
    X, y = three
    classifier = OnlineSVC(verbose=1).partial_fit(X[:100], y[:100])
    copy = pickle.loads(pickle.dumps(classifier))
    assert_same_bits(copy.partial_fit(X[100:], y[100:]), classifier.partial_fit(X[100:], y[100:]))
    assert not hasattr(clone(classifier), "classes_")
    with pytest.raises(NotFittedError):
        clone(classifier).predict(X)


# ---------------------------------------------------------------- fit on arrays


@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, Huber(0.1)])
def test_fit_comes_near_the_optimum(two, loss):
    X, y = two
    exact = LinearSVC(C=1 / (1e-2 * len(y)), loss=loss, tol=1e-6).fit(X, y)
    online = OnlineSVC(alpha=1e-2, loss=loss).fit(X, y)
    np.testing.assert_allclose(online.decision_function(X), exact.decision_function(X), atol=0.3)
    assert risk(online, X, y, 1e-2) <= 1.01 * risk(exact, X, y, 1e-2)
    assert online.stop_reason_ == "max_iter"
    assert online.n_iter_ == 100
    assert online.t_ == 100 * len(y)


def test_the_objective_is_that_of_alpha(two):
    """With class weights, an intercept column of 2, and more rows than one block holds."""
    X, y = np.tile(two[0], (3, 1)) + 0.01 * np.arange(900)[:, None], np.tile(two[1], 3)
    options = {"class_weight": {0: 3.0, 1: 1.0}, "intercept_scaling": 2.0, "loss": "squared_hinge"}
    total = np.where(y == 0, 3.0, 1.0).sum()
    exact = LinearSVC(C=1 / (0.1 * total), tol=1e-6, **options).fit(X, y)
    online = OnlineSVC(alpha=0.1, **options).fit(X, y)
    np.testing.assert_allclose(online.decision_function(X), exact.decision_function(X), rtol=0.03, atol=0.03)
    plain = OnlineSVC(alpha=0.1, loss="squared_hinge").fit(X, y)
    assert np.abs(plain.decision_function(X) - exact.decision_function(X)).max() > 0.3


@pytest.mark.parametrize("classes", [2, 3])
def test_storage_order_and_copies_change_nothing(classes):
    X, y = blobs(120, classes)
    X[5], y[5] = X[4], 1 - y[4]  # a row that has both labels
    X[7] = X[9] = X[11] = 0.0
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    weight[:12] = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]
    reference = OnlineSVC(max_iter=3, class_weight="balanced").fit(X, y, sample_weight=weight)
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(len(y)), weight))
    settings = {"max_iter": 3, "class_weight": "balanced"}
    assert_same_bits(OnlineSVC(**settings).fit(X[order], y[order]), reference)
    assert_same_bits(OnlineSVC(**settings, n_jobs=2).fit(np.asfortranarray(X[order]), y[order]), reference)
    assert_same_bits(OnlineSVC(**settings).fit(X, y, sample_weight=1024.0 * weight), reference)
    for convert in (sp.csr_matrix, sp.csc_array):
        sparse = OnlineSVC(**settings).fit(convert(X[order]), y[order])
        np.testing.assert_allclose(sparse.coef_, reference.coef_, rtol=1e-9, atol=1e-12)
    other = OnlineSVC(**settings, random_state=1).fit(X, y, sample_weight=weight)
    assert other.coef_.tobytes() != reference.coef_.tobytes()


def test_the_last_iterate_is_noisier_than_the_average(two):
    X, y = two
    risks: dict = {True: [], False: []}
    for average, seed in itertools.product(risks, range(10)):
        short = OnlineSVC(alpha=1e-2, max_iter=3, random_state=seed, average=average).fit(X, y)
        risks[average].append(risk(short, X, y, 1e-2))
    assert np.mean(risks[True]) < np.mean(risks[False])
    assert np.std(risks[True]) < 0.5 * np.std(risks[False])


def test_early_stopping_on_arrays(two):
    X, y = two
    stopped = OnlineSVC(early_stopping=True, n_iter_no_change=2, tol=0.01).fit(X, y)
    loss = stopped.history_["held_out_loss"]
    assert stopped.stop_reason_ == "early_stopping"
    assert stopped.n_iter_ == len(loss) < 100
    assert min(loss[-2:]) >= 0.99 * loss[:-2].min()
    assert stopped.t_ == stopped.n_iter_ * (len(y) - len(y) // 10)
    with pytest.raises(ValueError, match=r"validation_fraction=0.1 of 5 rows"):
        OnlineSVC(early_stopping=True).fit(X[:5], y[:5])


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
def test_rows_in_another_order(two, storage):
    """Where they lie and as a copy: the same to a kernel."""
    rows, norms2 = as_rows(storage(two[0]), 2.0)
    order = np.random.default_rng(0).permutation(300)[:200]
    signs, weight = np.where(two[1] == 1, 1.0, -1.0)[order], np.ones(200)
    found = []
    for given in (take(rows, order), Reordered(rows, order)):
        models = StreamModels(Huber(0.5), 1e-2, 2.0, 6, np.array([-1.0, 1.0]))
        models.learn(rows_between(given, 10, 190), norms2[order][10:190], signs[10:190], weight[10:190], None)
        found.append(models.weights(True)[0])
    np.testing.assert_array_equal(*found)
    assert found[0].any()


# ---------------------------------------------------------------- weights


def test_weights_of_classes_and_of_rows_multiply(two):
    """In `fit` and in a stream, and whether one is the number that the other is."""
    X, y = two
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    settings = {"alpha": 1e-2, "max_iter": 3}
    for learn in (OnlineSVC.fit, lambda model, X, y, sample_weight: model.partial_fit(X, y, [0, 1], sample_weight)):
        both = learn(OnlineSVC(**settings, class_weight={0: 0.3, 1: 4.0}), X, y, sample_weight=weight)
        product = learn(OnlineSVC(**settings), X, y, sample_weight=weight * np.where(y == 1, 4.0, 0.3))
        np.testing.assert_allclose(both.coef_, product.coef_, rtol=1e-9)
        np.testing.assert_allclose(both.intercept_, product.intercept_, rtol=1e-9)
    plain = OnlineSVC(**settings).fit(X, y)
    for same in (
        OnlineSVC(**settings, class_weight={0: 0.01, 1: 0.01}).fit(X, y),
        OnlineSVC(**settings).fit(X, y, sample_weight=np.full(len(y), 0.01)),
    ):
        np.testing.assert_allclose(same.coef_, plain.coef_, rtol=1e-9)  # only ratios matter
    streams = [
        OnlineSVC(**settings, class_weight={0: 0.01, 1: 0.01}).partial_fit(X, y, [0, 1]),
        OnlineSVC(**settings).partial_fit(X, y, [0, 1], np.full(len(y), 0.01)),
    ]
    np.testing.assert_allclose(streams[0].coef_, streams[1].coef_, rtol=1e-9)
    assert abs(streams[0].coef_).max() < 0.5 * abs(plain.coef_).max()
    # A stream that goes on after `fit` multiplies again, and does not know of its scale.
    plain.partial_fit(X, y, sample_weight=np.full(len(y), 0.5))
    again = OnlineSVC(**settings).fit(X, y, sample_weight=np.full(len(y), 7.0))
    again.partial_fit(X, y, sample_weight=np.full(len(y), 0.5))
    np.testing.assert_allclose(again.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("class_weight", [{0: 0.2, 1: 3.0, 2: 7.0}, {1: 5.0}, "balanced"])
def test_the_factor_of_a_class_is_that_of_its_own_rows(three, class_weight):
    """Each model of several classes is that of two classes, whose own rows have its factor and the others 1."""
    X, y = three[0][:90], three[1][:90]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 90)
    found = OnlineSVC(alpha=1e-2, class_weight=class_weight).partial_fit(X, y, [0, 1, 2], weight)
    for k in range(3):
        own = y == k
        if class_weight == "balanced":
            factor = np.cumsum(weight) / (3.0 * np.maximum(np.cumsum(weight * own), 1e-300))
        else:
            factor = np.full(90, class_weight.get(k, 1.0))
        alone = OnlineSVC(alpha=1e-2).partial_fit(X, own, [False, True], weight * np.where(own, factor, 1.0))
        np.testing.assert_allclose(found.coef_[k], alone.coef_[0], rtol=1e-9)
        np.testing.assert_allclose(found.intercept_[k], alone.intercept_[0], rtol=1e-9)


def test_a_fit_of_several_classes_with_weights_nears_the_optimum(three):
    """Of each class's objective, whose weights have mean one."""
    X, y = three
    factors, alpha = np.array([0.5, 2.0, 6.0]), 1e-2
    found = OnlineSVC(alpha=alpha, loss="squared_hinge", class_weight=dict(enumerate(factors)), max_iter=60).fit(X, y)
    for k in range(3):
        weight = np.where(y == k, factors[k], 1.0)
        problem = Problem(X, np.where(y == k, 1.0, -1.0), 1.0, "squared_hinge", sample_weight=weight, bias=1.0)
        at_alpha = problem.with_labels(problem.y, problem.cost / (alpha * weight.sum()))
        optimum = solve(at_alpha, "dual_cd", tol=1e-6).certificate.dual
        reached = at_alpha.primal(np.r_[found.coef_[k], found.intercept_[k]])
        assert optimum < reached < 1.005 * optimum


# ---------------------------------------------------------------- parts of a stream


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
@pytest.mark.parametrize("classes", [None, [0, 1, 2], "strings"])
def test_one_by_one_is_one_batch(three, storage, class_weight, classes):
    X, y = storage(three[0][:60]), three[1][:60]
    weight = np.random.default_rng(0).random(60)
    if classes == "strings":
        y, classes = np.array(["b", "a", "long"], dtype=object)[y], None
        class_weight = {"b": 2.0} if isinstance(class_weight, dict) else class_weight
    settings = {"alpha": 1e-2, "class_weight": class_weight}
    at_once = OnlineSVC(**settings).partial_fit(X, y, classes, weight)
    one_by_one = in_parts(OnlineSVC(**settings, n_jobs=2), X, y, range(1, 60), weight, classes=classes)
    assert_same_bits(one_by_one, at_once)
    assert len(at_once.classes_) == 3
    if class_weight is not None:
        unweighted = OnlineSVC(alpha=1e-2).partial_fit(X, y, classes, weight)
        assert unweighted.coef_.tobytes() != at_once.coef_.tobytes()


def test_rows_of_weight_zero_are_not_there(three):
    X, y = three[0][:60], three[1][:60].astype(float)
    weight = np.ones(60)
    weight[::3] = 0.0
    strange = np.where(weight > 0.0, y, 99.0)
    left_out = OnlineSVC(class_weight="balanced").partial_fit(X[weight > 0.0], y[weight > 0.0])
    assert_same_bits(OnlineSVC(class_weight="balanced").partial_fit(X, strange, sample_weight=weight), left_out)
    before = pickle.dumps(left_out._learnt.__dict__)
    left_out.partial_fit(X, y, sample_weight=np.zeros(60))
    assert pickle.dumps(left_out._learnt.__dict__) == before


def test_balanced_weights_are_those_of_the_rows_so_far(two):
    """Two classes: as if every row's weight were given."""
    X, y = two[0][:50], two[1][:50]
    balanced = OnlineSVC(class_weight="balanced").partial_fit(X, y, [0, 1])
    weight = [(i + 1) / (2 * np.sum(y[: i + 1] == y[i])) for i in range(50)]
    np.testing.assert_allclose(balanced.coef_, OnlineSVC().partial_fit(X, y, [0, 1], weight).coef_, rtol=1e-12)


def test_discovered_classes(three):
    """Up to two classes nothing is lost, whichever comes first; a third one starts with the row that shows it."""
    X, y = three
    X, y = X[y < 2], y[y < 2]
    for first in (0, 1):
        late = np.r_[np.flatnonzero(y == first)[:7], np.flatnonzero(y != first), np.flatnonzero(y == first)[7:]]
        discovered = OnlineSVC().partial_fit(X[late], y[late])
        assert_same_bits(discovered, OnlineSVC().partial_fit(X[late], y[late], [0, 1]))
        alone = OnlineSVC().partial_fit(X[late[:7]], y[late[:7]])
        assert alone.classes_.tolist() == [first]
        assert alone.predict(X).tolist() == [first] * len(y)
    third = np.where(np.arange(len(y)) < 100, y, 2 * y + 1)  # labels 0, 1 and then 1, 3
    found = OnlineSVC().partial_fit(X, third)
    before = OnlineSVC().partial_fit(X[:100], third[:100])
    first_three = 100 + int(np.argmax(third[100:] == 3))
    assert found.classes_.tolist() == [0, 1, 3]
    fresh = OnlineSVC().partial_fit(X[first_three:], np.where(third[first_three:] == 3, 1, 0), [0, 1])
    np.testing.assert_array_equal(found.coef_[2], fresh.coef_[0])
    announced = OnlineSVC().partial_fit(X[:100], third[:100], [0, 1, 3])
    np.testing.assert_array_equal(before.coef_[0], announced.coef_[1])
    np.testing.assert_array_equal(-before.coef_[0], announced.coef_[0])
    continued = OnlineSVC().partial_fit(X, third, [0, 1, 3])
    np.testing.assert_array_equal(found.coef_[:2], continued.coef_[:2])


def test_announced_classes_are_kept_to(two):
    X, y = two
    classifier = OnlineSVC().partial_fit(X, y, classes=[0, 1, 5])
    assert classifier.coef_.shape == (3, 6)
    before = classifier.coef_.copy()
    for bad, labels, classes in [
        (r"labels \[7\], not among the announced classes \[0, 1, 5\]", y + 7 * (y == 0), None),
        (r"not the same as before", y, [0, 1]),
    ]:
        with pytest.raises(ValueError, match=bad):
            classifier.partial_fit(X, labels, classes=classes)
    with pytest.raises(ValueError, match="at least 2 classes"):
        OnlineSVC().partial_fit(X, y, classes=[1])
    with pytest.raises(ValueError, match="same kind"):
        OnlineSVC().partial_fit(X, y).partial_fit(X, y.astype(str))
    np.testing.assert_array_equal(classifier.coef_, before)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_parts_may_become_wider(two, fit_intercept):
    X, y = samples.csr(two[0]), two[1]
    X.data[np.isin(X.indices, [4, 5]) & (np.arange(X.nnz) < X.indptr[100])] = 0.0
    classifier = OnlineSVC(fit_intercept=fit_intercept)
    classifier.partial_fit(X[:100, :4], y[:100]).partial_fit(X[100:], y[100:])
    whole = OnlineSVC(fit_intercept=fit_intercept).partial_fit(X, y)
    assert classifier.n_features_in_ == 6
    np.testing.assert_allclose(classifier.coef_, whole.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match="X has 4 features, but OnlineSVC is expecting 6"):
        classifier.partial_fit(X[:, :4], y)
    with pytest.raises(ValueError, match="X has 8 features"):
        classifier.partial_fit(np.zeros((len(y), 8)), y)
    with pytest.raises(ValueError, match="sample_weight"):
        classifier.partial_fit(sp.hstack([X, X]).tocsr(), y, sample_weight=-np.ones(len(y)))
    assert classifier.predict(X).shape == y.shape  # the failure has not left it half-way


# ---------------------------------------------------------------- fit on a stream


def test_a_stream_is_its_parts(three, tmp_path):
    """Paths, shards, file objects, compressed or not, generators, lists of chunks: all are partial_fit, to the bit."""
    X, y = sp.csr_matrix(three[0]), three[1]
    save_svmlight(tmp_path / "all.gz", X, y)
    save_svmlight(tmp_path / "a", X[:99], y[:99])
    save_svmlight(tmp_path / "b.xz", X[99:], y[99:])
    whole = OnlineSVC(alpha=1e-3).partial_fit(X, y.astype(float))
    shards = [tmp_path / "a", str(tmp_path / "b.xz")]
    chunks = [(X[:99], y[:99].astype(float)), (X[99:], y[99:].astype(float))]
    in_memory = io.BytesIO((tmp_path / "all.gz").read_bytes())
    streams = [tmp_path / "all.gz", str(tmp_path / "all.gz"), shards, in_memory, chunks]
    streams += [iter(chunks), stream_svmlight(shards, chunk_bytes=500), (chunk for chunk in chunks)]
    for stream in streams:
        fitted = OnlineSVC(alpha=1e-3, n_jobs=2).fit(stream)
        assert_same_bits(fitted, whole)
        assert (fitted.stop_reason_, fitted.n_iter_, fitted.n_features_in_) == ("max_iter", 1, 6)
    np.testing.assert_array_equal(fitted.history_["rows"], [300])


def test_several_passes_over_a_stream(two, tmp_path):
    X, y = sp.csr_matrix(two[0]), two[1].astype(float)
    save_svmlight(tmp_path / "all", X, y)
    again = OnlineSVC(alpha=1e-3, max_iter=3)
    thrice = OnlineSVC(alpha=1e-3).partial_fit(X, y).partial_fit(X, y).partial_fit(X, y)
    for stream in (tmp_path / "all", stream_svmlight(tmp_path / "all", chunk_bytes=300), [(X, y)]):
        assert_same_bits(again.fit(stream), thrice)
        assert again.n_iter_ == 3
    for stream in (iter([(X, y)]), io.BytesIO(b""), "-", [tmp_path / "all", io.BytesIO(b"")]):
        with pytest.raises(ValueError, match="passed over only once"):
            again.fit(stream)


def test_weights_and_widths_come_with_the_chunks(two):
    X, y = sp.csr_matrix(np.where((np.arange(300) < 100)[:, None] & (np.arange(6) >= 4), 0.0, two[0])), two[1]
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    chunks = [(X[:100, :4], y[:100], weight[:100]), (X[100:200], y[100:200], weight[100:200])]
    chunks += [(X[:50, :4], y[:50], np.zeros(50)), (X[:0], y[:0]), (X[200:], y[200:], weight[200:])]
    fitted = OnlineSVC().fit(iter(chunks))
    whole = OnlineSVC().partial_fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(fitted.coef_, whole.coef_, rtol=1e-12)
    assert fitted.t_ == np.count_nonzero(weight)


def test_what_is_wrong_with_a_stream_is_said(two):
    X, y = two
    good = (X, y)
    for chunks, message in [
        ([good, (X, y[:5])], "chunk 1 of the stream: X has 300 rows but y has 5"),
        ([good, (X[:, :3], y)], "chunk 1 of the stream has 3 features, those before 6"),
        ([good, (np.where(X > 2, np.nan, X), y)], "chunk 1 of the stream: Input X contains NaN: row"),
        ([good, (X, y, -y)], "chunk 1 of the stream: sample_weight"),
        (iter([good, X]), "chunk 1 of the stream is of type ndarray"),
        (iter([(X,)]), "chunk 0 of the stream is a tuple of 1"),
        (iter([]), "no rows"),
        ([(X, np.ones(len(y)))], "at least 2 classes"),
    ]:
        with pytest.raises(ValueError, match=message):
            OnlineSVC().fit(chunks)
    with pytest.raises(ValueError, match="come with its chunks"):
        OnlineSVC().fit(iter([good]), sample_weight=y)
    with pytest.raises(ValueError, match="y to be passed"):
        OnlineSVC().fit(X)
    with pytest.raises(FileNotFoundError):
        OnlineSVC().fit("no-such-file")


def test_early_stopping_on_a_stream(monkeypatch):
    """Every tenth row is held out, at most 50 of them, wherever chunks end; their loss is looked at in between."""
    monkeypatch.setattr(_held_out, "_CHECK_EVERY", 200)
    monkeypatch.setattr(_held_out.HeldOut.__init__, "__defaults__", (50,))
    X, y = blobs(3000)

    def chunks(size):
        return [(X[k : k + size], y[k : k + size]) for k in range(0, 3000, size)]

    settings = {"early_stopping": True, "n_iter_no_change": 3, "tol": 0.02}
    stopped = OnlineSVC(**settings).fit(chunks(3000))
    for size in (1, 37, 200):
        in_pieces = OnlineSVC(**settings).fit(chunks(size))
        assert_same_bits(in_pieces, stopped)
        np.testing.assert_allclose(in_pieces.history_["held_out_loss"], stopped.history_["held_out_loss"], rtol=1e-12)
    assert stopped.stop_reason_ == "early_stopping"
    history = stopped.history_
    np.testing.assert_array_equal(history["rows"], 200 * np.arange(1, len(history["rows"]) + 1))
    assert stopped.t_ == history["rows"][-1] < 2950
    # The loss of the model that is left, on the rows held out, from the formula.
    held = [i for i in range(9, 500, 10) if i < stopped.t_ + 50]
    margins = np.where(y[held] == 1, 1.0, -1.0) * stopped.decision_function(X[held])
    assert history["held_out_loss"][-1] == pytest.approx(np.maximum(0.0, 1.0 - margins).mean())
    # Those rows were not learnt from.
    learnt = np.setdiff1d(np.arange(3000), np.arange(9, 500, 10))[: stopped.t_]
    assert_same_bits(OnlineSVC().partial_fit(X[learnt], y[learnt], [0, 1]), stopped)
    # In a second pass they are the same.
    twice = OnlineSVC(**{**settings, "n_iter_no_change": 99}, max_iter=2).fit(chunks(700))
    assert twice.t_ == 2 * 2950
    assert (twice.stop_reason_, twice.n_iter_) == ("max_iter", 2)
    with pytest.raises(ValueError, match="early_stopping is for fit"):
        OnlineSVC(early_stopping=True).partial_fit(X, y)


# ---------------------------------------------------------------- progress, Ctrl-C, files, parameters


@pytest.mark.parametrize("classes", [2, 3])
def test_progress_as_vowpal_wabbit_prints_it(classes, capsys):
    X, y = blobs(1500, classes)
    quiet = OnlineSVC().fit([(X, y)])
    assert capsys.readouterr() == ("", "")
    told = OnlineSVC(verbose=1).fit([(X[:700], y[:700]), (X[700:], y[700:])])
    out, err = capsys.readouterr()
    assert out == ""
    assert_same_bits(told, quiet)
    assert "average loss = " in err
    lines = [line.split() for line in err.splitlines()[2:] if len(line.split()) == 6]
    assert [int(line[2]) for line in lines] == [2**k for k in range(11)]
    assert [line[3] for line in lines] == [str(y[2**k - 1]) for k in range(11)]
    assert lines[0][:2] == ["1.000000", "1.000000"]  # nothing is known: the loss of zero
    # Between lines 512 and 1024 it is the model after 512 rows that predicts.
    model = OnlineSVC().partial_fit(X[:512], y[:512])
    if classes == 2:
        margins = np.where(y[512:1024] == 1, 1.0, -1.0) * model.decision_function(X[512:1024])
        expected = np.maximum(0.0, 1.0 - margins).mean()
        assert float(lines[10][4]) == pytest.approx(model.decision_function(X[1023:1024])[0], abs=1e-4)
    else:
        expected = np.mean(model.predict(X[512:1024]) != y[512:1024])
    assert float(lines[10][1]) == pytest.approx(expected, abs=1e-6)
    mean_before, mean = float(lines[9][0]), float(lines[10][0])
    assert mean == pytest.approx((mean_before + expected) / 2, abs=2e-6)
    in_parts(OnlineSVC(verbose=1), X, y, [1, 5, 700, 1024])
    assert [line.split() for line in capsys.readouterr().err.splitlines()[2:]] == lines


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("source", ["arrays", "endless", "pipe"])
def test_ctrl_c_leaves_a_usable_model(source):
    """Of arrays, of an endless generator, and of a pipe into which nothing more is written."""
    script = f"""
import io, os, signal, threading, warnings
import numpy as np
import scipy.sparse as sp
from maxmargin import OnlineSVC, stream_svmlight
signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).normal(size=(500, 4)); y = (X[:, 0] > 0).astype(int)
OnlineSVC().fit(X, y)
OnlineSVC().fit([(sp.csr_matrix(X), y)])
list(stream_svmlight(io.BytesIO(b"1 1:1\\n")))
def endless():
    while True:
        yield X, y
given = {{
    "arrays": (X, y),
    "endless": (endless(),),
    "pipe": (stream_svmlight(io.FileIO(0, closefd=False), chunk_bytes=1000),),
}}[{source!r}]
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
warnings.simplefilter("error")
classifier = OnlineSVC(max_iter=10**9 if {source!r} == "arrays" else None)
try:
    classifier.fit(*given)
except KeyboardInterrupt as interrupt:
    assert "interrupted" in str(interrupt)
print(classifier.stop_reason_, classifier.t_ > 0, classifier.score(X, y) > 0.8)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as process:
        if source == "pipe":
            X = np.random.default_rng(0).normal(size=(500, 4))
            process.stdin.write(
                "".join(f"{int(x[0] > 0)} 1:{x[0]:.3f} 2:{x[1]:.3f} 3:{x[2]:.3f} 4:{x[3]:.3f}\n" for x in X)
            )
            process.stdin.flush()
        out, err = process.stdout.read(), process.stderr.read()
    assert out.split() == ["interrupted", "True", "True"], err
    assert process.returncode == 0


def test_saved_and_loaded_it_goes_on(three, tmp_path):
    X, y = three
    names = np.array(["x", "y", "z"])[y]
    for labels in (y, names, names.astype(object)):
        classifier = OnlineSVC(class_weight="balanced", loss=Huber(0.3)).partial_fit(X[:100], labels[:100])
        classifier.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert_same_bits(loaded, classifier)
        assert loaded.get_params() == classifier.get_params()
        np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
        assert_same_bits(loaded.partial_fit(X[100:], labels[100:]), classifier.partial_fit(X[100:], labels[100:]))
    fitted = OnlineSVC(early_stopping=True, max_iter=3).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.stop_reason_, loaded.n_iter_) == (fitted.stop_reason_, fitted.n_iter_)
    for name, column in fitted.history_.items():
        np.testing.assert_array_equal(loaded.history_[name], column)
    alone = OnlineSVC().partial_fit(X[y == 1], y[y == 1])
    alone.save(tmp_path / "model")
    assert_same_bits(load(tmp_path / "model").partial_fit(X, y), alone.partial_fit(X, y))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("stream.states.v", lambda a: a[:, :-1]),
        ("stream.states.v", lambda a: a * np.nan),
        ("stream.states.u", lambda a: a[:1]),
        ("stream.states.numbers", lambda a: a.astype(np.float32)),
        ("stream.class_totals", lambda a: a[1:]),
        ("training.history.rows", lambda a: np.zeros(3)),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(three, tmp_path, name, change):
    OnlineSVC(max_iter=1).fit(*three).save(tmp_path / "model")
    stored = read_model(tmp_path / "model", mmap=False)
    arrays = stored.arrays | {name: change(stored.arrays[name])}
    write_model(tmp_path / "bad", stored.kind, stored.info, arrays, stored.clock)
    with pytest.raises(ModelFileError, match="not a usable OnlineSVC"):
        load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("alpha", 0.0),
        ("alpha", "1"),
        ("alpha", np.inf),
        ("loss", "epsilon_insensitive"),
        ("loss", "nonsense"),
        ("max_iter", 0),
        ("max_iter", 1.5),
        ("n_iter_no_change", 0),
        ("validation_fraction", 0.0),
        ("validation_fraction", 0.9),
        ("tol", -1.0),
        ("intercept_scaling", 0.0),
        ("class_weight", "unbalanced"),
        ("class_weight", {0: -1.0}),
        ("n_jobs", 0),
        ("random_state", -1),
    ],
)
def test_bad_parameters_are_refused(two, parameter, value):
    for use in (lambda c: c.fit(*two), lambda c: c.partial_fit(*two), lambda c: c.fit(iter([two]))):
        with pytest.raises(ValueError, match=parameter):
            use(OnlineSVC(**{parameter: value}))


def test_a_stream_cannot_lose_its_intercept(two):
    classifier = OnlineSVC().partial_fit(*two)
    with pytest.raises(ValueError, match="fit_intercept"):
        classifier.set_params(fit_intercept=False).partial_fit(*two)


def test_float32_and_read_only_memmaps(two, tmp_path):
    X, y = two
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    reference = OnlineSVC(max_iter=2).fit(mapped.astype(np.float64), y)
    np.testing.assert_allclose(OnlineSVC(max_iter=2).fit(mapped, y).coef_, reference.coef_, rtol=1e-5, atol=1e-7)
    streamed = OnlineSVC().fit(iter([(mapped[:100], y[:100]), (mapped[100:], y[100:])]))
    assert_same_bits(streamed, OnlineSVC().partial_fit(mapped, y))


# ---------------------------------------------------------------- small promises


def test_labels_of_rows_without_weight_are_not_looked_at(two):
    X, y = two[0][:40], two[1][:40]
    weight = np.ones(40)
    weight[5] = 0.0
    strange = np.where(weight > 0.0, y, 99)
    with_classes = OnlineSVC().partial_fit(X, strange, [0, 1], weight)
    assert_same_bits(with_classes, OnlineSVC().partial_fit(X[weight > 0.0], y[weight > 0.0], [0, 1]))
    with pytest.raises(ValueError, match=r"labels \[99\], not among the announced classes"):
        OnlineSVC().partial_fit(X, strange, [0, 1])


def test_parameters_of_early_stopping_reach_the_rows_held_out():
    for fraction, every in ((0.1, 10), (0.25, 4), (0.5, 2)):
        assert OnlineSVC(validation_fraction=fraction)._held_out().every == every
    held_out = OnlineSVC(n_iter_no_change=7, tol=0.125)._held_out(most=None)
    assert (held_out.tol, held_out.patience, held_out.most) == (0.125, 7, None)


def test_an_interrupt_before_there_are_two_classes_leaves_no_model(two):
    class Stream:
        def __iter__(self):
            for _ in range(2):
                yield two[0], np.zeros(len(two[1]))
                signal.raise_signal(signal.SIGINT)

    classifier = OnlineSVC()
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(Stream())
    with pytest.raises(NotFittedError):
        classifier.predict(two[0])


# ---------------------------------------------------------------- through the one loop


def shuffled(X, y, **options):
    return OnlineSVC(**options)._shuffled(X, y, None)


def test_a_fit_is_a_run_of_the_solver(two):
    problem = shuffled(*two)
    for _ in range(2):  # a problem does not change
        result = run(OnlineSGD(1e-4), problem, max_iter=3, seed=7)
        fitted = OnlineSVC(max_iter=3, random_state=7).fit(*two)
        np.testing.assert_array_equal(result.state.models.weights(True)[0][:-1], fitted.coef_[0])
    assert (fitted.solver_, fitted.n_iter_, result.certificate) == (OnlineSGD(1e-4), 3, None)
    np.testing.assert_array_equal(fitted.history_["passes"], [1.0, 2.0, 3.0])
    assert not hasattr(fitted, "certificate_")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_that_is_stopped_and_resumed_is_one_fit(classes, tmp_path, monkeypatch):
    monkeypatch.setattr(online_sgd, "_BLOCK", 70)
    X, y = blobs(500, classes)
    whole = run(OnlineSGD(1e-3), shuffled(X, y), max_iter=4, seed=3)
    for n in (3, 5, 9):
        calls = itertools.count(1)
        stop = [lambda progress, calls=calls, n=n: next(calls) >= n]
        stopped = run(OnlineSGD(1e-3), shuffled(X, y), max_iter=4, seed=3, callbacks=stop, checkpoint=tmp_path / "run")
        assert stopped.stop_reason == "callback"
    resumed = run(OnlineSGD(1e-3), shuffled(X, y), max_iter=4, seed=3, checkpoint=tmp_path / "run")
    assert (resumed.stop_reason, resumed.passes) == ("max_iter", 4.0)
    np.testing.assert_array_equal(resumed.state.models.weights(True), whole.state.models.weights(True))
    np.testing.assert_array_equal(resumed.history["rows"], whole.history["rows"])
    with pytest.raises(ValueError, match="other data, another solver or other parameters"):
        run(OnlineSGD(1e-2), shuffled(X, y), max_iter=4, seed=3, checkpoint=tmp_path / "run")


def test_a_stream_has_no_checkpoint(two, tmp_path):
    classifier = OnlineSVC()
    classifier._run_options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(ValueError, match="save the model instead of a checkpoint"):
        classifier.fit([two])


def test_max_time_ends_a_fit_with_a_model(two):
    def endless():
        while True:
            yield two

    for given, passes in (((endless(),), None), (two, 10**9)):
        classifier = OnlineSVC(max_iter=passes, max_time=0.1)
        with pytest.warns(ConvergenceWarning, match="ran for max_time=0.1 s"):
            classifier.fit(*given)
        assert classifier.stop_reason_ == "max_time"
        assert classifier.t_ >= len(two[1])
        assert classifier.score(*two) > 0.8
    with pytest.raises(ValueError, match="max_time must be positive or None"):
        OnlineSVC(max_time=0).fit(*two)
