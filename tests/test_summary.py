"""What a fitted model says of itself, as text and in notebooks."""

import pytest
from sklearn import config_context
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import BudgetSVC, LinearSVC, LinearSVR, OnlineSVC


@pytest.fixture(scope="module")
def two():
    return make_classification(n_samples=200, n_features=5, random_state=0)


def test_summary_names_solver_passes_and_certificate(two):
    clf = LinearSVC(loss="hinge", solver="dual_cd", tol=1e-4).fit(*two)
    summary = clf.summary()
    text = repr(summary)
    assert text.splitlines()[0] == "LinearSVC(loss='hinge', solver='dual_cd', tol=0.0001)"
    assert summary["solver"] == "dual_cd"
    assert summary["stopped"] == "converged (tol = 0.0001)"
    assert f"{clf.certificate_.primal:.6g}, the optimum is at least {clf.certificate_.dual:.6g}" in text
    assert f"{100 * clf.certificate_.relative_gap:.2g} %" in summary["certificate"]
    assert f"{clf.history_['passes'][-1]:.3g} passes" in summary["work"]
    assert list(summary) == ["classes", "features", "solver", "work", "objective", "certificate", "stopped"]


def test_only_the_work_of_several_problems_is_that_of_all_together(two):
    X, y = load_iris(return_X_y=True)
    assert "all 3 problems together" in LinearSVC().fit(X, y).summary()["work"]
    assert "together" not in LinearSVC().fit(*two).summary()["work"]


def test_of_several_classes_the_worst_is_told():
    clf = LinearSVC().fit(*load_iris(return_X_y=True))
    worst = max(clf.certificate_, key=lambda each: each.relative_gap)
    assert clf.summary()["objective"].startswith(f"{worst.primal:.6g}")
    assert clf.summary()["classes"] == "3: 0, 1, 2"


def test_what_other_models_say(two):
    X, y = two
    assert BudgetSVC(budget=9).fit(X, y).summary()["support vectors"] == "9 (budget 9)"
    assert OnlineSVC(max_iter=2).fit(X, y).summary()["rows learnt from"] == "400"
    assert OnlineSVC(max_iter=2).fit(X, y).summary()["certificate"] == "none"
    assert "classes" not in LinearSVR().fit(X, y).summary()
    with pytest.raises(NotFittedError):
        LinearSVC().summary()


def test_notebooks_show_it_below_the_diagram(two):
    clf = LinearSVC()
    assert "maxmargin-summary" not in clf._repr_html_()
    html = clf.fit(*two)._repr_html_()
    assert "maxmargin-summary" in html
    assert clf.summary()["certificate"] in html
    assert clf._repr_mimebundle_()["text/html"].count("maxmargin-summary") == 1
    assert "LinearSVC" in make_pipeline(StandardScaler(), LinearSVC()).fit(*two)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(clf, "_repr_html_")


def test_labels_cannot_break_the_page(two):
    X, y = two
    clf = LinearSVC().fit(X, ["<b>" if label else "a" for label in y])
    assert "&lt;b&gt;" in clf.summary()._repr_html_()
    assert "<b>" not in clf.summary()._repr_html_()
