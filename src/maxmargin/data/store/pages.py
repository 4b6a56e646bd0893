"""The pages of a store in memory: kept up to a budget, the others read each time.

A page is what is read at once: the rows of one block of a pass. The first pages that are asked for, which are the first
of the store, stay in memory until the budget is used up. Others are read into buffers, which are used again, and small
enough to stay in a processor's outer cache. While one is in use, the system is told which ones come next, and reads
them from the disk; it is told to forget those that have been used, if it has not the memory for all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array, Rows, between
from maxmargin.data.store.reader import Reader, StoredSpan

_AHEAD = 6  # so many pages, of some megabytes each, before its use the system is asked to read one


class Part(NamedTuple):
    """Some rows of a page: those from `begin` to `end` of the page's own."""

    page: StoredSpan
    begin: int
    end: int


class Pages:
    """Pages of a store, for several threads.

    Parameters
    ----------
    reader : Reader
    budget : int
        Bytes of pages that may be kept.
    """

    def __init__(self, reader: Reader, budget: int):
        self.reader, self.budget = reader, budget
        self.n_kept = 0  # bytes, those set aside included
        self.n_read = 0  # bytes so far that were not kept
        self._set_aside = 0  # bytes of the budget that are not for pages
        self._kept: dict[tuple[int, int], tuple[Rows, int]] = {}  # with their bytes
        self._buffers: list[Array] = []
        self._lock = threading.Lock()
        self._drops = reader.index.n_bytes - budget > _available_memory()

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """A place to read pages into, for one thread."""
        opened = Opened(self)
        try:
            yield opened
        finally:
            opened.close()

    def get(self, page: StoredSpan, opened: Opened) -> Rows:
        """The rows of a page, without a bias; those that are not kept are valid until the next call."""
        key = page.block, page.begin
        kept = self._kept.get(key)
        if kept is not None:
            self.reader.verify(page.block)
            return kept[0]
        with self._lock:
            keeps = self.n_kept + page.n_bytes <= self.budget
            self.n_kept += page.n_bytes if keeps else 0
            self.n_read += 0 if keeps else page.n_bytes
        if not keeps:
            later = self.reader.after(page, _AHEAD)
            if later is not None:
                self.reader.announce(later)
            rows = read_only(self.reader.rows(page, opened.buffer(self.reader.buffer_bytes(page)), 0.0))
            if self._drops:
                self.reader.drop(page)
            return rows
        try:
            rows = read_only(self.reader.rows(page, None, 0.0))
        except BaseException:
            with self._lock:
                self.n_kept -= page.n_bytes
            raise
        if self._drops:
            self.reader.drop(page)
        self._kept[key] = rows, page.n_bytes  # two threads may have read it at a time: the later one counts
        return rows

    def set_aside(self, n_bytes: int) -> bool:
        """Use part of the budget for something else than pages, which give way; False if there is not so much."""
        with self._lock:
            if self._set_aside + n_bytes > self.budget:
                return False
            self._set_aside += n_bytes
            self.n_kept += n_bytes
            while self.n_kept > self.budget:
                self.n_kept -= self._kept.popitem()[1][1]
            return True

    def give_back(self, n_bytes: int) -> None:
        """What was set aside is for pages again."""
        with self._lock:
            self._set_aside -= n_bytes
            self.n_kept -= n_bytes

    def take_buffer(self, n_bytes: int) -> Array:
        """A buffer that nobody uses."""
        with self._lock:
            buffer = self._buffers.pop() if self._buffers else np.empty(0, np.uint8)
        return buffer if len(buffer) >= n_bytes else np.empty(n_bytes, np.uint8)

    def give_buffer(self, buffer: Array) -> None:
        """Nobody uses it any more."""
        with self._lock:
            self._buffers.append(buffer)


class Opened:
    """The page that a thread has open."""

    def __init__(self, pages: Pages):
        self._pages = pages
        self._buffer: Array | None = None
        self._page: StoredSpan | None = None
        self._rows: Rows | None = None

    def rows(self, part: Part, bias: float) -> Rows:
        """Some rows of a page, valid until the next call."""
        if self._page != part.page or self._rows is None:
            self._rows = None
            self._rows, self._page = self._pages.get(part.page, self), part.page
        whole = part.begin == 0 and part.end == part.page.end - part.page.begin
        rows = self._rows if whole else between(self._rows, part.begin, part.end)
        return rows._replace(bias=bias)

    def buffer(self, n_bytes: int) -> Array:
        """Room for a page."""
        if self._buffer is None or len(self._buffer) < n_bytes:
            self._buffer = self._pages.take_buffer(n_bytes)
        return self._buffer

    def close(self) -> None:
        """Give the buffer to others."""
        if self._buffer is not None:
            self._pages.give_buffer(self._buffer)
        self._buffer = self._rows = None


def read_only(rows: Rows) -> Rows:
    """The same rows, as kernels have been compiled for them: of arrays that cannot be written to."""
    for part in rows:
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return rows


def _available_memory() -> float:
    """Bytes that the system could use for files; infinity where nobody tells."""
    try:
        with open("/proc/meminfo", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")
