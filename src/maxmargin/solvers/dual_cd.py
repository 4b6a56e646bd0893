"""Dual coordinate descent for linear SVM.

    min_alpha  f(alpha) = 1/2 |w|^2 + sum_i C_i phi*(-alpha_i / C_i) - alpha_i target_i,    w = sum_i alpha_i sign_i x_i

Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale linear SVM, ICML 2008.
One row at a time, f is minimised exactly in alpha_i, which needs one product x_i'w and one update of w.

The paper has L1-loss (hinge: 0 <= alpha_i <= C_i), L2-loss (squared hinge: alpha_i >= 0, D_ii = 1 / (2 C_i)) and, in
section 6, least squares (no bounds). All are one case here: phi* is a parabola with a kink of size epsilon at zero
between two bounds (`losses.dual_form`), so the same lines do support vector regression as well.

Paper -> code: Q-bar_ii -> H, nabla_i f -> G, projected gradient PG -> pg, M, m, M-bar, m-bar -> M, m, M_bar, m_bar,
A -> order[:n_active], 0 and U -> lower and upper.

What differs from the paper, and why:

* The stop. (17), M - m < epsilon, is no bound on the objective. Each step knows its row's share of the duality gap
  from the numbers it computes anyway; their sum over a sweep tells when a certificate is worth its pass over the data.
* Shrinking. M-bar and m-bar are multiplied by a threshold smaller than one, as section 3.2 suggests, because a
  certificate finds out when that was too much. It then takes back the rows that (16) would not shrink, not all of
  them, and doubles the threshold. (On a9a and w8a this saved a third of the passes to 1e-3.) Of more rows than
  features, most end at a bound; if the gap may be large, it pays to shrink them at a twentieth of M-bar (to 1e-3,
  another two thirds on w8a and on ijcnn1 with C = 100). For a small gap too many of them must be taken back.
* Rows that are shrunk are left out from the next sweep on, so that the order of a sweep is known when it begins.

Where it stalls: many rows, few features and large C (n << l; section 5: "clearly one should solve the primal"). Every
step then undoes a part of the others, and thousands of passes may not reach a gap of 1e-3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import kernel, prefetch
from maxmargin._random import random_below, random_stream, shuffle
from maxmargin.losses import QUADRATIC_DUAL, argument, dual_form, sign, slack
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, add_row, prefetch_row, row_dot, row_size
from maxmargin.solvers.base import Goal, Report, Solver

_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_EAGERNESS, _COARSE_EAGERNESS = 0.5, 0.05  # of shrinking, to begin with: see above
_COARSE = 1e-4  # a relative gap
_BLOCK = 1 << 22  # stored values that one update walks over: about 10 ms


class Sweep(NamedTuple):
    """How far the sweep over the active set is, and what it has seen."""

    n_active: int  # rows of this sweep
    position: int  # of the next one
    n_kept: int  # of those before it, how many the next sweep will visit again
    M_bar: float
    m_bar: float
    M: float
    m: float
    gap: float  # the rows' shares of the duality gap, each as its step found it
    last_gap: float  # the same of the whole sweep before
    dual: float  # D(alpha), kept in step with alpha
    doubt: float  # how much to mistrust the gap that this sweep foretells
    eagerness: float  # the factor of M_bar and m_bar of section 3.2: below one, and doubled when that went wrong
    visits: int
    updates: int


class DualCDState(NamedTuple):
    """What moves in dual coordinate descent."""

    w: Array  # sum_i alpha_i sign_i x_i, kept in step with alpha
    alpha: Array
    order: Array  # the first n_active are the active set A, in this sweep's order
    stream: Array  # of random numbers
    sweep: Sweep


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

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=DualCD(shrinking=False), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    shrinking: bool = True
    order: str = "permutation"

    name: ClassVar[str] = "dual_cd"
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL

    def __post_init__(self) -> None:
        if self.order not in ("permutation", "cyclic", "online"):
            raise ValueError(f'order must be "permutation", "cyclic" or "online", got {self.order!r}')

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> DualCDState:
        """Start at alpha = 0, or near another state: at its alpha, cut to this problem's bounds, or at one of its w."""
        if start is None:
            alpha, w, dual = np.zeros(problem.n_rows), np.zeros(problem.n_weights), 0.0
        else:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(start.w) if known is None else _feasible(problem, known)
            w, dual = problem.weights(alpha), problem.dual(alpha)
        order = _all_rows(problem)
        sweep = Sweep(0, 0, len(order), np.inf, -np.inf, -np.inf, np.inf, np.inf, np.inf, dual, 1.0, _EAGERNESS, 0, 0)
        return DualCDState(w, alpha, order, random_stream(seed), sweep)

    def update(self, problem: Problem, state: DualCDState, goal: Goal) -> DualCDState:
        """Sweep over the active set, for a block of work or until the goal seems reached."""
        max_visits = math.ceil(min(goal.max_passes * len(state.order), 2.0**62))
        max_visits += max_visits / len(state.order) < goal.max_passes  # by rounding; the loop would wait for ever
        sweep = state.sweep
        if sweep.visits == 0 and goal.tol >= _COARSE and problem.n_rows > problem.n_weights:
            sweep = sweep._replace(eagerness=_COARSE_EAGERNESS)
        sweep = _sweep(
            _constants(problem),
            (state.w, state.alpha, state.order, state.stream),
            sweep,
            (self.shrinking and self.order != "online", self.order == "cyclic", self.order == "online"),
            (goal.tol, max_visits, _BLOCK),
        )
        return state._replace(sweep=sweep)

    def report(self, problem: Problem, state: DualCDState, goal: Goal) -> Report:
        """The gap is the sum of the rows' shares in the last sweep, the dual objective is kept in step."""
        sweep = state.sweep
        ended = _is_over(sweep)
        gap = sweep.gap if ended else sweep.last_gap
        return Report(
            passes=sweep.visits / len(state.order),
            primal=sweep.dual + gap,
            dual=sweep.dual,
            believes=ended and bool(_seems_done(sweep, goal.tol)),
            counters={"updates": sweep.updates, "active": sweep.n_kept if ended else sweep.n_active},
        )

    def certificate(self, problem: Problem, state: DualCDState) -> Certificate:
        """One pass: w belongs to alpha up to rounding, which enters the gap only squared."""
        return problem.certificate(state.w, state.alpha, belongs=True)

    def reconsider(self, problem: Problem, state: DualCDState, goal: Goal, certificate: Certificate) -> DualCDState:
        """Take rows back that should not have been shrunk; if there are none, mend the forecast."""
        sweep = state.sweep
        believed = _is_over(sweep) and _seems_done(sweep, goal.tol)
        foretold = sweep.doubt * (sweep.gap if _is_over(sweep) else sweep.last_gap)
        if not believed and certificate.gap <= 2.0 * foretold:
            return state
        order = _all_rows(problem)
        n, M, m = _select(_constants(problem), state.w, state.alpha, order, sweep.M, sweep.m)
        if n <= sweep.n_kept + sweep.n_active - sweep.position:
            doubt = sweep.doubt * (max(1.5, certificate.gap / foretold) if foretold > 0.0 else 1.5)
            return state._replace(sweep=sweep._replace(doubt=doubt))
        sweep = sweep._replace(n_active=0, position=0, n_kept=n, M=M, m=m, gap=np.inf, last_gap=np.inf)
        return state._replace(order=order, sweep=sweep._replace(eagerness=2.0 * sweep.eagerness))


