"""Pegasos with kernels: stochastic sub-gradient steps on an expansion.

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i <w, phi(x_i)>),      phi with a constant feature for the intercept

Shalev-Shwartz, Singer, Srebro: Pegasos: primal estimated sub-gradient solver for SVM, ICML 2007, section 4; survey of
Menon 2009, algorithm 2 and section 4.3.2. Divided by C n this is lambda/2 |w|^2 + 1/n sum_i loss_i, lambda = 1 / (C n).

A step takes k random rows, with outputs of the present w, and adds those that violate their margin:

    w_{t+1} = (1 - 1/t) w_t + 1/(lambda t k) sum_violators y_i phi(x_i)

The factors (1 - 1/t) multiply to 1/t, so that w_T = 1/(lambda T k) sum_i n_i y_i phi(x_i), where n_i counts how often
row i was added: nothing is ever rescaled.

Paper -> code: k -> batch_size, T k -> n_seen, n_i -> counts.

What differs: rows are visited in random permutations rather than drawn with replacement, which keeps n_i C n / (T k)
below C after whole passes; the last step of a permutation may have fewer than k rows, and counts for what it has. The
coefficients returned are drawn into the box where they exceed it, so that they are a dual point as well and the
certificate needs nothing else. There is no projection onto the ball of radius 1/sqrt(lambda), which the authors later
found to be of no use. The intercept is penalised (``penalize_intercept=True``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Goal, Report
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.kernel.expansion import (
    ExpansionSolver,
    PenalizedExpansion,
    counters_of,
    n_batches,
    next_batch,
    passes_of,
)
from maxmargin.solvers.kernel.online import Horizon


class _Fields(NamedTuple):
    beta: Array
    counts: Array
    order: Array
    position: int
    n_seen: int  # rows of all steps
    seed: int
    n_permutations: int


class PegasosState(PenalizedExpansion, _Fields):
    """How often each row was added, and the position in the present permutation."""

    __slots__ = ()


@dataclass(frozen=True)
class KernelPegasos(ExpansionSolver):
    """Stochastic sub-gradient descent with step 1 / (lambda t) on a kernel expansion.

    Parameters
    ----------
    batch_size : int
        Rows of a step.

    Examples
    --------
    >>> from maxmargin.problem.kernel_problem import KernelProblem
    >>> from maxmargin.solvers.kernel import solve
    >>> problem = KernelProblem([[0.0], [1.0], [2.0]], [-1, 1, 1], penalize_intercept=True)
    >>> solve(problem, KernelPegasos(), tol=0.1, max_iter=1000).certificate.relative_gap <= 0.1
    True
    """

    batch_size: int = 32

    name: ClassVar[str] = "kernel_pegasos"
    losses: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    takes_free_intercept: ClassVar[bool] = False
    max_passes: ClassVar[float] = 20.0
    check_every: ClassVar[float] = 5.0
    accuracy: ClassVar[float] = 0.1
    per_row: ClassVar[tuple[str, ...]] = ("beta", "counts")

    def __post_init__(self) -> None:
        check_count(self, "batch_size", 1)

    def init_state(self, problem: KernelProblem, seed: int | None = 0, start: Any = None) -> PegasosState:  # type: ignore[override]
        """At zero: the first steps forget any other start."""
        usable = np.flatnonzero(problem.cost > 0.0)
        zeros = np.zeros(problem.n_rows)
        return PegasosState(zeros, zeros.copy(), usable, len(usable), 0, seed or 0, 0)

    def update(self, problem: KernelProblem, state: PegasosState, goal: Goal) -> PegasosState:  # type: ignore[override]
        """Steps over some thousand rows."""
        n = len(state.order)
        horizon = Horizon(n, float(problem.cost[state.order].sum()))
        for _ in range(n_batches(state, self.batch_size)):
            state = self.step(problem, state, horizon)
        share = np.minimum(state.counts * n / state.n_seen, 1.0)
        state.beta[:] = problem.cost * problem.y * share
        return state

    def step(self, problem: KernelProblem, state: PegasosState, horizon: Horizon) -> PegasosState:
        """One step with the next `batch_size` rows."""
        state, batch = next_batch(state, self.batch_size)
        support = np.flatnonzero(state.counts)
        coefficients = self.expansion(problem, state, horizon)[0][support]
        f = problem.values.apply(batch, support, coefficients) + coefficients.sum()
        state.counts[batch[problem.y[batch] * f < 1.0]] += 1.0
        return state._replace(n_seen=state.n_seen + len(batch))

    def expansion(self, problem: KernelProblem, state: PegasosState, horizon: Horizon) -> tuple[Array, float]:
        """Coefficients and intercept as the steps have left them."""
        beta = horizon.n / max(1, state.n_seen) * (problem.cost * problem.y * state.counts)
        return beta, float(beta.sum())

    def report(self, problem: KernelProblem, state: PegasosState, goal: Goal) -> Report:  # type: ignore[override]
        """Passes over the rows."""
        return Report(passes_of(state), np.nan, np.nan, False, counters_of(problem, state))
