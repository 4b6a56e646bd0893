"""Block SMO on three levels of memory: the default solver of kernel machines.

    min_beta  1/2 beta'(K + D)beta - t'beta + sum_i eps_i |beta_i|,   sum_i beta_i = total,   lower <= beta <= upper

    all rows, nothing kept   >   active rows, their kernel rows kept in RAM   >   a block of q rows, its matrix in cache

1. Samples: some thousand random rows are solved first, then four times as many from there, up to all. Their support
   vectors are most of those of the whole, and cost little to find.
2. A round: rows that violate their optimality conditions, that are free, or that are nearest to the margin become
   active; the others are frozen at their bounds.
3. The active problem is solved by decomposition (Osuna, Freund, Girosi 1997; Joachims 1998): q rows, half of them
   those that want most to go up or down, half kept from the block before, are solved by SMO (`block.solve_block`),
   and the outputs of the active rows are updated by kernel rows that are computed once and kept (`active_rows`).
4. The outputs of the frozen rows are updated for all changes at once; the gap of all rows decides about another round.

Notation: f = K beta, e = t - f - D beta, z = t - f - b. Row i adds to the gap what `kernel_problem.row_gap` says.

Kernel values are float32, sums and coefficients float64. The outputs f are therefore a little wrong; before a gap is
believed, all that may matter to it are computed anew in float64 (`outputs`). From there on changes are small, and so
are the errors that they cause: the gap goes down as far as float64 allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem import Certificate
from maxmargin.problem.kernel_problem import LOSSES, KernelProblem
from maxmargin.problem.kernel_program import Program, best_intercept, risk_and_gap
from maxmargin.solvers.base import Goal, Report
from maxmargin.solvers.checks import check_count, check_number
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.block import LARGEST, solve_working_set, ways
from maxmargin.solvers.kernel.expansion import ExpansionSolver, FreeExpansion, counters_of, refuse_penalized_intercept
from maxmargin.solvers.kernel.outputs import (
    add_change,
    bring_back,
    bring_up_to_date,
    is_in_play,
    look,
    risk_of_others,
    settle,
)
from maxmargin.solvers.kernel.stall import note_exact_gap, note_progress
from maxmargin.solvers.kernel.start import starting_point
from maxmargin.vectors import dot

_SAMPLE_TOL = 1e-2  # relative gap of a sample's solution
_WITHIN = 0.5  # of the gap that is wanted, what the active rows may have
_CUT = 0.05  # of the present gap, to which the active problem is solved at least
_NEAR = 3.0  # times the gap that is wanted, from where on the active problem is solved to the end
_NEAR_ROWS = 2.0  # idle rows that are kept in play, per active row; those nearest to the margin
_SETTLED = 0.5  # of the primal value, the gap below which the margin is about where it will be
_LOOK_EVERY = 4  # blocks between two looks at the gap of the active rows
_BLOCK_TOL = 0.02  # of the violation, to which a block is solved
_LARGE_BLOCK_TOL = 0.1  # the same, of blocks whose matrix is too large for a core's own cache: steps take longer
_LARGE_BLOCK = 1024  # rows, of which there must be more
_IDLE = 20  # such looks after which all outputs are computed anew
_BLOCK_SHARE = 0.25  # of the cache, for the matrix of a block
_LEAST_BLOCK = 64  # rows, however small the cache
_BLOCK_STEPS = 4  # SMO steps per row of a block


class _Fields(NamedTuple):
    beta: Array
    f: Array  # K beta; of frozen rows, K applied_beta
    doubt: Array  # how far f may be from that
    applied: Array  # the coefficients that f of the frozen rows belongs to
    b: Array  # the intercept, an array of one number
    order: Array  # of the rows: random, those without weight left out
    n_known: int
    aside: Array  # rows of these that are left alone until the others are solved
    aside_since: Array  # the coefficients that f of theirs belongs to
    active: Array  # rows
    last: Array  # rows kept from the last block
    active_goal: float  # relative gap to solve the active rows to
    is_solved: bool  # they are
    is_exact: bool  # f is K beta, in float64, of all rows where that may matter
    believes: bool
    primal: float
    dual: float
    best_dual: float  # so far, since the outputs were last computed anew
    n_idle: int  # looks at the gap since then that saw it rise by no more than rounding errors
    exact_gap: float  # the least gap of all rows in float64 so far
    n_vain: int  # looks at it since then
    n_blocks: int
    n_rounds: int
    n_visits: int


class BlockState(FreeExpansion, _Fields):
    """What moves. `f` holds for the first n_known rows of `order`; the others are not in play yet."""

    __slots__ = ()


@dataclass(frozen=True)
class BlockSMO(ExpansionSolver):
    """Decomposition with large blocks, active and frozen rows, and samples to start from.

    Parameters
    ----------
    block_size : int
        Rows of a block, at most 4096; 0: by the number of active rows.
    first_sample : int
        Rows that are solved first; the sample grows by `growth` from there.
    growth : float
    extra : float
        Rows beside those that must be active, as a share of them: the nearest to the margin.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 1, 0]
    >>> SVC(solver=BlockSMO(block_size=512)).fit(X, y).stop_reason_
    'converged'
    """

    block_size: int = 0
    first_sample: int = 6000
    growth: float = 4.0
    extra: float = 0.5
    later_extra: float = 0.3
    least_active: int = 2048

    name: ClassVar[str] = "block_smo"
    losses: ClassVar[tuple[type, ...]] = LOSSES
    takes_free_intercept: ClassVar[bool] = True
    max_passes: ClassVar[float] = 1e5
    check_every: ClassVar[float] = 1e5

    def __post_init__(self) -> None:
        for name, least in (("block_size", 0), ("first_sample", 1), ("least_active", 0)):
            check_count(self, name, least)
        check_number(self, "growth", 1.0, above=True)
        check_number(self, "extra")
        check_number(self, "later_extra")

    # ------------------------------------------------------------ the four methods of a solver

    def init_state(self, problem: KernelProblem, seed: int | None = 0, start: Any = None) -> BlockState:  # type: ignore[override]
        """At zero with a sample of the rows, or at the coefficients of another state with all of them."""
        refuse_penalized_intercept(problem, self)
        beta = starting_point(problem, start)
        usable = np.flatnonzero((problem.lower < 0.0) | (problem.upper > 0.0))
        order = np.random.default_rng(seed).permutation(usable)
        is_at_zero = not beta.any()
        n_known = self._sample_sizes(len(order))[0] if is_at_zero else len(order)
        f = np.zeros(problem.n_rows) if is_at_zero else problem.decision(beta)
        b = problem.intercept(f)
        nobody = np.zeros(0, np.int64)
        return BlockState(
            beta=beta,
            f=f,
            doubt=np.zeros(problem.n_rows),
            applied=beta.copy(),
            b=np.array([b]),
            order=order,
            n_known=n_known,
            aside=nobody,
            aside_since=beta.copy(),
            active=nobody,
            last=nobody,
            active_goal=1.0,
            is_solved=True,
            is_exact=True,
            believes=False,
            primal=np.inf,
            dual=-np.inf,
            best_dual=-np.inf,
            n_idle=0,
            exact_gap=np.inf,
            n_vain=0,
            n_blocks=0,
            n_rounds=0,
            n_visits=0,
        )

    def update(self, problem: KernelProblem, state: BlockState, goal: Goal) -> BlockState:  # type: ignore[override]
        """One block; before it, a new round if the active rows are solved."""
        if state.is_solved:
            state = self._new_round(problem, state, goal)
            if state.believes:
                return state
        return self._one_block(problem, state, goal)

    def report(self, problem: KernelProblem, state: BlockState, goal: Goal) -> Report:  # type: ignore[override]
        """Passes are rows visited in blocks, per row."""
        own = {"n_active": len(state.active), "rounds": state.n_rounds, "blocks": state.n_blocks}
        counters = counters_of(problem, state) | own
        return Report(state.n_visits / problem.n_rows, state.primal, state.dual, state.believes, counters)

    def certificate(self, problem: KernelProblem, state: BlockState) -> Certificate:  # type: ignore[override]
        """Bounds of all rows, of the outputs with which the solver came to believe, or anew."""
        if state.believes:
            return problem.certificate(state.beta, state.intercept, state.f)
        return super().certificate(problem, state)

    # ------------------------------------------------------------ rounds

    def _sample_sizes(self, n: int) -> list[int]:
        sizes = [n]
        while sizes[0] > 2 * self.first_sample:
            sizes.insert(0, max(self.first_sample, int(sizes[0] / self.growth)))
        return sizes

    def _new_round(self, problem: KernelProblem, state: BlockState, goal: Goal) -> BlockState:
        """Bring the outputs of frozen rows up to date, look at the gap of all, and choose the active rows anew."""
        bring_up_to_date(problem, state)
        while True:
            known = np.flatnonzero(is_in_play(problem, state))
            program, beta, f = problem.program.of(known), state.beta[known], state.f[known]
            b = best_intercept(program, program.target - f, problem.total)
            gaps, distance, risk = look(program, beta, f, b)
            primal, gap = 0.5 * dot(beta, f) + risk + problem.total * b, float(gaps.sum())
            is_whole = len(known) == len(state.order)
            tol = goal.tol if state.n_known == len(state.order) else max(goal.tol, _SAMPLE_TOL)
            state.b[0] = b
            state = state._replace(primal=primal, dual=primal - gap, n_rounds=state.n_rounds + 1)
            state = note_exact_gap(state, gap) if state.is_exact else note_progress(state, primal - gap, gap)
            is_stuck = is_whole and not state.is_exact and state.n_idle >= _IDLE  # on outputs that are not quite right
            if gap > tol * max(abs(primal), problem.scale) and not is_stuck:
                break
            if len(state.aside):
                state = bring_back(problem, state)
            elif not is_whole:
                state = self._larger_sample(problem, state)
            elif not settle(problem, state, known, program):
                return state._replace(believes=True)
            else:
                state = state._replace(is_exact=True, best_dual=-np.inf, n_idle=0)
        size = max(abs(primal), problem.scale)
        active = self._choose_active(problem, state, known, beta, gaps, distance, program)
        if is_whole and gap <= _SETTLED * size:
            is_idle = (beta == 0.0) & (gaps == 0.0)
            is_idle[np.searchsorted(known, active)] = False
            state = _set_aside(state, known, is_idle, distance, len(active))
        active_goal = _CUT * gap / size if size else 0.0
        if len(active) == len(known) or active_goal < _NEAR * tol:  # another round would cost more
            active_goal = _WITHIN * tol
        return state._replace(active=active, last=active[:0], active_goal=active_goal, is_solved=False, believes=False)

    def _larger_sample(self, problem: KernelProblem, state: BlockState) -> BlockState:
        n_known = next(size for size in self._sample_sizes(len(state.order)) if size > state.n_known)
        new, support = np.sort(state.order[state.n_known : n_known]), np.flatnonzero(state.beta)
        state.f[new] = state.doubt[new] = 0.0
        add_change(problem, state, new, support, state.beta[support])
        return state._replace(n_known=n_known, is_exact=False, best_dual=-np.inf)

    def _choose_active(
        self,
        problem: KernelProblem,
        state: BlockState,
        known: Array,
        beta: Array,
        gaps: Array,
        distance: Array,
        program: Any,
    ) -> Array:
        """Rows that violate or are free, and those nearest to the margin."""
        work = _workspace(problem)
        is_free = (beta > program.lower) & (beta < program.upper) & ((beta != 0.0) | (program.kink == 0.0))
        is_free &= (beta != 0.0) | ((program.lower < 0.0) & (program.upper > 0.0))
        chosen = is_free | (gaps > 0.0)
        share = self.extra if state.n_known != len(state.active) else self.later_extra
        n_chosen = int(np.count_nonzero(chosen))
        n_extra = int(share * n_chosen * (1.0 - n_chosen / len(known))) + 64
        if len(known) <= min(self.least_active, work.most):
            return known
        away = np.where(chosen, np.inf, distance)
        if n_extra < len(known) - n_chosen:
            chosen |= away <= np.partition(away, n_extra)[n_extra]
        else:
            chosen[:] = True
        if np.count_nonzero(chosen) > work.most:  # the worst ones first
            order = np.argsort(np.where(gaps > 0.0, -gaps, np.where(is_free, 0.0, distance)), kind="stable")
            chosen[:] = False
            chosen[order[: work.most]] = True
        return known[chosen]

    # ------------------------------------------------------------ blocks

    def _one_block(self, problem: KernelProblem, state: BlockState, goal: Goal) -> BlockState:
        work = _workspace(problem)
        work.change(state.active)
        rows = work.rows
        program, beta, f = _program_of_active(problem, work), state.beta[rows], state.f[rows]
        e, up, down = ways(program, beta, f)
        top, bottom = float(up.max()), float(down.min())
        scale = max(1e-300, float(np.abs(program.target).max()), abs(top), abs(bottom))
        is_stationary = top - bottom <= 1e-13 * scale
        is_solved = is_stationary
        if not is_solved and state.n_blocks % _LOOK_EVERY == 0:
            primal, gap = self._bounds_of_active(problem, state, rows, program, beta, f)
            is_solved = gap <= state.active_goal * max(abs(primal), problem.scale)
            state = note_progress(state, primal - gap, gap)
            is_solved |= state.n_idle >= _IDLE and state.n_known == len(state.order)  # as far as these outputs go
        if is_solved:
            return state._replace(is_solved=True, n_blocks=state.n_blocks + 1, n_visits=state.n_visits + 1)
        size = self._size(problem, work)
        block = work.order(self._choose_block(work, state, up, down, size))
        slots = work.slots(block)
        q = len(block)
        K = work.gram(block, slots, _matrix_of_block(problem, work, size))
        inner = program.of(block)
        new = beta[block]
        tol = (_LARGE_BLOCK_TOL if q > _LARGE_BLOCK else _BLOCK_TOL) * (top - bottom)
        solve_working_set(K, e[block] - 0.5 * (top + bottom), new, inner, tol, _BLOCK_STEPS * q)
        change = new - beta[block]
        moved = np.flatnonzero(change)
        state.doubt[rows] += work.add(slots[moved], change[moved], f)
        state.beta[rows[block]], state.f[rows] = new, f
        last = block[moved]
        kept = min(size // 2, size - 2)  # there must be room for two others
        if len(last) > kept:
            centre = 0.5 * (top + bottom)
            last = last[np.argpartition(np.abs(program.target[last] - f[last] - centre), kept)[:kept]]
        return state._replace(last=rows[last], is_exact=False, n_blocks=state.n_blocks + 1, n_visits=state.n_visits + q)

    def _size(self, problem: KernelProblem, work: ActiveRows) -> int:
        """Rows of a block; its matrix is part of the cache."""
        m = len(work.rows)
        size = max(2, self.block_size) if self.block_size else 2048 if m > 10_000 else 1024
        most = max(_LEAST_BLOCK, int(np.sqrt(_BLOCK_SHARE * problem.cache_size * 2**18)))
        return min(m, size, LARGEST, work.n_slots, most)

    def _choose_block(self, work: ActiveRows, state: BlockState, up: Array, down: Array, q: int) -> Array:
        """Positions of the rows that violate most, half of them upwards and half downwards, and of those kept."""
        m, top, bottom = len(work.rows), float(up.max()), float(down.min())
        if q == m:
            return np.arange(m)
        place = np.full(work.values.n_rows, -1, np.int64)
        place[work.rows] = np.arange(m)
        last = place[state.last]
        half = (q - len(last)) // 2  # one at least, see `_one_block`
        up[last], down[last] = -np.inf, np.inf
        upwards = np.argpartition(up, m - half)[m - half :]
        upwards = upwards[up[upwards] > bottom]
        down[upwards] = np.inf
        downwards = np.argpartition(down, half)[:half]
        downwards = downwards[down[downwards] < top]
        return np.sort(np.concatenate([last, upwards, downwards]))

    def _bounds_of_active(
        self, problem: KernelProblem, state: BlockState, rows: Array, program: Any, beta: Array, f: Array
    ) -> tuple[float, float]:
        """Primal value and the gap of the active rows, the others' outputs taken as they are."""
        is_frozen = is_in_play(problem, state)
        is_frozen[rows] = False
        total = problem.total - (float(state.beta.sum()) - float(beta.sum()))
        b = best_intercept(program, program.target - f, total)
        risk, gap = risk_and_gap(program, beta, f, b)
        other_risk, products = risk_of_others(problem.program, state.beta, state.f, b, is_frozen)
        return 0.5 * (dot(beta, f) + products) + risk + other_risk + problem.total * b, gap


