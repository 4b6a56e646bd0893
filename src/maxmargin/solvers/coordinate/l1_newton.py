"""A Newton step for all active features at once, with the L1 penalty.

    min_d  G'd + 1/2 d'Hd + |w + d|_1,      G = sum_i C_i phi'(t_i) sign_i x_i,      H = sum_i C_i phi''(t_i) x_i x_i'

over the features that are not shrunk, then a search along d for a decrease of P: the step of GLMNET (Friedman, Hastie,
Tibshirani 2010; Yuan, Ho, Lin: An improved GLMNET for L1-regularized logistic regression, JMLR 2012), with H as a
matrix. The model is minimised by coordinate descent as well, but a sweep over it costs k^2 numbers for k features,
however many rows there are. Thousands are affordable, and that is what columns need that nearly depend on each other,
as one-hot codes do. Without them P is soon right to five digits while some |G_j| is still twice what it may be: then
nothing is proven, because alpha must be halved to be feasible. Where sweeps do not get there either (features that were
never scaled), a linear system says where the minimum would be if the present signs were right, and the best point on
the way there, where weights may become zero, is what sweeps go on from (the feature-sign search of Lee, Battle, Raina,
Ng, NIPS 2006, but for the order in which weights leave zero).

A step makes a new point: one that is interrupted while H is summed leaves everything as it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_lean
from maxmargin.data.rows import Array, Dense, Rows, between, matvec, row_size
from maxmargin.data.source import check_pause
from maxmargin.losses import derivative
from maxmargin.problem import Problem
from maxmargin.problem.gram import weighted_gram
from maxmargin.solvers.coordinate.columns import transpose
from maxmargin.solvers.coordinate.coordinates import (
    FLATTEST,
    Columnwise,
    Moving,
    curvature,
    derivatives,
    difference,
    newton_step,
    signed_step,
    violation,
)

_MOST_FEATURES = 2048  # of a matrix
_ACCURACY = 0.01  # share of the violation that is left when the model is solved
_FIRST_SWEEPS, _SWEEPS, _MOST_FACES = 100, 30, 50  # over the model before the first face, and between two
_PART = 1 << 25  # of work, after which a step may be interrupted
_LEAST_STEP = 2.0**-30


class Model(NamedTuple):
    """The quadratic model of P in the active features."""

    features: Array  # ascending
    units: Array  # what the values of each column stand for: 1, or the bias
    X: Rows  # the rows with these features alone
    H: Array
    G: Array


def work_of(columns: Rows, n_rows: int, features: Array) -> float:
    """What a step for these features takes, in stored values that a sweep walks over in the time; often a bit more."""
    k = len(features)
    if not 0 < k <= _MOST_FEATURES:
        return np.inf
    n_values = float(_n_values(columns, features))
    # Pairs of values of a row, if all rows had as many. BLAS multiplies ten of them while a sparse pair is added.
    pairs = 0.5 * n_values * n_values / n_rows * (0.1 if isinstance(columns, Dense) else 1.0)
    return 3.0 * n_values + pairs


@compiled
def _n_values(columns, features):
    total = 0
    for f in range(len(features)):
        total += 1 + row_size(columns, np.int64(features[f]))
    return total


def take_step(problem: Problem, data: Columnwise, here: Moving, features: Array) -> tuple[Moving, float]:
    """The point after a step for some features, in ascending order, and the work it took."""
    work = work_of(data.columns, len(here.t), features)
    model = build(problem, data, here.slope, features, work)
    d, work_of_model = _minimum(model, data.bound[features], here.w[features], 2.5 * work)
    there = _search(data, here, model, d, matvec(model.X, d * model.units, problem.n_jobs))
    return there, work + work_of_model


def build(problem: Problem, data: Columnwise, slope: Array, features: Array, work: float) -> Model:
    """G and H at the present w."""
    n_rows, k = len(slope), len(features)
    X = transpose(data.columns, features)
    D, G, H = np.empty(n_rows), np.empty(k), np.zeros((k, k))
    _curvatures(data, slope, D)
    _gradient(data, slope, features, G)
    size = max(1024, int(_PART * n_rows / work))
    for begin in range(0, n_rows, size):
        check_pause()
        end = min(n_rows, begin + size)
        H += weighted_gram(between(X, begin, end), D[begin:end], problem.n_jobs)
    units = np.where(features == len(data.bound) - 1, data.bias, 1.0)
    return Model(features, units, X, H * np.outer(units, units), G)


@compiled_lean
def _curvatures(data, slope, D):
    for i in range(len(D)):
        D[i] = abs(data.signed_cost[i]) * curvature(data.loss, slope[i])


@compiled_lean
def _gradient(data, slope, features, G):
    for f in range(len(features)):
        G[f], _ = derivatives(data, slope, features[f])


def _minimum(model: Model, bound: Array, weight: Array, most: float) -> tuple[Array, float]:
    """Where the model is least, nearly, and the work it took to find that, about `most`: sweeps, and faces between."""
    k, n_sweeps, n_faces = len(weight), 0, 0
    d, r, goal = np.zeros(k), model.G.copy(), np.inf
    while True:
        n, first, last = _sweeps(model.H, bound, weight, d, r, _SWEEPS if n_faces else _FIRST_SWEEPS)
        n_sweeps, goal = n_sweeps + n, min(goal, _ACCURACY * first)
        work = n_sweeps * k**2 / 8 + n_faces * k**3 / 15
        if last <= goal or work >= most or n_faces == _MOST_FACES:
            return d, work
        d = _best_on_face(model.H, FLATTEST * bound, weight, d, r)
        r, n_faces = model.G + model.H @ d, n_faces + 1


@compiled_lean
def _sweeps(H, bound, weight, d, r, most):
    """Sweeps over the model, d and r = G + H d in place, until little is left of the violation.

    Their number, and the largest violations of the first and of the last.
    """
    first = M = 0.0
    for n in range(most):
        M = 0.0
        for j in range(len(d)):
            now = weight[j] + d[j]
            M = max(M, violation(now, r[j]))
            step, _ = newton_step(now, r[j], max(H[j, j], FLATTEST * bound[j]), True)
            if step != 0.0:
                d[j] = -weight[j] if step == -now else d[j] + step
                for f in range(len(d)):
                    r[f] += step * H[j, f]
        if n == 0:
            first = M
        if _ACCURACY * first >= M:
            return n + 1, first, M
    return most, first, M


def _best_on_face(H: Array, ridge: Array, weight: Array, d: Array, r: Array) -> Array:
    """The least value of the model on the way to its minimum for the present signs; d itself if there is no way."""
    now = weight + d
    face = np.flatnonzero(now)
    signs, G = np.sign(now[face]), r[face]
    matrix = H[np.ix_(face, face)]
    try:
        p = np.linalg.solve(matrix + np.diag(ridge[face]), -(G + signs))
    except np.linalg.LinAlgError:
        return d
    slope, curved = float(p @ (G + signs)), float(p @ matrix @ p)
    if not slope < 0.0:
        return d
    # Along p the slope grows with `curved`, and jumps by 2 |p_j| where weight j becomes zero.
    with np.errstate(divide="ignore"):
        zeros = np.where(p * signs < 0.0, -now[face] / p, np.inf)
    order = np.argsort(zeros)
    jumps = np.cumsum(2.0 * np.abs(p[order]))
    after = slope + curved * zeros[order] + jumps
    i = int(np.argmax(after >= 0.0))  # there the minimum is, or before it
    jumped = jumps[i - 1] if i else 0.0
    inside = -(slope + jumped) / curved if curved > 0.0 else np.inf
    step = min(inside, float(zeros[order[i]]))
    if not step < np.inf:
        return d
    there = d.copy()
    there[face] = np.where(zeros == step, -weight[face], d[face] + step * p)
    return there


def _search(data: Columnwise, here: Moving, model: Model, d: Array, u: Array) -> Moving:
    """Search along d, which changes outputs by u: half the step until P decreases by a hundredth of its slope's."""
    before = here.w[model.features]
    promised = float(model.G @ d + np.sum(np.abs(before + d) - np.abs(before)))
    step = 1.0
    while promised < 0.0 and step >= _LEAST_STEP:
        after = np.where(d == -before, (1.0 - step) * before, before + step * d)  # a zero is a zero
        gain = _change(data, here, u, step) + float(np.sum(np.abs(after) - np.abs(before)))
        if gain <= 0.01 * step * promised:
            there = Moving(here.w.copy(), np.empty(len(here.t)), np.empty(len(here.t)))
            there.w[model.features] = after
            _move(data, here.t, u, step, there)
            return there
        step *= 0.5
    return here


@compiled_lean
def _change(data, here, u, step):
    total = 0.0
    for i in range(len(u)):
        C = data.signed_cost[i]
        total += abs(C) * difference(data.loss, here.t[i], here.slope[i], signed_step(step, C) * u[i])
    return total


@compiled_lean
def _move(data, t, u, step, there):
    for i in range(len(t)):
        there.t[i] = t[i] + signed_step(step, data.signed_cost[i]) * u[i]
        there.slope[i] = derivative(data.loss, there.t[i])
