"""Sequential minimal optimisation with second-order working sets, shrinking and a cache of kernel rows.

    min_beta  1/2 beta'(K + D)beta - t'beta + sum_i eps_i |beta_i|,   sum_i beta_i = total,   lower <= beta <= upper

Fan, Chen, Lin: Working set selection using second order information for training SVM, JMLR 2005 (WSS 2); Chang, Lin:
LIBSVM: a library for support vector machines, 2011, section 5 (shrinking, caching, reconstruction of the gradient).

Paper -> code: alpha_t -> y_t beta_t, -y_t grad_t -> e_t = t_t - f_t - D_t beta_t with f = K beta, I_up -> rows whose
beta can grow, I_low -> rows whose beta can fall, m(alpha) -> m_up, M(alpha) -> m_low, a_ts -> curvature,
tau -> `_TAU`, the active set A -> active[:n_active].

A step moves beta_i up and beta_j down by the same amount, which keeps the sum. i is the row that most wants to go up,
j the one beside which the objective falls most, if the box were not there:

    i in argmax_t { e_t : t in I_up },   j in argmax_t { (e_i - e_t)^2 / a_it : t in I_low, e_t < e_i }   (WSS 2)

What differs, and why:

* One signed variable a row. Where |beta| has a kink (regression), the two sides have derivatives e - eps and e + eps,
  and a step ends at 0: exactly what LIBSVM's two variables a row do, with half of them.
* The run ends at a certified gap rather than at m(alpha) - M(alpha) <= eps. That violation is driven down to a level
  that is lowered until the gap is small enough.
* At each level the gradient of all rows is computed anew in float64, from the support vectors alone. This is LIBSVM's
  reconstruction for the rows that were shrunk, and for the others it removes the errors of float32 kernel values.
* Of a small problem, whose kernel values are all kept in float64, the first level is the last: a look at the gap costs
  more than steps do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data.rows import Array
from maxmargin.problem import Certificate
from maxmargin.problem.kernel_problem import LOSSES, KernelProblem
from maxmargin.problem.kernel_program import risk_and_gap
from maxmargin.solvers.base import GaveUp, Goal, Report
from maxmargin.solvers.kernel.expansion import ExpansionSolver, FreeExpansion, counters_of, refuse_penalized_intercept
from maxmargin.solvers.kernel.start import starting_point

_TAU = 1e-12  # curvature where there is none
_BLOCK = 1 << 22  # of rows times steps between two looks at the clock
_FIRST_LEVEL = 0.1  # violation to reach before the gap is looked at
_LEAST_LEVEL = 1e-13
_SMALL_LEVEL = 1e-10  # the first one of a problem whose kernel values are all at hand
_SMALL_STEPS = 30  # a row, that such a problem takes before the gap is looked at


class _Fields(NamedTuple):
    beta: Array
    f: Array  # K beta; of rows that are not active, as it was when they were shrunk
    b: Array  # the intercept, an array of one number
    active: Array  # permutation of the rows; the first n_active are active
    n_active: int
    until_shrinking: int
    n_steps: int
    level: float  # violation to reach before the gap is looked at again
    is_exact: bool  # f is K beta of every row, in float64
    primal: float
    dual: float
    n_updates: int
    idle: Array  # iterations for which a row has been left alone; for `svmlight`


class SMOState(FreeExpansion, _Fields):
    """What moves: coefficients, their outputs, and the active set."""

    __slots__ = ()


@dataclass(frozen=True)
class SMO(ExpansionSolver):
    """Two variables a step, chosen by second-order information.

    Parameters
    ----------
    shrinking : bool
        Whether rows that seem to stay at a bound are left out for a while.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 1, 0]
    >>> SVC(solver=SMO(shrinking=False)).fit(X, y).stop_reason_
    'converged'
    """

    shrinking: bool = True

    name: ClassVar[str] = "smo"
    losses: ClassVar[tuple[type, ...]] = LOSSES
    takes_free_intercept: ClassVar[bool] = True
    max_passes: ClassVar[float] = 1e6
    check_every: ClassVar[float] = 1e6

    def init_state(self, problem: KernelProblem, seed: int | None = 0, start: Any = None) -> SMOState:  # type: ignore[override]
        """At zero, or at the coefficients of another state."""
        refuse_penalized_intercept(problem, self)
        beta = starting_point(problem, start)
        return self._look_at_gap(problem, _at(problem, beta), 0.0, is_solved=True)

    def update(self, problem: KernelProblem, state: SMOState, goal: Goal) -> SMOState:  # type: ignore[override]
        """Steps on the active rows; when these are solved to the present level, a look at all rows."""
        state, is_solved = self._steps(problem, state, goal)
        if is_solved or problem.gram.is_whole:
            return self._look_at_gap(problem, state, goal.tol, is_solved)
        return state

    def _steps(self, problem: KernelProblem, state: SMOState, goal: Goal) -> tuple[SMOState, bool]:
        gram = problem.gram
        program = (problem.target, problem.kink, problem.lower, problem.upper, problem.diagonal, gram.diagonal)
        counters = np.array([state.n_steps, state.n_active, state.until_shrinking])
        steps = _SMALL_STEPS * problem.n_rows if gram.is_whole else _BLOCK // max(1, state.n_active)
        left = (goal.max_passes * problem.n_rows - state.n_updates) / 2.0 - state.n_steps
        last = state.n_steps + max(32, int(min(steps, left)))
        pair = np.array([-1, -1])
        while True:
            outcome = _smo_steps(
                program,
                state.beta,
                state.f,
                state.active,
                counters,
                gram.arena,
                gram.slot,
                pair,
                state.level,
                last,
                self.shrinking,
            )
            if outcome != _ROW_IS_MISSING:
                break
            gram.slots(pair[pair >= 0])
        state = state._replace(
            n_steps=int(counters[0]),
            n_active=int(counters[1]),
            until_shrinking=int(counters[2]),
            is_exact=False,
            n_updates=state.n_updates + 1,
        )
        return state, outcome == _IS_SOLVED

    def _look_at_gap(self, problem: KernelProblem, state: SMOState, tol: float, is_solved: bool) -> SMOState:
        """Outputs of all rows in float64, all rows active again, and the next level if they are solved to this one."""
        f = problem.decision(state.beta)
        b = problem.intercept(f)
        risk, gap = risk_and_gap(problem.program, state.beta, f, b)
        primal = 0.5 * float(state.beta @ f) + risk + problem.total * b
        relative_gap = gap / max(abs(primal), problem.scale, 1e-300)
        wanted = 0.5 * tol / max(relative_gap, 1e-300)
        least = _LEAST_LEVEL * max(1.0, float(np.abs(problem.target).max()), float(np.abs(f).max()))
        if is_solved and state.n_updates and state.level <= least and relative_gap > tol:  # not at the start
            raise GaveUp("the gap is as small as rounding errors allow", state)
        level = max(least, state.level * (min(0.5, max(0.05, wanted)) if is_solved else 1.0))
        state.f[:], state.b[0] = f, b
        return state._replace(
            n_active=problem.n_rows,
            until_shrinking=min(problem.n_rows, 1000),
            level=level,
            is_exact=True,
            primal=primal,
            dual=primal - gap,
        )

    def report(self, problem: KernelProblem, state: SMOState, goal: Goal) -> Report:  # type: ignore[override]
        """Passes are variables moved per row."""
        believes = state.is_exact and state.primal - state.dual <= goal.tol * max(abs(state.primal), problem.scale)
        passes = (2.0 * state.n_steps + state.n_updates) / problem.n_rows
        return Report(passes, state.primal, state.dual, believes, counters_of(problem, state))

    def certificate(self, problem: KernelProblem, state: SMOState) -> Certificate:  # type: ignore[override]
        """Bounds in float64, for the best intercept; free where the outputs of all rows have just been computed."""
        if state.is_exact:
            return problem.certificate(state.beta, state.intercept, state.f)
        return super().certificate(problem, state)


def _at(problem: KernelProblem, beta: Array) -> SMOState:
    n = problem.n_rows
    first = _SMALL_LEVEL if problem.gram.is_whole else _FIRST_LEVEL
    level = 2.0 * first * max(1.0, float(np.abs(problem.target).max(initial=0.0)))
    return SMOState(
        beta,
        np.zeros(n),
        np.zeros(1),
        np.arange(n),
        n,
        min(n, 1000),
        0,
        level,
        False,
        np.inf,
        -np.inf,
        0,
        np.zeros(n, np.int64),
    )


_IS_SOLVED, _STEPS_ARE_OVER, _ROW_IS_MISSING = 0, 1, 2


@compiled
def _way_up(e, beta, kink, upper):
    """How much the objective falls per unit by which beta grows; -inf where it cannot."""
    if beta >= upper:
        return -np.inf
    return e - kink if beta >= 0.0 else e + kink


@compiled
def _way_down(e, beta, kink, lower):
    """How much the objective rises per unit by which beta falls; inf where it cannot."""
    if beta <= lower:
        return np.inf
    return e - kink if beta > 0.0 else e + kink


@compiled
def _smo_steps(program, beta, f, active, counters, arena, slot, pair, level, last, shrinking):
    """SMO steps until the violation is at most `level`; i and j of a step whose kernel rows are missing in `pair`."""
    target, kink, lower, upper, D, K_diagonal = program
    while counters[0] < last:
        n_active = counters[1]
        m_up, m_low, i = -np.inf, np.inf, -1
        for k in range(n_active):
            s = active[k]
            e = target[s] - f[s] - D[s] * beta[s]
            up = _way_up(e, beta[s], kink[s], upper[s])
            if up > m_up:
                m_up, i = up, s
            m_low = min(m_low, _way_down(e, beta[s], kink[s], lower[s]))
        if m_up - m_low <= level:
            return _IS_SOLVED
        if shrinking and counters[2] <= 0:
            counters[2] = min(len(beta), 1000)
            counters[1] = _shrink(program, beta, f, active, n_active, m_up, m_low)
            continue
        pair[0], pair[1] = i, -1
        if slot[i] < 0:
            return _ROW_IS_MISSING
        K_i = arena[slot[i]]
        j, best = -1, 0.0
        for k in range(n_active):
            s = active[k]
            gain = m_up - _way_down(target[s] - f[s] - D[s] * beta[s], beta[s], kink[s], lower[s])
            if gain > 0.0:
                curvature = K_diagonal[i] + D[i] + K_diagonal[s] + D[s] - 2.0 * K_i[s]
                decrease = gain * gain / max(curvature, _TAU)
                if decrease > best:
                    j, best = s, decrease
        pair[1] = j
        if slot[j] < 0:
            return _ROW_IS_MISSING
        K_j = arena[slot[j]]
        down = _way_down(target[j] - f[j] - D[j] * beta[j], beta[j], kink[j], lower[j])
        curvature = K_diagonal[i] + D[i] + K_diagonal[j] + D[j] - 2.0 * K_i[j]
        step = (m_up - down) / max(curvature, _TAU)
        end_i = 0.0 if beta[i] < 0.0 and (kink[i] > 0.0 or upper[i] == 0.0) else upper[i]
        end_j = 0.0 if beta[j] > 0.0 and (kink[j] > 0.0 or lower[j] == 0.0) else lower[j]
        step = min(step, end_i - beta[i], beta[j] - end_j)
        old_i, old_j = beta[i], beta[j]
        beta[i] = end_i if step == end_i - old_i else old_i + step
        beta[j] = end_j if step == old_j - end_j else old_j - step
        change_i, change_j = beta[i] - old_i, beta[j] - old_j
        for k in range(n_active):
            s = active[k]
            f[s] += change_i * K_i[s] + change_j * K_j[s]
        counters[0] += 1
        counters[2] -= 1
    return _STEPS_ARE_OVER


@compiled
def _shrink(program, beta, f, active, n_active, m_up, m_low):
    """Leave out rows at a bound, or at the kink, that no pair would move; how many are left."""
    target, kink, lower, upper, D, _ = program
    k = 0
    while k < n_active:
        s = active[k]
        e = target[s] - f[s] - D[s] * beta[s]
        up, down = _way_up(e, beta[s], kink[s], upper[s]), _way_down(e, beta[s], kink[s], lower[s])
        if up < m_low and down > m_up:
            n_active -= 1
            active[k], active[n_active] = active[n_active], s
        else:
            k += 1
    return n_active
