"""Each solver lives in a process of its own for the whole run.

That keeps a one-threaded peer on one thread (BLAS and OpenMP read their number of threads when they are loaded), lets
the harness stop a fit that takes too long, and survives a crash. Solvers work one at a time; the others wait.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import datasets
from .objectives import Objective
from .peers import quiet
from .solvers import Solver

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATIENCE_TO_PREPARE = 300.0


class Fit(NamedTuple):
    """One timed fit."""

    wall_seconds: float
    cpu_seconds: float
    prepare_seconds: float
    w: np.ndarray


class SolverFailed(RuntimeError):
    """The solver raised, or its process died."""


class Worker:
    """The process of one solver, started at the first fit and again after one that had to be stopped."""

    def __init__(self, solver: Solver):
        self.solver = solver
        self._process: Any = None
        self._connection: Any = None
        self._ready_for: Any = None

    def start(self) -> None:
        """Start the process and import the solver; ImportError if it is not installed."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        environment = {name: str(self.solver.threads) for name in _THREAD_VARIABLES} | {"OMP_WAIT_POLICY": "passive"}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)  # a spawned process reads them before it loads any library
        try:
            self._process = context.Process(target=_serve, args=(theirs, self.solver), daemon=True)
            self._process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()
        answer = self._ask(None, timeout=120.0)
        if answer != "ready":
            self.stop()
            raise ImportError(answer or "not imported within two minutes")

    def fit(self, path: Path, objective: Objective, rung: float, timeout: float) -> Fit | None:
        """Fit once; None if that took longer than `timeout` seconds."""
        if self._process is None:
            self.start()
        if self._ready_for != (path, objective):
            if self._ask(("prepare", path, objective), _PATIENCE_TO_PREPARE) is None:
                return None
            self._ready_for = (path, objective)
        return self._ask(("fit", rung), timeout)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = self._ready_for = None

    def _ask(self, task: Any, timeout: float) -> Any:
        """The worker's answer; None, and no worker any more, if there is none in time."""
        try:
            if task is not None:
                self._connection.send(task)
            if self._connection.poll(timeout):
                answer = self._connection.recv()
                if isinstance(answer, SolverFailed):
                    raise answer
                return answer
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self.stop()
            raise SolverFailed(f"the process of {self.solver.name} died") from error
        self.stop()
        return None


def _serve(connection: Connection, solver: Solver) -> None:
    """The life of a worker process."""
    quiet()
    try:
        solver.load()
        connection.send("ready")
    except Exception as error:  # a broken installation is as good as none
        connection.send(f"{type(error).__name__}: {error}".splitlines()[0])
        return
    session = _Session(solver)
    while True:
        try:
            task, *args = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(session, task)(*args)
        except Exception as error:
            answer = SolverFailed(f"{type(error).__name__}: {error}")
        try:
            connection.send(answer)
        except BrokenPipeError:  # the harness is gone
            return


class _Session:
    """The solver in its process, with the data it works on."""

    def __init__(self, solver: Solver):
        self.solver = solver
        self.path: Path | None = None
        self.prepared: Any = None
        self.prepare_seconds = 0.0

    def prepare(self, path: Path, objective: Objective) -> str:
        """Load a set if it is a new one; compile and load what the first fit would."""
        if path != self.path:
            self.prepared = self.few = None  # free the last set before the next is loaded
            data = datasets.load(path)
            self.few = self.solver.prepare(*datasets.few_rows(data.X, data.y))
            (_, self.prepare_seconds), self.prepared = _timed(self.solver.prepare, data.X, data.y)
            self.path = path
        self.objective = objective
        self.solver.rehearse(self.few, objective)
        return "ready"

    def fit(self, rung: float) -> Fit:
        """The timed fit."""
        times, fitted = _timed(self.solver.fit, self.prepared, self.objective, rung)
        return Fit(*times, self.prepare_seconds, self.solver.weights(fitted))


def _timed(function: Any, *args: Any) -> tuple[tuple[float, float], Any]:
    """Wall and processor seconds of a call without garbage collection, and what it returned."""
    gc.collect()
    gc.disable()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        result = function(*args)
        return (time.perf_counter() - wall, time.process_time() - cpu), result
    finally:
        gc.enable()