def _is_over(sweep: Sweep) -> bool:
    return sweep.position >= sweep.n_active


def _constants(problem: Problem) -> tuple[Any, ...]:
    """What kernels read of a problem."""
    return problem.rows, problem.y, problem.cost, problem.norms2, problem.loss


def _all_rows(problem: Problem) -> Array:
    """The rows that have a cost; one without is as good as absent."""
    if problem.n_rows >= 2**32:
        raise ValueError(f"dual_cd takes fewer than 2^32 rows, got {problem.n_rows}")
    return np.flatnonzero(problem.cost > 0.0).astype(np.uint32)


def _feasible(problem: Problem, alpha: Array) -> Array:
    """Cut alpha to its bounds."""
    if len(alpha) != problem.n_rows:
        raise ValueError(f"cannot start at {len(alpha)} dual variables: the problem has {problem.n_rows} rows")
    form = dual_form(problem.loss)
    with np.errstate(invalid="ignore"):  # 0 * inf, where the cost is zero
        lower, upper = (np.nan_to_num(bound * problem.cost) for bound in (form.lower, form.upper))
    return np.clip(alpha, lower, upper)


@kernel
def _seems_done(s, tol):
    """Whether the gap that the next sweep would find, if it shrinks as before, meets the tolerance."""
    if s.n_kept == 0:
        return True
    forecast = s.doubt * s.gap
    if 0.0 < s.last_gap < np.inf:
        forecast *= min(1.0, s.gap / s.last_gap)
    return forecast < np.inf and forecast <= tol * (s.dual + forecast)


