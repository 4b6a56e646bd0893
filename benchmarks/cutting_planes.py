"""``python -m benchmarks cutting_planes``: OCAS beside CPA, what an iteration costs, and how time grows with rows.

The problem is the OCAS paper's: hinge, no intercept, and the stop (F - F_t) / C <= 1e-3 in its scaling, where the loss
is a mean. In ours the gap is then at most 1e-3 C m. Seconds are of the processor, for one thread, and of the wall clock
for two.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from . import datasets

_SETS = ("covtype.binary.scale", "mnist#8", "20news.binary", "dense", "text")
_EPSILON = 1e-3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--datasets", nargs="+", default=list(_SETS))
    parser.add_argument("--c", type=float, default=1.0, help="weight of the loss (default 1)")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--most-rows", type=float, default=3e6, help="of the growth with rows (default 3e6)")
    parser.add_argument("--cap", type=float, default=120.0, help="seconds for one fit (default 120)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print, part by part."""
    for part in arguments.parts:
        _PARTS[part](arguments)


def _sets(arguments: argparse.Namespace) -> Any:
    for name in arguments.datasets:
        try:
            data = datasets.get(name)
        except datasets.MissingData as error:
            print(error)
            continue
        if name.startswith("mnist"):  # its pixels are 0 to 255
            data = replace(data, X=data.X / 255.0)
        yield data


def _fit(
    X: Any, y: np.ndarray, solver: str, arguments: argparse.Namespace, n_jobs: int = 1
) -> tuple[Any, float, float]:
    """To the paper's stop: result, processor and wall seconds."""
    from maxmargin import Problem, solve

    solve(Problem(*datasets.few_rows(X, y), loss="hinge"), solver, tol=0.5, max_iter=4)  # compile
    problem = Problem(X, y, arguments.c, "hinge", n_jobs=n_jobs)
    enough = _EPSILON * arguments.c * problem.n_rows

    def is_there(progress: Any) -> bool:
        return progress.report.primal - progress.report.dual <= enough

    wall, cpu = time.perf_counter(), time.process_time()
    result = solve(problem, solver, tol=0.0, callbacks=[is_there], max_time=arguments.cap)
    return result, time.process_time() - cpu, time.perf_counter() - wall


def _against_cpa(arguments: argparse.Namespace) -> None:
    """Table 2 of the paper: iterations and seconds."""
    print(f"\n## To (F - F_t) / C <= {_EPSILON:g}, C = {arguments.c:g}\n")
    print("| data | OCAS iterations | CPA iterations | OCAS seconds | CPA seconds |\n|---|---|---|---|---|")
    for data in _sets(arguments):
        cells = []
        for solver in ("ocas", "cutting_plane"):
            result, seconds, _ = _fit(data.X, data.y, solver, arguments)
            late = "> " if result.stop_reason == "max_time" else ""
            cells.append((f"{late}{result.history['iterations'][-1]:.0f}", f"{late}{seconds:.2f}"))
        (ocas, ocas_seconds), (cpa, cpa_seconds) = cells
        print(f"| {data.name} | {ocas} | {cpa} | {ocas_seconds} | {cpa_seconds} |", flush=True)


def _iterations(arguments: argparse.Namespace) -> None:
    """Section 3.1 of the paper: where an iteration's time goes, beside the two products that it cannot do without."""
    print("\n## Milliseconds of an OCAS iteration\n")
    print("| data | threads | output | line search | plane | reduced problem | sum | X @ w + X.T @ p | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for data in _sets(arguments):
        products = _products(data.X)
        for n_jobs in (1, 2):
            result, _, _ = _fit(data.X, data.y, "ocas", arguments, n_jobs)
            count = result.history["iterations"][-1]
            names = "output", "line_search", "plane", "reduced"
            parts = [1e3 * result.history[f"seconds_{name}"][-1] / count for name in names]
            shown = " | ".join(f"{part:.1f}" for part in [*parts, sum(parts), products])
            print(f"| {data.name} | {n_jobs} | {shown} | {sum(parts) / (products / n_jobs):.2f} |", flush=True)


def _products(X: Any) -> float:
    """Milliseconds of X @ w and X.T @ p by scipy or numpy, on one thread; medians of 5."""
    from threadpoolctl import threadpool_limits

    w, p = np.ones(X.shape[1]), np.ones(X.shape[0])
    times = []
    with threadpool_limits(1):
        for _ in range(5):
            start = time.perf_counter()
            X @ w, X.T @ p
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))


def _growth(arguments: argparse.Namespace) -> None:
    """Figure 3 of the paper: seconds over rows, on two scales of the logarithm."""
    print("\n## Growth with the number of rows\n")
    print("| data | rows | iterations | seconds |\n|---|---|---|---|")
    for name in ("flights3m", "generated dense"):
        sizes = [int(n) for n in 10.0 ** np.arange(3.0, 6.6, 0.5) if n <= arguments.most_rows]
        sizes = sorted({*sizes, int(arguments.most_rows)})
        try:
            X, y = _rows_to_cut(name, sizes[-1])
        except datasets.MissingData as error:
            print(error)
            continue
        found = []
        for n in sizes:
            result, seconds, _ = _fit(X[:n], y[:n], "ocas", arguments)
            found.append((n, seconds))
            print(f"| {name} | {n:,} | {result.history['iterations'][-1]:.0f} | {seconds:.3f} |", flush=True)
        slope = np.polyfit(*np.log(np.array(found)).T, 1)[0]
        print(f"\nslope of log seconds over log rows, {name}: {slope:.2f}\n", flush=True)


def _rows_to_cut(name: str, most: int) -> tuple[Any, np.ndarray]:
    if name == "flights3m":
        data = datasets.get(name)
        order = np.random.default_rng(0).permutation(len(data.y))[:most]  # the file is in the order of time
        return data.X[order], data.y[order]
    from maxmargin.data.generators import make_dense

    X, y = make_dense(n_rows=most, n_features=30)
    return X, y


_PARTS = {"cpa": _against_cpa, "iterations": _iterations, "growth": _growth}
