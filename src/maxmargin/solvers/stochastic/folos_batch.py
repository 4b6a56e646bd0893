"""FOLOS with the gradient of all rows: forward-backward splitting as a batch method.

    min_w  P(w) = R(w) + f(w),      f(w) = sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

with R(w) = 1/2 |w|^2 or a norm (`penalties`). An iteration is one pass:

    v = w - eta_t g_t,      g_t a subgradient of f at w      (forward)
    w = prox(v, eta_t)                                       (backward)

Duchi, Singer: Efficient online and batch learning using forward backward splitting, JMLR 10, 2009. `folos` has the
stochastic mode.

    loss            penalty      eta_t
    with a kink     a norm       eta0 / sqrt(t)
    with a kink     1/2 |w|^2    2 / t
    smooth          any          the first of a falling sequence for which f is below its quadratic bound at w

Paper -> code: f -> risk, r -> R, eta_t and eta_{t+1/2} -> eta, w_{t+1/2} -> v.

What differs from the paper, and why:

* For 1/2 |w|^2, which is strongly convex, eta_t = 2 / t instead of 1 / t: w is then the mean of the start, zero, and of
  the -g_t with weights 1, 2, 3..., and the same mean of the rows' slopes is a dual point that belongs to it. The gap
  falls as 1 / t, without a logarithm: this is the step of Frank and Wolfe in the dual.
* Smooth losses have a step that does not fall (Beck, Teboulle, SIAM J. Imaging Sciences 2, 2009, section 3: ISTA with
  backtracking). A trial is a pass.
* eta0 is the power of four around 1 / sum_i C_i |x_i|^2 that leaves the least P after five steps.
* The answer is the best w so far: where there are kinks, P goes up and down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses, penalties
from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector
from maxmargin.losses import SMOOTH, is_margin_loss
from maxmargin.penalties import prox
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers.base import Goal, Report, Solver, weights_to_start_at
from maxmargin.solvers.stochastic.calibration import best_power
from maxmargin.solvers.stochastic.solver import slopes_to_start_at
from maxmargin.vectors import dot

_TRIAL = 5  # steps by which values of eta0 are compared
_GROWTH = 1.2  # of the step size for smooth losses, from step to step
_ROUNDING = 1e-14  # of the risk, which must not stop a step


class Here(NamedTuple):
    """A point, and what one pass tells of it."""

    w: Array
    primal: float  # infinite before it is evaluated
    risk: float
    g: Array  # a subgradient of the risk
    slopes: RowVector  # -C_i phi'(t_i): g = -sum_i slopes_i sign_i x_i


class BatchFOLOSState(NamedTuple):
    """What moves in FOLOS with all rows."""

    here: Here
    w: Array  # the best point so far
    primal: float  # its objective
    slopes: RowVector  # mean of those of all points, weights 1, 2, 3...: a dual point
    eta: float  # eta0, or the last step size of a smooth loss; 0: not known yet
    steps: int
    passes: int
    next_certificate: int  # after so many passes


@dataclass(frozen=True)
class BatchFOLOS(Solver):
    """Forward-backward splitting with the gradient of all rows: for penalties that have no gradient.

    Parameters
    ----------
    eta0 : float, optional
        The first step size for losses with kinks and a penalty that is a norm; None: found by trials.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> X, y = [[2.0, 0.1], [-1.0, 0.1], [1.0, -0.2]], [1, -1, 1]
    >>> result = solve(Problem(X, y, C=1.0, loss="squared_hinge", penalty="l1"), solver=BatchFOLOS(), tol=1e-6)
    >>> bool(result.w[0] > 0.5), float(result.w[1])
    (True, 0.0)
    """

    eta0: float | None = None

    name: ClassVar[str] = "folos_batch"
    access: ClassVar[str] = "passes"
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    penalties: ClassVar[tuple[type, ...]] = penalties.ALL
    max_passes: ClassVar[float] = 10_000.0
    accuracy: ClassVar[float] = 5e-3

    def __post_init__(self) -> None:
        if self.eta0 is not None and not 0.0 < self.eta0 < math.inf:
            raise ValueError(f"eta0 must be a positive finite number or None; got {self.eta0!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> BatchFOLOSState:
        """Start at w = 0, or at the w of another state."""
        w, slopes = weights_to_start_at(problem, start), slopes_to_start_at(problem, start)
        here = Here(w, math.inf, math.inf, np.zeros(len(w)), slopes)
        return BatchFOLOSState(here, w, math.inf, slopes, 0.0, 0, 0, 1)

    def update(self, problem: Problem, state: BatchFOLOSState, goal: Goal) -> BatchFOLOSState:
        """One step; the first update evaluates the start, and finds eta0."""
        if math.isinf(state.here.primal):
            here = _evaluate(problem, state.here.w)
            state = state._replace(here=here, primal=here.primal, passes=1)
            return self._with_eta0(problem, state)
        here, n = state.here, 1
        t = state.steps + 1
        eta = step_size(problem, state.eta, t)
        there = _evaluate(problem, forward_backward(problem, here, eta))
        if isinstance(problem.loss, SMOOTH):
            while not _is_below_its_bound(here, there, eta):
                eta, n = 0.5 * eta, n + 1
                there = _evaluate(problem, forward_backward(problem, here, eta))
            state = state._replace(eta=eta)
        state = state._replace(
            here=there,
            slopes=state.slopes + 2.0 / (t + 2.0) * (here.slopes - state.slopes),
            steps=t,
            passes=state.passes + n,
        )
        return state._replace(w=there.w, primal=there.primal) if there.primal < state.primal else state

    def _with_eta0(self, problem: Problem, state: BatchFOLOSState) -> BatchFOLOSState:
        """The first step size; trials are passes."""
        unit = max(1.0, dot(problem.cost, problem.norms2))
        if isinstance(problem.loss, SMOOTH) or not penalties.is_norm(problem.penalty):
            return state._replace(eta=1.0 / unit)
        if self.eta0 is not None:
            return state._replace(eta=float(self.eta0))
        n = 0

        def objective(k: int) -> float:
            nonlocal n
            here = state.here
            for t in range(1, _TRIAL + 1):
                here, n = (
                    _evaluate(problem, forward_backward(problem, here, step_size(problem, 4.0**k / unit, t))),
                    n + 1,
                )
            return here.primal

        return state._replace(eta=4.0 ** best_power(objective) / unit, passes=state.passes + n)

    def report(self, problem: Problem, state: BatchFOLOSState, goal: Goal) -> Report:
        """P is known, a bound on it only by a certificate."""
        primal = state.primal if state.primal < math.inf else math.nan
        is_due = state.passes >= state.next_certificate
        return Report(float(state.passes), primal, math.nan, is_due, {"steps": float(state.steps)})

    def certificate(self, problem: Problem, state: BatchFOLOSState) -> Certificate:
        """By the slopes at w, or by the mean of those of all points: whichever proves more."""
        found = problem.certificate(state.w), problem.certificate(state.w, state.slopes)
        return min(found, key=lambda c: c.gap)

    def reconsider(
        self, problem: Problem, state: BatchFOLOSState, goal: Goal, certificate: Certificate
    ) -> BatchFOLOSState:
        """The next certificate after half as many passes again."""
        return state._replace(next_certificate=state.passes + max(1, state.passes // 2))


def step_size(problem: Problem, eta: float, t: int) -> float:
    """eta_t, given eta0 or the last one."""
    if isinstance(problem.loss, SMOOTH):
        return _GROWTH * eta
    return eta / math.sqrt(t) if penalties.is_norm(problem.penalty) else 2.0 / t


def forward_backward(problem: Problem, here: Here, eta: float) -> Array:
    """A step along -g, and then the exact one on the penalty."""
    return prox(problem.penalty, here.w - eta * here.g, eta)


def _evaluate(problem: Problem, w: Array) -> Here:
    z = problem.outputs(w)
    plane = problem.linearize(z, z, 0.0)
    slopes = -plane.p * problem.y if is_margin_loss(problem.loss) else -plane.p
    return Here(w, problem.regularizer(w) + plane.value, plane.value, problem.combine(plane.p), slopes)


def _is_below_its_bound(here: Here, there: Here, eta: float) -> bool:
    """Whether f is at most f + g'd + |d|^2 / (2 eta) after the step d."""
    d = there.w - here.w
    bound = here.risk + dot(here.g, d) + dot(d, d) / (2.0 * eta)
    return there.risk <= bound + _ROUNDING * here.risk or not d.any()
