"""``python -m benchmarks versions``: this version beside another checkout, solver by solver, in one run.

Each version lives in a process of its own, with its own sources; they take turns, one fit at a time, and a cell is the
median of the repetitions in processor seconds of one thread. Both stop at the same certified relative gap. A ratio
above 1 means that this version is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import datasets, machine

_HERE = Path(__file__).parents[1]
_SETS = ("a9a", "w8a", "ijcnn1", "covtype.binary.scale", "reuters-money", "dense", "text-50k")
_SOLVERS = ("auto", "dual_cd", "tron", "augmented_lagrangian", "interior_point", "ocas", "bmrm", "lbfgs", "sub_lbfgs",
            "primal_cd")  # fmt: skip
_WITH_A_MATRIX = ("interior_point", "augmented_lagrangian")
_MOST_FOR_A_MATRIX = 3000  # features; beyond, these take minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("other", type=Path, help="root of another checkout, such as a git worktree of a release")
    parser.add_argument("--datasets", nargs="+", default=list(_SETS))
    parser.add_argument("--losses", nargs="+", default=["hinge", "squared_hinge"])
    parser.add_argument("--cs", nargs="+", type=float, default=[0.01, 1.0, 100.0], help="values of C")
    parser.add_argument("--solvers", nargs="+", default=list(_SOLVERS))
    parser.add_argument("--tol", type=float, default=1e-3, help="certified relative gap (default 1e-3)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cap", type=float, default=10.0, help="seconds for one fit (default 10)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "versions.json")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table and its summary."""
    versions = {"this": _Version(_HERE), "other": _Version(arguments.other.resolve())}
    cells: list[dict[str, Any]] = []
    print("| data | loss | C | solver | this | other | ratio | megabytes, this | other |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.datasets:
        try:
            data = datasets.get(name)
        except datasets.MissingData as error:
            print(error, file=sys.stderr)
            continue
        for loss in arguments.losses:
            for C in arguments.cs:
                for solver in arguments.solvers:
                    if solver in _WITH_A_MATRIX and data.X.shape[1] > _MOST_FOR_A_MATRIX:
                        continue
                    cell = _measure(versions, data, loss, C, solver, arguments)
                    if cell:
                        cells.append(cell)
                        print(_line(cell), flush=True)
    done = [cell for cell in cells if cell["ratio"] is not None]
    if not done:
        raise SystemExit("nothing was measured")
    ratios = [cell["ratio"] for cell in done]
    slower = sorted((cell for cell in done if cell["ratio"] > 1.05), key=lambda cell: -cell["ratio"])
    print(
        f"\n{len(done)} cells; this / other: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}; ", end=""
    )
    print(f"more than 5 % slower in {len(slower)}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": machine.describe(), "cells": cells}, indent=1))


def _measure(
    versions: dict[str, _Version], data: datasets.Dataset, loss: str, C: float, solver: str, arguments: Any
) -> dict[str, Any] | None:
    task = {"path": str(data.path), "loss": loss, "C": C, "solver": solver, "tol": arguments.tol, "cap": arguments.cap}
    if not all(version.ask(task | {"rehearse": True})["takes"] for version in versions.values()):
        return None
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in versions}
    for _ in range(arguments.repeat):
        for name, version in versions.items():
            if all(run["stop_reason"] == "converged" for run in runs[name]):  # else once is enough
                runs[name].append(version.ask(task))
    cell: dict[str, Any] = {"data": data.name, "loss": loss, "C": C, "solver": solver, "ratio": None}
    for name, made in runs.items():
        converged = all(run["stop_reason"] == "converged" for run in made)
        cell[name] = statistics.median(run["seconds"] for run in made) if converged else None
        cell[f"{name}_megabytes"] = max(run["megabytes"] for run in made)
        cell[f"{name}_passes"] = made[0]["passes"]
    if cell["this"] is not None and cell["other"] is not None:
        cell["ratio"] = cell["this"] / cell["other"]
    return cell


def _line(cell: dict[str, Any]) -> str:
    seconds = [f"{cell[name]:.3g}" if cell[name] is not None else "late" for name in ("this", "other")]
    ratio = f"{cell['ratio']:.2f}" if cell["ratio"] is not None else ""
    where = f"| {cell['data']} | {cell['loss']} | {cell['C']:g} | {cell['solver']} "
    memory = f"{cell['this_megabytes']:.0f} | {cell['other_megabytes']:.0f}"
    return f"{where}| {seconds[0]} | {seconds[1]} | {ratio} | {memory} |"


class _Version:
    """A process that fits with the sources of one checkout."""

    def __init__(self, root: Path):
        environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{_HERE}"}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._version_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=_HERE,
        )

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """The answer to a task."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of a version died at {task}")
        return json.loads(answer)
