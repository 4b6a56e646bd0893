"""What moves in budgeted stochastic gradient descent: an expansion, its mean, and counters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels import Support, new_support


class Counters(NamedTuple):
    """What has been done so far."""

    size: int = 0  # support vectors
    steps: int = 0  # t - 1: rows visited, over all calls
    position: int = 0  # in the present pass
    visits: int = 0  # of the present rows
    violations: int = 0
    repeats: int = 0  # of these, rows equal to a support vector
    merges: int = 0
    kernel_rows: int = 0
    pairs: int = 0  # of vectors examined for merging
    training_seconds: float = 0.0
    maintenance_seconds: float = 0.0
    finding_seconds: float = 0.0  # of these, to find whom to merge with, loops and all


class BudgetState(NamedTuple):
    """What moves. Output c is f_c(x) = n / t (sum_j alpha[c, j] k(z_j, x) + offset[c]) with t = `counters.steps`."""

    support: Support
    alpha: Array  # (n_outputs, capacity)
    offset: Array  # (n_outputs,)
    mean: Array  # of n / t alpha over the last iterates
    mean_offset: Array
    order: Array  # of the present pass over the rows
    rng: Array  # random state
    n: float  # rows that lambda = 1 / (C n) is made for
    counters: Counters

    @property
    def coefficients(self) -> Array:
        """The factor of k(z_j, x) in each output, of shape (n_outputs, n_support)."""
        return self.mean[:, : self.counters.size].copy()

    @property
    def intercepts(self) -> Array:
        """b of each output."""
        return self.mean_offset.copy()

    @property
    def last_coefficients(self) -> Array:
        """The same of the last iterate."""
        return self.scale * self.alpha[:, : self.counters.size]

    @property
    def last_intercepts(self) -> Array:
        """The same of the last iterate."""
        return self.scale * self.offset

    @property
    def scale(self) -> float:
        """n / t."""
        return self.n / max(1, self.counters.steps)

    def filled(self, vectors: Array) -> BudgetState:
        """The same with these rows as support vectors, whose coefficients are yet to be set."""
        size = len(vectors)
        self.support.vectors[:, :size] = vectors.T
        self.support.norms2[:size] = np.einsum("jf,jf->j", vectors, vectors, dtype=np.float64)
        return self._replace(counters=Counters(size=size, steps=size))

    def with_room(self, capacity: int) -> BudgetState:
        """The same with room for so many support vectors: that of a loaded model, or of a smaller budget, has less."""
        if capacity <= len(self.support.norms2):
            return self
        features, had = self.support.vectors.shape
        support = new_support(features, capacity, self.support.vectors.dtype)
        support.vectors[:, :had], support.norms2[:had] = self.support.vectors, self.support.norms2
        rooms = np.zeros((2, len(self.alpha), len(support.norms2)))
        rooms[0, :, :had], rooms[1, :, :had] = self.alpha, self.mean
        return self._replace(support=support, alpha=rooms[0], mean=rooms[1])

    def set_coefficients(self, coefficients: Array, intercepts: Array) -> None:
        """Change the answer in place: the last iterate and the mean become this one."""
        self.mean[:, : self.counters.size], self.mean_offset[:] = coefficients, intercepts
        self.alpha[:, : self.counters.size], self.offset[:] = coefficients / self.scale, intercepts / self.scale
