"""The measurements behind the budget paper's tables and figures: processor seconds of one thread."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

import maxmargin
from maxmargin._jit import compiled
from maxmargin.data.rows import as_rows
from maxmargin.kernels import RBF, decision_values
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers import base
from maxmargin.solvers.budget.budget_sgd import BudgetSGD
from maxmargin.solvers.budget.merging import GoldenSection, LookupH, LookupWD, golden_section, lookup, merge_functions
from papers.budget.settings import SETTINGS, load
from papers.frame.experiment import Settings

LEAST = 0.05  # seconds that one measurement takes


@lru_cache(maxsize=1)
def data_of(name: str, rows: int | None) -> Any:
    """Training and test rows."""
    return load(name, rows)


def _problem(name: str, rows: int | None, first: int | None = None, share_of_C: float = 1.0) -> BudgetProblem:
    X, y, *_ = data_of(name, rows)
    return BudgetProblem(X[:first], (y[:first] > 0.0).astype(int), 2, share_of_C * SETTINGS[name].C)


def _solver(settings: Settings, method: str, budget: int | None = None) -> BudgetSGD:
    budget = settings["budget"] if budget is None else budget
    exhaustive = settings.get("exhaustive", True)
    return BudgetSGD(RBF(SETTINGS[settings["set"]].gamma), budget, method, exhaustive=exhaustive)


def table_1(settings: Settings) -> dict[str, Any]:
    """Size of the set, and the accuracy of the exact machine: scikit-learn's SVC, which is LIBSVM."""
    from sklearn.svm import SVC

    X, y, X_test, y_test = data_of(settings["set"], settings["rows"])
    setting = SETTINGS[settings["set"]]
    started = time.process_time()
    model = SVC(C=setting.C, gamma=setting.gamma, cache_size=500).fit(X, y)
    seconds = time.process_time() - started
    some, others = (slice(None, None, 1 + len(labels) // 20_000) for labels in (y_test, y))  # all would take minutes
    right = float(np.mean(model.predict(X_test[some]) == y_test[some]))
    violates = y[others] * model.decision_function(X[others]) < 1.0 - model.tol
    return {
        "rows": len(y),
        "features": X.shape[1],
        "accuracy": 100.0 * right,
        "violations": float(np.mean(violates)),
        "support": float(model.n_support_.sum()) / len(y),
        "seconds": seconds,
    }


def run(settings: Settings) -> dict[str, Any]:
    """Train and test one method with one seed; where the time of training goes."""
    name, method = settings["set"], settings["method"]
    if method == "refitted":
        return refitted(settings)
    _, _, X_test, y_test = data_of(name, settings["rows"])
    base.run(_solver(settings, method, 4), _problem(name, settings["rows"], 64), max_iter=1)  # compile
    solver, problem = _solver(settings, method), _problem(name, settings["rows"])
    seconds, begun = np.inf, time.process_time()
    while seconds == np.inf or time.process_time() - begun < LEAST:  # the best of several, if they are short
        started = time.process_time()
        result = base.run(solver, problem, max_iter=settings["passes"], seed=settings["seed"])
        seconds = min(seconds, time.process_time() - started)
    state, counters = result.state, result.state.counters
    maintenance = seconds * counters.maintenance_seconds / counters.training_seconds
    return {
        **_accuracies(solver, state, X_test, y_test),
        "seconds": seconds,
        "maintenance": maintenance,
        "section_a": min(maintenance, counters.pairs * seconds_of_search(method)),
        "frequency": counters.merges / counters.steps,
    }


def _accuracies(solver: BudgetSGD, state: Any, X_test: Any, y_test: np.ndarray) -> dict[str, float]:
    """Per cent right, of the answer and of the last iterate."""
    rows, _ = as_rows(X_test)

    def accuracy(coefficients: Any, intercepts: Any) -> float:
        values = decision_values(solver.kernel, rows, state.support, coefficients, intercepts)
        return 100.0 * float(np.mean((values[:, 0] > 0.0) == (y_test > 0.0)))

    return {
        "accuracy": accuracy(state.coefficients, state.intercepts),
        "last": accuracy(state.last_coefficients, state.last_intercepts),
    }


def frequency(settings: Settings) -> dict[str, Any]:
    """Share of the steps that merge, and of those that violate the margin, at a share of the paper's C."""
    name = settings["set"]
    _, _, X_test, y_test = data_of(name, settings["rows"])
    solver = _solver(settings | {"exhaustive": False}, "lookup_wd")
    problem = _problem(name, settings["rows"], None, settings["C"])
    result = base.run(solver, problem, max_iter=settings["passes"], seed=settings["seed"])
    counters = result.state.counters
    return {
        "frequency": counters.merges / counters.steps,
        "violations": counters.violations / counters.steps,
        **_accuracies(solver, result.state, X_test, y_test),
    }


def reading(settings: Settings) -> dict[str, Any]:
    """The plain version with one reading of the text: merging frequency, accuracy, and m of late merges."""
    from papers.budget.plain import READINGS, decision, dense, train

    X, y, X_test, y_test = data_of(settings["set"], settings["rows"])
    s = SETTINGS[settings["set"]]
    chosen = READINGS[settings["reading"]]
    model = train(dense(X), y, s.C, s.gamma, settings["budget"], settings["passes"], chosen)
    right = (decision(dense(X_test), model, s.gamma) > 0.0) == (y_test > 0.0)
    found = {"frequency": model.frequency, "first": model.first, "share": model.share}
    return found | {"accuracy": 100.0 * float(np.mean(right))}


@lru_cache(maxsize=8)
def seconds_of_search(method: str) -> float:
    """Seconds to find h of one pair, or to look up its WD: section A of figure 3, a pair at a time."""
    from maxmargin.solvers.budget.maintenance import method_of

    rng = np.random.default_rng(0)
    m, kappa, out = 0.5 * rng.random(20_000), rng.random(20_000), np.empty(20_000)
    search = method_of(method)
    times = []
    for _ in range(4):
        started = time.process_time()
        _search_all(search, m, kappa, out)
        times.append(time.process_time() - started)
    return min(times) / len(m)


def _search_all(search: Any, m: np.ndarray, kappa: np.ndarray, out: np.ndarray) -> None:
    if isinstance(search, GoldenSection):
        _all_golden(m, kappa, search.precision, out)
    else:
        assert isinstance(search, (LookupH, LookupWD))
        _all_lookups(search.tables.h if isinstance(search, LookupH) else search.tables.ratio, m, kappa, out)


@compiled
def _all_golden(m, kappa, precision, out):
    for k in range(len(m)):
        out[k] = golden_section(m[k], kappa[k], precision)


@compiled
def _all_lookups(table, m, kappa, out):
    for k in range(len(m)):
        out[k] = lookup(table, m[k], kappa[k])


def refitted(settings: Settings) -> dict[str, Any]:
    """Train and test as `BudgetSVC` does by default: with an intercept, and coefficients fitted anew at the end."""
    setting = SETTINGS[settings["set"]]
    X, y, X_test, y_test = data_of(settings["set"], settings["rows"])
    options = {"C": setting.C, "gamma": setting.gamma, "max_iter": settings["passes"]}
    few = np.concatenate([np.flatnonzero(y == label)[:32] for label in (-1.0, 1.0)])
    maxmargin.BudgetSVC(budget=4, **options).fit(X[few], y[few])  # compile
    started = time.process_time()
    model = maxmargin.BudgetSVC(budget=settings["budget"], random_state=settings["seed"], **options).fit(X, y)
    seconds = time.process_time() - started
    return {"accuracy": 100.0 * float(np.mean(model.predict(X_test) == y_test)), "seconds": seconds}


def decisions(settings: Settings) -> dict[str, Any]:
    """Decisions of the methods side by side in one training."""
    from papers.budget.decisions import compare

    problem = _problem(settings["set"], settings["rows"])
    return compare(_solver(settings, "gss"), problem, settings["passes"], settings["seed"])


def figure_2(settings: Settings) -> dict[str, Any]:
    """h and WD over the unit square: kappa down the rows, m along the columns."""
    grid = np.linspace(0.0, 1.0, settings["points"])
    m, kappa = np.meshgrid(grid, grid)
    h, wd = merge_functions(m, kappa)
    return {"h": h.round(4), "wd": wd}
