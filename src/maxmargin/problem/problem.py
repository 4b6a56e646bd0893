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
from typing import Any

import numpy as np

from maxmargin import losses, penalties
from maxmargin.certificate import Certificate
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, Rows, as_rows
from maxmargin.data.source import RowVector
from maxmargin.losses import Loss
from maxmargin.parallel import effective_n_jobs
from maxmargin.penalties import Penalty
from maxmargin.problem.checks import check_features, check_scale, check_vector, costs
from maxmargin.problem.questions import Questions, write_norms2
from maxmargin.problem.risks import Risk, SumOfLosses
from maxmargin.problem.rounding import RowSums, error_of_planes, rounding_error, row_sums
from maxmargin.problem.steps import (
    add_dual,
    risk_and_slack,
    scale_sides,
    sum_conjugates,
    sum_sides,
    write_dual_point,
)
from maxmargin.vectors import dot

_ROUNDING = 1e-9  # by which the dual norm of v may exceed 1, or a side the other: `alpha` is then drawn back


@dataclass(frozen=True, init=False, eq=False)
class Problem(Questions):
    """A regularised risk to minimise: rows, labels, a cost for each row, and a loss. Never changes.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse matrix of shape (n_rows, n_features), or a source of rows
        Not copied if it is C-ordered or CSR, float32 or float64; see `maxmargin.data.rows.as_rows`. A source, such as
        `maxmargin.data.memory.InMemory`, has its own intercept column and threads: `bias` and `n_jobs` are left out.
    y : array-like of shape (n_rows,) or None
        Labels -1 and +1, or the targets of a regression loss. None: they come later, by `with_labels`.
    C : float
        Weight of the loss against the penalty.
    loss : str or loss object
        A name from ``losses.names()`` or an object such as ``losses.Huber(0.1)``. The default is the textbook's SVM,
        "hinge"; `LinearSVC` has scikit-learn's, "squared_hinge".
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C, row by row. Weight 2 is a row given twice, weight 0 a row left out.
    bias : float
        Value of a virtual constant column, whose weight is the intercept divided by `bias`; 0: no intercept.
    penalty : {"l2", "l1", "l2_norm", "linf"} or penalty object
        1/2 |w|^2; |w|_1, which makes many weights exactly zero; |w|_2; or the largest |w_j|. See `penalties`.
    risk : risk object, optional
        What there is beside the penalty, if not a sum of losses: see `maxmargin.problem.risks`. `loss` is then of no
        account, and y is what the risk asks for.
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

    source: InMemory
    y: Array
    cost: Array
    loss: Loss
    risk: Risk
    penalty: Penalty
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
        penalty: str | Penalty = "l2",
        penalize_intercept: bool = True,
        risk: Risk = SumOfLosses(),  # noqa: B008 - it never changes
    ):
        if not 0.0 < C < np.inf:
            raise ValueError(f"C must be a positive finite number, got {C!r}")
        if not np.isfinite(bias):
            raise ValueError(f"bias must be a finite number, got {bias!r}")
        loss = losses.get(loss)
        if hasattr(X, "make_pass"):
            source, known = X, {}
        else:
            rows, norms2 = as_rows(X, bias)
            check_scale(C, norms2)
            source, known = InMemory((rows,), effective_n_jobs(n_jobs)), {"norms2": norms2}
        if source.n_rows == 0:
            raise ValueError("X has no rows: there is nothing to learn from")
        check_features(source.n_weights)
        if source.n_weights == 0:
            raise ValueError("X has no features and there is no intercept: there is nothing to learn")
        self.__dict__.update(
            known,
            source=source,
            y=np.broadcast_to(1.0, source.n_rows) if y is None else risk.labels(y, source.n_rows, loss),
            cost=costs(source, C, sample_weight),
            loss=loss,
            risk=risk,
            penalty=penalties.get(penalty),
            penalize_intercept=bool(penalize_intercept),
        )
        risk.check(self)

    def with_labels(self, y: Array, cost: Array | None = None) -> Problem:
        """The same rows with other labels (and costs), as one-vs-rest needs: nothing of X is read again."""
        cost = self.cost if cost is None else cost
        other = self._changed(y=self.risk.labels(y, self.n_rows, self.loss), cost=cost)
        if "norms2" in self.__dict__ and cost is self.cost and losses.is_margin_loss(self.loss):
            other.__dict__["_row_sums"] = self._row_sums  # no label is part of them
        return other

    def with_risk(self, risk: Risk, y: Any = None, cost: Array | None = None) -> Problem:
        """The same rows with another risk, and the labels (and costs) that it asks for."""
        labels = risk.labels(self.y if y is None else y, self.n_rows, self.loss)
        other = self._changed(risk=risk, y=labels, cost=self.cost if cost is None else cost)
        risk.check(other)
        return other

    def with_jobs(self, n_jobs: int) -> Problem:
        """The same problem, with another number of threads for passes over the data."""
        return self if n_jobs == self.n_jobs else self.with_source(self.source.with_jobs(n_jobs))

    def with_source(self, source: Any) -> Problem:
        """The same problem, whose rows are had in another way."""
        return self._changed(source=source)

    def _changed(self, **changes: Any) -> Problem:
        other = object.__new__(Problem)
        kept = {name: self.__dict__[name] for name in (*self.__dataclass_fields__, "norms2") if name in self.__dict__}
        other.__dict__.update(kept | changes)
        return other

    @property
    def rows(self) -> Rows:
        """The rows, for methods that visit them one by one: in memory, in one piece."""
        return self.source.rows

    @property
    def n_jobs(self) -> int:
        """Threads for passes over the data."""
        return self.source.n_jobs

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        return self.source.n_features

    @property
    def accesses(self) -> tuple[str, ...]:
        """Ways in which solvers can get at the rows; see `Solver.access`."""
        return self.source.accesses

    @cached_property
    def norms2(self) -> RowVector:
        """Squared length of every row, the virtual column included."""
        return self.over_rows(write_norms2, writes=[np.float64]).vectors[0]

    @cached_property
    def _row_sums(self) -> RowSums:
        return row_sums(self)

    # ------------------------------------------------------------ objectives

    def decision(self, w: Array) -> Array:
        """x_i'w of every row."""
        return self.outputs(self._weight_vector(w))

    def primal(self, w: Array) -> float:
        """P(w)."""
        w = self._weight_vector(w)
        return self.regularizer(w) + self.risk.value(self, w)

    def dual(self, alpha: Array) -> float:
        """D(alpha); -inf where alpha is not feasible."""
        alpha = self._dual_vector(alpha)
        if self.has_free_intercept:
            above, below = self.over_labels(sum_sides, reads=[alpha]).total
            if abs(above - below) > _ROUNDING * (above + below):
                return -np.inf
            alpha = self.balanced(alpha)
        v = self.weights(alpha)[: self.n_penalized]
        if penalties.is_norm(self.penalty):
            scale = penalties.infeasibility(self.penalty, v)
            if scale > 1.0 + _ROUNDING:
                return -np.inf
            return float(-self.over_labels(sum_conjugates, reads=[alpha / scale]).total)
        return float(-0.5 * dot(v, v) - self.over_labels(sum_conjugates, reads=[alpha]).total)

    def weights(self, alpha: Array) -> Array:
        """sum_i alpha_i sign_i x_i: the w that belongs to alpha, if the penalty is L2.

        A free intercept belongs to no alpha; the last of these weights is then out of balance by what it is.
        """
        return self.over_rows(add_dual, reads=[self._dual_vector(alpha)], sums=[self.n_weights]).sums[0]

    def balanced(self, alpha: Array) -> Array:
        """Alpha as it must be for a free intercept, sum_i alpha_i sign_i = 0: its heavier side is scaled down.

        Zero is in the domain of every conjugate, so what is feasible stays so. Otherwise alpha itself.
        """
        alpha = self._dual_vector(alpha)
        if not self.has_free_intercept:
            return alpha
        above, below = self.over_labels(sum_sides, reads=[alpha]).total
        if above == below:
            return alpha
        factors = (below / above, 1.0) if above > below else (1.0, above / below)
        return self.over_labels(scale_sides, shared=[factors], reads=[alpha], writes=[np.float64]).vectors[0]

    def dual_point(self, w: Array) -> Array:
        """A feasible alpha for any w: alpha_i = -C_i phi'(t_i), optimal when w is.

        With a free intercept it is then `balanced`. With a penalty that is a norm, a part of it: alpha divided by the
        dual norm of v (for L1 the largest |v_j|), if that is more than 1.
        """
        alpha = self.balanced(self._slopes(self._weight_vector(w)))
        if not penalties.is_norm(self.penalty):
            return alpha
        return alpha / penalties.infeasibility(self.penalty, self.weights(alpha)[: self.n_penalized])

    def feasible(self, alpha: Array) -> Array:
        """Alpha cut to the bounds of the conjugate of a piecewise quadratic loss."""
        if len(alpha) != self.n_rows:
            raise ValueError(f"cannot start at {len(alpha)} dual variables: the problem has {self.n_rows} rows")
        form = losses.dual_form(self.loss)
        lower, upper = (
            bound * self.cost if np.isfinite(bound) else np.where(self.cost > 0.0, bound, 0.0)
            for bound in (form.lower, form.upper)
        )
        return np.minimum(np.maximum(alpha, lower), upper)

    def _slopes(self, w: Array) -> Array:
        """-C_i phi'(t_i) of every row."""
        return self.over_rows(write_dual_point, shared=[w], writes=[np.float64]).vectors[0]

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
        if not isinstance(self.risk, SumOfLosses):
            raise ValueError(f"the dual variables of rows do not bound {self.risk!r}: ask the solver for a certificate")
        w = self._weight_vector(w)
        if alpha is None:
            alpha, belongs = self._slopes(w), False
        alpha, n = self.balanced(alpha), self.n_penalized
        is_norm = penalties.is_norm(self.penalty)
        if is_norm:
            v = self.weights(alpha)[:n]
            scale = penalties.infeasibility(self.penalty, v)
            alpha, v = alpha / scale, v / scale
        risk, gap = self.over_rows(risk_and_slack, shared=[w], reads=[alpha]).total
        primal = self.regularizer(w) + risk
        if is_norm:
            gap += penalties.conjugate_gap(self.penalty, w[:n], v)
        elif self.has_free_intercept or not belongs:
            distance = (w - self.weights(alpha))[:n]
            gap += 0.5 * float(dot(distance, distance))
        # No loss is negative, so zero bounds the optimum from below as well.
        gap = min(gap, primal)
        return Certificate(primal, primal - gap, gap)

    def with_rounding(self, w: Array, computed: Certificate, alpha: Array | None = None) -> tuple[Certificate, float]:
        """A certificate that holds for exact arithmetic, and what of its gap is there for rounding.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        computed : Certificate
            Of this w, as it comes out of sums of float64.
        alpha : ndarray of shape (n_rows,), optional
            The dual variables, if it is of these.
        """
        if isinstance(self.risk, SumOfLosses):
            error = rounding_error(self, self._row_sums, w, computed.primal, computed.gap, alpha)
        else:
            error = error_of_planes(self, self._row_sums, w, computed.gap)
        primal = computed.primal + error
        gap = min(computed.gap + 2.0 * error, primal)
        return Certificate(primal, primal - gap, gap), 2.0 * error

    def _weight_vector(self, w: Any) -> Array:
        return check_vector("w", w, self.n_weights, "weights")

    def _dual_vector(self, alpha: Any) -> Array:
        return check_vector("alpha", alpha, self.n_rows, "rows")
