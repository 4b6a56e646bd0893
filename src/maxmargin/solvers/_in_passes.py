"""The course of a method that visits all rows in passes, averages its iterates, and keeps windows of slopes.

Certificates are due after 1, 2, 4, 8, ... passes. The slopes -phi'(t_i) that the steps have met, summed over the visits
of each row since the last of these, and those of the window before, make the dual point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, n_stored
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of
from maxmargin.weights import is_milestone, restart

_BLOCK = 1 << 22  # stored values that one update walks over: about 10 ms


class InPasses(Solver):
    """Its states have `x`, `average`, `order` and `course`.

    The course, a NamedTuple, has `passes` (that are over), `position` (in the order of this pass), `window` and
    `window_before` (passes of the present window that are over, and of the one before) and `next_certificate` (after
    so many passes).
    """

    def _averages_suffix(self) -> bool:
        """Whether the average begins anew at milestones."""
        raise NotImplementedError

    def _new_order(self, problem: Problem, state: Any) -> None:
        """Put the rows in the order of the next pass."""
        raise NotImplementedError

    def _run(self, problem: Problem, state: Any, course: Any, n: int, visits: int) -> Any:
        """Steps on n rows or a few more of this pass, after as many visits; the course with its new position."""
        raise NotImplementedError

    def _windows(self, state: Any) -> Iterable[tuple[Array, Array]]:
        """Pairs of arrays: what belongs to the window before, and to the present one."""
        raise NotImplementedError

    def _dual_point(self, problem: Problem, state: Any) -> Array:
        """The dual point that the slopes make."""
        raise NotImplementedError

    def update(self, problem: Problem, state: Any, goal: Goal) -> Any:
        """Steps for a block of work, to the next certificate or the goal's passes."""
        rows, course = len(state.order), state.course
        visits = course.passes * rows + course.position
        last_visit = min(last_visit_of(goal, rows), max(course.next_certificate * rows, visits + 1))
        last_visit = min(last_visit, visits + 1 + _BLOCK // (1 + n_stored(problem.rows) // problem.n_rows))
        while visits < last_visit:
            if course.position == 0:
                self._new_order(problem, state)
            before = course.position
            course = self._run(problem, state, course, min(rows - before, last_visit - visits), visits)
            visits += course.position - before
            if course.position == rows:
                course = self._end_pass(state, course)
        return state._replace(course=course)

    def _end_pass(self, state: Any, course: Any) -> Any:
        """Windows begin anew: the average's at milestones, the dual point's after 1, 2, 4, 8, ... passes."""
        passes = course.passes + 1
        course = course._replace(passes=passes, position=0, window=course.window + 1)
        if self._averages_suffix() and is_milestone(passes):
            restart(state.x, state.average)
        if passes & (passes - 1):
            return course
        for before, now in self._windows(state):
            before[:] = now
            now[:] = 0.0
        return course._replace(window=0, window_before=course.window)

    def report(self, problem: Problem, state: Any, goal: Goal) -> Report:
        """Nothing is known of the gap; a certificate is due after 1, 2, 4, 8, ... passes."""
        course, rows = state.course, len(state.order)
        passes = (course.passes * rows + course.position) / rows
        return Report(passes, math.nan, math.nan, course.passes >= course.next_certificate, {})

    def certificate(self, problem: Problem, state: Any) -> Certificate:
        """That of the answer with the dual point from the slopes of about the last half of all visits."""
        return problem.certificate(state.w, self._dual_point(problem, state))

    def reconsider(self, problem: Problem, state: Any, goal: Goal, certificate: Certificate) -> Any:
        """The next certificate after as many passes again."""
        course = state.course
        return state._replace(course=course._replace(next_certificate=max(1, 2 * course.passes)))
