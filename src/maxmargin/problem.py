"""The problem that every solver solves, and the certificate that every answer carries.

    min_w  P(w) = R(w) + sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i

with C_i = C x class weight x sample weight and R(w) = 1/2 |w|^2 or a norm Omega(w), such as |w|_1 with the L1 penalty
(`penalties`): the objective of LIBLINEAR, and of scikit-learn's LinearSVC. In the scaling of Pegasos and SGD,
lambda/2 |w|^2 + 1/m sum_i phi(t_i), lambda is 1 / (C m). `losses` says what sign and target are, and what the dual
problem looks like.

No dual value exceeds any primal value, so any alpha shows how far any w can be from the optimum:

    P(w) - P(w*) <= P(w) - D(alpha) = 1/2 |w - v|^2 + sum_i slack_i,      v = sum_i alpha_i sign_i x_i.

If R is a norm, alpha must keep its dual norm Omega*(v) <= 1 (every |v_j| <= 1 with the L1 penalty), and the first term
is Omega(w) - w'v. Zero is in the domain of every conjugate, so any alpha becomes feasible when it is divided by
Omega*(v).

If the intercept's weight is not penalised, R is over the other weights, as is the first term of the gap, and alpha must
keep the balance  sum_i alpha_i sign_i = 0: without it the least value of the Lagrangian is minus infinity. Any alpha
becomes balanced when its heavier side, the positive or the negative alpha_i sign_i, is scaled down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin import losses, penalties
from maxmargin._jit import kernel
from maxmargin.losses import Loss, argument, conjugate, derivative, sign, slack, target, value
from maxmargin.parallel import effective_n_jobs, map_blocks
from maxmargin.rows import (
    Array,
    Rows,
    add_row,
    as_rows,
    default_blocks,
    matvec,
    n_features,
    n_rows,
    n_stored,
    n_weights,
    row_blocks,
    row_dot,
)

PENALTIES = penalties.NAMES
_ROUNDING = (
    1e-9  # by which the dual norm of v may exceed 1, or a side the other: `alpha` is then drawn back, not refused
)


class Certificate(NamedTuple):
    """How far an answer can be from the optimum: `dual` <= optimum <= `primal`."""

    primal: float
    dual: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the primal objective."""
        if self.primal == 0.0:
            return 0.0 if self.gap <= 0.0 else np.inf
        return self.gap / self.primal


