"""Tables 2 and 3 of Glasmachers and Qaadan (2018), beside the paper's figures, as Markdown.

    python papers/budget/tables.py [--sets a9a w8a ...] [--seeds 5] [--passes 20] [--quick]

Every run is kept in ``benchmarks/cache``, so that a stopped run of this script goes on where it was. Runs of changed
solvers are made anew. Seconds are the processor's, of one thread; methods take turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import settings
from settings import METHODS, SETTINGS, datasets

import maxmargin
from maxmargin import kernels
from maxmargin.kernels import RBF, decision_values
from maxmargin.rows import as_rows
from maxmargin.solvers.budget_sgd import BudgetProblem, BudgetSGD, train

_SOURCES = (
    "kernels.py",
    "solvers/merging.py",
    "solvers/_budget_maintenance.py",
    "solvers/budget_sgd.py",
    "solvers/_budget_refit.py",
)
_QUICK_ROWS, _QUICK_PASSES, _QUICK_SEEDS = 5000, 2, 2


class Runs:
    """What was measured, by description of the run, in a file that grows with each."""

    def __init__(self, path: Path):
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        package = Path(maxmargin.__file__).parent
        code = b"".join((package / name).read_bytes() for name in _SOURCES)
        code += Path(__file__).with_name("decisions.py").read_bytes()
        self.version = hashlib.sha256(code).hexdigest()[:8]

    def get(self, name: str, make: Any) -> Any:
        """The outcome of this run, from the file or made now."""
        key = f"{self.version} {name}"
        if key not in self.found:
            self.found[key] = make()
            self.path.parent.mkdir(exist_ok=True)
            temporary = self.path.with_suffix(".part")
            temporary.write_text(json.dumps(self.found, indent=0))
            os.replace(temporary, self.path)
            print(f"{name}: {json.dumps(self.found[key])}", file=sys.stderr, flush=True)
        return self.found[key]


class Experiment:
    """One data set; nothing is loaded before a run needs it."""

    def __init__(self, name: str, options: argparse.Namespace, runs: Runs):
        self.name, self.options, self.runs = name, options, runs
        self.setting = SETTINGS[name]
        self._data: Any = None

    def problem(self, n: int | None = None) -> BudgetProblem:
        """The training rows, or the first n of them."""
        X, y, *_ = self.data()
        return BudgetProblem(X[:n], (y[:n] > 0.0).astype(int), 2, self.setting.C)

    def data(self) -> Any:
        """Training and test rows, loaded once."""
        if self._data is None:
            X, y, X_test, y_test = settings.load(self.name)
            if self.options.rows is not None:
                chosen = np.random.default_rng(1).permutation(len(y))[: self.options.rows]
                X, y = X[chosen], y[chosen]
            self._data = X, y, X_test, y_test
            for method in METHODS:  # compile
                train(self._solver(4, method), self.problem(64), max_iter=1)
        return self._data

    def _solver(self, budget: int, method: str, exhaustive: bool = True) -> BudgetSGD:
        return BudgetSGD(RBF(self.setting.gamma), budget, method, exhaustive=exhaustive)

    def _name(self, budget: int, what: str, seed: int) -> str:
        rows = "" if self.options.rows is None else f" rows={self.options.rows}"
        return f"{self.name}{rows} passes={self.options.passes} B={budget} {what} seed={seed}"

    def run(self, budget: int, method: str, exhaustive: bool, seed: int) -> dict[str, float]:
        """Train and test."""

        def make() -> dict[str, float]:
            self.data()  # its time does not count
            started = time.process_time()
            problem, solver = self.problem(), self._solver(budget, method, exhaustive)
            result = train(solver, problem, max_iter=self.options.passes, seed=seed)
            seconds = time.process_time() - started
            state, counters = result.state, result.state.counters
            return {
                "accuracy": self._accuracy(solver.kernel, state, state.coefficients, state.intercepts),
                "last": self._accuracy(solver.kernel, state, state.last_coefficients, state.last_intercepts),
                "seconds": seconds,
                "maintenance": seconds * counters.maintenance_seconds / counters.training_seconds,
                "finding": seconds * counters.finding_seconds / counters.training_seconds,
                "frequency": counters.merges / counters.steps,
                "kernel_rows": counters.kernel_rows,
            }

        return self.runs.get(self._name(budget, f"{method}{'' if exhaustive else ' few'}", seed), make)

    def refitted(self, budget: int, seed: int) -> dict[str, float]:
        """Train and test as `BudgetSVC` does by default: with an intercept, and coefficients fitted anew at the end."""

        def make() -> dict[str, float]:
            X, y, X_test, y_test = self.data()
            options = {"C": self.setting.C, "gamma": self.setting.gamma, "max_iter": self.options.passes}
            few = np.concatenate([np.flatnonzero(y == label)[:32] for label in (-1.0, 1.0)])
            maxmargin.BudgetSVC(budget=4, **options).fit(X[few], y[few])  # compile
            started = time.process_time()
            model = maxmargin.BudgetSVC(budget=budget, random_state=seed, **options).fit(X, y)
            seconds = time.process_time() - started
            return {"accuracy": 100.0 * float(np.mean(model.predict(X_test) == y_test)), "seconds": seconds}

        return self.runs.get(self._name(budget, "refitted", seed), make)

    def exact(self) -> float:
        """Accuracy of scikit-learn's exact SVC on the same rows; it takes a minute or two."""

        def make() -> float:
            from sklearn.svm import SVC

            X, y, X_test, y_test = self.data()
            model = SVC(C=self.setting.C, gamma=self.setting.gamma, cache_size=1000).fit(X, y)
            return 100.0 * float(np.mean(model.predict(X_test) == y_test))

        return self.runs.get(self._name(0, "exact", 0), make)

    def _accuracy(self, function: kernels.Kernel, state: Any, coefficients: Any, intercepts: Any) -> float:
        _, _, X_test, y_test = self.data()
        rows, _ = as_rows(X_test)
        values = decision_values(function, rows, state.support, coefficients, intercepts)
        return 100.0 * float(np.mean((values[:, 0] > 0.0) == (y_test > 0.0)))

    def decisions(self, budget: int, seed: int) -> dict[str, float]:
        """Decisions of the methods side by side."""

        def make() -> dict[str, float]:
            from decisions import compare

            return compare(self._solver(budget, "gss"), self.problem(), self.options.passes, seed)

        return self.runs.get(self._name(budget, "decisions", seed), make)


