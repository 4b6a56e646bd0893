"""Rows in an order that only their content decides, each different one once.

A stochastic method visits rows one after the other, so its answer depends on the order in which they are given, and a
row of weight 2 is not the same as two rows. Both are cured before the first visit: rows are sorted by their product
with a random vector (the label is one more feature), which brings equal rows together, and these are merged into one
that has their weights' sum. Whoever then shuffles this order does so from the same start, however the rows were given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.entries import are_equal
from maxmargin.data.rows import (
    Array,
    Rows,
    add_row,
    between,
    matvec,
    n_weights,
    prefetch_row,
    row_dot,
    row_size,
)
from maxmargin.solvers.stochastic.weights import add_row_to_both

_SEED = 20260


def distinct_rows(rows: Rows, codes: Array, weight: Array, n_jobs: int = 1) -> tuple[Array, Array]:
    """The different rows of positive weight, and the weight of each.

    Parameters
    ----------
    rows : Dense or CSR
    codes : ndarray of int
        Labels, from 0. Rows are different if their labels are.
    weight : ndarray of float64
    n_jobs : int

    Returns
    -------
    chosen : ndarray of int64
        One row for each different one, in the order of their content.
    weight : ndarray of float64
        The sum of the weights of the rows that equal it.
    """
    random = np.random.default_rng(_SEED)
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest: they are not told apart, no more
        keys = matvec(rows, random.random(n_weights(rows)), n_jobs)
        keys += random.random(int(codes.max(initial=0)) + 1)[codes]
    present = np.flatnonzero(weight > 0.0)
    chosen = present[np.argsort(keys[present])].astype(np.int64)
    is_new = np.ones(len(chosen), dtype=bool)
    alike = np.flatnonzero(keys[chosen[1:]] == keys[chosen[:-1]]) + 1
    if len(alike):
        _find_repeats(rows, codes, chosen, alike, is_new)
    starts = np.flatnonzero(is_new)
    return chosen[starts], np.add.reduceat(weight[chosen], starts)


@compiled
def _find_repeats(rows, codes, chosen, alike, is_new):
    """Tell of each row that seems to be as the one before it whether it is."""
    for k in alike:
        i, j = chosen[k - 1], chosen[k]
        is_new[k] = codes[i] != codes[j] or not are_equal(rows, i, j)


# ---------------------------------------------------------------- some of the rows


class Reordered(NamedTuple):
    """Rows in another order, or some of them; nothing is copied."""

    rows: Rows
    order: Array


@row_dot.register(Reordered)
def _(rows, i, w):
    return row_dot(rows.rows, rows.order[i], w)


@add_row.register(Reordered)
def _(rows, i, scale, w):
    add_row(rows.rows, rows.order[i], scale, w)


@add_row_to_both.register(Reordered)
def _(rows, i, scale, w, other_scale, other):
    add_row_to_both(rows.rows, rows.order[i], scale, w, other_scale, other)


@row_size.register(Reordered)
def _(rows, i):
    return row_size(rows.rows, rows.order[i])


@prefetch_row.register(Reordered)
def _(rows, i):
    prefetch_row(rows.rows, rows.order[i])


def rows_between(rows: Rows | Reordered, begin: int, end: int) -> Any:
    """Neighbouring rows, as a view."""
    return rows._replace(order=rows.order[begin:end]) if isinstance(rows, Reordered) else between(rows, begin, end)
