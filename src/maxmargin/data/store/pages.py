"""The pages of a store in memory: kept up to a budget, the others read each time.

A page is what is read at once: the rows of one block of a pass. The first pages that are asked for, which are the first
of the store, stay in memory until the budget is used up. Others are mapped while they are in use. Meanwhile the system
is told which ones come next, and reads them from the disk. If it has not the memory for all, it is told to forget the
last blocks of the store as soon as they have been used: what was used longest ago, which is what it would forget of its
own accord, is what comes next.

Whether the file of a block has changed is looked at once in each pass.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Rows, between
from maxmargin.data.sizes import available_memory
from maxmargin.data.store.reader import MappedBlock, Reader, StoredSpan

_AHEAD = 8  # so many pages, of some megabytes each, before its use the system is asked to read one
_SHARE = 0.7  # of the memory that the system could use for files


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
        self._verified: set[int] = set()  # blocks, in this pass
        self._mapped: dict[int, MappedBlock] = {}  # those in use
        self._lock = threading.Lock()
        ends = list(itertools.accumulate(block.n_bytes for block in reader.index.blocks))
        stays = budget + _SHARE * available_memory()
        self._dropped = 0 if ends[-1] <= stays else sum(end > stays for end in ends)  # blocks, the last ones

    @property
    def holds_all(self) -> bool:
        """Whether the budget is for all pages of the store, so that each is read once."""
        return self.reader.index.n_bytes <= self.budget

    def get(self, page: StoredSpan) -> Rows:
        """The rows of a page, without a bias; they are valid until `done`, if they are not kept."""
        key = page.block, page.begin
        if page.block not in self._verified:
            self.reader.verify(page.block)
            self._verified.add(page.block)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        with self._lock:
            keeps = self.n_kept + page.n_bytes <= self.budget
            self.n_kept += page.n_bytes if keeps else 0
            self.n_read += 0 if keeps else page.n_bytes
        later = self.reader.after(page, _AHEAD)
        if later is not None:
            self.reader.announce(later, self._mapped.get(later.block))
        if not keeps:
            mapped = self._map(page.block)
            return read_only(self.reader.rows(page) if mapped is None else self.reader.mapped_rows(page, mapped))
        try:
            rows = read_only(self.reader.rows(page))
        except BaseException:
            with self._lock:
                self.n_kept -= page.n_bytes
            raise
        self._kept[key] = rows, page.n_bytes  # two threads may have read it at a time: the later one counts
        return rows

    def _map(self, block: int) -> MappedBlock | None:
        mapped = self._mapped.get(block)
        if mapped is None:
            mapped = self.reader.map(block)
            if mapped is not None:
                mapped = self._mapped.setdefault(block, mapped)
        return mapped

    def done(self, page: StoredSpan) -> None:
        """A page will not be used again in this pass by the thread that asked for it."""
        mapped = self._mapped.get(page.block)
        if mapped is not None and (page.block, page.begin) not in self._kept:
            for begin, end in self.reader.places(page):
                mapped.file.release(begin, end)

    def left(self, blocks: Iterable[int]) -> None:
        """These blocks are not needed until the next pass."""
        for block in blocks:
            self._verified.discard(block)
            self._mapped.pop(block, None)
            if block >= len(self.reader.index.blocks) - self._dropped:
                self.reader.drop(block)

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


class Part(NamedTuple):
    """Some rows of a page: those from `begin` to `end` of the page's own."""

    page: StoredSpan
    begin: int
    end: int


class Opened:
    """The page that a thread has open."""

    def __init__(self, pages: Pages):
        self._pages = pages
        self._page: StoredSpan | None = None
        self._rows: Rows | None = None

    def rows(self, part: Part, bias: float) -> Rows:
        """Some rows of a page."""
        if self._page != part.page or self._rows is None:
            self.close()
            self._rows, self._page = self._pages.get(part.page), part.page
        whole = part.begin == 0 and part.end == part.page.end - part.page.begin
        rows = self._rows if whole else between(self._rows, part.begin, part.end)
        return rows._replace(bias=bias)

    def close(self) -> None:
        """Leave the page."""
        if self._page is not None:
            self._pages.done(self._page)
        self._page = self._rows = None


def read_only(rows: Rows) -> Rows:
    """The same rows, as kernels have been compiled for them: of arrays that cannot be written to."""
    for part in rows:
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return rows
