"""Fits on a Dask cluster of this machine beside the same fits in memory, and dask-ml's LogisticRegression."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import Problem, open_store, pack, solve
from maxmargin.dask.partitions import make_source
from maxmargin.data.generators import make_dense

from .model import cluster_of, rounds_of_fits

METHODS = (("tron", "squared_hinge"), ("augmented_lagrangian", "hinge"), ("ocas", "hinge"))
_LADDER = (1e-2, 1e-3, 1e-4, 1e-5)  # dask-ml's tolerances


def measure_cluster(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Seconds of fits to 1e-3: in memory with one thread, and with one and two workers of one thread each."""
    X, y = make_dense(sizes.cluster, dtype=np.float32)
    path = pack(X, folder / "dense", y=y).path
    runs: dict[str, dict[str, Any]] = {}
    for solver, loss in METHODS:
        problem = Problem(X, y, 1.0, loss, bias=1.0, n_jobs=1)
        runs[solver] = {"loss": loss} | _best(problem, solver, "memory", sizes.repeat)
    for n_workers in (1, 2):
        with cluster_of(n_workers) as client:
            source, _, _ = make_source(client, open_store(path), None, None, 1.0)
            for solver, loss in METHODS:
                runs[solver] |= _best(Problem(source, y, 1.0, loss), solver, f"workers_{n_workers}", sizes.repeat)
    return [{"solver": solver, "rows": len(y), **run} for solver, run in runs.items()]


def _best(problem: Problem, solver: str, where: str, repeat: int) -> dict[str, Any]:
    """The least of some times, after some passes that compile and send labels."""
    solve(problem, solver, tol=1e-3, max_iter=3)
    found, n_rounds, bits = [], 0, ""
    for _ in range(repeat):
        with rounds_of_fits(1.0) as rounds:
            began = time.perf_counter()
            result = solve(problem, solver, tol=1e-3)
            found.append(time.perf_counter() - began)
        n_rounds, bits = len(rounds), result.w.tobytes().hex()[:32]
    return {where: min(found), "rounds": n_rounds, f"{where}_bits": bits}


def measure_peers(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Seconds and suboptimality on two workers, of the same problem: 1/2 |w|^2 + sum of log losses, bias among w."""
    import dask.array as da
    from dask_ml.linear_model import LogisticRegression

    X, y = make_dense(sizes.cluster // 4, dtype=np.float32)
    path = pack(X, folder / "dense", y=y).path
    there = Problem(X, y, 1.0, "logistic", bias=1.0, n_jobs=-1)
    best = solve(there, "tron", tol=1e-9).certificate.dual
    runs = []
    with cluster_of(2) as client:
        source, _, _ = make_source(client, open_store(path), None, None, 1.0)
        problem = Problem(source, y, 1.0, "logistic")
        solve(problem, "tron", tol=1e-3, max_iter=3)  # compiled
        began = time.perf_counter()
        w = solve(problem, "tron", tol=1e-3).w
        runs.append(_run("maxmargin, tron", 1e-3, time.perf_counter() - began, there.primal(w), best))
        chunk = len(y) // 16 + 1
        rows = da.from_array(X.astype(np.float64), chunks=(chunk, -1)).persist()
        labels = da.from_array((y > 0) * 1, chunks=chunk).persist()
        for solver in ("lbfgs", "newton", "admm"):
            for tol in _LADDER:
                model = LogisticRegression(C=1.0, solver=solver, tol=tol, max_iter=100)
                began = time.perf_counter()
                model.fit(rows, labels)
                w = np.append(model.coef_, model.intercept_)
                runs.append(_run(f"dask-ml, {solver}", tol, time.perf_counter() - began, there.primal(w), best))
                if runs[-1]["suboptimality"] <= 1e-3 or runs[-1]["seconds"] > 60.0:
                    break
    return runs


def _run(who: str, tol: float, seconds: float, primal: float, best: float) -> dict[str, Any]:
    return {"who": who, "tol": tol, "seconds": seconds, "suboptimality": (primal - best) / best}


def lines_of(fits: list[dict[str, Any]]) -> list[str]:
    """The figures, in Markdown."""
    lines = ["| solver | rows | rounds | in memory, one thread, s | one worker | two workers: speed of one |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for r in fits:
        one, two = r["workers_1"], r["workers_2"]
        cells = f"{r['memory']:.2f} | {one / r['memory']:.2f}x ({one:.2f} s) | {one / two:.2f}x ({two:.2f} s)"
        lines += [f"| {r['solver']} | {r['rows']:,} | {r['rounds']} | {cells} |"]
    return lines


def lines_of_peers(runs: list[dict[str, Any]]) -> list[str]:
    """The same of logistic regressions."""
    lines = ["| logistic loss, two workers | its tolerance | seconds | suboptimality |", "|---|---:|---:|---:|"]
    return lines + [f"| {r['who']} | {r['tol']:g} | {r['seconds']:.2f} | {r['suboptimality']:.1e} |" for r in runs]
