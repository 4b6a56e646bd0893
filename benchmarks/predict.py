"""``python -m benchmarks predict``: predictions and features of kernel machines, beside scikit-learn's.

Ours and scikit-learn's SVC are fitted to the same rows; then seconds to predict 100,000 rows, and the median time of a
single one, in microseconds. Of the features of Nystroem and Fourier, seconds to make those of all rows, beside
scikit-learn's transformers (`Nystroem`, `RBFSampler`) with as many components. Runs take turns; a line has the fastest.
scikit-learn's SVC predicts on one thread; its transformers have as many of BLAS as ours has.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

_SETTINGS = {"ijcnn1": (32.0, 2.0), "w8a": (8.0, 0.05), "a9a": (1.0, 0.05), "mnist#8": (10.0, 0.02)}  # C, gamma
_BATCH = 100_000
_SINGLE = 1000  # rows predicted one by one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--sets", nargs="+", choices=_SETTINGS, default=["ijcnn1", "w8a", "a9a"])
    parser.add_argument("--rows", type=int, default=10_000, help="to train on, of which the support vectors are")
    parser.add_argument("--components", type=int, default=500, help="of Nystroem and Fourier features")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file for the records")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, set by set."""
    from threadpoolctl import threadpool_limits

    records: list[dict[str, Any]] = []
    for name in arguments.sets:
        try:
            data = datasets.get(name)
        except datasets.MissingData as error:
            print(error)
            continue
        X = data.X.toarray() if name == "ijcnn1" else data.X
        X, y = (X / X.max(), data.y) if name.startswith("mnist") else (X, data.y)
        with threadpool_limits(arguments.threads):
            for record in (*_predictions(name, X, y, arguments), *_features(name, X, arguments)):
                records.append(record)
                print(
                    f"{name:8} {record['what']:18} ours {record['ours']:10.4g} {record['unit']:2}  "
                    f"scikit-learn {record['peer']:10.4g} {record['unit']:2}  "
                    f"({record['peer'] / record['ours']:.1f}x)  {record['size']}",
                    flush=True,
                )
    if arguments.json:
        report = {"date": time.strftime("%Y-%m-%d"), "machine": machine.describe(), "runs": records}
        arguments.json.write_text(json.dumps(report, indent=1))


def _fastest(ours: Callable[[], Any], peer: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Seconds of both, which take turns, after a call that compiles."""
    ours()
    found: dict[str, float] = {"ours": np.inf, "peer": np.inf}
    for _ in range(repeat):
        for who, call in (("ours", ours), ("peer", peer)):
            began = time.perf_counter()
            call()
            found[who] = min(found[who], time.perf_counter() - began)
    return found


def _median(predict: Callable[[Any], Any], X: Any) -> float:
    """Microseconds of one row."""
    seconds = []
    for i in range(min(_SINGLE, X.shape[0])):
        row = X[i : i + 1]
        began = time.perf_counter()
        predict(row)
        seconds.append(time.perf_counter() - began)
    return 1e6 * float(np.median(seconds))


def _predictions(name: str, X: Any, y: np.ndarray, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from sklearn.svm import SVC as PeerSVC

    from maxmargin import SVC

    C, gamma = _SETTINGS[name]
    order = np.random.default_rng(0).permutation(len(y))
    chosen = order[: arguments.rows]
    ours = SVC(C=C, gamma=gamma, n_jobs=arguments.threads).fit(X[chosen], y[chosen])
    peer = PeerSVC(C=C, gamma=gamma, cache_size=500).fit(X[chosen], y[chosen])
    batch = X[np.resize(order, _BATCH)]
    common = {"set": name, "threads": arguments.threads, "size": f"SV {len(ours.support_)} and {len(peer.support_)}"}
    many = _fastest(lambda: ours.predict(batch), lambda: peer.predict(batch), arguments.repeat)
    single = {"ours": _median(ours.predict, batch), "peer": _median(peer.predict, batch)}
    return [
        common | {"what": "100,000 rows", "unit": "s"} | many,
        common | {"what": "one row, p50", "unit": "us"} | single,
    ]


def _features(name: str, X: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers.kernel.features import fourier_features, nystroem_features

    gamma, m, rng = _SETTINGS[name][1], arguments.components, np.random.default_rng(0)
    problem = KernelProblem(X, np.ones(X.shape[0]), gamma=gamma, n_jobs=arguments.threads)
    landmarks = np.sort(rng.choice(problem.n_rows, m, replace=False))
    frequencies = np.sqrt(2.0 * gamma) * rng.normal(size=(problem.n_features, m))
    phases = rng.uniform(0.0, 2.0 * np.pi, m)
    nystroem = _fastest(
        lambda: nystroem_features(problem, landmarks),
        lambda: Nystroem(gamma=gamma, n_components=m, random_state=0).fit_transform(X),
        arguments.repeat,
    )
    fourier = _fastest(
        lambda: fourier_features(problem.rows, frequencies, phases, arguments.threads),
        lambda: RBFSampler(gamma=gamma, n_components=m, random_state=0).fit_transform(X),
        arguments.repeat,
    )
    common = {"set": name, "threads": arguments.threads, "size": f"{X.shape[0]} rows, {m} components", "unit": "s"}
    return [common | {"what": "Nystroem features"} | nystroem, common | {"what": "Fourier features"} | fourier]
