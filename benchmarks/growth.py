"""``python -m benchmarks growth``: exact kernel machines on more and more rows, beside SVC, CVM and BudgetSVC.

Rows are drawn with as many of either class. Ours stops at a certified relative gap (``--tol``); scikit-learn's SVC and
scikit-learn-intelex's at their default tolerance; "cvm" and BudgetSVC at gaps of problems of their own: that of the
squared hinge, and that of the budget's vectors. A line has seconds of `fit`, the gap that is certified, and accuracy
on rows held out. Ours and "cvm" stop after ``--cap`` seconds with the gap that they have by then. Who has taken that
long, or would if time grew as the square of rows (BudgetSVC's: as rows), gets no more rows.
scikit-learn's SVC has one thread, whatever is asked for.
With ``--json`` every cell is kept, and a run that is begun again goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

_SETTINGS = {"covtype.binary.scale": (1.0, 8.0), "flights3m": (1.0, 0.1)}  # C, gamma
_WHO = ("maxmargin", "sklearn", "sklearnex", "cvm", "budget")
_POWERS = {"sklearn": 2.0, "sklearnex": 2.0, "budget": 1.0}  # with which time may grow with rows; others have a limit
_BUDGET = 500
_PASSES = 2
_HELD_OUT = 10_000
_NAMES = {"maxmargin": "SVC", "sklearn": "scikit-learn's SVC", "sklearnex": "scikit-learn-intelex's SVC"}
_NAMES |= {"cvm": 'SVC(solver="cvm")', "budget": f"BudgetSVC(budget={_BUDGET})"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--sets", nargs="+", choices=_SETTINGS, default=list(_SETTINGS))
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 10_000, 20_000, 50_000, 100_000, 200_000])
    parser.add_argument("--who", nargs="+", choices=_WHO, default=list(_WHO))
    parser.add_argument("--tol", type=float, default=1e-2, help="relative gap that ours certifies (default 1e-2)")
    parser.add_argument("--cap", type=float, default=120.0, help="seconds that a fit may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=float, default=1500.0, help="megabytes for kernel values, for all")
    parser.add_argument("--json", type=Path, help="file for the records; cells that it has are not run again")
    parser.add_argument("--plot", type=Path, help="file for the curves")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, cell by cell."""
    from threadpoolctl import threadpool_limits

    known = json.loads(arguments.json.read_text())["runs"] if arguments.json and arguments.json.exists() else []
    cells = {(r["set"], r["who"], r["rows"]): r for r in known}
    for name in arguments.sets:
        try:
            X, y, X_test, y_test = _load(name, max(arguments.rows))
        except datasets.MissingData as error:
            print(error)
            continue
        for n in dict.fromkeys(min(n, len(y)) for n in sorted(arguments.rows)):
            for who in arguments.who:
                if (name, who, n) not in cells and _may_run(name, who, n, cells, arguments.cap):
                    with threadpool_limits(arguments.threads):
                        _make(who, name, arguments).fit(X[:1000], y[:1000])  # compiled code
                        record = _measure(_make(who, name, arguments), X[:n], y[:n], X_test, y_test)
                    threads = 1 if who == "sklearn" else arguments.threads
                    cells[name, who, n] = {"set": name, "who": who, "rows": n, "threads": threads} | record
                    _keep(arguments.json, list(cells.values()))
                if (name, who, n) in cells:
                    _print(cells[name, who, n])
    if arguments.plot:
        _plot(list(cells.values()), arguments.plot)