@dataclass(frozen=True, init=False, eq=False)
class Problem:
    """A regularised risk to minimise: rows, labels, a cost for each row, and a loss. Never changes.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse matrix of shape (n_rows, n_features)
        Not copied if it is C-ordered or CSR, float32 or float64; see `maxmargin.rows.as_rows`.
    y : array-like of shape (n_rows,)
        Labels -1 and +1, or the targets of a regression loss.
    C : float
        Weight of the loss against the penalty.
    loss : str or loss object
        A name from ``losses.names()`` or an object such as ``losses.Huber(0.1)``.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C, row by row. Weight 2 is a row given twice, weight 0 a row left out.
    bias : float
        Value of a virtual constant column, whose weight is the intercept divided by `bias`; 0: no intercept.
    penalty : {"l2", "l1", "l2_norm", "linf"}
        1/2 |w|^2; |w|_1, which makes many weights exactly zero; |w|_2; or the largest |w_j|. See `penalties`.
    penalize_intercept : bool
        Whether the penalty includes the weight of the constant column, as LIBLINEAR's does. If not, the intercept is
        free, as LIBSVM's is: no shift of the features or of a regression's targets changes the other weights.
    n_jobs : int, optional
        Threads for passes over the data. Results do not depend on it.

    Examples
    --------
    >>> problem = Problem([[1.0, 0.0], [0.0, 2.0]], [1, -1], C=1.0, loss="hinge")
    >>> problem.primal(np.zeros(2))
    2.0
    """

    rows: Rows
    y: Array
    cost: Array
    loss: Loss
    norms2: Array
    n_jobs: int
    penalty: str
    penalize_intercept: bool

    def __init__(
        self,
        X: Any,
        y: Any,
        C: float = 1.0,
        loss: str | Loss = "hinge",
        *,
        sample_weight: Any = None,
        bias: float = 0.0,
        n_jobs: int | None = 1,
        penalty: str = "l2",
        penalize_intercept: bool = True,
    ):
        if not 0.0 < C < np.inf:
            raise ValueError(f"C must be a positive finite number, got {C!r}")
        if not np.isfinite(bias):
            raise ValueError(f"bias must be a finite number, got {bias!r}")
        penalties.check(penalty)
        loss = losses.get(loss)
        rows, norms2 = as_rows(X, bias)
        if n_rows(rows) == 0:
            raise ValueError("X has no rows: there is nothing to learn from")
        if n_weights(rows) == 0:
            raise ValueError("X has no features and there is no intercept: there is nothing to learn")
        fields = {
            "rows": rows,
            "y": _check_labels(y, n_rows(rows), loss),
            "cost": C * check_weights(sample_weight, n_rows(rows)),
            "loss": loss,
            "norms2": norms2,
            "n_jobs": effective_n_jobs(n_jobs),
            "penalty": penalty,
            "penalize_intercept": bool(penalize_intercept),
        }
        for name, content in fields.items():
            object.__setattr__(self, name, content)

    def with_labels(self, y: Array, cost: Array | None = None) -> Problem:
        """The same rows with other labels (and costs), as one-vs-rest needs: nothing of X is read again."""
        return self._changed(y=_check_labels(y, self.n_rows, self.loss), cost=self.cost if cost is None else cost)

    def with_jobs(self, n_jobs: int) -> Problem:
        """The same problem, with another number of threads for passes over the data."""
        return self._changed(n_jobs=n_jobs)

    def _changed(self, **changes: Any) -> Problem:
        other = object.__new__(Problem)
        for name in self.__dataclass_fields__:
            object.__setattr__(other, name, changes.get(name, getattr(self, name)))
        return other

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows(self.rows)

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        return n_features(self.rows)

    @property
    def n_weights(self) -> int:
        """Length of w: the features, and one more if there is an intercept."""
        return n_weights(self.rows)

    @cached_property
    def blocks(self) -> Array:
        """Borders of the blocks of rows over which passes are divided."""
        return default_blocks(self.rows)

    @property
    def has_free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.rows.bias != 0.0 and not self.penalize_intercept

    @property
    def n_penalized(self) -> int:
        """How many weights, the first ones, the penalty is over: all, or all but the intercept's."""
        return self.n_features if self.has_free_intercept else self.n_weights

    # ------------------------------------------------------------ objectives

    def decision(self, w: Array) -> Array:
        """x_i'w of every row."""
        return matvec(self.rows, self._weight_vector(w), self.n_jobs)

    def primal(self, w: Array) -> float:
        """P(w)."""
        w = self._weight_vector(w)
        risk = self._sum(_risk, w)
        return self._regulariser(w) + float(risk)

    def dual(self, alpha: Array) -> float:
        """D(alpha); -inf where alpha is not feasible."""
        alpha = self._dual_vector(alpha)
        if self.has_free_intercept:
            above, below = _sides(self.y, self.loss, alpha)
            if abs(above - below) > _ROUNDING * (above + below):
                return -np.inf
            alpha = self.balanced(alpha)
        v = self.weights(alpha)[: self.n_penalized]
        if penalties.is_norm(self.penalty):
            scale = penalties.infeasibility(self.penalty, v)
            if scale > 1.0 + _ROUNDING:
                return -np.inf
            return float(-_conjugates(self.y, self.cost, self.loss, alpha / scale))
        return float(-0.5 * (v @ v) - _conjugates(self.y, self.cost, self.loss, alpha))

    def weights(self, alpha: Array) -> Array:
        """sum_i alpha_i sign_i x_i: the w that belongs to alpha, if the penalty is L2.

        A free intercept belongs to no alpha; the last of these weights is then out of balance by what it is.
        """
        alpha = self._dual_vector(alpha)
        # A block's sum is as long as w: use several blocks only while they are small beside the data.
        affordable = n_stored(self.rows) // (8 * self.n_weights) if self.n_weights else 1
        borders = row_blocks(self.rows, max(1, min(8, affordable)))

        def block(begin: int, end: int) -> Array:
            v = np.zeros(self.n_weights)
            _accumulate(self.rows, self.y, self.loss, alpha, v, begin, end)
            return v

        total, *others = map_blocks(block, borders, self.n_jobs)
        for v in others:
            total += v
        return total

    def balanced(self, alpha: Array) -> Array:
        """Alpha as it must be for a free intercept, sum_i alpha_i sign_i = 0: its heavier side is scaled down.

        Zero is in the domain of every conjugate, so what is feasible stays so. Otherwise alpha itself.
        """
        alpha = self._dual_vector(alpha)
        if not self.has_free_intercept:
            return alpha
        above, below = _sides(self.y, self.loss, alpha)
        if above == below:
            return alpha
        alpha = alpha.copy()
        _scale_side(self.y, self.loss, alpha, above > below, min(above, below) / max(above, below))
        return alpha

    def dual_point(self, w: Array) -> Array:
        """A feasible alpha for any w: alpha_i = -C_i phi'(t_i), optimal when w is.

        With a free intercept it is then `balanced`. With a penalty that is a norm, a part of it: alpha divided by the
        dual norm of v (for L1 the largest |v_j|), if that is more than 1.
        """
        alpha = self.balanced(self._slopes(self._weight_vector(w)))
        if not penalties.is_norm(self.penalty):
            return alpha
        return alpha / penalties.infeasibility(self.penalty, self.weights(alpha)[: self.n_penalized])

    def _slopes(self, w: Array) -> Array:
        """-C_i phi'(t_i) of every row."""
        alpha = np.empty(self.n_rows)
        map_blocks(
            lambda lo, hi: _dual_point(self.rows, self.y, self.cost, self.loss, w, alpha, lo, hi),
            self.blocks,
            self.n_jobs,
        )
        return alpha

    def gap(self, w: Array, alpha: Array, *, belongs: bool = False) -> float:
        """P(w) - D(alpha), or P(w) where that is less: no loss is negative, so zero is a dual bound, too."""
        return self.certificate(w, alpha, belongs=belongs).gap

    def certificate(self, w: Array, alpha: Array | None = None, *, belongs: bool = False) -> Certificate:
        """Bound the distance of P(w) from the optimum.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        alpha : ndarray of shape (n_rows,), optional
            Dual variables. Without them the point ``dual_point(w)`` is used: valid for every w, and tight at the
            optimum of a smooth loss. With a penalty that is a norm they are divided by the dual norm of v (for L1 the
            largest |v_j|), if they must be, and with a free intercept they are `balanced` first.
        belongs : bool
            Promise that w is ``weights(alpha)``, which saves a pass over the data. Without effect for penalties
            that are norms and for a free intercept.
        """
        w = self._weight_vector(w)
        if alpha is None:
            alpha, belongs = self._slopes(w), False
        alpha, n = self.balanced(alpha), self.n_penalized
        is_norm = penalties.is_norm(self.penalty)
        if is_norm:
            v = self.weights(alpha)[:n]
            scale = penalties.infeasibility(self.penalty, v)
            alpha, v = alpha / scale, v / scale
        sums = map_blocks(
            lambda lo, hi: _risk_and_slack(self.rows, self.y, self.cost, self.loss, w, alpha, lo, hi),
            self.blocks,
            self.n_jobs,
        )
        primal = self._regulariser(w) + sum(risk for risk, _ in sums)
        gap = sum(slacks for _, slacks in sums)
        if is_norm:
            gap += penalties.conjugate_gap(self.penalty, w[:n], v)
        elif self.has_free_intercept or not belongs:
            distance = (w - self.weights(alpha))[:n]
            gap += 0.5 * float(distance @ distance)
        # No loss is negative, so zero bounds the optimum from below as well.
        gap = min(gap, primal)
        return Certificate(primal, primal - gap, gap)

    def _regulariser(self, w: Array) -> float:
        """What the penalty adds to P(w)."""
        return penalties.value(self.penalty, w[: self.n_penalized])

    def _weight_vector(self, w: Any) -> Array:
        return _check_vector("w", w, self.n_weights, "weights")

    def _dual_vector(self, alpha: Any) -> Array:
        return _check_vector("alpha", alpha, self.n_rows, "rows")

    def _sum(self, block_kernel: Any, w: Array) -> float:
        return sum(
            map_blocks(
                lambda lo, hi: block_kernel(self.rows, self.y, self.cost, self.loss, w, lo, hi),
                self.blocks,
                self.n_jobs,
            )
        )


