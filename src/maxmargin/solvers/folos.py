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

Paper -> code: f -> sum_i C_i phi, r -> R, eta_t and eta_{t+1/2} -> eta, w_{t+1/2} -> between `proximal_add` and `pay`.

What differs from the paper, and why:

* One row's gradient stands for m rows', so that it is full of noise, and as prox and gradient both shrink with eta,
  noise never gets small beside the threshold: a feature that has just been seen is not zero. With prox in every step
  the last w has 30,000 weights on 6000 rows of 20news.binary (squared hinge, C = 1) after 100 passes, where the
  optimum has 661. So steps add up the thresholds that they owe, and prox is applied with their sum: ten times in the
  first pass, five times in the second, and once a pass from the sixth on (`every=None`), when gradient and threshold
  are both those of all rows: 716 weights, and P is 0.8 instead of 6.6 % above its least value. Prox every K steps
  (`every=K`) is the truncated gradient of Langford, Li and Zhang (JMLR 10, 2009); `every=1` is the paper's.
* The answer is the last w, with what it still owes paid. An average of sparse vectors is not sparse.
* Where phi' has no bound (squared losses), a step that would lead beyond the least loss of its row is cut to end there.

The certificate is that of the better of two dual points: the slopes -C_i phi'(t_i) of the last w, or those that steps
have met, averaged row by row over the passes with weights 1, 2, 3...; both are divided by the dual norm of v.

Measured (C = 1; four fifths of 20news.binary, with 1.66 million features, the rest held out; a9a with its test set; P
above its least value as `primal_cd` finds it, weights that are not zero, test accuracy, seconds of processor time).
scikit-learn is SGDClassifier(penalty="l1", alpha=1/m, tol=None) without an intercept:

                        20news, squared hinge             20news, logistic
    optimum             -       1,246    .957   3.6       -       399     .920   1.5
    FOLOS, 1 pass       31 %    6,156    .937   .07       8.9 %   1,610   .909   .06
    5 passes            11 %    2,684    .950   .31       5.3 %   469     .914   .32
    20 passes           5.8 %   1,348    .955   1.2       5.1 %   326     .912   1.2
    100 passes          .83 %   1,337    .956   5.9       .93 %   371     .918   6.4
    200 passes          .84 %   1,326    .958   11.       .50 %   378     .919   13.
    scikit-learn, 1     -       273,778  .936   .11       39 %    10,348  .903   .11
    20 passes           -       295,737  .941   2.0       3.6 %   724     .911   1.8
    100 passes          -       295,268  .941   10.       2.5 %   653     .913   9.3

                        a9a, squared hinge                a9a, logistic
    optimum             -       106      .850   7.4       -       96      .850   3.9
    FOLOS, 20 passes    4.9 %   117      .845   .05       .63 %   105     .850   .05
    100 passes          1.0 %   114      .850   .25       .78 %   105     .850   .26
    200 passes          .44 %   116      .850   .49       .21 %   101     .851   .52
    scikit-learn, 100   -       123      .782   .54       .31 %   86      .850   .77

