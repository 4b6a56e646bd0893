"""Decision functions of fitted kernel machines, prepared once and not part of what is saved or copied."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from maxmargin import kernels
from maxmargin.data.rows import Array, Rows, as_rows, matvec
from maxmargin.kernels.expansion import Expansion
from maxmargin.models.pairs import of_classes, outputs_from


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
        return outputs_from([part.outputs(rows, n_jobs) for part in self.parts])

    def _prepare(self, estimator: Any) -> None:
        now = (estimator.dual_coef_, estimator.support_vectors_, estimator.kernel_)
        if len(self.made_for) == 3 and all(a is b for a, b in zip(now, self.made_for)):
            return
        coefficients, vectors = as_array(estimator.dual_coef_), estimator.support_vectors_
        self.coef, self.parts = None, []
        if isinstance(estimator.kernel_, kernels.Linear):
            self.coef = np.ascontiguousarray(as_array(estimator.coef_), np.float64)
        else:
            for place in places_of(estimator):
                self.parts.append(Expansion(estimator.kernel_, as_rows(vectors[place])[0], coefficients[:, place]))
        self.made_for = now


def places_of(estimator: Any) -> list[slice]:
    """The support vectors of each class if these meet in pairs, else of all."""
    n_support = estimator.n_support_ if estimator.is_one_vs_one else None
    return of_classes(n_support, estimator.dual_coef_.shape[1])


def one_vs_one_coef(estimator: Any) -> Any:
    """Weights of the features for each pair of classes of linear machines."""
    coefficients, vectors, places = as_array(estimator.dual_coef_), estimator.support_vectors_, places_of(estimator)

    def weights(i: int, j: int) -> Array:
        of_i, of_j = coefficients[j - 1, places[i]], coefficients[i, places[j]]
        return of_i @ vectors[places[i]] + of_j @ vectors[places[j]]

    return np.stack([weights(i, j) for i, j in itertools.combinations(range(len(places)), 2)])


def as_array(matrix: Any) -> Array:
    """A dense array of a matrix that may be sparse."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
