"""SGD-QN: stochastic gradient descent with a step size for each weight, learnt from how gradients change.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

A step on one of the m rows, whose loss stands for all of them:

    w_j <- w_j - B_jj (w_j + m C_i phi'(t_i) sign_i x_ij),

and every `skip` steps B is corrected by what the step did to the gradient of its row,

    1 / B_jj <- 1 / B_jj + skip r_j,      r_j = [g(w_after) - g(w_before)]_j / [w_after - w_before]_j, cut to [1, clip].

Bordes, Bottou, Gallinari: SGD-QN: careful quasi-Newton stochastic gradient descent, JMLR 10, 2009, as corrected in
Bordes, Bottou, Gallinari, Chang, Smith: Erratum: SGDQN is less careful than expected, JMLR 11, 2010. The first version
averaged r_j in B and divided B by t. In the corrected one 1/B_jj is the sum of the curvatures seen so far, which IS the
decrease as 1/t, for each weight at its own pace. (The erratum's text was not at hand: its update is reconstructed.)

Paper -> code: lambda -> 1 (our P is 1/lambda times the paper's), B_jj -> 1 / (t0 + t + extra_j), t0, skip, 100 lambda
-> clip.

What differs from the paper by default, and why (``SGDQN(estimate="secant", clip=100.0)``, "sgd_qn_published", is the
paper's but for the first two points):

* A row without feature j adds `skip` to 1/B_jj every skip steps, one with it adds more. So 1/B_jj is t0 + t + extra_j,
  and extra_j changes with the rows of feature j only.
* The decay is exact and costs nothing. With u_j = w_j / B_jj, the decay w_j <- w_j (1 - B_jj) leaves u_j as it is, for
  1/B_jj grows by one at the same time; the paper, which decays every `skip` steps, needs a pass over w for it.
* r_j. Along one row, the ratio of the paper is C phi'' x_i'B x_i / B_jj, in which x_ij does not occur.
  `estimate="diagonal"`, the default, takes the second derivative of the row in weight j alone, C phi'' x_ij^2, with
  phi'' the same ratio of differences; `estimate="secant"` is the paper's.
* The cut. 100 lambda knows nothing of the data. `clip=None` is the geometric mean of the two extremes, lambda and the
  mean of m C_i |x_i|^2.
* t0 is found on a sample, as svmsgd2 does. Where phi' has no bound (squared losses), a step that would lead beyond the
  least loss of its row is cut to end there.

The questions of the survey (Menon 2009, section 4.3.3) are answered by measurement in papers/stochastic/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses
from maxmargin._jit import DENSE_MATH, compiled_lean, generic
from maxmargin._random import new_rng
from maxmargin.data.rows import CSR, Array, Dense, add_row
from maxmargin.losses import argument, derivative, sign
from maxmargin.problem import Problem
from maxmargin.solvers.base import weights_to_start_at
from maxmargin.solvers.checks import check_count, check_number
from maxmargin.solvers.stochastic.calibration import (
    SAMPLE,
    best_power,
    mean_curvature_of_rows,
    sampled_objective,
    unbounded_curvature,
)
from maxmargin.solvers.stochastic.solver import StochasticSolver, slopes_to_start_at
from maxmargin.solvers.visits import LOOKAHEAD, Visits, examples, new_visits, prefetch_visit, shuffle_rows


class SGDQNState(NamedTuple):
    """What moves in SGD-QN."""

    u: Array  # w_j / B_jj
    extra: Array  # 1 / B_jj, less what every weight has
    slopes: Array  # -C_i phi'(t_i) as the visits of row i found it, on average: a dual point
    visits: Visits
    t0: float
    clip: float

    @property
    def w(self) -> Array:
        """The weights."""
        return self.u / (self.t0 + self.visits.count + self.extra)


class Step(NamedTuple):
    """What steps of a pass depend on beside the state."""

    m: float  # number of rows with a cost
    weight: float  # of a slope, in the mean of those that its row has met
    curvature: float  # largest phi'', if phi' has no bound
    skip: int
    is_secant: bool


class Correction(NamedTuple):
    """What a step has found of the curvature."""

    age: float  # t0 + t
    own: float  # C phi'', to be multiplied by x_ij^2
    common: float  # the paper's ratio, less B_jj
    skip: int
    clip: float


@dataclass(frozen=True)
class SGDQN(StochasticSolver):
    """SGD-QN: stochastic gradient steps, each weight with a step size of its own.

    Parameters
    ----------
    skip : int
        Steps between corrections of the step sizes; 0: never, all weights have the same (plain SGD).
    clip : float, optional
        Largest curvature that a correction believes in, in units of the regulariser's (the paper: 100); None: the
        geometric mean of the regulariser's, 1, and of the mean of m C_i |x_i|^2.
    estimate : {"diagonal", "secant"}
        Of the curvature: the row's own second derivative in each weight, or the paper's ratio r_j.
    t0 : float, optional
        The first step size is 1 / t0; None: found on a sample of the rows.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> problem = Problem([[2.0, 1.0], [-1.0, -1.0]], [1, -1], C=1.0, loss="squared_hinge")
    >>> result = solve(problem, solver=SGDQN(), tol=1e-2)
    >>> result.certificate.relative_gap <= 1e-2
    True
    """

    skip: int = 16
    clip: float | None = None
    estimate: str = "diagonal"
    t0: float | None = None

    name: ClassVar[str] = "sgd_qn"
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    max_passes: ClassVar[float] = 1000.0
    accuracy: ClassVar[float] = 5e-3

    def __post_init__(self) -> None:
        check_count(self, "skip", 0)
        if self.clip is not None and not self.clip >= 1.0:
            raise ValueError(f"clip must be 1 or more, or None; got {self.clip!r}")
        if self.estimate not in ("diagonal", "secant"):
            raise ValueError(f'estimate must be "diagonal" or "secant", got {self.estimate!r}')
        if self.t0 is not None:
            check_number(self, "t0", 1.0)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> SGDQNState:
        """Start at w = 0, or at the w of another state (and the dual variables that it has)."""
        w, visits = weights_to_start_at(problem, start), shuffle_rows(new_visits(problem, new_rng(seed)))
        unit = mean_curvature_of_rows(problem, visits.order[:SAMPLE])
        t0 = _calibrated(problem, visits, w, unit) if self.t0 is None else float(self.t0)
        clip = math.sqrt(unit) if self.clip is None else float(self.clip)
        return SGDQNState(w * t0, np.zeros(len(w)), slopes_to_start_at(problem, start), visits, t0, clip)

    def _run(self, problem: Problem, state: SGDQNState, n: int) -> SGDQNState:
        m = int(np.count_nonzero(problem.cost))
        step = Step(
            m=float(m),
            weight=2.0 / (state.visits.count // m + 2),
            curvature=unbounded_curvature(problem.loss),
            skip=int(self.skip),
            is_secant=self.estimate == "secant",
        )
        _steps(examples(problem), state, n, step)
        return state._replace(visits=state.visits.advanced(n))


def _calibrated(problem: Problem, visits: Visits, w: Array, unit: float) -> float:
    """The t0 that leaves the least objective after a pass over a sample, all weights with the same step size."""
    sample, solver = visits.order[:SAMPLE], SGDQN(skip=0)

    def objective(k: int) -> float:
        t0 = max(1.0, unit * 0.25**k)
        if k > 0 and unit * 0.25 ** (k - 1) <= 1.0:  # the same as the last one
            return math.inf
        extra, slopes = np.zeros(len(w)), np.zeros(problem.n_rows)
        state = SGDQNState(w * t0, extra, slopes, visits._replace(order=sample), t0, 1.0)
        return sampled_objective(problem, sample, solver._run(problem, state, len(sample)).w)

    return max(1.0, unit * 0.25 ** best_power(objective))


@compiled_lean
def _steps(data, state, n, step):
    u, extra, slopes, order = state.u, state.extra, state.slopes, state.visits.order
    position, visits = state.visits.position, state.visits.count
    for k in range(position, position + n):
        prefetch_visit(data, slopes, order, k + LOOKAHEAD)
        i = np.int64(order[k])
        age = state.t0 + visits
        visits += 1
        z, Q = _scaled_dot(data.rows, i, u, extra, age)
        t = argument(data.loss, z, data.y[i])
        before = derivative(data.loss, t)
        slopes[i] += step.weight * (-data.cost[i] * before - slopes[i])
        if before == 0.0:
            continue
        C = step.m * data.cost[i]
        shortened = max(1.0, C * step.curvature * Q)  # else the step would lead beyond the row's least loss
        change = -C * before / shortened
        add_row(data.rows, i, change * sign(data.loss, data.y[i]), u)
        if step.skip > 0 and visits % step.skip == 0:
            moved = change * Q
            bend = C * (derivative(data.loss, t + moved) - before) / moved if moved != 0.0 else 0.0
            if bend > 0.0:
                own, common = (0.0, bend * Q) if step.is_secant else (bend, 0.0)
                _correct(data.rows, i, u, extra, Correction(age, own, common, step.skip, state.clip))


@generic
def _scaled_dot(rows, i, u, extra, age):
    """x_i'w and x_i'B x_i."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_scaled_dot.register(Dense, fastmath=DENSE_MATH)