# ---------------------------------------------------------------- the tables


def table_2(experiments: list[Experiment]) -> str:
    """Accuracy of the four methods: ours, then the paper's."""
    lines = [
        "## Table 2: test accuracy in %, mean ± deviation (in brackets the paper's)\n",
        "*last*: the last iterate, not the mean of the last ones; *refitted*: as `BudgetSVC` runs by default.\n",
        f"| data set | budget | {' | '.join(METHODS)} | lookup-wd, last | lookup-wd, refitted | exact SVM |",
        "|---|---|" + "---|" * (len(METHODS) + 3),
    ]
    for experiment in experiments:
        for budget, published in experiment.setting.budgets.items():
            cells = []
            for method, mean, deviation in zip(METHODS, published.accuracy, published.deviation):
                found = [experiment.run(budget, method, True, seed)["accuracy"] for seed in _seeds(experiment)]
                cells.append(f"{np.mean(found):.2f} ± {np.std(found):.2f} ({mean:.2f} ± {deviation:.2f})")
            last = [experiment.run(budget, "lookup-wd", True, seed)["last"] for seed in _seeds(experiment)]
            refitted = [experiment.refitted(budget, seed)["accuracy"] for seed in _seeds(experiment)]
            cells += [f"{np.mean(found):.2f} ± {np.std(found):.2f}" for found in (last, refitted)]
            cells.append(f"{experiment.exact():.2f} ({experiment.setting.exact})")
            lines.append(f"| {_label(experiment)} | {budget} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_3(experiments: list[Experiment]) -> str:
    """Time saved, and how good the decisions are."""
    lines = [
        "## Table 3: training time saved beside gss in %, and the decisions (in brackets the paper's)\n",
        "All partners examined, as in the paper; *few*: those that can be the best, which is how `BudgetSVC` runs.\n",
        "| data set | budget | lookup-h | lookup-wd | lookup-wd, few | few against all, lookup-wd | merging frequency "
        "| equal decisions | factor gss | factor lookup-wd |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for experiment in experiments:
        s = experiment.setting
        for budget, published in s.budgets.items():
            seconds = {key: _seconds(experiment, budget, *key) for key in _TIMED}
            saved = [_saved(seconds["gss", True], seconds[method, True]) for method in ("lookup-h", "lookup-wd")]
            few = _saved(seconds["gss", False], seconds["lookup-wd", False])
            cells = [f"{ours:.1f} ({paper:.1f})" for ours, paper in zip(saved, published.saved)]
            cells += [f"{few:.1f}", f"{_saved(seconds['lookup-wd', True], seconds['lookup-wd', False]):.1f}"]
            if budget == min(s.budgets):
                found = [experiment.decisions(budget, seed) for seed in _seeds(experiment)]
                mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
                cells += [
                    f"{100 * mean['frequency']:.1f} % ({s.frequency} %)",
                    f"{100 * mean['equal']:.2f} % ({s.equal} %)",
                    f"{mean['factor_gss']:.5f} ({s.factor_gss:.5f})",
                    f"{mean['factor_lookup']:.5f} ({s.factor_lookup:.5f})",
                ]
            else:
                cells += [""] * 4
            lines.append(f"| {_label(experiment)} | {budget} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds_table(experiments: list[Experiment]) -> str:
    """Figure 3: where the time goes."""
    lines = [
        "## Figure 3: processor seconds of training / of these, maintenance / of these, finding whom to merge with\n",
        f"| data set | budget | {' | '.join(METHODS)} | lookup-wd, few |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for experiment in experiments:
        for budget in experiment.setting.budgets:
            cells = []
            for method, exhaustive in [*((method, True) for method in METHODS), ("lookup-wd", False)]:
                found = [experiment.run(budget, method, exhaustive, seed) for seed in _seeds(experiment)]
                medians = (np.median([one[name] for one in found]) for name in ("seconds", "maintenance", "finding"))
                cells.append(" / ".join(f"{median:.2f}" for median in medians))
            lines.append(f"| {_label(experiment)} | {budget} | {' | '.join(cells)} |")
    return "\n".join(lines)


_TIMED = [("gss", True), ("lookup-h", True), ("lookup-wd", True), ("gss", False), ("lookup-wd", False)]


def _seconds(experiment: Experiment, budget: int, method: str, exhaustive: bool) -> float:
    return float(np.median([experiment.run(budget, method, exhaustive, s)["seconds"] for s in _seeds(experiment)]))


def _saved(before: float, after: float) -> float:
    return 100.0 * (1.0 - after / before)


def _seeds(experiment: Experiment) -> range:
    return range(experiment.options.seeds)


def _label(experiment: Experiment) -> str:
    return f"{experiment.setting.name} ({experiment.name})"


def main() -> None:
    """Make all runs, methods in turn, then the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--passes", type=int, default=20, help="over the data (default 20, as in the paper)")
    parser.add_argument("--quick", action="store_true", help="few rows and passes: to see that it works")
    options = parser.parse_args()
    options.rows = _QUICK_ROWS if options.quick else None
    if options.quick:
        options.passes, options.seeds = min(options.passes, _QUICK_PASSES), min(options.seeds, _QUICK_SEEDS)
    runs = Runs(datasets.CACHE / "budget_tables.json")
    experiments = []
    for name in options.sets:
        try:
            datasets.find(name)
        except datasets.MissingData as error:
            print(error, file=sys.stderr)
            continue
        experiment = Experiment(name, options, runs)
        experiments.append(experiment)
        for budget in experiment.setting.budgets:
            for seed in range(options.seeds):
                for method, exhaustive in [("gss-precise", True), *_TIMED]:
                    experiment.run(budget, method, exhaustive, seed)
                if budget == min(experiment.setting.budgets):
                    experiment.decisions(budget, seed)
                experiment.refitted(budget, seed)
        experiment.exact()
        experiment._data = None  # the next set may need the room
    for table in (table_2, table_3, seconds_table):
        print(f"\n{table(experiments)}")


if __name__ == "__main__":
    main()
