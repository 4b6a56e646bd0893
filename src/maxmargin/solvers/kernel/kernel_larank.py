"""LaRank with a kernel: pairs of dual variables of one row, among the rows that support the model.

    max_b  D(b) = sum_i b_i^{y_i} - 1/2 sum_r b^r' K b^r,     b_i^r <= C_i [r = y_i],   sum_r b_i^r = 0

Bordes, Bottou, Gallinari, Weston: Solving multiclass support vector machines with LaRank, ICML 2007; survey of Menon
2009, section 4.4.1. The steps are those of `larank`: ProcessNew, ProcessOld, Optimize, each a SmoStep on a pair of
classes of one row, with gradients g_i(r) = [r = y_i] - sum_j b_j^r k(x_j, x_i).

Paper -> code: beta_i^y -> beta[i, r], S -> the rows with beta_i != 0, g_i(y) -> [y = y_i] - F[i, y].

What differs from the paper, and why:

* Rows are taken in blocks of `block`, with as many rows drawn from the support beside them; old rows of the steps are
  drawn from those. One matrix of kernel values then serves all steps of a block, and the outputs F of all rows are
  brought up to date once a block. The paper draws from the whole support, and computes kernel values one by one.
* F is kept for all rows, not for the support alone: ProcessNew then costs nothing, and a certificate less.
* Shares of the three kinds of steps are fixed, and passes go on until a certificate proves the gap: see `larank`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array
from maxmargin.problem import Certificate
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers.base import Goal, Report, Solver
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.coordinate.larank import choose, feasible, smo_step, step_on_row, support_of, visit_rows
from maxmargin.solvers.kernel.expansion import Coefficients
from maxmargin.solvers.visits import rows_with_cost


class KernelRows(NamedTuple):
    """Some rows, and their kernel values with each other."""

    K: Array
    diagonal: Array
    y: Array
    cost: Array


class _Fields(NamedTuple):
    beta: Array  # a line a row
    F: Array  # the outputs, a line a row
    order: Array  # of the rows in a pass
    rng: Array
    position: int  # of the next row in the order
    passes: int  # that are over
    next_certificate: int  # after so many passes


class KernelLaRankState(Coefficients, _Fields):
    """What moves in LaRank with a kernel. The coefficients are the dual variables."""

    __slots__ = ()

    @property
    def intercept(self) -> float:
        """There is none."""
        return 0.0


@dataclass(frozen=True)
class KernelLaRank(Solver):
    """LaRank for kernel machines: all classes at once, by steps on pairs of classes of one row.

    It takes problems of `maxmargin.problem.kernel_classes`; as an estimator, ``SVC(multi_class="crammer_singer")``.

    Parameters
    ----------
    n_optimize : int
        Optimize steps after each row (the paper: ten for each ProcessOld).
    block : int
        New rows that are taken at a time.

    Examples
    --------
    >>> from maxmargin.problem.kernel_classes import KernelClasses
    >>> from maxmargin.solvers.base import run
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 2, 0]
    >>> run(KernelLaRank(), KernelClasses(X, y, C=10.0, kernel="rbf", gamma=1.0), tol=1e-6).stop_reason
    'converged'
    """

    n_optimize: int = 10
    block: int = 64

    name: ClassVar[str] = "kernel_larank"
    access: ClassVar[str] = "gram"
    losses: ClassVar[tuple[type, ...]] = losses.ALL  # of no account: the risk has its own
    risks: ClassVar[tuple[type, ...]] = (CrammerSinger,)

    def __post_init__(self) -> None:
        check_count(self, "n_optimize", 0)
        check_count(self, "block", 1)

    def init_state(self, problem: KernelClasses, seed: int | None = 0, start: Any = None) -> KernelLaRankState:  # type: ignore[override]
        """Start at beta = 0, or at the dual variables of another state of this solver, cut to this problem's bounds."""
        beta = np.zeros((problem.n_rows, problem.risk.n_outputs))
        F = beta.copy()
        if isinstance(start, KernelLaRankState) and start.beta.shape == beta.shape:
            beta = feasible(problem, start.beta)
            F = problem.decision(beta)
        order = rows_with_cost(problem)  # type: ignore[arg-type]
        return KernelLaRankState(beta, F, order, new_rng(seed), 0, 0, 1)

    def update(self, problem: KernelClasses, state: KernelLaRankState, goal: Goal) -> KernelLaRankState:  # type: ignore[override]
        """The next block of rows, each as a new one, with old ones between."""
        beta, F, order = state.beta, state.F, state.order
        if state.position == 0:
            shuffle(order, len(order), state.rng)
        end = min(state.position + self.block, len(order))
        new = order[state.position : end].astype(np.int64)
        rows = np.concatenate([new, _old_rows(beta, new, self.block, state.rng)])
        values = problem.values
        K = np.empty((len(rows), problem.n_rows))
        values.block(rows, values.columns(np.arange(problem.n_rows), np.float64), K, np.arange(len(rows)))
        part = beta[rows]
        data = KernelRows(
            np.ascontiguousarray(K[:, rows]),
            values.diagonal_of(rows),
            problem.y[rows].astype(np.int64),
            problem.cost[rows],
        )
        turns = np.arange(len(new)), state.rng, int(self.n_optimize)
        visit_rows(data, F[rows], part, support_of(part), *turns)
        F += K.T @ (part - beta[rows])
        beta[rows] = part
        is_over = end == len(order)
        return state._replace(position=0 if is_over else end, passes=state.passes + is_over)

    def report(self, problem: KernelClasses, state: KernelLaRankState, goal: Goal) -> Report:  # type: ignore[override]
        """Nothing is known of the gap between certificates."""
        counters = {"support": float(np.count_nonzero(state.beta.any(axis=1)))}
        passes = state.passes + state.position / len(state.order)
        return Report(passes, np.nan, np.nan, state.passes >= state.next_certificate, counters)

    def certificate(self, problem: KernelClasses, state: KernelLaRankState) -> Certificate:  # type: ignore[override]
        """P and D of the dual variables, with outputs of all rows in float64."""
        return problem.certificate(state.beta)

    def reconsider(  # type: ignore[override]
        self, problem: KernelClasses, state: KernelLaRankState, goal: Goal, certificate: Certificate
    ) -> KernelLaRankState:
        """Outputs computed anew, which undoes rounding; the next certificate after half as many passes again."""
        later = state.passes + max(1, state.passes // 2)
        return state._replace(F=problem.decision(state.beta), next_certificate=later)


def _old_rows(beta: Array, new: Array, most: int, rng: Array) -> Array:
    """Rows of the support that are not new, at most so many of them, at random."""
    is_old = np.any(beta != 0.0, axis=1)
    is_old[new] = False
    old = np.flatnonzero(is_old)
    if len(old) > most:
        shuffle(old, len(old), rng)
    return old[:most]


@step_on_row.register(KernelRows)
def _(data, F, beta, support, i, kind, g):
    own, C = data.y[i], data.cost[i]
    for r in range(len(g)):
        g[r] = (1.0 if r == own else 0.0) - F[i, r]
    pair = choose(g, beta[i], own, C, kind)
    if pair[0] < 0:
        return
    step = smo_step(beta, support, i, pair, own, C, data.diagonal[i])
    for j in range(len(F)):
        F[j, pair[0]] += step * data.K[i, j]
        F[j, pair[1]] -= step * data.K[i, j]
