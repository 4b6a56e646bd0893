"""The process of one version in ``python -m benchmarks versions``: tasks from stdin, answers to stdout, as JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

from maxmargin import Problem, losses, solve, solvers

from . import datasets

_loaded: dict[str, datasets.Dataset] = {}


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Fit once; a rehearsal compiles, and measures memory on the way."""
    if task["path"] not in _loaded:
        _loaded.clear()
        _loaded[task["path"]] = datasets.load(Path(task["path"]))
    data, solver = _loaded[task["path"]], task["solver"]
    if task.get("rehearse"):
        if solver != "auto" and solver not in solvers.supporting(losses.get(task["loss"])):
            return {"takes": False}
        few = Problem(*datasets.few_rows(data.X, data.y), C=task["C"], loss=task["loss"], bias=1.0)
        solve(few, solver, tol=0.1, max_iter=20)
        return {"takes": True}
    gc.collect()
    start = time.process_time()
    problem = Problem(data.X, data.y, C=task["C"], loss=task["loss"], bias=1.0)
    result = solve(problem, solver, tol=task["tol"], max_time=task["cap"], max_iter=1e9)
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "stop_reason": result.stop_reason,
        "passes": result.passes,
        "primal": result.certificate.primal,
        "megabytes": _peak(task, data),
    }


_peaks: dict[str, float] = {}


def _peak(task: dict[str, Any], data: datasets.Dataset) -> float:
    """Most memory that Python's and NumPy's allocators gave to a fit, measured once per kind of fit."""
    key = json.dumps(task, sort_keys=True)
    if key not in _peaks:
        tracemalloc.start()
        problem = Problem(data.X, data.y, C=task["C"], loss=task["loss"], bias=1.0)
        solve(problem, task["solver"], tol=max(task["tol"], 1e-2), max_time=task["cap"], max_iter=20)
        _peaks[key] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    return _peaks[key]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
