"""Stochastic gradient descent over rows as they come, each of them visited once.

    lambda/2 |w|^2 + mean_i weight_i phi(t_i),      t_i = sign_i x_i'w - target_i

The step is that of `sgd`, in the scaling of the papers:  w <- (1 - lambda eta_t) w + eta_t weight_i u_i sign_i x_i
with the truncated slope u_i, and 1 / eta_t = lambda t + the mean of weight |x|^2 over the rows so far, which is lambda
(t + t0) for a t0 that is estimated on the way. The answer is the mean of about the last third of the iterates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array, Rows, n_rows, n_weights, prefetch_row, row_size, squared_norms
from maxmargin.losses import Loss, argument, sign
from maxmargin.solvers.stochastic.truncation import truncated_slope
from maxmargin.solvers.stochastic.weights import (
    Average,
    ScaledVector,
    average_of,
    averaged_add,
    averaged_decay,
    dense,
    include,
    new_average,
    restart,
    scaled_dot,
    scaled_vector,
    widened_average,
    widened_vector,
)
from maxmargin.solvers.visits import LOOKAHEAD, Examples

_STEPS_OF_WALK = 4  # times as many numbers as w has are walked over in the time of its rows
_LARGEST = 4.0  # times the mean: the most that a row's weight |x|^2 counts for


class OnlineState(NamedTuple):
    """What SGD knows after the rows that it has seen: as long as w, however many they were.

    Its arrays are changed in place by `learn`; copy them to keep a state.
    """

    x: ScaledVector  # the last iterate
    average: Average  # of the iterates, restarted at milestones
    steps: Array  # an array of one number, as are
    norms2: Array  # sum of weight |x|^2
    next_restart: Array  # the number of steps at which the average begins anew
    later_restart: Array  # and that of the restart after it

    @property
    def w(self) -> Array:
        """The answer: the mean of about the last third of the iterates."""
        return average_of(self.x, self.average)

    @property
    def last(self) -> Array:
        """The last iterate."""
        return dense(self.x)

    @property
    def t(self) -> int:
        """Steps so far: rows seen whose weight was not zero."""
        return int(self.steps[0])


def new_online_state(n_weights: int) -> OnlineState:
    """The state before the first row; `n_weights` includes the intercept's, if there is one."""
    numbers = np.array([[0.0], [0.0], [2.0], [3.0]])
    return OnlineState(scaled_vector(np.zeros(n_weights)), new_average(n_weights), *numbers)


def widened_state(state: OnlineState, n_weights: int, *, keep_last: bool = False) -> OnlineState:
    """The same state for more features; with `keep_last` the last weight is an intercept's and stays the last."""
    x, average, *numbers = state
    x = widened_vector(x, n_weights, keep_last=keep_last)
    average = widened_average(average, n_weights, keep_last=keep_last)
    return OnlineState(x, average, *(number.copy() for number in numbers))


def learn(
    rows: Rows,
    y: Array,
    weight: Array,
    loss: Loss,
    state: OnlineState,
    lam: float,
    norms2: Array | None = None,
) -> OnlineState:
    """Visit rows once, in the order in which they come, and go on with the state in place.

    The objective is lambda/2 |w|^2 + mean_i weight_i phi(t_i). Rows given one by one, in chunks or all at once lead
    to the same bits; a row of weight zero changes nothing.

    Parameters
    ----------
    rows : Dense or CSR
        From `rows.as_rows`, which checks them.
    y, weight : ndarray of float64, shape (n_rows,)
        Labels -1 and +1 (or targets), and factors of the loss, zero or more.
    loss : loss object
    state : OnlineState
        From `new_online_state`, of as many weights as the rows ask for (`widened_state`).
    lam : float
        lambda, positive: 1 / (C m) for m rows in all.
    norms2 : ndarray, optional
        The rows' squared lengths, if they are known: `as_rows` returns them.

    Returns
    -------
    OnlineState
        To go on with; its `w` is the answer so far.

    Examples
    --------
    >>> from maxmargin import losses
    >>> from maxmargin.data.rows import as_rows
    >>> rows, norms2 = as_rows(np.array([[2.0, 1.0], [-1.0, -1.0]]))
    >>> state = learn(rows, np.array([1.0, -1.0]), np.ones(2), losses.Hinge(), new_online_state(2), 0.1, norms2)
    >>> state.t
    2
    """
    if not 0.0 < lam < np.inf:
        raise ValueError(f"lambda must be a positive finite number, got {lam!r}")
    if len(state.x.v) != n_weights(rows):
        raise ValueError(f"the rows ask for {n_weights(rows)} weights but the state has {len(state.x.v)}: widen it")
    if not len(y) == len(weight) == n_rows(rows):
        raise ValueError(f"{n_rows(rows)} rows, but {len(y)} labels and {len(weight)} weights")
    if norms2 is None:
        norms2 = squared_norms(rows)
    learn_rows(Examples(rows, y, weight, norms2, loss), state, float(lam))
    return state


@compiled_lean
def learn_rows(data, state, lam):
    """`learn` without checks, for any storage of rows; the cost of an example is its weight."""
    x, average = state.x, state.average
    n = len(data.y)
    for i in range(n):
        if i + LOOKAHEAD < n:
            prefetch_row(data.rows, i + LOOKAHEAD)
        weight = data.cost[i]
        if weight == 0.0:
            continue
        norm2 = weight * data.norms2[i]
        if state.norms2[0] > 0.0:  # a single large row must not make all steps small for good
            norm2 = min(norm2, _LARGEST * state.norms2[0] / state.steps[0])
        state.norms2[0] += norm2
        t = state.steps[0] + 1.0
        state.steps[0] = t
        eta = 1.0 / (lam * t + state.norms2[0] / t)
        z = scaled_dot(data.rows, i, x)
        rate = eta * weight
        slope = truncated_slope(data.loss, argument(data.loss, z, data.y[i]), rate, data.norms2[i])
        kept = max(0.0, 1.0 - eta * lam)
        averaged_decay(x, average, kept)
        if slope != 0.0:
            averaged_add(data.rows, i, rate * slope * sign(data.loss, data.y[i]), x, average, kept * z, data.norms2[i])
        include(x, average, 1.0)
        if t == state.next_restart[0]:  # 2, 3, 4, 6, 8, 12, ..., if the steps have cost what a walk over w does
            if _STEPS_OF_WALK * t * row_size(data.rows, i) >= len(x.v):
                restart(x, average)
            state.next_restart[0], state.later_restart[0] = state.later_restart[0], 2.0 * t