("-": more than a hundred times the optimum: with the default learning rate, which was not tuned, scikit-learn's squared
hinge diverges. One run and one split each; `every=None` and the power of eta were chosen on a9a and 6000 rows of
20news.) So P is within 1 % of its least value after 100 to 200 passes, and at the
same accuracy there are fewer weights than scikit-learn leaves, but for a9a with logistic loss, where scikit-learn's
have fewer than the optimum. `primal_cd` is faster on 20news for a sharp answer (3.6 and 1.5 s against 11 and 13 s); on
a9a FOLOS is within 0.5 % in half a second, of which it proves 4 %, and `primal_cd` takes 4 to 7 s for a proof of 1e-5.
Certificates lag behind: after 200 passes gaps of 6.6 and 2.3 % (20news) and of 4 % (a9a) are proven, by the averaged
slopes; those of the last w prove next to nothing (77 to 99 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import penalties
from maxmargin._jit import lean_kernel, prefetch
from maxmargin._random import random_stream, shuffle
from maxmargin.losses import MARGIN_LOSSES, RESIDUAL_LOSSES, argument, derivative, sign
from maxmargin.problem import Problem
from maxmargin.proximal import TAGS, Lazy, lazy, owe, pay, proximal_add, proximal_dot, settled
from maxmargin.rows import Array, n_stored, prefetch_row
from maxmargin.solvers._calibration import (
    SAMPLE,
    Course,
    RowByRow,
    best_power,
    sampled_risk,
    steepest_slope,
    steepness,
)
from maxmargin.solvers.base import weights_to_start_at
from maxmargin.solvers.dual_cd import _all_rows

_BLOCK = 1 << 22  # stored values that one update walks over
_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them
_FIRST = 10  # proximal steps of the first pass, where each costs a walk over all weights or the sparsity of w


class FOLOSState(NamedTuple):
    """What moves in FOLOS."""

    x: Lazy
    slopes: Array  # -C_i phi'(t_i) as the visits of row i found it, on average: a dual point
    order: Array  # of the rows in this pass
    stream: Array  # of random numbers
    eta0: float
    penalty: int  # the place of its name in `penalties.NAMES`
    course: Course

    @property
    def w(self) -> Array:
        """The weights, with every proximal step that is still owed."""
        return settled(TAGS[penalties.NAMES[self.penalty]], self.x)


@dataclass(frozen=True)
class FOLOS(RowByRow):
    """Forward-backward splitting: stochastic gradient steps for penalties that have no gradient.

    Parameters
    ----------
    every : int, optional
        Rows of a pass between proximal steps, the last of which is at the end of the pass; 1: FOLOS as published, more:
        truncated gradient. None: 1 for the penalties "l2" and "l2_norm", and for "l1" and "linf" at first ten times a
        pass, later once.
    power : float
        With a penalty that is a norm, eta falls as this power of the number of passes.
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

    name: ClassVar[str] = "folos"
    losses: ClassVar[tuple[type, ...]] = (*MARGIN_LOSSES, *RESIDUAL_LOSSES)
    penalties: ClassVar[tuple[str, ...]] = penalties.NAMES
    max_passes: ClassVar[float] = 1000.0
    accuracy: ClassVar[float] = 5e-3

    def __post_init__(self) -> None:
        if self.every is not None and not (isinstance(self.every, int | np.integer) and self.every >= 1):
            raise ValueError(f"every must be a whole number of rows or None; got {self.every!r}")
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(f"power must be between 0 and 1; got {self.power!r}")
        if self.eta0 is not None and not 0.0 < self.eta0 < math.inf:
            raise ValueError(f"eta0 must be a positive finite number or None; got {self.eta0!r}")

    def init_state(self, problem: Problem, seed: int | None = 0, start: Any = None) -> FOLOSState:
        """Start at w = 0, or at the w of another state (and the dual variables that it has)."""
        w, order, stream = weights_to_start_at(problem, start), _all_rows(problem), random_stream(seed)
        shuffle(order, len(order), stream)
        slopes = getattr(start, "slopes", getattr(start, "alpha", None))
        slopes = np.zeros(problem.n_rows) if slopes is None or len(slopes) != problem.n_rows else slopes.copy()
        state = FOLOSState(
            x=lazy(TAGS[problem.penalty], w),
            slopes=slopes,
            order=order,
            stream=stream,
            eta0=1.0,
            penalty=penalties.NAMES.index(problem.penalty),
            course=Course(0, 0, len(order)),
        )
        return state._replace(eta0=_calibrated(problem, state) if self.eta0 is None else float(self.eta0))

    def _rows_at_once(self, problem: Problem) -> int:
        return max(1, _BLOCK // (1 + n_stored(problem.rows) // problem.n_rows))

    def _run(self, problem: Problem, state: FOLOSState, position: int, n: int, visits: int) -> FOLOSState:
        m, size = int(np.count_nonzero(problem.cost)), len(state.order)
        passes = 1 + visits // m
        if problem.penalty == "l2":
            rate, t0 = 0.0, 1.0 / state.eta0
        else:
            rate, t0 = state.eta0 / passes**self.power, 0.0
        _steps(
            TAGS[problem.penalty],
            (problem.rows, problem.y, problem.cost, problem.norms2, problem.loss),
            (state.x, state.slopes, state.order),
            (position, n, visits, self._rows_between(problem, passes, size)),
            (rate, t0, float(m), 2.0 / (passes + 1), steepest_slope(problem.loss)),
        )
        return state

    def _rows_between(self, problem: Problem, passes: int, n_rows: int) -> int:
        """How many rows of a pass are between two proximal steps."""
        if self.every is not None:
            return int(self.every)
        return 1 if problem.penalty in ("l2", "l2_norm") else -(-n_rows // max(1, _FIRST // passes))


def _calibrated(problem: Problem, start: FOLOSState) -> float:
    """The eta0 that leaves the least objective after a pass over a sample."""
    sample, w = start.order[:SAMPLE], start.w
    unit = max(1.0, steepness(problem, sample))
    # One step at a time whatever `every` is: a sample of its rows would owe too little beside a whole pass.
    solver = FOLOS(every=1 if problem.penalty != "linf" else -(-len(sample) // _FIRST))

    def objective(k: int) -> float:
        state = start._replace(
            x=lazy(TAGS[problem.penalty], w), slopes=np.zeros(problem.n_rows), order=sample, eta0=4.0**k / unit
        )
        solver._run(problem, state, 0, len(sample), 0)
        there = state.w
        return penalties.value(problem.penalty, there) + sampled_risk(problem, sample, there)

    return 4.0 ** best_power(objective) / unit


@lean_kernel
def _steps(penalty, data, moving, course, options):
    rows, y, cost, norms2, loss = data
    x, slopes, order = moving
    position, n, visits, every = course
    rate, t0, m, weight, curvature = options
    for k in range(position, position + n):
        if k + _LOOKAHEAD < len(order):
            ahead = np.int64(order[k + _LOOKAHEAD])
            prefetch_row(rows, ahead)
            prefetch(y, ahead)
            prefetch(cost, ahead)
            prefetch(norms2, ahead)
            prefetch(slopes, ahead)
        i = np.int64(order[k])
        eta = rate if t0 == 0.0 else 1.0 / (t0 + visits)
        visits += 1
        z = proximal_dot(penalty, rows, i, x)
        slope = derivative(loss, argument(loss, z, y[i]))
        slopes[i] += weight * (-cost[i] * slope - slopes[i])
        if slope != 0.0:
            C = m * cost[i]
            step = -C * slope * eta / max(1.0, C * curvature * eta * norms2[i])
            proximal_add(penalty, rows, i, step * sign(loss, y[i]), x, z, norms2[i])
        owe(x, eta)
        if (k + 1) % every == 0 or k + 1 == len(order):
            pay(penalty, x)
