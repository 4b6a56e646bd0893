"""Figure 3 of Menon's survey, measured: time to reach a fixed test error against the number of training rows.

    python papers/survey/figure3.py [--sets generated flights3m] [--rows 3000 10000 ...] [--plot figure3.png] [--quick]

For every number of rows and every solver, the best of several lambda counts: with more rows, one may regularise less
or stop earlier, whatever is faster. Seconds are the processor's, of one thread, and of the solver's own work: what it
takes to read the rows and to check them is left out for all, or else all lines would rise.

The stream of the generated set is made in chunks as it goes and never held; its solver, `sgd.learn`, sees a row once.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import datasets  # noqa: E402
from benchmarks.steps import advance  # noqa: E402

from maxmargin import Problem, losses, solvers  # noqa: E402
from maxmargin.rows import view_rows  # noqa: E402
from maxmargin.solvers.sgd import learn, new_online_state  # noqa: E402

_SOLVERS = ("pegasos", "sgd", "dual_cd", "svmperf", "ocas")
_ROWS = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000)
_MOST_IN_MEMORY = 1_000_000  # rows of the generated set; beyond, only the stream goes on
_LAMBDAS = (1e-2, 1e-3, 1e-4, 1e-5)
_ABOVE = 0.005  # the test error to reach is so much above the best that is known
_FEATURES, _NOISE, _CHUNK = 100, 0.5, 50_000
_CAP = 10.0  # seconds for one run
_MOST_PASSES = 200.0  # after which a run with too few rows for the error is given up


class Data(NamedTuple):
    """Rows to train on, of which the first n are taken, and rows to test with."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray

    def error(self, w: np.ndarray) -> float:
        """Share of test rows on the wrong side."""
        return float(np.mean((self.X_test @ w > 0.0) != (self.y_test > 0.0)))


# ---------------------------------------------------------------- the data


