"""Risks that tie several outputs together, by cutting planes: multi-class (Crammer and Singer) and one-class SVMs.

    min_w  P(w) = 1/2 |w|^2 + R(w)

multi-class, a weight vector for each class r:
    R(W) = sum_i C_i max_r ([r != y_i] + w_r'x_i - w_{y_i}'x_i)

one-class, without labels (the constraint's dual gives rho; Schoelkopf's nu is a share of all costs S = sum_i C_i):
    min_rho  sum_i C_i max(0, rho - w'x_i) - nu S rho
        =  R(w)  =  -min { sum_i alpha_i w'x_i :  0 <= alpha_i <= C_i,  sum_i alpha_i = nu S }

so that rho is gone: R is minus the sum of the lowest outputs, those of a share nu of the rows. In both cases the terms
of the maximum are planes; the best of them touches R, and is a sum of rows.

Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines, JMLR 2001 (LIBLINEAR's
-s 4). Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson: Estimating the support of a high-dimensional distribution,
Neural Computation 2001 (LIBSVM's -s 2 with the linear kernel, in its scaling: alpha_i <= 1). Announced for OCAS in the
conclusion of Franc and Sonnenburg 2008; planes and reduced problem are those of BMRM (`bmrm`, `_planes`, `_reduced`).

    repeat:  add the plane that touches R at w + mix (w_t - w);   w_t = the solution of the reduced problem
             w = the best of w + 2^-j (w_t - w)       (outputs are combined: a trial is a sum over rows)

These are functions and not solvers of `Problem`: its certificate and its losses are of one output a row.

The certificate of the one-class SVM. Its optimum P* = -1/2 |w*|^2 is negative, so that a gap relative to it is better
told of the dual problem, as LIBSVM does: `primal` is 1/2 |sum_i alpha_i x_i|^2 for a feasible alpha, `dual` is -P(w),
and the least value of the former is between them.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin._jit import lean_kernel
from maxmargin.parallel import map_blocks
from maxmargin.problem import Certificate, Problem
from maxmargin.rows import Array, add_row, default_blocks, row_dot
from maxmargin.solvers._hessian import dot
from maxmargin.solvers._line_search import vector_blocks
from maxmargin.solvers._planes import add_plane, no_planes, reduce
from maxmargin.solvers._risk import SumOfLosses, plane_blocks
from maxmargin.solvers.base import catch_interrupt

_STEPS = 0.5 ** np.arange(9)  # towards the solution of the reduced problem, that are tried
_MIX = 0.1  # how far from the best point towards that solution the next plane touches the risk
_MAX_PASSES = 10_000.0
_ROUNDING = 4e-15  # of the objective: what sums over rows may lose
_VANISHING = 1e-20  # of the first plane's squared length: zero, for the length of a one-class solution


class MulticlassResult(NamedTuple):
    """The answer of `solve_crammer_singer`."""

    W: Array  # a row of weights for each class; the last column is the virtual intercept column's if there is one
    certificate: Certificate
    history: dict[str, Array]
    classes: Array
    stop_reason: str


class OneClassResult(NamedTuple):
    """The answer of `solve_one_class`: a row x belongs to the class if w'x >= rho."""

    w: Array
    rho: float
    certificate: Certificate
    history: dict[str, Array]
    stop_reason: str


def solve_crammer_singer(
    problem: Problem, y: Array, *, tol: float = 1e-3, max_iter: float | None = None, max_time: float | None = None
) -> MulticlassResult:
    """Train all classes at once: minimise 1/2 sum_r |w_r|^2 + sum_i C_i max_r ([r != y_i] + w_r'x_i - w_{y_i}'x_i).

    Parameters
    ----------
    problem : Problem
        The rows and their costs (and threads); its labels and its loss do not matter.
    y : array-like of shape (n_rows,)
        Class labels of any kind.
    tol : float
        Stop when primal - dual <= tol * primal is proven.
    max_iter, max_time : float, optional
        Limits on passes over the data (default 10,000) and on seconds.

    Returns
    -------
    MulticlassResult
        With `W`, `certificate`, `history`, `classes` and `stop_reason`; predict by the largest ``X @ W.T``.

    Examples
    --------
    >>> problem = Problem([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [1, 1, 1], C=1.0)
    >>> result = solve_crammer_singer(problem, ["a", "b", "c"], tol=1e-6)
    >>> result.certificate.relative_gap <= 1e-6
    True
    """
    _check_problem(problem)
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    if labels.shape != (problem.n_rows,):
        raise ValueError(f"X has {problem.n_rows} rows but y has shape {np.shape(y)}")
    if len(classes) < 2:
        raise ValueError(f"a classifier needs samples of at least 2 classes, got only {classes[0]!s}")
    risk = CrammerSinger(problem, labels.astype(np.int64), len(classes))
    found = _minimise(risk, tol, max_iter, max_time)
    W = found.w.reshape(len(classes), problem.n_weights)
    return MulticlassResult(W, found.certificate, found.history, classes, found.stop_reason)


