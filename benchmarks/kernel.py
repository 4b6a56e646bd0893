"""``python -m benchmarks kernel``: BudgetSVC beside SVC, Nystroem + LinearSVC and random features + SGD, at equal size.

Each line is one model: processor seconds of `fit`, seconds to predict 100,000 rows, the time of a single row (median
and 99th percentile, in microseconds) and accuracy. All run on one thread. The second part draws budget against
accuracy, training time and latency.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets

# C and gamma: ijcnn1 as in Glasmachers and Qaadan (2018); covtype the best of C = 1, 10, 100 and gamma = 2, 8, 32 for a
# budget of 500 and 60,000 rows.
_PARAMETERS = {"ijcnn1": (32.0, 2.0), "covtype.binary.scale": (1.0, 8.0)}
_LADDER = (25, 50, 100, 200, 400, 800, 1600)  # sizes of the others, for equal time
_BATCH = 100_000
_SINGLE = 2000  # rows predicted one by one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--dataset", default="ijcnn1", help="of the comparison (default ijcnn1)")
    parser.add_argument("--budgets", nargs="+", type=int, default=[200, 500], help="of the comparison")
    parser.add_argument("--passes", type=float, default=2, help="of BudgetSVC over the data (default 2)")
    parser.add_argument("--most-rows", type=int, help="to train on (default all)")
    parser.add_argument("--svc-rows", type=int, help="to train SVC on, if fewer: it takes more than linear time")
    parser.add_argument("--curve-dataset", default="covtype.binary.scale")
    parser.add_argument("--curve-budgets", nargs="+", type=int, default=[50, 100, 200, 500, 1000, 2000])
    parser.add_argument("--plot", type=Path, help="file for the curve")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, part by part."""
    for part in arguments.parts:
        try:
            _PARTS[part](arguments)
        except datasets.MissingData as error:
            print(error)


