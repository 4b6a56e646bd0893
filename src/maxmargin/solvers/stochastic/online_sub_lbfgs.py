"""Online subLBFGS: L-BFGS that is both online and for losses with kinks.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

A batch of b of the m rows, its sum taken m / b times, stands for all of P, as in `online_lbfgs`. On it, one iteration
of `sub_lbfgs` is made: the direction p that the worst subgradient of the batch allows, then the place along p where
the batch's objective is least. The step is a share of that way,

    s = eta_t k p,      eta_t = tau / (tau + t),      k the exact step,

and the subgradient beyond it, ON THE SAME BATCH, teaches the metric B. B goes from batch to batch.

Menon: Large-scale support vector machines: algorithms and theory, 2009, sections 4.3.3 and 6: "recent work has extended
the LBFGS technique to both the online and non-smooth cases. If these strands are connected, then that allows LBFGS to
be applied to the SVM problem." The strands are Schraudolph, Yu, Guenter, AISTATS 2007 (`online_lbfgs`), and Yu,
Vishwanathan, Guenter, Schraudolph, ICML 2008 (`sub_lbfgs`). There is no paper on the combination: this is ours.

What had to be decided:

* oLBFGS has no line search. Without one a step along -B g explodes for the hinge: the only curvature between two
  subgradients of a batch is that of the rows that crossed their kinks. With the exact search on the batch, no step
  leads beyond where the batch would have it.
* Batches grow, by a factor of four after each certificate that does not meet the goal. In the end one batch has all
  rows, and the method is `sub_lbfgs`, with its certificate, from a good start and with a metric.
* Steps stay in the ball |w|^2 <= 2 P(0), in which every w with P(w) <= P(0) is.

How it compares: papers/stochastic/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._random import new_rng, shuffle
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, Rows, n_rows, take
from maxmargin.data.source import Block, RowVector
from maxmargin.losses import EpsilonInsensitive, Hinge
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.checks import check_count, check_number
from maxmargin.solvers.newton.lbfgs import Memory
from maxmargin.solvers.newton.sub_lbfgs import SubLBFGS, SubLBFGSState, evaluated, step
from maxmargin.solvers.visits import rows_with_cost
from maxmargin.vectors import norm

_LEAST_BATCH = 1000
_ANY = Goal(0.0, math.inf)


class OnlineSubLBFGSState(NamedTuple):
    """What moves in online subLBFGS."""

    whole: SubLBFGSState  # of all rows; w and the memory are those of the last batch
    order: Array  # of the rows in this pass
    rng: Array
    begin: int  # of the next batch
    n_batches: int  # that a pass has
    radius: float  # of the ball that the optimum is in
    visits: int  # of rows, by batches
    steps: int
    next_certificate: int  # at so many visits

    @property
    def w(self) -> Array:
        """The weights."""
        return self.whole.w

    @property
    def alpha(self) -> RowVector | None:
        """The dual point, once a batch has all rows."""
        return self.whole.alpha if self.n_batches == 1 else None


@dataclass(frozen=True)
class OnlineSubLBFGS(Solver):
    """Online L-BFGS for hinge and epsilon-insensitive loss, by batches of rows that grow as the answer becomes better.

    Parameters
    ----------
    memory : int
        Pairs that are remembered. Each takes two vectors as long as w.
    subgradients : int
        Most that are mixed to find a direction.
    batch : int
        Rows of the first batches.
    tau : float
        Passes after which steps are half as long as at the start.
    growth : int
        Factor by which batches become larger after each certificate that does not meet the goal; 1: never.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="hinge")
    >>> result = solve(problem, solver=OnlineSubLBFGS(), tol=1e-9)
    >>> result.certificate.relative_gap <= 1e-9
    True
    """

    memory: int = 10
    subgradients: int = 50
    batch: int = _LEAST_BATCH
    tau: float = 1.0
    growth: int = 4

    name: ClassVar[str] = "sub_olbfgs"
    access: ClassVar[str] = "passes"
    losses: ClassVar[tuple[type, ...]] = (Hinge, EpsilonInsensitive)

    def __post_init__(self) -> None:
        SubLBFGS(self.memory, self.subgradients)  # its errors
        check_count(self, "batch", 1)
        check_count(self, "growth", 1)
        check_number(self, "tau", above=True)

    @property
    def _of_batch(self) -> SubLBFGS:
        return SubLBFGS(self.memory, self.subgradients)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> OnlineSubLBFGSState:
        """Start at w = 0, or at the w of another state, and at its alpha if it has one."""
        whole, order = self._of_batch.init_state(problem, seed, start), rows_with_cost(problem)
        n_batches = max(1, round(len(order) / self.batch))
        radius = math.sqrt(2.0 * problem.primal(np.zeros(problem.n_weights)))
        return OnlineSubLBFGSState(whole, order, new_rng(seed), 0, n_batches, radius, 0, 0, 2 * len(order))

    def update(self, problem: Problem, state: OnlineSubLBFGSState, goal: Goal) -> OnlineSubLBFGSState:
        """One iteration of subLBFGS, on the next batch or on all rows."""
        if state.n_batches == 1:
            return state._replace(whole=self._of_batch.update(problem, state.whole, goal))
        state, which = _next_batch(state)
        some = _problem_of(problem, which, len(state.order) / len(which))
        here = self._of_batch.init_state(some)._replace(w=state.w, memory=_copied(state.whole.memory))
        here = self._of_batch.turn(some, evaluated(some, here), _ANY)
        reach = self.tau * state.n_batches
        there = step(some, here, reach / (reach + state.steps))
        w = there.w * min(1.0, state.radius / max(norm(there.w), 1e-300))
        whole = state.whole._replace(w=w, memory=there.memory)
        return state._replace(whole=whole, visits=state.visits + there.visits, steps=state.steps + 1)

    def report(self, problem: Problem, state: OnlineSubLBFGSState, goal: Goal) -> Report:
        """What subLBFGS knows once a batch has all rows; before that a certificate is due after twice the passes."""
        online = state.visits / problem.n_weighted
        counters = {"batches": float(state.n_batches), "online_steps": float(state.steps)}
        if state.n_batches > 1:
            is_due = state.visits >= state.next_certificate
            return Report(online, math.nan, math.nan, is_due, counters)
        known = self._of_batch.report(problem, state.whole, goal)
        return known._replace(passes=online + known.passes, counters=counters)

    def certificate(self, problem: Problem, state: OnlineSubLBFGSState) -> Certificate:
        """That of w, with the dual point if there is one."""
        return problem.certificate(state.w, state.alpha)

    def reconsider(
        self, problem: Problem, state: OnlineSubLBFGSState, goal: Goal, certificate: Certificate
    ) -> OnlineSubLBFGSState:
        """Larger batches, and the next certificate after as many passes again."""
        if state.n_batches == 1:
            return state._replace(whole=self._of_batch.reconsider(problem, state.whole, goal, certificate))
        n_batches = max(1, state.n_batches // self.growth)
        later = state.visits + max(state.visits, len(state.order))
        state = state._replace(n_batches=n_batches, next_certificate=later)
        if n_batches > 1:
            return state
        whole = self._of_batch.init_state(problem, start=_Weights(state.w))
        return state._replace(whole=whole._replace(memory=state.whole.memory))


class _Weights(NamedTuple):
    """A point without a dual point."""

    w: Array


def _next_batch(state: OnlineSubLBFGSState) -> tuple[OnlineSubLBFGSState, Array]:
    """The rows after those of the last batch, or the first ones in a new order."""
    n = len(state.order)
    if state.begin == 0:
        order, rng = state.order.copy(), state.rng.copy()
        shuffle(order, n, rng)
        state = state._replace(order=order, rng=rng)
    # Batches of about the same size, also if there are fewer of them than when the pass began.
    n_left = max(1, round(state.n_batches * (n - state.begin) / n))
    end = state.begin + (n - state.begin) // n_left
    return state._replace(begin=end % n), state.order[state.begin : end]


def _problem_of(problem: Problem, which: Array, factor: float) -> Problem:
    """The problem of some of the rows, their costs taken so many times."""
    chosen = np.zeros(problem.n_rows, dtype=bool)
    chosen[which] = True
    parts: list[Rows] = problem.over_rows(_take, reads=[chosen]).results
    source = InMemory(tuple(part for part in parts if n_rows(part)), problem.n_jobs)
    weight = factor * problem.cost[chosen]
    return Problem(source, problem.y[chosen], 1.0, problem.loss, sample_weight=weight)


def _take(block: Block, chosen: Array) -> Rows:
    return take(block.rows, np.flatnonzero(chosen))


def _copied(memory: Memory) -> Memory:
    """Pairs that may be written to: an iteration that is dropped leaves the others as they were."""
    return memory._replace(S=memory.S.copy(), Y=memory.Y.copy(), sy=memory.sy.copy(), yy=memory.yy.copy())
