"""Kernel values among some of the rows of a matrix: what the binary problems of several classes share.

Rows, their squared lengths and their copy in float32 are those of the whole matrix; a part is a list of row numbers.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels.blocks import Columns
from maxmargin.kernels.rounding import Digits


class PartOfValues:
    """Values of the rows `rows` of a larger matrix; the interface is that of `blocks.KernelValues`.

    Parameters
    ----------
    values : KernelValues, PrecomputedValues, CallableValues or PartOfValues
    rows : ndarray of int
    n_jobs : int, optional
        Threads (default: those of `values`).
    """

    whole: Any
    rows: Array

    def __init__(self, values: Any, rows: Array, n_jobs: int | None = None):
        if isinstance(values, PartOfValues):
            values, rows = values.whole, values.rows[rows]
        values.prepare()  # what all parts share
        self.whole, self.rows, self.n_rows = copy.copy(values), rows, len(rows)  # a copy has its own counter
        self.whole.n_values = 0
        if n_jobs is not None:
            self.whole.n_jobs = n_jobs

    @property
    def dtype(self) -> Any:
        """In which values are accurate enough to work with."""
        return self.whole.dtype

    @property
    def is_cheap(self) -> bool:
        """Whether a value is computed faster than it is fetched from memory."""
        return self.whole.is_cheap

    @property
    def n_jobs(self) -> int:
        """Threads."""
        return self.whole.n_jobs

    @property
    def n_values(self) -> int:
        """Values computed so far."""
        return self.whole.n_values

    @property
    def diagonal(self) -> Array:
        """k(x_i, x_i), float64."""
        return self.whole.diagonal_of(self.rows)

    def diagonal_of(self, which: Array) -> Array:
        """k(x_i, x_i) of some rows, float64."""
        return self.whole.diagonal_of(self.rows[which])

    def columns(self, J: Array, dtype: Any = None) -> Columns:
        """Prepare rows J as columns of kernel values."""
        return self.whole.columns(self.rows[J], dtype)

    def block(self, which: Array, columns: Columns, out: Array, places: Array, offset: int = 0) -> None:
        """Let ``out[places[r], offset + c]`` be k of row ``which[r]`` and column c."""
        self.whole.block(self.rows[which], columns, out, places, offset)

    def apply(self, which: Array, J: Array, beta: Array, dtype: Any = None) -> Array:
        """Sums over j in J of beta_j k(x_i, x_j), for every row i of `which`."""
        return self.whole.apply(self.rows[which], self.rows[J], np.asarray(beta), dtype)

    def part(self, which: Array) -> PartOfValues:
        """Values of some of these rows."""
        return PartOfValues(self.whole, self.rows[which])

    def apply_symmetric(self, J: Array, beta: Array) -> Array:
        """As ``apply(J, J, beta, np.float64)``, at half the price."""
        return self.whole.apply_symmetric(self.rows[J], beta)

    def errors(self, which: Array, sums: Array) -> Array:
        """How wrong sums of beta_j k(x_i, x_j) may be, given those of |beta_j| k(x_i, x_j)."""
        return self.whole.errors(self.rows[which], sums)

    @cached_property
    def digits(self) -> Digits:
        """How large values are, and how wrong in float64."""
        return self.whole.digits.of(self.rows)

    def longest_sum(self, n: int) -> int:
        """Roundings that a term of a sum over n rows goes through, at most."""
        return self.whole.longest_sum(n)
