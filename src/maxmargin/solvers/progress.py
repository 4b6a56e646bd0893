"""What goes into a run and comes out of it: the goal, a solver's report, what callbacks see, the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from maxmargin.data.rows import Array
from maxmargin.problem import Certificate, Problem

if TYPE_CHECKING:
    from maxmargin.solvers.base import Solver

State = Any  # a NamedTuple of arrays, numbers and such NamedTuples


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


class Progress(NamedTuple):
    """What a callback sees.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[1.0], [-2.0], [0.5]], [1, -1, -1], loss="hinge")
    >>> solve(problem, "pegasos", tol=1e-9, callbacks=[lambda progress: progress.passes >= 2]).stop_reason
    'callback'
    """

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
    w : ndarray or None
        Weights; the last one belongs to the virtual intercept column if there is one. None if the model has none.
    alpha : ndarray or None
        Dual variables, from solvers that keep them.
    certificate : Certificate or None
        Proven bounds on the optimum, for this w; None from a solver that does not prove.
    history : dict of str to ndarray
        One entry per certificate: seconds, passes, primal, dual, relative_gap and the solver's work counters. Of a
        solver that does not prove, one entry a pass, without the bounds.
    stop_reason : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding": what rounding may do is more than
        tol, and the gap is no more than that; or "stalled": the solver could not go on.
    passes, seconds : float
    solver : Solver
    state : NamedTuple
        For warm starts.
    detail : str
        Why the solver could not go on, if it is "stalled" by its own account.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> result = solve(Problem([[1.0], [-2.0], [0.5]], [1, -1, -1], loss="hinge"), "dual_cd")
    >>> result.stop_reason, result.w.shape
    ('converged', (1,))
    """

    w: Any
    alpha: Array | None
    certificate: Any
    history: dict[str, Array]
    stop_reason: str
    passes: float
    seconds: float
    solver: Solver
    state: State
    detail: str = ""
