"""The best coefficients for given support vectors: a convex problem, solved to a certified gap.

    min_{beta, b}  1/2 (beta' K beta + b^2) + sum_i C_i max(0, 1 - y_i (k_i' beta + b)),      K_jl = k(z_j, z_l)

Stochastic gradient descent finds good places for support vectors long before it finds their coefficients, which keep
the noise of the last steps. With K = L L' and w = L' beta this is a linear SVM in B features, L^-1 k_i, with the norm
of the kernel's own space: any solver of the package solves it, and its certificate says how far the coefficients are
from the best that these support vectors allow. (On ijcnn1, B = 500, two passes: 96.7 % before, 98.8 % after, where the
SVM without a budget has 98.8 %; the objective is a tenth.)

K may be singular to working precision; a small multiple of the largest entry on its diagonal is the remedy. It
penalises coefficients so large that the rounding errors of kernel values would show.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin._code_cache import working_time
from maxmargin._jit import compiled
from maxmargin.data.rows import CSR, Array, Dense, Rows, row_blocks, view_rows
from maxmargin.kernels import Kernel, Support, kernel_matrix
from maxmargin.parallel import map_blocks, map_ordered
from maxmargin.problem import Problem
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.problem.gram import one_blas_thread
from maxmargin.solvers import solve
from maxmargin.solvers.auto import finished
from maxmargin.solvers.base import Callback, Result
from maxmargin.solvers.budget.maintenance import ridge

_REPEATS = 8  # rows for each place in the budget: with more of them, it is not looked whether so few are different
_TINY = 1e-18  # products of smaller numbers may be denormal, which made them ten times slower (skin_nonskin, B = 500)
BYTES = 1 << 29  # of the matrix of features; of more rows than fit, a random sample stands for all


class Refit(NamedTuple):
    """The best coefficients for these support vectors."""

    coefficients: Array  # (n_outputs, n_support)
    intercepts: Array
    results: list[Result]  # one an output
    seconds: tuple[float, float, float]  # to factor K, for the features, and for the solutions


class OutOfTime(Exception):
    """There was no time left, or no wish, to make the features."""


def refit(
    function: Kernel,
    support: Support,
    size: int,
    problem: BudgetProblem,
    *,
    bias: float = 1.0,
    tol: float = 1e-2,
    max_time: float | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    callbacks: Sequence[Callback] = (),
    interrupt: threading.Event | None = None,
) -> Refit:
    """Solve for the coefficients of the first `size` support vectors.

    Parameters
    ----------
    function : Kernel
    support : Support
    size : int
    problem : BudgetProblem
    bias : float
        Value of the constant feature whose weight makes the intercept; 0: none.
    tol : float
        Relative duality gap to reach.
    max_time : float, optional
        Seconds; several outputs share them.
    seed : int
    n_jobs : int
        Threads. The result does not depend on it.

    Raises
    ------
    OutOfTime
        If `max_time` was over, or `interrupt` set, before a solver could start.
    """
    started = working_time()
    deadline = math.inf if max_time is None else started + max_time

    def check() -> None:
        if working_time() > deadline or (interrupt is not None and interrupt.is_set()):
            raise OutOfTime

    chosen = _chosen_rows(problem, size, support.vectors.dtype.itemsize, seed)
    share = len(chosen) / np.count_nonzero(problem.cost[:, 0] > 0.0)
    factor = _inverse_factor(function, support, size, problem.rows[0].dtype)
    factored = working_time()
    features = _features(function, take(problem.rows, chosen), support, size, factor, n_jobs, check)
    made = working_time()
    unlabelled = Problem(features, np.ones(len(chosen)), 1.0, "hinge", bias=bias, n_jobs=n_jobs)
    n_outputs = problem.n_outputs
    at_once = min(n_jobs, n_outputs)

    def solve_one(c: int) -> Result:
        labelled = unlabelled.with_labels(problem.signs(c)[chosen], problem.costs(c)[chosen] / share)
        left = None
        if max_time is not None:
            rounds = -(-(n_outputs - c) // at_once)
            left = max(deadline - working_time(), 1e-9) / rounds
        one = labelled if at_once == 1 else labelled.with_jobs(1)
        limits: dict[str, Any] = {"max_time": left, "seed": seed, "interrupt": interrupt}
        result = solve(one, "dual_cd", tol=tol, callbacks=callbacks, **limits)
        return replace(finished(one, result, **limits), alpha=None, state=None)

    results = map_ordered(solve_one, range(n_outputs), at_once)
    coefficients = np.stack([factor @ result.w[:size] for result in results])
    intercepts = np.array([bias * result.w[size] if bias else 0.0 for result in results])
    seconds = (factored - started, made - factored, working_time() - made)
    return Refit(coefficients, intercepts, results, seconds)


def _chosen_rows(problem: BudgetProblem, size: int, itemsize: int, seed: int) -> Array:
    """The rows that have a cost, or as many of them as there is room for."""
    rows = np.flatnonzero(problem.cost[:, 0] > 0.0)
    room = max(2 * size, BYTES // (size * itemsize))
    if len(rows) <= room:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, room, replace=False))


def take(rows: Rows, chosen: Array) -> Rows:
    """Some of the rows, in this order; all of them without a copy."""
    if isinstance(rows, Dense):
        return rows if len(chosen) == len(rows.values) else view_rows(rows.values[chosen])
    if len(chosen) == len(rows.indptr) - 1:
        return rows
    lengths = (rows.indptr[1:] - rows.indptr[:-1])[chosen]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(rows.indptr.dtype)
    where = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return CSR(rows.data[where], rows.indices[where], indptr, rows.n_features, rows.bias)


def _inverse_factor(function: Kernel, support: Support, size: int, dtype: Any) -> Array:
    """L'^-1 of K = L L', with as much on K's diagonal as its rounding errors require.

    `dtype` is that of the problem's rows: vectors of the same need no compiled code of their own.
    """
    from scipy.linalg import solve_triangular

    vectors = view_rows(
        np.ascontiguousarray(support.vectors[:, :size].T, np.promote_types(support.vectors.dtype, dtype))
    )
    K = kernel_matrix(function, vectors, support, size).astype(np.float64)
    K = 0.5 * (K + K.T)
    largest = float(np.abs(K).max())
    with one_blas_thread():
        for power in itertools.count():
            try:
                lower = np.linalg.cholesky(K + 10.0**power * ridge(support) * largest * np.eye(size))
            except np.linalg.LinAlgError:  # of a kernel that is no inner product, this may take some steps
                continue
            return solve_triangular(lower, np.eye(size), lower=True).T
    raise AssertionError("unreachable")


def _features(
    function: Kernel,
    rows: Rows,
    support: Support,
    size: int,
    factor: Array,
    n_jobs: int,
    check: Callable[[], None],
) -> Array:
    """The rows' kernel values times `factor`, which is an upper triangle, block by block; `check` may end it."""
    from scipy.linalg.blas import get_blas_funcs

    n = len(rows.values) if isinstance(rows, Dense) else len(rows.indptr) - 1
    out = np.empty((n, size), support.vectors.dtype)
    factor = np.asarray(factor, out.dtype, order="F")
    factor[np.abs(factor) < _TINY] = 0.0
    times_triangle = get_blas_funcs("trmm", dtype=out.dtype)

    def block(begin: int, end: int) -> None:
        check()
        values = out[begin:end]
        kernel_matrix(function, take(rows, np.arange(begin, end)), support, size, out=values)
        _clear_tiny(values)
        # In place, and transposed, since BLAS counts along columns: F'K' is (KF)', and half of F is zero.
        features = times_triangle(1.0, factor, values.T, trans_a=1, overwrite_b=1).T
        if not np.may_share_memory(features, values):
            values[:] = features

    with one_blas_thread():
        map_blocks(block, row_blocks(rows, max(1, n // 1024)), n_jobs)
    return out


@compiled
def _clear_tiny(values):
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = values[i, j] if abs(values[i, j]) >= _TINY else 0.0


def distinct_rows(problem: BudgetProblem, most: int) -> Any:
    """The different rows that have a cost, as a dense array, if there are at most `most` of them; else None."""
    chosen = np.flatnonzero(problem.cost[:, 0] > 0.0)
    if len(chosen) > _REPEATS * most:
        return None
    rows = take(problem.rows, chosen)
    if isinstance(rows, Dense):
        dense = rows.values
    else:
        dense = np.zeros((len(chosen), rows.n_features), rows.data.dtype)
        dense[np.repeat(np.arange(len(chosen)), np.diff(rows.indptr)), rows.indices] = rows.data[: rows.indptr[-1]]
    dense = np.unique(dense, axis=0)
    return dense if len(dense) <= most else None
