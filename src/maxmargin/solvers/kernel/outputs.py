"""The outputs f = K beta of block SMO's rows, and how far they may be from the truth.

They are sums of float32 kernel values, and how wrong these may be is known (`kernels.rounding`): |f_i - (K beta)_i| is
at most `doubt[i]`. A row with beta_i = 0 that lies beyond the margin for any output within that bound adds exactly 0 to
primal and gap. All other outputs are computed in float64 before a gap is believed: primal, dual and gap are then those
that float64 outputs of all rows would give, and what rounding can do to them, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_program import Program, row_gap
from maxmargin.problem.kernel_rounding import errors_of_outputs


def is_in_play(problem: KernelProblem, state: Any) -> Array:
    """Which rows are: those that are known, but for those set aside."""
    out = np.zeros(problem.n_rows, bool)
    out[state.order[: state.n_known]] = True
    out[state.aside] = False
    return out


def bring_up_to_date(problem: KernelProblem, state: Any) -> None:
    """Let f of the frozen rows be K beta, too."""
    is_frozen = is_in_play(problem, state)
    is_frozen[state.active] = False
    _apply_since(problem, state, np.flatnonzero(is_frozen), state.applied)
    state.applied[:] = state.beta


def bring_back(problem: KernelProblem, state: Any) -> Any:
    """Let f of the rows that were set aside be K beta, too, and let them be in play again."""
    _apply_since(problem, state, state.aside, state.aside_since)
    return state._replace(aside=state.aside[:0])


def _apply_since(problem: KernelProblem, state: Any, rows: Array, before: Array) -> None:
    """Bring outputs of some rows from one vector of coefficients to the present one."""
    changed = np.flatnonzero(state.beta != before)
    if len(changed) and len(rows):
        add_change(problem, state, rows, changed, (state.beta - before)[changed])


def add_change(problem: KernelProblem, state: Any, rows: Array, changed: Array, change: Array) -> None:
    """Add to the outputs of some rows what a change of coefficients does to them."""
    up = change > 0.0  # apart: of values that are positive, their sum is then the sum of their sizes, too
    rises = problem.values.apply(rows, changed[up], change[up])
    falls = problem.values.apply(rows, changed[~up], -change[~up])
    state.f[rows] += rises - falls
    state.doubt[rows] += problem.values.errors(rows, rises + falls)


def settle(problem: KernelProblem, state: Any, known: Array, program: Program) -> int:
    """Compute in float64 the outputs that may matter to the gap; how many there were."""
    rounding = errors_of_outputs(problem, state.beta, state.f).whole[known]
    is_open = _may_matter(program, state.beta[known], state.f[known], state.doubt[known], rounding, state.intercept)
    support = np.flatnonzero(state.beta)
    beta, others = state.beta[support], known[is_open & (state.beta[known] == 0.0)]
    if np.any(state.doubt[support] > 0.0):
        state.f[support] = problem.values.apply_symmetric(support, beta)
        state.doubt[support] = 0.0
    state.f[others] = problem.values.apply(others, support, beta, np.float64)
    state.doubt[others] = 0.0
    return int(np.count_nonzero(is_open))


@compiled
def risk_of_others(program, beta, f, b, is_other):
    """The sum of the losses of some rows, and that of beta f."""
    risk, products = 0.0, 0.0
    for i in range(len(beta)):
        if is_other[i]:
            risk += row_gap(program, beta[i], f[i], b, i)[0]
            products += beta[i] * f[i]
    return risk, products


@compiled
def look(program, beta, f, b):
    """What each row adds to the gap, its distance from the margin, and the sum of the losses."""
    n = len(beta)
    gaps, distance, risk = np.empty(n), np.empty(n), 0.0
    for i in range(n):
        phi, gaps[i] = row_gap(program, beta[i], f[i], b, i)
        risk += phi
        distance[i] = abs(abs(program.target[i] - f[i] - b) - program.kink[i])
    return gaps, distance, risk


@compiled
def _may_matter(program, beta, f, doubt, rounding, b):
    """Which outputs are in doubt and would, if they were others within it, add to primal or gap."""
    out = np.empty(len(beta), np.bool_)
    for i in range(len(beta)):
        reach = abs(program.target[i]) + abs(f[i]) + abs(b)
        z, away = program.target[i] - f[i] - b, doubt[i] + rounding[i] + 1e-12 * reach
        grows = program.upper[i] > 0.0 and z + away > program.kink[i]
        falls = program.lower[i] < 0.0 and z - away < -program.kink[i]
        out[i] = doubt[i] > 0.0 and (beta[i] != 0.0 or grows or falls)
    return out
