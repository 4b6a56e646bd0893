"""The measurements behind the survey's tables and its figure 3: processor seconds of one thread."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import datasets
from benchmarks.steps import advance

import maxmargin
from maxmargin import Problem, losses, solve, solvers
from maxmargin.data.rows import view_rows
from maxmargin.solvers.base import Goal
from papers.frame.data import load
from papers.frame.experiment import Settings
from papers.frame.measure import accuracy, compile_for, follow, optimum, solve_within
from papers.survey.published import RECURSION, TABLE_1
from papers.survey.recursion import Recursion

ACCURACIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
EXCESS = (0.03, 0.01, 0.003, 0.001)  # of the test error over the optimum's
REPEAT, SHORT = 3, 0.1  # runs of fewer seconds are made so often, and the least time counts
LAMBDAS = (1e-2, 1e-3, 1e-4, 1e-5)
GOALS = (1e-1, 1e-2, 1e-3)  # above the optimum, in section 4.4.3
ABOVE = 0.005  # the test error of figure 3 is so much above the best that is known
MOST_PASSES = 200.0
FEATURES, NOISE, CHUNK = 100, 0.5, 50_000


# ---------------------------------------------------------------- table 1: every solver runs


def table_1(settings: Settings) -> dict[str, Any]:
    """One solver on rows of two classes that overlap: seconds to its gap for growing numbers of rows."""
    row = TABLE_1[settings["solver"]]
    is_kernel = row.kind == "kernel"
    sizes = settings["kernel_rows"] if is_kernel else settings["linear_rows"]
    seconds, gaps, done = [], [], []
    for n in sizes:
        X, y = _overlapping(n)
        run = _kernel_run if is_kernel else _linear_run
        spent, gap, is_done = run(row.ours, X, y, settings["tol"], settings["cap"])
        seconds.append(spent)
        gaps.append(gap)
        done.append(is_done)
    module = inspect.getmodule(type(_solver(row.ours, is_kernel)))
    file = Path(str(module.__file__)).relative_to(Path(maxmargin.__file__).parents[1]) if module else Path()
    found = {"rows": list(sizes), "seconds": seconds, "gaps": gaps, "is_done": done}
    return found | {"file": str(file), "test": _test_of(row.ours, is_kernel)}


def _overlapping(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in 8 dimensions that overlap."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 - 0.5 + 0.6 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


def _solver(name: str, is_kernel: bool) -> Any:
    from maxmargin.solvers import kernel

    return kernel.get(name) if is_kernel else solvers.get(name)


def _linear_run(name: str, X: np.ndarray, y: np.ndarray, tol: float, cap: float) -> tuple[float, float, bool]:
    compile_for(X, y, "hinge", name)
    problem = Problem(X, y, C=100.0 / len(y), loss="hinge")  # lambda = 0.01, whatever the rows
    return _timed(problem, name, max(tol, solvers.get(name).accuracy), cap)


def _kernel_run(name: str, X: np.ndarray, y: np.ndarray, tol: float, cap: float) -> tuple[float, float, bool]:
    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers import kernel

    solver = kernel.get(name)
    loss = "squared_hinge" if losses.Hinge not in solver.losses else "hinge"
    penalized = not solver.takes_free_intercept

    def machine(X: np.ndarray, y: np.ndarray) -> KernelProblem:
        C = 100.0 / len(y)
        return KernelProblem(X, y, C=C, loss=loss, kernel="rbf", gamma=0.1, penalize_intercept=penalized)

    solve(machine(X[:60], y[:60]), name, tol=0.5, max_iter=3)
    return _timed(machine(X, y), name, max(tol, solver.accuracy), cap)


def _timed(problem: Any, name: str, tol: float, cap: float) -> tuple[float, float, bool]:
    result, seconds, is_done = solve_within(problem, name, tol, cap)
    return seconds, result.certificate.relative_gap, is_done


def _test_of(name: str, is_kernel: bool) -> str:
    """The file of tests that speaks of a solver by its name."""
    root = Path(__file__).resolve().parents[2]
    files = sorted((root / "tests" / ("kernel" if is_kernel else "solvers")).rglob("test_*.py"))
    own = [p for p in files if p.stem == f"test_{name}"]
    named = [p for p in files if f'"{name}"' in p.read_text()]
    found = [*own, *named]
    return str(found[0].relative_to(root)) if found else ""


def core_vectors(settings: Settings) -> dict[str, Any]:
    """The core set when no row lies outside (1 + epsilon) times the ball: its size, the seconds, and the SVM's gap.

    That is the stop of Tsang et al., at a fixed C.
    """
    from maxmargin.problem.kernel_problem import KernelProblem
    from maxmargin.solvers import kernel

    def machine(X: np.ndarray, y: np.ndarray) -> KernelProblem:
        return KernelProblem(X, y, loss="squared_hinge", kernel="rbf", gamma=0.1, penalize_intercept=True)

    X, y = _overlapping(settings["rows"])
    solve(machine(X[:60], y[:60]), "cvm", tol=0.5, max_iter=3)
    problem, solver, goal = machine(X, y), kernel.get("cvm"), Goal(0.0, math.inf)
    best: dict[str, Any] = {}
    for _ in range(REPEAT):
        started = time.process_time()
        state: Any = solver.init_state(problem, 0)
        while state.eps > settings["epsilon"] and time.process_time() - started < settings["cap"]:
            state = solver.update(problem, state, goal)
        seconds = time.process_time() - started
        if not best or seconds < best["seconds"]:
            gap, core = problem.certificate(state.beta).relative_gap, int(np.count_nonzero(state.u))
            is_done = state.eps <= settings["epsilon"]
            best = {"seconds": seconds, "core": core, "gap": gap, "is_done": is_done}
        if seconds > SHORT:
            break
    return best


# ---------------------------------------------------------------- table 2: rates


def table_2(settings: Settings) -> dict[str, Any]:
    """Seconds and passes of one method to each accuracy, of the objective and of the test error.

    Squared hinge on dense rows, lambda = 1e-3.
    """
    n, d, name = settings["rows"], settings["features"], settings["solver"]
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d) / math.sqrt(d)
    X, y = _unequal(n, d, rng, direction)
    X_test, y_test = _unequal(20_000, d, rng, direction)
    problem = Problem(X, y, C=1e3 / n, loss="squared_hinge")
    least, _, best = optimum(problem, 1e-10, 60.0)
    error = 1.0 - accuracy(X_test, y_test, best)
    compile_for(X, y, "squared_hinge", name)
    points = []
    for point in follow(problem, name, settings["cap"], first=0.001):
        above = (problem.primal(point.w) - least) / least
        points.append((point.seconds, point.passes, above, 1.0 - accuracy(X_test, y_test, point.w)))
        if above <= min(ACCURACIES):
            break
    found = {f"{goal:g}": next((p[:2] for p in points if p[2] <= goal), None) for goal in ACCURACIES}
    for excess in EXCESS:
        found[f"E {excess:g}"] = next((p[:2] for p in points if p[3] <= error + excess), None)
    found["points"] = [p[:3] for p in points]
    return found


def _unequal(n: int, d: int, rng: np.random.Generator, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features of unequal size, so that second order has something to gain; labels by a line and noise."""
    X = rng.normal(size=(n, d))
    y = np.where(X @ direction + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X / np.sqrt(1.0 + np.arange(d)), y


# ---------------------------------------------------------------- figure 3: time to a test error against rows


class Split(NamedTuple):
    """Rows to train on, of which the first n are taken, and rows to test with."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray

    def error(self, w: np.ndarray) -> float:
        """Share of test rows on the wrong side."""
        return 1.0 - accuracy(self.X_test, self.y_test, w)


def chunks(n_rows: int, seed: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The generated set, a chunk at a time: features of unequal size, labels by a line and noise."""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(0).normal(size=FEATURES)
    direction /= np.linalg.norm(direction)
    scale = (1.0 / np.sqrt(1.0 + np.arange(FEATURES))).astype(np.float32)
    for begin in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - begin)
        X = rng.standard_normal(size=(n, FEATURES), dtype=np.float32)
        y = np.where(X @ direction + NOISE * rng.normal(size=n) > 0.0, 1.0, -1.0)
        yield X * scale, y


