"""Kernel values that are not computed by us: a matrix of the user's, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels.blocks import Columns
from maxmargin.kernels.rounding import Digits

_CHUNK = 1024
_LARGEST_SINGLE = 1e30


class PrecomputedValues:
    """Values from a square matrix; the interface is that of `blocks.KernelValues`."""

    is_cheap = False
    n_jobs = 1

    def __init__(self, matrix: Array):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a precomputed kernel must be a square matrix, got shape {matrix.shape}")
        self.matrix, self.n_rows, self.n_values = matrix, len(matrix), 0
        largest = max(float(matrix.max(initial=0.0)), -float(matrix.min(initial=0.0)))
        self.dtype: Any = np.float32 if largest < _LARGEST_SINGLE else np.float64

    def prepare(self) -> None:
        """Make what is made once: nothing."""

    @property
    def diagonal(self) -> Array:
        """k(x_i, x_i), float64."""
        return np.diagonal(self.matrix).astype(np.float64)

    def diagonal_of(self, which: Array) -> Array:
        """k(x_i, x_i) of some rows, float64."""
        return np.array([float(self._values(which[k : k + 1], which[k : k + 1])[0, 0]) for k in range(len(which))])

    def columns(self, J: Array, dtype: Any = None) -> Columns:
        """Prepare rows J as columns of kernel values."""
        return Columns(J, np.array([0, len(J)]), None, self.dtype if dtype is None else dtype)

    def _values(self, which: Array, J: Array) -> Array:
        self.n_values += len(which) * len(J)
        return self.matrix[np.ix_(which, J)]

    def block(self, which: Array, columns: Columns, out: Array, places: Array, offset: int = 0) -> None:
        """Let ``out[places[r], offset + c]`` be k of row ``which[r]`` and column c."""
        for begin in range(0, len(which), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            out[places[part], offset : offset + len(columns.J)] = self._values(which[part], columns.J)

    def apply(self, which: Array, J: Array, beta: Array, dtype: Any = None) -> Array:
        """Sums over j in J of beta_j k(x_i, x_j), for every row i of `which`; with several beta[k], several sums."""
        beta = np.asarray(beta)
        out = np.zeros((*beta.shape[:-1], len(which)))
        if len(J):
            for begin in range(0, len(which), _CHUNK):
                part = slice(begin, begin + _CHUNK)
                out[..., part] = beta @ self._values(which[part], J).astype(np.float64, copy=False).T
        return out

    def apply_symmetric(self, J: Array, beta: Array) -> Array:
        """Sums over j in J of beta_j k(x_i, x_j), for every row i of J."""
        return self.apply(J, J, beta)

    def errors(self, which: Array, sums: Array) -> Array:
        """How wrong sums of values that were kept in float32 may be: not known."""
        return np.full(len(which), np.inf)

    @cached_property
    def digits(self) -> Digits:
        """How large values are; they are right, since they are given."""
        largest = np.maximum(self.matrix.max(axis=1), -self.matrix.min(axis=1)).astype(np.float64)
        return Digits(np.sqrt(largest), np.zeros(self.n_rows))

    def longest_sum(self, n: int) -> int:
        """Roundings that a term of a sum over n rows goes through, at most."""
        return n


class CallableValues(PrecomputedValues):
    """Values of a Python function that takes two matrices of rows and returns the matrix of their kernel values."""

    def __init__(self, function: Callable[[Any, Any], Any], X: Any):
        self.function, self.X, self.n_rows, self.n_values = function, X, X.shape[0], 0
        self.dtype = np.float64

    @property
    def diagonal(self) -> Array:
        """k(x_i, x_i), float64; one call of the function for some rows at a time."""
        every = [np.arange(lo, min(lo + 64, self.n_rows)) for lo in range(0, self.n_rows, 64)]
        return np.concatenate([np.diagonal(self._values(which, which)) for which in every])

    @cached_property
    def digits(self) -> Digits:
        """How large values are if the function is a kernel: k(x, z)^2 <= k(x, x) k(z, z). They are taken as right."""
        return Digits(np.sqrt(np.abs(self.diagonal)), np.zeros(self.n_rows))

    def _values(self, which: Array, J: Array) -> Array:
        self.n_values += len(which) * len(J)
        values = np.asarray(self.function(self.X[which], self.X[J]), dtype=np.float64)
        if values.shape != (len(which), len(J)):
            raise ValueError(f"the kernel function returned shape {values.shape} for {len(which)} and {len(J)} rows")
        return values
