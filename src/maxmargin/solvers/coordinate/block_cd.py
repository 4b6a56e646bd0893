"""Dual coordinate descent by blocks of rows, for data that do not fit into memory.

    min_alpha  f(alpha),  as in `dual_cd`; the rows are cut into blocks B_1 ... B_m, each of which does fit

Yu, Hsieh, Chang, Lin: Large linear classification when data cannot fit in memory, KDD 2010, algorithm 1 with the inner
solver of section 3.1. One block after the other is loaded; f is then decreased over its variables, all others being
fixed, by some sweeps of dual coordinate descent (Hsieh et al., 2008). What is fixed enters by
w = sum_i alpha_i sign_i x_i alone, so a block needs w, its own alpha and nothing else.

Paper -> code: outer iteration -> a pass over `order`, block B_j -> partition j of the source, d_Bj -> the change of
alpha[begin:end], inner solver -> `DualCD` for `sweeps` sweeps.

What differs from the paper, and why:

* Blocks come in random order, and rows are permuted within: section 3.1 says that it converges faster.
* The stop is a certificate. Every block tells its share of the duality gap when it is left; at the end of an outer
  iteration their sum says whether a certificate is worth its pass over the data.
* A block is left early when its share of the gap is small beside the goal.

Where it is slow: rows are shrunk within a visit of their block only, so that late iterations visit all of them. On
400,000 rows of text in five blocks, hinge, to a relative gap of 1e-3, it takes 72 passes, which is longer than what
OCAS takes on the same store; `auto` does not choose it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array
from maxmargin.data.source import InMemory
from maxmargin.losses import QUADRATIC_DUAL
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.coordinate.dual_cd import DualCD, DualCDState
from maxmargin.solvers.coordinate.sweep import no_sweep
from maxmargin.solvers.visits import rows_with_cost

_EAGERNESS = 0.5  # of shrinking within a block, as in dual_cd
_ENOUGH = 0.5  # a block is left early if its share of the gap is less than this part of what it may be


class BlockCDState(NamedTuple):
    """What moves in coordinate descent by blocks."""

    w: Array  # sum_i alpha_i sign_i x_i, kept in step with alpha
    alpha: Array
    order: Array  # of the blocks in this outer iteration
    rng: Array  # random state
    position: int  # of the next block in the order
    visits: int  # of rows
    updates: int
    dual: float  # D(alpha), kept in step
    gaps: Array  # each block's share of the duality gap, when it was left
    doubt: float  # factor by which certificates have found the gap to be larger


@dataclass(frozen=True)
class BlockCD(Solver):
    """Dual coordinate descent by blocks: for sparse data with many features, on disk.

    Parameters
    ----------
    sweeps : int
        A block is left when as many rows were visited as so many sweeps over all of its rows have; sweeps over fewer,
        the others being shrunk, are shorter. More make fewer loads, and more work in all.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=BlockCD(sweeps=2), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    sweeps: int = 1

    name: ClassVar[str] = "block_cd"
    access: ClassVar[str] = "blocks"
    losses: ClassVar[tuple[type, ...]] = QUADRATIC_DUAL

    def __post_init__(self) -> None:
        if not self.sweeps >= 1:
            raise ValueError(f"sweeps must be at least 1, got {self.sweeps!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BlockCDState:
        """Start at alpha = 0, or near another state: at its alpha, cut to this problem's bounds, or at one of its w."""
        if start is None:
            alpha, w, dual = problem.source.new_vector(np.float64), np.zeros(problem.n_weights), 0.0
            alpha[:] = 0.0
        else:
            known = getattr(start, "alpha", None)
            alpha = problem.dual_point(start.w) if known is None else problem.feasible(known)
            w, dual = problem.weights(alpha), problem.dual(alpha)
        n = problem.source.n_blocks
        return BlockCDState(w, alpha, np.arange(n), new_rng(seed), n, 0, 0, dual, np.full(n, np.inf), 1.0)

    def update(self, problem: Problem, state: BlockCDState, goal: Goal) -> BlockCDState:
        """Load the next block, and decrease f over its variables."""
        if state.position == len(state.order):
            shuffle(state.order, len(state.order), state.rng)
            state = state._replace(position=0)
        block = int(state.order[state.position])
        begin, end, rows = problem.source.block(block)
        state = state._replace(position=state.position + 1)
        cost = problem.cost[begin:end]
        if not cost.any():
            state.gaps[block] = 0.0
            return state
        part = Problem(InMemory((rows,)), problem.y[begin:end], 1.0, problem.loss, sample_weight=cost)
        inner = self._descend(part, state, state.alpha[begin:end], goal)
        state.gaps[block] = inner.sweep.whole_gap
        sweep = inner.sweep
        visits, updates = state.visits + sweep.visits, state.updates + sweep.updates
        return state._replace(visits=visits, updates=updates, dual=inner.dual)

    def _descend(self, part: Problem, state: BlockCDState, alpha: Array, goal: Goal) -> DualCDState:
        """Some sweeps over the rows of a block; w and alpha are written to."""
        order = rows_with_cost(part)
        enough = _ENOUGH * goal.tol / (len(state.order) * state.doubt)
        method, goal = DualCD(), Goal(enough, float(self.sweeps))
        inner = DualCDState(state.w, alpha, order, state.rng, no_sweep(len(order)), state.dual, _EAGERNESS)
        while True:
            before = inner.sweep.visits
            inner = method.update(part, inner, goal)
            report = method.report(part, inner, goal)
            if report.believes or report.passes >= self.sweeps or inner.sweep.visits == before:
                return inner

    def report(self, problem: Problem, state: BlockCDState, goal: Goal) -> Report:
        """The gap is the sum of the blocks' shares; it is believed when all blocks have been visited."""
        gap = float(state.gaps.sum())
        is_over = state.position == len(state.order)
        return Report(
            passes=state.visits / problem.n_weighted,
            primal=state.dual + gap,
            dual=state.dual,
            believes=is_over and state.doubt * gap <= goal.tol * (state.dual + gap),
            counters={"updates": state.updates},
        )

    def certificate(self, problem: Problem, state: BlockCDState) -> Certificate:
        """One pass: w belongs to alpha up to rounding, which enters the gap only squared."""
        return problem.certificate(state.w, state.alpha, belongs=True)

    def reconsider(self, problem: Problem, state: BlockCDState, goal: Goal, certificate: Certificate) -> BlockCDState:
        """Trust the sum of the blocks' shares less: when a block was left, others had not moved w yet."""
        believed = state.doubt * float(state.gaps.sum())
        if not 0.0 < believed < certificate.gap:
            return state
        return state._replace(doubt=state.doubt * max(1.5, certificate.gap / believed))