def _check_vector(name: str, vector: Any, n: int, what: str) -> Array:
    """A float64 vector of n entries; kernels do not look where they step."""
    vector = np.ascontiguousarray(vector, dtype=np.float64)
    if vector.shape != (n,):
        raise ValueError(f"the problem has {n} {what}, but {name} has shape {vector.shape}")
    return vector


def _check_labels(y: Any, n: int, loss: Loss) -> Array:
    y = np.ascontiguousarray(y, dtype=np.float64)
    if y.shape != (n,):
        raise ValueError(f"X has {n} rows but y has shape {y.shape}")
    if losses.is_margin_loss(loss):
        wrong = np.flatnonzero(np.abs(y) != 1.0)
        if len(wrong):
            raise ValueError(f"labels must be -1 and +1, but y[{wrong[0]}] is {y[wrong[0]]:g}")
    elif not np.isfinite(y).all():
        i = int(np.argmin(np.isfinite(y)))
        raise ValueError(f"y[{i}] is {y[i]}; targets must be finite")
    return y


def check_weights(sample_weight: Any, n: int) -> Array:
    """Weights of n rows as an array, ones if there are none; refused if they are negative, not finite or all zero."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"X has {n} rows but sample_weight has shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(wrong):
        raise ValueError(f"sample_weight[{wrong[0]}] is {weights[wrong[0]]}; weights must be finite and >= 0")
    if not weights.any():
        raise ValueError("all sample weights are zero: there is nothing to learn from")
    return weights


# ---------------------------------------------------------------- passes over the rows


@kernel
def _risk(rows, y, cost, loss, w, lo, hi):
    total = 0.0
    for i in range(lo, hi):
        total += cost[i] * value(loss, argument(loss, row_dot(rows, i, w), y[i]))
    return total


@kernel
def _risk_and_slack(rows, y, cost, loss, w, alpha, lo, hi):
    """Sums of C_i phi(t_i) and of the slacks; the latter infinite if an alpha is not feasible."""
    risk, slacks = 0.0, 0.0
    for i in range(lo, hi):
        if cost[i] > 0.0:
            t = argument(loss, row_dot(rows, i, w), y[i])
            risk += cost[i] * value(loss, t)
            if conjugate(loss, -alpha[i] / cost[i]) == np.inf:
                slacks = np.inf
            slacks += slack(loss, t, alpha[i], cost[i])
        elif alpha[i] != 0.0:
            slacks = np.inf
    return risk, slacks


@kernel
def _conjugates(y, cost, loss, alpha):
    """Sum of C_i phi*(-alpha_i / C_i) - alpha_i target_i."""
    total = 0.0
    for i in range(len(alpha)):
        if cost[i] > 0.0:
            total += cost[i] * conjugate(loss, -alpha[i] / cost[i]) - alpha[i] * target(loss, y[i])
        elif alpha[i] != 0.0:
            total = np.inf
    return total


@kernel
def _sides(y, loss, alpha):
    """Sums of the positive and of the negative alpha_i sign_i, both as positive numbers."""
    above, below = 0.0, 0.0
    for i in range(len(alpha)):
        side = alpha[i] * sign(loss, y[i])
        if side > 0.0:
            above += side
        else:
            below -= side
    return above, below


@kernel
def _scale_side(y, loss, alpha, is_above, factor):
    """Multiply the alpha of one side."""
    for i in range(len(alpha)):
        side = alpha[i] * sign(loss, y[i])
        if side != 0.0 and (side > 0.0) == is_above:
            alpha[i] *= factor


@kernel
def _dual_point(rows, y, cost, loss, w, alpha, lo, hi):
    for i in range(lo, hi):
        alpha[i] = -cost[i] * derivative(loss, argument(loss, row_dot(rows, i, w), y[i]))


@kernel
def _accumulate(rows, y, loss, alpha, v, lo, hi):
    for i in range(lo, hi):
        if alpha[i] != 0.0:
            add_row(rows, i, alpha[i] * sign(loss, y[i]), v)
