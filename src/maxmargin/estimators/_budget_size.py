"""How many support vectors fit into a given time and the memory: `BudgetSVC(budget="auto")`.

The rows, the kernel, the maintenance and the machine decide what a step costs, so a few steps are made and timed: with
32 support vectors, 64, 128 and so on, each time on rows of the data that stand in for those that training will find,
until the whole training would take too long. Between the last two sizes, the time is taken to be a power of the size.

The coefficients are refitted on some of the rows, too. To factor K takes the same time with all of them; the rest
grows with their number, since rows are visited no more often if there are more of them.

The clock has a say here and nowhere else: with the same size the result is the same on all machines.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import CSR, Array, Dense, Rows, n_features
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.base import Goal
from maxmargin.solvers.budget.budget_sgd import BudgetSGD
from maxmargin.solvers.budget.refit import BYTES as REFIT_BYTES
from maxmargin.solvers.budget.refit import Refit, refit, take
from maxmargin.solvers.budget.state import BudgetState

DEFAULT_TIME = 60.0  # seconds, if there is no limit
SHARE_OF_PASSES = 0.7  # of the time, if the coefficients are refitted after the passes
_PRUDENCE = 0.8  # of the time is planned for: machines have other things to do
_FIRST = 32
_MOST = 1 << 14
_PATIENCE = 0.05  # seconds to time one size, at most
_REFITTED = 1024  # rows to rehearse the refit with, at least;
_ROWS_A_VECTOR, _SMALL = 8, 256  # and so many for each support vector, as long as these are few
_SHARE_OF_MEMORY = 0.25  # of the machine's
_TABLES = 2 * 400 * 400 * 8

_ENDLESS = Goal(tol=0.0, max_passes=math.inf)


class Plan(NamedTuple):
    """What was chosen, and what to expect of it."""

    budget: int
    n_bytes: float
    seconds: float
    values_per_second: float  # of the kernel, in the passes

    def __str__(self) -> str:
        return (
            f"budget {self.budget:,} support vectors: about {self.seconds:.2g} s and {self.n_bytes / 1e6:,.0f} MB "
            f"({self.values_per_second / 1e6:,.0f} million kernel values a second)"
        )


def announce(plan: Plan) -> None:
    """Say on stderr what is going to happen: whoever leaves a choice to the clock should see what it has chosen."""
    print(f"BudgetSVC: {plan}", file=sys.stderr, flush=True)


class Trial:
    """Seconds and bytes of a training, by the number of support vectors."""

    def __init__(self, make_solver: Any, problem: BudgetProblem, passes: float, refit_options: Any, seed: int):
        self.make_solver = make_solver  # of a budget
        self.problem, self.passes, self.seed = problem, passes, seed
        self.refit_options = refit_options  # None: the coefficients are not refitted
        self.counted = np.flatnonzero(problem.cost[:, 0] > 0.0)
        self.chosen = np.random.default_rng(seed).permutation(self.counted)

    def compile(self) -> float:
        """Make the kernels, and the seconds that it took: once on a machine, it is no part of the training's time."""
        begun = time.perf_counter()
        self.seconds(max(2, min(_FIRST, len(self.counted))), 0.0)
        return time.perf_counter() - begun

    def n_bytes(self, size: int) -> float:
        """Largest need of memory besides the rows."""
        itemsize, n_outputs = 8, self.problem.n_outputs
        store = (size + 16) * (n_features(self.problem.rows) * itemsize + 8 * n_outputs)
        solver = self.make_solver(size)
        if solver.maintenance == "project":
            store += 8 * size * size
        room = 0.0
        if self.refit_options is not None:
            room = 4 * 8 * size * size + min(REFIT_BYTES, itemsize * size * len(self.counted))
        return store + _TABLES + room

    def seconds(self, size: int, patience: float) -> tuple[float, float]:
        """Expected seconds of the passes, and of the refit."""
        solver = self.make_solver(size)
        state = self._filled(solver)
        begun = state.counters
        while True:
            state = solver.update(self.problem, state, _ENDLESS)
            spent = state.counters.training_seconds - begun.training_seconds
            if spent >= patience:
                break
        passes = self.passes * len(self.counted) * spent / (state.counters.steps - begun.steps)
        return passes, 0.0 if self.refit_options is None else self._refit_seconds(state)

    def _refit_seconds(self, state: BudgetState) -> float:
        size = state.counters.size
        n_all = min(len(self.counted), max(2 * size, REFIT_BYTES // (size * state.support.vectors.itemsize)))
        n = min(n_all, max(_REFITTED, _ROWS_A_VECTOR * min(size, _SMALL)))
        factoring, features, solving = self._refit(state, n).seconds
        if n < n_all and size <= _SMALL:  # what else does not depend on the rows matters
            _, less_features, less_solving = self._refit(state, n // 4).seconds
            features, solving = (4.0 / 3.0 * max(0.0, t) for t in (features - less_features, solving - less_solving))
        return factoring + n_all / n * (features + solving)

    def _filled(self, solver: BudgetSGD) -> BudgetState:
        """As if the first rows to be visited had all become support vectors."""
        state = solver.init_state(self.problem, self.seed)
        first = np.sort(self.chosen[: solver.budget])
        for c in range(self.problem.n_outputs):
            state.alpha[c, : len(first)] = (self.problem.signs(c) * self.problem.costs(c))[first]
        return state.filled(_dense(take(self.problem.rows, first)))

    def _refit(self, state: BudgetState, n: int) -> Refit:
        """The final fit on n rows."""
        some = np.sort(self.chosen[:n])
        rows, problem = take(self.problem.rows, some), self.problem
        small = BudgetProblem(_matrix(rows), problem.y[some], problem.n_classes, sample_weight=problem.cost[some, 0])
        return refit(self.make_solver(2).kernel, state.support, state.counters.size, small, **self.refit_options)


def choose(trial: Trial, max_time: float) -> Plan:
    """The largest budget whose training is expected to end within `max_time` seconds, in a quarter of the memory.

    Parameters
    ----------
    trial : Trial
    max_time : float
        Seconds left, these measurements included.

    Returns
    -------
    Plan
    """
    begun = time.perf_counter()
    most = _largest_in_memory(trial, max(2, min(_MOST, len(trial.counted))))
    patience = min(_PATIENCE, 0.005 * max_time)
    fits, size = None, min(_FIRST, most)
    while True:
        passes, refitting = trial.seconds(size, patience)
        left = _PRUDENCE * max(max_time - (time.perf_counter() - begun), 0.1 * max_time)
        share = SHARE_OF_PASSES if trial.refit_options is not None else 1.0
        needed = max(passes / share, passes + refitting)
        if needed > left:
            break
        fits = size, needed, passes, refitting
        if size == most:
            return _plan(trial, size, passes, refitting)
        size = min(2 * size, most)
    if fits is None:  # even the smallest is too slow; fewer vectors cost proportionally less, at best
        smaller = max(2, int(size * left / needed))
        return _plan(trial, smaller, passes * smaller / size, refitting * smaller / size)
    small, at_small, passes, refitting = fits
    exponent = math.log(needed / at_small) / math.log(size / small) if needed > at_small else 1.0
    between = min(size - 1, max(small, int(small * (left / at_small) ** (1.0 / max(exponent, 0.5)))))
    growth = (between / small) ** exponent
    return _plan(trial, between, passes * growth, refitting * growth)


def _plan(trial: Trial, size: int, passes: float, refitting: float) -> Plan:
    rate = trial.passes * len(trial.counted) * size / passes
    return Plan(size, trial.n_bytes(size), passes + refitting, rate)


def _largest_in_memory(trial: Trial, most: int) -> int:
    limit = _SHARE_OF_MEMORY * _memory()
    low, high = 2, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if trial.n_bytes(middle) <= limit else (low, middle - 1)
    return low


def _memory() -> float:
    """Bytes of the machine's memory."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float(1 << 32)


def _dense(rows: Rows) -> Array:
    matrix = _matrix(rows)
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def _matrix(rows: Rows) -> Any:
    """The rows as numpy and scipy have them."""
    if isinstance(rows, Dense):
        return rows.values
    from scipy.sparse import csr_matrix

    assert isinstance(rows, CSR)
    n = len(rows.indptr) - 1
    end = rows.indptr[-1]
    return csr_matrix((rows.data[:end], rows.indices[:end], rows.indptr), shape=(n, rows.n_features))
