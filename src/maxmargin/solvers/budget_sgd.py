"""Stochastic gradient descent for kernel SVM on a budget (BSGD).

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b)),      w = sum_{j <= B} alpha_j phi(z_j)

Wang, Crammer, Vucetic: Breaking the curse of kernelization: budgeted stochastic gradient descent for large-scale SVM
training, JMLR 2012. Glasmachers, Qaadan: Speeding up budgeted stochastic gradient descent SVM training with precomputed
golden section search, 2018 (section 2; `maxmargin.solvers.merging` has section 3).

Divided by C n, the problem is that of the papers, lambda/2 |w|^2 + 1/n sum_i loss_i with lambda = 1 / (C n). A step is

    w <- (1 - 1/t) w + [y_i f(x_i) < 1] eta_t y_i phi(x_i),      eta_t = 1 / (lambda t) = C n / t.

A row that violates its margin becomes a support vector; when there are more than B, two of them become one
(`maxmargin.solvers._budget_maintenance`).

Paper -> code: B -> budget, M -> `BudgetState.support` and `alpha`, t -> `Counters.steps`, n -> `BudgetState.n`,
eta_t alpha -> n / t * alpha.

What differs from the papers, and why:

* The factors (1 - 1/t) of all steps multiply to 1/t, so w = n/t sum_j alpha_j phi(z_j) with alpha_j = C y_j for every
  row that was added: nothing is ever rescaled, and coefficients of rows that were not merged are equal to the last bit.
* A row's weight is a factor of its C_i, so of its steps. A row without weight is not visited and not counted.
* b is the weight of a constant feature phi_0 = `bias`, penalised as the others. Unpenalised it would not be part of the
  strongly convex problem that eta_t is made for: its first steps, of size C n, would never be forgotten.
* A row that equals a support vector is added to its coefficient: the paper's "dense representation", where it matters.
* The answer is a mean of the last iterates, weighed less the older they are. After 20 passes a step of ADULT's is
  still 1.6 long, and the last one decides (81 % are right, of the mean 84.8 %; after one pass over IJCNN with B = 500,
  94.8 % and 97.6 %). It goes back over some B / 2 violations only: on support vectors that were merged since, older
  coefficients mean something else. A mean of all iterates, which is best for SGD without a budget, is worse than none.
* Inner products are computed for four dense rows at a time, ahead of their visits: reading the support vectors is what
  takes time if there are many. What a visit changes of the vectors, the others' products are corrected for.
* Several classes are several outputs, one against the rest, over one set of support vectors: a row's kernel values are
  computed once for all of them, and it becomes a support vector if it violates the margin of any.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import kernels
from maxmargin._jit import kernel
from maxmargin._random import random_stream, shuffle
from maxmargin.kernels import (
    GROUP,
    RBF,
    Kernel,
    Support,
    combine,
    from_products,
    group_width,
    new_support,
    padded,
    product_with,
    products_of_group,
    set_vector,
)
from maxmargin.losses import Hinge
from maxmargin.problem import check_weights
from maxmargin.rows import Array, Rows, as_rows, n_features, n_rows, n_stored, prefetch_row
from maxmargin.solvers._budget_maintenance import (
    FINDING,
    KERNEL_ROWS,
    MAINTAINING,
    MERGES,
    MERGING,
    NAMES,
    PAIRS,
    Expansion,
    Project,
    added,
    maintain,
    method_of,
    note,
    with_inverse,
)
from maxmargin.solvers._clock import ticks
from maxmargin.solvers.base import Callback, Goal, Progress, Report, catch_interrupt
from maxmargin.solvers.merging import GRID

_BLOCK = 1 << 23  # products of an update: about 10 ms
_MEAN_OF_BUDGET = 0.5  # violations that the mean goes back over, as a share of the budget,
_MEAN_OF_ALL = 0.01  # and at most, as a share of all violations so far: first steps are too long to remember


@dataclass(frozen=True, init=False, eq=False)
class BudgetProblem:
    """The rows of a kernel classifier, their classes and costs. Never changes.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse matrix of shape (n_rows, n_features)
        Not copied if it is C-ordered or CSR, float32 or float64.
    y : array-like of shape (n_rows,)
        Classes 0, 1, ... by number.
    n_classes : int
        Two make one output, which is positive for class 1; more make one each.
    C : float
        Weight of the loss against 1/2 |w|^2.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C, row by row.
    class_factors : array-like of shape (n_classes,), optional
        Factors of C by class. With more than two classes they apply in the class's own output alone.
    """

    rows: Rows
    norms2: Array
    y: Array  # int64
    n_classes: int
    cost: Array  # (n_rows, 2): in the output of the row's own class, and in the others

    # What a checkpoint asks of a problem besides.
    loss: ClassVar[Hinge] = Hinge()
    penalty: ClassVar[str] = "l2"
    has_free_intercept: ClassVar[bool] = False

    def __init__(
        self,
        X: Any,
        y: Any,
        n_classes: int = 2,
        C: float = 1.0,
        *,
        sample_weight: Any = None,
        class_factors: Any = None,
    ):
        if not 0.0 < C < np.inf:
            raise ValueError(f"C must be a positive finite number, got {C!r}")
        rows, norms2 = as_rows(X)
        y = np.ascontiguousarray(y, dtype=np.int64)
        if y.shape != (n_rows(rows),):
            raise ValueError(f"X has {n_rows(rows)} rows but y has shape {y.shape}")
        if n_rows(rows) == 0:
            raise ValueError("X has no rows: there is nothing to learn from")
        if n_rows(rows) >= 2**32:
            raise ValueError(f"budget_sgd takes fewer than 2^32 rows at a time, got {n_rows(rows)}")
        if y.min() < 0 or y.max() >= n_classes:
            raise ValueError(f"classes must be 0..{n_classes - 1}, but y has {y.min()}..{y.max()}")
        factors = np.ones(n_classes) if class_factors is None else np.asarray(class_factors, dtype=float)
        cost = C * check_weights(sample_weight, n_rows(rows))
        own = cost * factors[y]
        fields = {
            "rows": rows,
            "norms2": norms2,
            "y": y,
            "n_classes": n_classes,
            "cost": np.column_stack([own, own if n_classes == 2 else cost]),
        }
        for name, content in fields.items():
            object.__setattr__(self, name, content)

    @property
    def n_outputs(self) -> int:
        """Decision functions: one for two classes, else one a class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows(self.rows)

    @property
    def n_weights(self) -> int:
        """Number of features."""
        return n_features(self.rows)

    def signs(self, c: int) -> Array:
        """+1 for the rows of output c's class and -1 for the others."""
        return np.where(self.y == (1 if self.n_classes == 2 else c), 1.0, -1.0)

    def costs(self, c: int) -> Array:
        """The rows' costs in output c."""
        return np.where(self.y == (1 if self.n_classes == 2 else c), self.cost[:, 0], self.cost[:, 1])


