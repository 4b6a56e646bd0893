"""The steps of `small`: pairs of coefficients, and all free ones at once. What they are is said there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import DENSE_MATH, compiled_lean
from maxmargin.data.rows import Array

_TAU = 1e-12  # curvature where there is none
_SINGULAR = 1e-9  # share of a diagonal entry that may be left of it


class Work(NamedTuple):
    """What moves beside beta; see the head of this file."""

    vectors: Array  # a row each of what is named below
    kept: Array  # kernel rows that steps have asked for
    factor: Array
    free: Array


_E, _UP, _DOWN, RISE, FALL, _GAIN, DIAGONAL, IS_KEPT, F, N_VECTORS = range(10)  # RISE is e - up, FALL down - e
# What is said of a problem, a row of numbers each.
B, PRIMAL, GAP, ROUNDING, STEPS_TAKEN, SUPPORT, VIOLATION, N_FIGURES = range(8)


@compiled_lean(fastmath=DENSE_MATH)
def newton_step(program, beta, work, n):
    """Move the free coefficients to where their violations vanish, as far as the box allows; or not, if singular.

    K_FF d + b = e_F and sum d = 0, by the Cholesky factor of K_FF; e is less the kink here, as for steps up.
    """
    v, kept, L, free, m = work.vectors, work.kept, work.factor, work.free, 0
    for i in range(n):
        if program.lower[i] < beta[i] < program.upper[i] and beta[i] != 0.0:
            free[m] = i
            m += 1
    x, ones = v[RISE], v[FALL]  # L x = e, L ones = 1
    for r in range(m):
        i = free[r]
        x[r], ones[r], pivot = v[_E, i] - v[_UP, i], 1.0, v[DIAGONAL, i]
        for c in range(r):
            product = kept[i, free[c]]
            for k in range(c):
                product -= L[r, k] * L[c, k]
            L[r, c] = product / L[c, c]
            pivot -= L[r, c] * L[r, c]
            x[r] -= L[r, c] * x[c]
            ones[r] -= L[r, c] * ones[c]
        if not pivot > _SINGULAR * v[DIAGONAL, i]:
            return
        L[r, r] = np.sqrt(pivot)
        x[r] /= L[r, r]
        ones[r] /= L[r, r]
    above, below, share = 0.0, 0.0, 1.0
    for r in range(m):
        above += ones[r] * x[r]
        below += ones[r] * ones[r]
    for r in range(m):
        x[r] -= above / below * ones[r]
    for r in range(m - 1, -1, -1):
        x[r] /= L[r, r]
        for c in range(r):
            x[c] -= L[r, c] * x[r]
        i = free[r]
        high = 0.0 if beta[i] < 0.0 else program.upper[i]
        low = 0.0 if beta[i] > 0.0 else program.lower[i]
        if x[r] != 0.0:
            share = min(share, ((high if x[r] > 0.0 else low) - beta[i]) / x[r])
    moved, most, place = 0.0, 0.0, 0
    for r in range(m):
        i = free[r]
        high = 0.0 if beta[i] < 0.0 else program.upper[i]
        low = 0.0 if beta[i] > 0.0 else program.lower[i]
        new = min(max(beta[i] + share * x[r], low), high)
        moved += new - beta[i]
        beta[i] = new
        if min(new - low, high - new) > most:
            most, place = min(new - low, high - new), i
    if abs(moved) < most:  # what rounding has left of a sum of zero
        beta[place] -= moved


@compiled_lean
def smo_steps(matrix, rows, program, beta, work, level, last, out):
    """Steps until the violation is at most `level`, and whether it is; how many, and the intercept, in `out`."""
    n, kept, v = len(rows), work.kept, work.vectors
    write_outputs(matrix, rows, beta, work)
    for i in range(n):
        v[_E, i] = program.target[i] - v[F, i]
        _set_offsets(program, beta[i], i, v)
    step, i, j = 0.0, 0, 0
    while True:
        _move(v, kept[i], kept[j], step, n)
        m_up, m_low = _largest(v[RISE], n), -_largest(v[FALL], n)
        if not m_up - m_low > level or out[STEPS_TAKEN] >= last:
            break
        i = _place(v[RISE], m_up, n)
        _keep_row(matrix, rows, i, work)
        _write_gains(v, kept[i], m_up, v[DIAGONAL, i], n)
        j = _place(v[_GAIN], _largest(v[_GAIN], n), n)
        _keep_row(matrix, rows, j, work)
        step = (m_up + v[FALL, j]) / max(v[DIAGONAL, i] + v[DIAGONAL, j] - 2.0 * kept[i, j], _TAU)
        end_i = 0.0 if beta[i] < 0.0 and (program.kink[i] > 0.0 or program.upper[i] == 0.0) else program.upper[i]
        end_j = 0.0 if beta[j] > 0.0 and (program.kink[j] > 0.0 or program.lower[j] == 0.0) else program.lower[j]
        room_i, room_j = end_i - beta[i], beta[j] - end_j
        step = min(step, room_i, room_j)
        if not step > 0.0:  # lost in rounding, or no number
            break
        beta[i] = end_i if step == room_i else beta[i] + step
        beta[j] = end_j if step == room_j else beta[j] - step
        _set_offsets(program, beta[i], i, v)
        _set_offsets(program, beta[j], j, v)
        out[STEPS_TAKEN] += 1.0
    out[VIOLATION], is_solved = m_up - m_low, m_up - m_low <= level
    if np.isinf(m_up):  # no row may rise, or fall: all are at bounds of one side
        m_up = 0.0 if np.isinf(m_low) else m_low
    out[B] = m_up if np.isinf(m_low) else 0.5 * (m_up + m_low)
    return is_solved


@compiled_lean
def write_outputs(matrix, rows, beta, work):
    """f = K beta."""
    f = work.vectors[F]
    f[:] = 0.0
    for j in range(len(rows)):
        if beta[j] != 0.0:
            _keep_row(matrix, rows, j, work)
            for s in range(len(rows)):
                f[s] += beta[j] * work.kept[j, s]


@compiled_lean
def _keep_row(matrix, rows, i, work):
    """Lay kernel values of row i with those of its problem side by side."""
    if work.vectors[IS_KEPT, i] == 0.0:
        for s in range(len(rows)):
            work.kept[i, s] = matrix[rows[i], rows[s]]
        work.vectors[IS_KEPT, i] = 1.0


@compiled_lean
def _set_offsets(program, beta, i, v):
    kink = program.kink[i]
    v[_UP, i] = np.inf if beta >= program.upper[i] else kink if beta >= 0.0 else -kink
    v[_DOWN, i] = -np.inf if beta <= program.lower[i] else kink if beta > 0.0 else -kink


@compiled_lean(fastmath=DENSE_MATH)
def _move(v, K_i, K_j, step, n):
    """What a step does to e, and by how much each row would rise and fall."""
    e, up, down, rise, fall = v[_E], v[_UP], v[_DOWN], v[RISE], v[FALL]
    if step > 0.0:
        for s in range(n):
            new = e[s] - step * (K_i[s] - K_j[s])
            e[s] = new
            rise[s] = new - up[s]
            fall[s] = down[s] - new
    else:
        for s in range(n):
            rise[s] = e[s] - up[s]
            fall[s] = down[s] - e[s]


@compiled_lean(fastmath=DENSE_MATH)
def _write_gains(v, K_i, m_up, K_ii, n):
    """By how much the objective falls with each row as the second one, twice."""
    fall, diagonal, gain = v[FALL], v[DIAGONAL], v[_GAIN]
    for s in range(n):
        violation = m_up + fall[s]
        violation = violation if violation > 0.0 else 0.0
        curvature = K_ii + diagonal[s] - 2.0 * K_i[s]
        curvature = curvature if curvature > _TAU else _TAU
        gain[s] = violation * violation / curvature


@compiled_lean
def _largest(x, n):
    """In four chains of comparisons, none of which waits for another."""
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    for s in range(0, n - 3, 4):
        a = x[s] if x[s] > a else a
        b = x[s + 1] if x[s + 1] > b else b
        c = x[s + 2] if x[s + 2] > c else c
        d = x[s + 3] if x[s + 3] > d else d
    for s in range(n - n % 4, n):
        a = x[s] if x[s] > a else a
    return max(max(a, b), max(c, d))


@compiled_lean
def _place(x, value, n):
    """The first place of a value; the last one, if it is nowhere."""
    for s in range(n):
        if x[s] == value:
            return s
    return n - 1