def solve_one_class(
    problem: Problem,
    nu: float = 0.5,
    *,
    tol: float = 1e-3,
    max_iter: float | None = None,
    max_time: float | None = None,
) -> OneClassResult:
    """Find the hyperplane furthest from the origin that leaves a share nu of the rows, or less, on the origin's side.

    Parameters
    ----------
    problem : Problem
        The rows and their costs, without an intercept: rho takes its place. Costs of 1 give LIBSVM's scaling.
    nu : float
        Above 0, at most 1.
    tol : float
        Stop when the gap is proven to be at most tol times 1/2 |sum_i alpha_i x_i|^2, LIBSVM's objective.
    max_iter, max_time : float, optional
        Limits on passes over the data (default 10,000) and on seconds.

    Returns
    -------
    OneClassResult
        With `w`, `rho`, `certificate` (see the module's text), `history` and `stop_reason`.

    Examples
    --------
    >>> problem = Problem([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]], [1, 1, 1], C=1.0)
    >>> result = solve_one_class(problem, nu=0.5, tol=1e-6)
    >>> bool(result.w @ [2.0, 2.0] > result.rho)
    True
    """
    _check_problem(problem)
    if not 0.0 < nu <= 1.0:
        raise ValueError(f"nu must be above 0 and at most 1, got {nu!r}")
    if problem.rows.bias != 0.0:
        raise ValueError("a one-class problem has no intercept, rho takes its place: make the Problem with bias=0")
    risk = OneClass(problem, float(nu))
    found = _minimise(risk, tol, max_iter, max_time)
    return OneClassResult(found.w, risk.rho(found.w), found.certificate, found.history, found.stop_reason)


def _check_problem(problem: Problem) -> None:
    if problem.penalty != "l2":
        raise ValueError(f"structured risks take the penalty 'l2', not {problem.penalty!r}")
    if problem.has_free_intercept:
        raise ValueError("structured risks take no intercept without penalty (penalize_intercept=False)")


# ---------------------------------------------------------------- the risks


class StructuredRisk(Protocol):
    """A maximum of planes, each of which is a sum of rows. Outputs Z are linear in w."""

    n_weights: int
    is_nonnegative: bool

    def outputs(self, w: Array) -> Array:
        """Outputs of all rows."""

    def value(self, Z: Array, Z_t: Array, k: float) -> float:
        """R where outputs are Z + k (Z_t - Z)."""

    def plane(self, Z: Array) -> tuple[Array, float]:
        """(a, b) of the plane that touches R at outputs Z."""