class Counters(NamedTuple):
    """What has been done so far."""

    size: int = 0  # support vectors
    steps: int = 0  # t - 1: rows visited, over all calls
    position: int = 0  # in the present pass
    visits: int = 0  # of the present rows
    violations: int = 0
    repeats: int = 0  # of these, rows equal to a support vector
    merges: int = 0
    kernel_rows: int = 0
    pairs: int = 0  # of vectors examined for merging
    training_seconds: float = 0.0
    maintenance_seconds: float = 0.0
    finding_seconds: float = 0.0  # of these, to find whom to merge with: section A of the paper's figure 3


class BudgetState(NamedTuple):
    """What moves. Output c is f_c(x) = n / t (sum_j alpha[c, j] k(z_j, x) + offset[c]) with t = `counters.steps`."""

    support: Support
    alpha: Array  # (n_outputs, capacity)
    offset: Array  # (n_outputs,)
    mean: Array  # of n / t alpha over the last iterates
    mean_offset: Array
    order: Array  # of the present pass over the rows
    stream: Array  # of random numbers
    n: float  # rows that lambda = 1 / (C n) is made for
    counters: Counters

    @property
    def coefficients(self) -> Array:
        """The factor of k(z_j, x) in each output, of shape (n_outputs, n_support)."""
        return self.mean[:, : self.counters.size].copy()

    @property
    def intercepts(self) -> Array:
        """b of each output."""
        return self.mean_offset.copy()

    @property
    def last_coefficients(self) -> Array:
        """The same of the last iterate."""
        return self.scale * self.alpha[:, : self.counters.size]

    @property
    def last_intercepts(self) -> Array:
        """The same of the last iterate."""
        return self.scale * self.offset

    @property
    def scale(self) -> float:
        """n / t."""
        return self.n / max(1, self.counters.steps)

    def set_coefficients(self, coefficients: Array, intercepts: Array) -> None:
        """Change the answer in place: the last iterate and the mean become this one."""
        self.mean[:, : self.counters.size], self.mean_offset[:] = coefficients, intercepts
        self.alpha[:, : self.counters.size], self.offset[:] = coefficients / self.scale, intercepts / self.scale


