"""LaRank for linear multi-class SVM: pairs of dual variables of one row, among the rows that support the model.

    min_W  P(W) = 1/2 sum_r |w_r|^2 + sum_i C_i max_r ( w_r'x_i + [r != y_i] ) - w_{y_i}'x_i
    max_b  D(b) = sum_i b_i^{y_i} - 1/2 sum_r |w_r|^2,    w_r = sum_i b_i^r x_i,
           b_i^r <= C_i [r = y_i],   sum_r b_i^r = 0

Bordes, Bottou, Gallinari, Weston: Solving multiclass support vector machines with LaRank, ICML 2007. With the gradient
g_i(r) = [r = y_i] - w_r'x_i, a step moves b_i^+ up and b_i^- down by

    lambda = min( (g_i(+) - g_i(-)) / (2 |x_i|^2),  C_i [+ = y_i] - b_i^+ )                           (SmoStep)

for a row and a pair of classes that are chosen in one of three ways:

    ProcessNew  a new row:              + is y_i,              - the class of least gradient
    ProcessOld  a row with b_i != 0:    + the best that may go up,  - the class of least gradient
    Optimize    a row with b_i != 0:    the same among its classes with b_i^r != 0

Paper -> code: beta_i^y -> beta[i, r], S -> `Support`, lambda -> step, C delta(y, y_i) -> limit.

What differs from the paper, and why:

* Each row of a pass, in random order, is followed by one ProcessOld and `n_optimize` Optimize steps of rows drawn from
  the support, instead of shares that adapt to what each kind gains for its time. A row that is in the support already
  is taken as an old one.
* Passes go on until a certificate proves the gap (the paper: one pass, or until tau-violations are gone).
* The kernel is linear, so W is kept and a gradient costs a product; `kernel_larank` is the paper's kernel machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import compiled, generic
from maxmargin._random import new_rng, random_below, shuffle
from maxmargin.data.rows import Array, add_row, row_dot
from maxmargin.problem import Certificate, Problem
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.visits import Examples, examples, rows_with_cost

NEW, OLD, OPTIMIZE = range(3)
_TIE = 1e-12  # gradients that differ by less are equal, as those of a pair are after its step: the first class counts
_BELOW = 1.0 - 1e-12  # of C_i: what is nearer to it is there but for rounding


class Support(NamedTuple):
    """The rows with dual variables that are not zero."""

    rows: Array  # the first `size` of them
    place: Array  # of each row in `rows`; -1: none
    size: Array  # an array of one number


def support_of(beta: Array) -> Support:
    """The rows whose dual variables are not zero."""
    n = len(beta)
    support = Support(np.zeros(n, dtype=np.int64), np.full(n, -1), np.zeros(1, dtype=np.int64))
    for i in np.flatnonzero(np.any(beta != 0.0, axis=1)):
        _enter(support, i)
    return support


class LaRankState(NamedTuple):
    """What moves in LaRank."""

    w: Array  # w_r, class after class, kept in step with beta
    beta: Array  # a line a row
    support: Support
    order: Array  # of the rows in a pass
    rng: Array
    passes: int  # over all rows
    next_certificate: int  # after so many passes

    @property
    def alpha(self) -> Array:
        """The dual variables."""
        return self.beta


@dataclass(frozen=True)
class LaRank(Solver):
    """LaRank: all classes at once, by steps on pairs of classes of one row; for many classes.

    It takes problems of the risk `CrammerSinger`.

    Parameters
    ----------
    n_optimize : int
        Optimize steps after each row (the paper: ten for each ProcessOld).

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> from maxmargin.problem.risks import CrammerSinger
    >>> X, y = [[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1.5, 0.2]], [0, 1, 2, 0]
    >>> result = solve(Problem(X, y, C=1.0, loss="hinge", risk=CrammerSinger(3)), LaRank(), tol=1e-6)
    >>> result.stop_reason
    'converged'
    """

    n_optimize: int = 10

    name: ClassVar[str] = "larank"
    losses: ClassVar[tuple[type, ...]] = losses.ALL  # of no account: the risk has its own
    risks: ClassVar[tuple[type, ...]] = (CrammerSinger,)

    def __post_init__(self) -> None:
        check_count(self, "n_optimize", 0)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> LaRankState:
        """Start at beta = 0, or at the dual variables of another state of this solver, cut to this problem's bounds."""
        n, K = problem.n_rows, problem.risk.n_outputs
        order, beta, w = rows_with_cost(problem), np.zeros((n, K)), np.zeros(problem.n_weights)
        if isinstance(start, LaRankState) and start.beta.shape == (n, K):
            beta = feasible(problem, start.beta)
            W = w.reshape(K, -1)
            _add_all(examples(problem), beta, W)
        return LaRankState(w, beta, support_of(beta), order, new_rng(seed), 0, 1)

    def update(self, problem: Problem, state: LaRankState, goal: Goal) -> LaRankState:
        """One pass: every row as a new one, with old ones between."""
        shuffle(state.order, len(state.order), state.rng)
        W = state.w.reshape(problem.risk.n_outputs, -1)
        visit_rows(examples(problem), W, state.beta, state.support, state.order, state.rng, int(self.n_optimize))
        return state._replace(passes=state.passes + 1)

    def report(self, problem: Problem, state: LaRankState, goal: Goal) -> Report:
        """Nothing is known of the gap between certificates."""
        counters = {"support": float(state.support.size[0])}
        return Report(float(state.passes), np.nan, np.nan, state.passes >= state.next_certificate, counters)

    def certificate(self, problem: Problem, state: LaRankState) -> Certificate:
        """P(W) by a pass; D of the dual variables, made to sum to zero to the last bit, whose W is computed anew."""
        y, beta = problem.y.astype(np.int64), feasible(problem, state.beta)
        W = np.zeros((problem.risk.n_outputs, problem.n_weights // problem.risk.n_outputs))
        _add_all(examples(problem), beta, W)
        primal = problem.primal(state.w)
        dual = float(beta[np.arange(len(y)), y].sum() - 0.5 * np.sum(W * W))
        gap = max(primal - dual, 0.0)
        return Certificate(primal, primal - gap, gap)

    def reconsider(self, problem: Problem, state: LaRankState, goal: Goal, certificate: Certificate) -> LaRankState:
        """The next certificate after half as many passes again."""
        return state._replace(next_certificate=state.passes + max(1, state.passes // 2))


def feasible(problem: Any, beta: Array) -> Array:
    """Dual variables cut to the bounds, each row's scaled so that they sum to zero."""
    own = np.arange(problem.n_rows), problem.y.astype(np.int64)
    reach = np.clip(beta[own], 0.0, problem.cost)
    others = np.minimum(beta, 0.0)
    others[own] = 0.0
    total = -others.sum(axis=1)
    found = others * np.divide(reach, total, out=np.zeros_like(total), where=total > 0.0)[:, None]
    found[own] = -found.sum(axis=1)
    return found


@compiled
def _enter(support, i):
    """Row i has dual variables now."""
    if support.place[i] < 0:
        support.place[i] = support.size[0]
        support.rows[support.size[0]] = i
        support.size[0] += 1


@compiled
def _leave(support, i):
    """Row i has none any more: the last one takes its place."""
    at = support.place[i]
    if at >= 0:
        support.size[0] -= 1
        last = support.rows[support.size[0]]
        support.rows[at] = last
        support.place[last] = at
        support.place[i] = -1


@compiled
def choose(g, beta, own, C, kind):
    """The pair of classes of a row, given its gradients; -1 if there is none that gains. And what it gains."""
    up, down, best, least = np.int64(-1), np.int64(-1), -np.inf, np.inf
    for r in range(len(g)):
        if kind == OPTIMIZE and beta[r] == 0.0:
            continue
        limit = C if r == own else 0.0
        if g[r] < least - _TIE:
            down, least = np.int64(r), g[r]
        if beta[r] < _BELOW * limit and g[r] > best + _TIE and (kind != NEW or r == own):
            up, best = np.int64(r), g[r]
    if up < 0 or down < 0 or best <= least + _TIE:
        return np.int64(-1), np.int64(-1), 0.0
    return up, down, best - least


@compiled
def smo_step(beta, support, i, pair, own, C, norm2):
    """Move beta_i^+ up and beta_i^- down, and say by how much."""
    up, down, gain = pair
    step = (C if up == own else 0.0) - beta[i, up]
    if norm2 > 0.0:
        step = min(step, gain / (2.0 * norm2))
    beta[i, up] += step
    beta[i, down] -= step
    others = 0.0
    for r in range(beta.shape[1]):
        others += beta[i, r] if r != own else 0.0
    beta[i, own] = -others  # as it is but for rounding: zero if all others are
    if others == 0.0:
        _leave(support, i)
    else:
        _enter(support, i)
    return step


@compiled
def _add_all(data, beta, W):
    """W += sum_i beta_i^r x_i."""
    for i in range(len(beta)):
        for r in range(len(W)):
            if beta[i, r] != 0.0:
                add_row(data.rows, i, beta[i, r], W[r])


@compiled
def visit_rows(data, outputs, beta, support, order, rng, n_optimize):
    """ProcessNew or ProcessOld of each row, and after each a ProcessOld and Optimize of rows of the support."""
    g = np.empty(beta.shape[1])
    for k in range(len(order)):
        i = np.int64(order[k])
        step_on_row(data, outputs, beta, support, i, NEW if support.place[i] < 0 else OLD, g)
        for turn in range(1 + n_optimize):
            if support.size[0] > 0:
                j = support.rows[random_below(rng, support.size[0])]
                step_on_row(data, outputs, beta, support, j, OLD if turn == 0 else OPTIMIZE, g)


@generic
def step_on_row(data, outputs, beta, support, i, kind, g):
    """Choose the pair of classes of row i, make the SmoStep and bring the outputs up to date; g: room for gradients."""
    raise TypeError(f"not rows: {data!r}")


@step_on_row.register(Examples)
def _(data, W, beta, support, i, kind, g):
    own, C = np.int64(data.y[i]), data.cost[i]
    for r in range(len(W)):
        if kind != OPTIMIZE or beta[i, r] != 0.0:
            g[r] = (1.0 if r == own else 0.0) - row_dot(data.rows, i, W[r])
    pair = choose(g, beta[i], own, C, kind)
    if pair[0] < 0:
        return
    step = smo_step(beta, support, i, pair, own, C, data.norms2[i])
    add_row(data.rows, i, step, W[pair[0]])
    add_row(data.rows, i, -step, W[pair[1]])
