"""Where the rows are: partitions in a fixed order, and the one way to make a pass over them.

A pass calls a *step* on every block of rows. A step is a function of its module (never a closure: it may have to travel
to another process) and is called as

    step(block, *shared, *reads, *writes, *sums)

block
    `Block`: the rows, their labels and costs, and the loss; or `Labels` for a pass that does not look at the rows.
shared
    What all blocks are given, such as w.
reads, writes
    Vectors with an entry for each row, cut like the rows: those that the step reads, and new ones that it fills.
sums
    Arrays that the step adds to. Each group of blocks has its own. They are added up in a fixed order: the groups of a
    partition one after the other, then partitions in pairs, pairs of pairs, and so on.

What a step returns comes back in the order of the blocks. Blocks and groups depend on the data alone, so a pass gives
the same bits for any number of threads. Between two blocks a pass over the rows looks whether it shall pause, and if so
raises `Paused`: whoever made the pass has changed nothing yet, and what was unfinished is dropped.

`Source` is what all sources share; `memory.InMemory` is one. On the same partitions all give the same bits. Vectors
with an entry for each row are arrays, perhaps in a scratch file: a solver makes them by passes, reads them by passes,
and keeps them in its state.

Several passes can be made as one (`Source.make_passes`): all of their steps are called on some rows before the next
rows are read. Each brings the bits that it would alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from maxmargin.data.cuts import Span, divided, level_of, vector_spans
from maxmargin.data.passes import (
    Block,
    Labels,
    Pass,
    Paused,
    Request,
    RowVector,
    Work,
    asked_to_pause,
    check_pause,
    pausing,
    start_of_sum,
    who_pauses,
)
from maxmargin.data.rows import Array, Rows, joined
from maxmargin.parallel import map_ordered

__all__ = [
    "Block",
    "Labels",
    "Pass",
    "Paused",
    "Request",
    "RowVector",
    "Source",
    "asked_to_pause",
    "check_pause",
    "pausing",
    "start_of_sum",
]


class Source:
    """Rows somewhere, and passes over them. A subclass says what its partitions are and how their rows are had."""

    n_jobs: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        raise NotImplementedError

    @property
    def n_stored(self) -> int:
        """Number of stored values."""
        raise NotImplementedError

    @property
    def bias(self) -> float:
        """Value of the virtual intercept column; 0: there is none."""
        raise NotImplementedError

    @property
    def is_dense(self) -> bool:
        """Whether rows store all their values."""
        raise NotImplementedError

    @property
    def n_weights(self) -> int:
        """Length of w: the features, and one more if there is an intercept."""
        return self.n_features + (self.bias != 0.0)

    @property
    def accesses(self) -> tuple[str, ...]:
        """Ways in which solvers can get at the rows; see `Solver.access`."""
        return ("passes",)

    @property
    def rows(self) -> Rows:
        """All rows, for methods that visit them one by one."""
        raise ValueError("the rows are not in memory in one piece; only passes over them can be made")

    def with_jobs(self, n_jobs: int) -> Any:
        """The same rows, with another number of threads for passes."""
        raise NotImplementedError

    def checksum(self) -> str:
        """A text that tells these rows from others."""
        raise NotImplementedError

    @property
    def n_blocks(self) -> int:
        """Number of partitions, for methods that work on one after the other."""
        return len(self._partition_sizes())

    def block(self, partition: int) -> tuple[int, int, Rows]:
        """The first row of a partition, the one behind its last, and its rows, in memory."""
        raise ValueError("the rows are not to be had in one place; only passes over them can be made")

    def borders(self, partition: int) -> tuple[int, int]:
        """The first row of a partition, and the one behind its last."""
        sizes = self._partition_sizes()
        first = sum(n for n, _ in sizes[:partition])
        return first, first + sizes[partition][0]

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in memory, about, with its number."""
        return 8.0 + 12.0 * self.n_stored / max(1, self.n_rows)

    @property
    def room(self) -> float:
        """Bytes of rows that `some_rows` may hold in memory."""
        return float(np.inf)

    def some_rows(self, partitions: Sequence[int], chosen: Array) -> tuple[Rows, Array]:
        """Rows of some partitions, those chosen among them, in memory; and their numbers, in ascending order."""
        parts = [self.block(partition) for partition in sorted(partitions)]
        return joined([rows for *_, rows in parts]), np.concatenate([np.arange(a, b) for a, b, _ in parts])

    def of_partitions(self, function: Callable[[Any], Any]) -> list[Any]:
        """What a function says of the matrix of each partition."""
        raise ValueError("the rows are not to be had as matrices; only passes over them can be made")

    # ------------------------------------------------------------ for subclasses

    def _partition_sizes(self) -> Sequence[tuple[int, int]]:
        """Rows and stored values of every partition."""
        raise NotImplementedError

    def _spans(self, partition: int, level: int) -> list[Span]:
        """The blocks of a partition: its `page_borders`, each cut by `parts_of_pages`."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Callable[[Any], Rows]]:
        """For one thread, what makes rows of `Span.rows`; they are valid until the next call."""
        yield lambda rows: rows

    def _bundles(self, n_groups: Sequence[int], looks_at_rows: bool) -> Iterable[range]:
        """Partitions that are worked on at a time, if they have so many groups: all that are there."""
        return [range(len(n_groups))]

    def new_vector(self, kind: Any) -> RowVector:
        """A vector for all rows, not filled yet; `kind` is a dtype or a pair (dtype, width)."""
        dtype, shape = (kind[0], (self.n_rows, kind[1])) if isinstance(kind, tuple) else (kind, self.n_rows)
        return np.empty(shape, dtype=dtype)

    def release(self, vectors: Sequence[RowVector], begin: int, end: int) -> None:
        """Entries begin to end of these vectors are not needed for the time being."""

    # ------------------------------------------------------------ a pass

    def make_pass(
        self,
        step: Callable[..., Any],
        labels: Labels,
        *,
        shared: Sequence[Any] = (),
        reads: Sequence[RowVector] = (),
        writes: Sequence[Any] = (),
        sums: Sequence[int | tuple[int, ...] | Array] = (),
        looks_at_rows: bool = True,
        effort: float = 1.0,
    ) -> Pass:
        """Call `step` on every block of rows; see the module's text.

        Parameters
        ----------
        step : callable
        labels : Labels
        shared : sequence
            Arguments that are the same for all blocks.
        reads : sequence of vectors with an entry for each row
        writes : sequence of dtypes, or of pairs (dtype, width)
            The vectors to make.
        sums : sequence of shapes or of arrays
            What to sum up: from zero, or onto an array of the caller's, which is written to.
        looks_at_rows : bool
            Whether the step gets a `Block` or, without the rows, `Labels`. The latter is never paused.
        effort : float
            Work of the step beside that of an inner product with every row: more is divided into more blocks, and less
            is summed in fewer groups.
        """
        should_pause = who_pauses() if looks_at_rows else None
        return self._answer(Request(step, labels, shared, reads, writes, sums, looks_at_rows, effort, should_pause))

    def _answer(self, request: Request) -> Pass:
        """Make a pass that is asked for."""
        answer = self.make_passes([request])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def make_passes(self, requests: Sequence[Request]) -> list[Pass | Exception]:
        """Make several passes as one, in which each part of the rows is read once: all or none look at the rows.

        Returns
        -------
        list of Pass or Exception
            What each of them brings; or why it failed or was paused, which is no matter of the others.
        """
        looks_at_rows = requests[0].looks_at_rows
        sizes = self._partition_sizes()
        works = [Work(self, request, sizes) for request in requests]
        for bundle in self._bundles([max(most) for most in zip(*(work.most_groups for work in works))], looks_at_rows):
            jobs: dict[tuple[int, int], list[tuple[Work, int]]] = {}  # groups of the same rows are worked on together
            for work in works:
                work.cut(bundle)
                for k, group in enumerate(work.groups):
                    jobs.setdefault((group[0].begin, group[-1].end), []).append((work, k))
            try:
                map_ordered(self._do, [jobs[rows] for rows in sorted(jobs)], self.n_jobs)
            finally:
                if looks_at_rows:
                    self._left(bundle)
            for work in works:
                work.finish_bundle()
        return [work.answer() for work in works]

    def _do(self, job: list[tuple[Work, int]]) -> None:
        blocks = [(block, work, k) for work, k in job for block in work.groups[k]]
        blocks.sort(key=lambda turn: turn[0].begin)  # all that is done with a page, one after the other
        with self._opened() as rows_of:
            for block, work, k in blocks:
                work.do(k, block, rows_of)

    def _left(self, bundle: Iterable[int]) -> None:
        """The rows of these partitions are not needed until the next pass."""

    def groups(self, partition: int, request: Request, n_groups: int) -> list[list[Span]]:
        """Blocks of a partition in groups, so many at most: those of a group share their sums."""
        begin, end = self.borders(partition)
        if begin == end:
            return []
        spans = vector_spans(begin, end - begin)
        if request.looks_at_rows:
            spans = self._spans(partition, level_of(request.effort))
        return divided(spans, max(1, min(n_groups, len(spans))))
