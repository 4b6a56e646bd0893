"""``python -m benchmarks exact``: exact kernel machines beside scikit-learn's SVC and scikit-learn-intelex's.

A run counts if its relative duality gap, computed in float64 for all rows by `KernelProblem.certificate` whoever made
the coefficients, is at most the target. Of a peer, the loosest tolerance of a ladder that gets there is taken. Runs of
all competitors take turns; a line has processor seconds (of all threads), seconds, and the gap that was reached.
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

_SETTINGS = {  # C, gamma
    "ijcnn1": (32.0, 2.0),
    "w8a": (8.0, 0.05),
    "a9a": (1.0, 0.05),
    "mnist10k": (10.0, 0.02),
    "clusters": (10.0, 0.2),
}
_LADDER = (1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # tolerances of the peers
Fit = Callable[[], tuple[np.ndarray, float | None]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--sets", nargs="+", choices=_SETTINGS, default=list(_SETTINGS))
    parser.add_argument("--gap", type=float, default=1e-3, help="relative duality gap to reach (default 1e-3)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", type=float, default=1500.0, help="megabytes for kernel values, for all")
    parser.add_argument("--rows", type=int, default=50_000, help="of clusters")
    parser.add_argument("--peers", nargs="*", default=["sklearn", "sklearnex"])
    parser.add_argument("--json", type=Path, help="file for the records")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, set by set."""
    from threadpoolctl import threadpool_limits

    records = []
    with threadpool_limits(arguments.threads):
        for name in arguments.sets:
            try:
                records += _measure(name, arguments)
            except datasets.MissingData as error:
                print(error)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine.describe(), "runs": records}, indent=1))


def make_clusters(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three hundred clusters in 22 dimensions, each of one class, with 3 % of the labels flipped."""
    rng = np.random.default_rng(seed)
    centres, labels = rng.normal(size=(300, 22)), rng.choice([-1.0, 1.0], 300)
    which = rng.integers(0, 300, n)
    X = 0.5 * (centres[which] + 0.6 * rng.normal(size=(n, 22)))
    return X, labels[which] * np.where(rng.random(n) < 0.03, -1.0, 1.0)


def _load(name: str, rows: int) -> tuple[Any, np.ndarray]:
    if name == "clusters":
        return make_clusters(rows)
    if name == "mnist10k":
        data = datasets.get("mnist#all")
        chosen = np.sort(np.random.default_rng(0).permutation(data.X.shape[0])[:10_000])
        X = data.X[chosen]
        return X / X.max(), np.where(data.y[chosen] < 5, -1.0, 1.0)
    data = datasets.get(name)
    X = data.X.toarray() if name == "ijcnn1" and hasattr(data.X, "toarray") else data.X
    return X, np.where(data.y > 0, 1.0, -1.0)


def _measure(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from maxmargin.problem.kernel_problem import KernelProblem

    X, y = _load(name, arguments.rows)
    C, gamma = _SETTINGS[name]
    judge = KernelProblem(X, y, C, gamma=gamma, n_jobs=arguments.threads)
    _ours(X[:9000], y[:9000], C, gamma, arguments, 1e-3)()  # compiled code
    fits: dict[str, Fit] = {"maxmargin": _ours(X, y, C, gamma, arguments, arguments.gap)}
    for peer in arguments.peers:
        fit = _tuned(peer, X, y, C, gamma, arguments, judge)
        if fit is not None:
            fits[peer] = fit
    records = []
    for _ in range(arguments.repeat):
        for who, fit in fits.items():
            began, processor = time.perf_counter(), time.process_time()
            beta, b = fit()
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
            gap = judge.certificate(beta, b).relative_gap
            records.append({"set": name, "who": who, "threads": arguments.threads, "processor": processor})
            records[-1] |= {"seconds": seconds, "relative_gap": gap, "n_support": int(np.count_nonzero(beta))}
    _print(name, fits, records)
    return records


def _print(name: str, fits: dict[str, Fit], records: list[dict[str, Any]]) -> None:
    best = {who: min((r for r in records if r["who"] == who), key=lambda r: r["processor"]) for who in fits}
    own = best["maxmargin"]["processor"]
    for who, record in best.items():
        print(
            f"{name:10} {who:10} processor {record['processor']:7.2f} s ({record['processor'] / own:5.1f}x)  "
            f"wall {record['seconds']:7.2f} s  gap {record['relative_gap']:.1e}  SV {record['n_support']}",
            flush=True,
        )


def _ours(X: Any, y: np.ndarray, C: float, gamma: float, arguments: argparse.Namespace, gap: float) -> Fit:
    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers import kernel

    def fit() -> tuple[np.ndarray, float | None]:
        problem = KernelProblem(X, y, C, gamma=gamma, cache_size=arguments.cache, n_jobs=arguments.threads)
        result = kernel.solve(problem, "auto", tol=gap)
        return result.state.beta, result.state.intercept

    return fit


def _tuned(
    peer: str, X: Any, y: np.ndarray, C: float, gamma: float, arguments: argparse.Namespace, judge: Any
) -> Fit | None:
    """The peer at the loosest tolerance that reaches the gap; None if it is not installed or does not."""
    for tol in _LADDER:
        fit = _peer(peer, X, y, C, gamma, arguments.cache, tol)
        if fit is None:
            return None
        gap = judge.certificate(*fit()).relative_gap
        if gap <= arguments.gap:
            print(f"{peer}: tol {tol:g} reaches {gap:.1e}")
            return fit
    print(f"{peer} does not reach {arguments.gap:g}")
    return None


def _peer(peer: str, X: Any, y: np.ndarray, C: float, gamma: float, cache: float, tol: float) -> Fit | None:
    if peer == "sklearn":
        from sklearn.svm import SVC
    else:
        try:
            from sklearnex.svm import SVC
        except ImportError:
            print("scikit-learn-intelex is not installed")
            return None
        X = X.astype(np.float32)

    def fit() -> tuple[np.ndarray, float | None]:
        model = SVC(C=C, gamma=gamma, tol=tol, cache_size=cache).fit(X, y)
        coefficients = model.dual_coef_
        beta = np.zeros(len(y))
        beta[model.support_] = (coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients)[0]
        # What float32 puts outside the box, or out of balance, is drawn back: the judge takes feasible points only.
        beta = np.clip(beta, np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0))
        above, below = beta[beta > 0].sum(), -beta[beta < 0].sum()
        beta[beta > 0] *= min(1.0, below / above)
        beta[beta < 0] *= min(1.0, above / below)
        return beta, None  # the judge finds the best intercept

    return fit