class CrammerSinger:
    """The multi-class risk: what the best wrong class gets too much, or the right one too little."""

    is_nonnegative = True

    def __init__(self, problem: Problem, labels: Array, n_classes: int):
        self.problem, self.labels, self.n_classes = problem, labels, n_classes
        self.n_weights = n_classes * problem.n_weights

    def outputs(self, w: Array) -> Array:
        """w_r'x_i, of shape (n_rows, n_classes)."""
        rows, n_jobs = self.problem.rows, self.problem.n_jobs
        W, Z = w.reshape(self.n_classes, -1), np.empty((self.problem.n_rows, self.n_classes))
        map_blocks(lambda lo, hi: _class_outputs(rows, W, Z, lo, hi), default_blocks(rows), n_jobs)
        return Z

    def value(self, Z: Array, Z_t: Array, k: float) -> float:
        """Sum of C_i max_r ([r != y_i] + z_ir - z_iy)."""
        args = (self.labels, self.problem.cost, Z, Z_t, k)
        blocks = vector_blocks(len(Z))
        return float(sum(map_blocks(lambda lo, hi: _class_risk(*args, lo, hi), blocks, self.problem.n_jobs)))

    def plane(self, Z: Array) -> tuple[Array, float]:
        """Where the worst class is a wrong one, x_i is added to its weights and taken from those of the right one."""
        problem, worst = self.problem, np.empty(len(Z), dtype=np.int64)
        blocks = vector_blocks(len(Z))
        map_blocks(lambda lo, hi: _worst_class(self.labels, Z, worst, lo, hi), blocks, problem.n_jobs)

        def block(lo: int, hi: int) -> Array:
            part = np.zeros((self.n_classes, problem.n_weights))
            _add_class_rows(problem.rows, problem.cost, self.labels, worst, part, lo, hi)
            return part

        a, *others = map_blocks(block, plane_blocks(problem.rows), problem.n_jobs)
        for part in others:
            a += part
        return a.ravel(), float(np.sum(problem.cost[worst != self.labels]))


class OneClass:
    """The one-class risk: minus the sum of the lowest outputs, up to a total cost of nu S."""

    is_nonnegative = False

    def __init__(self, problem: Problem, nu: float):
        self.problem, self.n_weights = problem, problem.n_weights
        self.total = nu * float(np.sum(problem.cost))
        self.is_uniform = problem.cost.min() == problem.cost.max()

    def outputs(self, w: Array) -> Array:
        """w'x_i."""
        return self.problem.decision(w)

    def value(self, Z: Array, Z_t: Array, k: float) -> float:
        """Minus the sum of alpha_i z_i."""
        outputs = Z + k * (Z_t - Z)
        cost = float(self.problem.cost[0])
        if not self.is_uniform:
            return -dot(self._lowest(outputs), outputs)
        whole = min(int(self.total / cost), len(Z) - 1)  # rows that count in full: selected, which takes no sorting
        selected = np.partition(outputs, whole)
        return -float(cost * np.sum(selected[:whole]) + (self.total - whole * cost) * selected[whole])

    def plane(self, Z: Array) -> tuple[Array, float]:
        """(-sum_i alpha_i x_i, 0)."""
        a = np.zeros(self.n_weights)
        SumOfLosses().add_rows(self.problem, -self._lowest(Z), a, 0, len(Z))
        return a, 0.0

    def rho(self, w: Array) -> float:
        """The highest of the outputs that count: the offset that is best for w."""
        z = self.outputs(w)
        return float(np.max(z[self._lowest(z) > 0.0]))

    def _lowest(self, z: Array) -> Array:
        """The alpha for which sum_i alpha_i z_i is least."""
        order = np.argsort(z, kind="stable")
        before = np.cumsum(self.problem.cost[order]) - self.problem.cost[order]
        alpha = np.empty(len(z))
        alpha[order] = np.clip(self.total - before, 0.0, self.problem.cost[order])
        return alpha


# ---------------------------------------------------------------- the loop


class _Minimum(NamedTuple):
    w: Array
    certificate: Certificate
    history: dict[str, Array]
    stop_reason: str


