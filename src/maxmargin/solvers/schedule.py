"""How several problems over the same rows are solved, such as the classes of one-vs-rest: which of them at a time.

In memory, several at a time, each on a thread. Elsewhere one after the other, each with all threads; but over rows that
have to be read again at each pass in lock step, so that one pass over them serves all (`maxmargin.data.lock_step`). The
results of a solver have the same bits in any case. In lock step "auto" takes solvers that make passes, also where it
begins with "block_cd" for a single problem: what that loads serves no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maxmargin.data.lock_step import LockStep
from maxmargin.parallel import map_ordered
from maxmargin.problem import Problem
from maxmargin.solvers import registry
from maxmargin.solvers.base import Solver

T = TypeVar("T")


class Schedule:
    """How to solve several problems.

    Parameters
    ----------
    problems : sequence of Problem
        If it has an attribute `problem`, that tells where the rows are, and the others need not be made for it.
    solver : str or Solver
    n_jobs : int
        Threads.

    Attributes
    ----------
    at_once : int
        How many problems are under way at a time.
    """

    def __init__(self, problems: Sequence[Problem], solver: str | Solver, n_jobs: int):
        self.problems, self.n_jobs = problems, n_jobs
        n = len(problems)
        any_of_them: Any = getattr(problems, "problem", None) or problems[0]
        self._source: Any = None
        self.at_once = min(n_jobs, n)
        if "rows" not in any_of_them.accesses:
            self.at_once = 1
            source = any_of_them.source.with_jobs(n_jobs)
            if n > 1 and hasattr(source, "in_step") and _makes_passes(solver):
                self.at_once, self._source = source.runs_at_once(n), source

    def map(self, function: Callable[[int, Problem], T]) -> list[T]:
        """`function(k, problem)` of each problem, in their order."""
        if self.at_once == 1:
            return [function(k, self.problems[k].with_jobs(self.n_jobs)) for k in range(len(self.problems))]
        if self._source is None:
            return map_ordered(
                lambda k: function(k, self.problems[k].with_jobs(1)), range(len(self.problems)), self.n_jobs
            )
        together = LockStep(self._source, self.at_once)
        source = self._source.in_step(together)
        return together.map(lambda k: function(k, self.problems[k].with_source(source)), len(self.problems))


def _makes_passes(solver: Any) -> bool:
    """Whether a solver gets at the rows by passes alone, or can be one that does."""
    if isinstance(solver, str):
        return solver == "auto" or registry.get(solver).access == "passes"
    return bool(solver.access == "passes")
