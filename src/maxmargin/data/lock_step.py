"""Several runs over the same rows in lock step: one pass over the rows serves all of them.

Each run is an ordinary run of a solver, in a thread of its own. Where it asks for a pass it waits until all others do,
or have ended; then the passes of all are made as one (`Source.make_passes`), and each gets the bits that it would have
got alone. Between passes no more runs are at work at a time than there are threads for passes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from maxmargin.data.passes import Pass, Request

T = TypeVar("T")


class Abandoned(Exception):
    """Another run has failed, and this one will not be asked for its result."""


class LockStep:
    """Runs in lock step.

    Parameters
    ----------
    source : Source
        What the passes of all are made over.
    at_once : int
        Runs that are under way at a time.
    """

    def __init__(self, source: Any, at_once: int):
        self.source, self.at_once = source, at_once
        self.n_joint = 0  # passes so far
        self._changed = threading.Condition()
        self._n_left = 0  # runs that have not ended
        self._waiting: list[_Waiting] = []
        self._is_abandoned = False
        self._turns = threading.Semaphore(source.n_jobs)

    def map(self, function: Callable[[int], T], n_runs: int) -> list[T]:
        """`[function(k) for k in range(n_runs)]`, each in a thread of its own.

        Of several errors the first is raised; after one, the other runs are abandoned at their next pass.
        """
        self._n_left = n_runs

        def run(k: int) -> T:
            with self._taking_part():
                return function(k)

        with ThreadPoolExecutor(self.at_once, thread_name_prefix="maxmargin-run") as threads:
            futures = [threads.submit(run, k) for k in range(n_runs)]
            try:
                errors = [future.exception() for future in futures]
            except BaseException:  # a second Ctrl-C
                self._abandon()
                raise
        for error in [error for error in errors if error is not None and not isinstance(error, Abandoned)]:
            raise error
        return [future.result() for future in futures]

    @contextlib.contextmanager
    def _taking_part(self) -> Iterator[None]:
        try:
            with self._turns:
                if self._is_abandoned:
                    raise Abandoned
                yield
        except BaseException:
            self._abandon()
            raise
        finally:
            with self._changed:
                self._n_left -= 1
                self._changed.notify_all()

    def _abandon(self) -> None:
        self._is_abandoned = True  # at once: a pass that is under way, and holds the lock, pauses
        with self._changed:
            self._changed.notify_all()

    def make_pass(self, request: Request) -> Pass:
        """Wait for the others, and make a pass for all; called by a run."""
        own = _Waiting(request._replace(should_pause=self._pausing(request.should_pause)))
        self._turns.release()
        try:
            with self._changed:
                self._waiting.append(own)
                self._changed.notify_all()
                while own.answer is None and not self._is_abandoned:
                    if len(self._waiting) == min(self.at_once, self._n_left):
                        self._serve(self._waiting)
                    else:
                        self._changed.wait()
        finally:
            self._turns.acquire()
        if own.answer is None or self._is_abandoned:
            raise Abandoned
        if isinstance(own.answer, Exception):
            raise own.answer
        return own.answer

    def _pausing(self, should_pause: Callable[[], bool] | None) -> Callable[[], bool]:
        return lambda: self._is_abandoned or (should_pause is not None and should_pause())

    def _serve(self, waiting: list[_Waiting]) -> None:
        """Make the passes that all runs wait for: none of them can do anything meanwhile, so the lock may be held."""
        self.n_joint += 1
        answers = self.source.make_passes([each.request for each in waiting])
        for each, answer in zip(waiting, answers):
            each.answer = answer
        self._waiting = []
        self._changed.notify_all()


class _Waiting:
    """A run that waits for its pass."""

    def __init__(self, request: Request):
        self.request = request
        self.answer: Pass | Exception | None = None
