"""LinearSVCCV: the same choice as an explicit loop, and scikit-learn's contract."""

import contextlib
import io
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, catch_interrupt, load
from maxmargin.estimators import _folds, selection
from maxmargin.estimators.selection import LinearSVCCV

CS = [0.001, 0.01, 0.1, 1.0]

CS_OF_BAR = [0.001, 0.1, 1.0]


def rows(n=300, n_features=8, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    scores = X @ rng.normal(size=(n_features, n_classes)) + 1.5 * rng.normal(size=(n, n_classes))
    return X, scores.argmax(axis=1)


@pytest.fixture(scope="module")
def two():
    return rows()


@pytest.fixture(scope="module")
def three():
    return rows(n_classes=3, seed=3)


# Equality to 7 digits: small problems are finished to rounding.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@parametrize_with_checks([LinearSVCCV(), LinearSVCCV(Cs=[0.1, 1.0], cv=2, loss="hinge", tol=1e-3)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- the choice


@pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc", "f1"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_same_choice_as_an_explicit_loop(two, loss, scoring):
    X, y = two
    chosen = LinearSVCCV(CS, cv=4, loss=loss, scoring=scoring, tol=1e-9).fit(X, y)
    singles = [LinearSVC(C=C, loss=loss, tol=1e-9) for C in CS]
    expected = np.transpose([cross_val_score(each, X, y, cv=4, scoring=scoring or "roc_auc") for each in singles])
    np.testing.assert_allclose(chosen.scores_, expected, atol=1e-3)
    best = int(expected.mean(axis=0).argmax())
    assert (chosen.best_index_, chosen.C_) == (best, CS[best])
    assert chosen.best_score_ == pytest.approx(expected.mean(axis=0)[best], abs=1e-3)
    refitted = LinearSVC(C=CS[best], loss=loss, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(chosen.coef_, refitted.coef_, atol=1e-3)
    np.testing.assert_allclose(chosen.certificate_.primal, refitted.certificate_.primal, rtol=1e-8)
    assert chosen.certificate_.relative_gap <= 1e-9


def test_the_choice_is_not_the_end_of_the_grid_by_chance(two):
    """Data on which a middle C is best by far, in any order of the grid."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 200))
    y = X[:, :3].sum(axis=1) + 0.5 * rng.normal(size=60) > 0.0
    grids = [[1e-6, 1e-4, 1e-2, 1.0], [1.0, 1e-6, 1e-2, 1e-4]]
    choices = [LinearSVCCV(each, scoring="accuracy", loss="hinge").fit(X, y) for each in grids]
    assert choices[0].C_ == choices[1].C_
    np.testing.assert_array_equal(choices[0].scores_, choices[1].scores_[:, np.argsort(grids[1])])
    np.testing.assert_array_equal(choices[0].coef_, choices[1].coef_)


def test_of_equal_scores_the_smallest_C_is_taken():
    X = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]] * 4)
    chosen = LinearSVCCV([10.0, 0.1, 1.0], cv=3).fit(X, X.ravel() > 0.0)
    assert chosen.scores_.min() == 1.0
    assert (chosen.C_, chosen.best_index_) == (0.1, 1)
    assert chosen.cv_results_["rank_test_score"].tolist() == [1, 1, 1]


def test_strings_as_labels_and_more_than_two_classes(three):
    X, y = three
    names = np.array(["ant", "bee", "cat"])[y]
    chosen = LinearSVCCV(CS, cv=3, tol=1e-8).fit(X, names)
    assert chosen.classes_.tolist() == ["ant", "bee", "cat"]
    assert (chosen.coef_.shape, len(chosen.certificate_)) == ((3, X.shape[1]), 3)
    expected = [cross_val_score(LinearSVC(C=C, tol=1e-8), X, names, cv=3).mean() for C in CS]
    np.testing.assert_allclose(chosen.scores_.mean(axis=0), expected, atol=1e-12)
    assert set(chosen.predict(X)) <= set(names)
    two = LinearSVCCV(CS, cv=3).fit(X, np.where(y == 0, "no", "yes"))
    assert two.best_score_ > 0.7  # of ROC area
    assert set(two.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 5.0}])
def test_class_weights(two, class_weight):
    X, y = two
    y = y & (X[:, 0] > 0.5)  # few ones
    chosen = LinearSVCCV(CS, class_weight=class_weight, scoring="balanced_accuracy", tol=1e-9).fit(X, y)
    singles = [LinearSVC(C=C, class_weight=class_weight, tol=1e-9) for C in CS]
    expected = [cross_val_score(each, X, y, scoring="balanced_accuracy").mean() for each in singles]
    np.testing.assert_allclose(chosen.scores_.mean(axis=0), expected, atol=1e-9)


def test_sample_weights_count_in_training_and_in_the_scores(two):
    X, y = two
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    folds = list(StratifiedKFold(3).split(X, y))
    chosen = LinearSVCCV(CS, cv=folds, scoring="accuracy", tol=1e-9).fit(X, y, sample_weight=weight)
    for (train, test), scores in zip(folds, chosen.scores_):
        model = LinearSVC(C=CS[1], tol=1e-9).fit(X[train], y[train], sample_weight=weight[train])
        expected = accuracy_score(y[test], model.predict(X[test]), sample_weight=weight[test])
        assert scores[1] == pytest.approx(expected, abs=1e-12)


def test_splits_of_every_kind(two):
    X, y = two
    expected = LinearSVCCV(CS, cv=KFold(3)).fit(X, y).scores_
    indices = list(KFold(3).split(X, y))
    masks = [tuple(np.isin(np.arange(len(y)), part) for part in split) for split in indices]
    for cv in (indices, masks, iter(indices)):
        np.testing.assert_array_equal(LinearSVCCV(CS, cv=cv).fit(X, y).scores_, expected)


def test_a_scorer_without_weights_gets_none(two):
    X, y = two

    def plain(estimator, X, y):
        return estimator.score(X, y)

    weight = np.ones(len(y))
    a = LinearSVCCV(CS, scoring=plain).fit(X, y, sample_weight=weight)
    b = LinearSVCCV(CS, scoring=make_scorer(accuracy_score)).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(a.scores_, b.scores_)


# ---------------------------------------------------------------- how it is done


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_and_storage_do_not_change_the_choice(n_classes):
    X, y = rows(n_classes=n_classes, seed=7)
    one, two = (LinearSVCCV(CS, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    sparse = LinearSVCCV(CS, tol=1e-9).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, LinearSVCCV(CS, tol=1e-9).fit(X, y).coef_, atol=1e-4)


@pytest.mark.parametrize("solver", ["dual_cd", "tron", "auto"])
def test_other_solvers(two, solver):
    X, y = two
    other, planes = (LinearSVCCV(CS, solver=each, tol=1e-8).fit(X, y) for each in (solver, "ocas"))
    assert other.C_ == planes.C_
    np.testing.assert_allclose(other.certificate_.primal, planes.certificate_.primal, rtol=2e-8)


def test_the_data_are_not_written_to(two):
    X, y = (array.copy() for array in two)
    X.flags.writeable = y.flags.writeable = False
    LinearSVCCV(CS).fit(X, y)


def test_the_table_and_the_path(two):
    X, y = two
    chosen = LinearSVCCV(CS, cv=3).fit(X, y)
    table = chosen.cv_results_
    assert table["param_C"].tolist() == CS
    np.testing.assert_array_equal(table["split1_test_score"], chosen.scores_[1])
    np.testing.assert_allclose(table["mean_test_score"], chosen.scores_.mean(axis=0))
    np.testing.assert_allclose(table["std_test_score"], chosen.scores_.std(axis=0))
    assert table["rank_test_score"][chosen.best_index_] == 1
    assert (table["relative_gap"] <= 1e-3).all()
    assert chosen.path_.Cs.tolist() == CS[: chosen.best_index_ + 1]
    np.testing.assert_array_equal(chosen.path_.model(-1).coef_, chosen.coef_)


def test_one_warning_if_a_limit_is_met(two):
    X, y = two
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        short = LinearSVCCV(CS, max_iter=3, tol=1e-9).fit(X, y)
    assert len(caught) == 1
    assert short.stop_reason_ == "max_iter"
    assert np.isfinite(short.scores_).all()
    with pytest.warns(ConvergenceWarning, match="max_time") as caught:
        LinearSVCCV(CS, max_time=1e-6, tol=1e-9).fit(X, y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearSVCCV(CS).fit(X, y)


@pytest.mark.parametrize("is_caught", [False, True])
@pytest.mark.parametrize("fold", [0, 2])
def test_an_interrupt_leaves_a_usable_model(two, fold, is_caught, monkeypatch):
    """Ctrl-C while a fold is solved: complete folds decide, and the model is that of a fold."""
    X, y = two
    whole = LinearSVCCV(CS, cv=4, tol=1e-6).fit(X, y)
    solve_paths, calls = selection.solve_paths, []

    def interrupted(*arguments, interrupt, callbacks=(), **options):
        def at_the_third_C(progress):
            if progress.problem.cost.max() >= CS[2]:
                interrupt.set()

        stop = [at_the_third_C] if len(calls) == fold else []
        calls.append(stop)
        return solve_paths(*arguments, interrupt=interrupt, callbacks=[*callbacks, *stop], **options)

    for module in (_folds, selection):
        monkeypatch.setattr(module, "solve_paths", interrupted)
    left = LinearSVCCV(CS, cv=4, tol=1e-6)
    if fold == 0 or not is_caught:
        what = "before there was a score" if fold == 0 else "interrupted, and the model found so far is kept"
        context = catch_interrupt() if is_caught else contextlib.nullcontext()
        with context, pytest.raises(KeyboardInterrupt, match=what):
            left.fit(X, y)
    else:
        with catch_interrupt(), pytest.warns(ConvergenceWarning, match="interrupted") as caught:
            left.fit(X, y)
        assert len(caught) == 1
    if fold == 0:
        assert not hasattr(left, "coef_")
        return
    assert left.stop_reason_ == "interrupted"
    assert left.score(X, y) > whole.score(X, y) - 0.05
    assert np.any(left.coef_ != 0.0)
    assert left.scores_.shape == (2, len(CS))
    complete = whole.scores_[:fold].mean(axis=0)
    np.testing.assert_allclose(left.cv_results_["mean_test_score"], complete, atol=1e-6)
    assert CS[int(complete.argmax())] == left.C_


@pytest.mark.parametrize(("make", "n_models"), [(lambda: LinearSVCCV(Cs=CS_OF_BAR, cv=3), None), (LinearSVC, 3)])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_bar_over_all_folds_values_of_C_and_classes(three, make, n_models, n_jobs, monkeypatch):
    console, progress = pytest.importorskip("rich.console"), pytest.importorskip("rich.progress")
    output, bars, drawn, update = io.StringIO(), set(), [], progress.Progress.update

    def recorded(self, task, *, completed, status):
        bars.add(id(self))
        drawn.append((completed, status))
        update(self, task, completed=completed, status=status)

    terminal = console.Console(file=output, force_terminal=True, width=120)
    monkeypatch.setattr(console, "Console", lambda stderr: terminal)
    monkeypatch.setattr(progress.Progress, "update", recorded)
    model = make().set_params(verbose=1, n_jobs=n_jobs).fit(*three)
    if n_models is None:  # three folds, and the path on all rows up to the chosen C; of three classes
        n_models = 3 * (3 * len(CS_OF_BAR) + len(model.path_))
    shares = np.array([share for share, _ in drawn])
    assert len(bars) == 1
    assert shares[-1] == 1.0
    assert 0.0 <= shares[0] < 0.5
    assert np.all(np.diff(shares) >= -1e-12)
    assert drawn[-1][1] == f"{n_models} of {n_models} models"
    assert "gap" in "".join(status for _, status in drawn)
    assert f"{n_models} of {n_models} models" in output.getvalue()
    if n_jobs == 1:  # in two threads the order of the ends is nobody's
        ends = [status for _, status in drawn if "passes" not in status]
        assert [int(status.split(" of ")[0]) for status in ends] == list(range(1, n_models + 1))


def test_a_score_that_no_fold_has_is_an_error(two):
    X, y = two
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, for each
        with pytest.raises(ValueError, match="rows of every class"):
            LinearSVCCV(CS, cv=[(np.arange(300), np.flatnonzero(y == 1))]).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"Cs": [1.0, -1.0]}, r"Cs\[1\] is -1"),
        ({"scoring": "nonsense"}, "scoring"),
        ({"loss": "nonsense"}, "unknown loss"),
        ({"solver": "nonsense"}, "unknown solver"),
        ({"penalty": "l1", "solver": "ocas"}, "penalty 'l1'"),
        ({"max_time": -1.0}, "max_time"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_mistakes_are_refused(two, parameters, what):
    with pytest.raises(ValueError, match=what):
        LinearSVCCV(**parameters).fit(*two)


def test_callbacks_of_scikit_learn_see_the_path_on_all_rows(two):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")
    assert callback

    class Watcher:
        names, models = [], []

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            self.names.append(context.task_name)
            self.models.append(fitted_estimator)

    X, y = two
    watcher = Watcher()
    watched = LinearSVCCV(CS, tol=1e-6).set_callbacks(watcher).fit(X, y)
    np.testing.assert_array_equal(watched.coef_, LinearSVCCV(CS, tol=1e-6).fit(X, y).coef_)
    assert watcher.names.count("fit") == 1
    assert watcher.names.count("pass") == sum(int(result.passes) for result in watched.path_)
    assert all(len(model.predict(X)) == len(y) for model in watcher.models)


# ---------------------------------------------------------------- use


@pytest.mark.parametrize("n_classes", [2, 3])
def test_saved_it_is_loaded_as_what_it_is(n_classes, tmp_path):
    X, y = rows(n_classes=n_classes)
    folds = KFold(3, shuffle=True, random_state=0)
    for k, cv in enumerate((3, folds)):
        chosen = LinearSVCCV(CS, cv=cv, scoring="accuracy").fit(X, y)
        chosen.save(tmp_path / f"model{k}")
        model = load(tmp_path / f"model{k}")
        assert type(model) is LinearSVCCV
        assert model.cv == (3 if cv == 3 else None)
        assert (model.C_, model.best_index_, model.best_score_) == (chosen.C_, chosen.best_index_, chosen.best_score_)
        np.testing.assert_array_equal(model.scores_, chosen.scores_)
        assert set(chosen.cv_results_) - set(model.cv_results_) == {"mean_fit_time"}
        np.testing.assert_array_equal(model.decision_function(X), chosen.decision_function(X))
        plain = model.to_linear_svc()
        assert type(plain) is LinearSVC
        assert (plain.C, plain.stop_reason_) == (chosen.C_, chosen.stop_reason_)
        np.testing.assert_array_equal(plain.predict(X), chosen.predict(X))
    with pytest.raises(NotFittedError):
        LinearSVCCV().save(tmp_path / "other")


def test_in_a_pipeline_with_names_of_features(two):
    pd = pytest.importorskip("pandas")
    X, y = two
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = LinearSVCCV(CS).fit(frame, y)
        assert chosen.feature_names_in_.tolist() == list(frame.columns)
        chosen.predict(frame)
        chosen.to_linear_svc().predict(frame)
    piped = make_pipeline(StandardScaler(), clone(chosen)).fit(X, y)
    assert piped.score(X, y) > 0.6


def test_plot(two):
    pytest.importorskip("matplotlib")
    chosen = LinearSVCCV(CS[::-1], cv=3).fit(*two)
    score, gap = chosen.plot().axes
    lines = [line.get_ydata() for line in score.lines]
    np.testing.assert_allclose(lines[:3], chosen.scores_[:, ::-1])
    np.testing.assert_allclose(lines[3], chosen.scores_.mean(axis=0)[::-1])
    assert score.lines[4].get_xdata()[0] == chosen.C_
    np.testing.assert_allclose(gap.lines[0].get_ydata(), chosen.cv_results_["relative_gap"][::-1])
