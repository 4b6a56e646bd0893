"""FOLOS: forward-backward splitting, a stochastic gradient step on the loss and then the exact step on the penalty.

    min_w  P(w) = R(w) + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

with R(w) = 1/2 |w|^2 or a norm: |w|_1, |w|_2, max_j |w_j| (`penalties`). A step on one of the m rows, whose loss stands
for all of them:

    v = w - eta m C_i phi'(t_i) sign_i x_i               (forward)
    w = argmin_w  1/2 |w - v|^2 + eta R(w) = prox(v, eta)  (backward)

Duchi, Singer: Efficient online and batch learning using forward backward splitting, JMLR 10, 2009 (at NIPS 2008 as
FOLOS, later FOBOS). A gradient of |w|_1 never makes a weight zero; prox does. What it costs is explained in `proximal`:
a step walks over the nonzeros of its row, whatever the length of w.

eta is 1 / (t0 + t) for 1/2 |w|^2, which is strongly convex, and eta0 / sqrt(k) in the k-th pass for norms. eta0 is
found on a sample of the rows.

Paper -> code: f -> sum_i C_i phi, r -> R, eta_t and eta_{t+1/2} -> eta, w_{t+1/2} -> w between
`proximal_add` and `apply_pending`.

What differs from the paper, and why:

* One row's gradient stands for m rows', so that it is full of noise, and as prox and gradient both shrink with eta,
  noise never gets small beside the threshold: a feature that has just been seen is not zero. So the thresholds of steps
  add up, and prox is applied with their sum: ten times in the first pass, five times in the second, and once a pass
  from the sixth on (`every=None`), when gradient and threshold are both those of all rows. Prox every K steps
  (`every=K`) is the truncated gradient of Langford, Li and Zhang (JMLR 10, 2009); `every=1` is the paper's.
* With a penalty that is a norm, eta is the same for all steps of a pass and falls from pass to pass. The paper's
  eta_t proportional to 1 / sqrt(t) is `schedule="steps"`; with `every=1` it is the solver "folos_published".
* The answer is the last w, with what is pending applied. An average of sparse vectors is not sparse.
* Where phi' has no bound (squared losses), a step that would lead beyond the least loss of its row is cut to end there.

The certificate is that of the better of two dual points: the slopes -C_i phi'(t_i) of the last w, or those that steps
have met, averaged row by row over the passes with weights 1, 2, 3...; both are divided by the dual norm of v.
Figures are in papers/stochastic/NOTES.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import losses, penalties
from maxmargin._jit import compiled_lean
from maxmargin._random import new_rng
from maxmargin.data.rows import Array
from maxmargin.losses import argument, derivative, sign
from maxmargin.penalties import L2, L2Norm, LInf
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
from maxmargin.solvers.stochastic.proximal import (
    LazyWeights,
    add_pending,
    applied,
    apply_pending,
    lazy_weights,
    proximal_add,
    proximal_dot,
)
from maxmargin.solvers.stochastic.solver import StochasticSolver, slopes_to_start_at
from maxmargin.solvers.visits import LOOKAHEAD, Visits, examples, new_visits, prefetch_visit, shuffle_rows

_FIRST = 10  # proximal steps of the first pass, where each costs a walk over all weights or the sparsity of w


class FOLOSState(NamedTuple):
    """What moves in FOLOS."""

    x: LazyWeights
    slopes: Array  # -C_i phi'(t_i) as the visits of row i found it, on average: a dual point
    visits: Visits
    eta0: float
    penalty: int  # the place of its name in `penalties.names()`

    @property
    def w(self) -> Array:
        """The weights, with every proximal step that is pending."""
        return applied(penalties.get(penalties.names()[self.penalty]), self.x)


class Step(NamedTuple):
    """What steps of a pass depend on beside the state."""

    eta: float  # the step size; 0: it is 1 / (t0 + t)
    power: float  # of the number of steps, by which eta falls; 0: not within a pass
    t0: float
    every: int  # rows between proximal steps
    m: float  # number of rows with a cost
    weight: float  # of a slope, in the mean of those that its row has met
    curvature: float  # largest phi'', if phi' has no bound


@dataclass(frozen=True)
class FOLOS(StochasticSolver):
    """Forward-backward splitting: stochastic gradient steps for penalties that have no gradient.

    Parameters
    ----------
    every : int, optional
        Rows of a pass between proximal steps, the last of which is at the end of the pass; 1: FOLOS as published, more:
        truncated gradient. None: 1 for the penalties "l2" and "l2_norm", and for "l1" and "linf" at first ten times a
        pass, later once.
    power : float
        With a penalty that is a norm, eta falls as this power of the number of passes or steps.
    schedule : {"passes", "steps"}
        With a penalty that is a norm: the same eta for all steps of a pass, or eta_t = eta0 / t^power as published.
    eta0 : float, optional
        The first step size; None: found on a sample of the rows.

    Examples
    --------
    >>> from maxmargin import Problem, solve
    >>> X, y = [[2.0, 0.1], [-1.0, 0.1], [1.0, -0.2]], [1, -1, 1]
    >>> result = solve(Problem(X, y, C=1.0, loss="squared_hinge", penalty="l1"), solver=FOLOS(), tol=1e-2)
    >>> bool(result.w[0] > 0.5), float(result.w[1])
    (True, 0.0)
    """

    every: int | None = None
    power: float = 0.5
    eta0: float | None = None
    schedule: str = "passes"

    name: ClassVar[str] = "folos"
    losses: ClassVar[tuple[type, ...]] = losses.ALL
    penalties: ClassVar[tuple[type, ...]] = tuple(tag for tag in penalties.ALL if tag in apply_pending.registry)
    max_passes: ClassVar[float] = 1000.0
    accuracy: ClassVar[float] = 5e-3

    def __post_init__(self) -> None:
        if self.every is not None:
            check_count(self, "every", 1)
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(f"power must be between 0 and 1; got {self.power!r}")
        if self.schedule not in ("passes", "steps"):
            raise ValueError(f'schedule must be "passes" or "steps"; got {self.schedule!r}')
        if self.eta0 is not None:
            check_number(self, "eta0", above=True)

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> FOLOSState:
        """Start at w = 0, or at the w of another state (and the dual variables that it has)."""
        state = FOLOSState(
            x=lazy_weights(problem.penalty, weights_to_start_at(problem, start)),
            slopes=slopes_to_start_at(problem, start),
            visits=shuffle_rows(new_visits(problem, new_rng(seed))),
            eta0=1.0,
            penalty=penalties.names().index(penalties.name_of(problem.penalty)),
        )
        return state._replace(
            eta0=_calibrated(problem, state, self.schedule) if self.eta0 is None else float(self.eta0)
        )

    def _run(self, problem: Problem, state: FOLOSState, n: int) -> FOLOSState:
        m, visits = int(np.count_nonzero(problem.cost)), state.visits
        passes = 1 + visits.count // m
        is_l2, by_steps = isinstance(problem.penalty, L2), self.schedule == "steps"
        step = Step(
            eta=0.0 if is_l2 else state.eta0 if by_steps else state.eta0 / passes**self.power,
            power=self.power if by_steps else 0.0,
            t0=1.0 / state.eta0,
            every=self._rows_between(problem, passes, visits.n_rows),
            m=float(m),
            weight=2.0 / (passes + 1),
            curvature=unbounded_curvature(problem.loss),
        )
        _steps(problem.penalty, examples(problem), state, n, step)
        return state._replace(visits=visits.advanced(n))

    def _rows_between(self, problem: Problem, passes: int, n_rows: int) -> int:
        """How many rows of a pass are between two proximal steps."""
        if self.every is not None:
            return int(self.every)
        return 1 if isinstance(problem.penalty, (L2, L2Norm)) else -(-n_rows // max(1, _FIRST // passes))


def _calibrated(problem: Problem, start: FOLOSState, schedule: str) -> float:
    """The eta0 that leaves the least objective after a pass over a sample."""
    sample, w = start.visits.order[:SAMPLE], start.w
    unit = mean_curvature_of_rows(problem, sample)
    # One step at a time whatever `every` is: a sample of its rows would add up too little beside a whole pass.
    every = 1 if not isinstance(problem.penalty, LInf) else -(-len(sample) // _FIRST)
    solver = FOLOS(every=every, schedule=schedule)

    def objective(k: int) -> float:
        x, slopes = lazy_weights(problem.penalty, w), np.zeros(problem.n_rows)
        state = start._replace(x=x, slopes=slopes, visits=start.visits._replace(order=sample), eta0=4.0**k / unit)
        return sampled_objective(problem, sample, solver._run(problem, state, len(sample)).w)

    return 4.0 ** best_power(objective) / unit


@compiled_lean
def _steps(penalty, data, state, n, step):
    x, slopes, order, position = state.x, state.slopes, state.visits.order, state.visits.position
    t = step.t0 + state.visits.count
    for k in range(position, position + n):
        prefetch_visit(data, slopes, order, k + LOOKAHEAD)
        i = np.int64(order[k])
        eta = step.eta if step.eta > 0.0 else 1.0 / t
        t += 1.0
        if step.power > 0.0 and step.eta > 0.0:
            eta /= (t - step.t0) ** step.power
        z = proximal_dot(penalty, data.rows, i, x)
        slope = derivative(data.loss, argument(data.loss, z, data.y[i]))
        slopes[i] += step.weight * (-data.cost[i] * slope - slopes[i])
        if slope != 0.0:
            C = step.m * data.cost[i]
            change = -C * slope * eta / max(1.0, C * step.curvature * eta * data.norms2[i])  # forward
            proximal_add(penalty, data.rows, i, change * sign(data.loss, data.y[i]), x, z, data.norms2[i])
        add_pending(x, eta)
        if (k + 1) % step.every == 0 or k + 1 == len(order):
            apply_pending(penalty, x)  # backward
