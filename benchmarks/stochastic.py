"""``python -m benchmarks stochastic``: stochastic solvers beside dual CD, OCAS and the peers, by time and by passes.

The first table has one pass over the data, the second the way to a true suboptimality and to a test error. A fifth of
the rows is kept for testing. Ours make one run each, which is looked at after some passes: only the solver's own
work is timed. Peers cannot be looked at, so they make a run for each number of passes or tolerance. Processor seconds
of one thread; a set-up (the calibration of a step size, a peer's copy of the data) is part of every time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import datasets, machine
from .objectives import Objective
from .peers import Liblinear, SklearnSGD, SnapML, quiet
from .solvers import Solver as Peer

_OURS = ("sgd", "pegasos", "sgd_qn", "folos", "dual_cd", "ocas")
_PEERS = (SklearnSGD, Liblinear, SnapML)
_MILESTONES = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # passes
_TARGETS = (1e-1, 1e-2, 1e-3)
_NEAR = 0.005  # of the test error at the optimum: within half a per cent of all rows


class Point(NamedTuple):
    """Where a solver was after some work."""

    passes: float  # nan where a peer does not tell
    seconds: float
    suboptimality: float
    error: float  # share of test rows


class Split(NamedTuple):
    """A data set, four fifths of it for training."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--datasets", nargs="+", default=["text", "20news.binary", "a9a"])
    parser.add_argument("--losses", nargs="+", default=["hinge"], choices=["hinge", "squared_hinge"])
    parser.add_argument("--solvers", nargs="+", default=list(_OURS), help=f"ours (default: {' '.join(_OURS)})")
    parser.add_argument("--c", type=float, default=1.0, help="weight of the loss (default 1)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cap", type=float, default=20.0, help="seconds for one run (default 20)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "stochastic.json")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the tables."""
    quiet()
    results: dict[str, Any] = {}
    peers = [peer for kind in _PEERS if _is_installed(peer := kind())]
    for name in arguments.datasets:
        try:
            split = _split(datasets.get(name))
        except datasets.MissingData as error:
            print(error, file=sys.stderr)
            continue
        for loss in arguments.losses:
            objective = Objective(loss, arguments.c)
            print(f"\n## {name}, {loss}, C = {arguments.c:g}\n")
            passes = _passes(split, objective, arguments)
            print(_pass_table(passes))
            curves = _curves(split, objective, peers, arguments)
            print(_curve_table(curves, split), flush=True)
            results[f"{name} {loss}"] = {"passes": passes, "curves": curves}
    if not results:
        raise SystemExit("no data set was found")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": machine.describe(), "results": results}, indent=1))


def _is_installed(peer: Peer) -> bool:
    try:
        peer.load()
    except ImportError as error:
        print(f"{peer.name}: {error}", file=sys.stderr)
        return False
    return True


def _split(data: datasets.Dataset) -> Split:
    order = np.random.default_rng(0).permutation(len(data.y))
    n = len(order) * 4 // 5
    train, test = np.sort(order[:n]), np.sort(order[n:])
    return Split(data.name, data.X[train], data.y[train], data.X[test], data.y[test])


# ---------------------------------------------------------------- one pass


def _passes(split: Split, objective: Objective, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of set-up and of a pass, medians of runs in turn."""
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(max(3, arguments.repeat) + 1):  # the first compiles
        for name in arguments.solvers:
            run = _run(split, objective, name, (1.0, 2.0, 3.0, 4.0))
            clock = [seconds for seconds, *_ in run]
            times.setdefault(f"maxmargin {name}", []).append((2 * clock[0] - clock[1], (clock[-1] - clock[0]) / 3))
        peer = SklearnSGD()
        one, four = (_timed(peer, (split.X, split.y), objective, n)[0] for n in (1, 4))
        times.setdefault(peer.name, []).append((one - (four - one) / 3, (four - one) / 3))
    return {name: [statistics.median(part) for part in zip(*all_times[1:])] for name, all_times in times.items()}


def _pass_table(passes: dict[str, list[float]]) -> str:
    peer = passes[SklearnSGD().name][1]
    lines = ["| solver | set-up, ms | a pass, ms | SGDClassifier's pass / this |", "|---|---|---|---|"]
    for name, (setup, seconds) in passes.items():
        lines.append(f"| {name} | {1e3 * max(setup, 0.0):.0f} | {1e3 * seconds:.1f} | {peer / seconds:.2f} |")
    return "\n".join(lines) + "\n"


def _run(split: Split, objective: Objective, name: str, milestones: Any) -> Iterator[tuple[float, float, np.ndarray]]:
    """Seconds, passes and w of one of our solvers, at each milestone."""
    from maxmargin import Problem, solvers

    from .steps import advance

    started = time.process_time()
    problem = Problem(split.X, split.y, C=objective.C, loss=objective.loss)
    solver = solvers.get(name)
    state = solver.init_state(problem, 0)
    seconds = time.process_time() - started
    for milestone in milestones:
        started = time.process_time()
        state, passes = advance(solver, problem, state, milestone)
        w = state.w
        seconds += time.process_time() - started
        yield seconds, passes, w


# ---------------------------------------------------------------- the way to an accuracy


def _curves(
    split: Split, objective: Objective, peers: list[Peer], arguments: argparse.Namespace
) -> dict[str, list[Point]]:
    from maxmargin import Problem, solve

    best = solve(Problem(split.X, split.y, C=objective.C, loss=objective.loss), tol=1e-7, max_time=120.0)
    optimum = objective.primal(split.X, split.y, best.w)
    ends = (0, min(_TARGETS))

    def point(passes: float, seconds: float, w: np.ndarray) -> Point:
        above = (objective.primal(split.X, split.y, w) - optimum) / optimum
        return Point(passes, seconds, above, _error(split, w))

    curves = {"optimum": [Point(best.passes, np.nan, 0.0, _error(split, best.w))]}
    for name in arguments.solvers:
        all_runs = []
        for _ in range(arguments.repeat):
            points = []
            for seconds, passes, w in _run(split, objective, name, _MILESTONES):
                points.append(point(passes, seconds, w))
                if points[-1].suboptimality <= ends[1] or seconds > arguments.cap:
                    break
            all_runs.append(points)
        curves[f"maxmargin {name}"] = _median(all_runs)
    for peer in peers:
        all_runs = []
        for _ in range(arguments.repeat):
            points = []
            prepared = peer.prepare(split.X, split.y)
            for rung in _rungs(peer):
                seconds, w = _timed(peer, prepared, objective, rung)
                points.append(point(rung if isinstance(rung, int) else np.nan, seconds, w))
                if points[-1].suboptimality <= ends[1] or sum(p.seconds for p in points) > 2 * arguments.cap:
                    break
            all_runs.append(points)
        curves[peer.name] = _median(all_runs)
    return curves


def _rungs(peer: Peer) -> tuple[float, ...]:
    """A peer's own; numbers of passes as ours, and doublings beyond."""
    if not isinstance(peer.rungs[0], int):
        return peer.rungs
    ours = tuple(int(passes) for passes in _MILESTONES if passes >= 1)
    return ours + tuple(passes for passes in peer.rungs if passes > ours[-1])


def _timed(peer: Peer, prepared: Any, objective: Objective, rung: float) -> tuple[float, np.ndarray]:
    started = time.process_time()
    fitted = peer.fit(prepared, objective, rung)
    return time.process_time() - started, peer.weights(fitted)


def _error(split: Split, w: np.ndarray) -> float:
    return float(np.mean((split.X_test @ w > 0.0) != (split.y_test > 0.0)))


def _median(all_runs: list[list[Point]]) -> list[Point]:
    """The points of the first run with the median seconds of all; the same seeds make the same points."""
    return [
        points[0]._replace(seconds=statistics.median(point.seconds for point in points)) for points in zip(*all_runs)
    ]


def _curve_table(curves: dict[str, list[Point]], split: Split) -> str:
    final = curves["optimum"][0].error
    lines = [
        f"Test error at the optimum: {100 * final:.2f} % of {len(split.y_test):,} rows. Seconds (passes):\n",
        f"| solver | {' | '.join(f'P* + {target:.1%}' for target in _TARGETS)} "
        f"| test error within {_NEAR:.1%} | test error after 1 pass |",
        "|---|" + "---|" * (len(_TARGETS) + 2),
    ]
    for name, points in curves.items():
        if name == "optimum":
            continue
        cells = [_first([p for p in points if p.suboptimality <= target], points) for target in _TARGETS]
        cells.append(_first([p for p in points if p.error <= final + _NEAR], points))
        one = [p.error for p in points if p.passes == 1.0]
        cells.append(f"{100 * one[0]:.2f} %" if one else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _first(meeting: list[Point], points: list[Point]) -> str:
    if not meeting:
        return f"> {points[-1].seconds:.2g}"
    found = min(meeting, key=lambda point: point.seconds)
    return f"{found.seconds:.3g}" + ("" if np.isnan(found.passes) else f" ({found.passes:.3g})")
