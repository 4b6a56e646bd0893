"""What the solvers of kernel machines share: states whose weights are the coefficients of an expansion, and bounds."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem import Certificate
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers.base import Solver

_ROWS_OF_UPDATE = 2048

_State = TypeVar("_State")


class Coefficients:
    """Of a state: its `beta` are both the weights and the dual variables."""

    __slots__ = ()

    beta: Array

    @property
    def w(self) -> Array:
        """The coefficients."""
        return self.beta

    @property
    def alpha(self) -> Array:
        """The coefficients."""
        return self.beta


class FreeExpansion(Coefficients):
    """Of a state with an intercept that is not penalised: `b`, an array of one number."""

    __slots__ = ()

    b: Array

    @property
    def intercept(self) -> float:
        """The intercept."""
        return float(self.b[0])


class PenalizedExpansion(Coefficients):
    """Of a state whose intercept belongs to a constant feature."""

    __slots__ = ()

    @property
    def intercept(self) -> float:
        """The intercept, which is penalised: the sum of the coefficients."""
        return float(self.beta.sum())


class ExpansionSolver(Solver):
    """A solver whose states are `FreeExpansion` if it takes a free intercept, `PenalizedExpansion` if not."""

    def certificate(self, problem: KernelProblem, state: Any) -> Certificate:  # type: ignore[override]
        """Bounds in float64 over all rows; a free intercept becomes the best one for the coefficients."""
        if not self.takes_free_intercept:
            return problem.certificate(state.beta)
        f = problem.decision(state.beta)
        state.b[0] = problem.intercept(f)
        return problem.certificate(state.beta, state.intercept, f)


def refuse_penalized_intercept(problem: KernelProblem, solver: Solver) -> None:
    """For solvers that keep the sum of the coefficients."""
    if problem.penalize_intercept:
        raise ValueError(f"solver {solver.name!r} moves pairs of variables: it takes penalize_intercept=False only")


def counters_of(problem: KernelProblem, state: Any) -> dict[str, float]:
    """What every solver reports."""
    return {"n_support": np.count_nonzero(state.beta), "kernel_values": problem.values.n_values}


# ------------------------------------------------------------ batches of rows, in random permutations


def n_batches(state: Any, batch_size: int) -> int:
    """How many batches make an update."""
    return max(1, min(_ROWS_OF_UPDATE, len(state.order)) // batch_size)


def next_batch(state: _State, batch_size: int) -> tuple[_State, Array]:
    """The next rows of the present permutation, or of a new one where that is over."""
    s: Any = state
    if s.position >= len(s.order):
        s.order[:] = np.random.default_rng([s.seed, s.n_permutations]).permutation(s.order)
        s = s._replace(position=0, n_permutations=s.n_permutations + 1)
    batch = s.order[s.position : s.position + batch_size]
    return s._replace(position=s.position + len(batch)), batch


def passes_of(state: Any) -> float:
    """Permutations that are over, and the share of the present one."""
    if not state.n_permutations:
        return 0.0
    return state.n_permutations - 1 + state.position / len(state.order)
