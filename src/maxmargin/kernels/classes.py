"""Kernel values that the pairs of classes share: those between two rows of the same class.

A row of class a is in all k - 1 problems of a against another class. Its values with the rows of that other class are
of use in one problem only, but its values with the rows of a in all: k(a, a) is computed once and kept, and a pair
(a, c) computes k(a, c) alone.

A class's block is computed whole, so its bits do not depend on which pair asks first.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.kernels.blocks import Columns
from maxmargin.kernels.part import PartOfValues


class ClassBlocks:
    """Float32 kernel values within each class, made when they are first asked for and kept from then on.

    Parameters
    ----------
    values : KernelValues
        Of all rows.
    codes : ndarray of int
        Class of each row, counted from 0; rows of class -1 take no part.
    n_classes : int
    """

    def __init__(self, values: Any, codes: Array, n_classes: int):
        self.values, self.codes = values, codes
        self.members = [np.flatnonzero(codes == c) for c in range(n_classes)]
        self.place = np.zeros(len(codes), np.int64)  # of a row within its class
        for members in self.members:
            self.place[members] = np.arange(len(members))
        self._blocks: list[Array | None] = [None] * n_classes
        self._locks = [threading.Lock() for _ in range(n_classes)]

    @staticmethod
    def megabytes(codes: Array) -> float:
        """What they take."""
        return 4.0 * float((np.bincount(codes[codes >= 0]).astype(float) ** 2).sum()) / 2**20

    def of(self, c: int) -> Array:
        """The values within class c."""
        with self._locks[c]:
            block = self._blocks[c]
            if block is None:
                members = self.members[c]
                block = np.empty((len(members), len(members)), np.float32)
                self.values.block(members, self.values.columns(members), block, np.arange(len(members)))
                self._blocks[c] = block
            return block


class _Run(NamedTuple):
    """Neighbouring columns of one class."""

    code: int
    begin: int
    J: Array
    columns: Columns  # for rows of the other class


class PairColumns(NamedTuple):
    """Columns of the problem of two classes."""

    runs: list[_Run]


class ValuesOfPair(PartOfValues):
    """Values of the rows of two classes, of which those within a class are taken from `blocks`.

    Parameters
    ----------
    blocks : ClassBlocks
    rows : ndarray of int
    n_jobs : int, optional
        Threads (default: those of the blocks' values).
    """

    is_cheap = False  # fetching what is kept costs less

    def __init__(self, blocks: ClassBlocks, rows: Array, n_jobs: int | None = None):
        super().__init__(blocks.values, rows, n_jobs)
        self.blocks = blocks

    def part(self, which: Array) -> ValuesOfPair:
        """Values of some of these rows."""
        return ValuesOfPair(self.blocks, self.rows[which])

    def columns(self, J: Array, dtype: Any = None) -> Any:
        """Prepare rows J as columns of kernel values."""
        if dtype not in (None, np.float32):
            return super().columns(J, dtype)
        J = self.rows[J]
        codes = self.blocks.codes[J]
        borders = [0, *(np.flatnonzero(np.diff(codes)) + 1), len(J)] if len(J) else [0]
        runs = itertools.pairwise(borders)
        return PairColumns([_Run(codes[lo], lo, J[lo:hi], self.whole.columns(J[lo:hi])) for lo, hi in runs])

    def block(self, which: Array, columns: Any, out: Array, places: Array, offset: int = 0) -> None:
        """Let ``out[places[r], offset + c]`` be k of row ``which[r]`` and column c."""
        if not isinstance(columns, PairColumns):
            super().block(which, columns, out, places, offset)
            return
        rows = self.rows[which]
        codes, place = self.blocks.codes[rows], self.blocks.place
        for run in columns.runs:
            own, begin = codes == run.code, offset + run.begin
            if not own.all():
                self.whole.block(rows[~own], run.columns, out, places[~own], begin)
            if own.any():
                _copy(self.blocks.of(run.code), place[rows[own]], place[run.J], out, places[own], begin)


@compiled
def _copy(block, rows, columns, out, places, begin):
    for r in range(len(rows)):
        source, target = block[rows[r]], out[places[r], begin : begin + len(columns)]
        for c in range(len(columns)):
            target[c] = source[np.uint64(columns[c])]
