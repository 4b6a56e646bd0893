"""Dual coordinate descent for linear SVM.

    min_alpha  f(alpha) = 1/2 |w|^2 + sum_i C_i phi*(-alpha_i / C_i) - alpha_i target_i,    w = sum_i alpha_i sign_i x_i

Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale linear SVM, ICML 2008.
One row at a time, f is minimised exactly in alpha_i, which needs one product x_i'w and one update of w.

The paper has L1-loss (hinge: 0 <= alpha_i <= C_i), L2-loss (squared hinge: alpha_i >= 0, D_ii = 1 / (2 C_i)) and, in
section 6, least squares (no bounds). All are one case here: phi* is a parabola with a kink of size epsilon at zero
between two bounds (`losses.dual_form`), so the same lines do support vector regression as well.

Paper -> code: Q-bar_ii -> H, nabla_i f -> G, projected gradient PG -> pg, M, m, M-bar, m-bar -> M, m, M_bar, m_bar,
A -> order[:n_active], 0 and U -> lower and upper.

What differs from the paper by default, and why (``DualCD(threshold=1.0, epsilon=0.1)`` is the paper's):

* The stop. (17), M - m < epsilon, is no bound on the objective. Each step knows its row's share of the duality gap
  from the numbers it computes anyway; their sum over a sweep tells when a certificate is worth its pass over the data.
  M - m of the last sweep is in the history as "violation".
* Shrinking. M-bar and m-bar are multiplied by a threshold smaller than one, as section 3.2 suggests, because a
  certificate finds out when that was too much. It then takes back the rows that (16) would not shrink, not all of
  them, and doubles the threshold. Of more rows than features, most end at a bound: if the gap may be large, the
  threshold begins at a twentieth, else at a half. Figures are in papers/coordinate/NOTES.md.
* Rows that are shrunk are left out from the next sweep on, so that the order of a sweep is known when it begins.

Where it stalls: many rows, few features and large C (n << l; section 5: "clearly one should solve the primal").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_lean, prefetch
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, add_row, row_dot, row_size
from maxmargin.losses import QUADRATIC_DUAL, argument, dual_form, sign, slack
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Progress, Report, Solver, last_visit_of
from maxmargin.solvers.checks import check_number
from maxmargin.solvers.coordinate.sweep import Sweep, after_visits, next_sweep, no_sweep, predicted_gap
from maxmargin.solvers.visits import LOOKAHEAD, draw, examples, prefetch_example, rows_with_cost

EAGERNESS, COARSE_EAGERNESS = 0.5, 0.05  # of shrinking, to begin with: see above
COARSE = 1e-4  # a relative gap
_BLOCK = 1 << 22  # stored values that one update walks over: about 10 ms


class DualCDState(NamedTuple):
    """What moves in dual coordinate descent."""

    w: Array  # sum_i alpha_i sign_i x_i, kept in step with alpha
    alpha: Array
    order: Array  # the first n_active are the active set A, in this sweep's order
    rng: Array  # random state
    sweep: Sweep
    dual: float  # D(alpha), kept in step
    eagerness: float  # the factor of M_bar and m_bar of section 3.2: below one, and doubled when that went wrong


class Rules(NamedTuple):
    """How a sweep goes about its rows."""

    shrinks: bool
    shuffles: bool
    draws: bool  # algorithm 2
    tol: float
    epsilon: float  # of (17)


@dataclass(frozen=True)
class DualCD(Solver):
    """Dual coordinate descent: the method of choice for sparse data with many features.

    Parameters
    ----------
    shrinking : bool
        Leave out rows whose alpha seems to stay at its bound (section 3.2).
    order : {"permutation", "cyclic", "online"}
        A new random permutation for every sweep (section 3.1), the rows as they come (algorithm 1), or a random row
        at a time (algorithm 2, section 3.3), which never shrinks.
    threshold : float, optional
        The factor of M-bar and m-bar in (16): 1 for the paper's shrinking, less to shrink sooner (section 3.2). All
        rows come back, and none is shrunk in the next sweep, when (17) holds for those that are left or a certificate
        says that they were too few. None: our own rule, see the head of this file.
    epsilon : float
        The paper's stop (17): M - m < epsilon after a sweep over all rows. Give ``callbacks=[solver.is_satisfied]`` to
        `solve` for the run to end there; it is no bound on the objective.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=DualCD(shrinking=False), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    >>> solver = DualCD(threshold=1.0, epsilon=0.1)  # as published
    >>> result = solve(problem, solver, tol=0.0, max_iter=1000, callbacks=[solver.is_satisfied])
    >>> result.stop_reason, bool(result.history["violation"][-1] < 0.1)
    ('callback', True)
    """

    shrinking: bool = True
    order: str = "permutation"
    threshold: float | None = None
    epsilon: float = 0.0

    name: ClassVar[str] = "dual_cd"
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL

    def __post_init__(self) -> None:
        if self.order not in ("permutation", "cyclic", "online"):
            raise ValueError(f'order must be "permutation", "cyclic" or "online", got {self.order!r}')
        if self.threshold is not None:
            check_number(self, "threshold", above=True)
        check_number(self, "epsilon")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> DualCDState:
        """Start at alpha = 0, or near another state: at its alpha, cut to this problem's bounds, or at one of its w."""
        if start is None:
            alpha, w, dual = np.zeros(problem.n_rows), np.zeros(problem.n_weights), 0.0
        else:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(start.w) if known is None else problem.feasible(known)
            w, dual = problem.weights(alpha), problem.dual(alpha)
        order = rows_with_cost(problem)
        return DualCDState(w, alpha, order, new_rng(seed), no_sweep(len(order)), dual, self.threshold or EAGERNESS)

    def update(self, problem: Problem, state: DualCDState, goal: Goal) -> DualCDState:
        """Sweep over the active set, for a block of work or until the goal seems reached."""
        is_first = state.sweep.visits == 0 and self.threshold is None
        if is_first and goal.tol >= COARSE and problem.n_rows > problem.n_weights:
            state = state._replace(eagerness=COARSE_EAGERNESS)
        draws = self.order == "online"
        rules = Rules(self.shrinking and not draws, self.order == "permutation", draws, goal.tol, self.epsilon)
        rows = rows_with_cost(problem) if draws else state.order
        max_visits = last_visit_of(goal, len(state.order))
        sweep, dual = _sweeps(examples(problem), rows, state, rules, max_visits, _BLOCK)
        state = state._replace(sweep=sweep, dual=dual)
        if sweep.is_over and 0 < sweep.n_active < len(state.order) and sweep.violation < self.epsilon:
            return _with_all_rows(problem, state)  # (17) holds for the smaller problem (15)
        return state

    def report(self, problem: Problem, state: DualCDState, goal: Goal) -> Report:
        """The gap is the sum of the rows' shares in the last sweep, the dual objective is kept in step."""
        sweep = state.sweep
        return Report(
            passes=sweep.visits / len(state.order),
            primal=state.dual + sweep.whole_gap,
            dual=state.dual,
            believes=_believes(state, goal),
            counters={
                "updates": sweep.updates,
                "active": sweep.n_kept if sweep.is_over else sweep.n_active,
                "violation": sweep.violation,
            },
        )

    def is_satisfied(self, progress: Progress) -> bool:
        """A callback that ends a run when (17) holds after a sweep over all rows."""
        state = progress.state
        sweep = state.sweep
        return bool(sweep.is_over and sweep.n_active == len(state.order) and sweep.violation < self.epsilon)

    def certificate(self, problem: Problem, state: DualCDState) -> Certificate:
        """One pass: w belongs to alpha up to rounding, which enters the gap only squared."""
        return problem.certificate(state.w, state.alpha, belongs=True)

    def reconsider(self, problem: Problem, state: DualCDState, goal: Goal, certificate: Certificate) -> DualCDState:
        """Take rows back that should not have been shrunk; if there are none, trust the sum of their shares less."""
        sweep = state.sweep
        if self.threshold is not None and self.epsilon > 0.0:
            return state  # (17) decides, as in the paper
        if not _believes(state, goal) and certificate.gap <= 2.0 * sweep.doubt * sweep.whole_gap:
            return state
        if self.threshold is not None and sweep.n_coming < len(state.order):
            return _with_all_rows(problem, state)
        order = rows_with_cost(problem)
        n, M, m = _select(examples(problem), state.w, state.alpha, order, sweep.M, sweep.m)
        if n <= sweep.n_coming:
            return state._replace(sweep=sweep.with_doubt(certificate.gap))
        return state._replace(order=order, sweep=sweep.restarted(n, M, m), eagerness=2.0 * state.eagerness)


