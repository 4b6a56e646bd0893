"""How rows are cut into blocks for a pass, and in which order what blocks add up to is added.

Both depend on the data alone: neither on the number of threads nor on where the rows are.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array, Rows, between, n_rows, n_stored, row_blocks

LEAST_VALUES = 1 << 19  # stored values of a block, at least: a millisecond of work
MOST_BLOCKS = 64
_ROWS_BITS = 15  # of a block that is cut without a look at its rows: 2^15 entries of a vector, at least
_MOST_GROUPS = 16
_SMALL = 8  # so many times, at least, are the stored values of a group more than the numbers that it sums


class Span(NamedTuple):
    """A block: rows begin to end of all, and these rows, or what the source finds them by."""

    begin: int
    end: int
    rows: Any


def cut_into_spans(rows: Rows, first: int, level: int) -> list[Span]:
    """The blocks of a partition whose first row is number `first` of all."""
    n = n_rows(rows)
    pairs = parts_of_pages(page_borders(rows).tolist(), n_stored(rows), level)
    return [Span(first + lo, first + hi, rows if hi - lo == n else between(rows, lo, hi)) for lo, hi in pairs]


def most_groups(size: int, stored: int, effort: float) -> int:
    """How many sums of so many numbers a partition with so many stored values may have."""
    if not size:
        return 1 << 30
    return max(1, min(_MOST_GROUPS, stored // (_SMALL * size), int(effort * stored) // LEAST_VALUES))


def divided(spans: list[Span], n_groups: int) -> list[list[Span]]:
    """Blocks in so many groups, each of neighbours."""
    cuts = [k * len(spans) // n_groups for k in range(n_groups + 1)]
    return [spans[lo:hi] for lo, hi in itertools.pairwise(cuts)]


@functools.lru_cache(1024)
def vector_spans(first: int, n: int) -> list[Span]:
    """The blocks of a partition for a pass that does not look at its rows."""
    return [Span(first + int(lo), first + int(hi), None) for lo, hi in itertools.pairwise(vector_blocks(n)) if lo < hi]


def fold(sums: list[list[Array]]) -> list[Array]:
    """The sums of groups, added to those of the first in their order."""
    for others in sums[1:]:
        for total, other in zip(sums[0], others):
            total += other
    return sums[0]


class SumTree:
    """Sums of partitions, added in pairs, pairs of pairs, and so on, while they come in their order.

    The order of additions depends on the number of partitions alone, and no more sums are alive than a tree of them is
    high.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, list[Array]]] = []  # sums of so many partitions, each of fewer than the former

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been added yet."""
        return not self._waiting

    def add(self, sums: list[Array]) -> None:
        """Add the sums of the next partition."""
        n = 1
        while self._waiting and self._waiting[-1][0] == n:
            n, sums = 2 * n, fold([self._waiting.pop()[1], sums])
        self._waiting.append((n, sums))

    def total(self) -> list[Array]:
        """The sums of all."""
        sums = self._waiting.pop()[1]
        while self._waiting:
            sums = fold([self._waiting.pop()[1], sums])
        return sums


def page_borders(rows: Rows) -> Array:
    """Borders of the largest blocks of a partition: half a million values or more each; by the data alone."""
    borders = row_blocks(rows, max(1, min(MOST_BLOCKS, n_stored(rows) // LEAST_VALUES, n_rows(rows))))
    return borders[np.flatnonzero(np.diff(borders, append=borders[-1] + 1))]  # a long row leaves a block empty


def parts_of_pages(borders: list[int], stored: int, level: int) -> list[tuple[int, int]]:
    """Blocks for ``1 << level`` times the work of an inner product: so many of each page, if they are worth it.

    Parameters
    ----------
    borders : list of int
        Of the pages of a partition.
    stored : int
        Number of its stored values.
    level : int
    """
    n_pages = max(1, len(borders) - 1)
    n_parts = max(1, min(1 << level, (stored << level) // (LEAST_VALUES * n_pages)))
    pairs: list[tuple[int, int]] = []
    for begin, end in itertools.pairwise(borders):
        cuts = np.unique(np.linspace(begin, end, n_parts + 1).astype(np.int64)).tolist()
        pairs += itertools.pairwise(cuts)
    return pairs


def level_of(effort: float) -> int:
    """The level of blocks for a step of so much work, beside that of an inner product with every row."""
    return min(math.ceil(math.log2(effort)), 8) if effort > 1.0 else 0


def is_one_block(n: int, stored: int, level: int | None) -> bool:
    """Whether a partition of n rows is one block: of the rows, or of what is known of them if there is no level."""
    return n > 0 and (n < 2 << _ROWS_BITS if level is None else stored << level < 2 * LEAST_VALUES)


def vector_blocks(n: int) -> Array:
    """Blocks of vectors with an entry for each of n rows."""
    return np.linspace(0, n, max(1, min(MOST_BLOCKS, n >> _ROWS_BITS)) + 1).astype(np.int64)


def size_of(kind: int | tuple[int, ...] | Array) -> int:
    """How many numbers a sum has."""
    return kind.size if isinstance(kind, np.ndarray) else math.prod(kind) if isinstance(kind, tuple) else kind
