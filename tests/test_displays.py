"""Displays draw the numbers that the fits hold, where they are told to."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.exceptions import NotFittedError

from maxmargin import (
    BudgetDisplay,
    BudgetSVC,
    ConvergenceDisplay,
    LinearSVC,
    LinearSVCCV,
    OnlineSVC,
    PathDisplay,
    Problem,
    path,
    solve,
)
from maxmargin.cli import main

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def two():
    return make_classification(n_samples=300, n_features=8, flip_y=0.1, random_state=0)


@pytest.fixture
def ax():
    return Figure().subplots()


def test_convergence_of_several_fits(two, ax):
    fits = {"a": LinearSVC(solver="tron", tol=1e-6).fit(*two), "b": LinearSVC(solver="dual_cd", tol=1e-6).fit(*two)}
    display = ConvergenceDisplay.from_estimator(fits, x="passes", ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert [line.get_label() for line in display.lines_] == ["a", "b"]
    for line, fit in zip(display.lines_, fits.values()):
        np.testing.assert_array_equal(line.get_xdata(), fit.history_["passes"])
        np.testing.assert_array_equal(line.get_ydata(), np.maximum(fit.history_["relative_gap"], 1e-16))
    assert ax.get_yscale() == "log"
    assert display.tol == 1e-6
    assert ax.get_legend() is not None


def test_convergence_of_results_and_names(two):
    problem = Problem(two[0], np.where(two[1] == 1, 1.0, -1.0), loss="hinge")
    results = [solve(problem, "dual_cd", tol=tol) for tol in (1e-2, 1e-4)]
    display = ConvergenceDisplay.from_result(results, ax=Figure().subplots())
    assert list(display.histories) == ["dual_cd", "dual_cd (2)"]
    display.plot(Figure().subplots(), y="primal", color="red")
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), results[1].history["primal"])
    assert display.lines_[0].get_color() == "red"
    with pytest.raises(ValueError, match="1 names for 2"):
        ConvergenceDisplay.from_result(results, name="one")
    with pytest.raises(ValueError, match='"seconds" or "passes"'):
        display.plot(x="minutes")


def test_classes_share_colour_and_name():
    display = ConvergenceDisplay.from_estimator(LinearSVC().fit(*load_iris(return_X_y=True)), ax=Figure().subplots())
    assert len(display.lines_) == 3
    assert len({line.get_color() for line in display.lines_}) == 1
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["tron", "tol = 0.001"]


def test_without_axes_there_is_a_new_figure_of_pyplot(two):
    import matplotlib.pyplot as plt

    before = set(plt.get_fignums())
    display = ConvergenceDisplay.from_estimator(LinearSVC().fit(*two))
    (number,) = set(plt.get_fignums()) - before
    assert plt.figure(number) is display.figure_
    plt.close(display.figure_)


def test_what_has_no_history(two):
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(LinearSVC())
    with pytest.raises(ValueError, match="has no relative_gap"):
        ConvergenceDisplay.from_estimator(OnlineSVC().fit(*two))


def test_path(two, ax):
    X, y = two
    found = path(X[:200], y[:200], Cs=[1.0, 0.01, 0.1])
    display = PathDisplay.from_result(found, X[200:], y[200:], scoring="accuracy", ax=ax)
    scores = found.score(X[200:], y[200:], "accuracy")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0.01, 0.1, 1.0])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), scores[[1, 2, 0]])
    assert scores[list(found.Cs).index(display.best_C_)] == scores.max()
    display.plot(Figure().subplots(), kind="coef")
    drawn = {tuple(line.get_ydata()) for line in display.ax_.lines}
    assert all(tuple(found[k].w[j] for k in (1, 2, 0)) in drawn for j in range(8))
    with pytest.raises(ValueError, match="no score; it has objective, gap, coef"):
        PathDisplay.from_result(found).plot(kind="score")
    with pytest.raises(ValueError, match="one of score"):
        display.plot(kind="area")


def test_path_of_a_selection(two, ax):
    chosen = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(*two)
    display = PathDisplay.from_estimator(chosen, ax=ax)
    assert display.best_C_ == chosen.C_
    np.testing.assert_array_equal(display.scores, chosen.scores_)
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(LinearSVCCV())


def test_budget(ax):
    X, y = make_moons(n_samples=600, noise=0.2, random_state=0)
    display = BudgetDisplay.from_estimator(BudgetSVC(gamma=2.0), X, y, budgets=(4, 32), ax=ax)
    assert [len(model.support_vectors_) for model in display.models_] == [4, 32]
    assert display.scores[1] > 0.9
    assert (display.latencies > 0.0).all()
    assert (display.seconds > 0.0).all()
    np.testing.assert_array_equal(display.line_.get_ydata(), display.scores)
    again = BudgetDisplay.from_result(display.models_, X, y, x="latency", ax=Figure().subplots())
    np.testing.assert_allclose(again.scores, [model.score(X, y) for model in display.models_])
    assert [text.get_text() for text in again.ax_.texts] == ["4", "32"]
    with pytest.raises(ValueError, match="one of budget, latency, got 'seconds'"):
        again.plot(x="seconds")


def test_train_draws_a_picture(tmp_path, monkeypatch, capsys, two):
    from maxmargin import save_svmlight

    monkeypatch.chdir(tmp_path)
    save_svmlight("two.svm", *two)
    assert main(["train", "-q", "two.svm", "two.model", "--plot", "gap.png"]) == 0
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")
    for wrong in (["--plot", "gap.nonsense"], ["--plot", "gap.png", "-v", "3"], ["--plot", "gap.png", "--stream"]):
        assert main(["train", "-q", "two.svm", "two.model", *wrong]) == 2
        assert "--plot" in capsys.readouterr().err
