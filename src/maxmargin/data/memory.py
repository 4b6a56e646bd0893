"""Rows in memory: the source that most fits have."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.cuts import Span, cut_into_spans, is_one_block, level_of
from maxmargin.data.rows import Array, Dense, Rows, n_features, n_rows, n_stored
from maxmargin.data.source import Block, Labels, Pass, Request, RowVector, Source, check_pause, start_of_sum


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """Rows in memory, in one partition or several.

    Parameters
    ----------
    partitions : sequence of Dense or CSR
        All with the same features and the same virtual intercept column; some may be empty.
    n_jobs : int
        Threads for passes. Results do not depend on it.

    Examples
    --------
    >>> from maxmargin.data.rows import as_rows
    >>> source = InMemory(tuple(as_rows(part)[0] for part in ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])))
    >>> source.n_rows, source.n_features, source.accesses
    (3, 2, ('passes', 'blocks'))
    """

    partitions: tuple[Rows, ...]
    n_jobs: int = 1
    _cuts: dict[Any, Any] = field(default_factory=dict, repr=False)  # of earlier passes

    def __reduce__(self) -> Any:
        return InMemory, (self.partitions, self.n_jobs)  # blocks are views: they are cut anew

    @cached_property
    def n_weights(self) -> int:
        """Length of w: the features, and one more if there is an intercept."""
        return super().n_weights

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(map(n_rows, self.partitions))

    @cached_property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        return n_features(self.partitions[0])

    @cached_property
    def n_stored(self) -> int:
        """Number of stored values."""
        return sum(map(n_stored, self.partitions))

    @cached_property
    def bias(self) -> float:
        """Value of the virtual intercept column; 0: there is none."""
        return self.partitions[0].bias

    @cached_property
    def is_dense(self) -> bool:
        """Whether rows store all their values."""
        return isinstance(self.partitions[0], Dense)

    @property
    def accesses(self) -> tuple[str, ...]:
        """Ways in which solvers can get at the rows; see `Solver.access`."""
        return ("passes", "blocks", "rows", "stream") if len(self.partitions) == 1 else ("passes", "blocks")

    @property
    def rows(self) -> Rows:
        """All rows, for methods that visit them one by one."""
        if len(self.partitions) > 1:
            raise ValueError(f"the rows lie in {len(self.partitions)} partitions; only passes over them can be made")
        return self.partitions[0]

    def with_jobs(self, n_jobs: int) -> InMemory:
        """The same rows, with another number of threads for passes."""
        return replace(self, n_jobs=n_jobs)

    def checksum(self) -> str:
        """A text that tells these rows from others; four times faster than a hash, for large data."""
        parts = itertools.chain.from_iterable(self.partitions)
        return "".join(f"|{zlib.crc32(part.data) if isinstance(part, np.ndarray) else part!r}" for part in parts)

    def block(self, partition: int) -> tuple[int, int, Rows]:
        """The first row of a partition, the one behind its last, and its rows."""
        return (*self.borders(partition), self.partitions[partition])

    def _partition_sizes(self) -> list[tuple[int, int]]:
        return [(n_rows(rows), n_stored(rows)) for rows in self.partitions]

    def make_pass(
        self,
        step: Callable[..., Any],
        labels: Labels,
        *,
        looks_at_rows: bool = True,
        effort: float = 1.0,
        **others: Any,
    ) -> Pass:
        """Call `step` on every block of rows, or at once where all rows are one: to cut them would cost more."""
        rows = self.partitions[0]
        level = level_of(effort) if looks_at_rows else None
        if len(self.partitions) > 1 or not is_one_block(n_rows(rows), n_stored(rows), level):
            return super().make_pass(step, labels, looks_at_rows=looks_at_rows, effort=effort, **others)
        return self._pass_over_one_block(step, Block(rows, *labels) if looks_at_rows else labels, **others)

    def _pass_over_one_block(
        self,
        step: Callable[..., Any],
        block: Block | Labels,
        *,
        shared: Sequence[Any] = (),
        reads: Sequence[RowVector] = (),
        writes: Sequence[Any] = (),
        sums: Sequence[int | tuple[int, ...] | Array] = (),
    ) -> Pass:
        if isinstance(block, Block):
            check_pause()
        written = tuple(self.new_vector(kind) for kind in writes)
        totals = tuple(start_of_sum(kind, is_first=True) for kind in sums)
        return Pass([step(block, *shared, *reads, *written, *totals)], written, totals)

    def groups(self, partition: int, request: Request, n_groups: int) -> list[list[Span]]:
        """Blocks of a partition in groups, as of earlier passes."""
        key = partition, request.looks_at_rows, request.effort, n_groups
        if key not in self._cuts:
            self._cuts[key] = super().groups(partition, request, n_groups)
        return self._cuts[key]

    def _spans(self, partition: int, level: int) -> list[Span]:
        key = partition, level
        if key not in self._cuts:
            first = sum(map(n_rows, self.partitions[:partition]))
            self._cuts[key] = cut_into_spans(self.partitions[partition], first, level)
        return self._cuts[key]
