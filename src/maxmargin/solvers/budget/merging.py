"""Merging two support vectors into one: the optimisation problem inside budget maintenance, solved or looked up.

    min_{z, a_z}  |a_i phi(x_i) + a_j phi(x_j) - a_z phi(z)|^2,    a_i, a_j of one sign, k(x, z) = exp(-gamma |x - z|^2)

Wang, Crammer, Vucetic: Breaking the curse of kernelization, JMLR 2012; Glasmachers, Qaadan: Speeding up budgeted
stochastic gradient descent SVM training with precomputed golden section search, 2018.

The best z lies between the two, z = h x_i + (1 - h) x_j, where k(x_i, z) = kappa^((1-h)^2) and k(x_j, z) = kappa^(h^2)
with kappa = k(x_i, x_j), and a_z = a_i k(x_i, z) + a_j k(x_j, z). With m = a_i / (a_i + a_j), h maximises

    s(h) = m kappa^((1-h)^2) + (1-m) kappa^(h^2),

and the loss, the *weight degradation*, is (a_i + a_j)^2 WD(m, kappa), WD = m^2 + (1-m)^2 + 2 m (1-m) kappa - s(h)^2.
So there are two functions of two numbers in the unit square, h and WD, which are tabulated once and then looked up.

Paper -> code: golden section search -> `golden_section`, h(m, kappa) -> `tables().h`, WD(m, kappa) -> `tables().ratio`.

What differs from the paper, and why:

* Its algorithm 1 weighs the two powers of kappa one way in line 7 and the other way in line 8, and WD lacks factors in
  the text and in lemma 1. The formulas above are derived anew.
* Both functions are symmetric (m -> 1-m, h -> 1-h), and the vector with the smaller coefficient comes first here, so
  that m <= 1/2: the tables cover half of the square, at twice the resolution. The jump of h (lemma 1: at m = 1/2 for
  kappa < e^-2, where s has two equal modes) is at their edge, and no interpolation crosses it. Golden section search
  looks for h in [0, 1/2], where s has the one mode that matters; on [0, 1] it may end in the lesser one.
* Looked up is not WD but the ratio WD / (m (1-kappa))^2, which is smooth, and between 1/2 and 2 near kappa = 1. WD
  falls with (1-kappa)^2 there, and a straight line over the grid's last cell exceeds it by any factor: the very cell in
  which close neighbours, the best partners, are compared.
* WD is computed from differences of powers without cancellation.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled, generic
from maxmargin.data.rows import Array

GRID = 400  # points a side, as in the paper
PRECISE = 1e-10  # golden section search for the tables
_SECTION = 0.6180339887498949  # (sqrt(5) - 1) / 2
_LEAST = 1e-38  # in place of kappa = 0, which in float32 may be any smaller number
TWO_MODES = float(np.exp(-2.0))  # s may have two modes for kappa below


# ---------------------------------------------------------------- one pair


@compiled
def _s(m, log_kappa, h):
    return m * np.exp(log_kappa * (1.0 - h) ** 2) + (1.0 - m) * np.exp(log_kappa * h**2)


@compiled
def golden_section(m, kappa, precision, high=0.5):
    """The h in [0, high] that maximises s, to this precision; 1/2 is enough for m <= 1/2."""
    log_kappa = np.log(max(kappa, _LEAST))
    low = 0.0
    left, right = high - _SECTION * (high - low), low + _SECTION * (high - low)
    s_left, s_right = _s(m, log_kappa, left), _s(m, log_kappa, right)
    while high - low > precision:
        if s_left > s_right:
            high, right, s_right = right, left, s_left
            left = high - _SECTION * (high - low)
            s_left = _s(m, log_kappa, left)
        else:
            low, left, s_left = left, right, s_right
            right = low + _SECTION * (high - low)
            s_right = _s(m, log_kappa, right)
    return 0.5 * (low + high)


@compiled
def degradation(m, kappa, h):
    """WD of merging at h, for coefficients m and 1 - m."""
    log_kappa = np.log(max(kappa, _LEAST))
    lost_i = -np.expm1(2.0 * log_kappa * (1.0 - h) ** 2)  # 1 - k(x_i, z)^2
    lost_j = -np.expm1(2.0 * log_kappa * h**2)
    shared = -kappa * np.expm1(-2.0 * log_kappa * h * (1.0 - h))  # kappa - k(x_i, z) k(x_j, z)
    return m**2 * lost_i + (1.0 - m) ** 2 * lost_j + 2.0 * m * (1.0 - m) * shared


@compiled
def kernel_values_at(kappa, h):
    """k(x_i, z) and k(x_j, z) of z = h x_i + (1 - h) x_j."""
    log_kappa = np.log(max(kappa, _LEAST))
    return np.exp(log_kappa * (1.0 - h) ** 2), np.exp(log_kappa * h**2)


@compiled
def closest_needed(least_ratio):
    """The kappa below which no partner loses less than `least_ratio`, in units of the smaller coefficient squared.

    (a_i + a_j)^2 WD / a_i^2 = WD / m^2 grows from m = 1/2, where it is 2 (1 - sqrt(kappa))^2, to m = 0, and falls with
    kappa. The formula holds for kappa >= e^-2 alone; for less, no partner is ruled out.
    """
    root = 1.0 - np.sqrt(0.5 * least_ratio)
    kappa = root * root if root > 0.0 else 0.0
    return kappa if kappa >= TWO_MODES else 0.0


# ---------------------------------------------------------------- the tables


class MergeTables(NamedTuple):
    """h and WD / (m (1-kappa))^2 on a grid: m from 0 to 1/2 down the rows, kappa from 0 to 1 along the columns."""

    h: Array
    ratio: Array


@functools.lru_cache(maxsize=4)
def tables(grid: int = GRID) -> MergeTables:
    """The tables, made when first asked for (a fifth of a second) and kept.

    Parameters
    ----------
    grid : int
        Points a side, at least 2.

    Returns
    -------
    MergeTables

    Examples
    --------
    >>> made = tables(50)
    >>> round(float(lookup(made.h, 0.5, 0.9)), 6), round(float(lookup(made.ratio, 0.5, 1.0)), 6)
    (0.5, 0.5)
    """
    if not grid >= 2:
        raise ValueError(f"the grid needs at least 2 points a side, got {grid!r}")
    made = MergeTables(np.empty((grid, grid)), np.empty((grid, grid)))
    _fill(made.h, made.ratio)
    for table in made:
        table.flags.writeable = False
    return made


@compiled
def _fill(h, ratio):
    n = len(h)
    for row in range(n):
        m = 0.5 * row / (n - 1)
        for column in range(n - 1):
            kappa = column / (n - 1)
            h[row, column] = golden_section(m, kappa, PRECISE)
            if row > 0:
                ratio[row, column] = degradation(m, kappa, h[row, column]) / (m * (1.0 - kappa)) ** 2
            else:
                # The limit for m -> 0: what phi(x_j) and its derivative towards x_i cannot express of phi(x_i).
                log_kappa = np.log(max(kappa, _LEAST))
                ratio[row, column] = (1.0 - kappa**2 * (1.0 - 2.0 * log_kappa)) / (1.0 - kappa) ** 2
        # The limit for kappa -> 1: the mean, and the second derivative of phi that it cannot express.
        h[row, n - 1] = m
        ratio[row, n - 1] = 2.0 * (1.0 - m) ** 2


@compiled
def lookup(table, m, kappa):
    """Bilinear interpolation, for m in [0, 1/2] and kappa in [0, 1]."""
    last = len(table) - 1
    row, column = 2.0 * m * last, kappa * last
    i, j = np.int64(min(row, last - 1)), np.int64(min(column, last - 1))
    u, v = row - i, column - j
    upper = table[i, j] + v * (table[i, j + 1] - table[i, j])
    lower = table[i + 1, j] + v * (table[i + 1, j + 1] - table[i + 1, j])
    return upper + u * (lower - upper)


# ---------------------------------------------------------------- the ways to find a partner


class LookupWD(NamedTuple):
    """Look up the weight degradation of each pair, and h of the best one."""

    tables: MergeTables


class LookupH(NamedTuple):
    """Look up h of each pair and compute the degradation."""

    tables: MergeTables


class GoldenSection(NamedTuple):
    """Search for h of each pair and compute the degradation."""

    precision: float


Search = LookupWD | LookupH | GoldenSection


@generic
def merge_ratio(search, m, kappa):
    """WD / m^2 of a pair: in units of the smaller coefficient squared, the same for all its partners."""
    raise TypeError(f"not a way to merge: {search!r}")


@merge_ratio.register(LookupWD)
def _(search, m, kappa):
    return lookup(search.tables.ratio, m, kappa) * (1.0 - kappa) ** 2


@merge_ratio.register(LookupH)
def _(search, m, kappa):
    return degradation(m, kappa, lookup(search.tables.h, m, kappa)) / (m * m)


@merge_ratio.register(GoldenSection)
def _(search, m, kappa):
    return degradation(m, kappa, golden_section(m, kappa, search.precision)) / (m * m)


@generic
def merge_position(search, m, kappa):
    """The h of a pair."""
    raise TypeError(f"not a way to merge: {search!r}")


@merge_position.register(LookupWD, LookupH)
def _(search, m, kappa):
    return lookup(search.tables.h, m, kappa)


@merge_position.register(GoldenSection)
def _(search, m, kappa):
    return golden_section(m, kappa, search.precision)


# ---------------------------------------------------------------- figure 2


def merge_functions(m: Any, kappa: Any, grid: int = GRID) -> tuple[Array, Array]:
    """h(m, kappa) and WD(m, kappa) anywhere in the unit square, from the tables.

    Parameters
    ----------
    m, kappa : array-like of one shape
    grid : int

    Returns
    -------
    h, WD : ndarray
        At m = 1/2 and kappa < e^-2, where h has two values, the lesser one.
    """
    m, kappa = np.broadcast_arrays(np.asarray(m, dtype=float), np.asarray(kappa, dtype=float))
    if np.any((m < 0.0) | (m > 1.0) | (kappa < 0.0) | (kappa > 1.0)):
        raise ValueError("m and kappa must lie in [0, 1]")
    smaller = np.minimum(m, 1.0 - m)
    h, ratio = (np.array([lookup(t, *p) for p in zip(smaller.flat, kappa.flat)]).reshape(m.shape) for t in tables(grid))
    return np.where(m <= 0.5, h, 1.0 - h), ratio * (smaller * (1.0 - kappa)) ** 2


def plot_tables(grid: int = GRID, points: int = 101) -> Any:
    """Draw h and WD over the unit square, as figure 2 of the paper does. Needs matplotlib.

    Parameters
    ----------
    grid : int
        Of the tables.
    points : int
        Of the drawing, a side.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    m, kappa = np.meshgrid(np.linspace(0.0, 1.0, points), np.linspace(0.0, 1.0, points), indexing="ij")
    h, loss = merge_functions(m, kappa, grid)
    with np.errstate(divide="ignore"):
        exponents = np.maximum(np.log10(loss), -8.0)  # it is zero where there is nothing to lose
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    for place, (values, title) in enumerate([(h, "h(m, κ)"), (exponents, "log₁₀ WD(m, κ)")]):
        axes: Any = figure.add_subplot(1, 2, place + 1, projection="3d")
        axes.plot_surface(m, kappa, values, cmap="viridis", linewidth=0.0, rcount=points, ccount=points)
        axes.set(xlabel="m", ylabel="κ", title=title)
        axes.view_init(elev=28.0, azim=-125.0)
    return figure
