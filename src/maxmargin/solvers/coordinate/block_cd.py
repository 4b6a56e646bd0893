"""Dual coordinate descent by blocks of rows, for data that do not fit into memory.

    min_alpha  f(alpha),  as in `dual_cd`; the rows are cut into blocks B_1 ... B_m, each of which does fit

Yu, Hsieh, Chang, Lin: Large linear classification when data cannot fit in memory, KDD 2010, algorithm 1 with the inner
solver of section 3.1. Block after block is loaded; f is then decreased over its variables, all others being
fixed, by some sweeps of dual coordinate descent (Hsieh et al., 2008). What is fixed enters by
w = sum_i alpha_i sign_i x_i alone, so a block needs w, its own alpha and nothing else.

Paper -> code: outer iteration -> a pass over `order`, block B_j -> partition j of the source, d_Bj -> the change of
alpha[begin:end], inner solver -> `sweeps` sweeps over the active rows of the block.

What differs from the paper, and why:

* Blocks come in random order, and rows are permuted within: section 3.1 says that it converges faster.
* What is loaded at a time are parts of several blocks, others each time. Rows that are always loaded together, such as
  those of a block, agree among themselves, but not with those of other blocks, on weights that most rows have a say in,
  such as the intercept; what they disagree on decays only between two loads. One block at a time, a thirtieth of the
  rows, took up to fifty times the passes.
* Rows stay shrunk from one outer iteration to the next, by thresholds that are those of all blocks.
* As many parts are loaded at a time as there is room for, packed: only their active rows count. Rows are permuted over
  all of them. As soon as all active rows fit, nothing more is read, and outer iterations are sweeps of `dual_cd`.
* The stop is a certificate. Visits tell the rows' shares of the duality gap; at the end of an outer iteration their sum
  says whether a certificate is worth its pass over the data. One that finds more brings rows back, as in `dual_cd`.

The rows should be in random order (``pack(shuffle=True)``): blocks of one class each undo one another's work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, row_dot
from maxmargin.data.source import check_pause
from maxmargin.losses import QUADRATIC_DUAL, argument, dual_form
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.coordinate.dual_cd import (
    COARSE,
    COARSE_EAGERNESS,
    EAGERNESS,
    DualCDState,
    optimality,
    seems_done,
    visit_rows,
)
from maxmargin.solvers.coordinate.sweep import Sweep, next_sweep, no_sweep
from maxmargin.solvers.visits import Examples

_ALL = 1 << 62  # visits: no limit
_PARTS = 4  # of blocks that are loaded at a time, at least
_BETWEEN = 1 << 24  # stored values between two looks at whether to pause: some hundredths of a second


class BlockCDState(NamedTuple):
    """What moves in coordinate descent by blocks."""

    w: Array  # sum_i alpha_i sign_i x_i, kept in step with alpha
    alpha: Array
    active: Array  # whether a row is not shrunk
    order: Array  # of the parts of blocks in this outer iteration: the same number of each block
    rng: Array  # random state
    position: int  # of the next block in the order
    sweep: Sweep  # over all active rows; `position` and `n_active` count rows of the blocks before
    dual: float  # D(alpha), kept in step
    eagerness: float  # of shrinking, as in dual_cd


@dataclass(frozen=True)
class BlockCD(Solver):
    """Dual coordinate descent by blocks: for sparse data with many features, on disk.

    Parameters
    ----------
    sweeps : int
        Sweeps over the active rows of blocks that are loaded before they are left. More make fewer loads, and more work
        in all: on generated text of long, short and wide rows two were better than one for the hinge, and a little
        worse for the squared hinge.
    at_once : int, optional
        Blocks that are loaded at a time. None: as many, or as large parts of several, as the memory of the store has
        room for; only rows that are not shrunk count. The course then depends on that memory.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=BlockCD(sweeps=1), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    sweeps: int = 2
    at_once: int | None = None

    name: ClassVar[str] = "block_cd"
    access: ClassVar[str] = "blocks"
    is_in_place: ClassVar[bool] = False  # loading blocks may take seconds: an update that is paused is dropped
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL

    def __post_init__(self) -> None:
        check_count(self, "sweeps", 1)
        if self.at_once is not None:
            check_count(self, "at_once", 1)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BlockCDState:
        """Start at alpha = 0, or near another state: at its alpha, cut to this problem's bounds, or at one of its w."""
        source = problem.source
        if start is None:
            alpha, w, dual = source.new_vector(np.float64), np.zeros(problem.n_weights), 0.0
            for block in range(source.n_blocks):
                begin, end = source.borders(block)
                alpha[begin:end] = 0.0
                source.release([alpha], begin, end)
        else:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(start.w) if known is None else problem.feasible(known)
            w, dual = problem.weights(alpha), problem.dual(alpha)
        active = source.new_vector(np.bool_)
        for block in range(source.n_blocks):
            begin, end = source.borders(block)
            np.greater(problem.cost[begin:end], 0.0, out=active[begin:end])
            source.release([active, problem.cost], begin, end)
        n, sweep = source.n_blocks * self._parts(source), no_sweep(problem.n_weighted)
        return BlockCDState(w, alpha, active, np.arange(n), new_rng(seed), n, sweep, dual, EAGERNESS)

    def update(self, problem: Problem, state: BlockCDState, goal: Goal) -> BlockCDState:
        """Load the next blocks, and decrease f over their active variables."""
        state = state._replace(w=state.w.copy(), order=state.order.copy(), rng=state.rng.copy())
        if state.position == len(state.order):
            state = self._next_iteration(problem, state, goal)
        source = problem.source
        parts, chosen = self._next_parts(source, state)
        state = state._replace(position=state.position + len(parts))
        if not len(chosen):
            return state
        blocks = sorted({part * source.n_blocks // len(state.order) for part in parts})
        rows, numbers = source.some_rows(blocks, chosen)
        data = Examples(rows, problem.y[numbers], problem.cost[numbers], problem.norms2[numbers], problem.loss)
        alpha, order = state.alpha[numbers], np.searchsorted(numbers, chosen).astype(np.uint32)
        sweep, dual = self._descend(data, DualCDState(state.w, alpha, order, state.rng, state.sweep, state.dual, 0.0))
        state.alpha[numbers] = alpha  # from here on nothing pauses
        state.active[chosen] = False
        state.active[numbers[order[: sweep.n_kept - state.sweep.n_kept]]] = True
        for block in blocks:
            vectors = [state.alpha, state.active, problem.y, problem.cost, problem.norms2]
            source.release(vectors, *source.borders(block))
        return state._replace(sweep=sweep, dual=dual)

    def _parts(self, source: Any) -> int:
        """How many parts a block has, so that there is room for enough of them."""
        if self.at_once is not None:
            return 1
        block = source.n_rows * source.row_bytes / source.n_blocks
        return max(1, min(source.n_rows // source.n_blocks, math.ceil(_PARTS * block / max(1.0, source.room))))

    def _next_parts(self, source: Any, state: BlockCDState) -> tuple[list[int], Array]:
        """The next parts in order, as many as shall be loaded at a time, and their active rows."""
        parts: list[int] = []
        chosen: list[Array] = []
        size, n_parts = 0.0, len(state.order) // source.n_blocks
        for part in state.order[state.position :].tolist():
            block, k = divmod(part, n_parts)
            first, behind = source.borders(block)
            begin, end = (first + (behind - first) * cut // n_parts for cut in (k, k + 1))
            active = begin + np.flatnonzero(state.active[begin:end])
            size += len(active) * source.row_bytes
            if parts and (size > source.room if self.at_once is None else len(parts) == self.at_once):
                break
            parts.append(part)
            chosen.append(active)
        return parts, np.sort(np.concatenate(chosen))

    def _next_iteration(self, problem: Problem, state: BlockCDState, goal: Goal) -> BlockCDState:
        """Blocks in another order, and thresholds by what the last iteration has found."""
        s, eagerness = state.sweep, state.eagerness
        if s.visits == 0 and goal.tol >= COARSE and problem.n_rows > problem.n_weights:
            eagerness = COARSE_EAGERNESS
        shuffle(state.order, len(state.order), state.rng)
        M_bar = eagerness * s.M if s.M > 0.0 else np.inf
        m_bar = eagerness * s.m if s.m < 0.0 else -np.inf
        return state._replace(position=0, eagerness=eagerness, sweep=next_sweep(s, M_bar, m_bar, -np.inf))

    def _descend(self, data: Examples, inner: DualCDState) -> tuple[Sweep, float]:
        """Some sweeps over the active rows of a block; w, alpha and the order (first, what is kept) are written to."""
        whole, n = inner.sweep, len(inner.order)
        for _ in range(self.sweeps):
            shuffle(inner.order, n, inner.rng)
            s, dual = inner.sweep._replace(n_active=n, position=0, n_kept=0, gap=whole.gap), inner.dual
            while not s.is_over:
                check_pause()
                s, dual, _ = visit_rows(data, inner, s, dual, True, _ALL, _BETWEEN)
            inner, n = inner._replace(sweep=s, dual=dual), s.n_kept
        n_kept, position = whole.n_kept + n, whole.position + len(inner.order)
        return inner.sweep._replace(n_active=whole.n_active, position=position, n_kept=n_kept), inner.dual

    def report(self, problem: Problem, state: BlockCDState, goal: Goal) -> Report:
        """The gap is the sum of the rows' shares; it is believed when all blocks have been visited."""
        sweep = state.sweep
        return Report(
            passes=sweep.visits / problem.n_weighted,
            primal=state.dual + sweep.whole_gap,
            dual=state.dual,
            believes=_believes(state, goal),
            counters={"updates": sweep.updates, "active": sweep.n_coming},
        )

    def certificate(self, problem: Problem, state: BlockCDState) -> Certificate:
        """One pass: w belongs to alpha up to rounding, which enters the gap only squared."""
        return problem.certificate(state.w, state.alpha, belongs=True)

    def reconsider(self, problem: Problem, state: BlockCDState, goal: Goal, certificate: Certificate) -> BlockCDState:
        """Take rows back that should not have been shrunk; if there are none, trust the sum of their shares less."""
        sweep = state.sweep
        if not _believes(state, goal) and certificate.gap <= 2.0 * sweep.doubt * sweep.whole_gap:
            return state
        thresholds = [sweep.M if sweep.M > 0.0 else np.inf, sweep.m if sweep.m < 0.0 else -np.inf]
        done = problem.over_rows(_select, shared=[state.w, *thresholds], reads=[state.alpha], writes=[np.bool_])
        counts, most, least = zip(*done.results)
        if sum(counts) <= sweep.n_coming:
            return state._replace(sweep=sweep.with_doubt(certificate.gap))
        begun = sweep.restarted(sum(counts), max(sweep.M, *most), min(sweep.m, *least))
        eagerness, over = 2.0 * state.eagerness, len(state.order)
        return state._replace(active=done.vectors[0], position=over, sweep=begun, eagerness=eagerness)


def _believes(state: BlockCDState, goal: Goal) -> bool:
    is_over = state.position == len(state.order) and state.sweep.visits > 0
    return bool(is_over and seems_done(state.sweep, state.dual, goal.tol))


@compiled
def _select(block, w, M_bar, m_bar, alpha, kept):
    """Which rows (16) would not shrink; their number, and what they violate at most and at least."""
    rows, y, cost, loss = block
    form = dual_form(loss)
    n, M, m = 0, -np.inf, np.inf
    for i in range(len(y)):
        kept[i] = False
        if cost[i] > 0.0:
            t = argument(loss, row_dot(rows, i, w), y[i])
            G = t - form.linear + form.curvature / cost[i] * alpha[i]
            can_shrink, pg = optimality(form, alpha[i], cost[i], G, M_bar, m_bar)
            if not can_shrink:
                kept[i] = True
                M, m = max(M, pg), min(m, pg)
                n += 1
    return n, M, m