def _minimise(risk: StructuredRisk, tol: float, max_iter: float | None, max_time: float | None) -> _Minimum:
    """Add planes until the gap is proven, or a limit is met."""
    if not tol >= 0.0:
        raise ValueError(f"tol must be >= 0, got {tol!r}")
    started = time.perf_counter()
    limits = (max_iter or _MAX_PASSES, math.inf if max_time is None else max_time)
    w = np.zeros(risk.n_weights)
    Z = Z_touch = risk.outputs(w)
    primal, bound, passes, reason = risk.value(Z, Z, 0.0), -np.inf, 0.0, ""
    planes = no_planes(risk.n_weights, nonnegative=risk.is_nonnegative)
    smallest, history = 0.0, []
    with catch_interrupt() as interrupt:
        while not reason:
            a, b = risk.plane(Z_touch)
            smallest = smallest or _VANISHING * dot(a, a)
            planes, w_t, bound_t = reduce(add_plane(planes, a, b))
            bound = max(bound, bound_t)
            Z_t = risk.outputs(w_t)
            w, Z, primal = _best_on_line(risk, w, Z, primal, w_t, Z_t)
            Z_touch = Z + _MIX * (Z_t - Z)
            passes += 2.0
            certificate = _certificate(risk, primal, bound)
            if _is_proven(certificate, tol, smallest):  # outputs went through many sums: once more, from w
                Z = risk.outputs(w)
                primal = 0.5 * dot(w, w) + risk.value(Z, Z, 0.0)
                certificate = _certificate(risk, primal, bound)
                reason = "converged" if _is_proven(certificate, tol, smallest) else ""
            seconds = time.perf_counter() - started
            history.append((seconds, passes, *certificate[:2], certificate.relative_gap, float(planes.n)))
            if not reason and passes >= limits[0]:
                reason = "max_iter"
            elif not reason and (interrupt.is_set() or seconds >= limits[1]):
                reason = "interrupted" if interrupt.is_set() else "max_time"
    Z = risk.outputs(w)
    certificate = _certificate(risk, 0.5 * dot(w, w) + risk.value(Z, Z, 0.0), bound)
    names = ("seconds", "passes", "primal", "dual", "relative_gap", "planes")
    return _Minimum(w, certificate, dict(zip(names, np.array(history).T, strict=True)), reason)


def _best_on_line(
    risk: StructuredRisk, w: Array, Z: Array, primal: float, w_t: Array, Z_t: Array
) -> tuple[Array, Array, float]:
    """The best of w + k (w_t - w) for the steps k, if that is better than w."""

    def objective(k: float) -> float:
        point = w + k * (w_t - w)
        return 0.5 * dot(point, point) + risk.value(Z, Z_t, k)

    values = [objective(k) for k in _STEPS]
    best = int(np.argmin(values))
    if values[best] >= primal:
        return w, Z, primal
    k = float(_STEPS[best])
    return w + k * (w_t - w), Z + k * (Z_t - Z), values[best]


def _certificate(risk: StructuredRisk, primal: float, bound: float) -> Certificate:
    """P(w) and F_t(w_t), or for a risk below zero the same of the dual problem; with some room for rounding."""
    upper, lower = (primal, bound) if risk.is_nonnegative else (-bound, -primal)
    gap = min(max(upper - lower, 0.0) + _ROUNDING * upper, upper)
    return Certificate(upper, upper - gap, gap)


def _is_proven(certificate: Certificate, tol: float, smallest: float) -> bool:
    return certificate.gap <= tol * certificate.primal or certificate.primal <= smallest


# ---------------------------------------------------------------- kernels


@lean_kernel
def _class_outputs(rows, W, Z, lo, hi):
    for i in range(lo, hi):
        for r in range(W.shape[0]):
            Z[i, r] = row_dot(rows, i, W[r])


@lean_kernel
def _class_risk(labels, cost, Z, Z_t, k, lo, hi):
    total = 0.0
    for i in range(lo, hi):
        right = Z[i, labels[i]] + k * (Z_t[i, labels[i]] - Z[i, labels[i]])
        most = 0.0
        for r in range(Z.shape[1]):
            if r != labels[i]:
                most = max(most, 1.0 + Z[i, r] + k * (Z_t[i, r] - Z[i, r]) - right)
        total += cost[i] * most
    return total


@lean_kernel
def _worst_class(labels, Z, worst, lo, hi):
    for i in range(lo, hi):
        worst[i] = labels[i]
        most = 0.0
        for r in range(Z.shape[1]):
            if r != labels[i] and 1.0 + Z[i, r] - Z[i, labels[i]] > most:
                most = 1.0 + Z[i, r] - Z[i, labels[i]]
                worst[i] = r


@lean_kernel
def _add_class_rows(rows, cost, labels, worst, part, lo, hi):
    for i in range(lo, hi):
        if worst[i] != labels[i] and cost[i] > 0.0:
            add_row(rows, i, cost[i], part[worst[i]])
            add_row(rows, i, -cost[i], part[labels[i]])
