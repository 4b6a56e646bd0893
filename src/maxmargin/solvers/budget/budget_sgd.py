"""Stochastic gradient descent for kernel SVM on a budget (BSGD).

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b)),      w = sum_{j <= B} alpha_j phi(z_j)

Wang, Crammer, Vucetic: Breaking the curse of kernelization: budgeted stochastic gradient descent for large-scale SVM
training, JMLR 2012. Glasmachers, Qaadan: Speeding up budgeted stochastic gradient descent SVM training with precomputed
golden section search, 2018 (section 2; `maxmargin.solvers.budget.merging` has section 3).

Divided by C n, the problem is that of the papers, lambda/2 |w|^2 + 1/n sum_i loss_i with lambda = 1 / (C n). A step is

    w <- (1 - 1/t) w + [y_i f(x_i) < 1] eta_t y_i phi(x_i),      eta_t = 1 / (lambda t) = C n / t.

A row that violates its margin becomes a support vector; when there are more than B, two of them become one
(`maxmargin.solvers.budget.maintenance`).

Paper -> code: B -> budget, M -> `BudgetState.support` and `alpha`, t -> `Counters.steps`, n -> `BudgetState.n`,
eta_t alpha -> n / t * alpha.

What differs from the papers, and why:

* The factors (1 - 1/t) of all steps multiply to 1/t, so w = n/t sum_j alpha_j phi(z_j) with alpha_j = C y_j for every
  row that was added: nothing is ever rescaled, and coefficients of rows that were not merged are equal to the last bit.
* A row's weight is a factor of its C_i, so of its steps. A row without weight is not visited and not counted.
* b is the weight of a constant feature phi_0 = `bias`, penalised as the others. Unpenalised it would not be part of the
  strongly convex problem that eta_t is made for: its first steps, of size C n, would never be forgotten.
* A row that equals a support vector is added to its coefficient: the paper's "dense representation", where it matters.
* The answer is a mean of the last iterates, weighed less the older they are: the last step is long and decides too
  much (figures in papers/budget). It goes back over some B / 2 violations only: on support vectors that were merged
  since, older coefficients mean something else.
* Inner products are computed for four dense rows at a time, ahead of their visits: reading the support vectors is what
  takes time if there are many. What a visit changes of the vectors, the others' products are corrected for.
* Several classes are several outputs, one against the rest, over one set of support vectors: a row's kernel values are
  computed once for all of them, and it becomes a support vector if it violates the margin of any.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import kernels
from maxmargin._jit import compiled
from maxmargin._names import unknown
from maxmargin._random import new_rng, shuffle
from maxmargin.data.rows import Array, n_stored, prefetch_row
from maxmargin.kernels import (
    GROUP,
    RBF,
    Kernel,
    combine,
    from_products,
    group_width,
    new_support,
    padded,
    place_vector,
    product_with,
    products_of_group,
)
from maxmargin.losses import Hinge
from maxmargin.solvers.base import Goal, Report, Solver, last_visit_of
from maxmargin.solvers.budget.maintenance import (
    MERGING,
    NAMES,
    TALLY,
    Expansion,
    Project,
    added,
    maintain,
    method_of,
    note,
    with_inverse,
)
from maxmargin.solvers.budget.merging import GRID
from maxmargin.solvers.budget.state import BudgetState, Counters
from maxmargin.solvers.clock import ticks
from maxmargin.solvers.visits import examples

_BLOCK = 1 << 23  # products of an update: about 10 ms
_MEAN_OF_BUDGET = 0.5  # violations that the mean goes back over, as a share of the budget,
_MEAN_OF_ALL = 0.01  # and at most, as a share of all violations so far: first steps are too long to remember


@dataclass(frozen=True)
class BudgetSGD(Solver):
    """Kernel SVM by stochastic gradient descent with at most `budget` support vectors.

    It proves nothing: what is optimal for B support vectors that may lie anywhere, nobody knows.

    Parameters
    ----------
    kernel : Kernel
        From `maxmargin.kernels`. Merging needs `RBF`.
    budget : int
        The largest number of support vectors, B; at least 2.
    maintenance : {"lookup_wd", "lookup_h", "gss", "gss_precise", "remove", "project"}
        How to get back to the budget. Merge the two vectors that a table of weight degradations says ("lookup_wd") or a
        table of h ("lookup_h"), or golden section search to a precision of 0.01 ("gss") or 1e-10 ("gss_precise"); or
        remove the vector with the smallest coefficient; or remove one and project it onto the others.
    bias : float
        Value of the constant feature whose weight makes the intercept; 0: no intercept.
    dtype : {"auto", "float32", "float64"}
        Of the support vectors and kernel values. "auto": float32 if the rows are short enough for its precision.
    grid : int
        Points a side of the tables.
    exhaustive : bool
        Examine all partners for merging as the paper does. The decisions are the same; for measuring.

    Examples
    --------
    >>> from maxmargin.problem.budget_problem import BudgetProblem
    >>> from maxmargin.solvers.base import run
    >>> problem = BudgetProblem([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0], C=10.0)
    >>> result = run(BudgetSGD(RBF(1.0), budget=3), problem, max_iter=50)
    >>> result.state.counters.size
    3
    """

    kernel: Kernel = RBF(1.0)  # noqa: RUF009 - a tuple
    budget: int = 500
    maintenance: str = "lookup_wd"
    bias: float = 0.0
    dtype: str = "auto"
    grid: int = GRID
    exhaustive: bool = False

    name: ClassVar[str] = "budget_sgd"
    access: ClassVar[str] = "stream"
    losses: ClassVar[tuple[type, ...]] = (Hinge,)
    proves: ClassVar[bool] = False
    max_passes: ClassVar[float] = 1.0
    check_every: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", kernels.get(self.kernel))
        if isinstance(self.maintenance, str):
            object.__setattr__(self, "maintenance", self.maintenance.replace("-", "_"))  # the older spelling
        if self.maintenance not in NAMES:
            raise unknown("maintenance", self.maintenance, NAMES)
        if self.maintenance in MERGING and not isinstance(self.kernel, RBF):
            raise ValueError(
                f"maintenance {self.maintenance!r} merges support vectors, which needs the rbf kernel; "
                f'with kernel {kernels.name_of(self.kernel)!r} choose "project" or "remove"'
            )
        if not self.budget >= 2:
            raise ValueError(f"budget must be at least 2, got {self.budget!r}")
        if self.dtype not in ("auto", "float32", "float64"):
            raise ValueError(f'dtype must be "auto", "float32" or "float64", got {self.dtype!r}')
        if not 0.0 <= self.bias < np.inf:
            raise ValueError(f"bias must be >= 0 and finite, got {self.bias!r}")

    def init_state(self, problem: Any, seed: int | None = 0, start: BudgetState | None = None) -> BudgetState:
        """State before the first visit of these rows; what `start` has learnt of others is kept."""
        order = np.flatnonzero(problem.cost[:, 0] > 0.0).astype(np.uint32)
        if start is None:
            dtype = kernels.precision_for(self.kernel, problem.norms2.max()) if self.dtype == "auto" else self.dtype
            support = new_support(problem.n_weights, self.budget + 1, dtype)
            alpha, offset = np.zeros((problem.n_outputs, len(support.norms2))), np.zeros(problem.n_outputs)
            rng, n = new_rng(seed), float(len(order))
            return BudgetState(support, alpha, offset, alpha.copy(), offset.copy(), order, rng, n, Counters())
        if len(start.support.vectors) != problem.n_weights or len(start.alpha) != problem.n_outputs:
            raise ValueError(
                f"cannot go on with {problem.n_weights} features and {problem.n_outputs} outputs: "
                f"the state has {len(start.support.vectors)} and {len(start.alpha)}"
            )
        start = start.with_room(self.budget + 1)
        return start._replace(order=order, counters=start.counters._replace(position=0, visits=0))

    def update(self, problem: Any, state: BudgetState, goal: Goal) -> BudgetState:
        """Visit a block of rows, at most to the end of the pass."""
        old, n = state.counters, len(state.order)
        if old.position == 0:
            state.order.sort()  # the order of a pass depends on the random state alone: going on is one pass more
            shuffle(state.order, n, state.rng)
        stored = n_stored(problem.rows) // problem.n_rows + 10
        block = max(16, _BLOCK // ((padded(old.size) + 16) * stored)) // GROUP * GROUP
        end = min(n, old.position + min(block, max(0, last_visit_of(goal, n) - old.visits)))
        method = method_of(self.maintenance, self.grid)
        if isinstance(method, Project):
            method = with_inverse(self.kernel, state.support, old.size)
        expansion = self._expansion(state)
        begun = time.perf_counter()
        last, n_ticks = steps(
            examples(problem),
            expansion,
            Budget(method, self.budget, self.exhaustive),
            Constants(state.n, self.bias**2, state.offset, state.mean_offset),
            Span(state.order, old.position, end),
            Reached(old.size, old.steps, old.violations, old.repeats),
        )
        seconds = time.perf_counter() - begun
        per_tick = seconds / n_ticks if n_ticks > 0 else math.nan
        tally, visited = expansion.tally[0], end - old.position
        counters = old._replace(
            **last._asdict(),
            position=end % n,
            visits=old.visits + visited,
            merges=old.merges + int(tally["merges"]),
            kernel_rows=old.kernel_rows + int(tally["kernel_rows"]) + visited,
            pairs=old.pairs + int(tally["pairs"]),
            training_seconds=old.training_seconds + seconds,
            maintenance_seconds=old.maintenance_seconds + per_tick * float(tally["maintaining"]),
            finding_seconds=old.finding_seconds + per_tick * float(tally["finding"]),
        )
        return state._replace(counters=counters)

    def _expansion(self, state: BudgetState) -> Expansion:
        features, capacity = state.support.vectors.shape
        dtype = state.support.vectors.dtype
        values, others, point = np.zeros(capacity, dtype), np.zeros(capacity, dtype), np.zeros((1, features), dtype)
        near, changed, tally = np.zeros(capacity, np.float32), np.zeros(3, np.int64), np.zeros(1, TALLY)
        room = (values, others, point, near, near.view(np.int32), changed, tally)
        return Expansion(self.kernel, state.support, state.alpha, state.mean, *room)

    def report(self, problem: Any, state: BudgetState, goal: Goal | None) -> Report:
        """Passes over the present rows, and the counters."""
        names = [name for name in Counters._fields if name not in ("position", "visits")]
        counters = {name: float(getattr(state.counters, name)) for name in names}
        return Report(state.counters.visits / len(state.order), math.nan, math.nan, False, counters)


# ---------------------------------------------------------------- the steps


class Budget(NamedTuple):
    """How many support vectors there may be, and what happens when there is one more."""

    method: Any
    size: int
    exhaustive: bool


class Constants(NamedTuple):
    """What the expansion does not hold of w and of its mean: their common factor, and the intercepts."""

    n: float
    bias2: float
    offset: Array
    mean_offset: Array


class Span(NamedTuple):
    """The rows order[begin:end] are visited."""

    order: Array
    begin: int
    end: int


class Reached(NamedTuple):
    """How far the steps are: the fields of `Counters` of these names."""

    size: int
    steps: int
    violations: int
    repeats: int


@compiled
def steps(data, e, budget, w, visits, reached):
    """Make the steps of these visits; how far they are then, and the time in ticks."""
    rows, order, end = data.rows, visits.order, visits.end
    size, t, violations, repeats = reached
    n_outputs, capacity = e.alpha.shape
    change = np.zeros(n_outputs)
    width, chosen = group_width(rows), np.empty(GROUP, np.int64)
    products = np.zeros((GROUP, capacity), e.values.dtype)
    begun = ticks()
    for k in range(visits.begin, end):
        r = (k - visits.begin) % width
        if r == 0:
            for q in range(GROUP):
                chosen[q] = order[min(k + q, k + width - 1, end - 1)]
            products_of_group(rows, chosen, e.support.vectors, min(padded(size + width), capacity), products)
        if k + width + 1 < len(order):
            prefetch_row(rows, np.int64(order[k + width + 1]))
        i, places = chosen[r], padded(size)
        from_products(e.function, data.norms2[i], e.support, places, products[r], e.values)
        scale = w.n / t if t > 0 else 0.0
        t += 1
        violates = False
        for c in range(n_outputs):
            positive = data.y[i] == (1 if n_outputs == 1 else c)
            sign = 1.0 if positive else -1.0
            margin = sign * scale * (combine(e.alpha[c], e.values, places) + w.offset[c])
            change[c] = 0.0
            if margin < 1.0:
                change[c] = sign * (data.cost[i, 0] if positive else data.cost[i, 1])
                w.offset[c] += w.bias2 * change[c]
                violates = True
        if not violates:
            continue
        violations += 1
        j = place_vector(rows, i, data.norms2[i], e.support, size)
        for c in range(n_outputs):
            e.alpha[c, j] += change[c]
        if j < size:
            repeats += 1
        else:
            note(e, size)
            size += 1
            added(budget.method, e, size)
            if size > budget.size:
                size = maintain(budget.method, e, size, budget.exhaustive)
            _correct(rows, chosen, e, size, products, r + 1, width)
        _average(e, w, size, w.n / t, _weight_of_last(violations, budget.size))
    return Reached(size, t, violations, repeats), ticks() - begun


@compiled
def _correct(rows, chosen, e, size, products, first, last):
    """Products of the group's rows that are still to come with the vectors that have changed."""
    for q in range(e.tally[0]["changed"]):
        j = e.changed[q]
        if j < size:
            for r in range(first, last):
                products[r, j] = product_with(rows, chosen[r], e.support.vectors, j)
    e.tally[0]["changed"] = 0


@compiled
def _weight_of_last(violations, budget):
    """Share of the newest iterate in the mean: the first is the mean."""
    return min(1.0, max(1.0 / (_MEAN_OF_BUDGET * budget), 1.0 / (1.0 + _MEAN_OF_ALL * (violations - 1))))


@compiled
def _average(e, w, size, scale, weight):
    """Move the mean towards the present iterate."""
    for c in range(len(e.alpha)):
        alpha, mean = e.alpha[c], e.mean[c]
        for j in range(padded(size)):
            mean[j] += weight * (scale * alpha[j] - mean[j])
        w.mean_offset[c] += weight * (scale * w.offset[c] - w.mean_offset[c])