def _set_aside(state: BlockState, known: Array, is_idle: Array, distance: Array, n_active: int) -> BlockState:
    """Leave idle rows alone that are far beyond the margin: most stay there, whatever happens near it."""
    away, n_near = distance[is_idle], int(_NEAR_ROWS * n_active)
    if len(away) <= 2 * n_near:
        return state
    aside = known[is_idle][away > np.partition(away, n_near)[n_near]]
    return state._replace(aside=aside, aside_since=state.beta.copy())


def _workspace(problem: KernelProblem) -> ActiveRows:
    """The arena of this problem; half of a state that is not worth saving."""
    held = problem.__dict__
    if "active_rows" not in held:
        held["block_memory"], held["block_matrix"] = np.empty(0, np.float32), np.empty((0, 0), np.float32)
        largest = min(4 * 2048**2 / 2**20, _BLOCK_SHARE * problem.cache_size)
        held["active_rows"] = ActiveRows(problem.values, problem.cache_size - largest)
    return held["active_rows"]


def _program_of_active(problem: KernelProblem, work: ActiveRows) -> Program:
    """The program of the active rows, in their order; made once for all blocks of a round."""
    held = problem.__dict__
    if held.get("program_of", (None,))[0] is not work.rows:
        held["program_of"] = work.rows, problem.program.of(work.rows)
    return held["program_of"][1]


def _matrix_of_block(problem: KernelProblem, work: ActiveRows, size: int) -> Array:
    """Memory for the kernel matrix of a block of so many rows, no more, with what `work` has put there."""
    held = problem.__dict__
    if len(held["block_matrix"]) != size:
        room = held["block_memory"]
        if len(room) < size * size:
            room = held["block_memory"] = np.empty(size * size, np.float32)
        held["block_matrix"] = room[: size * size].reshape(size, size)
        work.forget_block()
    return held["block_matrix"]
