"""A store as a source of rows: each block is a partition.

The budget of memory is for rows that are kept, for buffers, and for vectors with an entry for each row; vectors that
find no room lie in scratch files. What is summed (vectors as long as w, matrices) comes on top of it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.data.cuts import Span, parts_of_pages
from maxmargin.data.gather import gather
from maxmargin.data.lock_step import LockStep
from maxmargin.data.rows import Array, Rows
from maxmargin.data.scratch import Scratch
from maxmargin.data.source import Pass, Request, RowVector, Source, check_pause
from maxmargin.data.store.packed import Packed
from maxmargin.data.store.pages import Opened, Pages, Part, read_only

if TYPE_CHECKING:
    from maxmargin.data.store.store import Store

_VECTORS = 8  # of float64 that a solver has for each row, about
_OWN_VECTORS = 5  # of them, those that runs over the same rows do not share
_MOST_CUT = 4096  # partitions whose spans are known: some tens of kilobytes each
_LABEL_ROWS = 1 << 20  # of partitions that are worked on at a time when rows are not looked at: 8 MB of a vector


class Memory:
    """The budget of a store, divided: pages that are kept, and vectors.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store):
        for_vectors = min(store.memory // 2, _VECTORS * 8 * store.n_rows)
        self.scratch = Scratch(for_vectors, _scratch_folder(store.path))
        self.pages = Pages(store.reader, store.memory - for_vectors)
        self.packed = Packed(self.pages)
        self.spans: dict[tuple[int, int], list[Span]] = {}  # of partitions, as they were cut for each level of work


def _scratch_folder(path: os.PathLike[str]) -> str:
    """Beside the store if that can be written to: the usual place for temporary files may be in memory."""
    beside = os.path.dirname(os.path.abspath(path))
    return beside if os.access(beside, os.W_OK) else tempfile.gettempdir()


@dataclass(frozen=True, eq=False)
class StoreSource(Source):
    """The rows of a store.

    Parameters
    ----------
    store : Store
    memory : Memory
        Shared by all sources of the store.
    bias : float
        Value of the virtual intercept column; 0: there is none.
    n_jobs : int
    lock_step : LockStep, optional
        With whom passes are made.
    """

    store: Store
    memory: Memory
    bias: float = 0.0  # type: ignore[assignment]
    n_jobs: int = 1
    lock_step: LockStep | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.store.n_rows

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        return self.store.n_features

    @property
    def n_stored(self) -> int:
        """Number of stored values."""
        return self.store.n_stored

    @property
    def is_dense(self) -> bool:
        """Whether rows store all their values."""
        return self.store.index.storage == "dense"

    def with_jobs(self, n_jobs: int) -> StoreSource:
        """The same rows, with another number of threads for passes."""
        return replace(self, n_jobs=n_jobs)

    def checksum(self) -> str:
        """The checksums of the blocks."""
        return "|".join(block.sha256 for block in self.store.index.blocks) + f"|{self.bias!r}"

    def new_vector(self, kind: Any) -> RowVector:
        """A vector for all rows, not filled yet, in memory or in a scratch file."""
        dtype, shape = (kind[0], (self.n_rows, kind[1])) if isinstance(kind, tuple) else (kind, self.n_rows)
        return self.memory.scratch.empty(shape, dtype)

    def column(self, name: str, convert: Callable[[Array], Array] = lambda part: part) -> RowVector:
        """An array of the store with an entry for each row, such as ``"y"``, as float64; `convert` is of a block's."""
        vector = self.new_vector(np.float64)
        begin = 0
        for block, entry in enumerate(self.store.index.blocks):
            end = begin + entry.n_rows
            vector[begin:end] = convert(self.store.reader.column(block, name))
            self.release([vector], begin, end)
            begin = end
        return vector

    @property
    def accesses(self) -> tuple[str, ...]:
        """Ways in which solvers can get at the rows; see `Solver.access`. In lock step passes serve all, blocks one."""
        return ("passes", "blocks") if self.lock_step is None else ("passes",)

    def block(self, partition: int) -> tuple[int, int, Rows]:
        """The first row of a block, the one behind its last, and its rows, read from the disk."""
        first, last = self.store.first_rows[partition : partition + 2]
        pages = self.store.reader.spans(partition)
        whole = pages[0]._replace(
            end=pages[-1].end, last_value=pages[-1].last_value, n_bytes=sum(page.n_bytes for page in pages)
        )
        return first, last, read_only(self.store.reader.rows(whole))._replace(bias=self.bias)

    def borders(self, partition: int) -> tuple[int, int]:
        """The first row of a block, and the one behind its last."""
        return self.store.first_rows[partition], self.store.first_rows[partition + 1]

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in memory, about, with its number."""
        return 8.0 + self.store.index.n_bytes / max(1, self.n_rows)

    @property
    def room(self) -> float:
        """Bytes of rows that `some_rows` may hold in memory: half of what there is, since they are copied together."""
        return self.memory.pages.budget / 2

    def some_rows(self, partitions: Sequence[int], chosen: Array) -> tuple[Rows, Array]:
        """Rows of some blocks, those chosen among them: in memory from the last time, or read from the disk."""
        rows, numbers = self.memory.packed.get(chosen, lambda: self._read_chosen(sorted(partitions), chosen))
        return rows._replace(bias=self.bias), numbers

    def _read_chosen(self, partitions: Sequence[int], chosen: Array) -> Iterator[Rows]:
        try:
            with self._opened() as rows_of:
                for partition in partitions:
                    for begin, end, part in self._spans(partition, 0):
                        check_pause()
                        some = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, end)] - begin
                        if len(some):
                            yield gather(rows_of(part), some)
        finally:
            self._left(partitions)

    # ------------------------------------------------------------ several runs at a time

    def runs_at_once(self, n_runs: int) -> int:
        """How many of several runs shall go in lock step: one if no rows are read twice, so that nothing is saved.

        Their vectors may take what memory there is for vectors, or as much room on the disk as the store does.
        """
        if self.memory.pages.holds_all:
            return 1
        room = max(self.memory.scratch.budget, self.store.index.n_bytes)
        return max(1, min(n_runs, room // (_OWN_VECTORS * 8 * self.n_rows)))

    def in_step(self, lock_step: LockStep) -> StoreSource:
        """The same rows for a run in lock step with others, which has one thread of its own."""
        return replace(self, lock_step=lock_step, n_jobs=1)

    def _answer(self, request: Request) -> Pass:
        if self.lock_step is None or not request.looks_at_rows:
            return super()._answer(request)
        return self.lock_step.make_pass(request)

    # ------------------------------------------------------------ for passes

    def _partition_sizes(self) -> list[tuple[int, int]]:
        return [(block.n_rows, block.n_stored) for block in self.store.index.blocks]

    def _spans(self, partition: int, level: int) -> list[Span]:
        known = self.memory.spans.get((partition, level))
        if known is None:
            known = self._cut(partition, level)
            if len(self.memory.spans) < _MOST_CUT:
                self.memory.spans[partition, level] = known
        return known

    def _cut(self, partition: int, level: int) -> list[Span]:
        first, pages = self.store.first_rows[partition], self.store.reader.spans(partition)
        borders = [0, *(page.end for page in pages)]
        spans, remaining = [], iter(pages)
        page = next(remaining)
        for begin, end in parts_of_pages(borders, self.store.index.blocks[partition].n_stored, level):
            while end > page.end:
                page = next(remaining)
            spans.append(Span(first + begin, first + end, Part(page, begin - page.begin, end - page.begin)))
        return spans

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Callable[[Any], Rows]]:
        opened = Opened(self.memory.pages)
        try:
            yield lambda part: opened.rows(part, self.bias)
        finally:
            opened.close()

    def _left(self, bundle: Iterable[int]) -> None:
        self.memory.pages.left(bundle)

    def _bundles(self, n_groups: Sequence[int], looks_at_rows: bool) -> Iterable[range]:
        """As few partitions at a time as give every thread something to do: each group's sums take memory."""
        begin, n, first_rows = 0, 0, self.store.first_rows
        for k, more in enumerate(n_groups):
            n += more
            if n >= self.n_jobs if looks_at_rows else first_rows[k + 1] - first_rows[begin] >= _LABEL_ROWS:
                yield range(begin, k + 1)
                begin, n = k + 1, 0
        yield range(begin, len(n_groups))

    def release(self, vectors: Sequence[RowVector], begin: int, end: int) -> None:
        """Entries begin to end of these vectors are not needed for the time being."""
        for vector in vectors:
            self.memory.scratch.release(vector, begin, end)
