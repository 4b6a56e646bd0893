"""`suggest_rbf`: a C and a gamma that are worth having."""

import contextlib
import signal
import sys

import numpy as np
import pytest
import samples
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier

from maxmargin import BudgetSVC, catch_interrupt, suggest_rbf
from maxmargin.solvers import interrupts


def rings(n=3000, seed=0):
    """Classes that alternate with the radius: gamma="scale" is far too small."""
    X = np.random.default_rng(seed).uniform(-4.0, 4.0, size=(n, 2))
    return X, (np.linalg.norm(X, axis=1) % 1.0 > 0.5).astype(int)


def test_better_than_the_default_where_that_is_bad():
    (X, y), (X_test, y_test) = rings(), rings(seed=1)
    found = suggest_rbf(X, y)
    default, suggested = (BudgetSVC(max_iter=3, **parameters).fit(X, y) for parameters in ({}, found))
    assert suggested.score(X_test, y_test) > default.score(X_test, y_test) + 0.1
    assert found["gamma"] > default.kernel_.gamma


@pytest.mark.parametrize("storage", [np.asarray, samples.csr])
def test_the_same_for_any_storage_and_call(storage):
    X, y = make_moons(n_samples=600, noise=0.2, random_state=0)
    first, again = suggest_rbf(storage(X), y), suggest_rbf(X, y)
    assert first == again
    assert first != suggest_rbf(100.0 * X, y)
    assert suggest_rbf(100.0 * X, y)["gamma"] == pytest.approx(1e-4 * first["gamma"])


def test_too_little_to_go_by():
    with pytest.raises(ValueError, match="20 rows are too few"):
        suggest_rbf(np.ones((20, 2)), np.arange(20) % 2)
    with pytest.raises(ValueError, match="of two classes"):
        suggest_rbf(np.ones((200, 2)), np.zeros(200))
    with pytest.raises(ValueError, match="X has 20 rows but y has 3"):
        suggest_rbf(np.ones((20, 2)), np.arange(3))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("is_caught", [False, True])
def test_interrupted_it_has_no_answer(is_caught, monkeypatch):
    X, y = make_moons(n_samples=600, noise=0.2, random_state=0)
    monkeypatch.setattr(interrupts, "_last_caught", -np.inf)
    before, fits = signal.signal(signal.SIGINT, signal.default_int_handler), []
    solver = BudgetSVC._solver

    def at_the_third(self, *arguments, **options):
        fits.append(self)
        if len(fits) == 3:
            signal.raise_signal(signal.SIGINT)
        return solver(self, *arguments, **options)

    monkeypatch.setattr(BudgetSVC, "_solver", at_the_third)
    try:
        with contextlib.ExitStack() as stack:
            if is_caught:
                stack.enter_context(catch_interrupt())
                stack.enter_context(pytest.warns(ConvergenceWarning))
            with pytest.raises(KeyboardInterrupt):
                suggest_rbf(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(fits) < 6


def test_a_budget_for_each_class_is_scikit_learns_one_vs_rest():
    """BudgetSVC shares support vectors over classes; those who want separate budgets have this."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=900)
    X = rng.normal(size=(900, 2)) + 3.0 * np.eye(3, 2)[y]
    separate = OneVsRestClassifier(BudgetSVC(budget=20)).fit(X, y)
    assert len(separate.estimators_) == 3
    assert separate.score(X, y) == pytest.approx(BudgetSVC(budget=60).fit(X, y).score(X, y), abs=0.03)