def _with_all_rows(problem: Problem, state: DualCDState) -> DualCDState:
    """Section 3.2: enlarge A to all rows, with M-bar and m-bar infinite, so that the next sweep shrinks none."""
    order = rows_with_cost(problem)
    return state._replace(order=order, sweep=state.sweep.restarted(len(order), -np.inf, np.inf))


def _believes(state: DualCDState, goal: Goal) -> bool:
    return bool(state.sweep.is_over and seems_done(state.sweep, state.dual, goal.tol))


@compiled
def seems_done(s, dual, tol):
    """Whether the gap that the next sweep would find meets the tolerance."""
    gap = predicted_gap(s)
    return s.n_kept == 0 or (gap < np.inf and gap <= tol * (dual + gap))


@compiled
def _sweeps(data, rows, state, rules, max_visits, work):
    """Sweeps until the goal seems reached at the end of one, or the limits on rows or stored values are met."""
    s, dual = state.sweep, state.dual
    while work > 0 and s.visits < max_visits:
        if s.position >= s.n_active:
            if s.n_kept == 0:
                break
            if rules.draws:
                draw(rows, state.order, state.rng)
            elif rules.shuffles:
                shuffle(state.order, s.n_kept, state.rng)
            M_bar = state.eagerness * s.M if s.M > 0.0 else np.inf
            m_bar = state.eagerness * s.m if s.m < 0.0 else -np.inf
            s = next_sweep(s, M_bar, m_bar, -np.inf)
        s, dual, work = visit_rows(data, state, s, dual, rules.shrinks, max_visits, work)
        if s.position >= s.n_active and (s.M - s.m < rules.epsilon or seems_done(s, dual, rules.tol)):
            break
    return s, dual


