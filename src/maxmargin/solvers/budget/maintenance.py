"""Back to the budget: what happens to a kernel expansion that has one support vector too many.

    w_c = sum_j alpha[c, j] phi(z_j),    c = 1..n_outputs

*Merging* takes the support vector with the smallest coefficient and the partner that it loses least with, and puts one
vector in the place of both (`maxmargin.solvers.budget.merging`). *Removal* drops the former. *Projection* drops one and
changes the coefficients of all others so as to make up for it best (Wang, Crammer, Vucetic, JMLR 2012).

What differs from the papers, and why:

* Of equal coefficients, the newest counts as the smallest: its kernel values are known already, from its margin. With
  rows of equal weight that is always so (see `budget_sgd`), and merging costs no kernel row at all.
* Not every partner is examined. What the nearest one loses shows how near the others must be to lose less
  (`merging.closest_needed`): the decision is the same, and mostly made among a handful. `exhaustive` brings all back.
* A vector of several outputs has a vector of coefficients. Its partners may be of any class: the loss of the pair is
  computed from both vectors of coefficients, at the h that would be best if these were parallel.
* Projection drops the vector that is missed least after the others have made up for it, which is found at no cost from
  the diagonal of the inverse kernel matrix, not the one with the smallest coefficient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled, generic
from maxmargin.data.rows import Array, Dense, view_rows
from maxmargin.kernels import Kernel, Support, kernel_matrix, kernel_row, move_vector, with_itself
from maxmargin.solvers.budget.merging import (
    GRID,
    PRECISE,
    GoldenSection,
    LookupH,
    LookupWD,
    closest_needed,
    degradation,
    kernel_values_at,
    merge_position,
    merge_ratio,
    tables,
)
from maxmargin.solvers.clock import ticks

_EQUAL = 1.0 - 1e-9  # coefficients that differ by less are as small as each other
_DOUBT = 1.01  # by how much a looked-up degradation may be wrong
_RIDGE = {"float32": 1e-5, "float64": 1e-10}  # on the diagonal of a kernel matrix to be inverted, relative


class Remove(NamedTuple):
    """Drop the vector with the smallest coefficient."""


class Project(NamedTuple):
    """Drop a vector and let the others make up for it; with the inverse of their kernel matrix."""

    inverse: Array


MERGING = ("lookup_wd", "lookup_h", "gss", "gss_precise")
NAMES = (*MERGING, "remove", "project")


def method_of(name: str, grid: int = GRID) -> Any:
    """The tag of a maintenance by name (hyphens are as good as underscores); `Project` without its inverse."""
    name = name.replace("-", "_")
    made: dict[str, Any] = {
        "lookup_wd": lambda: LookupWD(tables(grid)),
        "lookup_h": lambda: LookupH(tables(grid)),
        "gss": lambda: GoldenSection(0.01),
        "gss_precise": lambda: GoldenSection(PRECISE),
        "remove": Remove,
        "project": lambda: Project(np.empty((0, 0))),
    }
    return made[name]()


class Expansion(NamedTuple):
    """What maintenance works on, and room to work in."""

    function: Kernel
    support: Support
    alpha: Array  # (n_outputs, capacity); zero where there is no vector
    mean: Array  # of the last iterates' coefficients: what happens to alpha, happens to it
    values: Array  # kernel values of the row that was visited last
    others: Array  # kernel values of another vector
    point: Array  # (1, n_features): one vector, as a row
    near: Array  # float32: kernel values of possible partners, and -1 for the others
    near_bits: Array  # the same memory as int32
    changed: Array  # int64: places that have another vector than before
    tally: Array  # one `TALLY`


TALLY = np.dtype(
    [
        ("changed", np.int64),  # how many places have another vector than before
        ("merges", np.int64),
        ("kernel_rows", np.int64),
        ("pairs", np.int64),  # of vectors examined for merging
        ("finding", np.int64),  # ticks to find the pair
        ("maintaining", np.int64),  # ticks of all maintenance
    ]
)


@generic
def maintain(method, e, size, exhaustive):
    """Make `size` support vectors one fewer; the new size."""
    raise TypeError(f"not a budget maintenance: {method!r}")


@generic
def added(method, e, size):
    """The newest of `size` support vectors has just been added; its kernel values are in `e.values`."""
    raise TypeError(f"not a budget maintenance: {method!r}")


@added.register(LookupWD, LookupH, GoldenSection, Remove)
def _(method, e, size):
    pass


# ---------------------------------------------------------------- parts


@compiled
def note(e, j):
    """Remember that another vector is in place j now; there is room for the three of one event."""
    e.changed[e.tally[0]["changed"]] = j
    e.tally[0]["changed"] += 1


@compiled
def drop(e, p, size):
    """Vector p is no more: the last one takes its place."""
    last = size - 1
    if p != last:
        move_vector(e.support, last, p)
        note(e, p)
        for c in range(len(e.alpha)):
            e.alpha[c, p], e.mean[c, p] = e.alpha[c, last], e.mean[c, last]
    for c in range(len(e.alpha)):
        e.alpha[c, last] = e.mean[c, last] = 0.0
    return last


@compiled
def _length2(alpha, j):
    total = 0.0
    for c in range(len(alpha)):
        total += alpha[c, j] ** 2
    return total


@compiled
def smallest(alpha, size):
    """The vector with the smallest coefficients, the newest among equals."""
    newest = size - 1
    least = _length2(alpha, newest) * _EQUAL
    n_less = 0
    if len(alpha) == 1:
        only = alpha[0]
        for j in range(newest):  # without a branch, for vector instructions: mostly there is none
            n_less += only[j] * only[j] < least
        if n_less == 0:
            return newest
    p = newest
    for j in range(newest):
        length2 = _length2(alpha, j)
        if length2 < least:
            least, p = length2, j
    return p


@compiled
def _row_of_vector(e, p, size):
    """Kernel values of support vector p with all of them."""
    for f in range(len(e.support.vectors)):
        e.point[0, f] = e.support.vectors[f, p]
    kernel_row(e.function, Dense(e.point, 0.0), 0, e.support.norms2[p], e.support, size, e.others)
    e.tally[0]["kernel_rows"] += 1
    return e.others


# ---------------------------------------------------------------- merging


@maintain.register(LookupWD, LookupH, GoldenSection)
def _(method, e, size, exhaustive):
    begun = ticks()
    p = smallest(e.alpha, size)
    kappa = e.values if p == size - 1 else _row_of_vector(e, p, size)
    searching = ticks()
    partner = _best_partner(method, e, p, kappa, size, exhaustive)
    e.tally[0]["finding"] += ticks() - searching
    if partner >= 0:
        _merge(method, e, p, partner, min(1.0, np.float64(kappa[partner])))
        e.tally[0]["merges"] += 1
    size = drop(e, p, size)
    e.tally[0]["maintaining"] += ticks() - begun
    return size


@compiled
def _best_partner(method, e, p, kappa, size, exhaustive):
    """The vector that p loses least with, or -1 if there is none of its label."""
    alpha, near = e.alpha, e.near
    lengths = alpha[0] if len(alpha) == 1 else _lengths(alpha, size)
    for j in range(size):
        near[j] = kappa[j] if lengths[p] * lengths[j] > 0.0 else -1.0
    near[p] = -1.0
    nearest = _first_of_largest(e.near_bits, size)
    if near[nearest] < 0.0:
        return -1
    partner, least = nearest, _ratio(method, alpha, lengths, p, nearest, kappa[nearest])
    n_pairs = 1
    needed = 0.0 if exhaustive else closest_needed(_DOUBT * least)
    for j in range(size):
        if near[j] >= needed and j != nearest:
            ratio = _ratio(method, alpha, lengths, p, j, kappa[j])
            n_pairs += 1
            if ratio < least:
                partner, least = j, ratio
    e.tally[0]["pairs"] += n_pairs
    return partner


@compiled
def _first_of_largest(bits, size):
    """Place of the largest of some float32, by their bits: LLVM has vector instructions for integers' maximum.

    They are in the order of the numbers, and negative for negative ones.
    """
    largest = bits[0]
    for j in range(size):
        largest = max(largest, bits[j])
    j = 0
    while bits[j] != largest:
        j += 1
    return j


@compiled
def _lengths(alpha, size):
    """How long each vector of coefficients is. (Of one output the coefficient itself serves; its sign is its label.)"""
    lengths = np.zeros(alpha.shape[1])
    for j in range(size):
        lengths[j] = np.sqrt(_length2(alpha, j))
    return lengths


@compiled
def _share(own, other):
    """m: what part of two coefficients is that of the first, which is not the larger one but for rounding."""
    return min(0.5, abs(own) / (abs(own) + abs(other)))


@compiled
def _ratio(method, alpha, lengths, p, j, kappa):
    """What merging p and j loses, in units of p's squared coefficient."""
    m, k = _share(lengths[p], lengths[j]), min(1.0, np.float64(kappa))
    if len(alpha) == 1:
        return merge_ratio(method, m, k)
    h = merge_position(method, m, k)
    product = 0.0
    for c in range(len(alpha)):
        product += alpha[c, p] * alpha[c, j]
    k_p, k_j = kernel_values_at(k, h)
    # Two parallel vectors lose the degradation; what others have less in common, the merged vector lacks twice.
    lacking = 2.0 * (lengths[p] * lengths[j] - product) * (k_p * k_j - k)
    return degradation(m, k, h) / (m * m) + lacking / lengths[p] ** 2


