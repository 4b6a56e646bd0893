"""From class labels to kernel machines, mostly binary ones, and from their coefficients to LIBSVM's layout.

The support vectors of several classes lie class by class. Of k classes, one against one, support vector v of class c
has k - 1 coefficients, one for each other class: in row j - 1 of column v that of the pair (c, j) if c < j, in row i
that of the pair (i, c) if i < c. A positive decision of the pair (i, j) means i, unless there are two classes only:
then, as everywhere in scikit-learn, it means the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.classes import ClassBlocks
from maxmargin.kernels.kept import KeptValues
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.kernel.small import ALWAYS_SMALL, Together, together

_LEAST_CLASSES = 5  # from where on the values within a class are worth computing all of
_BLOCK_SHARE = 0.5  # of the cache, that they may take
_FEW_ROWS = 2000  # of all classes, of which all kernel values are computed at once


class BinaryMachines(Sequence[KernelProblem]):
    """The binary problems of a classification, made when asked for.

    Parameters
    ----------
    problem : KernelProblem or KernelClasses
        All rows, with their costs; its labels do not matter. Rows are shared.
    codes : ndarray of int
        Class of each row, counted from 0.
    n_classes : int
    at_once : int
        How many of the problems are solved at a time.
    """

    problem: Any

    def __init__(self, problem: KernelProblem | KernelClasses, codes: Array, n_classes: int, at_once: int = 1):
        self.problem, self.codes, self.n_classes, self.at_once = problem, codes, n_classes, at_once
        self.n_jobs = max(1, problem.n_jobs // at_once)

    def names(self, classes: Array) -> list[str]:
        """What each problem decides, for messages."""
        raise NotImplementedError

    def together(self) -> Together | None:
        """All problems as small ones on one kernel matrix; None if they are not that small, or only one."""
        return None

    def coefficients(self, betas: list[Array]) -> Array:
        """Coefficients of all rows, of shape (n_rows of `dual_coef_`, n_rows), from those of the problems."""
        raise NotImplementedError


class TwoClasses(BinaryMachines):
    """One problem, in which the second class is the positive one."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        """The problem."""
        return self.problem

    def names(self, classes: Array) -> list[str]:
        """Nothing needs to be said."""
        return [""]

    def coefficients(self, betas: list[Array]) -> Array:
        """One row."""
        return betas[0][np.newaxis]


class OneVsOne(BinaryMachines):
    """A problem for each pair of classes, which has the rows of these two: those of the first, then of the second."""

    def __init__(self, problem: KernelProblem, codes: Array, n_classes: int, at_once: int = 1):
        if problem.n_rows <= _FEW_ROWS and KeptValues.megabytes(problem.n_rows) <= _BLOCK_SHARE * problem.cache_size:
            problem = problem.with_kept_values()
        super().__init__(problem, codes, n_classes, at_once)
        self.blocks = self._shared_values()

    def _shared_values(self) -> ClassBlocks | None:
        """Kernel values that the pairs share, if these fit the cache."""
        values, room = self.problem.values, _BLOCK_SHARE * self.problem.cache_size
        is_worth_it = self.n_classes >= _LEAST_CLASSES and ClassBlocks.megabytes(self.codes) <= room
        if not (is_worth_it and isinstance(values, KernelValues) and values.dtype == np.float32):
            return None
        return ClassBlocks(values, self.codes, self.n_classes)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The classes of each problem."""
        return list(itertools.combinations(range(self.n_classes), 2))

    def __len__(self) -> int:
        return self.n_classes * (self.n_classes - 1) // 2

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        """The problem that separates the first class of a pair from the second."""
        rows = self._rows(*self.pairs[k])
        y = np.where(self.codes[rows] == self.pairs[k][0], 1.0, -1.0)
        return self.problem.with_labels(
            y, self.problem.cost[rows], rows, n_jobs=self.n_jobs, share=self.at_once, blocks=self.blocks
        )

    def together(self) -> Together | None:
        """The pairs, if the kernel values of all rows are kept and no pair has many rows."""
        counts = np.array([len(rows) for rows in self._rows_of])
        firsts, seconds = np.triu_indices(self.n_classes, 1)
        lengths = counts[firsts] + counts[seconds]
        problem, most = self.problem, lengths.max()
        if not isinstance(problem.values, KeptValues) or most > ALWAYS_SMALL or problem.penalize_intercept:
            return None
        rows = np.concatenate([self._rows_of[c] for pair in zip(firsts, seconds) for c in pair])
        sizes = np.column_stack([counts[firsts], counts[seconds]]).ravel()
        y = np.repeat(np.tile([1.0, -1.0], len(lengths)), sizes)
        return together(problem, rows, np.append(0, np.cumsum(lengths)), y, problem.cost[rows])

    @cached_property
    def _rows_of(self) -> list[Array]:
        """The rows of each class."""
        return [np.flatnonzero(self.codes == c) for c in range(self.n_classes)]

    def _rows(self, i: int, j: int) -> Array:
        return np.concatenate([self._rows_of[i], self._rows_of[j]])

    def names(self, classes: Array) -> list[str]:
        """The pairs."""
        return [f"{classes[i]!s} against {classes[j]!s}" for i, j in self.pairs]

    def coefficients(self, betas: list[Array]) -> Array:
        """LIBSVM's layout."""
        out = np.zeros((self.n_classes - 1, len(self.codes)))
        for (i, j), beta in zip(self.pairs, betas):
            first, second = self._rows_of[i], self._rows_of[j]
            out[j - 1, first], out[i, second] = beta[: len(first)], beta[len(first) :]
        return out


class OneVsRest(BinaryMachines):
    """A problem for each class against all others. A class's weight counts in its own problem only."""

    def __init__(self, problem: KernelProblem, codes: Array, factors: Array, at_once: int = 1):
        super().__init__(problem, codes, len(factors), at_once)
        self.factors = factors

    def __len__(self) -> int:
        return self.n_classes

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        """The problem that separates class k from the rest."""
        own = self.codes == k
        cost = self.problem.cost * np.where(own, self.factors[k], 1.0)
        return self.problem.with_labels(np.where(own, 1.0, -1.0), cost, n_jobs=self.n_jobs, share=self.at_once)

    def together(self) -> Together | None:
        """The problems, if there are few rows."""
        n, k, problem = self.problem.n_rows, self.n_classes, self.problem
        if n > ALWAYS_SMALL or problem.penalize_intercept:
            return None
        own = np.repeat(self.codes[np.newaxis], k, axis=0) == np.arange(k)[:, np.newaxis]
        cost = (problem.cost * np.where(own, self.factors[:, np.newaxis], 1.0)).ravel()
        y = np.where(own, 1.0, -1.0).ravel()
        return together(problem.with_kept_values(), np.tile(np.arange(n), k), np.arange(k + 1) * n, y, cost)

    def names(self, classes: Array) -> list[str]:
        """The classes."""
        return [f"class {label!s}" for label in classes]

    def coefficients(self, betas: list[Array]) -> Array:
        """A row for each class."""
        return np.stack(betas)


class AllClasses(TwoClasses):
    """One problem of all classes at once (Crammer and Singer)."""

    def coefficients(self, betas: list[Array]) -> Array:
        """A row for each class; of two classes their difference, as everywhere."""
        beta = betas[0]
        return (beta[:, 1] - beta[:, 0])[np.newaxis] if self.n_classes == 2 else beta.T
