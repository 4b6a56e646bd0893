"""Work over fixed blocks of rows, on as many threads as asked for, with the same bits for any number of them.

Kernels release the GIL, so Python threads are enough. Blocks depend on the data alone and results come back in the
order of the blocks: whoever adds them up gets the same sum on one thread and on sixty.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for one thread or -1 for all cores")
    if n_jobs < 0:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores + 1 + n_jobs)
    return int(n_jobs)


def map_ordered(function: Callable[[A], T], items: Iterable[A], n_jobs: int = 1) -> list[T]:
    """`[function(item) for item in items]` over threads."""
    items = list(items)
    if n_jobs == 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(n_jobs, len(items))) as pool:
        return list(pool.map(function, items))


def map_blocks(function: Callable[[int, int], T], borders: Sequence[int] | Any, n_jobs: int = 1) -> list[T]:
    """`function(begin, end)` for each pair of neighbouring borders, results in their order."""
    return map_ordered(lambda pair: function(*pair), itertools.pairwise(borders), n_jobs)