@lru_cache(maxsize=1)
def split_of(name: str, rows: int) -> Split:
    """The first rows of the generated set, or of the flights: all late ones and as many others, in random order."""
    if name == "generated":
        parts = [list(chunks(rows)), list(chunks(20_000, seed=2))]
        return Split(*(np.concatenate([part[k] for part in some]) for some in parts for k in (0, 1)))
    data, rng = datasets.get(name), np.random.default_rng(0)
    late, others = np.flatnonzero(data.y > 0.0), np.flatnonzero(data.y < 0.0)
    fewer = min(len(late), len(others))
    order = rng.permutation(np.concatenate([rng.choice(side, fewer, replace=False) for side in (late, others)]))
    train, test = order[len(order) // 10 :][:rows], order[: len(order) // 10]
    return Split(data.X[train], data.y[train], data.X[test], data.y[test])


@lru_cache(maxsize=4)
def error_to_reach(name: str, most: int) -> float:
    """A little above the least test error of all lambda, with all rows."""
    data = split_of(name, most)
    errors = []
    for lam in LAMBDAS:
        problem = Problem(data.X, data.y, C=1.0 / (lam * len(data.y)), loss="hinge")
        errors.append(data.error(solve(problem, tol=1e-2, max_time=20.0).w))
    return min(errors) + ABOVE


def figure_3(settings: Settings) -> dict[str, Any]:
    """The least seconds over several lambda until the test error is met."""
    goal = error_to_reach(settings["set"], settings["most"])
    data, n, name = split_of(settings["set"], settings["most"]), settings["rows"], settings["solver"]
    if name == "sgd, streamed":
        found = [(*_streamed(data, n, lam, goal), lam) for lam in (1e-3, 1e-4) for _ in range(REPEAT)]
        spent, rows, lam = min(found)
        return {"seconds": spent, "lambda": lam, "error": goal, "rows_seen": rows}
    compile_for(data.X, data.y, "hinge", name)
    limit, times = settings["cap"], []
    for lam in LAMBDAS:
        times.append((_seconds_to_error(data, n, name, lam, goal, limit), lam))
        limit = min(limit, min(times)[0])
    spent, lam = min(times)
    for _ in range(REPEAT - 1):
        if spent < SHORT:
            spent = min(spent, _seconds_to_error(data, n, name, lam, goal, spent))
    return {"seconds": spent, "lambda": lam, "error": goal}


def _seconds_to_error(data: Split, n: int, name: str, lam: float, goal: float, limit: float) -> float:
    """Processor seconds of a solver until the test error is met; infinite beyond the limit."""
    problem = Problem(data.X[:n], data.y[:n], C=1.0 / (lam * n), loss="hinge")
    solver = solvers.get(name)
    started = time.process_time()
    state = solver.init_state(problem, 0)
    spent, passes, before, rows = time.process_time() - started, 0.0, None, 300.0
    while spent <= limit and passes < MOST_PASSES:
        rows *= 4.0 / 3.0
        if rows / n <= passes:
            continue
        started = time.process_time()
        state, passes = advance(solver, problem, state, rows / n)
        w = state.w
        spent += time.process_time() - started
        if before is None or not np.array_equal(w, before):
            if data.error(w) <= goal:
                return spent
            before = w.copy()
    return math.inf


def _streamed(data: Split, n: int, lam: float, goal: float) -> tuple[float, int]:
    """The same for one pass over a stream that is never held; how many rows it saw."""
    from maxmargin.solvers.stochastic.online import learn, new_online_state

    loss = losses.get("hinge")
    for X, y in chunks(10):  # compile
        learn(view_rows(X), y, np.ones(len(y)), loss, new_online_state(FEATURES), lam)
    state, seen, spent, look = new_online_state(FEATURES), 0, 0.0, 300.0
    for X, y in chunks(n):
        begin = 0
        while begin < len(y):
            end = min(len(y), begin + max(1, math.ceil(look) - seen))
            rows, weight = view_rows(X[begin:end]), np.ones(end - begin)
            started = time.process_time()
            state = learn(rows, y[begin:end], weight, loss, state, lam)
            spent += time.process_time() - started
            seen, begin = seen + end - begin, end
            if seen >= look:
                look *= 4.0 / 3.0
                if data.error(state.w) <= goal:
                    return spent, seen
    return math.inf, seen


# ---------------------------------------------------------------- section 4.3.3: does the diagonal scaling help?


def section_4_3(settings: Settings) -> dict[str, Any]:
    """How far above the optimum a variant of SGD-QN is after 1, 3 and 10 passes; "plain" never corrects its rates."""
    from maxmargin.solvers.stochastic.sgd_qn import SGDQN

    data = load(settings["set"], settings["rows"])
    problem = Problem(data.X, data.y, C=1.0, loss=settings["loss"])
    upper, lower, _ = optimum(problem, 1e-5, 10.0 * settings["cap"])
    variants = {"plain": SGDQN(skip=0), "as published": solvers.get("sgd_qn_published"), "ours": SGDQN()}
    found = {}
    if settings["variant"] == RECURSION:
        recursion = Recursion(data.X, data.y, 1.0, settings["loss"])
        for passes in (1, 3, 10):
            w = recursion.advance(passes)
            found[str(passes)] = (problem.primal(w) - lower) / upper if np.isfinite(w).all() else math.inf
        return found
    solver = variants[settings["variant"]]
    state = solver.init_state(problem, 0)
    for passes in (1.0, 3.0, 10.0):
        state, _ = advance(solver, problem, state, passes)
        found[f"{passes:g}"] = (problem.primal(state.w) - lower) / upper
    return found


# ---------------------------------------------------------------- section 4.4.3: Pegasos against SVM-perf


def section_4(settings: Settings) -> dict[str, Any]:
    """Seconds to 10 %, 1 % and 0.1 % above the optimum, and all points; of Pegasos those at T = 100 / lambda steps."""
    data = load(settings["set"], settings["rows"])
    lam = settings["lambda"]
    problem = Problem(data.X, data.y, C=1.0 / (lam * len(data.y)), loss="hinge")
    upper, lower, _ = optimum(problem, 1e-5, 10.0 * settings["cap"])
    compile_for(data.X, data.y, "hinge", settings["solver"])
    passes = 100.0 / lam / problem.n_rows if settings["solver"] == "pegasos" else 0.0
    points: list[tuple[float, float, float]] = []
    for point in follow(problem, settings["solver"], settings["cap"]):
        points.append((point.seconds, point.passes, (problem.primal(point.w) - lower) / upper))
        if points[-1][2] <= 1e-3 and points[-1][1] >= passes:
            break
    found: dict[str, Any] = {f"{goal:g}": next((p[0] for p in points if p[2] <= goal), None) for goal in GOALS}
    found["T"] = next(((p[0], p[2]) for p in points if p[1] >= passes), None) if passes else None
    return found | {"points": points}
