"""What a solver is, and the one loop that runs every solver.

A `Solver` is a frozen dataclass of hyper-parameters with four methods: `init_state`, `update` (a block of work of
10 ms or so), `report` and `certificate`. `run` owns what all of them need: the stop at a certified relative gap, the
limits on passes and seconds, callbacks, history, Ctrl-C, checkpoints and resumption.

Nothing that depends on the clock changes the path of the iterates: certificates are asked for by the solver's own
belief and at fixed numbers of passes, so the same seed gives the same bits on a slow and on a fast machine, in one go
or resumed from a checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array

State = Any  # a NamedTuple of arrays, numbers and such NamedTuples

_LEAST_BETWEEN = 1.0  # passes before the solver's belief counts again, after it was wrong


class Goal(NamedTuple):
    """What a run is after: a solver returns from `update` early when it believes to be there."""

    tol: float
    max_passes: float


class Report(NamedTuple):
    """What a solver knows of its progress without a pass over the data."""

    passes: float  # rows visited / rows
    primal: float  # estimates; nan where the solver has none
    dual: float
    believes: bool  # that the goal is reached: worth a certificate
    counters: dict[str, float]  # further work counters, for the history


@dataclass(frozen=True)
class Solver:
    """Hyper-parameters of one method. Subclasses say which losses and penalties they take, and how."""

    name: ClassVar[str]
    losses: ClassVar[tuple[type, ...]]
    penalties: ClassVar[tuple[str, ...]] = ("l2",)
    takes_free_intercept: ClassVar[bool] = False  # an intercept that the penalty is not over
    max_passes: ClassVar[float] = 1000.0  # where `max_iter=None` ends
    check_every: ClassVar[float] = 10.0  # passes between certificates that the solver did not ask for itself
    accuracy: ClassVar[float] = 0.0  # relative gap that a stochastic method reaches in these passes; 0: any

    def init_state(self, problem: Problem, seed: int | None = 0, start: State | None = None) -> State:
        """State before the first step; `start` is a state or result to begin from (warm start)."""
        raise NotImplementedError

    def update(self, problem: Problem, state: State, goal: Goal) -> State:
        """A block of work, in place where that saves memory."""
        raise NotImplementedError

    def report(self, problem: Problem, state: State, goal: Goal) -> Report:
        """Progress so far, for free."""
        raise NotImplementedError

    def certificate(self, problem: Problem, state: State) -> Certificate:
        """Proven bounds for the present w; a pass over the data or two."""
        return problem.certificate(state.w, getattr(state, "alpha", None))

    def reconsider(self, problem: Problem, state: State, goal: Goal, certificate: Certificate) -> State:
        """Learn from a certificate that does not meet the goal: above all, what if the solver had believed it would."""
        return state


def last_visit_of(goal: Goal, rows: int) -> int:
    """How many rows may have been visited when the goal's passes are over."""
    last = math.ceil(min(goal.max_passes * rows, 2.0**62))
    return last + (last / rows < goal.max_passes)  # by rounding; the loop would wait for ever


def weights_to_start_at(problem: Problem, start: Any) -> Array:
    """A copy of the w of another state, or zeros."""
    n = problem.n_weights
    w = np.zeros(n) if start is None else np.array(start.w, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"cannot start at {w.size} weights: the problem has {n}")
    return w


class Progress(NamedTuple):
    """What a callback sees."""

    problem: Problem
    solver: Solver
    state: State
    seconds: float
    report: Report
    certificate: Certificate | None  # the latest one
    goal: Goal
    max_time: float

    @property
    def passes(self) -> float:
        """Passes over the data so far."""
        return self.report.passes

    @property
    def relative_gap(self) -> float:
        """The solver's own estimate where it has one, else the last certified gap; nan before either is there."""
        estimate = (self.report.primal - self.report.dual) / self.report.primal if self.report.primal else math.nan
        if math.isfinite(estimate):
            return estimate
        return self.certificate.relative_gap if self.certificate else math.nan


Callback = Callable[[Progress], "bool | None"]


@dataclass(frozen=True, eq=False)
class Result:
    """The answer of a run.

    Attributes
    ----------
    w : ndarray
        Weights; the last one belongs to the virtual intercept column if there is one.
    alpha : ndarray or None
        Dual variables, from solvers that keep them.
    certificate : Certificate
        Proven bounds on the optimum, for this w.
    history : dict of str to ndarray
        One entry per certificate: seconds, passes, primal, dual, relative_gap and the solver's work counters.
    stop_reason : str
        "converged", "max_iter", "max_time", "interrupted" or "callback".
    passes, seconds : float
    solver : Solver
    state : NamedTuple
        For warm starts.
    """

    w: Array
    alpha: Array | None
    certificate: Certificate
    history: dict[str, Array]
    stop_reason: str
    passes: float
    seconds: float
    solver: Solver
    state: State


