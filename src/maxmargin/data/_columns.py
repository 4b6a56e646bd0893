"""The arrays of a CSR matrix, while rows are still being added at their end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

INT32_MAX = 2**31 - 1


class Limits(NamedTuple):
    """What makes a row ordinary, and how its indices are stored."""

    shift: int  # subtracted from every index
    lowest: int  # index
    highest: int  # index
    largest: float  # absolute value
    with_queries: bool


class Target(NamedTuple):
    """Where rows go. `queries` is empty unless asked for."""

    labels: Any
    queries: Any
    row_sizes: Any
    indices: Any
    values: Any

    def after(self, n_rows: int, n_values: int) -> Target:
        """The room behind the first `n_rows` rows and `n_values` values."""
        labels, queries, row_sizes, indices, values = self
        return Target(labels[n_rows:], queries[n_rows:], row_sizes[n_rows:], indices[n_values:], values[n_values:])


class Piece(NamedTuple):
    """What one part of the text gave: where its rows and values were stored, how many, and the range of its indices."""

    first_row: int
    first_value: int
    n_rows: int
    n_values: int
    smallest: int
    largest: int


class Columns:
    """Labels, query ids and sizes of rows; indices and values of features.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the values.
    wide : bool
        Indices as int64 from the start.
    with_queries : bool
        Keep query ids.
    """

    def __init__(self, dtype: Any, wide: bool, with_queries: bool):
        self.labels: np.ndarray = np.empty(0)
        self.queries: np.ndarray = np.empty(0, dtype=np.int64)
        self.row_sizes: np.ndarray = np.empty(0, dtype=np.int64)
        self.indices: np.ndarray = np.empty(0, dtype=np.int64 if wide else np.int32)
        self.values: np.ndarray = np.empty(0, dtype=dtype)
        self.n_rows = 0
        self.n_values = 0
        self._with_queries = with_queries

    @property
    def wide(self) -> bool:
        """Are indices stored as int64?"""
        return self.indices.dtype == np.int64

    def widen(self) -> None:
        """Store indices as int64 from now on."""
        self.indices = self.indices.astype(np.int64)

    def reserve(self, n_rows: int, n_values: int, fraction: float) -> Target:
        """Room for so many more rows and values.

        `fraction` tells how much of the input will then have been stored (0: nobody knows). The room for the rest
        is taken at once: memory that is never touched costs nothing, and nothing has to be moved later.
        """
        rows, values = self.n_rows + n_rows, self.n_values + n_values
        self.labels = _enlarged(self.labels, self.n_rows, rows, fraction)
        self.row_sizes = _enlarged(self.row_sizes, self.n_rows, rows, fraction)
        if self._with_queries:
            self.queries = _enlarged(self.queries, self.n_rows, rows, fraction)
        self.indices = _enlarged(self.indices, self.n_values, values, fraction)
        self.values = _enlarged(self.values, self.n_values, values, fraction)
        return Target(self.labels, self.queries, self.row_sizes, self.indices, self.values)

    def close_gaps(self, pieces: Iterable[Piece]) -> None:
        """Move pieces, which were stored with room between them, together."""
        for piece in pieces:
            for array in (self.labels, self.row_sizes, *([self.queries] if self._with_queries else [])):
                _move(array, piece.first_row, self.n_rows, piece.n_rows)
            for array in (self.indices, self.values):
                _move(array, piece.first_value, self.n_values, piece.n_values)
            self.n_rows += piece.n_rows
            self.n_values += piece.n_values

    def trim(self) -> None:
        """Give the room at the end back."""
        for array in (self.labels, self.row_sizes, self.queries):
            array.resize(self.n_rows if array is not self.queries or self._with_queries else 0, refcheck=False)
        for array in (self.indices, self.values):
            array.resize(self.n_values, refcheck=False)


def _enlarged(array: np.ndarray, used: int, needed: int, fraction: float) -> np.ndarray:
    """An array with room for `needed` entries, the first `used` of them as before."""
    if needed <= len(array):
        return array
    capacity = needed
    if fraction < 1.0:
        likely = int(1.02 * needed / fraction) if fraction else 2 * needed
        capacity = max(needed, likely, len(array) + len(array) // 4)
    try:
        larger = np.empty(capacity, dtype=array.dtype)
    except MemoryError:  # a bad guess should not be what fails
        larger = np.empty(needed, dtype=array.dtype)
    larger[:used] = array[:used]
    return larger


def _move(array: np.ndarray, begin: int, target: int, size: int) -> None:
    if begin != target:
        array[target : target + size] = array[begin : begin + size]
