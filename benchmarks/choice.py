"""``python -m benchmarks choice``: what "auto" takes beside every single solver, over data x loss x C.

Every solver stops at the same certified relative gap, so the seconds compare as they are. Solvers take turns, and a
cell is the median of the repetitions, in processor seconds of one thread. A solver that takes more than `_PATIENCE`
times the fastest so far is stopped there ("> 3.1").
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, machine

_PATIENCE = 8.0
_LEAST = 1.0  # second that every solver gets
_WITH_A_MATRIX = ("interior_point", "augmented_lagrangian")
_MOST_FOR_A_MATRIX = 3000  # features; beyond, these take minutes
_SETS = ("a9a", "w8a", "ijcnn1", "covtype.binary.scale", "skin_nonskin", "mnist#8", "reuters-money", "20news.binary")
_GENERATED = ("dense", "text-50k")
_REGRESSION = ("epsilon_insensitive",)  # the losses for `datasets.REGRESSION`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--datasets", nargs="+", default=[*_SETS, *_GENERATED])
    parser.add_argument("--losses", nargs="+", default=["hinge", "squared_hinge", "logistic"])
    parser.add_argument("--cs", nargs="+", type=float, default=[0.01, 1.0, 100.0], help="values of C")
    parser.add_argument("--tol", type=float, default=1e-3, help="certified relative gap (default 1e-3)")
    parser.add_argument("--solvers", nargs="+", help="default: all that a loss has")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cap", type=float, default=60.0, help="seconds for one fit (default 60)")
    parser.add_argument("--bias", type=float, default=1.0, help="the constant column; 0: no intercept (default 1)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "choice.json")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table, worst choice last."""
    from maxmargin import losses, solvers

    cells: list[dict[str, Any]] = []
    names = arguments.solvers or solvers.names()
    print(f"| data | loss | C | auto ran | auto | best | auto / best | {' | '.join(names)} |")
    print("|---|---|---|---|---|---|---|" + "---|" * len(names))
    for name in arguments.datasets:
        try:
            data = datasets.get(name)
        except datasets.MissingData as error:
            print(error, file=sys.stderr)
            continue
        for loss in _REGRESSION if name in datasets.REGRESSION else arguments.losses:
            able = [solver for solver in names if solver in solvers.supporting(losses.get(loss))]
            if data.X.shape[1] > _MOST_FOR_A_MATRIX:
                able = [solver for solver in able if solver not in _WITH_A_MATRIX]
            for C in arguments.cs:
                cell = _measure(data, loss, C, able, arguments)
                cells.append(cell)
                print(_line(cell, names), flush=True)
    if not cells:
        raise SystemExit("no data set was found")
    ratios = sorted(
        (cell["ratio"], f"{cell['data']}, {cell['loss']}, C={cell['C']:g}") for cell in cells if cell["seconds"]
    )
    print(f"\n{len(ratios)} cells; auto / best: median {ratios[len(ratios) // 2][0]:.2f}, worst {ratios[-1][0]:.2f}")
    print(f"({ratios[-1][1]}); above 1.25 in {sum(ratio > 1.25 for ratio, _ in ratios)} cells")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": machine.describe(), "cells": cells}, indent=1))


def _measure(data: datasets.Dataset, loss: str, C: float, able: list[str], arguments: argparse.Namespace) -> dict:
    from maxmargin import Problem, solve

    few = Problem(*datasets.few_rows(data.X, data.y), C=C, loss=loss, bias=arguments.bias)
    times: dict[str, list[float]] = {}
    late: dict[str, float] = {}
    ran = ""
    for solver in [*able, "auto"]:  # compile
        solve(few, solver, tol=0.1, max_iter=20)
    for _ in range(arguments.repeat):
        for solver in ["auto", *able]:
            if solver in late:
                continue
            fastest = min([t for all_times in times.values() for t in all_times], default=arguments.cap)
            limit = min(arguments.cap, max(_PATIENCE * fastest, _LEAST))
            wall, start = time.perf_counter(), time.process_time()
            problem = Problem(data.X, data.y, C=C, loss=loss, bias=arguments.bias)
            result = solve(problem, solver, tol=arguments.tol, max_time=limit, max_iter=1e9)
            seconds = time.process_time() - start
            if result.stop_reason == "converged":
                times.setdefault(solver, []).append(seconds)
            else:
                late[solver] = time.perf_counter() - wall
            if solver == "auto":
                ran = result.solver.name
    medians = {solver: statistics.median(all_times) for solver, all_times in times.items() if solver not in late}
    best = min([(seconds, solver) for solver, seconds in medians.items() if solver != "auto"], default=(np.inf, "none"))
    return {
        "data": data.name,
        "loss": loss,
        "C": C,
        "ran": ran,
        "seconds": medians,
        "late": late,
        "best": best[1],
        "ratio": medians["auto"] / best[0] if "auto" in medians else np.inf if medians else np.nan,
    }


def _line(cell: dict[str, Any], names: list[str]) -> str:
    shown = {solver: f"{seconds:.3g}" for solver, seconds in cell["seconds"].items()}
    shown |= {solver: f"> {seconds:.2g}" for solver, seconds in cell["late"].items()}
    where = f"| {cell['data']} | {cell['loss']} | {cell['C']:g} | {cell['ran']} "
    columns = " | ".join(shown.get(name, "") for name in names)
    return f"{where}| {shown.get('auto', '')} | {cell['best']} | {cell['ratio']:.2f} | {columns} |"
