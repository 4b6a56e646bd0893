"""BudgetSVC(budget="auto"): a size for the time, and what a user learns of it."""

import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from maxmargin import load
from maxmargin.estimators import _budget_size as sizes
from maxmargin.estimators.budget import BudgetSVC
from maxmargin.kernels import RBF
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.budget.budget_sgd import BudgetSGD


def rings(n=3000, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (2 * np.linalg.norm(X, axis=1)).astype(int) % n_classes


class Clockwork:
    """A trial whose machine takes `per_vector` seconds for each support vector, and a little more for a refit."""

    def __init__(self, per_vector, n=100_000, power=1.0, refitting=0.0, bytes_each=1e3):
        self.per_vector, self.power, self.refitting, self.bytes_each = per_vector, power, refitting, bytes_each
        self.counted, self.passes = np.arange(n), 1.0
        self.refit_options = {} if refitting else None
        self.asked = []

    def seconds(self, size, patience):
        self.asked.append(size)
        passes = self.per_vector * size**self.power
        return passes, self.refitting * passes

    def n_bytes(self, size):
        return self.bytes_each * size


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("true_size", [20, 100, 777, 5000])
def test_the_largest_that_fits_is_found(true_size, power):
    trial = Clockwork(0.8 * 60.0 / true_size**power, power=power)
    plan = sizes.choose(trial, 60.0)
    if true_size >= 32:
        assert plan.budget == pytest.approx(true_size, rel=0.02)
        assert plan.seconds == pytest.approx(48.0, rel=0.05)
    else:  # smaller than the first trial: proportional at most
        assert 2 <= plan.budget <= true_size
    assert max(trial.asked) <= max(32, 2 * true_size)  # no trial takes much longer than what is chosen


def test_room_is_left_for_the_refit():
    without = sizes.choose(Clockwork(0.01), 60.0).budget
    small, large = (sizes.choose(Clockwork(0.01, refitting=share), 60.0).budget for share in (0.1, 3.0))
    assert small == pytest.approx(sizes.SHARE_OF_PASSES * without, rel=0.02)
    assert large == pytest.approx(without / 4, rel=0.02)


def test_limits_of_rows_and_memory(monkeypatch):
    assert sizes.choose(Clockwork(1e-9, n=500), 60.0).budget == 500
    assert sizes.choose(Clockwork(1e-9, n=10**6), 60.0).budget == sizes._MOST
    monkeypatch.setattr(sizes, "_memory", lambda: 4e6)
    plan = sizes.choose(Clockwork(1e-9, bytes_each=1e4), 60.0)
    assert plan.budget == 100
    assert plan.n_bytes == 1e6
    assert sizes.choose(Clockwork(1e9), 60.0).budget == 2


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_measured_times_grow_with_size_and_leave_the_problem_alone(refit, storage):
    X, y = rings()
    X = np.hstack([X, np.zeros((len(X), 60)) + X[:, :1]])
    problem = BudgetProblem(storage(X), y)
    options = {"bias": 1.0, "tol": 0.01, "seed": 0, "n_jobs": 1} if refit else None
    trial = sizes.Trial(lambda budget: BudgetSGD(RBF(1.0), budget), problem, 10.0, options, 0)
    assert trial.compile() > 0.0
    cost = problem.cost.copy()
    few, many = (min(trial.seconds(size, 0.01) for _ in range(3)) for size in (16, 1600))
    assert 2 * few[0] < many[0]
    assert (many[1] > few[1] > 0.0) if refit else (many[1] == few[1] == 0.0)
    np.testing.assert_array_equal(problem.cost, cost)


def test_fit_keeps_to_the_time_and_says_what_it_does(capsys):
    X, y = rings(20_000)
    clf = BudgetSVC(budget="auto", max_time=1.0, gamma=1.0, C=10.0, refit=False, max_iter=3).fit(X, y)
    assert f"budget {clf.budget_:,} support vectors" in capsys.readouterr().err
    assert 2 <= len(clf.support_vectors_) <= clf.budget_
    assert clf.budget == "auto"
    started = time.perf_counter()
    quick = BudgetSVC(budget="auto", max_time=0.05, gamma=1.0, refit=False, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on a busy machine the time may run out
        quick.fit(X, y)
    assert time.perf_counter() - started < 20.0
    assert quick.budget_ < clf.budget_
    shown = capsys.readouterr().err
    assert f"budget {quick.budget_:,} support vectors: about" in shown
    assert "MB" in shown


def test_all_else_is_as_with_that_number(tmp_path):
    X, y = rings(n_classes=3)
    auto = BudgetSVC(budget="auto", max_time=2.0, gamma=1.0, refit=False).fit(X, y)
    same = BudgetSVC(budget=auto.budget_, gamma=1.0, refit=False).fit(X, y)
    for name in ("support_vectors_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(auto, name), getattr(same, name))
    auto.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.budget, again.budget_) == ("auto", auto.budget_)
    for clf in (auto, again):  # a stream goes on with the size chosen
        clf.partial_fit(X[::2], y[::2])
        assert clf.budget_ == same.budget_
    np.testing.assert_array_equal(auto.dual_coef_, again.dual_coef_)


def test_what_auto_cannot_do_is_named():
    X, y = rings(100)
    with pytest.raises(ValueError, match="needs all of the data"):
        BudgetSVC(budget="auto").partial_fit(X, y)
    with pytest.raises(ValueError, match="finite number of passes"):
        BudgetSVC(budget="auto", max_iter=np.inf).fit(X, y)
    with pytest.raises(ValueError, match='at least 2 or "auto"'):
        BudgetSVC(budget="big").fit(X, y)
