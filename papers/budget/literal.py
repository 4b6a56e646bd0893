"""The tables of Glasmachers and Qaadan as their text has them, to be measured beside ours.

WD itself is tabulated over the whole unit square, for coefficients that sum to one, and either interpolated
bilinearly or taken at the nearest grid point (section 3). Ours is a smooth ratio over half of the square
(`maxmargin.solvers.budget.merging`). Two slips of the text can be had, too: the factor (a_i + a_j) of lemma 1 in place
of its square, and h of line 7 in algorithm 1, whose weights are exchanged.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.solvers.budget.merging import GRID, PRECISE, degradation, golden_section, merge_position, merge_ratio


class LiteralWD(NamedTuple):
    """Look up WD(m, kappa) of each pair, and h(m, kappa) of the best one."""

    h: Array  # m down the rows, kappa along the columns, both from 0 to 1
    wd: Array
    is_interpolated: bool
    power: float  # of (a_i + a_j): 2, or 1 as lemma 1 prints it
    is_exchanged: bool  # weights of line 7


@functools.lru_cache(maxsize=4)
def square_tables(grid: int = GRID) -> tuple[Array, Array]:
    """h and WD over the whole square."""
    h, wd = np.empty((grid, grid)), np.empty((grid, grid))
    _fill(h, wd)
    return h, wd


@compiled
def _fill(h, wd):
    n = len(h)
    for row in range(n):
        for column in range(n):
            m, kappa = row / (n - 1), column / (n - 1)
            smaller = min(m, 1.0 - m)
            best = golden_section(smaller, kappa, PRECISE) if kappa < 1.0 else smaller
            wd[row, column] = degradation(smaller, kappa, best)
            h[row, column] = best if m <= 0.5 else 1.0 - best


def literal(name: str, grid: int = GRID) -> LiteralWD:
    """A variant by name."""
    h, wd = square_tables(grid)
    return {
        "WD, bilinear": LiteralWD(h, wd, True, 2.0, False),
        "WD, nearest": LiteralWD(h, wd, False, 2.0, False),
        "WD (a_i + a_j)": LiteralWD(h, wd, True, 1.0, False),
        "h of line 7": LiteralWD(h, wd, True, 2.0, True),
    }[name]


NAMES = ("WD, bilinear", "WD, nearest", "WD (a_i + a_j)", "h of line 7")


@compiled
def look(table, m, kappa, is_interpolated):
    """Bilinear, or at the nearest grid point."""
    last = len(table) - 1
    if not is_interpolated:
        return table[np.int64(np.rint(m * last)), np.int64(np.rint(kappa * last))]
    i, j = np.int64(min(m * last, last - 1.0)), np.int64(min(kappa * last, last - 1.0))
    u, v = m * last - i, kappa * last - j
    upper = table[i, j] + v * (table[i, j + 1] - table[i, j])
    lower = table[i + 1, j] + v * (table[i + 1, j + 1] - table[i + 1, j])
    return upper + u * (lower - upper)


@merge_ratio.register(LiteralWD)
def _(search, m, kappa):
    """In units of the smaller coefficient, to whatever power: the same for all partners."""
    if search.is_exchanged:
        return degradation(m, kappa, look(search.h, 1.0 - m, kappa, True)) / (m * m)
    return look(search.wd, m, kappa, search.is_interpolated) / m**search.power


@merge_position.register(LiteralWD)
def _(search, m, kappa):
    return look(search.h, 1.0 - m if search.is_exchanged else m, kappa, search.is_interpolated)