@dataclass(frozen=True)
class BudgetSGD:
    """Kernel SVM by stochastic gradient descent with at most `budget` support vectors.

    Parameters
    ----------
    kernel : Kernel
        From `maxmargin.kernels`. Merging needs `RBF`.
    budget : int
        The largest number of support vectors, B; at least 2.
    maintenance : {"lookup-wd", "lookup-h", "gss", "gss-precise", "remove", "project"}
        How to get back to the budget. Merge the two vectors that a table of weight degradations says ("lookup-wd") or a
        table of h ("lookup-h"), or golden section search to a precision of 0.01 ("gss") or 1e-10 ("gss-precise"); or
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
    >>> problem = BudgetProblem([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0], C=10.0)
    >>> result = train(BudgetSGD(RBF(1.0), budget=3), problem, max_iter=50)
    >>> result.state.counters.size
    3
    """

    kernel: Kernel = RBF(1.0)  # noqa: RUF009 - a tuple
    budget: int = 500
    maintenance: str = "lookup-wd"
    bias: float = 0.0
    dtype: str = "auto"
    grid: int = GRID
    exhaustive: bool = False

    name: ClassVar[str] = "budget_sgd"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", kernels.get(self.kernel))
        if self.maintenance not in NAMES:
            raise ValueError(f"unknown maintenance {self.maintenance!r}; choose one of {', '.join(NAMES)}")
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

    # ------------------------------------------------------------ the state

    def init_state(self, problem: BudgetProblem, seed: int | None = 0, start: BudgetState | None = None) -> BudgetState:
        """State before the first visit of these rows; what `start` has learnt of others is kept."""
        order = np.flatnonzero(problem.cost[:, 0] > 0.0).astype(np.uint32)
        if start is None:
            dtype = kernels.precision_for(self.kernel, problem.norms2.max()) if self.dtype == "auto" else self.dtype
            support = new_support(problem.n_weights, self.budget + 1, dtype)
            alpha, offset = np.zeros((problem.n_outputs, len(support.norms2))), np.zeros(problem.n_outputs)
            stream, n = random_stream(seed), float(len(order))
            return BudgetState(support, alpha, offset, alpha.copy(), offset.copy(), order, stream, n, Counters())
        if len(start.support.vectors) != problem.n_weights or len(start.alpha) != problem.n_outputs:
            raise ValueError(
                f"cannot go on with {problem.n_weights} features and {problem.n_outputs} outputs: "
                f"the state has {len(start.support.vectors)} and {len(start.alpha)}"
            )
        return start._replace(order=order, counters=start.counters._replace(position=0, visits=0))

    def update(self, problem: BudgetProblem, state: BudgetState, goal: Goal) -> BudgetState:
        """Visit a block of rows, at most to the end of the pass."""
        old, n = state.counters, len(state.order)
        if old.position == 0:
            state.order.sort()  # the order of a pass depends on the stream alone: going on is one pass more
            shuffle(state.order, n, state.stream)
        stored = n_stored(problem.rows) // problem.n_rows + 10
        block = max(16, _BLOCK // ((padded(old.size) + 16) * stored)) // GROUP * GROUP
        last_visit = math.ceil(min(goal.max_passes * n, 2.0**62))
        end = min(n, old.position + block, old.position + max(0, last_visit - old.visits))
        method = method_of(self.maintenance, self.grid)
        if isinstance(method, Project):
            method = with_inverse(self.kernel, state.support, old.size)
        expansion = self._expansion(state)
        begun = time.perf_counter()
        size, violations, repeats, total = _steps(
            (problem.rows, problem.norms2, problem.y, problem.cost),
            expansion,
            (method, self.budget, self.exhaustive),
            (state.order, state.offset, state.mean_offset, state.n, self.bias**2),
            (old.size, old.steps, old.violations, old.position, end),
        )
        seconds = time.perf_counter() - begun
        per_tick = seconds / total if total > 0 else math.nan
        tally = expansion.tally
        counters = Counters(
            size=size,
            steps=old.steps + end - old.position,
            position=end % n,
            visits=old.visits + end - old.position,
            violations=violations,
            repeats=old.repeats + repeats,
            merges=old.merges + int(tally[MERGES]),
            kernel_rows=old.kernel_rows + int(tally[KERNEL_ROWS]) + end - old.position,
            pairs=old.pairs + int(tally[PAIRS]),
            training_seconds=old.training_seconds + seconds,
            maintenance_seconds=old.maintenance_seconds + per_tick * tally[MAINTAINING],
            finding_seconds=old.finding_seconds + per_tick * tally[FINDING],
        )
        return state._replace(counters=counters)

    def _expansion(self, state: BudgetState) -> Expansion:
        features, capacity = state.support.vectors.shape
        dtype = state.support.vectors.dtype
        values, others, point = np.zeros(capacity, dtype), np.zeros(capacity, dtype), np.zeros((1, features), dtype)
        near, changed, tally = np.zeros(capacity, np.float32), np.zeros(4, np.int64), np.zeros(5, np.int64)
        room = (values, others, point, near, changed, tally)
        return Expansion(self.kernel, state.support, state.alpha, state.mean, *room)

    def report(self, problem: BudgetProblem, state: BudgetState, goal: Goal) -> Report:
        """Passes over the present rows, and the counters."""
        names = [name for name in Counters._fields if name not in ("position", "visits")]
        counters = {name: float(getattr(state.counters, name)) for name in names}
        return Report(state.counters.visits / len(state.order), math.nan, math.nan, False, counters)


# ---------------------------------------------------------------- the steps


@kernel
def _steps(data, e, maintenance, moving, place):
    """Steps over order[position:end]; the number of support vectors, violations, repeats, and the time in ticks."""
    rows, norms2, y, cost = data
    method, budget, exhaustive = maintenance
    order, offset, mean_offset, n, bias2 = moving
    size, t, violations, position, end = place
    n_outputs, capacity = e.alpha.shape
    change = np.zeros(n_outputs)
    repeats = 0
    width, chosen = group_width(rows), np.empty(GROUP, np.int64)
    products = np.zeros((GROUP, capacity), e.values.dtype)
    begun = ticks()
    for k in range(position, end):
        r = (k - position) % width
        if r == 0:
            for q in range(GROUP):
                chosen[q] = order[min(k + q, k + width - 1, end - 1)]
            products_of_group(rows, chosen, e.support.vectors, min(padded(size + width), capacity), products)
        if k + width + 1 < len(order):
            prefetch_row(rows, np.int64(order[k + width + 1]))
        i, places = chosen[r], padded(size)
        from_products(e.function, norms2[i], e.support, places, products[r], e.values)
        scale = n / t if t > 0 else 0.0
        t += 1
        violates = False
        for c in range(n_outputs):
            positive = y[i] == (1 if n_outputs == 1 else c)
            sign = 1.0 if positive else -1.0
            margin = sign * scale * (combine(e.alpha[c], e.values, places) + offset[c])
            change[c] = 0.0
            if margin < 1.0:
                change[c] = sign * (cost[i, 0] if positive else cost[i, 1])
                offset[c] += bias2 * change[c]
                violates = True
        if not violates:
            continue
        violations += 1
        j = _equal_vector(e, rows, i, norms2[i], size)
        for c in range(n_outputs):
            e.alpha[c, j] += change[c]
        if j < size:
            repeats += 1
        else:
            note(e, size)
            size += 1
            added(method, e, size)
            if size > budget:
                size = maintain(method, e, size, exhaustive)
            _correct(rows, chosen, e, size, products, r + 1, width)
        _average(e, offset, mean_offset, size, n / t, _weight_of_last(violations, budget))
    return size, violations, repeats, ticks() - begun


@kernel
def _correct(rows, chosen, e, size, products, first, last):
    """Products of the group's rows that are still to come with the vectors that have changed."""
    for q in range(1, e.changed[0] + 1):
        j = e.changed[q]
        if j < size:
            for r in range(first, last):
                products[r, j] = product_with(rows, chosen[r], e.support.vectors, j)
    e.changed[0] = 0


@kernel
def _weight_of_last(violations, budget):
    """Share of the newest iterate in the mean: the first is the mean."""
    return min(1.0, max(1.0 / (_MEAN_OF_BUDGET * budget), 1.0 / (1.0 + _MEAN_OF_ALL * (violations - 1))))


@kernel
def _average(e, offset, mean_offset, size, scale, weight):
    """Move the mean towards the present iterate."""
    for c in range(len(e.alpha)):
        alpha, mean = e.alpha[c], e.mean[c]
        for j in range(padded(size)):
            mean[j] += weight * (scale * alpha[j] - mean[j])
        mean_offset[c] += weight * (scale * offset[c] - mean_offset[c])


@kernel
def _equal_vector(e, rows, i, norm2, size):
    """The support vector that row i equals, or else place `size`, where it is put."""
    set_vector(rows, i, norm2, e.support, size)
    norms2, vectors = e.support.norms2, e.support.vectors
    candidates = 0
    for j in range(size):  # without a branch, for vector instructions: mostly there is none
        candidates += norms2[j] == norms2[size]
    if candidates == 0:
        return size
    for j in range(size):
        if norms2[j] == norms2[size]:
            f = 0
            while f < len(vectors) and vectors[f, j] == vectors[f, size]:
                f += 1
            if f == len(vectors):
                return j
    return size


# ---------------------------------------------------------------- the loop


@dataclass(frozen=True, eq=False)
class BudgetResult:
    """The answer of `train`.

    Attributes
    ----------
    state : BudgetState
    history : dict of str to ndarray
        One entry a pass: seconds, passes, and the counters of `Counters`.
    stop_reason : str
        "max_iter", "max_time", "interrupted" or "callback".
    passes, seconds : float
    """

    state: BudgetState
    history: dict[str, Array]
    stop_reason: str
    passes: float
    seconds: float


def train(
    solver: BudgetSGD,
    problem: BudgetProblem,
    *,
    max_iter: float = 1.0,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    start: BudgetState | None = None,
    seed: int | None = 0,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    interrupt: threading.Event | None = None,
) -> BudgetResult:
    """Pass over the rows, each time in a new order.

    The loop of `maxmargin.solvers.base.run` without its certificates, which a problem of this kind has not: what is
    optimal for B support vectors that may lie anywhere, nobody knows.

    Parameters
    ----------
    solver : BudgetSGD
    problem : BudgetProblem
    max_iter : float
        Passes over the rows.
    max_time : float, optional
        Limit in seconds, counted over resumptions.
    callbacks : iterable of callables
        Each is called with a `Progress` after every update of 10 ms or so; one that returns True stops the training.
    start : BudgetState, optional
        Go on from here, with these rows in place of those that it has seen.
    seed : int, optional
        Of the order of rows.
    checkpoint : path, optional
        File to save the state to, every `checkpoint_every` seconds and at the end; the training goes on from it if it
        exists, to the same bits as if it had never stopped.
    interrupt : threading.Event, optional
        Stops the training when set; by default Ctrl-C sets one.
    """
    if not max_iter > 0:
        raise ValueError(f"max_iter must be positive, got {max_iter!r}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be positive or None, got {max_time!r}")
    goal, limit, callbacks = Goal(0.0, float(max_iter)), math.inf if max_time is None else max_time, list(callbacks)
    state, before, file = solver.init_state(problem, seed, start), 0.0, None
    history: list[dict[str, float]] = []
    if checkpoint is not None:
        from maxmargin.checkpoint import Checkpoint

        file = Checkpoint(checkpoint, solver, problem, seed)  # type: ignore[arg-type]
        saved = file.load(state)
        if saved is not None:
            state, history, before, _ = saved
    started = time.perf_counter() - before
    next_save = time.perf_counter() + checkpoint_every
    with ExitStack() as stack:
        interrupt = stack.enter_context(catch_interrupt()) if interrupt is None else interrupt
        report, reason = solver.report(problem, state, goal), None
        while True:
            seconds = time.perf_counter() - started
            # Some rows are visited however short the time: there must be something to predict with.
            reason = reason or _limit(report, goal, seconds, limit if report.passes else math.inf, interrupt)
            if reason is not None:
                break
            state = solver.update(problem, state, goal)
            report, seconds = solver.report(problem, state, goal), time.perf_counter() - started
            if report.passes >= len(history) + 1 or report.passes >= goal.max_passes:
                history = [*history, {"seconds": seconds, "passes": report.passes, **report.counters}]
            progress = Progress(problem, solver, state, seconds, report, None, goal, limit)  # type: ignore[arg-type]
            answers = [callback(progress) for callback in callbacks]  # every one of them is called
            reason = "callback" if any(answers) else None
            if file is not None and time.perf_counter() >= next_save:
                file.save(state, history, seconds, 0.0)
                next_save = time.perf_counter() + checkpoint_every
    if file is not None:
        file.save(state, history, seconds, 0.0)
    if not history or history[-1]["passes"] < report.passes:
        history = [*history, {"seconds": seconds, "passes": report.passes, **report.counters}]
    columns = {name: np.array([entry[name] for entry in history]) for name in history[0]}
    return BudgetResult(state, columns, reason, report.passes, seconds)


def _limit(report: Report, goal: Goal, seconds: float, max_time: float, interrupt: threading.Event) -> str | None:
    if interrupt.is_set():
        return "interrupted"
    if report.passes >= goal.max_passes:
        return "max_iter"
    return "max_time" if seconds >= max_time else None
