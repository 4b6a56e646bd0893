"""What a solver is, and the one loop that runs every solver.

A `Solver` is a frozen dataclass of hyper-parameters with four methods: `init_state`, `update`, `report` and
`certificate`. `run` owns what all of them need: the stop at a certified relative gap, the limits on passes and seconds,
callbacks, history, Ctrl-C, checkpoints and resumption.

An update of a solver that makes passes is one iteration as its paper draws it, however long that takes. Ctrl-C and the
limit of time act within its passes: the iteration is dropped, and the state before it, which it has not touched, is the
answer. One that visits rows does a block of work of 10 ms or so, in place.

Nothing that depends on the clock changes the path of the iterates: certificates are asked for by the solver's own
belief and at fixed numbers of passes, so the same seed gives the same bits on a slow and on a fast machine, in one go
or resumed from a checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from maxmargin._code_cache import working_time
from maxmargin.data.rows import Array
from maxmargin.data.source import Paused, pausing
from maxmargin.penalties import L2
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.risks import SumOfLosses
from maxmargin.solvers.checks import check_run
from maxmargin.solvers.interrupts import catch_interrupt
from maxmargin.solvers.progress import Callback, Goal, Progress, Report, Result, State

_LEAST_BETWEEN = 1.0  # passes before the solver's belief counts again, after it was wrong


class GaveUp(Exception):
    """Raised by `update` or `reconsider` when a method cannot go on from its state: the run ends, as "stalled".

    A solver that works in place says in which state it has left its arrays, since the one before knows nothing of it.
    """

    def __init__(self, reason: str, state: State | None = None):
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True)
class Solver:
    """Hyper-parameters of one method. Subclasses say which losses and penalties they take, and how.

    `access` is how the method gets at the rows. "passes": it asks the problem questions, each of which is a pass over
    all rows (`maxmargin.problem.questions`). "blocks": it works on one partition of them after the other. "rows": it
    visits rows one by one, in any order. "stream": it visits them one by one, some at a time. "gram": it asks for
    kernel values of pairs of rows.
    """

    name: ClassVar[str]
    access: ClassVar[str] = "rows"
    losses: ClassVar[tuple[type, ...]]
    penalties: ClassVar[tuple[type, ...]] = (L2,)
    risks: ClassVar[tuple[type, ...]] = (SumOfLosses,)
    takes_free_intercept: ClassVar[bool] = False  # an intercept that the penalty is not over
    max_passes: ClassVar[float] = 1000.0  # where `max_iter=None` ends
    check_every: ClassVar[float] = 10.0  # passes between certificates that the solver did not ask for itself
    accuracy: ClassVar[float] = 0.0  # relative gap that a stochastic method reaches in these passes; 0: any
    is_in_place: ClassVar[bool]  # whether `update` is a block of work in place; an iteration that may be dropped if not
    proves: ClassVar[bool] = True  # whether it bounds its distance from the optimum; if not, it ends at a limit

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "is_in_place" not in cls.__dict__:
            cls.is_in_place = cls.access != "passes"

    def init_state(self, problem: Problem, seed: int | None = 0, start: State | None = None) -> State:
        """State before the first step; `start` is a state or result to begin from (warm start)."""
        raise NotImplementedError

    def update(self, problem: Problem, state: State, goal: Goal) -> State:
        """One iteration, which leaves `state` as it is, or a block of work, in place; see `is_in_place`."""
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
    if last / rows < goal.max_passes:  # by rounding; the loop would wait for ever
        return last + 1
    return last - ((last - 1) / rows >= goal.max_passes)


def weights_to_start_at(problem: Problem, start: Any) -> Array:
    """A copy of the w of another state, or zeros."""
    n = problem.n_weights
    w = np.zeros(n) if start is None else np.array(start.w, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"cannot start at {w.size} weights: the problem has {n}")
    return w


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
        Limit on passes over the data (default: the solver's own, 1000 for most). A solver that makes passes looks at it
        between iterations, and may exceed it by less than one of them.
    max_time : float, optional
        Limit in seconds, counted over resumptions.
    callbacks : iterable of callables
        Each is called with a `Progress` after every update; one that returns True stops the run.
    start : state or Result, optional
        Begin here instead of at zero.
    seed : int, optional
    checkpoint : path, optional
        File to save the state to, every `checkpoint_every` seconds and at the end, also if a pass over the rows fails.
        If it exists, the run goes on from it, to the same bits as if it had never stopped.
    interrupt : threading.Event, optional
        Stops the run when set. By default Ctrl-C sets one, if this is the main thread; see `catch_interrupt`.
    give_up : callable, optional
        Given the history so far (a list of entries) after each certificate that does not meet the goal; True ends the
        run as "stalled". For `solvers.auto`, which then goes on with another solver.
    check_every : float, optional
        Passes between certificates that the solver does not ask for itself (default: the solver's own, 10 for most).
        Each costs a third of a pass to two passes, so the work between two of them bounds their share of the time.

    Examples
    --------
    >>> from maxmargin import Problem
    >>> from maxmargin.solvers.coordinate.dual_cd import DualCD
    >>> run(DualCD(), Problem([[1.0], [-2.0], [0.5]], [1, -1, -1], loss="hinge"), max_iter=100).stop_reason
    'converged'
    """
    check_run(solver, problem, tol, max_iter, max_time)
    with contextlib.ExitStack() as stack:
        if interrupt is None:
            interrupt = stack.enter_context(catch_interrupt())
        loop = _Loop(solver, problem, Goal(float(tol), float(max_iter or solver.max_passes)), give_up, check_every)
        loop.ends_at_rounding = tol > 0.0 or max_iter is None or give_up is not None
        loop.begin(seed, start.state if isinstance(start, Result) else start, checkpoint)
        try:
            return loop.run(math.inf if max_time is None else max_time, list(callbacks), interrupt, checkpoint_every)
        except Exception:  # a damaged block, a lost cluster: iterations that were whole are not lost with it
            if solver.access == "passes":
                loop.save()
            raise


