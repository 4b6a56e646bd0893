"""What a problem minimises beside its penalty: a convex function R of the rows' outputs.

    SumOfLosses          sum_i C_i phi(t_i),      t_i = sign_i x_i'w - target_i
    Structural(measure)  max_y' [S loss(y', y) - 1/2 sum_i C_i (y_i - y'_i) x_i'w],      S = sum_i C_i
    CrammerSinger(K)     sum_i C_i max_r ([r != y_i] + w_r'x_i - w_{y_i}'x_i),      a w_r for each of K classes
    OneClass(nu)         -min {sum_i alpha_i x_i'w :  0 <= alpha_i <= C_i,  sum_i alpha_i = nu S}

Each is known by its value and by the planes that touch it, R(w') >= a'w' + b for all w'; planes are sums of rows.

* `SumOfLosses`: whatever u_i are chosen, Fenchel and Young have  phi(t) >= u t - phi*(u), so that
  a = sum_i C_i u_i sign_i x_i,  b = -sum_i C_i (phi*(u_i) + u_i target_i)  is a plane, and touches R where
  u_i = phi'(t_i). The offset b does not come from the difference of two large numbers, R(w) - a'w, and the inequality
  holds however inexact the outputs are that the u_i were made from.
* `Structural`: the labelling y' that attains the maximum. Joachims, ICML 2005; see `maxmargin.measures`.
* `CrammerSinger`: the class that attains each maximum. Crammer, Singer: On the algorithmic implementation of
  multiclass kernel-based vector machines, JMLR 2001 (LIBLINEAR's -s 4).
* `OneClass`: min_rho sum_i C_i max(0, rho - x_i'w) - nu S rho, from which rho is gone: minus the sum of the lowest
  outputs, those of a share nu of the rows. Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson: Estimating the support
  of a high-dimensional distribution, Neural Computation 2001 (LIBSVM's -s 2 with the linear kernel: its alpha_i <= 1).

`Structural` and `OneClass` compare rows with each other: they ask for all outputs at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import penalties
from maxmargin._jit import compiled_lean
from maxmargin.data.rows import Array, add_row, prefetch_row, row_dot
from maxmargin.data.source import RowVector
from maxmargin.losses import Loss, argument, conjugate, derivative, sign, target, value
from maxmargin.measures import Measure
from maxmargin.penalties import L2
from maxmargin.problem.checks import check_labels
from maxmargin.vectors import dot

_AT_KINK = 2.0**-43  # relative distance of an output from a kink that rounding explains
_LOOKAHEAD = 4  # rows between asking for a row's cache lines and using them


class Linearization(NamedTuple):
    """The plane that touches a risk somewhere."""

    p: RowVector  # what makes its slope a, by `combine`: mostly the coefficients of the rows
    b: float
    value: float  # R where it touches


@dataclass(frozen=True)
class Risk:
    """What a risk answers. Outputs z are linear in w; z_t are those of another point."""

    n_outputs: ClassVar[int] = 1  # of a row: w is so many weight vectors, one after the other
    is_nonnegative: ClassVar[bool] = True

    def labels(self, y: Any, n_rows: int, loss: Loss) -> Array:
        """The labels as they must be, or an error that says what is wrong."""
        return check_labels(y, n_rows, loss)

    def check(self, problem: Any) -> None:
        """Raise ValueError if the risk is not defined for such rows, or not with this penalty."""

    def steepness(self, problem: Any) -> float:
        """A factor s with  sum_i |p_i| |x_i| <= s sum_i C_i |x_i|  for all planes."""
        return 1.0

    def value(self, problem: Any, w: Array) -> float:
        """R(w)."""
        z = self.outputs(problem, w)
        return float(self.between(problem, z, z, 0.0)[1])

    def outputs(self, problem: Any, w: Array) -> RowVector:
        """x_i'w of every row."""
        return problem.over_rows(_write_outputs, shared=[w], writes=[np.float64]).vectors[0]

    def between(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and R there."""
        raise NotImplementedError

    def linearize(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """The plane that touches R where outputs are z + k (z_t - z)."""
        raise NotImplementedError

    def along(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[float, float]:
        """R where outputs are z + k (z_t - z), and its slope in k there, one of several at a kink."""
        plane = self.linearize(problem, z, z_t, k)
        return plane.value, dot(plane.p, z_t - z)

    def combine(self, problem: Any, p: RowVector) -> Array:
        """The slope a of a plane: sum_i p_i x_i."""
        return problem.over_rows(add_rows, reads=[p], sums=[problem.source.n_weights]).sums[0]


@dataclass(frozen=True)
class SumOfLosses(Risk):
    """A loss for each row, weighed by its cost."""

    def value(self, problem: Any, w: Array) -> float:
        """The sum of C_i phi(t_i), in one pass."""
        return float(problem.over_rows(_sum_losses, shared=[w]).total)

    def between(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and the sum of C_i phi(t_i) there."""
        done = problem.over_labels(_write_between, shared=[k], reads=[z, z_t], writes=[np.float64])
        return done.vectors[0], done.total

    def linearize(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """p_i = C_i phi'(t_i) sign_i."""
        done = problem.over_labels(_linearize, shared=[k], reads=[z, z_t], writes=[np.float64])
        return Linearization(done.vectors[0], *done.total)


@dataclass(frozen=True)
class Structural(Risk):
    """What the labelling costs that is violated most, by a measure of all predictions together."""

    measure: Measure

    def check(self, problem: Any) -> None:
        """A measure must be defined for the labels and costs."""
        _check_penalty(self, problem)
        self.measure.check(problem.y, problem.cost)

    def steepness(self, problem: Any) -> float:
        """The measure knows."""
        return self.measure.steepness(problem.y, problem.cost)

    def between(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and R there."""
        outputs = z + k * (z_t - z)
        return outputs, self.linearize(problem, outputs, outputs, 0.0).value

    def linearize(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """The plane of the most violated labelling."""
        outputs, p = z + k * (z_t - z), np.empty(len(z))
        b = float(self.measure.most_violated(outputs, problem.y, problem.cost, p))
        return Linearization(p, b, max(0.0, b + dot(p, outputs)))


@dataclass(frozen=True)
class OneClass(Risk):
    """Minus the sum of the lowest outputs, up to a total cost of nu S."""

    nu: float

    is_nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu must be above 0 and at most 1, got {self.nu!r}")

    def labels(self, y: Any, n_rows: int, loss: Loss) -> Array:
        """There are none; y may be anything."""
        return np.ones(n_rows)

    def check(self, problem: Any) -> None:
        """There is no intercept."""
        _check_penalty(self, problem)
        if problem.source.bias != 0.0:
            raise ValueError("a one-class problem has no intercept, rho takes its place: make the Problem with bias=0")

    def between(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and R there."""
        outputs = z + k * (z_t - z)
        total, cost = self.nu * problem.total_cost, float(problem.cost[0])
        if problem.cost.min() < problem.cost.max():
            return outputs, -dot(self._lowest(problem, outputs), outputs)
        whole = min(int(total / cost), len(z) - 1)  # rows that count in full: selected, which takes no sorting
        selected = np.partition(outputs, whole)
        return outputs, -float(cost * np.sum(selected[:whole]) + (total - whole * cost) * selected[whole])

    def linearize(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """(-sum_i alpha_i x_i, 0)."""
        outputs = z + k * (z_t - z)
        p = -self._lowest(problem, outputs)
        return Linearization(p, 0.0, dot(p, outputs))

    def rho(self, problem: Any, w: Array) -> float:
        """The highest of the outputs that count: the offset that is best for w."""
        z = problem.outputs(w)
        return float(np.max(z[self._lowest(problem, z) > 0.0]))

    def _lowest(self, problem: Any, z: Array) -> Array:
        """The alpha for which sum_i alpha_i z_i is least."""
        order = np.argsort(z, kind="stable")
        cost = problem.cost[order]
        before = np.cumsum(cost) - cost
        alpha = np.empty(len(z))
        alpha[order] = np.clip(self.nu * problem.total_cost - before, 0.0, cost)
        return alpha


@dataclass(frozen=True)
class CrammerSinger(Risk):
    """What the best wrong class of each row gets too much, or the right one too little; y are classes 0 to K - 1."""

    n_classes: int

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"a classifier needs samples of at least 2 classes, got {self.n_classes}")

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """One a class."""
        return self.n_classes

    def labels(self, y: Any, n_rows: int, loss: Loss) -> Array:
        """Classes by number."""
        codes = np.asarray(y)
        if codes.shape != (n_rows,):
            raise ValueError(f"X has {n_rows} rows but y has shape {codes.shape}")
        if not np.isin(codes, np.arange(self.n_classes)).all():
            raise ValueError(f"classes must be the numbers 0 to {self.n_classes - 1}, but y has others")
        return codes.astype(np.float64)

    def check(self, problem: Any) -> None:
        """All weights are penalised alike."""
        _check_penalty(self, problem)

    def steepness(self, problem: Any) -> float:
        """A row is added to one class and taken from another: in the space of all weights, sqrt(2) times its length."""
        return 2.0**0.5

    def outputs(self, problem: Any, w: Array) -> RowVector:
        """w_r'x_i, a line of n_classes for each row."""
        W = w.reshape(self.n_classes, -1)
        writes, effort = [(np.float64, self.n_classes)], float(self.n_classes)
        return problem.over_rows(_write_class_outputs, shared=[W], writes=writes, effort=effort).vectors[0]

    def between(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[RowVector, float]:
        """The outputs z + k (z_t - z), and R there."""
        writes = [(np.float64, self.n_classes)]
        done = problem.over_labels(_write_classes_between, shared=[k], reads=[z, z_t], writes=writes)
        return done.vectors[0], done.total

    def linearize(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> Linearization:
        """p is the worst class of each row; where that is a wrong one, it costs C_i."""
        done = problem.over_labels(_worst_classes, shared=[k], reads=[z, z_t], writes=[np.int64])
        return Linearization(done.vectors[0], *done.total)

    def along(self, problem: Any, z: RowVector, z_t: RowVector, k: float) -> tuple[float, float]:
        """R where outputs are z + k (z_t - z), and its slope in k there, one of several at a kink."""
        risk, slope = problem.over_labels(_classes_along, shared=[k], reads=[z, z_t]).total
        return float(risk), float(slope)

    def combine(self, problem: Any, p: RowVector) -> Array:
        """Where the worst class is a wrong one, x_i is added to its weights and taken from those of the right one."""
        shape = (self.n_classes, problem.source.n_weights)
        return problem.over_rows(_add_class_rows, reads=[p], sums=[shape], effort=2.0).sums[0].ravel()


def _check_penalty(risk: Risk, problem: Any) -> None:
    name = type(risk).__name__
    if not isinstance(problem.penalty, L2):
        raise ValueError(f"{name} takes the penalty 'l2', not {penalties.name_of(problem.penalty)!r}")
    if problem.has_free_intercept:
        raise ValueError(f"{name} takes no intercept without penalty (penalize_intercept=False)")


# ---------------------------------------------------------------- steps over rows


@compiled_lean
def _sum_losses(block, w):
    rows, y, cost, loss = block
    total = 0.0
    for i in range(len(y)):
        total += cost[i] * value(loss, argument(loss, row_dot(rows, i, w), y[i]))
    return total


@compiled_lean
def _write_outputs(block, w, z):
    for i in range(len(z)):
        z[i] = row_dot(block.rows, i, w)


@compiled_lean
def add_rows(block, p, a):
    """Add p_i x_i of every row to a."""
    rows = block.rows
    for i in range(len(p)):
        if i + _LOOKAHEAD < len(p) and p[i + _LOOKAHEAD] != 0.0:
            prefetch_row(rows, i + _LOOKAHEAD)  # the processor does not expect that rows are left out
        if p[i] != 0.0:
            add_row(rows, i, p[i], a)


@compiled_lean
def _write_class_outputs(block, W, Z):
    for i in range(len(Z)):
        for r in range(len(W)):
            Z[i, r] = row_dot(block.rows, i, W[r])


@compiled_lean
def _add_class_rows(block, worst, a):
    for i in range(len(worst)):
        own, cost = np.int64(block.y[i]), block.cost[i]
        if worst[i] != own and cost > 0.0:
            add_row(block.rows, i, cost, a[worst[i]])
            add_row(block.rows, i, -cost, a[own])


# ---------------------------------------------------------------- steps over labels


@compiled_lean
def _write_between(labels, k, z, z_t, out):
    y, cost, loss = labels
    total = 0.0
    for i in range(len(z)):
        out[i] = z[i] + k * (z_t[i] - z[i])
        total += cost[i] * value(loss, argument(loss, out[i], y[i]))
    return total


@compiled_lean
def _linearize(labels, k, z, z_t, p):
    """The coefficients; b and, as Fenchel and Young are equal here, R.

    An output at a kink, but for rounding, is taken to be right of it: else rounding would choose the plane.
    """
    y, cost, loss = labels
    b, risk = 0.0, 0.0
    for i in range(len(z)):
        output = z[i] + k * (z_t[i] - z[i])
        t = argument(loss, output, y[i])
        u = derivative(loss, t + _AT_KINK * (1.0 + abs(output) + abs(t)))
        level = -cost[i] * (conjugate(loss, u) + u * target(loss, y[i]))
        p[i] = cost[i] * u * sign(loss, y[i])
        b += level
        risk += level + p[i] * output
    return b, risk


@compiled_lean
def _worst(own, k, z, z_t):
    """The class that a row's maximum is attained in, the right one among equals; and the maximum."""
    right = z[own] + k * (z_t[own] - z[own])
    worst, most = own, 0.0
    for r in range(len(z)):
        excess = 1.0 + z[r] + k * (z_t[r] - z[r]) - right
        if r != own and excess > most:
            worst, most = np.int64(r), excess
    return worst, most


@compiled_lean
def _write_classes_between(labels, k, Z, Z_t, out):
    risk = 0.0
    for i in range(len(Z)):
        for r in range(Z.shape[1]):
            out[i, r] = Z[i, r] + k * (Z_t[i, r] - Z[i, r])
        risk += labels.cost[i] * _worst(np.int64(labels.y[i]), k, Z[i], Z_t[i])[1]
    return risk


@compiled_lean
def _classes_along(labels, k, Z, Z_t):
    risk, slope = 0.0, 0.0
    for i in range(len(Z)):
        own = np.int64(labels.y[i])
        worst, most = _worst(own, k, Z[i], Z_t[i])
        risk += labels.cost[i] * most
        slope += labels.cost[i] * (Z_t[i, worst] - Z[i, worst] - (Z_t[i, own] - Z[i, own]))
    return risk, slope


@compiled_lean
def _worst_classes(labels, k, Z, Z_t, worst):
    b, risk = 0.0, 0.0
    for i in range(len(Z)):
        own = np.int64(labels.y[i])
        worst[i], most = _worst(own, k, Z[i], Z_t[i])
        risk += labels.cost[i] * most
        if worst[i] != own:
            b += labels.cost[i]
    return b, risk
