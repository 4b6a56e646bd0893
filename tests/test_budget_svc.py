"""BudgetSVC: scikit-learn's contract, the exact SVM where it fits, streams, and what a user sees."""

import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings

import docstrings
import numpy as np
import pandas as pd
import pytest
import samples
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import load
from maxmargin.data.rows import as_rows
from maxmargin.estimators.budget import BudgetSVC
from maxmargin.kernels import RBF
from maxmargin.kernels.scale import gamma_for
from maxmargin.models.file import ModelFileError, read_model, write_model
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.base import run
from maxmargin.solvers.budget import refit as _budget_refit
from maxmargin.solvers.budget.budget_sgd import BudgetSGD


def spirals(n=600, n_classes=2, noise=0.05, seed=0):
    """Interleaved spirals: hopeless for a linear classifier, easy for a kernel one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    radius = rng.random(n) ** 0.5
    angle = 2 * np.pi * (1.2 * radius + y / n_classes)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + noise * rng.normal(size=(n, 2)), y


@pytest.fixture(scope="module")
def two():
    return spirals()


@pytest.fixture(scope="module")
def three():
    return spirals(n_classes=3)


SHARP = {"gamma": 8.0, "C": 10.0}


def assert_same_bits(one, other):
    for name in ("support_vectors_", "dual_coef_", "intercept_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def assert_close(one, other, X, atol):
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=atol)


# ---------------------------------------------------------------- scikit-learn's contract


# Weight k must be a row given k times to 7 digits: small problems are finished to rounding.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([BudgetSVC(), BudgetSVC(maintenance="project", kernel="poly", n_jobs=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_docstring_lists_the_parameters_and_the_attributes(two):
    documented = docstrings.defaults(BudgetSVC)
    assert documented == BudgetSVC().get_params()
    assert list(documented) == list(inspect.signature(BudgetSVC).parameters)
    frame = pd.DataFrame(two[0]).add_prefix("x")
    fitted = {name for name in vars(BudgetSVC().fit(frame, two[1])) if name.endswith("_") and name[0] != "_"}
    assert set(docstrings.entries(BudgetSVC, "Attributes")) == fitted
    for method in (BudgetSVC.fit, BudgetSVC.partial_fit, BudgetSVC.decision_function, BudgetSVC.predict):
        assert ["self", *docstrings.entries(method)] == list(inspect.signature(method).parameters)


def test_pickle_clone_and_search(two):
    X, y = two
    classifier = BudgetSVC(budget=20, **SHARP).fit(X, y)
    copy = pickle.loads(pickle.dumps(classifier))
    assert_same_bits(copy, classifier)
    assert copy.decision_function(X).tobytes() == classifier.decision_function(X).tobytes()
    assert clone(classifier).get_params() == classifier.get_params()
    search = GridSearchCV(BudgetSVC(budget=40), {"gamma": [1e-3, 8.0], "C": [10.0]}, cv=3).fit(X, y)
    assert search.best_params_["gamma"] == 8.0
    assert search.best_score_ > 0.9


# ---------------------------------------------------------------- the exact SVM, where it fits


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
@pytest.mark.parametrize(("kernel", "parameters"), [("rbf", {}), ("poly", {"degree": 2, "coef0": 1.0}), ("linear", {})])
def test_all_rows_in_the_budget_is_the_exact_svm(storage, kernel, parameters):
    """The objective, computed anew, lies just above a dual value that plain projected gradient ascent finds."""
    X, y = spirals(150)
    parameters = {"kernel": kernel, "gamma": 2.0, "C": 3.0, **parameters}
    ours = BudgetSVC(**parameters, maintenance="project", tol=1e-9, fit_intercept=False).fit(storage(X), y)
    assert ours.certificate_.relative_gap <= 1e-9
    assert ours.stop_reason_ == "converged"
    K = _kernel_matrix(kernel, X, ours)
    signs = np.where(y == 1, 1.0, -1.0)
    f = ours.decision_function(storage(X))
    beta = np.linalg.lstsq(K, f, rcond=None)[0]
    reached = 0.5 * beta @ f + 3.0 * np.maximum(0.0, 1.0 - signs * f).sum()
    assert reached == pytest.approx(ours.certificate_.primal, rel=1e-5)
    Q, alpha = K * np.outer(signs, signs), np.zeros(len(X))
    step = 1.0 / np.linalg.eigvalsh(Q)[-1]
    for _ in range(20_000):
        alpha = np.clip(alpha + step * (1.0 - Q @ alpha), 0.0, 3.0)
    dual = alpha.sum() - 0.5 * alpha @ Q @ alpha
    assert reached >= dual * (1 - 1e-6)
    assert reached <= dual * 1.02


def _kernel_matrix(kernel, X, fitted):
    products = X @ X.T
    if kernel == "linear":
        return products
    if kernel == "poly":
        return (fitted.kernel_.gamma * products + fitted.kernel_.coef0) ** fitted.kernel_.degree
    return np.exp(-fitted.kernel_.gamma * (np.diag(products)[:, None] + np.diag(products) - 2 * products))


def test_few_different_rows_many_times(two):
    """Weight k and k copies give the same, as long as the different rows fit into the budget."""
    X, y = two[0][:30], two[1][:30]
    times = np.random.default_rng(0).integers(0, 6, 30)
    weighted = BudgetSVC(budget=40, tol=1e-12, C=2.0).fit(X, y, sample_weight=times)
    repeated = BudgetSVC(budget=40, tol=1e-12, C=2.0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.kernel_.gamma == pytest.approx(repeated.kernel_.gamma)
    assert len(weighted.support_vectors_) == np.count_nonzero(times)
    assert_close(weighted, repeated, X, 1e-5)


# ---------------------------------------------------------------- on a budget


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_learns_spirals_with_few_support_vectors(n_classes):
    X, y = spirals(3000, n_classes)
    X_test, y_test = spirals(1000, n_classes, seed=1)
    names = np.array(["ash", "beech", "cedar", "douglas fir", "elm"])
    classifier = BudgetSVC(budget=60, max_iter=2, **SHARP).fit(X, names[y])
    exact = SVC(**SHARP).fit(X, names[y]).score(X_test, names[y_test])
    assert classifier.score(X_test, names[y_test]) > exact - 0.02
    outputs = 1 if n_classes == 2 else n_classes
    size = len(classifier.support_vectors_)
    assert size <= 60
    assert classifier.dual_coef_.shape == (outputs, size)
    assert classifier.intercept_.shape == (outputs,)
    assert classifier.classes_.tolist() == names[:n_classes].tolist()
    values = classifier.decision_function(X_test)
    Z = classifier.support_vectors_.astype(float)
    K = np.exp(-8.0 * ((X_test[:, None] - Z) ** 2).sum(-1))
    expected = K @ classifier.dual_coef_.T + classifier.intercept_
    np.testing.assert_allclose(values.reshape(len(X_test), -1), expected, atol=1e-3)


@pytest.mark.parametrize("maintenance", ["lookup-wd", "lookup-h", "gss", "gss-precise", "remove", "project"])
def test_refitted_coefficients_are_better_for_the_same_support_vectors(two, maintenance):
    X, y = two
    parameters = {"budget": 25, "maintenance": maintenance, "fit_intercept": False, **SHARP}
    before = BudgetSVC(refit=False, **parameters).fit(X, y)
    after = BudgetSVC(tol=1e-4, **parameters).fit(X, y)
    np.testing.assert_array_equal(before.support_vectors_, after.support_vectors_)
    assert before.certificate_ is None
    assert before.stop_reason_ == "max_iter"

    def objective(classifier):
        Z = classifier.support_vectors_.astype(float)
        K = np.exp(-8.0 * ((Z[:, None] - Z) ** 2).sum(-1))
        hinge = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * classifier.decision_function(X))
        return 0.5 * classifier.dual_coef_[0] @ K @ classifier.dual_coef_[0] + 10.0 * hinge.sum()

    assert objective(after) < objective(before)
    assert after.certificate_.primal == pytest.approx(objective(after), rel=1e-2)
    assert after.certificate_.relative_gap <= 1e-4


@pytest.mark.parametrize("storage", ["csr", "csr64", "float32", "fortran", "list", "frame"])
def test_storages(three, storage):
    X, y = three
    X = np.round(64 * X) / 64
    convert = {
        "csr": sp.csr_matrix,
        "csr64": lambda X: samples.csr(X, np.int64, np.float32),
        "float32": np.float32,
        "fortran": np.asfortranarray,
        "list": lambda X: X.tolist(),
        "frame": pd.DataFrame,
    }[storage]
    classifier, reference = (BudgetSVC(budget=40, **SHARP).fit(given, y) for given in (convert(X), X))
    assert_close(classifier, reference, X, 0.05)  # float32 sums in another order, and a tolerance
    assert np.mean(classifier.predict(convert(X)) == reference.predict(X)) > 0.99


def test_threads_and_seeds(three):
    X, y = three
    classifiers = [BudgetSVC(budget=30, n_jobs=n_jobs, **SHARP).fit(X, y) for n_jobs in (None, 2, 3)]
    assert_same_bits(classifiers[0], classifiers[1])
    assert_same_bits(classifiers[0], classifiers[2])
    assert classifiers[0].decision_function(X).tobytes() == classifiers[2].decision_function(X).tobytes()
    for seed in (7, np.random.RandomState(3), np.random.default_rng(3)):
        other = BudgetSVC(budget=30, random_state=seed, **SHARP).fit(X, y)
        assert other.support_vectors_.tobytes() != classifiers[0].support_vectors_.tobytes()


def test_class_weights(two):
    X, y = two
    by_class = BudgetSVC(budget=30, gamma=8.0, class_weight={0: 0.2, 1: 5.0}).fit(X, y)
    by_row = BudgetSVC(budget=30, gamma=8.0).fit(X, y, sample_weight=np.where(y == 1, 5.0, 0.2))
    assert by_row.kernel_ == by_class.kernel_
    assert_same_bits(by_class, by_row)
    heavy = BudgetSVC(budget=30, class_weight={0: 0.01}).fit(X, y)
    assert np.mean(heavy.predict(X)) > np.mean(y) + 0.1
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15]])
    plain, balanced = (BudgetSVC(budget=30, C=0.1, class_weight=w).fit(X[rare], y[rare]) for w in (None, "balanced"))
    assert np.mean(balanced.predict(X[y == 1]) == 1) > np.mean(plain.predict(X[y == 1]) == 1)


def test_class_of_zero_weight_is_absent(three):
    X, y = three
    weightless = BudgetSVC(budget=30, **SHARP).fit(X, y, sample_weight=(y != 1).astype(float))
    without = BudgetSVC(budget=30, **SHARP).fit(X[y != 1], y[y != 1])
    assert weightless.classes_.tolist() == [0, 2]
    assert_same_bits(weightless, without)


def test_gamma():
    X, y = spirals(100)
    X = X * [1.0, 7.0] + 3.0
    assert BudgetSVC().fit(X, y).kernel_.gamma == pytest.approx(1.0 / (2 * X.var()))
    assert BudgetSVC().fit(sp.csr_array(X), y).kernel_.gamma == pytest.approx(1.0 / (2 * X.var()))
    assert BudgetSVC(gamma="auto").fit(X, y).kernel_.gamma == 0.5
    assert BudgetSVC(gamma=3).fit(X, y).kernel_ == RBF(3.0)
    assert BudgetSVC(kernel=RBF(0.7)).fit(X, y).kernel_ == RBF(0.7)


@pytest.mark.parametrize("storage", [np.asarray, np.float32, sp.csr_array])
def test_the_scale_of_data_does_not_drown_in_their_mean(storage):
    """Also for values that are mostly not stored, weighted, in several blocks, and for a constant."""
    rng = np.random.default_rng(0)
    X = np.float32(rng.normal(size=(200, 3)) * (rng.random((200, 3)) < 0.6))
    weight = rng.integers(0, 4, size=200).astype(float)
    repeated = np.repeat(X, weight.astype(int), axis=0).astype(np.float64)
    gamma = gamma_for("scale", as_rows(storage(X))[0], weight)
    assert gamma == pytest.approx(1.0 / (3 * repeated.var()), rel=1e-12)
    far = storage(X.astype(np.float64) + 1e8) if storage is not np.float32 else storage(X + np.float32(1e4))
    exact = np.asarray(far.todense() if sp.issparse(far) else far, dtype=np.longdouble)
    assert gamma_for("scale", as_rows(far)[0], np.ones(200)) == pytest.approx(float(1.0 / (3 * exact.var())), rel=1e-9)
    assert gamma_for("scale", as_rows(storage(np.full((7, 3), 0.1)))[0], np.ones(7)) == 1.0


# ---------------------------------------------------------------- streams and warm starts


def test_stream_learns_and_keeps_its_size(three):
    X, y = spirals(6000, 3)
    X_test, y_test = spirals(1000, 3, seed=1)
    classifier = BudgetSVC(budget=50, **SHARP)
    for part in np.array_split(np.arange(6000), 20):
        assert classifier.partial_fit(X[part], y[part], classes=[0, 1, 2]) is classifier
        assert len(classifier.support_vectors_) <= 50
    assert classifier.score(X_test, y_test) > 0.9
    assert classifier._state.counters.steps == 6000


def test_first_part_alone_is_a_fit_without_refit(two):
    X, y = two
    stream = BudgetSVC(budget=20, **SHARP).partial_fit(X, y)
    assert_same_bits(stream, BudgetSVC(budget=20, refit=False, **SHARP).fit(X, y))
    assert stream.certificate_ is None


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
def test_the_size_of_first_parts_does_not_matter(storage):
    """Scales are those of all rows so far, until there are enough; then those of these."""
    X, y = spirals(700)
    whole = BudgetSVC(budget=30).partial_fit(storage(X[:300]), y[:300], [0, 1])
    for size in (1, 20, 150):
        stream = BudgetSVC(budget=30)
        for begin in range(0, 300, size):
            part = slice(begin, min(begin + size, 300))
            stream.partial_fit(storage(X[part]), y[part], [0, 1])
        assert_same_bits(stream, whole)
        assert stream.kernel_ == whole.kernel_
    stream.partial_fit(storage(X[300:]), y[300:])
    assert stream._held is None
    assert_same_bits(stream, BudgetSVC(budget=30).partial_fit(storage(X), y))
    scale = stream.kernel_
    stream.partial_fit(storage(5.0 * X), y)
    assert stream.kernel_ == scale


def test_part_that_lacks_a_class(three):
    X, y = three
    classifier = BudgetSVC(budget=20).partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 2])
    classifier.partial_fit(X[y == 2], y[y == 2])
    assert classifier.classes_.tolist() == [0, 1, 2]
    before = classifier.decision_function(X)
    classifier.partial_fit(X, y, sample_weight=np.zeros(len(y)))  # nothing to learn, nothing changes
    np.testing.assert_array_equal(classifier.decision_function(X), before)
    with pytest.raises(ValueError, match=r"y has labels \[7\], which are not among the classes"):
        classifier.partial_fit(X[:1], [7])
    with pytest.raises(ValueError, match="is not the same as in the first call"):
        classifier.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"only one class: 0; name all in partial_fit\(X, y, classes=...\)"):
        BudgetSVC().partial_fit(X[y == 0], y[y == 0])
    with pytest.raises(ValueError, match='class_weight="balanced" needs all of the data'):
        BudgetSVC(class_weight="balanced").partial_fit(X, y)


def test_stream_after_a_fit_begins_at_its_solution(two):
    X, y = two
    classifier = BudgetSVC(budget=40, **SHARP).fit(X, y)
    before = classifier.decision_function(X)
    classifier.partial_fit(X[:1], y[:1])
    assert np.max(np.abs(classifier.decision_function(X) - before)) < 0.2 * np.max(np.abs(before))
    assert classifier.score(X, y) > 0.9


def test_callbacks_of_scikit_learn_see_every_pass(two):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")
    assert callback is not None
    X, y = two

    class Watcher:
        def __init__(self):
            self.scores = []

        def setup(self, estimator, context):
            pass

        teardown = on_fit_task_begin = setup

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
            if context.task_name == "pass":
                self.scores.append(fitted_estimator.score(X, y))
                return len(self.scores) == 2
            return False

    watcher = Watcher()
    clf = BudgetSVC(budget=20, gamma=2.0, max_iter=9, refit=False).set_callbacks(watcher).fit(X, y)
    assert clf.stop_reason_ == "callback"
    assert clf.n_iter_ == len(watcher.scores) == 2
    assert watcher.scores[-1] == clf.score(X, y)
    assert_same_bits(clf, BudgetSVC(budget=20, gamma=2.0, max_iter=2, refit=False).fit(X, y))


def test_solver_tells_what_ran(two, tmp_path):
    clf = BudgetSVC(budget=20, gamma=2.0, maintenance="gss", refit=False).fit(*two)
    assert (clf.solver_.name, clf.solver_.budget, clf.solver_.maintenance) == ("budget_sgd", 20, "gss")
    assert not clf.solver_.proves
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").solver_ == clf.solver_


def test_warm_start(two):
    X, y = two
    parameters = {"budget": 20, "refit": False, **SHARP}
    warm = BudgetSVC(warm_start=True, **parameters).fit(X, y).fit(X, y)
    assert_same_bits(warm, BudgetSVC(**parameters, max_iter=2).fit(X, y))
    cold = BudgetSVC(**parameters).fit(X, y).fit(X, y)
    assert_same_bits(cold, BudgetSVC(**parameters).fit(X, y))
    assert warm.fit(X, np.array(["a", "b"])[y]).classes_.tolist() == ["a", "b"]


# ---------------------------------------------------------------- the model file


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", RBF(3.0)])
def test_saved_model_predicts_and_goes_on_as_the_first(n_classes, refit, kernel, tmp_path):
    X, y = spirals(500, n_classes)
    names = np.array(["ham", "spam", "zebra"])
    frame = pd.DataFrame(X).add_prefix("x")
    classifier = BudgetSVC(budget=20, kernel=kernel, refit=refit, class_weight={"ham": 2.0}, **SHARP)
    classifier.fit(frame, names[y])
    classifier.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert type(copy) is BudgetSVC
    assert copy.get_params() == classifier.get_params()
    assert_same_bits(copy, classifier)
    assert copy.predict(frame).tolist() == classifier.predict(frame).tolist()
    assert copy.decision_function(frame).tobytes() == classifier.decision_function(frame).tobytes()
    for name in ("certificate_", "stop_reason_", "n_iter_", "kernel_", "n_features_in_"):
        assert getattr(copy, name) == getattr(classifier, name), name
    assert copy.feature_names_in_.tolist() == ["x0", "x1"]
    assert {name: column.tolist() for name, column in copy.history_.items()} == {
        name: column.tolist() for name, column in classifier.history_.items()
    }
    assert_same_bits(copy.partial_fit(frame, names[y]), classifier.partial_fit(frame, names[y]))


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("state.alpha", lambda a: a[:, 1:], "do not fit"),
        ("state.alpha", lambda a: a.astype(np.float32), "another type of numbers"),
        ("support_vectors", lambda a: a * np.nan, "not finite"),
        ("support_vectors", lambda a: a[:, 0], "support vectors of shape"),
        ("support_vectors", lambda a: a[1:], "do not fit"),
        ("dual_coef", lambda a: a * np.inf, "not finite"),
        ("state.rng", lambda a: a * 0, "not a random state"),
        ("training.certificates", lambda a: np.repeat(a, 2, axis=0), "2 certificates of 1 problems"),
    ],
)
def test_file_that_does_not_fit_together_is_refused(two, name, spoil, message, tmp_path):
    BudgetSVC(budget=20).fit(*two).save(tmp_path / "model")
    model = read_model(tmp_path / "model", mmap=False)
    spoilt = model.arrays | {name: spoil(model.arrays[name])}
    write_model(tmp_path / "bad", model.kind, model.info, spoilt, model.clock)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "bad")


# ---------------------------------------------------------------- limits, Ctrl-C, errors


def test_time_limit_leaves_a_model():
    X, y = spirals(5000)
    with pytest.warns(ConvergenceWarning, match="Raise max_time, or take a smaller budget") as caught:
        classifier = BudgetSVC(budget=50, max_iter=1e6, max_time=0.3, **SHARP).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert classifier.stop_reason_ == "max_time"
    assert classifier.score(X, y) > 0.8


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_a_model():
    X, y = spirals(5000)
    BudgetSVC(budget=50, **SHARP).fit(X, y)  # compiled by now
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    classifier = BudgetSVC(budget=50, max_iter=1e6, **SHARP)
    with pytest.raises(KeyboardInterrupt, match="it was interrupted, and the model found so far is kept"):
        classifier.fit(X, y)
    timer.join()
    assert classifier.stop_reason_ == "interrupted"
    assert classifier.score(X, y) > 0.7


@pytest.mark.parametrize("interrupted", [False, True])
def test_without_time_for_the_refit_the_mean_is_kept(two, monkeypatch, interrupted):
    """The features of a large budget take long: neither a limit nor Ctrl-C has to wait for them."""
    X, y = two
    before = BudgetSVC(budget=25, refit=False, fit_intercept=False, **SHARP).fit(X, y)

    def out_of_time(*args, interrupt, **options):
        if interrupted:
            interrupt.set()
        raise _budget_refit.OutOfTime

    monkeypatch.setattr("maxmargin.estimators._budget_machine.refit", out_of_time)
    found = BudgetSVC(budget=25, max_time=1e3, **SHARP)
    told = pytest.raises(KeyboardInterrupt) if interrupted else pytest.warns(ConvergenceWarning, match="Raise max_time")
    with told:
        found.fit(X, y)
    assert found.stop_reason_ == ("interrupted" if interrupted else "max_time")
    assert found.certificate_ is None
    np.testing.assert_array_equal(found.dual_coef_, before.dual_coef_)


def test_refit_stops_before_its_features_are_made(two):
    X, y = two
    state = run(BudgetSGD(RBF(8.0), 10), problem := BudgetProblem(X, y)).state
    stop = threading.Event()
    stop.set()
    for limit in ({"max_time": 1e-9}, {"interrupt": stop}):
        with pytest.raises(_budget_refit.OutOfTime):
            _budget_refit.refit(RBF(8.0), state.support, 10, problem, **limit)
    assert _budget_refit.refit(RBF(8.0), state.support, 10, problem, max_time=1e3).results[0].stop_reason == "converged"


def test_a_plain_fit_warns_of_nothing(two):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = BudgetSVC(budget=20).fit(*two)
        BudgetSVC(budget=20, refit=False).fit(*two)
    assert classifier.stop_reason_ == "converged"
    assert classifier.n_iter_ == 1
    assert classifier.history_["passes"].tolist() == [1.0]
    assert classifier.history_["merges"][0] > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1.0}, "C must be a positive finite number"),
        ({"C": "1"}, "C must be a number"),
        ({"budget": 1}, "budget must be an integer of at least 2"),
        ({"budget": 10.5}, "budget must be an integer"),
        ({"kernel": "gauss"}, "unknown kernel 'gauss'"),
        ({"kernel": "linear", "budget": 5}, 'choose "project" or "remove"'),
        ({"gamma": "big"}, 'gamma must be "scale", "auto" or a number'),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"maintenance": "merge", "budget": 5}, "unknown maintenance 'merge'"),
        ({"max_iter": 0, "budget": 5}, "max_iter must be positive"),
        ({"max_time": -1.0}, "max_time must be positive or None"),
        ({"tol": -1.0}, "tol must be >= 0"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"random_state": "chance"}, "random_state must be an integer"),
        ({"class_weight": "equal"}, 'class_weight must be a dict, "balanced" or None'),
    ],
)
def test_bad_parameters_are_named(two, parameters, message):
    with pytest.raises(ValueError, match=message):
        BudgetSVC(**parameters).fit(*two)


def test_bad_data_are_named(two):
    X, y = two
    with pytest.raises(ValueError, match=r"row 4, column 1 \(counted from 0\) is nan"):
        BudgetSVC().fit(np.where(np.arange(X.size).reshape(X.shape) == 9, np.nan, X), y)
    with pytest.raises(ValueError, match="only one class"):
        BudgetSVC().fit(X, np.ones(len(X)))
    with pytest.raises(NotFittedError):
        BudgetSVC().predict(X)
    with pytest.raises(ValueError, match="X has 1 features, but BudgetSVC is expecting 2"):
        BudgetSVC(budget=5).fit(X, y).predict(X[:, :1])
    with pytest.raises(ValueError, match=r"sample_weight\[3\] is -1"):
        BudgetSVC().fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1.0, 1.0))


def test_failed_fit_leaves_the_model_as_it_was(two):
    X, y = two
    classifier = BudgetSVC(budget=20).fit(X, y)
    before = classifier.decision_function(X)
    with pytest.raises(ValueError, match="tol"):
        classifier.set_params(tol=-1.0).fit(X, 1 - y)
    np.testing.assert_array_equal(classifier.decision_function(X), before)


def test_x_is_not_changed_and_may_be_read_only(two):
    X, y = two[0].copy(), two[1]
    X.flags.writeable = False
    classifier = BudgetSVC(budget=20).fit(X, y)
    assert_same_bits(classifier, BudgetSVC(budget=20).fit(two[0].copy(), y))


def test_plain_python_runs_without_warnings():
    program = """
import warnings
warnings.simplefilter("error")
import numpy as np
from scipy.sparse import csr_array
from maxmargin.estimators.budget import BudgetSVC
X = np.random.default_rng(0).integers(-16, 17, (40, 3)) / 16.0
for make in (np.asarray, csr_array):
    for n_classes in (2, 3):
        classifier = BudgetSVC(budget=6).fit(make(X), np.arange(40) % n_classes)
        classifier.partial_fit(make(X), np.arange(40) % n_classes)
        assert classifier.predict(np.float32(X)).shape == (40,)
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