@kernel
def _sweep(data, moving, s, options, limits):
    """Sweeps until the goal seems reached at the end of one, or the limits on rows or stored values are met."""
    _, _, order, stream = moving
    shrinking, cyclic, online = options
    tol, max_visits, work = limits
    while work > 0 and s.visits < max_visits:
        if s.position >= s.n_active:
            n = s.n_kept
            if n == 0:
                break
            if online:
                _draw(data, order, stream)
            elif not cyclic:
                shuffle(order, n, stream)
            M_bar = s.eagerness * s.M if s.M > 0.0 else np.inf
            m_bar = s.eagerness * s.m if s.m < 0.0 else -np.inf
            s = Sweep(
                n, 0, 0, M_bar, m_bar, -np.inf, np.inf, 0.0, s.gap, s.dual, s.doubt, s.eagerness, s.visits, s.updates
            )
        s, work = _steps(data, moving, s, shrinking, max_visits, work)
        if s.position >= s.n_active and _seems_done(s, tol):
            break
    return s


@kernel
def _select(data, w, alpha, order, M, m):
    """Keep in front of `order` the rows that (16) would not shrink, with M and m widened by what they violate."""
    rows, y, cost, _, loss = data
    form = dual_form(loss)
    M_bar = M if M > 0.0 else np.inf
    m_bar = m if m < 0.0 else -np.inf
    n = 0
    for k in range(len(order)):
        i = np.int64(order[k])
        G = argument(loss, row_dot(rows, i, w), y[i]) - form.linear + form.curvature / cost[i] * alpha[i]
        can_shrink, pg = _optimality(form, alpha[i], cost[i], G, M_bar, m_bar)
        if not can_shrink:
            M, m = max(M, pg), min(m, pg)
            order[n] = i
            n += 1
    return n, M, m


@kernel
def _optimality(form, a, C, G, M_bar, m_bar):
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


@kernel
def _draw(data, order, stream):
    """Fill `order` with random rows that have a cost (algorithm 2)."""
    cost = data[2]
    for k in range(len(order)):
        i = random_below(stream, len(cost))
        while cost[i] == 0.0:
            i = random_below(stream, len(cost))
        order[k] = i


@kernel
def _steps(data, moving, s, shrinking, max_visits, work):
    """Algorithm 1's inner loop: one-variable steps to the end of the sweep or of a limit."""
    rows, y, cost, norms2, loss = data
    w, alpha, order, _ = moving
    form = dual_form(loss)
    epsilon = form.epsilon
    position, n_kept, M, m = s.position, s.n_kept, s.M, s.m
    gap, dual, visits, updates = s.gap, s.dual, s.visits, s.updates
    while position < s.n_active and work > 0 and visits < max_visits:
        if position + _LOOKAHEAD < s.n_active:
            ahead = np.int64(order[position + _LOOKAHEAD])
            prefetch_row(rows, ahead)
            prefetch(y, ahead)
            prefetch(cost, ahead)
            prefetch(alpha, ahead)
            prefetch(norms2, ahead)
        i = np.int64(order[position])
        position += 1
        visits += 1
        work -= 1 + row_size(rows, i)  # an empty row takes its time, too
        a, C = alpha[i], cost[i]
        D = form.curvature / C
        t = argument(loss, row_dot(rows, i, w), y[i])
        gap += slack(loss, t, a, C)
        G = t - form.linear + D * a  # (12)
        can_shrink, pg = _optimality(form, a, C, G, s.M_bar, s.m_bar)
        if shrinking and can_shrink:
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
    s = Sweep(
        s.n_active,
        position,
        n_kept,
        s.M_bar,
        s.m_bar,
        M,
        m,
        gap,
        s.last_gap,
        dual,
        s.doubt,
        s.eagerness,
        visits,
        updates,
    )
    return s, work
