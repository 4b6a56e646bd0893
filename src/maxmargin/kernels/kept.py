"""Kernel values of a few rows, all of them computed at once in float64 and kept."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.functions import Linear
from maxmargin.kernels.given import PrecomputedValues
from maxmargin.kernels.part import PartOfValues
from maxmargin.kernels.rounding import Digits

_CHUNK = 256  # rows of a block


class KeptValues(PrecomputedValues):
    """The matrix of other values, which are not computed again; the interface is that of `blocks.KernelValues`.

    Parameters
    ----------
    values : KernelValues, PrecomputedValues, CallableValues or PartOfValues
    """

    def __init__(self, values: Any):
        self.source, self.n_rows, self.dtype = values, values.n_rows, np.float64
        every, whole = np.arange(values.n_rows), values.whole if isinstance(values, PartOfValues) else values
        self.matrix = np.empty((values.n_rows, values.n_rows))
        if isinstance(values, PartOfValues) and isinstance(values.whole, KeptValues):
            _take(values.whole.matrix, values.rows, values.rows, self.matrix)
        else:
            width = _CHUNK if isinstance(whole, KernelValues) else values.n_rows
            for begin in range(0, len(every), width):  # the upper triangle; the lower one is its mirror
                which = every[begin : begin + width]
                values.block(which, values.columns(every[begin:], np.float64), self.matrix, which, begin)
            _mirror(self.matrix, width)
        self.n_values = values.n_values
        source = whole.source if isinstance(whole, KeptValues) else whole
        self._is_linear = isinstance(source, KernelValues) and isinstance(source.function, Linear)

    @staticmethod
    def megabytes(n: int) -> float:
        """What those of n rows take."""
        return 8.0 * n * n / 2**20

    def _values(self, which: Array, J: Array) -> Array:
        out = np.empty((len(which), len(J)))
        _take(self.matrix, which, J, out)
        return out

    def diagonal_of(self, which: Array) -> Array:
        """k(x_i, x_i) of some rows."""
        return self.matrix[which, which]

    def apply(self, which: Array, J: Array, beta: Array, dtype: Any = None) -> Array:
        """Sums over j in J of beta_j k(x_i, x_j), for every row i of `which`; of a linear kernel by way of w."""
        if self._is_linear:
            return self.source.apply(which, J, beta, dtype)
        return super().apply(which, J, beta, dtype)

    @cached_property
    def digits(self) -> Digits:
        """How large values are, and how wrong."""
        return self.source.digits

    def longest_sum(self, n: int) -> int:
        """Roundings that a term of a sum over n rows goes through, at most."""
        return self.source.longest_sum(n) if self._is_linear else n


@compiled
def _take(matrix, rows, columns, out):
    """``matrix[np.ix_(rows, columns)]``, several times faster."""
    for r in range(len(rows)):
        source, target = matrix[rows[r]], out[r]
        for c in range(len(columns)):
            target[c] = source[columns[c]]


@compiled
def _mirror(matrix, width):
    """Copy what lies above the diagonal blocks to below them, square by square."""
    n = len(matrix)
    for top in range(0, n, width):
        for left in range(top + width, n, 32):
            for i in range(top, top + width):
                for j in range(left, min(left + 32, n)):
                    matrix[j, i] = matrix[i, j]
