"""Newton steps on a small problem, several in one compiled loop: such a step takes less time than a call from Python.

The steps are those of `tron` by Cholesky. The loop ends before a step that is not a good one, and leaves it to `tron`,
which searches along it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.cuts import is_one_block
from maxmargin.data.rows import Array, add_row
from maxmargin.data.source import Block, check_pause
from maxmargin.problem import Problem
from maxmargin.problem.gram import gram_shape
from maxmargin.problem.questions import Curvatures, Evaluation, evaluate_rows, write_curvatures
from maxmargin.solvers.base import last_visit_of
from maxmargin.solvers.newton.matrix import DIGITS, Matrix, write_changes
from maxmargin.solvers.progress import Goal
from maxmargin.vectors import dot

ROUNDING = 1e-10  # differences of P below this share of it tell nothing
_MOST_WORK = 1e6  # products of values that the matrix of all rows takes: a millisecond
_MOST_STEPS = 8  # at a time; then the run looks at its limits


class Steps(NamedTuple):
    """Where steps have led; the fields are those of `TronState`."""

    here: Any
    curved: Any
    matrix: Any
    matrix_D: Array
    visits: int
    steps: int


def is_small(problem: Problem) -> bool:
    """Whether rows are at hand, and so few that a step costs less than the calls that it would be made of."""
    n, stored = problem.n_rows, problem.source.n_stored
    is_at_hand = "rows" in problem.accesses and is_one_block(n, stored, 0) and not problem.has_free_intercept
    return is_at_hand and n * problem.n_weights**2 <= _MOST_WORK


def newton_steps(problem: Problem, state: Any, goal: Goal) -> Steps:
    """Good steps from a state, which stays as it is: until the goal is met or a limit, or a step is not good.

    Parameters
    ----------
    problem : Problem
        A small one.
    state : TronState
    goal : Goal
    """
    check_pause()
    gram = state.matrix.gram.copy() if len(state.matrix.gram) else np.zeros(gram_shape(problem.n_weights))
    matrix = Matrix(gram, state.matrix.largest)
    begin = Steps(state.here, state.curved, matrix, state.matrix_D, state.visits, state.steps)
    n = problem.n_weighted
    return _steps(Block(problem.rows, *problem.labels), begin, n, goal.tol, last_visit_of(goal, n))


@compiled
def _steps(block, begin, n_weighted, tol, last_visit):
    here, curved, matrix, matrix_D, visits, steps = begin
    if here.value == np.inf:
        here = _evaluated(block, here.w)
        curved = _curved(block, here)
        visits += n_weighted
    L, x = np.empty((len(here.w), len(here.w))), np.empty(len(here.w))
    while visits < last_visit and steps < begin.steps + _MOST_STEPS:
        if not 0.5 * dot(here.gradient, here.gradient) > tol * here.value:
            break
        matrix, matrix_D, n_changed = _brought_up_to_date(block, curved, matrix, matrix_D, x)
        visits += n_changed
        s = np.empty(len(x))
        if not _solve(matrix.gram, here.gradient, L, s):
            break
        there = _evaluated(block, here.w + s)
        slope, new_slope = dot(here.gradient, s), dot(there.gradient, s)
        is_good = abs(new_slope) <= 0.5 * abs(slope) and there.value <= here.value * (1.0 + ROUNDING)
        is_shorter = dot(there.gradient, there.gradient) < dot(here.gradient, here.gradient)
        if not (is_good and (there.value < here.value or is_shorter)):
            break
        here, curved = there, _curved(block, there)
        visits += n_weighted
        steps += 1
    return Steps(here, curved, matrix, matrix_D, visits, steps)


@compiled
def _evaluated(block, w):
    z, gradient = np.empty(len(block.y)), np.zeros(len(w))
    risk = evaluate_rows(block, w, z, gradient)
    gradient += w
    return Evaluation(w, z, 0.5 * dot(w, w) + risk, gradient)


@compiled
def _curved(block, here):
    D = np.empty(len(here.outputs))
    total, n_curved = write_curvatures((block.y, block.cost, block.loss), here.outputs, D)
    return Curvatures(D, total, n_curved)


@compiled
def _brought_up_to_date(block, curved, matrix, matrix_D, x):
    """The matrix for these curvatures, in place, what it is made of, and how many rows that took."""
    by, new_D = np.empty(len(matrix_D)), np.empty(len(matrix_D))
    n_changed = write_changes(block, curved.D, matrix_D, by, new_D)
    if n_changed < curved.n_curved:
        _add_products(block.rows, by, x, matrix.gram)
        trace = np.trace(matrix.gram)
        if trace > DIGITS * matrix.largest:
            return Matrix(matrix.gram, max(trace, matrix.largest)), new_D, n_changed
    else:
        new_D = curved.D
    matrix.gram[:] = 0.0
    _add_products(block.rows, new_D, x, matrix.gram)
    return Matrix(matrix.gram, np.trace(matrix.gram)), new_D, curved.n_curved


@compiled
def _add_products(rows, D, x, gram):
    """Add D_i x_i x_i' to the upper triangle."""
    for i in range(len(D)):
        if D[i] != 0.0:
            x[:] = 0.0
            add_row(rows, i, 1.0, x)
            for j in range(len(x)):
                scale = D[i] * x[j]
                for k in range(j, len(x)):
                    gram[j, k] += scale * x[k]


@compiled
def _solve(gram, g, L, s):
    """Write the s of  (gram + I) s = -g,  by the Cholesky factor L of the matrix scaled to a diagonal of ones.

    Whether there is one: rounding may have taken positive definiteness away.
    """
    n = len(g)
    scale = np.empty(n)
    for i in range(n):
        scale[i] = 1.0 / np.sqrt(gram[i, i] + 1.0)
        for j in range(i):
            L[i, j] = (gram[j, i] * scale[i] * scale[j] - dot(L[i, :j], L[j, :j])) / L[j, j]
        pivot = 1.0 - dot(L[i, :i], L[i, :i])
        if not pivot > 0.0:
            return False
        L[i, i] = np.sqrt(pivot)
        s[i] = (-scale[i] * g[i] - dot(L[i, :i], s[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        s[i] = (s[i] - dot(L[i + 1 :, i], s[i + 1 :])) / L[i, i]
    s *= scale
    return True