def _size(certificate: Certificate) -> float:
    """What a gap is compared with."""
    return max(abs(certificate.primal), getattr(certificate, "scale", 0.0))


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
        self.started = working_time()
        self.checkpoint: Any = None
        self.is_warm = False  # begun at somebody's solution, which may be good enough
        self.detail = ""  # why the solver gave up
        self.rounding = 0.0  # what rounding can do to the latest gap
        self.ends_at_rounding = True  # rather than at a number of passes that was asked for without a goal

    def begin(self, seed: int | None, start: State | None, path: str | PathLike[str] | None) -> None:
        self.state = self.solver.init_state(self.problem, seed, start)
        self.is_warm = start is not None
        if path is not None:
            from maxmargin.models.checkpoint import Checkpoint

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
        return self.seconds_before + working_time() - self.started

    def run(self, max_time: float, callbacks: list[Callback], interrupt: threading.Event, save_every: float) -> Result:
        solver, problem, goal = self.solver, self.problem, self.goal
        report = solver.report(problem, self.state, goal)
        reason = "converged" if self._had_converged(report) else self._limit(report, max_time, interrupt)
        if self.is_warm and reason is None and solver.proves:
            self.history.append(self._certify(report))
            reason = "converged" if self._is_proven() else None
        next_save = working_time() + save_every
        while reason is None:
            try:
                self._update(self._milestone(report, bool(callbacks)), max_time, interrupt)
            except Paused:
                reason = self._limit(report, max_time, interrupt)
                if reason is None:  # compiling, whose time has been taken off since, had brought it to the limit
                    continue
                break
            except GaveUp as why:
                reason, self.detail = "stalled", str(why)
                if why.state is not None:
                    self.state = why.state
                    report = solver.report(problem, self.state, goal)
                break
            before, report = report, solver.report(problem, self.state, goal)
            if self._is_worth_a_certificate(report, is_idle=report.passes == before.passes):
                self.history.append(self._certify(report))
                if self._is_proven():
                    reason = "converged"
                elif self._is_down_to_rounding():
                    reason = "rounding"
                elif self.certificate is not None and not math.isfinite(self.certificate.gap):
                    reason, self.detail = "stalled", "the objective is no longer a finite number"
                elif self.give_up is not None and self.give_up(self.history):
                    reason = "stalled"
                elif self.certificate is not None:
                    try:
                        self.state = solver.reconsider(problem, self.state, goal, self.certificate)
                    except GaveUp as why:
                        reason, self.detail = "stalled", str(why)
            progress = Progress(problem, solver, self.state, self.seconds, report, self.certificate, goal, max_time)
            answers = [callback(progress) for callback in callbacks]  # every one of them is called
            reason = reason or self._limit(report, max_time, interrupt) or ("callback" if any(answers) else None)
            if reason is None and working_time() >= next_save:
                self.save()
                next_save = working_time() + save_every
        assert reason is not None
        return self._end(report, reason)

    def _update(self, goal: Goal, max_time: float, interrupt: threading.Event) -> None:
        """One update. An iteration that is paused half-way, or leads out of the numbers, leaves the state as it was."""
        if self.solver.is_in_place:
            self.is_certified = False
            self.state = self.solver.update(self.problem, self.state, goal)
        else:
            with pausing(lambda: interrupt.is_set() or self.seconds >= max_time), np.errstate(all="ignore"):
                try:
                    state = self.solver.update(self.problem, self.state, goal)
                except (ArithmeticError, np.linalg.LinAlgError) as error:
                    raise GaveUp(str(error)) from error
            if not np.isfinite(state.w).all():
                raise GaveUp("the weights are no longer finite")
            self.state = state
        self.is_certified = False

    def _milestone(self, report: Report, is_watched: bool) -> Goal:
        """The goal of one update: the next certificate, or the end of a pass if a callback waits for it."""
        passes = min(self.goal.max_passes, self.next_check)
        if is_watched:
            passes = min(passes, math.floor(report.passes) + 1.0)
        if report.believes and report.passes < self._believed_again:  # it would return after every small sweep
            return Goal(0.0, min(passes, self._believed_again))
        return self.goal._replace(max_passes=passes)

    @property
    def _believed_again(self) -> float:
        """The passes from which on the solver's belief counts: soon after a certificate it did not hold."""
        return self.history[-1]["passes"] + _LEAST_BETWEEN if self.history else -math.inf

    def _had_converged(self, report: Report) -> bool:
        """Whether this run was resumed at its end."""
        last = self.history[-1] if self.history else {"passes": math.nan}
        return last["passes"] == report.passes and last.get("relative_gap", math.inf) <= self.goal.tol

    def _limit(self, report: Report, max_time: float, interrupt: threading.Event) -> str | None:
        if interrupt.is_set():
            return "interrupted"
        if report.passes >= self.goal.max_passes:
            return "max_iter"
        is_worth_keeping = self.solver.proves or report.passes > 0.0  # nothing can be said of an unproven start
        return "max_time" if self.seconds >= max_time and is_worth_keeping else None

    def _certify(self, report: Report) -> dict[str, float]:
        """Make a certificate of the present state, if the solver proves; its entry in the history."""
        entry = {}
        if self.solver.proves:
            self.certificate = c = self._with_rounding(self.solver.certificate(self.problem, self.state))
            entry = {"primal": c.primal, "dual": c.dual, "relative_gap": c.relative_gap}
        self.is_certified = True
        self.next_check = report.passes + self.check_every
        entry = {"seconds": self.seconds, "passes": report.passes} | entry | report.counters
        return {name: float(number) for name, number in entry.items()}

    def _with_rounding(self, computed: Certificate) -> Certificate:
        if not hasattr(self.problem, "with_rounding"):
            self.rounding = getattr(computed, "rounding", 0.0)  # kernel machines count it at once
            return computed
        certificate, self.rounding = self.problem.with_rounding(
            self.state.w, computed, getattr(self.state, "alpha", None)
        )
        return certificate

    def _is_worth_a_certificate(self, report: Report, is_idle: bool) -> bool:
        if report.passes >= self.next_check:
            return True
        return report.believes and (is_idle or report.passes >= self._believed_again)

    def _is_proven(self) -> bool:
        """Whether the goal is reached, also if rounding was at its worst."""
        return self.certificate is not None and self.certificate.relative_gap <= self.goal.tol

    def _is_down_to_rounding(self) -> bool:
        """Whether the goal cannot be proven in these numbers, and the gap is such that nothing better can be either."""
        c = self.certificate
        if c is None or not self.rounding > 0.0 or not self.ends_at_rounding:
            return False
        return self.rounding > self.goal.tol * (_size(c) - self.rounding) and c.gap <= 2.0 * self.rounding

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
            elif reason == "stalled" and self._is_down_to_rounding():  # it gave up for that
                reason, self.detail = "rounding", ""
        return Result(
            w=getattr(self.state, "w", None),
            alpha=getattr(self.state, "alpha", None),
            certificate=self.certificate,
            history={name: np.array([entry[name] for entry in history]) for name in history[0]},
            stop_reason=reason,
            passes=report.passes,
            seconds=self.seconds,
            solver=self.solver,
            state=self.state,
            detail=self.detail,
        )
