"""Kernel values among the active rows of block SMO: computed when first used, kept in one arena of memory.

A kept row has its values with all active rows, one after the other. When rows join the active set, kept rows grow by
their columns; when rows leave it, kept rows are compacted in place. Nothing that is still of use is computed again, and
no memory is asked for after the beginning: pages that are touched for the first time cost more than the values in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled
from maxmargin.data.rows import Array
from maxmargin.parallel import map_blocks
from maxmargin.problem.gram_rows import least_recently_used

_LEAST_BYTES = 1 << 20  # of the arena
_LEAST_SLOTS = 64  # rows that there must be room for
_HEADROOM = 1.05  # of the columns, for rows that join
_LOOSE = 1.2  # of the columns, from where on they are laid out anew
_TILE = 1024  # columns whose sums stay in the nearest cache
_GATHER = 128  # rows of a block's matrix that a thread copies at a time
_MIRRORED = 16  # rows of it that are mirrored at a time: a line of the processor's cache
_ROWS_A_SUM = 64  # rows whose sum is float32; see `kernels.rounding`


class ActiveRows:
    """The active rows, and those of their kernel rows that have been used.

    Parameters
    ----------
    values : KernelValues
    cache_size : float
        Megabytes for kernel values.
    """

    def __init__(self, values: Any, cache_size: float):
        self.values = values
        self.arena = np.empty(max(_LEAST_BYTES, int(cache_size * 2**20)) // 4, np.float32)
        self.rows = np.zeros(0, np.int64)  # the active ones
        self.wanted = self.rows  # the same, as they were given to `change`
        self.stride, self.columns = 64, values.columns(self.rows)
        self._lay_out(np.zeros(0, np.int64), 0)

    @property
    def most(self) -> int:
        """How many rows may be active."""
        return len(self.arena) // _LEAST_SLOTS - 16

    @property
    def n_slots(self) -> int:
        """How many kernel rows there is room for; no more than there are rows, and one."""
        return min(len(self.arena) // self.stride, self.values.n_rows + 1)

    def _stride_for(self, width: int) -> int:
        """The distance between kernel rows of this many columns: as it is, unless that is too small or a waste."""
        if width <= self.stride <= _LOOSE * max(width, 64):
            return self.stride
        return min(-(-int(_HEADROOM * width + 64) // 16) * 16, max(self.most, width) + 16)

    def _lay_out(self, owner: Array, width: int) -> None:
        """Begin with the kernel rows of positions `owner` in the first slots."""
        self.matrix = self.arena[: self.n_slots * self.stride].reshape(self.n_slots, self.stride)
        self.slot = np.full(width, -1, np.int64)
        self.slot[owner] = np.arange(len(owner))
        self.owner, self.used = np.full(self.n_slots, -1, np.int64), np.zeros(self.n_slots, np.int64)
        self.owner[: len(owner)] = owner
        self.clock = 1
        self.forget_block()

    def forget_block(self) -> None:
        """Make the kernel matrix of the next block anew."""
        self.last_block = np.zeros(0, np.int64)

    def change(self, rows: Array) -> None:
        """Let exactly these rows be active."""
        if rows is self.wanted:
            return
        self.wanted = rows
        place = np.full(self.values.n_rows, -1, np.int64)
        place[rows] = 0
        stay = place[self.rows] == 0  # of the present ones
        place[self.rows[stay]] = 1
        joined, staying = rows[place[rows] == 0], np.flatnonzero(stay)
        kept = self.owner[self.owner >= 0]
        slots = np.sort(self.slot[kept[stay[kept]]])
        owner = (np.cumsum(stay) - 1)[self.owner[slots]]
        width, before = len(staying) + len(joined), self.stride
        self.stride = self._stride_for(width)
        n_kept = min(len(owner), self.n_slots - 1)
        owner, slots = owner[:n_kept], slots[:n_kept]
        _compact(self.arena, slots, staying.astype(np.uint32), before, min(before, self.stride))
        if self.stride > before:
            _spread(self.arena, n_kept, len(staying), before, self.stride)
        self._lay_out(owner, width)
        self.rows = np.concatenate([self.rows[staying], joined])
        if len(joined) and n_kept:
            self.values.block(
                self.rows[owner], self.values.columns(joined), self.matrix, np.arange(n_kept), len(staying)
            )
        self.columns = self.values.columns(self.rows)

    def slots(self, block: Array) -> Array:
        """Where in `matrix` the kernel rows of these positions are, computed if they are missing."""
        self.clock += 1
        slots = self.slot[block]
        self.used[slots[slots >= 0]] = self.clock
        missing = block[slots < 0]
        if len(missing):
            free = least_recently_used(self.used, self.owner, len(missing))
            gone = self.owner[free]
            self.slot[gone[gone >= 0]] = -1
            self.values.block(self.rows[missing], self.columns, self.matrix, free)
            self.slot[missing], self.owner[free], self.used[free] = free, missing, self.clock
        return self.slot[block]

    def order(self, block: Array) -> Array:
        """The positions of a block: those of the block before in their old order, then the others."""
        place = np.full(len(self.rows), len(self.rows))
        place[self.last_block] = np.arange(len(self.last_block))
        return block[np.argsort(place[block], kind="stable")]

    def gram(self, block: Array, slots: Array, out: Array) -> Array:
        """The kernel matrix of a block, in the first rows and columns of `out`, a square that has that of the last one.

        What rows have in common that were in the block before is moved, not computed again.
        """
        q, side = len(block), len(out)
        place = np.full(len(self.rows), -1)
        place[self.last_block] = np.arange(len(self.last_block))
        was = place[block]
        n_kept = int(np.count_nonzero(was >= 0))  # these are the first, see `order`
        self.last_block = block
        if n_kept > 0 and was[n_kept - 1] >= n_kept:  # they have moved
            _compact(out.reshape(-1), was[:n_kept], was[:n_kept].astype(np.uint32), side, side)
        if n_kept == q:
            return out
        n_jobs, fresh = self.values.n_jobs, np.arange(n_kept, q)
        if self.values.is_cheap:
            self.values.block(self.rows[block[fresh]], self.values.columns(self.rows[block]), out, fresh)
        else:
            map_blocks(
                lambda lo, hi: _gather(self.matrix, slots[lo:hi], block, out[lo:hi]),
                [*range(n_kept, q, _GATHER), q],
                n_jobs,
            )
        map_blocks(lambda lo, hi: _mirror(out, lo, hi, n_kept, q), [*range(0, n_kept, _GATHER), n_kept], n_jobs)
        return out

    def add(self, slots: Array, change: Array, f: Array) -> Array:
        """Add to the outputs f of the active rows what a change of coefficients does to them; bounds of the errors."""
        spread, change = np.zeros(len(f)), change.astype(np.float32)
        borders = [*range(0, len(f), _TILE), len(f)]
        map_blocks(lambda lo, hi: _add_rows(self.matrix, slots, change, f, spread, lo, hi), borders, self.values.n_jobs)
        return self.values.errors(self.rows, spread)


@compiled
def _compact(arena, slots, columns, old, new):
    """Bring kept columns of kept rows to the front, in place, old and new (no more) values apart.

    Nothing is written before it has been read; by way of a line of its own, which compilers can vectorise.
    """
    line = np.empty(len(columns), np.float32)
    for r in range(len(slots)):
        source, target = arena[slots[r] * old : (slots[r] + 1) * old], arena[r * new : r * new + len(columns)]
        for c in range(len(columns)):
            line[c] = source[columns[c]]
        for c in range(len(columns)):  # target[:] = line would compile messages about shapes, too
            target[c] = line[c]


@compiled
def _spread(arena, n, width, old, new):
    """Give n rows a larger distance from each other."""
    for r in range(n - 1, -1, -1):
        for c in range(width - 1, -1, -1):
            arena[r * new + c] = arena[r * old + c]


@compiled
def _gather(matrix, slots, block, out):
    for r in range(len(slots)):
        row, target = matrix[slots[r]], out[r]
        for c in range(len(block)):
            target[c] = row[np.uint64(block[c])]


@compiled
def _mirror(out, lo, hi, begin, end):
    """Fill rows `lo` to `hi` of a symmetric matrix, from column `begin` to `end`, from below its diagonal."""
    for first in range(lo, hi, _MIRRORED):
        last = min(first + _MIRRORED, hi)
        for c in range(begin, end):
            row = out[c]
            for r in range(first, last):
                out[r, c] = row[r]


@compiled(fastmath=DENSE_MATH)
def _add_rows(matrix, slots, change, f, spread, begin, end):
    """f += sum_s change[s] matrix[slots[s]], and spread likewise with |change|, from column `begin` to `end`.

    Eight rows at a time; what 64 rows add up to in float32 is added to f in float64.
    """
    width = end - begin
    sums, sizes = np.empty(width, np.float32), np.empty(width, np.float32)
    for first in range(0, len(slots), _ROWS_A_SUM):
        last = min(first + _ROWS_A_SUM, len(slots))
        sums[:] = np.float32(0.0)
        sizes[:] = np.float32(0.0)
        s = first
        while s + 8 <= last:
            k0, k1 = matrix[slots[s], begin:end], matrix[slots[s + 1], begin:end]
            k2, k3 = matrix[slots[s + 2], begin:end], matrix[slots[s + 3], begin:end]
            k4, k5 = matrix[slots[s + 4], begin:end], matrix[slots[s + 5], begin:end]
            k6, k7 = matrix[slots[s + 6], begin:end], matrix[slots[s + 7], begin:end]
            c0, c1, c2, c3 = change[s], change[s + 1], change[s + 2], change[s + 3]
            c4, c5, c6, c7 = change[s + 4], change[s + 5], change[s + 6], change[s + 7]
            a0, a1, a2, a3 = abs(c0), abs(c1), abs(c2), abs(c3)
            a4, a5, a6, a7 = abs(c4), abs(c5), abs(c6), abs(c7)
            for j in range(width):
                v0, v1, v2, v3, v4, v5, v6, v7 = k0[j], k1[j], k2[j], k3[j], k4[j], k5[j], k6[j], k7[j]
                low, high = c0 * v0 + c1 * v1 + c2 * v2 + c3 * v3, c4 * v4 + c5 * v5 + c6 * v6 + c7 * v7
                sums[j] += low + high
                low, high = a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3, a4 * v4 + a5 * v5 + a6 * v6 + a7 * v7
                sizes[j] += low + high
            s += 8
        while s < last:
            k0, c0, a0 = matrix[slots[s], begin:end], change[s], abs(change[s])
            for j in range(width):
                sums[j] += c0 * k0[j]
                sizes[j] += a0 * k0[j]
            s += 1
        for j in range(width):
            f[begin + j] += sums[j]
            spread[begin + j] += sizes[j]
