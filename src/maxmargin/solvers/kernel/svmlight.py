"""Decomposition with working sets of q variables, as in SVM-light.

    min_beta  1/2 beta'(K + D)beta - t'beta + sum_i eps_i |beta_i|,   sum_i beta_i = total,   lower <= beta <= upper

Joachims: Making large-scale SVM learning practical, 1998 (sections 11.3 selection, 11.4 shrinking, 11.5 caching).

Working set: the direction d with q nonzero entries, d_i in {-1, 0, 1} and sum_i d_i = 0, along which the objective
falls fastest and which is feasible: the q/2 rows that most want to go up and the q/2 that most want to go down. The
problem in these q variables is solved, the outputs of all active rows are updated by q kernel rows, and so on.

Shrinking: a row that has been at a bound, with a multiplier that says it should stay, for `patience` iterations
is left out; all rows come back before the gap is believed.

Paper -> code: q -> q, g(alpha) y -> -e, h -> patience, lambda^eq -> the middle of m_up and m_low, A -> active.

What differs: the small problem is solved by SMO (`block.solve_block`) instead of Hildreth and D'Esopo's method or an
interior-point method; one signed variable a row; the run ends at a certified gap (see `smo`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Goal
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.kernel.block import solve_working_set, ways
from maxmargin.solvers.kernel.smo import SMO, SMOState

_ITERATIONS = 50  # of an update
_BLOCK_TOL = 1e-2  # of the violation, to which the small problem is solved


@dataclass(frozen=True)
class SVMLight(SMO):
    """Small working sets by steepest feasible direction.

    Parameters
    ----------
    shrinking : bool
        Whether rows that have long been optimal at a bound are left out for a while.
    q : int
        Variables of a working set.
    patience : int
        Iterations for which a row must have been optimal at a bound.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 1, 0]
    >>> SVC(solver=SVMLight(q=4)).fit(X, y).stop_reason_
    'converged'
    """

    q: int = 10
    patience: int = 100

    name: ClassVar[str] = "svmlight"

    def __post_init__(self) -> None:
        check_count(self, "q", 2)
        check_count(self, "patience", 1)

    def _steps(self, problem: KernelProblem, state: SMOState, goal: Goal) -> tuple[SMOState, bool]:
        for _ in range(_ITERATIONS):
            active = state.active[: state.n_active]
            program, beta, f = problem.program.of(active), state.beta[active], state.f[active]
            e, up, down = ways(program, beta, f)
            m_up, m_low = float(up.max()), float(down.min())
            if m_up - m_low <= state.level:
                return state._replace(n_updates=state.n_updates + 1, is_exact=False), True
            chosen = self._working_set(up, down, m_up, m_low)
            rows = problem.gram.slots(active[chosen])
            self._solve(problem, state, active, chosen, e, 0.5 * (m_up + m_low), m_up - m_low, rows)
            state = state._replace(n_steps=state.n_steps + len(chosen) // 2)
            if self.shrinking:
                state = self._shrink(state, up < m_low, down > m_up)
        return state._replace(n_updates=state.n_updates + 1, is_exact=False), False

    def _working_set(self, up: np.ndarray, down: np.ndarray, m_up: float, m_low: float) -> np.ndarray:
        """Positions of the rows with the steepest ways up and down."""
        half = min(max(1, self.q // 2), len(up) // 2)
        upwards = np.argpartition(up, -half)[-half:]
        upwards = upwards[up[upwards] > m_low]
        down = down.copy()
        down[upwards] = np.inf
        downwards = np.argpartition(down, half - 1)[:half]
        return np.concatenate([upwards, downwards[down[downwards] < m_up]])

    def _solve(self, problem, state, active, chosen, e, level, violation, slots):  # type: ignore[no-untyped-def]
        """Solve for the chosen variables, and update the outputs of the active rows."""
        rows = active[chosen]
        kernel_rows = problem.gram.arena[slots]
        small = problem.program.of(rows)
        new = state.beta[rows]
        K = np.ascontiguousarray(kernel_rows[:, rows])
        solve_working_set(K, e[chosen] - level, new, small, _BLOCK_TOL * violation, 100 * len(rows))
        change = new - state.beta[rows]
        state.beta[rows] = new
        state.f[active] += change @ kernel_rows[:, active].astype(np.float64)

    def _shrink(self, state: SMOState, stays_below: np.ndarray, stays_above: np.ndarray) -> SMOState:
        """Leave out rows that no pair has wanted to move for some time."""
        active = state.active[: state.n_active]
        state.idle[active] = np.where(stays_below & stays_above, state.idle[active] + 1, 0)
        leaves = state.idle[active] >= self.patience
        if not leaves.any():
            return state
        state.idle[active[leaves]] = 0
        state.active[: state.n_active] = np.concatenate([active[~leaves], active[leaves]])
        return state._replace(n_active=int(np.count_nonzero(~leaves)))
