"""Work over fixed blocks of rows, on as many threads as asked for, with the same bits for any number of them.

Kernels release the GIL, so Python threads are enough. Blocks depend on the data alone and results come back in the
order of the blocks: whoever adds them up gets the same sum on one thread and on sixty.

Threads are kept for the next call: to start one takes as long as a pass over a megabyte. The caller works beside them,
so a call from within a call always gets its work done, if need be alone.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")


def effective_n_jobs(n_jobs: int | None) -> int:
    """Number of threads that `n_jobs` means: None is 1, -1 all cores, -2 all but one.

    Examples
    --------
    >>> effective_n_jobs(None), effective_n_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        raise ValueError(f"n_jobs must be an integer or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for one thread or -1 for all cores")
    if n_jobs < 0:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores + 1 + int(n_jobs))
    return int(n_jobs)


def map_ordered(function: Callable[[A], T], items: Iterable[A], n_jobs: int = 1) -> list[T]:
    """`[function(item) for item in items]` over threads, the caller's among them.

    Of several errors the one of the first item is raised; items that are not begun by then are left alone.
    """
    items = list(items)
    if n_jobs == 1 or len(items) <= 1:
        return [function(item) for item in items]
    work = _Work(function, items)
    helpers = [_threads().submit(work.help) for _ in range(min(n_jobs, len(items)) - 1)]
    try:
        work.help()
    finally:
        for helper in helpers:
            if not helper.cancel():  # it has begun
                helper.result()
    return work.results()


class _Work:
    """Items that several threads take one by one."""

    def __init__(self, function: Callable[[Any], Any], items: list[Any]):
        self.function, self.items = function, items
        self.done: list[Any] = [None] * len(items)
        self.errors: dict[int, BaseException] = {}
        self.n_taken, self.lock = 0, threading.Lock()

    def help(self) -> None:
        """Take items until there are none, or an error has made the rest pointless."""
        while (k := self._take()) is not None:
            try:
                self.done[k] = self.function(self.items[k])
            except BaseException as error:
                self.errors[k] = error

    def _take(self) -> int | None:
        with self.lock:
            k, self.n_taken = self.n_taken, self.n_taken + 1
        return k if k < len(self.items) and not self.errors else None

    def results(self) -> list[Any]:
        """Results in the order of the items."""
        if self.errors:
            raise self.errors[min(self.errors)]
        return self.done


_MOST_THREADS = 1024  # started only when all others are busy
_pool: ThreadPoolExecutor | None = None


def _threads() -> ThreadPoolExecutor:
    """The threads of this process; they are started as they are needed, and end with it."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="maxmargin")
    return _pool


def _forget_threads() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a fork has none of its parent's threads


def map_blocks(function: Callable[[int, int], T], borders: Sequence[int] | Any, n_jobs: int = 1) -> list[T]:
    """`function(begin, end)` for each pair of neighbouring borders, results in their order."""
    return map_ordered(lambda pair: function(*pair), itertools.pairwise(borders), n_jobs)
