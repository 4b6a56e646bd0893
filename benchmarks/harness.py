"""Time to a true suboptimality, for every solver on every case (a data set and an objective).

Each solver climbs its ladder of tolerances from loose to tight until the tightest target is met, then tries half a
rung looser for each target. What counts is (P(w) - P*) / P*, computed here, never the solver's own criterion. The
winning rungs of all solvers are then run again, interleaved, and the medians of these runs are the result.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from . import reference
from .datasets import Dataset
from .objectives import Objective
from .solvers import Solver
from .worker import Fit, SolverFailed, Worker


@dataclass(frozen=True)
class Options:
    """How thorough a run is."""

    targets: tuple[float, ...] = (1e-3, 1e-6)
    repeat: int = 3
    cap: float = 60.0  # seconds that one fit may take
    patience: float = 20.0  # a solver may be this many times slower than the fastest before it is given up
    least_patience: float = 2.0  # seconds; below them nobody is given up
    budget: float = 600.0  # seconds that one solver may spend on one case, repetitions aside
    repeat_within: float = np.inf  # seconds for all repetitions of a case; at least one is made


@dataclass(frozen=True)
class Run:
    """One fit. A fit that was stopped has an infinite objective."""

    rung: float
    seconds: float  # what is reported, see `clock`
    wall_seconds: float
    cpu_seconds: float
    primal: float


@dataclass
class Climb:
    """What one solver did on one case."""

    solver: Solver
    worker: Worker
    runs: list[Run] = field(default_factory=list)
    repeats: dict[float, list[Run]] = field(default_factory=dict)
    prepare_seconds: float = 0.0
    given_up: str = ""

    def best(self, target: float, optimum: float) -> Run | None:
        """The cheapest run that meets the target."""
        meeting = [run for run in self.runs if suboptimality(run, optimum) <= target]
        return min(meeting, key=lambda run: run.cpu_seconds, default=None)

    @property
    def spent(self) -> float:
        """Wall seconds of all fits so far, repetitions aside."""
        return sum(run.wall_seconds for run in self.runs)

    def expected_seconds(self) -> float:
        """What the next rung will take if it is to the last what the last was to the one before."""
        if len(self.runs) < 2:
            return 0.0
        before, last = self.runs[-2].wall_seconds, self.runs[-1].wall_seconds
        return last * max(1.0, last / before)

    def next_rung(self) -> float | None:
        """The loosest rung not tried yet."""
        tried = {run.rung for run in self.runs}
        return next((rung for rung in self.solver.rungs if rung not in tried), None)

    def rung_between(self, target: float, optimum: float) -> float | None:
        """Halfway between the rung that meets the target and the one before it, which does not."""
        best = self.best(target, optimum)
        if best is None or best.rung not in self.solver.rungs:
            return None
        place = self.solver.rungs.index(best.rung)
        if place == 0:
            return None
        middle = float(np.sqrt(best.rung * self.solver.rungs[place - 1]))
        if isinstance(best.rung, int):  # numbers of passes
            middle = round(middle)
        return None if middle in {run.rung for run in self.runs} | set(self.solver.rungs) else middle

    def median(self, target: float, optimum: float) -> float | None:
        """Median seconds over the repetitions of the cheapest run that meets the target."""
        best = self.best(target, optimum)
        if best is None:
            return None
        return statistics.median(run.seconds for run in self.repeats.get(best.rung, [best]))


def clock(solver: Solver, fit: Fit) -> float:
    """Processor seconds of solvers with one thread, which a busy machine disturbs least; else wall seconds.

    On an idle machine the two agree, and a solver that keeps more threads than it says gains nothing.
    """
    return fit.cpu_seconds if solver.threads == 1 else fit.wall_seconds


def suboptimality(run: Run, optimum: float) -> float:
    """(P(w) - P*) / P*."""
    return (run.primal - optimum) / optimum


class Case:
    """One data set with one objective, and all solvers' climbs on it."""

    def __init__(self, data: Dataset, objective: Objective, workers: Iterable[Worker], options: Options):
        self.data, self.objective, self.options = data, objective, options
        self.reference = reference.get(data, objective)
        suitable = [worker for worker in workers if objective.loss in worker.solver.losses]
        self.climbs = [Climb(worker.solver, worker) for worker in suitable]
        self.elapsed = 0.0

    def run(self) -> None:
        """Climb, refine, repeat."""
        start = time.perf_counter()
        self._climb()
        self._refine()
        self._climb()  # a refined run may have lowered the optimum
        self._repeat()
        reference.lower(self.data, self.objective, self.reference, self.optimum)
        self.elapsed = time.perf_counter() - start

    @property
    def optimum(self) -> float:
        """The best objective known: the reference's or a solver's."""
        return min([self.reference.primal] + [run.primal for climb in self.climbs for run in climb.runs])

    @property
    def uncertainty(self) -> float:
        """How far below `optimum` the true optimum can be, relatively."""
        return (self.optimum - self.reference.dual) / self.optimum

    def _limit(self, climb: Climb) -> float:
        """Seconds that a solver's next fit may take."""
        tightest = min(self.options.targets)
        times = [run.wall_seconds for other in self.climbs if (run := other.best(tightest, self.optimum)) is not None]
        patience = self.options.patience * min(times, default=np.inf)
        limit = min(self.options.cap, patience, self.options.budget - climb.spent)
        return max(limit, self.options.least_patience)

    def _climb(self) -> None:
        """All solvers in turn, a rung each, until all are there or have given up."""
        while pending := [climb for climb in self.climbs if self._goes_on(climb)]:
            for climb in pending:
                self._fit(climb, climb.next_rung(), self._limit(climb))

    def _goes_on(self, climb: Climb) -> bool:
        if climb.given_up or climb.best(min(self.options.targets), self.optimum):
            return False
        limit = self._limit(climb)
        if climb.next_rung() is None:
            climb.given_up = "no tighter setting"
        elif climb.expected_seconds() > 1.5 * limit or climb.spent > self.options.budget:
            climb.given_up = f"given up at {limit:.2g} s"
        return not climb.given_up

    def _refine(self) -> None:
        """Half a rung looser, for every target that was met."""
        for climb in self.climbs:
            for target in self.options.targets:
                best, rung = climb.best(target, self.optimum), climb.rung_between(target, self.optimum)
                if best is not None and rung is not None:
                    self._fit(climb, rung, max(2.0 * best.wall_seconds, self.options.least_patience))

    def _fit(self, climb: Climb, rung: float | None, limit: float) -> None:
        if rung is None:
            return
        try:
            fit = climb.worker.fit(self.data.path, self.objective, rung, limit)
        except SolverFailed as error:
            climb.given_up = f"failed: {error}"
            return
        if fit is None:
            climb.runs.append(Run(rung, limit, limit, limit, np.inf))
            climb.given_up = f"stopped at {limit:.2g} s"
        else:
            climb.prepare_seconds = fit.prepare_seconds
            climb.runs.append(self._measured(climb, rung, fit))
        print(".", end="", file=sys.stderr, flush=True)

    def _measured(self, climb: Climb, rung: float, fit: Fit) -> Run:
        primal = self.objective.primal(self.data.X, self.data.y, fit.w)
        return Run(rung, clock(climb.solver, fit), fit.wall_seconds, fit.cpu_seconds, primal)

    def _repeat(self) -> None:
        """Run the winning rungs again, in turn, so that a busy minute of the machine hits all alike."""
        optimum = self.optimum
        winners = {
            (index, run.rung): run.wall_seconds
            for index, climb in enumerate(self.climbs)
            for target in self.options.targets
            if (run := climb.best(target, optimum)) is not None
        }
        affordable = self.options.repeat_within / max(sum(winners.values()), 1e-9)
        for _ in range(max(1, min(self.options.repeat, int(min(affordable, 1e9))))):
            for index, rung in winners:
                climb = self.climbs[index]
                with contextlib.suppress(SolverFailed):
                    fit = climb.worker.fit(self.data.path, self.objective, rung, 10 * self.options.cap)
                    if fit is not None:
                        climb.repeats.setdefault(rung, []).append(self._measured(climb, rung, fit))
        print(file=sys.stderr)
