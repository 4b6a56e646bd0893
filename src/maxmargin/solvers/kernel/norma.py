"""NORMA: online learning with kernels, a decaying expansion that is truncated to tau terms.

    min_{f, b}  1/2 |f|^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b))

Kivinen, Smola, Williamson: Online learning with kernels, IEEE Transactions on Signal Processing 2004; survey of Menon
2009, section 4.3.1. With lambda = 1 / (C n) and step eta_t proportional to 1 / sqrt(t), row t does

    f <- (1 - eta_t lambda) f + eta_t y_t k(x_t, .) [y_t (f(x_t) + b) < 1],      b <- b + eta_t / n y_t [the same].

An old term has decayed by the factors of all steps since; those older than tau terms are dropped, which changes f by
an amount that falls exponentially with tau.

Paper -> code: alpha_i -> terms (without the decay, which is one number: `decay`), tau -> tau, eta -> eta.

What differs: rows are visited in a random order, again and again. Outputs are computed for `batch_size` rows at a time,
with the f of the beginning of the batch, since one row at a time would be all overhead. For the certificate, the
coefficients are drawn into the box and their heavier side is scaled down, so that they are a dual point; the intercept
returned is the best one for these coefficients, which is never worse than the online b. The step of b is eta_t / n, not
the paper's eta_t (the survey has no b): eta_t is about C, and b, unlike a term of f, moves the outputs of all
rows and never decays. With eta_t it would swing by C from row to row, and the first pass makes more mistakes (even or
odd, of scikit-learn's digits, C = 1: 11 % instead of 7 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Goal, Report
from maxmargin.solvers.checks import check_count, check_number
from maxmargin.solvers.kernel.expansion import (
    ExpansionSolver,
    FreeExpansion,
    counters_of,
    n_batches,
    next_batch,
    passes_of,
)
from maxmargin.solvers.kernel.online import Horizon
from maxmargin.solvers.kernel.start import balanced

_SMALL = 1e-100  # decay at which terms are rescaled


class _Fields(NamedTuple):
    beta: Array  # feasible coefficients, made of the terms at the end of an update
    b: Array  # the intercept, an array of one number
    terms: Array  # coefficient of each row, divided by `decay`
    added: Array  # when each row was last added, 0 if it is no term
    decay: float
    offset: float  # the online intercept
    order: Array
    position: int
    n_steps: int
    seed: int
    n_permutations: int


class NormaState(FreeExpansion, _Fields):
    """The expansion and the online intercept."""

    __slots__ = ()


@dataclass(frozen=True)
class NORMA(ExpansionSolver):
    """Online gradient descent in a kernel's space.

    Parameters
    ----------
    tau : int
        Terms of the expansion, at most; 0: no limit.
    eta : float
        Step after a whole pass, as a share of C: eta_t = eta C sqrt(n / t).
    batch_size : int
        Rows whose outputs are computed together.

    Examples
    --------
    >>> from maxmargin.problem.kernel_problem import KernelProblem
    >>> from maxmargin.solvers.kernel import solve
    >>> problem = KernelProblem([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> solve(problem, NORMA(tau=100), max_iter=50).certificate.relative_gap < 1.0
    True
    """

    tau: int = 0
    eta: float = 1.0
    batch_size: int = 16

    name: ClassVar[str] = "norma"
    losses: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    takes_free_intercept: ClassVar[bool] = True
    max_passes: ClassVar[float] = 20.0
    check_every: ClassVar[float] = 5.0
    accuracy: ClassVar[float] = 0.3
    per_row: ClassVar[tuple[str, ...]] = ("beta", "terms", "added")

    def __post_init__(self) -> None:
        check_count(self, "tau", 0)
        check_number(self, "eta", above=True)
        check_count(self, "batch_size", 1)

    def init_state(self, problem: KernelProblem, seed: int | None = 0, start: Any = None) -> NormaState:  # type: ignore[override]
        """At zero."""
        usable = np.flatnonzero(problem.cost > 0.0)
        n = problem.n_rows
        zeros = np.zeros(n)
        added = np.zeros(n, np.int64)
        return NormaState(
            zeros, np.zeros(1), zeros.copy(), added, 1.0, 0.0, usable, len(usable), 0, seed or 0, 0
        )  # fmt: skip

    def update(self, problem: KernelProblem, state: NormaState, goal: Goal) -> NormaState:  # type: ignore[override]
        """Steps over some thousand rows."""
        n = len(state.order)
        horizon = Horizon(n, float(problem.cost[state.order].sum()))
        for _ in range(n_batches(state, self.batch_size)):
            state = self.step(problem, state, horizon)
        beta = np.clip(state.decay * state.terms, problem.lower, problem.upper)
        state.beta[:] = balanced(problem, beta)
        return state

    def step(self, problem: KernelProblem, state: NormaState, horizon: Horizon) -> NormaState:
        """Steps over the next `batch_size` rows."""
        rate, mean_cost = 1.0 / horizon.cost, horizon.cost / horizon.n
        state, batch = next_batch(state, self.batch_size)
        support = np.flatnonzero(state.terms)
        f = state.decay * problem.values.apply(batch, support, state.terms[support])
        decay, offset, n_steps = state.decay, state.offset, state.n_steps
        for row, output in zip(batch, f):
            n_steps += 1
            step = self.eta * mean_cost * math.sqrt(horizon.n / n_steps)
            decay *= max(1.0 - step * rate, 0.5)
            if problem.y[row] * (output + offset) < 1.0:
                change = step * problem.y[row] * problem.cost[row] / mean_cost
                state.terms[row] += change / decay
                state.added[row] = n_steps
                offset += change / horizon.n
        if decay < _SMALL:
            state.terms[:] *= decay
            decay = 1.0
        if self.tau:
            self._truncate(state)
        return state._replace(decay=decay, offset=offset, n_steps=n_steps)

    def expansion(self, problem: KernelProblem, state: NormaState, horizon: Horizon) -> tuple[Array, float]:
        """Coefficients and intercept as the steps have left them."""
        return state.decay * state.terms, state.offset

    def _truncate(self, state: NormaState) -> None:
        """Drop the oldest terms."""
        terms = np.flatnonzero(state.terms)
        if len(terms) > self.tau:
            oldest = terms[np.argsort(state.added[terms], kind="stable")[: len(terms) - self.tau]]
            state.terms[oldest] = 0.0
            state.added[oldest] = 0

    def report(self, problem: KernelProblem, state: NormaState, goal: Goal) -> Report:  # type: ignore[override]
        """Passes over the rows."""
        return Report(passes_of(state), np.nan, np.nan, False, counters_of(problem, state))
