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
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.cuts import (
    Span,
    SumTree,
    divided,
    fold,
    level_of,
    most_groups,
    size_of,
    vector_spans,
)
from maxmargin.data.rows import Array, Rows, joined
from maxmargin.parallel import map_ordered

RowVector = Any  # an array with an entry (or a line) for each row


class Labels(NamedTuple):
    """What is known of each row but the row itself."""

    y: Array
    cost: Array
    loss: Any


class Block(NamedTuple):
    """Some rows, with what is known of them."""

    rows: Rows
    y: Array
    cost: Array
    loss: Any


class Pass(NamedTuple):
    """What a pass brings."""

    results: list[Any]  # what the step returned, block by block
    vectors: tuple[RowVector, ...]  # that it wrote
    sums: tuple[Array, ...]

    @property
    def total(self) -> Any:
        """The sum of the results: a number, or a tuple of numbers."""
        if isinstance(self.results[0], tuple):
            return tuple(sum(numbers) for numbers in zip(*self.results))
        return sum(self.results)


# ---------------------------------------------------------------- pausing


class Paused(Exception):
    """A pass was asked to stop between two blocks."""


_should_pause: ContextVar[Callable[[], bool] | None] = ContextVar("should_pause", default=None)


@contextlib.contextmanager
def pausing(should_pause: Callable[[], bool]) -> Iterator[None]:
    """While the context lasts, passes that this thread makes raise `Paused` as soon as `should_pause()` is true."""
    token = _should_pause.set(should_pause)
    try:
        yield
    finally:
        _should_pause.reset(token)


def asked_to_pause() -> bool:
    """Whether passes that this thread makes shall pause."""
    should_pause = _should_pause.get()
    return should_pause is not None and should_pause()


def check_pause() -> None:
    """Raise `Paused` if passes shall pause: for long work that is no pass."""
    if asked_to_pause():
        raise Paused


# ---------------------------------------------------------------- what all sources share


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
        vectors = tuple(self.new_vector(kind) for kind in writes)
        size = sum(map(size_of, sums))
        should_pause = _should_pause.get() if looks_at_rows else None

        def run(job: tuple[bool, list[Span]]) -> tuple[list[Any], list[Array]]:
            is_first, group = job
            totals, results = [start_of_sum(kind, is_first) for kind in sums], []
            with self._opened() as rows_of:
                for begin, end, rows in group:
                    if should_pause is not None and should_pause():
                        raise Paused
                    known = labels.y[begin:end], labels.cost[begin:end], labels.loss
                    block = Block(rows_of(rows), *known) if looks_at_rows else Labels(*known)
                    parts = [vector[begin:end] for vector in itertools.chain(reads, vectors)]
                    results.append(step(block, *shared, *parts, *totals))
            return results, totals

        results: list[Any] = []
        tree = SumTree()
        for groups in self._groups(size, looks_at_rows, effort):
            jobs = [(False, group) for part in groups for group in part]
            if jobs and tree.is_empty:
                jobs[0] = True, jobs[0][1]
            done = iter(map_ordered(run, jobs, self.n_jobs))
            for part in groups:
                answers = list(itertools.islice(done, len(part)))
                results += [result for some, _ in answers for result in some]
                tree.add(fold([totals for _, totals in answers]))
            if jobs:
                self.release([labels.y, labels.cost, *reads, *vectors], jobs[0][1][0].begin, jobs[-1][1][-1].end)
        return Pass(results, vectors, tuple(tree.total()))

    def _groups(self, size: int, looks_at_rows: bool, effort: float) -> Iterable[list[list[list[Span]]]]:
        """Blocks of rows by bundles, partitions and groups: those of a group share their sums of so many numbers."""
        level = level_of(effort) if looks_at_rows else 0
        sizes = self._partition_sizes()
        first = list(itertools.accumulate((n for n, _ in sizes), initial=0))
        wanted = [most_groups(size, stored, effort) for _, stored in sizes]
        for bundle in self._bundles(wanted, looks_at_rows):
            parts = []
            for k in bundle:
                if sizes[k][0]:
                    spans = self._spans(k, level) if looks_at_rows else vector_spans(first[k], sizes[k][0])
                    parts.append(divided(spans, max(1, min(wanted[k], len(spans)))))
            yield parts


def start_of_sum(kind: int | tuple[int, ...] | Array, is_first: bool) -> Array:
    """What a group of blocks adds to: the first one to the caller's array if there is one, the others to zeros."""
    if isinstance(kind, np.ndarray):
        return kind if is_first else np.zeros_like(kind)
    return np.zeros(kind)