def run(
    solver: Solver,
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_iter: float | None = None,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    start: State | Result | None = None,
    seed: int | None = 0,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    interrupt: threading.Event | None = None,
    give_up: Callable[[list[dict[str, float]]], bool] | None = None,
    check_every: float | None = None,
) -> Result:
    """Run a solver until the certified relative gap is at most `tol`, or a limit is met.

    Parameters
    ----------
    solver : Solver
    problem : Problem
    tol : float
        Stop when primal - dual <= tol * primal is proven.
    max_iter : float, optional
        Limit on passes over the data (default: the solver's own, 1000 for most).
    max_time : float, optional
        Limit in seconds, counted over resumptions.
    callbacks : iterable of callables
        Each is called with a `Progress` after every update; one that returns True stops the run.
    start : state or Result, optional
        Begin here instead of at zero.
    seed : int, optional
    checkpoint : path, optional
        File to save the state to, every `checkpoint_every` seconds and at the end. If it exists, the run goes on
        from it, to the same bits as if it had never stopped.
    interrupt : threading.Event, optional
        Stops the run when set. By default Ctrl-C sets one, if this is the main thread; a second Ctrl-C raises
        KeyboardInterrupt as usual.
    give_up : callable, optional
        Given the history so far (a list of entries) after each certificate that does not meet the goal; True ends the
        run as "stalled". For `solvers.auto`, which then goes on with another solver.
    check_every : float, optional
        Passes between certificates that the solver does not ask for itself (default: the solver's own, 10 for most).
        Each costs a third of a pass to two passes, so the work between two of them bounds their share of the time.
    """
    _check_arguments(solver, problem, tol, max_iter, max_time)
    with contextlib.ExitStack() as stack:
        if interrupt is None:
            interrupt = stack.enter_context(catch_interrupt())
        loop = _Loop(solver, problem, Goal(float(tol), float(max_iter or solver.max_passes)), give_up, check_every)
        loop.begin(seed, start.state if isinstance(start, Result) else start, checkpoint)
        return loop.run(math.inf if max_time is None else max_time, list(callbacks), interrupt, checkpoint_every)


def _check_arguments(
    solver: Solver, problem: Problem, tol: float, max_iter: float | None, max_time: float | None
) -> None:
    if not isinstance(problem.loss, solver.losses):
        taken = ", ".join(losses.name_of_type(tag) for tag in solver.losses)
        raise ValueError(
            f"solver {solver.name!r} does not take loss {losses.name_of(problem.loss)!r}; it takes {taken}"
        )
    if problem.penalty not in solver.penalties:
        raise ValueError(_cannot(solver, problem, f"penalty {problem.penalty!r}"))
    if problem.has_free_intercept and not solver.takes_free_intercept:
        raise ValueError(_cannot(solver, problem, "an intercept without penalty (penalize_intercept=False)"))
    if not tol >= 0.0:
        raise ValueError(f"tol must be >= 0, got {tol!r}")
    if max_iter is not None and not max_iter > 0:
        raise ValueError(f"max_iter must be positive or None, got {max_iter!r}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be positive or None, got {max_time!r}")


def _cannot(solver: Solver, problem: Problem, what: str) -> str:
    from maxmargin.solvers import supporting

    able = ", ".join(supporting(problem.loss, problem.penalty, free_intercept=problem.has_free_intercept))
    return f"solver {solver.name!r} does not take {what}; " + (
        f"for loss {losses.name_of(problem.loss)!r} these do: {able}" if able else "with this loss no solver does yet"
    )


