"""Budgeted SGD as plainly as the paper has it, and other readings of its text: do any of these merge as often?

Every violating row becomes a support vector of its own, coefficients are scaled down in every step, all partners of the
same label are examined by golden section search on [0, 1] to 0.01, and the last iterate is the answer.

One reading is that of the authors themselves: the solver `BSGD` of github.com/JUQad/BudgetedSdualSVM, which they
published with their later work on dual solvers, and whose comments cite this paper's algorithm line by line. It has no
intercept, lambda = 1 / (n C), eta_t = 1 / (lambda t), a new permutation each pass and counts merges pass by pass, as
"as printed" does. It differs in three things: the first vector has coefficient 1, not eta_1; where the smallest has no
partner of its label, the second smallest is tried; and z is made at an h to 0.001.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.solvers.budget.merging import golden_section

_PRECISION, _FINER = 0.01, 0.001
_LEAST = 1e-300


class Reading(NamedTuple):
    """What the text leaves open, or what may have been meant."""

    drawn: bool = False  # rows with replacement, not a permutation a pass
    spares_newest: bool = False  # the smallest coefficient is sought among the older vectors
    is_exchanged: bool = False  # h by the weights of lines 5 to 7
    is_mirrored: bool = False  # z at 1 - h
    intercept: float = 0.0  # factor of the step of b, which is not penalised
    rate: float = 0.0  # a constant eta; 0: eta_t = 1 / (lambda t)
    offset: float = 0.0  # t0 in passes: eta_t = 1 / (lambda (t + t0))
    is_program: bool = False  # as the authors' later program


READINGS = {
    "as printed": Reading(),
    "the authors' later program": Reading(is_program=True),
    "rows drawn with replacement": Reading(drawn=True),
    "the newest is never the smallest": Reading(spares_newest=True),
    "h by the weights of line 7": Reading(is_exchanged=True),
    "z at 1 - h": Reading(is_mirrored=True),
    "an intercept with the step of w": Reading(intercept=1.0),
    "an intercept with a step 100 times smaller": Reading(intercept=0.01),
    "constant steps, 1": Reading(rate=1.0),
    "constant steps, 0.1": Reading(rate=0.1),
    "steps that begin smaller, t0 = 20 passes": Reading(offset=20.0),
}


class Found(NamedTuple):
    """A model, and how it came about."""

    vectors: np.ndarray
    alpha: np.ndarray
    intercept: float
    frequency: float  # share of the steps that merge
    first: float  # and of those of the first pass
    share: float  # m, the smaller coefficient's share of a merged pair's, in the mean of the last twentieth


def train(
    X: np.ndarray, y: np.ndarray, C: float, gamma: float, budget: int, passes: int, reading: Reading, seed: int = 0
) -> Found:
    """Train on dense rows."""
    rng, n = np.random.default_rng(seed), len(y)
    permutations = [rng.permutation(n) for _ in range(passes)]
    order = rng.integers(0, n, n * passes) if reading.drawn else np.concatenate(permutations)
    vectors, alpha = np.zeros((budget + 1, X.shape[1])), np.zeros(budget + 1)
    rates = 1.0 / (n * C), reading.rate, reading.offset * n, reading.intercept
    flags = reading.spares_newest, reading.is_exchanged, reading.is_mirrored, reading.is_program
    size, b, merges, first, share = _train((X, y, order), gamma, rates, flags, vectors, alpha)
    return Found(vectors[:size], alpha[:size], b, merges / len(order), first / n, share)


def decision(X: np.ndarray, model: Found, gamma: float) -> np.ndarray:
    """f(x) of each row."""
    values = np.empty(len(X))
    for begin in range(0, len(X), 1000):
        some = X[begin : begin + 1000]
        distances = (some**2).sum(axis=1)[:, None] + (model.vectors**2).sum(axis=1) - 2.0 * some @ model.vectors.T
        values[begin : begin + 1000] = np.exp(-gamma * np.maximum(distances, 0.0)) @ model.alpha + model.intercept
    return values


@compiled
def _train(data, gamma, rates, flags, vectors, alpha):
    X, y, order = data
    lam, constant, t0, of_intercept = rates
    kappa = np.zeros(len(alpha))
    size, merges, first, b, shares, n_late = 0, 0, 0, 0.0, 0.0, 0
    for t in range(1, len(order) + 1):
        i = order[t - 1]
        f = b
        for j in range(size):
            kappa[j] = _kernel(X[i], vectors[j], gamma)
            f += alpha[j] * kappa[j]
        eta = constant if constant > 0.0 else 1.0 / (lam * (t + t0))
        for j in range(size):
            alpha[j] *= max(0.0, 1.0 - lam * eta)
        if y[i] * f >= 1.0:
            continue
        vectors[size], alpha[size] = X[i], y[i] if flags[3] and t == 1 else eta * y[i]
        b += of_intercept * eta * y[i]
        size += 1
        if size == len(alpha):
            share = _maintain(vectors, alpha, kappa, gamma, flags)
            merges += share > 0.0
            first += share > 0.0 and t <= len(y)
            if t > 0.95 * len(order):
                shares, n_late = shares + share, n_late + 1
            size -= 1
    return size, b, merges, first, shares / max(1, n_late)


@compiled
def _kernel(x, z, gamma):
    distance = 0.0
    for f in range(len(x)):
        distance += (x[f] - z[f]) ** 2
    return np.exp(-gamma * distance)


@compiled
def _maintain(vectors, alpha, kappa, gamma, flags):
    """Algorithm 1; m of the pair that was merged, or zero if the smallest has no partner of its label."""
    spares_newest, is_exchanged, is_mirrored, is_program = flags
    last = len(alpha) - 1
    p = _smallest(alpha, last if spares_newest else len(alpha), -1)
    best = _best_partner(vectors, alpha, kappa, gamma, p, is_exchanged)
    if best < 0 and is_program:
        p = _smallest(alpha, len(alpha), p)
        best = _best_partner(vectors, alpha, kappa, gamma, p, is_exchanged)
    share = 0.0
    if best >= 0:
        share, k = alpha[p] / (alpha[p] + alpha[best]), max(kappa[best], _LEAST)
        h = golden_section(1.0 - share if is_exchanged else share, k, _FINER if is_program else _PRECISION, 1.0)
        alpha[best] = _merged(alpha[p], alpha[best], k, h)
        h = 1.0 - h if is_mirrored else h
        for f in range(vectors.shape[1]):
            vectors[best, f] = h * vectors[p, f] + (1.0 - h) * vectors[best, f]
    vectors[p], alpha[p] = vectors[last], alpha[last]
    return share


@compiled
def _smallest(alpha, size, excluded):
    p = -1
    for j in range(size - 1, -1, -1):
        if j != excluded and (p < 0 or abs(alpha[j]) < abs(alpha[p])):
            p = j
    return p


@compiled
def _best_partner(vectors, alpha, kappa, gamma, p, is_exchanged):
    """The partner of the same label with the least degradation, or -1; kappa becomes the kernel values of p."""
    best, least = -1, np.inf
    for j in range(len(alpha)):
        kappa[j] = _kernel(vectors[p], vectors[j], gamma)
        if j == p or alpha[j] * alpha[p] <= 0.0:
            continue
        m, k = alpha[p] / (alpha[p] + alpha[j]), max(kappa[j], _LEAST)
        h = golden_section(1.0 - m if is_exchanged else m, k, _PRECISION, 1.0)
        loss = alpha[p] ** 2 + alpha[j] ** 2 - _merged(alpha[p], alpha[j], k, h) ** 2 + 2.0 * alpha[p] * alpha[j] * k
        if loss < least:
            best, least = j, loss
    return best


@compiled
def _merged(one, other, k, h):
    """The coefficient of z."""
    return one * k ** ((1.0 - h) ** 2) + other * k ** (h * h)


def dense(X: Any) -> np.ndarray:
    """Rows as an array of float64."""
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