def _(rows, i, u, extra, age):
    n = rows.values.shape[1]
    z, Q = 0.0, 0.0
    for j in range(n):
        x = np.float64(rows.values[i, j])
        scaled = x / (age + extra[j])
        z += scaled * u[j]
        Q += scaled * x
    if rows.bias != 0.0:
        scaled = rows.bias / (age + extra[n])
        z += scaled * u[n]
        Q += scaled * rows.bias
    return z, Q


@_scaled_dot.register(CSR)
def _(rows, i, u, extra, age):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    z, Q = 0.0, 0.0
    for p in range(begin, end):
        j = np.uint64(rows.indices[p])
        x = np.float64(rows.data[p])
        scaled = x / (age + extra[j])
        z += scaled * u[j]
        Q += scaled * x
    n = len(u) - 1
    scaled = rows.bias / (age + extra[n])
    return z + scaled * u[n], Q + scaled * rows.bias


@generic
def _correct(rows, i, u, extra, change):
    """Add the curvatures that a step has met to 1 / B_jj; w stays."""
    raise TypeError(f"not a row storage: {type(rows).__name__}")


@_correct.register(Dense)
def _(rows, i, u, extra, change):
    n = rows.values.shape[1]
    for j in range(n):
        _correct_weight(u, extra, j, np.float64(rows.values[i, j]), change)
    if rows.bias != 0.0:
        _correct_weight(u, extra, n, rows.bias, change)


@_correct.register(CSR)
def _(rows, i, u, extra, change):
    begin, end = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    for p in range(begin, end):
        _correct_weight(u, extra, np.uint64(rows.indices[p]), np.float64(rows.data[p]), change)
    if rows.bias != 0.0:
        _correct_weight(u, extra, np.uint64(len(u) - 1), rows.bias, change)


@compiled_lean
def _correct_weight(u, extra, j, x, change):
    if x != 0.0:
        old = change.age + extra[j]
        more = change.skip * min(change.own * x * x + change.common * old, change.clip - 1.0)
        extra[j] += more
        u[j] *= (old + more) / old