@compiled_lean
def _select(data, w, alpha, order, M, m):
    """Keep in front of `order` the rows that (16) would not shrink, with M and m widened by what they violate."""
    form = dual_form(data.loss)
    M_bar = M if M > 0.0 else np.inf
    m_bar = m if m < 0.0 else -np.inf
    n = 0
    for k in range(len(order)):
        i = np.int64(order[k])
        C = data.cost[i]
        t = argument(data.loss, row_dot(data.rows, i, w), data.y[i])
        G = t - form.linear + form.curvature / C * alpha[i]
        can_shrink, pg = optimality(form, alpha[i], C, G, M_bar, m_bar)
        if not can_shrink:
            M, m = max(M, pg), min(m, pg)
            order[n] = i
            n += 1
    return n, M, m


@compiled
def optimality(form, a, C, G, M_bar, m_bar):
    """Whether a row may be shrunk (16), and its projected gradient (8)."""
    lower, upper = form.lower * C, form.upper * C
    right = G + form.epsilon if a >= 0.0 else G - form.epsilon  # one-sided derivatives: they differ at the kink
    left = G + form.epsilon if a > 0.0 else G - form.epsilon
    can_shrink = (a == upper or right > M_bar) and (a == lower or left < m_bar)
    pg = 0.0
    if right < 0.0 and a < upper:
        pg = right
    elif left > 0.0 and a > lower:
        pg = left
    return can_shrink, pg


@compiled_lean
def visit_rows(data, state, s, dual, shrinks, max_visits, work):
    """Algorithm 1's inner loop: one-variable steps to the end of the sweep or of a limit."""
    rows, y, cost, norms2, loss = data
    w, alpha, order = state.w, state.alpha, state.order
    form = dual_form(loss)
    epsilon = form.epsilon
    position, n_kept, M, m = s.position, s.n_kept, s.M, s.m
    gap, visits, updates = s.gap, s.visits, s.updates
    while position < s.n_active and work > 0 and visits < max_visits:
        if position + LOOKAHEAD < s.n_active:
            ahead = np.int64(order[position + LOOKAHEAD])
            prefetch_example(data, ahead)
            prefetch(alpha, ahead)
        i = np.int64(order[position])
        position += 1
        visits += 1
        work -= 1 + row_size(rows, i)  # an empty row takes its time, too
        a, C = alpha[i], cost[i]
        D = form.curvature / C
        t = argument(loss, row_dot(rows, i, w), y[i])
        gap += slack(loss, t, a, C)
        G = t - form.linear + D * a  # (12)
        can_shrink, pg = optimality(form, a, C, G, s.M_bar, s.m_bar)
        if shrinks and can_shrink:
            continue
        order[n_kept] = i
        n_kept += 1
        M, m = max(M, pg), min(m, pg)
        if pg != 0.0:
            H = norms2[i] + D
            if H > 0.0:
                new = a - G / H
                if epsilon > 0.0:
                    new = max(0.0, new - epsilon / H) + min(0.0, new + epsilon / H)
                new = min(max(new, form.lower * C), form.upper * C)  # (9)
            else:
                new = (form.upper if pg < 0.0 else form.lower) * C  # an empty row: 1 / H is infinite
            step = new - a
            if step != 0.0:
                alpha[i] = new
                add_row(rows, i, step * sign(loss, y[i]), w)  # (13)
                dual -= step * (G + 0.5 * H * step) + epsilon * (abs(new) - abs(a))
                updates += 1
    return after_visits(s, position, n_kept, M, m, gap, visits, updates), dual, work
