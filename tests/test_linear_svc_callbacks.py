"""LinearSVC under scikit-learn's callbacks: every pass is a task, and a callback can stop the fit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from maxmargin import LinearSVC
from maxmargin.solvers.coordinate import dual_cd

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    return X, (X @ rng.normal(size=8) + rng.normal(size=120) > 0).astype(int)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 8))
    return X, np.argmax(X @ rng.normal(size=(8, 3)) + rng.normal(size=(120, 3)), axis=1)


def assert_same_bits(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


class Watcher:
    """Writes down every task, and stops a level after some passes."""

    def __init__(self, stop_after=np.inf):
        self.stop_after, self.events, self.models, self.seen = stop_after, [], [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name, context.task_id))
        self.models.append(fitted_estimator)
        self.seen.append((X, y, metadata))
        return context.task_name == "pass" and context.task_id + 1 >= self.stop_after


class Spreading(Watcher):
    """The same, for an estimator inside another."""

    max_propagation_depth = None


@pytest.fixture
def pass_by_pass(monkeypatch):
    """Let the solver return often, as it does when the data are large."""
    monkeypatch.setattr(dual_cd, "_BLOCK", 1)


def test_tasks_of_a_binary_fit(two):
    X, y = two
    watcher = Watcher()
    weight = np.ones(len(y))
    classifier = LinearSVC(C=0.1).set_callbacks(watcher).fit(X, y, sample_weight=weight)
    assert_same_bits(classifier, LinearSVC(C=0.1).fit(X, y, sample_weight=weight))
    n_passes = int(classifier.history_["passes"][-1])
    assert n_passes > 1
    passes = [(hook, "pass", k) for k in range(n_passes) for hook in ("begin", "end")]
    assert watcher.events == ["setup", ("begin", "fit", 0), *passes, ("end", "fit", 0), "teardown"]
    for X_seen, y_seen, metadata in watcher.seen:
        np.testing.assert_array_equal(X_seen, X)
        np.testing.assert_array_equal(y_seen, y)
        assert metadata["sample_weight"] is weight
    final = classifier.decision_function(X)
    np.testing.assert_array_equal(watcher.models[-1].decision_function(X), final)
    assert not hasattr(classifier, "_callback_fit_ctx")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_tasks_of_several_classes(three, n_jobs):
    watcher = Watcher()
    classifier = LinearSVC(C=0.1, n_jobs=n_jobs).set_callbacks(watcher).fit(*three)
    assert_same_bits(classifier, LinearSVC(C=0.1).fit(*three))
    first, begin, *middle, end, last = watcher.events
    assert (first, last) == ("setup", "teardown")
    assert (begin, end) == (("begin", "fit", 0), ("end", "fit", 0))
    for k in range(3):
        assert middle.index(("begin", f"class {k}", k)) < middle.index(("end", f"class {k}", k))
    n_passes = sum(int(history["passes"][-1]) for history in classifier.history_)
    assert len([event for event in middle if event[:2] == ("end", "pass")]) == n_passes > 3
    np.testing.assert_array_equal(watcher.models[-1].predict(three[0]), classifier.predict(three[0]))


def test_callback_sees_the_model_of_each_pass_and_stops_the_fit(two, pass_by_pass):
    X, y = two
    watcher = Watcher(stop_after=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asked for it need not be warned
        classifier = LinearSVC(solver="dual_cd", tol=1e-9).set_callbacks(watcher).fit(X, y)
    assert classifier.stop_reason_ == "callback"
    assert classifier.n_iter_ == 3
    assert np.isfinite(classifier.certificate_.relative_gap)
    decisions = [model.decision_function(X) for model in watcher.models]
    assert np.any(decisions[0] != decisions[1])
    for limit in (1, 2, 3):
        with pytest.warns(ConvergenceWarning):
            same = LinearSVC(solver="dual_cd", tol=1e-9, max_iter=limit).fit(X, y)
        np.testing.assert_allclose(decisions[limit - 1], same.decision_function(X), rtol=1e-9)


def test_callback_stops_every_class(three, pass_by_pass):
    classifier = LinearSVC(solver="dual_cd", tol=1e-9, n_jobs=2).set_callbacks(Watcher(stop_after=2)).fit(*three)
    assert classifier.stop_reason_ == "callback"
    assert [history["passes"][-1] for history in classifier.history_] == [2.0, 2.0, 2.0]


def test_callback_stops_a_fit_to_small_data(two):
    classifier = LinearSVC(solver="dual_cd", tol=1e-9).set_callbacks(Watcher(stop_after=3)).fit(*two)
    assert (classifier.stop_reason_, classifier.n_iter_) == ("callback", 3)


def test_callbacks_inside_a_search(two, pass_by_pass):
    inner, outer = Watcher(stop_after=2), Spreading()
    classifier = LinearSVC(solver="dual_cd", tol=1e-9).set_callbacks(inner)
    search = GridSearchCV(classifier, {"C": [0.1, 1.0]}, cv=2).set_callbacks(outer).fit(*two)
    assert search.best_estimator_.stop_reason_ == "callback"
    assert search.best_estimator_.n_iter_ == 2
    n_fits = 5  # two folds of two candidates, and the best one again
    assert inner.events.count("setup") == inner.events.count("teardown") == n_fits
    assert outer.events.count("setup") == outer.events.count("teardown") == 1
    for watcher in (inner, outer):
        assert len([event for event in watcher.events if event[:2] == ("end", "pass")]) == 2 * n_fits
    assert len([event for event in outer.events if event[1] == "fit" and event[0] == "end"]) >= n_fits


def test_failing_callback_ends_the_fit_and_is_torn_down(three):
    class Failing(Watcher):
        def on_fit_task_end(self, estimator, context):
            raise ZeroDivisionError("callback")

    watcher = Failing()
    classifier = LinearSVC(n_jobs=2).set_callbacks(watcher)
    with pytest.raises(ZeroDivisionError, match="callback"):
        classifier.fit(*three)
    assert watcher.events[-1] == "teardown"
    with pytest.raises(NotFittedError):
        classifier.predict(three[0])
    assert LinearSVC.predict(classifier.set_callbacks().fit(*three), three[0]).shape == (len(three[0]),)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("data", ["two", "three"])
def test_scikit_learns_own_callbacks(data, request, capsys):
    X, y = request.getfixturevalue(data)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    classifier = LinearSVC(n_jobs=2).set_callbacks(callback.ProgressBar(), monitor).fit(X, y)
    assert "LinearSVC - fit" in capsys.readouterr().out
    log = monitor.get_logs().data
    *passes, whole = sorted(log, key=lambda entry: -len(entry["task_id_path"]))
    assert whole["task_name"] == "fit"
    assert whole["accuracy"] == classifier.score(X, y)
    # The model of one class among several cannot predict: only the whole fit has a score.
    assert len(passes) == (int(classifier.history_["passes"][-1]) if data == "two" else 0)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_scikit_learns_own_callbacks_in_a_search(three, capsys):
    bar, monitor = callback.ProgressBar(max_propagation_depth=None), callback.ScoringMonitor(scoring="accuracy")
    search = GridSearchCV(LinearSVC().set_callbacks(monitor), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(bar).fit(*three)
    assert "GridSearchCV" in capsys.readouterr().out
    assert len([entry for entry in monitor.get_logs().data if "accuracy" in entry]) == 5