@compiled
def _merge(method, e, p, j, kappa):
    """Put the merged vector in the place of j."""
    own, other = np.sqrt(_length2(e.alpha, p)), np.sqrt(_length2(e.alpha, j))
    h = merge_position(method, _share(own, other), kappa)
    k_p, k_j = kernel_values_at(kappa, h)
    vectors = e.support.vectors
    norm2 = 0.0
    for f in range(len(vectors)):
        vectors[f, j] = h * vectors[f, p] + (1.0 - h) * vectors[f, j]
        norm2 += np.float64(vectors[f, j]) ** 2
    e.support.norms2[j] = norm2
    note(e, j)
    for c in range(len(e.alpha)):
        e.alpha[c, j] = k_p * e.alpha[c, p] + k_j * e.alpha[c, j]
        e.mean[c, j] = k_p * e.mean[c, p] + k_j * e.mean[c, j]


# ---------------------------------------------------------------- removal and projection


@maintain.register(Remove)
def _(method, e, size, exhaustive):
    begun = ticks()
    size = drop(e, smallest(e.alpha, size), size)
    e.tally[0]["maintaining"] += ticks() - begun
    return size


def with_inverse(function: Kernel, support: Support, size: int) -> Project:
    """The state of projection for these vectors, made anew: rounding errors do not pile up from block to block."""
    capacity = support.vectors.shape[1]
    rows = view_rows(np.ascontiguousarray(support.vectors[:, :size].T))
    K = kernel_matrix(function, rows, support, size).astype(np.float64)
    K = 0.5 * (K + K.T)
    K.flat[:: size + 1] += ridge(support) * max(1.0, float(np.abs(K).max(initial=0.0)))
    inverse = np.zeros((capacity, capacity))
    inverse[:size, :size] = np.linalg.pinv(K, hermitian=True) if size else 0.0
    return Project(inverse)


