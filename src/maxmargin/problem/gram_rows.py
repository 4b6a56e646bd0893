"""Rows of the kernel matrix, computed when they are first asked for and kept while there is room.

LIBSVM's ``Q.get_Q(i)``: one arena of memory, allocated once, holds as many rows as fit in `cache_size`; the row that
was used longest ago makes room for a new one. Kept values are float32, whatever precision they are computed in. Rows
that are missing together are computed together, as one block. Where all values are kept in float64 anyhow
(`KeptValues`), their matrix is the arena.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels.kept import KeptValues

_LEAST_ROWS = 16  # that there is room for, however small the cache


class GramRows:
    """A cache of kernel rows.

    Parameters
    ----------
    values : KernelValues
    cache_size : float
        Megabytes for kernel rows.
    """

    def __init__(self, values: Any, cache_size: float):
        self.values, n = values, values.n_rows
        self.is_whole = isinstance(values, KeptValues)
        room = int(cache_size * 2**20) // (n * 4)
        self.capacity = n if self.is_whole else min(n, max(_LEAST_ROWS, room))
        self.arena = values.matrix if self.is_whole else np.empty((self.capacity, n), np.float32)
        self.diagonal = values.diagonal
        self._columns: Any = None
        self.slot = np.arange(n) if self.is_whole else np.full(n, -1, np.int64)  # where a row is kept
        self._owner = self.slot.copy() if self.is_whole else np.full(self.capacity, -1, np.int64)
        self._used = np.zeros(self.capacity, np.int64)  # when
        self._clock = 0
        self.n_computed = 0

    def slots(self, which: Array) -> Array:
        """Where in `arena` these rows are; at most `capacity` of them, valid until the next call."""
        if len(which) > self.capacity:
            raise ValueError(f"{len(which)} kernel rows were asked for at once, but there is room for {self.capacity}")
        self._clock += 1
        slots = self.slot[which]
        self._used[slots[slots >= 0]] = self._clock
        missing = which[slots < 0]
        if len(missing):
            free = least_recently_used(self._used, self._owner, len(missing))
            gone = self._owner[free]
            self.slot[gone[gone >= 0]] = -1
            if self._columns is None:
                self._columns = self.values.columns(np.arange(self.values.n_rows))
            self.values.block(missing, self._columns, self.arena, free)
            self.slot[missing], self._owner[free], self._used[free] = free, missing, self._clock
            self.n_computed += len(missing)
        return self.slot[which]

    def row(self, i: int) -> Array:
        """Kernel row i."""
        return self.arena[self.slots(np.array([i]))[0]]

    def rows(self, which: Array) -> Array:
        """A copy of these kernel rows."""
        return self.arena[self.slots(which)]


def least_recently_used(used: Array, owner: Array, n: int) -> Array:
    """The n slots of a cache to use next: empty ones in their order, then those used longest ago."""
    empty = np.flatnonzero(owner < 0)[:n]
    if len(empty) == n:
        return empty
    age = np.where(owner >= 0, used, np.iinfo(np.int64).max)
    k = n - len(empty)
    return np.concatenate([empty, np.argpartition(age, k - 1)[:k]])
