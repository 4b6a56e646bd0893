"""A weighted Gram matrix that is kept from step to step: only rows whose weight has changed are looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.problem import Problem
from maxmargin.problem.questions import Curvatures

DIGITS = 1e-6  # share of the largest trace so far below which rows that were taken away have left too much rounding
_STALE = 0.1  # relative change of D_i up to which a row stays in the matrix as it is


class Matrix(NamedTuple):
    """sum_i D_i x_i x_i' over the rows; empty where there is none."""

    gram: Array  # its upper triangle
    largest: float  # trace since it was built


class Change(NamedTuple):
    """New weights of rows: by how much they differ from those of the matrix."""

    by: RowVector
    n_changed: int
    n_weights: int  # that are not zero


def no_matrix() -> Matrix:
    """Before anything is summed."""
    return Matrix(np.zeros((0, 0)), 0.0)


def is_there(matrix: Matrix) -> bool:
    """Whether there is a matrix."""
    return len(matrix.gram) > 0


def changed(problem: Problem, matrix: Matrix, change: Change, weights: Callable[[], RowVector]) -> Matrix:
    """The matrix with its new weights; from nothing, if that is less work or rounding has grown too large."""
    if is_there(matrix) and change.n_changed < change.n_weights:
        gram = problem.gram(change.by, onto=matrix.gram) if change.n_changed else matrix.gram
        trace = float(np.trace(gram))
        if trace > DIGITS * matrix.largest:
            return Matrix(gram, max(trace, matrix.largest))
    gram = problem.gram(weights())
    return Matrix(gram, float(np.trace(gram)))


def changes(problem: Problem, matrix: Matrix, old: RowVector, curved: Curvatures) -> tuple[RowVector, Change]:
    """What D_i to give the matrix next, of the new ones or, where these hardly differ, of those that it is made of."""
    whole = curved.D, Change(curved.D, curved.n_curved, curved.n_curved)
    if not is_there(matrix):
        return whole
    done = problem.over_labels(write_changes, reads=[curved.D, old], writes=[np.float64, np.float64])
    by, new = done.vectors
    return (new, Change(by, done.total, curved.n_curved)) if done.total < curved.n_curved else whole


@compiled_lean
def write_changes(labels, D, old, by, new):
    """By how much rows have changed that have changed too much; the curvature of a squared hinge does so or not."""
    n_changed = 0
    for i in range(len(D)):
        has_changed = abs(D[i] - old[i]) > _STALE * max(D[i], old[i])
        by[i] = D[i] - old[i] if has_changed else 0.0
        new[i] = D[i] if has_changed else old[i]
        n_changed += has_changed
    return n_changed
