"""SVC, SVR and OneClassSVM as estimators: scikit-learn's contract, its attributes, and what is more."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn.svm as peers
from machines import rows, targets
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVR, OneClassSVM, kernels
from maxmargin.solvers.kernel.features import Fourier
from maxmargin.solvers.kernel.smo import SMO

BOTH = [(SVC, peers.SVC), (SVR, peers.SVR), (OneClassSVM, peers.OneClassSVM)]
both = pytest.mark.parametrize(("ours", "peer"), BOTH, ids=["SVC", "SVR", "OneClassSVM"])
MANY = {
    "SVC": ["decision_function", "predict"],
    "SVR": ["predict"],
    "OneClassSVM": ["decision_function", "score_samples"],
}


def data(estimator, n=80, classes=2):
    X, y = rows(n)
    if estimator.__name__ == "SVR":
        return X, targets(X)
    return X, (y if classes == 2 else np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3]))


@parametrize_with_checks([SVC(), SVR(), OneClassSVM()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@both
def test_takes_scikit_learns_parameters_in_their_order(ours, peer):
    theirs = [name for name in peer().get_params() if name in vars(peer())]
    assert set(theirs) <= set(ours().get_params())
    changed = {"probability", "cache_size"}
    assert {k: v for k, v in peer().get_params().items() if k not in changed}.items() <= ours().get_params().items()
    with pytest.raises(TypeError):
        ours(1.0)  # keywords only


def dense(a):
    return a.toarray() if issparse(a) else np.asarray(a)


@both
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_same_attributes_as_scikit_learn(ours, peer, storage, kernel):
    X, y = data(ours)
    X = storage(X)
    tol = 1e-10 if kernel == "rbf" else 1e-4  # LIBSVM is slow where the kernel matrix is singular
    mine, theirs = ours(kernel=kernel, tol=1e-10).fit(X, y), peer(kernel=kernel, tol=tol).fit(X, y)
    if kernel == "rbf":
        np.testing.assert_array_equal(mine.support_, theirs.support_)
        np.testing.assert_array_equal(mine.n_support_, theirs.n_support_)
        np.testing.assert_allclose(dense(mine.dual_coef_), dense(theirs.dual_coef_), atol=1e-5)
        np.testing.assert_allclose(dense(mine.support_vectors_), dense(theirs.support_vectors_))
    else:
        np.testing.assert_allclose(dense(mine.coef_), dense(theirs.coef_), atol=2e-3)
        with pytest.raises((AttributeError, ValueError)):
            mine.coef_ = 1
    for name in ("dual_coef_", "support_vectors_"):
        assert issparse(getattr(mine, name)) == issparse(getattr(theirs, name))
    np.testing.assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-3)
    assert mine.support_.dtype == theirs.support_.dtype
    assert mine.shape_fit_ == theirs.shape_fit_
    assert mine.fit_status_ == theirs.fit_status_ == 0
    assert np.shape(mine.n_iter_) == np.shape(theirs.n_iter_)
    for method in MANY[ours.__name__]:
        np.testing.assert_allclose(getattr(mine, method)(X), getattr(theirs, method)(X), atol=5e-3)


@pytest.mark.parametrize("storage", [np.asarray, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_several_classes_have_libsvms_layout(storage, kernel):
    X, y = data(SVC, 120, classes=3)
    y = np.array(["a", "b", "c"])[y]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    options = {"C": 2.0, "kernel": kernel, "gamma": 0.3, "class_weight": {"a": 2.0}}
    options["tol"] = 1e-9 if kernel == "rbf" else 1e-5
    mine = SVC(**(options | {"tol": 1e-9})).fit(storage(X), y, sample_weight=weight)
    theirs = peers.SVC(**options).fit(storage(X), y, sample_weight=weight)
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)
    np.testing.assert_allclose(mine.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-3)
    if kernel == "rbf":
        np.testing.assert_array_equal(mine.support_, theirs.support_)
        np.testing.assert_array_equal(mine.n_support_, theirs.n_support_)
        np.testing.assert_allclose(dense(mine.dual_coef_), dense(theirs.dual_coef_), atol=1e-4)
    else:
        np.testing.assert_allclose(dense(mine.coef_), dense(theirs.coef_), atol=1e-3)
    np.testing.assert_array_equal(mine.predict(X), theirs.predict(storage(X)))
    for shape in ("ovo", "ovr"):
        mine.decision_function_shape = theirs.decision_function_shape = shape
        np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(storage(X)), atol=1e-3)
    assert len(mine.certificate_) == len(mine.history_) == 3
    assert all(c.relative_gap <= 1e-9 for c in mine.certificate_)


def test_any_number_of_threads_gives_the_same_bits():
    X, y = data(SVC, 300, classes=3)
    one, two = (SVC(n_jobs=n, C=5.0).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_one_against_the_rest():
    X, y = data(SVC, 150, classes=3)
    whole = SVC(multi_class="ovr", C=2.0, gamma=0.5, tol=1e-9).fit(X, y)
    assert whole.dual_coef_.shape == (3, len(whole.support_))
    decisions = whole.decision_function(X)
    for c in range(3):
        alone = SVC(C=2.0, gamma=0.5, tol=1e-9).fit(X, y == c)
        np.testing.assert_allclose(decisions[:, c], alone.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(whole.predict(X), decisions.argmax(axis=1))


@both
def test_kernels_of_all_kinds(ours, peer):
    X, y = data(ours)
    gamma = 0.3

    def rbf(A, B):
        return kernels_of(A, B)

    def kernels_of(A, B):
        return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    named = ours(gamma=gamma, tol=1e-9).fit(X, y)
    tagged = ours(kernel=kernels.RBF(gamma), tol=1e-9).fit(X, y)
    called = ours(kernel=rbf, tol=1e-9).fit(X, y)
    given = ours(kernel="precomputed", tol=1e-9).fit(rbf(X, X), y)
    for other, new in ((tagged, X[:9]), (called, X[:9]), (given, rbf(X[:9], X))):
        np.testing.assert_array_equal(other.support_, named.support_)
        np.testing.assert_allclose(other.dual_coef_, named.dual_coef_, atol=1e-6)
        for method in MANY[ours.__name__]:
            np.testing.assert_allclose(getattr(other, method)(new), getattr(named, method)(X[:9]), atol=1e-6)
    assert called.support_vectors_.shape == given.support_vectors_.shape == (0, 0)
    for options in ({"kernel": "poly", "degree": 2, "coef0": 1.0}, {"kernel": "sigmoid", "gamma": 0.01}):
        mine, theirs = ours(tol=1e-9, **options).fit(X, y), peer(tol=1e-9, **options).fit(X, y)
        for method in MANY[ours.__name__]:
            np.testing.assert_allclose(getattr(mine, method)(X), getattr(theirs, method)(X), atol=1e-3)


def test_precomputed_with_several_classes_and_folds():
    X, y = data(SVC, 120, classes=3)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    given, computed = SVC(kernel="precomputed", tol=1e-9).fit(K, y), SVC(gamma=0.3, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(given.decision_function(K), computed.decision_function(X), atol=1e-5)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 10.0]}, cv=3).fit(K, y)
    assert search.best_score_ == GridSearchCV(SVC(gamma=0.3), {"C": [0.1, 10.0]}, cv=3).fit(X, y).best_score_


@pytest.mark.parametrize("solver", ["auto", "block_smo", "smo", "svmlight", SMO(shrinking=False)])
def test_solvers_agree(solver):
    X, y = data(SVC, 100, classes=3)
    model = SVC(solver=solver, C=3.0, gamma=0.5, tol=1e-7, shrinking=False).fit(X, y)
    reference = peers.SVC(C=3.0, gamma=0.5, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), reference.decision_function(X), atol=1e-3)
    assert model.stop_reason_ == "converged"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["cvm", "bvm", "kernel_pegasos", "norma", "nystroem", "fourier"])
def test_solvers_of_other_problems_and_approximations_learn(solver):
    X, y = data(SVC, 300, classes=3)
    model = SVC(solver=solver, gamma=0.5, max_iter=20).fit(X, y)
    assert model.score(X, y) > 0.75
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)
    if solver == "fourier":
        assert model.support_vectors_.shape == (0, 4)
        assert SVC(solver=Fourier(50), gamma=0.5).fit(X, y).score(X, y) > 0.6
        with pytest.raises(ValueError, match="RBF kernel only"):
            SVC(solver="fourier", kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match="is for classes"):
        OneClassSVM(solver=solver).fit(X)


def test_single_precision_and_mixed_storage():
    X, y = data(SVC, 100)
    X = np.round(8.0 * X) / 8.0  # float32 holds them exactly
    reference = SVC(tol=1e-8).fit(X, y)
    small = SVC(tol=1e-8).fit(X.astype(np.float32), y)
    assert small.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(small.dual_coef_, reference.dual_coef_, atol=1e-5)
    sparse = SVC(tol=1e-8).fit(csr_matrix(X), y)
    for model in (reference, small, sparse):
        for new in (X, csr_matrix(X), X.astype(np.float32)):
            np.testing.assert_allclose(model.decision_function(new), reference.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("storage", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_one_warning_says_the_gap_and_what_to_change(storage):
    X, y = data(SVC, 300, classes=3)
    X = storage(X)
    for options, advice in (({"max_iter": 1}, "max_iter=1 was too small"), ({"max_time": 1e-6}, "raise max_time")):
        with pytest.warns(ConvergenceWarning, match=f"relative duality gap of .* against .*{advice}") as caught:
            model = SVC(C=1e3, tol=1e-9, **options).fit(X, y)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert model.fit_status_ == 1
        assert model.stop_reason_ == next(iter(options))
        assert model.predict(X).shape == (300,)
    with pytest.warns(ConvergenceWarning, match="what the rounding of float64 may hide"):
        assert SVR(tol=0.0).fit(*data(SVR, 600)).stop_reason_ == "rounding"


def test_probabilities_never_contradict_the_classes_predicted():
    X, y = make_blobs(300, centers=4, cluster_std=2.5, random_state=0)
    for shape, several in (("ovr", "ovo"), ("ovr", "ovr")):
        model = SVC(probability=True, decision_function_shape=shape, multi_class=several).fit(X[::2], y[::2])
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        assert log_loss(y[1::2], p[1::2]) < 0.8 * np.log(4.0)
        np.testing.assert_array_equal(np.log(p), model.predict_log_proba(X))
    two = y < 3  # many of the one, few of the other
    model = SVC(probability=True).fit(X[::2], two[::2])
    p = model.predict_proba(X[1::2])
    np.testing.assert_array_equal(p.argmax(axis=1).astype(bool), model.predict(X[1::2]))
    prior = two.mean()
    assert log_loss(two[1::2], p) < 0.9 * -(prior * np.log(prior) + (1 - prior) * np.log(1 - prior))
    plain = SVC().fit(X, y)
    assert not hasattr(plain, "predict_proba")
    assert not hasattr(SVC(probability="deprecated"), "predict_proba")


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    f = rng.normal(size=20_000)
    positive = rng.random(20_000) < 1.0 / (1.0 + np.exp(-np.where(f > 0.0, 3.0, 0.5) * f))
    from maxmargin.estimators._probability import fit_slopes

    np.testing.assert_allclose(fit_slopes(f, positive, np.ones(20_000)), [0.5, 3.0], rtol=0.1)


@both
def test_copies_and_pickles_predict_the_same(ours, peer):
    X, y = data(ours)
    model = ours().fit(X, y)
    before = model.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), before)
    assert not hasattr(clone(model), "dual_coef_")
    model.dual_coef_ = 0.0 * model.dual_coef_
    assert len(np.unique(model.predict(X))) == 1  # it is the attributes that count


def test_rows_of_weight_zero_are_not_there():
    X, y = data(SVC, 90, classes=3)
    weight = np.where(y == 2, 0.0, 1.0)
    model = SVC(tol=1e-8).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    other = SVC(tol=1e-8).fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(("options", "match"), [
    ({"C": -1.0}, "C must be"),
    ({"C": "1"}, "C must be a number"),
    ({"kernel": "cosine"}, "unknown kernel"),
    ({"gamma": "large"}, 'gamma must be "scale"'),
    ({"gamma": -1.0}, "gamma must be positive"),
    ({"tol": -1.0}, "tol must be"),
    ({"cache_size": 0}, "cache_size must be positive"),
    ({"max_iter": 0}, "max_iter must be positive"),
    ({"max_time": 0}, "max_time must be positive"),
    ({"solver": "sgd"}, "unknown kernel solver"),
    ({"solver": 3}, "solver must be a name"),
    ({"decision_function_shape": "ovx"}, "decision_function_shape must be one of"),
    ({"multi_class": "x"}, "multi_class must be one of"),
    ({"class_weight": "equal"}, "class_weight must be"),
])  # fmt: skip
def test_errors_name_what_is_wrong(options, match):
    X, y = data(SVC, 20)
    with pytest.raises(ValueError, match=match):
        SVC(**options).fit(X, y)


def test_iris_without_a_warning():
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVC().fit(X, y).score(X, y) > 0.97
