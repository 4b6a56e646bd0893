"""``python -m benchmarks multiclass``: one against one of many classes, beside SVC and scikit-learn-intelex's.

Seconds and processor seconds of `fit`, and accuracy on rows held out, for growing numbers of rows. Ours stops at a
certified relative gap of 1e-3 in every pair; the peers at their default tolerance, whose gap is not known. A peer that
took longer than ``--cap`` seconds is not given more rows. With ``--json`` every cell is kept, and a run that is begun
again goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

_SETTINGS = {"mnist": (10.0, 0.02), "letter": (16.0, 8.0)}  # C, gamma
_PEERS = ("sklearn", "sklearnex")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--sets", nargs="+", choices=_SETTINGS, default=list(_SETTINGS))
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 10_000, 20_000, 60_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cap", type=float, default=60.0, help="seconds after which a peer gets no more rows")
    parser.add_argument("--peers", nargs="*", choices=_PEERS, default=list(_PEERS))
    parser.add_argument("--json", type=Path, help="file for the records; cells that it has are not run again")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, cell by cell."""
    from threadpoolctl import threadpool_limits

    known = json.loads(arguments.json.read_text())["runs"] if arguments.json and arguments.json.exists() else []
    cells = {(r["set"], r["rows"], r["who"], r["threads"]): r for r in known}
    for name in arguments.sets:
        try:
            X, y, X_test, y_test = _load(name)
        except datasets.MissingData as error:
            print(error)
            continue
        _make("maxmargin", name, 1).fit(X[:2000], y[:2000])  # compiled code
        for n in dict.fromkeys(min(n, len(y)) for n in arguments.rows):
            for threads in arguments.threads:
                for who in ("maxmargin", *arguments.peers):
                    key = (name, n, who, threads)
                    if key not in cells and _may_run(key, cells, arguments.cap):
                        with threadpool_limits(threads):
                            cells[key] = _measure(key, X[:n], y[:n], X_test, y_test)
                        _keep(arguments.json, list(cells.values()))
                    if key in cells:
                        _print(cells[key], cells[name, n, "maxmargin", threads])


def make_letters(n: int = 25_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """26 classes of three clusters each: 16 features with whole values from 0 to 15, as those of UCI's letters have."""
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(size=(26, 3, 16)), rng.integers(0, 26, n)
    X = centres[y, rng.integers(0, 3, n)] + 0.55 * rng.normal(size=(n, 16))
    return np.clip(np.round(7.5 + 2.6 * X), 0.0, 15.0) / 15.0, y.astype(float)


def _load(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Rows to train on, in random order, and rows to test with."""
    if name == "letter":
        X, y = make_letters()
        return X[:20_000], y[:20_000], X[20_000:], y[20_000:]
    train, test = datasets.get("mnist#all"), datasets.get("mnist.t#all")
    order, width = np.random.default_rng(0).permutation(len(train.y)), train.X.shape[1]
    X, X_test = (np.ascontiguousarray(_dense(d.X)[:, :width], np.float32) / 255.0 for d in (train, test))
    X_test = np.pad(X_test, ((0, 0), (0, width - X_test.shape[1])))
    return X[order], train.y[order], X_test, test.y


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if hasattr(X, "toarray") else X


def _may_run(key: tuple[str, int, str, int], cells: dict[Any, dict[str, Any]], cap: float) -> bool:
    """Whether a peer is installed and was quick enough so far; scikit-learn's SVC has one thread."""
    name, n, who, threads = key
    if who == "maxmargin":
        return True
    if (who == "sklearn" and threads > 1) or (who == "sklearnex" and not importlib.util.find_spec("sklearnex")):
        return False
    before = [r["seconds"] for (s, m, w, t), r in cells.items() if (s, w, t) == (name, who, threads) and m < n]
    return max(before, default=0.0) <= cap


def _make(who: str, name: str, threads: int) -> Any:
    C, gamma = _SETTINGS[name]
    if who == "maxmargin":
        from maxmargin import SVC

        return SVC(C=C, gamma=gamma, n_jobs=threads)
    if who == "sklearn":
        from sklearn.svm import SVC
    else:
        from sklearnex.svm import SVC
    return SVC(C=C, gamma=gamma, cache_size=500, **({"n_jobs": threads} if who == "sklearnex" else {}))


def _measure(key: tuple[str, int, str, int], X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, Any]:
    name, n, who, threads = key
    model = _make(who, name, threads)
    began, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    record = {"set": name, "rows": n, "who": who, "threads": threads, "seconds": seconds, "processor": processor}
    accuracy = 100.0 * float(np.mean(model.predict(X_test[:5000]) == y_test[:5000]))
    return record | {"n_support": int(np.sum(model.n_support_)), "accuracy": accuracy}


def _keep(path: Path | None, runs: list[dict[str, Any]]) -> None:
    if path:
        report = {"date": time.strftime("%Y-%m-%d"), "machine": machine.describe(), "runs": runs}
        path.write_text(json.dumps(report, indent=1))


def _print(record: dict[str, Any], ours: dict[str, Any]) -> None:
    ratios = [f"{record[k]:7.2f} s ({record[k] / ours[k]:4.1f}x)" for k in ("seconds", "processor")]
    print(
        f"{record['set']:7} {record['rows']:6} rows  {record['who']:10} {record['threads']} threads  "
        f"wall {ratios[0]}  processor {ratios[1]}  SV {record['n_support']:6}  accuracy {record['accuracy']:.2f}",
        flush=True,
    )
