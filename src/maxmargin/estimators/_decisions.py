"""Decision functions of fitted kernel machines, prepared once and not part of what is saved or copied."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from maxmargin import kernels
from maxmargin.data.rows import Array, Rows, as_rows, matvec
from maxmargin.kernels.expansion import Expansion
from maxmargin.models.pairs import pair_outputs


class Decisions:
    """What `predict` needs of a fitted kernel machine, made when it is first asked for.

    A copy or a pickle of it is empty, and is filled again from the estimator's attributes.
    """

    def __init__(self) -> None:
        self.made_for: tuple[Any, ...] = ()
        self.parts: list[Expansion] = []
        self.coef: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        return Decisions().__dict__

    def outputs(self, estimator: Any, rows: Rows, n_jobs: int) -> Array:
        """Values of all decision functions without their intercepts, of shape (n_rows, n_problems)."""
        self._prepare(estimator)
        if self.coef is not None:
            return np.stack([matvec(rows, w, n_jobs) for w in self.coef], axis=1)
        each = [part.outputs(rows, n_jobs) for part in self.parts]
        return each[0] if len(each) == 1 else pair_outputs(each)

    def _prepare(self, estimator: Any) -> None:
        now = (estimator.dual_coef_, estimator.support_vectors_, estimator.kernel_)
        if len(self.made_for) == 3 and all(a is b for a, b in zip(now, self.made_for)):
            return
        coefficients = as_array(estimator.dual_coef_)
        self.coef, self.parts = None, []
        if isinstance(estimator.kernel_, kernels.Linear):
            self.coef = np.ascontiguousarray(as_array(estimator.coef_), np.float64)
        elif estimator.is_one_vs_one:
            ends = np.cumsum(estimator.n_support_)
            for begin, end in zip(ends - estimator.n_support_, ends):
                rows = as_rows(estimator.support_vectors_[begin:end])[0]
                self.parts.append(Expansion(estimator.kernel_, rows, coefficients[:, begin:end]))
        else:
            self.parts.append(Expansion(estimator.kernel_, as_rows(estimator.support_vectors_)[0], coefficients))
        self.made_for = now


def pair_sums(values: Array, coefficients: Array, n_support: Array, is_one_vs_one: bool) -> Array:
    """Decisions from given kernel values with the support vectors."""
    if not is_one_vs_one:
        return values @ coefficients.T
    ends = np.cumsum(n_support)
    return pair_outputs([values[:, e - n : e] @ coefficients[:, e - n : e].T for e, n in zip(ends, n_support)])


def one_vs_one_coef(coefficients: Array, vectors: Any, n_support: Array) -> Any:
    """Weights of the features for each pair of classes of linear machines."""
    ends = np.cumsum(n_support)
    of_classes = [(coefficients[:, e - n : e], vectors[e - n : e]) for e, n in zip(ends, n_support)]
    pairs = itertools.combinations(range(len(of_classes)), 2)

    def weights(i: int, j: int) -> Array:
        (of_i, vectors_i), (of_j, vectors_j) = of_classes[i], of_classes[j]
        return of_i[j - 1] @ vectors_i + of_j[i] @ vectors_j

    return np.stack([weights(i, j) for i, j in pairs])


def as_array(matrix: Any) -> Array:
    """A dense array of a matrix that may be sparse."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
