"""Table 2 of Menon's survey, measured: gradient descent and SGD, of first and of second order.

    python papers/survey/table2.py [--rows 100000] [--features 20] [--quick]

The survey's bounds on the time to an optimisation accuracy rho: GD O(n d log 1/rho), SGD O(d / rho), 2GD
O((d^2 + n d) log log 1/rho), 2SGD O(d^2 / rho). Squared hinge on generated dense rows, lambda = 1e-3; rho is relative
to the optimum. Processor seconds of one thread, the solver's own work alone.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.steps import advance  # noqa: E402

from maxmargin import Problem, solve, solvers  # noqa: E402

_SOLVERS = ("gd", "sgd_plain", "2gd", "2sgd")
_ACCURACIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
_NEAR = 1.001  # of the best test error


def rows_of(n: int, d: int, rng: np.random.Generator, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features of unequal size, so that second order has something to gain; labels by a line and noise."""
    X = rng.normal(size=(n, d))
    y = np.where(X @ direction + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X / np.sqrt(1.0 + np.arange(d)), y


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="few rows: to see that it works")
    options = parser.parse_args()
    n, d = (5_000, 10) if options.quick else (options.rows, options.features)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d) / math.sqrt(d)
    X, y = rows_of(n, d, rng, direction)
    X_test, y_test = rows_of(100_000, d, rng, direction)
    problem = Problem(X, y, C=1e3 / n, loss="squared_hinge")

    def error(w: np.ndarray) -> float:
        return float(np.mean((X_test @ w > 0.0) != (y_test > 0.0)))

    best = solve(problem, tol=1e-10)
    optimum, best_error = best.certificate.primal, error(best.w)
    print(f"{n:,} rows, {d} features; test error at the optimum {100 * best_error:.2f} %\n")
    print(f"| | {' | '.join(f'{a:g}' for a in _ACCURACIES)} | test error |\n|---|{'---|' * (len(_ACCURACIES) + 1)}")
    for name in _SOLVERS:
        solve(Problem(X[:200], y[:200], C=0.1, loss="squared_hinge"), name, max_iter=2)  # compile
        points = run(problem, name, optimum, error)
        cells = [next((p for p in points if p[2] <= accuracy), None) for accuracy in _ACCURACIES]
        cells.append(next((p for p in points if p[3] <= _NEAR * best_error), None))
        shown = (f"{1e3 * p[0]:.3g} ms ({p[1]:.3g})" if p else "-" for p in cells)
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
    print("\nProcessor time and, in brackets, passes to each relative accuracy of the objective; the last column:")
    print(f"to a test error within {_NEAR - 1:.1%} of that at the optimum.")


def run(problem: Problem, name: str, optimum: float, error: object) -> list[tuple[float, float, float, float]]:
    """Seconds, passes, suboptimality and test error along a run."""
    solver = solvers.get(name)
    started = time.process_time()
    state = solver.init_state(problem, 0)
    seconds, passes, milestone, points = time.process_time() - started, 0.0, 0.001, []
    while passes < 500.0 and seconds < 20.0:
        started = time.process_time()
        state, passes = advance(solver, problem, state, milestone)
        w = state.w
        seconds += time.process_time() - started
        points.append((seconds, passes, (problem.primal(w) - optimum) / optimum, error(w)))  # type: ignore[operator]
        if points[-1][2] <= min(_ACCURACIES):
            break
        milestone *= 1.3
    return points


if __name__ == "__main__":
    main()