class _Loop:
    """The loop's own moving parts: the solver's state, the clock, the history, the next certificate."""

    def __init__(
        self,
        solver: Solver,
        problem: Problem,
        goal: Goal,
        give_up: Callable[[list[dict[str, float]]], bool] | None = None,
        check_every: float | None = None,
    ):
        self.solver, self.problem, self.goal, self.give_up = solver, problem, goal, give_up
        self.check_every = solver.check_every if check_every is None else check_every
        self.history: list[dict[str, float]] = []
        self.certificate: Certificate | None = None  # the latest one
        self.is_certified = False  # whether it is of the present state
        self.next_check = self.check_every
        self.seconds_before = 0.0  # spent before the resumption
        self.started = time.perf_counter()
        self.checkpoint: Any = None
        self.is_warm = False  # begun at somebody's solution, which may be good enough

    def begin(self, seed: int | None, start: State | None, path: str | PathLike[str] | None) -> None:
        self.state = self.solver.init_state(self.problem, seed, start)
        self.is_warm = start is not None
        if path is not None:
            from maxmargin.checkpoint import Checkpoint

            self.checkpoint = Checkpoint(path, self.solver, self.problem, seed)
            saved = self.checkpoint.load(self.state)
            if saved is not None:
                self.state, self.history, self.seconds_before, self.next_check = saved
                self.is_warm = False
            elif start is not None:  # what it is worth is nowhere else
                self.save()

    def save(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(self.state, self.history, self.seconds, self.next_check)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    def run(self, max_time: float, callbacks: list[Callback], interrupt: threading.Event, save_every: float) -> Result:
        solver, problem, goal = self.solver, self.problem, self.goal
        report = solver.report(problem, self.state, goal)
        reason = "converged" if self._had_converged(report) else self._limit(report, max_time, interrupt)
        if self.is_warm and reason is None:
            self.history.append(self._certify(report))
            reason = "converged" if self._is_proven() else None
        next_save = time.perf_counter() + save_every
        while reason is None:
            self.state = solver.update(problem, self.state, self._milestone(report, bool(callbacks)))
            self.is_certified = False
            before, report = report, solver.report(problem, self.state, goal)
            if self._is_worth_a_certificate(report, is_idle=report.passes == before.passes):
                self.history.append(self._certify(report))
                assert self.certificate is not None
                if self._is_proven():
                    reason = "converged"
                elif self.give_up is not None and self.give_up(self.history):
                    reason = "stalled"
                else:
                    self.state = solver.reconsider(problem, self.state, goal, self.certificate)
            progress = Progress(problem, solver, self.state, self.seconds, report, self.certificate, goal, max_time)
            answers = [callback(progress) for callback in callbacks]  # every one of them is called
            reason = reason or self._limit(report, max_time, interrupt) or ("callback" if any(answers) else None)
            if reason is None and time.perf_counter() >= next_save:
                self.save()
                next_save = time.perf_counter() + save_every
        return self._end(report, reason)

    def _milestone(self, report: Report, is_watched: bool) -> Goal:
        """The goal of one update: the next certificate, or the end of a pass if a callback waits for it."""
        passes = min(self.goal.max_passes, self.next_check)
        return self.goal._replace(max_passes=min(passes, math.floor(report.passes) + 1.0) if is_watched else passes)

    def _had_converged(self, report: Report) -> bool:
        """Whether this run was resumed at its end."""
        last = self.history[-1] if self.history else {"passes": math.nan}
        return last["passes"] == report.passes and last["relative_gap"] <= self.goal.tol

    def _limit(self, report: Report, max_time: float, interrupt: threading.Event) -> str | None:
        if interrupt.is_set():
            return "interrupted"
        if report.passes >= self.goal.max_passes:
            return "max_iter"
        return "max_time" if self.seconds >= max_time else None

    def _certify(self, report: Report) -> dict[str, float]:
        """Make a certificate of the present state; its entry in the history."""
        self.certificate = c = self.solver.certificate(self.problem, self.state)
        self.is_certified = True
        self.next_check = report.passes + self.check_every
        entry = {"seconds": self.seconds, "passes": report.passes, "primal": c.primal, "dual": c.dual}
        entry |= {"relative_gap": c.relative_gap} | report.counters
        return {name: float(number) for name, number in entry.items()}

    def _is_worth_a_certificate(self, report: Report, is_idle: bool) -> bool:
        if report.passes >= self.next_check:
            return True
        last = self.history[-1]["passes"] if self.history else -math.inf
        return report.believes and (is_idle or report.passes >= last + _LEAST_BETWEEN)

    def _is_proven(self) -> bool:
        return self.certificate is not None and self.certificate.relative_gap <= self.goal.tol

    def _end(self, report: Report, reason: str) -> Result:
        """The result, with a certificate of this very state."""
        self.save()  # before the certificate below, which a run that is not stopped here would not ask for
        history = self.history
        if not self.is_certified:
            entry = self._certify(report)
            if not history or history[-1]["passes"] < report.passes:  # else it was resumed here
                history = [*history, entry]
            if self._is_proven():
                reason, self.history = "converged", history
                self.save()
        assert self.certificate is not None
        return Result(
            w=self.state.w,
            alpha=getattr(self.state, "alpha", None),
            certificate=self.certificate,
            history={name: np.array([entry[name] for entry in history]) for name in history[0]},
            stop_reason=reason,
            passes=report.passes,
            seconds=self.seconds,
            solver=self.solver,
            state=self.state,
        )


# ---------------------------------------------------------------- Ctrl-C

_caught: threading.Event | None = None  # of the outermost `catch_interrupt`, while it lasts


@contextlib.contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """While the context lasts, let the first Ctrl-C set an event; a second one raises KeyboardInterrupt.

    Only the main thread receives signals: elsewhere the event is never set. Nested contexts share one event.
    """
    global _caught
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _caught is not None:
        yield _caught
        return
    event = threading.Event()

    def on_signal(signum: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody else handles it: leave it to them
        yield event
        return
    signal.signal(signal.SIGINT, on_signal)
    _caught = event
    try:
        yield event
    finally:
        _caught = None
        signal.signal(signal.SIGINT, before)
