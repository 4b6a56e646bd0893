"""A Newton step for all active features at once, with the L1 penalty.

    min_d  G'd + 1/2 d'Hd + |w + d|_1,      G = sum_i C_i phi'(t_i) sign_i x_i,      H = sum_i C_i phi''(t_i) x_i x_i'

over the features that are not shrunk, then a search along d for a decrease of P: the step of GLMNET (Friedman, Hastie,
Tibshirani 2010; Yuan, Ho, Lin: An improved GLMNET for L1-regularized logistic regression, JMLR 2012), with H as a
matrix. The model is minimised by coordinate descent as well, but a sweep over it costs k^2 numbers for k features,
however many rows there are. Thousands are affordable, and that is what columns need that nearly depend on each other,
as one-hot codes do. Without them P is soon right to five digits while some |G_j| is still twice what it may be: then
nothing is proven, because alpha must be halved to be feasible.

A step is made in parts of about 10 ms, and what there is of it is a NamedTuple: a checkpoint can hold it. w does not
move until its end.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from maxmargin._jit import kernel, lean_kernel
from maxmargin.gram import weighted_gram
from maxmargin.losses import derivative
from maxmargin.problem import Problem
from maxmargin.rows import Array, Dense, Rows, matvec, n_stored, row_size
from maxmargin.solvers._columns import transpose
from maxmargin.solvers._coordinates import (
    FLATTEST,
    curvature,
    derivatives,
    difference,
    newton_step,
    signed_step,
    violation,
)

_MOST_FEATURES = 2048  # of a matrix
_ACCURACY = 0.01  # share of the violation that is left when the model is solved
_PART = 1 << 23  # of work for which a step goes on before it pauses
_LEAST_STEP = 2.0**-30


class Model(NamedTuple):
    """A step on its way; no features where there is none."""

    features: Array  # ascending
    H: Array  # of the rows before position
    position: int
    d: Array
    r: Array  # G + H d; empty before H is complete
    sweeps: int  # over the model
    M: float  # the largest violation of the first of them; zero when the model is solved


def no_model() -> Model:
    """That of a run which is sweeping over the data."""
    nothing = np.zeros(0)
    return Model(np.zeros(0, dtype=np.int64), np.zeros((0, 0)), 0, nothing, nothing, 0, 0.0)


def begin(features: Array) -> Model:
    """Nothing is built yet."""
    k = len(features)
    return no_model()._replace(features=np.sort(features).astype(np.int64), H=np.zeros((k, k)), d=np.zeros(k), M=np.inf)


def work_of(columns: Rows, n_rows: int, features: Array) -> float:
    """What a step for these features takes, in stored values that a sweep walks over in the time; often a bit more."""
    k = len(features)
    if not 0 < k <= _MOST_FEATURES:
        return np.inf
    n_values = float(_n_values(columns, features))
    # Pairs of values of a row, if all rows had as many. BLAS multiplies ten of them while a sparse pair is added.
    pairs = 0.5 * n_values * n_values / n_rows * (0.1 if isinstance(columns, Dense) else 1.0)
    return 3.0 * n_values + pairs


@kernel
def _n_values(columns, features):
    total = 0
    for f in range(len(features)):
        total += 1 + row_size(columns, np.int64(features[f]))
    return total


def advance(problem: Problem, data: Any, w: Array, t: Array, slope: Array, model: Model) -> tuple[Model, int]:
    """Do a part of a step, the last of which changes w, t and slope in place; what it took."""
    n_rows, k = len(t), len(model.features)
    X = _active(problem, data.columns, model.features)
    units = np.where(model.features == len(w) - 1, data.bias, 1.0)
    work = work_of(data.columns, n_rows, model.features)
    if model.position < n_rows:
        end = min(n_rows, model.position + max(1024, int(_PART * n_rows / work)))
        D = np.empty(end - model.position)
        _curvatures(data, slope, D, model.position)
        H = model.H + weighted_gram(_part(X, model.position, end), D, problem.n_jobs)
        used = int(work * (end - model.position) / n_rows)
        return model._replace(H=H * np.outer(units, units) if end == n_rows else H, position=end), used
    if len(model.r) == 0:
        return model._replace(r=_gradient(data, slope, model.features, units)), n_stored(X)
    if model.M > 0.0:
        most = 100 + int(20.0 * work / k**2)  # about as much time as H took
        n = min(most - model.sweeps, 1 + 4 * _PART // k**2)
        n, M = _solve(model.H, data.bound[model.features], w[model.features], model.d, model.r, model.M, n)
        M = 0.0 if model.sweeps + n >= most else float(M)
        return model._replace(sweeps=model.sweeps + int(n), M=M), int(n) * k * k // 8
    _take(problem, data, (w, t, slope), model, matvec(X, model.d * units, problem.n_jobs))
    return no_model(), n_stored(X)


_known: WeakKeyDictionary[Problem, tuple[Array, Rows]] = WeakKeyDictionary()


def _active(problem: Problem, columns: Rows, features: Array) -> Rows:
    """The rows of X with the active features alone."""
    known = _known.get(problem)
    if known is None or not np.array_equal(known[0], features):
        known = _known[problem] = features, transpose(columns, features)
    return known[1]


def _part(X: Rows, lo: int, hi: int) -> Rows:
    if isinstance(X, Dense):
        return X._replace(values=X.values[lo:hi])
    return X._replace(indptr=X.indptr[lo : hi + 1])


@lean_kernel
def _curvatures(data, slope, D, begin):
    for i in range(len(D)):
        D[i] = abs(data.signed_cost[begin + i]) * curvature(data.loss, slope[begin + i])


def _gradient(data: Any, slope: Array, features: Array, units: Array) -> Array:
    """G."""
    G = np.empty(len(features))
    _fill_gradient(data, slope, features, G)
    return G * units


@lean_kernel
def _fill_gradient(data, slope, features, G):
    for f in range(len(features)):
        G[f], _ = derivatives(data.columns, features[f], data.loss, slope, data.signed_cost)


@lean_kernel
def _solve(H, bound, weight, d, r, first, n_sweeps):
    """Sweeps over the model, d and r in place: how many, and M of the very first, zero when it is solved."""
    k = len(d)
    for n in range(1, n_sweeps + 1):
        M = 0.0
        for j in range(k):
            now = weight[j] + d[j]
            M = max(M, violation(now, r[j]))
            step, _ = newton_step(now, r[j], max(H[j, j], FLATTEST * bound[j]), True)
            if step != 0.0:
                d[j] = -weight[j] if step == -now else d[j] + step
                for f in range(k):
                    r[f] += step * H[j, f]
        if first == np.inf:
            first = M
        if first >= M / _ACCURACY:
            return n, 0.0
    return n_sweeps, first


def _take(problem: Problem, data: Any, moving: tuple[Array, Array, Array], model: Model, u: Array) -> None:
    """Search along d: half the step until P decreases by a hundredth of what the slope promises."""
    w, t, slope = moving
    features, d = model.features, model.d
    before = w[features]
    promised = float((model.r - model.H @ d) @ d + np.sum(np.abs(before + d) - np.abs(before)))
    step = 1.0
    while promised < 0.0 and step >= _LEAST_STEP:
        after = np.where(d == -before, (1.0 - step) * before, before + step * d)  # a zero is a zero
        gain = _change(data, t, slope, u, step) + float(np.sum(np.abs(after) - np.abs(before)))
        if gain <= 0.01 * step * promised:
            w[features] = after
            _move(data, t, slope, u, step)
            return
        step *= 0.5


@lean_kernel
def _change(data, t, slope, u, step):
    total = 0.0
    for i in range(len(t)):
        C = data.signed_cost[i]
        total += abs(C) * difference(data.loss, t[i], slope[i], signed_step(step, C) * u[i])
    return total


@lean_kernel
def _move(data, t, slope, u, step):
    for i in range(len(t)):
        t[i] += signed_step(step, data.signed_cost[i]) * u[i]
        slope[i] = derivative(data.loss, t[i])