def ridge(support: Support) -> float:
    """What float32 or float64 kernel values need on their diagonal to have an inverse."""
    return _RIDGE[support.vectors.dtype.name]


@added.register(Project)
def _(method, e, size):
    begun = ticks()
    _border(method.inverse, e, size - 1)
    e.tally[0]["maintaining"] += ticks() - begun


@maintain.register(Project)
def _(method, e, size, exhaustive):
    begun = ticks()
    inverse = method.inverse
    least, p = np.inf, size - 1
    for j in range(size):
        loss = _length2(e.alpha, j) / inverse[j, j]
        if loss < least:
            least, p = loss, j
    for c in range(len(e.alpha)):
        missing, missing_mean = e.alpha[c, p] / inverse[p, p], e.mean[c, p] / inverse[p, p]
        for j in range(size):
            e.alpha[c, j] -= missing * inverse[p, j]
            e.mean[c, j] -= missing_mean * inverse[p, j]
    _unborder(inverse, p, size)
    size = drop(e, p, size)
    e.tally[0]["merges"] += 1
    e.tally[0]["maintaining"] += ticks() - begun
    return size


@compiled(fastmath=DENSE_MATH)
def _border(inverse, e, n):
    """Extend the inverse of n vectors' kernel matrix by the newest, whose kernel values are `e.values`."""
    solution = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += inverse[i, j] * e.values[j]
        solution[i] = total
    itself = with_itself(e.function, np.float64(e.support.norms2[n]))
    rest = itself
    for j in range(n):
        rest -= solution[j] * e.values[j]
    rest = max(rest, 1e-6 * abs(itself)) + 1e-12
    for i in range(n):
        for j in range(n):
            inverse[i, j] += solution[i] * solution[j] / rest
        inverse[i, n] = inverse[n, i] = -solution[i] / rest
    inverse[n, n] = 1.0 / rest


@compiled(fastmath=DENSE_MATH)
def _unborder(inverse, p, size):
    """Take vector p out of the inverse and put the last one in its place."""
    last = size - 1
    row = inverse[p, :size].copy()
    for i in range(size):
        for j in range(size):
            inverse[i, j] -= row[i] * row[j] / row[p]
    for j in range(size):
        inverse[p, j] = inverse[last, j]
    for j in range(size):
        inverse[j, p] = inverse[j, last]
    inverse[p, p] = inverse[last, last]
    for j in range(size):
        inverse[last, j] = inverse[j, last] = 0.0