def chunks(n_rows: int, seed: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The generated set, a chunk at a time: features of unequal size, labels by a line and noise."""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(0).normal(size=_FEATURES)
    direction /= np.linalg.norm(direction)
    scale = (1.0 / np.sqrt(1.0 + np.arange(_FEATURES))).astype(np.float32)
    done = 0
    while done < n_rows:
        n = min(_CHUNK, n_rows - done)
        X = rng.standard_normal(size=(n, _FEATURES), dtype=np.float32)
        y = np.where(X @ direction + _NOISE * rng.normal(size=n) > 0.0, 1.0, -1.0)
        yield X * scale, y
        done += n


def generated(n_rows: int) -> Data:
    """The first chunks in memory, and a test set of another seed."""
    parts = list(chunks(min(n_rows, _MOST_IN_MEMORY)))
    test = list(chunks(50_000, seed=2))
    whole = [np.concatenate([part[k] for part in some]) for some in (parts, test) for k in (0, 1)]
    return Data("generated", *whole)


def flights() -> Data:
    """All flights that were late and as many that were not, in random order; a tenth for testing.

    Of all flights, a fifth is late, and no linear rule says which better than "none": 19.9 % of errors against 20.0 %.
    """
    data, rng = datasets.get("flights3m"), np.random.default_rng(0)
    late, others = np.flatnonzero(data.y > 0.0), np.flatnonzero(data.y < 0.0)
    fewer = min(len(late), len(others))
    chosen = np.concatenate([rng.choice(side, fewer, replace=False) for side in (late, others)])
    order = rng.permutation(chosen)
    train, test = order[len(order) // 10 :], order[: len(order) // 10]
    return Data("flights3m", data.X[train], data.y[train], data.X[test], data.y[test])


# ---------------------------------------------------------------- time to an error


def milestones(n_rows: int) -> Iterator[float]:
    """Passes after which to look: a third more rows each time, from 300 on."""
    rows = 300.0
    while True:
        yield rows / n_rows
        rows *= 4.0 / 3.0


def seconds_to_error(data: Data, n_rows: int, name: str, lam: float, error: float, limit: float) -> float:
    """Processor seconds of a solver until the test error is met; infinite beyond the limit."""
    problem = Problem(data.X[:n_rows], data.y[:n_rows], C=1.0 / (lam * n_rows), loss="hinge")
    solver = solvers.get(name)
    started = time.process_time()
    state = solver.init_state(problem, 0)
    seconds, passes, before = time.process_time() - started, 0.0, None
    for milestone in milestones(n_rows):
        if milestone <= passes:
            continue
        started = time.process_time()
        state, passes = advance(solver, problem, state, milestone)
        w = state.w
        seconds += time.process_time() - started
        if seconds > limit or passes >= _MOST_PASSES:
            return math.inf
        if before is None or not np.array_equal(w, before):
            if data.error(w) <= error:
                return seconds
            before = w.copy()
    raise AssertionError


def seconds_of_stream(data: Data, n_rows: int, lam: float, error: float) -> tuple[float, int, float]:
    """The same for one pass over a stream; how many rows it saw, and the error that it ended with."""
    state, seen, seconds, look = new_online_state(_FEATURES), 0, 0.0, 300.0
    loss, found = losses.get("hinge"), math.inf
    at_seen = 0
    for X, y in chunks(n_rows):
        begin = 0
        while begin < len(y):
            end = len(y) if found < math.inf else min(len(y), begin + max(1, math.ceil(look) - seen))
            rows, weight = view_rows(X[begin:end]), np.ones(end - begin)
            started = time.process_time()
            state = learn(rows, y[begin:end], weight, loss, state, lam)
            seconds += time.process_time() - started
            seen, begin = seen + end - begin, end
            if seen >= look and found == math.inf:
                look *= 4.0 / 3.0
                if data.error(state.w) <= error:
                    found, at_seen = seconds, seen
    return found, at_seen, data.error(state.w)


def measure(data: Data, rows: list[int], cap: float) -> dict[str, Any]:
    """Seconds by solver and number of rows."""
    n = len(data.y)
    compile_all(data)
    best = min(
        data.error(solvers.solve(Problem(data.X, data.y, C=1.0 / (lam * n), loss="hinge"), tol=1e-2, max_time=60.0).w)
        for lam in _LAMBDAS
    )
    error = best + _ABOVE
    print(f"{data.name}: best test error {best:.4f}, to reach: {error:.4f}", file=sys.stderr)
    found: dict[str, dict[int, list[float]]] = {name: {} for name in _SOLVERS}
    for n_rows in [r for r in rows if r <= n]:
        for name in _SOLVERS:
            limit, times = cap, []
            for lam in _LAMBDAS:
                times.append((seconds_to_error(data, n_rows, name, lam, error, limit), lam))
                limit = min(limit, min(times)[0])
            found[name][n_rows] = list(min(times))
            print(f"{data.name} {n_rows:>8} {name:8} {min(times)[0]:.4f} s, lambda {min(times)[1]:g}", file=sys.stderr)
    result = {"name": data.name, "best": best, "error": error, "seconds": found}
    if data.name == "generated":
        result["stream"] = {}
        for n_rows in rows:
            times = [(*seconds_of_stream(data, n_rows, lam, error), lam) for lam in (1e-3, 1e-4)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            result["stream"][n_rows] = [*min(times), peak]
            print(f"stream {n_rows:>8} {min(times)[0]:.4f} s after {min(times)[1]} rows", file=sys.stderr)
    return result


def compile_all(data: Data) -> None:
    """So that no time has a compiler's in it."""
    problem = Problem(data.X[:300], data.y[:300], C=0.1, loss="hinge")
    for name in _SOLVERS:
        solvers.solve(problem, name, tol=0.1, max_iter=3)
    state = new_online_state(data.X.shape[1])
    learn(view_rows(data.X[:10]), data.y[:10], np.ones(10), losses.get("hinge"), state, 1e-3)


# ---------------------------------------------------------------- what is shown


def table(result: dict[str, Any]) -> str:
    """Milliseconds, with the lambda that was best."""
    found = result["seconds"]
    sizes = sorted({n for times in found.values() for n in times})
    lines = [
        f"\n{result['name']}: milliseconds to a test error of {100 * result['error']:.2f} % "
        f"(the best known is {100 * result['best']:.2f} %), and the lambda that was fastest\n",
        f"| rows | {' | '.join(found)} |",
        "|---|" + "---|" * len(found),
    ]
    for n in sizes:
        cells = (found[name].get(n, [math.inf, 0.0]) for name in found)
        lines.append(f"| {n:,} | {' | '.join(_cell(*cell) for cell in cells)} |")
    for n, (seconds, seen, error, lam, _) in result.get("stream", {}).items():
        end = f"{1e3 * seconds:.1f} ms, after {seen:,} rows" if seconds < math.inf else "not reached"
        lines.append(f"\nstream of {n:,} rows: {end} (lambda {lam:g}); {100 * error:.2f} % at its end")
    return "\n".join(lines)


def _cell(seconds: float, lam: float) -> str:
    return f"{1e3 * seconds:.3g} ({lam:g})" if seconds < math.inf else "-"


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Both axes logarithmic, as in the survey."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(5.5 * len(results), 4.2), squeeze=False)
    for axis, result in zip(axes[0], results):
        for name, times in result["seconds"].items():
            points = [(n, seconds) for n, (seconds, _) in times.items() if seconds < math.inf]
            axis.loglog(*zip(*points), marker="o", label=name) if points else None
        streamed = [(n, entry[0]) for n, entry in result.get("stream", {}).items() if entry[0] < math.inf]
        if streamed:
            axis.loglog(*zip(*streamed), marker="x", linestyle="--", label="sgd, streamed")
        title = f"{result['name']}: to a test error of {100 * result['error']:.2f} %"
        axis.set(xlabel="training rows", ylabel="processor seconds", title=title)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=["generated", "flights3m"], default=["generated", "flights3m"])
    parser.add_argument("--rows", nargs="+", type=int, default=list(_ROWS))
    parser.add_argument("--plot", type=Path, help="a picture; needs matplotlib")
    parser.add_argument("--cap", type=float, default=_CAP, help=f"seconds for one run (default {_CAP:g})")
    parser.add_argument("--quick", action="store_true", help="few rows: to see that it works")
    options = parser.parse_args()
    rows = [10_000, 30_000] if options.quick else sorted(options.rows)
    results = []
    for name in options.sets:
        try:
            data = generated(max(rows)) if name == "generated" else flights()
        except datasets.MissingData as error:
            print(error, file=sys.stderr)
            continue
        sizes = rows if name == "generated" else [*(n for n in rows if n < len(data.y)), len(data.y)]
        results.append(measure(data, sizes, options.cap))
        print(table(results[-1]), flush=True)
    datasets.CACHE.mkdir(exist_ok=True)
    (datasets.CACHE / "survey_figure3.json").write_text(json.dumps(results))
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