def _load(name: str, most: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Rows in random order, half of them of either class, to train on and to test with; dense if they nearly are."""
    data = datasets.get(name)
    rng, most = np.random.default_rng(0), most + _HELD_OUT
    sides = [rng.permutation(np.flatnonzero((data.y > 0) == side)) for side in (False, True)]
    each = min(most // 2, *(len(side) for side in sides))
    order = rng.permutation(np.concatenate([side[:each] for side in sides]))
    X, y = data.X[order], np.where(data.y[order] > 0, 1.0, -1.0)
    if hasattr(X, "toarray") and X.shape[1] <= 100:
        X = X.toarray()
    return X[_HELD_OUT:], y[_HELD_OUT:], X[:_HELD_OUT], y[:_HELD_OUT]


def _may_run(name: str, who: str, n: int, cells: dict[Any, dict[str, Any]], cap: float) -> bool:
    """Whether a competitor is installed and, by its time on fewer rows, quick enough."""
    if who == "sklearnex" and not importlib.util.find_spec("sklearnex"):
        return False
    before = [r for (s, w, m), r in cells.items() if (s, w) == (name, who) and m < n]
    last = max(before, key=lambda r: r["rows"], default=None)
    return last is None or last["seconds"] * (n / last["rows"]) ** _POWERS.get(who, 0.0) <= cap


def _make(who: str, name: str, arguments: argparse.Namespace) -> Any:
    C, gamma = _SETTINGS[name]
    if who == "sklearn":
        from sklearn.svm import SVC as PeerSVC

        return PeerSVC(C=C, gamma=gamma, cache_size=arguments.cache)
    if who == "sklearnex":
        from sklearnex.svm import SVC as FastPeerSVC

        return FastPeerSVC(C=C, gamma=gamma, cache_size=arguments.cache, n_jobs=arguments.threads)
    from maxmargin import SVC, BudgetSVC

    if who == "budget":
        return BudgetSVC(C=C, gamma=gamma, budget=_BUDGET, max_iter=_PASSES, n_jobs=arguments.threads)
    solver = "cvm" if who == "cvm" else "auto"
    limits = {"max_time": arguments.cap, "cache_size": arguments.cache, "n_jobs": arguments.threads}
    return SVC(C=C, gamma=gamma, solver=solver, tol=arguments.tol, **limits)


def _measure(model: Any, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fit that met its limit: its gap is in the record
        began, processor = time.perf_counter(), time.process_time()
        model.fit(X, y)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
    accuracy = 100.0 * float(np.mean(model.predict(X_test) == y_test))
    vectors = getattr(model, "support_vectors_", None)
    certificate = getattr(model, "certificate_", None)
    return {
        "seconds": seconds,
        "processor": processor,
        "relative_gap": None if certificate is None else float(certificate.relative_gap),
        "n_support": None if vectors is None else int(vectors.shape[0]),
        "accuracy": accuracy,
    }


def _keep(path: Path | None, runs: list[dict[str, Any]]) -> None:
    if path:
        report = {"date": time.strftime("%Y-%m-%d"), "machine": machine.describe(), "runs": runs}
        path.write_text(json.dumps(report, indent=1))


def _print(record: dict[str, Any]) -> None:
    gap = "-" if record["relative_gap"] is None else f"{record['relative_gap']:.1e}"
    print(
        f"{record['set']:20} {record['rows']:7} rows  {record['who']:10} {record['threads']} threads  "
        f"wall {record['seconds']:8.2f} s  processor {record['processor']:8.2f} s  gap {gap:8} "
        f"SV {record['n_support'] or '-':>6}  accuracy {record['accuracy']:.2f}",
        flush=True,
    )


def _plot(runs: list[dict[str, Any]], path: Path) -> None:
    """Seconds against rows, a picture a set."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(r["set"] for r in runs))
    figure = Figure(figsize=(5.5 * len(sets), 4.0), layout="constrained")
    for place, name in enumerate(sets):
        axes = figure.add_subplot(1, len(sets), place + 1)
        for who in _WHO:
            points = sorted((r["rows"], r["seconds"]) for r in runs if (r["set"], r["who"]) == (name, who))
            if points:
                axes.loglog(*zip(*points), marker="o", label=_NAMES[who])
        axes.set(title=name, xlabel="rows", ylabel="seconds of fit")
        axes.legend(fontsize=8)
    figure.savefig(path)