def _load(name: str, most_rows: int | None) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Dense rows to train on and to test with: of the test file if there is one, else a fifth, drawn."""
    data = datasets.get(name)
    X, y = _dense(data.X), data.y
    order = np.random.default_rng(0).permutation(len(y))
    try:
        test = datasets.get(f"{name}.t")
        X_test, y_test = _dense(test.X), test.y
    except datasets.MissingData:
        held_out, order = order[: len(y) // 5], order[len(y) // 5 :]
        X_test, y_test = X[held_out], y[held_out]
    order = order[:most_rows]
    return X[order], y[order], X_test, y_test


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if hasattr(X, "toarray") else X


# ---------------------------------------------------------------- the models


def _budget_svc(C: float, gamma: float, size: int, passes: float, refit: bool = True) -> Any:
    from maxmargin import BudgetSVC

    return BudgetSVC(C=C, gamma=gamma, budget=size, max_iter=passes, refit=refit)


def _nystroem(C: float, gamma: float, size: int) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    features = Nystroem(gamma=gamma, n_components=size, random_state=0)
    return make_pipeline(features, LinearSVC(C=C, loss="hinge", random_state=0))


def _random_features(C: float, gamma: float, size: int, n_rows: int) -> Any:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    features = RBFSampler(gamma=gamma, n_components=size, random_state=0)
    return make_pipeline(features, SGDClassifier(alpha=1.0 / (C * n_rows), random_state=0))


def _svc(C: float, gamma: float) -> Any:
    from sklearn.svm import SVC

    return SVC(C=C, gamma=gamma, cache_size=1000)


# ---------------------------------------------------------------- measuring


def _measure(model: Any, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, float]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of LinearSVC that it has not converged: its accuracy shows what it is worth
        started = time.process_time()
        model.fit(X, y)
        fit = time.process_time() - started
        batch = np.resize(X_test, (_BATCH, X_test.shape[1])) if len(X_test) < _BATCH else X_test[:_BATCH]
        model.predict(batch[:64])
        started = time.process_time()
        model.predict(batch)
        predict = time.process_time() - started
        singles = []
        for i in range(min(_SINGLE, len(X_test))):
            started = time.perf_counter()
            model.predict(X_test[i : i + 1])
            singles.append(1e6 * (time.perf_counter() - started))
        accuracy = 100.0 * float(np.mean(model.predict(X_test) == y_test))
    p50, p99 = np.percentile(singles, [50, 99])
    return {"fit": fit, "predict": predict, "p50": float(p50), "p99": float(p99), "accuracy": accuracy}


_COLUMNS = "| model | size | rows | fit s | predict 1e5 rows s | one row p50 us | p99 us | accuracy % |"


def _line(name: str, size: Any, n_rows: int, found: dict[str, float]) -> str:
    numbers = f"{found['fit']:.3g} | {found['predict']:.3g} | {found['p50']:.0f} | {found['p99']:.0f}"
    return f"| {name} | {size} | {n_rows:,} | {numbers} | {found['accuracy']:.2f} |"


def _compile(X: Any, y: np.ndarray, C: float, gamma: float) -> None:
    few = datasets.few_rows(X, y, 200)
    _budget_svc(C, gamma, 8, 1).fit(*few).predict(few[0])


# ---------------------------------------------------------------- the parts


def _comparison(arguments: argparse.Namespace) -> None:
    """All models at equal size, and the exact one."""
    C, gamma = _PARAMETERS.get(arguments.dataset, (1.0, 1.0))
    X, y, X_test, y_test = _load(arguments.dataset, arguments.most_rows)
    _compile(X, y, C, gamma)
    print(f"\n## {arguments.dataset}, C = {C:g}, gamma = {gamma:g}\n\n{_COLUMNS}\n|---|---|---|---|---|---|---|---|")
    rates = []
    for size in arguments.budgets:
        models = {
            "BudgetSVC": _budget_svc(C, gamma, size, arguments.passes),
            "BudgetSVC, not refitted": _budget_svc(C, gamma, size, arguments.passes, refit=False),
            "Nystroem + LinearSVC": _nystroem(C, gamma, size),
            "RBFSampler + SGDClassifier": _random_features(C, gamma, size, len(y)),
        }
        for name, model in models.items():
            found = _measure(model, X, y, X_test, y_test)
            print(_line(name, size, len(y), found), flush=True)
            if name == "BudgetSVC, not refitted":
                rates.append(_rates(model, size, found["fit"]))
    n_exact = min(len(y), arguments.svc_rows or len(y))
    exact = _svc(C, gamma)
    found = _measure(exact, X[:n_exact], y[:n_exact], X_test, y_test)
    print(_line("SVC", int(exact.n_support_.sum()), n_exact, found), flush=True)
    print("\n| budget | passes/s | rows/s | kernel values/s | maintenance, share of training |\n|---|---|---|---|---|")
    print("\n".join(rates))


def _equal_time(arguments: argparse.Namespace) -> None:
    """What the others reach in the time that BudgetSVC takes, whatever size that allows them."""
    C, gamma = _PARAMETERS.get(arguments.dataset, (1.0, 1.0))
    X, y, X_test, y_test = _load(arguments.dataset, arguments.most_rows)
    _compile(X, y, C, gamma)
    print(f"\n## Equal time on {arguments.dataset}\n\n{_COLUMNS}\n|---|---|---|---|---|---|---|---|")
    peers = {"Nystroem + LinearSVC": _nystroem, "RBFSampler + SGDClassifier": _random_features}
    for budget in arguments.budgets:
        limit = _measure(_budget_svc(C, gamma, budget, arguments.passes), X, y, X_test, y_test)
        print(_line("BudgetSVC", budget, len(y), limit), flush=True)
        for name, make in peers.items():
            within = []
            for size in _LADDER:
                rows = (len(y),) if make is _random_features else ()
                found = _measure(make(C, gamma, size, *rows), X, y, X_test, y_test)
                if found["fit"] > limit["fit"]:
                    break
                within.append((size, found))
            for size, found in within[-1:]:
                print(_line(name, size, len(y), found), flush=True)
            if not within:
                print(f"| {name} | {_LADDER[0]} | | takes longer, {found['fit']:.3g} | | | | {found['accuracy']:.2f} |")


def _rates(model: Any, size: int, seconds: float) -> str:
    """How fast the passes are. Kernel values: of every row with every support vector that there was room for."""
    history = {name: column[-1] for name, column in model.history_.items()}
    share = history["maintenance_seconds"] / history["training_seconds"]
    values = history["kernel_rows"] * size
    rates = f"{history['passes'] / seconds:.2f} | {history['steps'] / seconds:,.0f} | {values / seconds:.3g}"
    return f"| {size} | {rates} | {100 * share:.0f} % |"


def _curve(arguments: argparse.Namespace) -> None:
    """Budget against accuracy, time and latency."""
    name = arguments.curve_dataset
    C, gamma = _PARAMETERS.get(name, (1.0, 1.0))
    X, y, X_test, y_test = _load(name, arguments.most_rows)
    _compile(X, y, C, gamma)
    print(f"\n## Budgets on {name}, C = {C:g}, gamma = {gamma:g}\n\n{_COLUMNS}\n|---|---|---|---|---|---|---|---|")
    points = []
    for size in arguments.curve_budgets:
        found = _measure(_budget_svc(C, gamma, size, arguments.passes), X, y, X_test, y_test)
        points.append((size, found))
        print(_line("BudgetSVC", size, len(y), found), flush=True)
    if arguments.plot:
        _plot(points, name, arguments.plot)


def _plot(points: list[tuple[int, dict[str, float]]], name: str, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    sizes = [size for size, _ in points]
    panels = {"accuracy": "test accuracy, %", "fit": "seconds of fit", "p50": "one row, median, microseconds"}
    for place, (key, label) in enumerate(panels.items()):
        axes = figure.add_subplot(1, 3, place + 1)
        axes.plot(sizes, [found[key] for _, found in points], marker="o")
        axes.set(xscale="log", xlabel="budget", ylabel=label, title=name)
        axes.grid(alpha=0.3)
        if key == "fit":
            axes.set_yscale("log")
    figure.savefig(path, dpi=120)


_PARTS = {"comparison": _comparison, "equal_time": _equal_time, "curve": _curve}
