"""Measures of a whole set of predictions, and the convex risk that each of them makes.

Error rate, F1, precision and recall among the first k, and the area under the ROC curve are no sums over rows (but for
the first). Joachims bounds 1 - measure by the structural hinge loss: with z_i = x_i'w, y' any labelling of all rows,

    R(w) = max_y' [ S loss(y', y) - 1/2 sum_i C_i (y_i - y'_i) z_i ],        S = sum_i C_i,   loss = 1 - measure.

The y' that attains the maximum, the most violated labelling, makes a cutting plane: R(w) >= b + sum_i p_i x_i'w with
p_i = -1/2 C_i (y_i - y'_i) and b = S loss(y', y). That is what `most_violated` finds.

The factors S and 1/2 are chosen so that the error rate gives the hinge loss of single rows: a wrong label adds
C_i (1 - y_i z_i), so R(w) = sum_i C_i max(0, 1 - y_i z_i), exactly the risk of `losses.Hinge`. C then means about the
same for all measures. (The C of the program SVM-perf is S / 100: its losses are percentages.)

The measures that count predictions depend on y' through two numbers: how many positives are found (a), how many
negatives are taken for positives (b). For given numbers the best y' takes the positives with the highest outputs, and
the same of the negatives, so that two sorted lists and a search over (a, b) are enough (algorithm 2 of the paper):

* precision and recall at k allow a + b = k only: one number is left, O(n log n) for sorting;
* the F1 loss, 1 - 2a / (P + a + b) for P positives, is concave in b, as is the sum of the b highest outputs. The best b
  is where one more stops to gain; and what one more gains never falls with a, so that b moves up while a does: O(n)
  after sorting, where the paper tries all O(n^2) pairs.

The ROC area labels pairs, of a positive i and a negative j (algorithm 3). Each is a hinge loss of its own,

    R(w) = S / sum_ij C_i C_j  sum_ij C_i C_j max(0, 1 - (z_i - z_j)),

and the pairs that are swapped are counted, for all rows at once, by sorting: O(n log n).

Where it fails: for F1, precision and recall the worst labelling at w = 0 takes the negatives that look most like
positives, as many as there are positives. If positives are rare and hard to tell apart, no w separates them from just
those, and w = 0 is the optimum whatever C is. (It is proven then, and can be seen: all coefficients are zero.) The ROC
area compares with all negatives alike and does not suffer from this.

Joachims: A support vector method for multivariate performance measures, ICML 2005.
Paper -> code: Delta -> loss, a, b as they are, c = P - a, d = N - b, #pos and #neg -> P and N, Psi -> sum_i y'_i x_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._jit import compiled
from maxmargin._names import unknown
from maxmargin.data.rows import Array


class Measure:
    """What a measure can do. Rows of cost zero do not count."""

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """The measure of outputs z for labels y, -1 and +1."""
        raise NotImplementedError

    def loss(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """What is wrong with the outputs, from 0 to 1."""
        return 1.0 - self.value(z, y, cost)

    def check(self, y: Array, cost: Array) -> None:
        """Raise ValueError if the measure, or its plane, is not defined for such rows."""
        _check_counts(self, y, cost)

    def steepness(self, y: Array, cost: Array) -> float:
        """The most that a row's coefficient in a plane can be, as a multiple of its cost."""
        return 1.0

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """Write the coefficients of the rows in the plane that touches R at outputs z to p; its offset b."""
        raise NotImplementedError


@dataclass(frozen=True)
class ErrorRate(Measure):
    """Share of the rows that are on the wrong side of zero. Its risk is the sum of hinge losses."""

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """Share of the cost of rows whose label is not that of their output (zero is negative)."""
        z, y, cost = _counting(z, y, cost)
        return float(np.sum(cost[(z > 0.0) != (y > 0.0)]) / np.sum(cost))

    def loss(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """The error rate is a loss itself."""
        return self.value(z, y, cost)

    def check(self, y: Array, cost: Array) -> None:
        """It is defined for all rows."""

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """Every row with a margin below one gets the wrong label."""
        np.multiply(np.where(y * z < 1.0, -cost, 0.0), y, out=p)
        return float(np.sum(np.abs(p)))


@dataclass(frozen=True)
class F1(Measure):
    """Harmonic mean of precision and recall of the rows above zero."""

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """2a / (2a + b + c)."""
        z, y, cost = _counting(z, y, cost)
        found, wanted = z > 0.0, y > 0.0
        return float(2.0 * np.sum(cost[found & wanted]) / max(np.sum(cost[found]) + np.sum(cost[wanted]), _TINY))

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """The number of positives missed and negatives taken that cost most."""
        order = _Order(z, y, cost)
        a, b = _best_table_of_f1(order.missed, order.z_taken)
        P = len(order.positives)
        return order.plane(a, b, 1.0 - 2.0 * a / (P + a + b), p)


@dataclass(frozen=True)
class PrecisionAtK(Measure):
    """Share of positives among the k rows with the highest outputs; k = 0: as many as there are positives (PRBEP)."""

    k: int = 0

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """a / k; outputs that are equal count as if their order was random."""
        k, found, _ = _found_at(self.k, *_counting(z, y, cost))
        return found / k

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """The worst labelling with exactly k positives, or y itself."""
        order = _Order(z, y, cost)
        k = self.k or len(order.positives)
        return order.plane_at(k, lambda a: 1.0 - a / k, p)


@dataclass(frozen=True)
class RecallAtK(Measure):
    """Share of all positives found among the k rows with the highest outputs; k = 0: as many as there are positives."""

    k: int = 0

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """a / P; outputs that are equal count as if their order was random."""
        _, found, P = _found_at(self.k, *_counting(z, y, cost))
        return found / P

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """The worst labelling with exactly k positives, or y itself."""
        order = _Order(z, y, cost)
        P = len(order.positives)
        return order.plane_at(self.k or P, lambda a: 1.0 - a / P, p)


@dataclass(frozen=True)
class ROCArea(Measure):
    """Share of the pairs, of a positive and a negative row, in which the positive has the higher output."""

    def value(self, z: Array, y: Array, cost: Array | None = None) -> float:
        """Area under the ROC curve: a pair weighs C_i C_j; if its outputs are equal, half of that."""
        z, y, cost = _counting(z, y, cost)
        positive, negative = y > 0.0, y < 0.0
        order = np.argsort(z[negative], kind="stable")
        below = np.append(0.0, np.cumsum(cost[negative][order]))
        sorted_z = z[negative][order]
        wins = below[np.searchsorted(sorted_z, z[positive], "left")]
        wins_and_ties = below[np.searchsorted(sorted_z, z[positive], "right")]
        pairs = np.sum(cost[positive]) * below[-1]
        return float(np.sum(cost[positive] * 0.5 * (wins + wins_and_ties)) / pairs)

    def check(self, y: Array, cost: Array) -> None:
        """There must be rows of both classes."""
        for label, name in ((1.0, "positive"), (-1.0, "negative")):
            if not np.any((y == label) & (cost > 0.0)):
                raise ValueError(f"the ROC area needs rows of both classes, but there is no {name} row")

    def steepness(self, y: Array, cost: Array) -> float:
        """That of a row whose pairs are all swapped, in the class that weighs less."""
        return float(np.sum(cost) / min(np.sum(cost[y > 0.0]), np.sum(cost[y < 0.0])))

    def most_violated(self, z: Array, y: Array, cost: Array, p: Array) -> float:
        """Swap the pairs whose outputs are less than one apart.

        Which pairs these are is decided once, for both of their rows: if rounding had a pair swapped for one row and
        not for the other, the plane would belong to no labelling, and could exceed the risk.
        """
        positives, negatives = (np.flatnonzero((y == label) & (cost > 0.0)) for label in (1.0, -1.0))
        positives = positives[np.argsort(z[positives], kind="stable")]
        negatives = negatives[np.argsort(z[negatives], kind="stable")]
        c_pos, c_neg = cost[positives], cost[negatives]
        # Positive i is swapped with the negatives from first_i on, in their order.
        first = np.searchsorted(z[negatives], z[positives] - 1.0, "right")
        above = np.append(np.cumsum(c_neg[::-1])[::-1], 0.0)
        below = np.cumsum(np.bincount(first, weights=c_pos, minlength=len(negatives) + 1))
        scale = float(np.sum(cost)) / (float(np.sum(c_pos)) * float(np.sum(c_neg)))
        p[:] = 0.0
        p[positives] = -scale * c_pos * above[first]
        p[negatives] = scale * c_neg * below[:-1]
        return float(-np.sum(p[positives]))


_TINY = np.finfo(float).tiny
_BY_NAME: dict[str, type[Measure]] = {
    "error_rate": ErrorRate,
    "f1": F1,
    "precision_at_k": PrecisionAtK,
    "recall_at_k": RecallAtK,
    "roc_area": ROCArea,
}

OF_COUNTS = (F1, PrecisionAtK, RecallAtK)  # of rows: a weight is no factor of these


def names() -> list[str]:
    """Names of all measures.

    Examples
    --------
    >>> "roc_area" in names()
    True
    """
    return list(_BY_NAME)


def name_of(measure: Measure) -> str:
    """Name of a measure object."""
    return next(name for name, known in _BY_NAME.items() if known is type(measure))


def is_ranking(measure: Measure) -> bool:
    """Whether the measure is one of the order of outputs alone, to which an intercept means nothing."""
    return isinstance(measure, (PrecisionAtK, RecallAtK, ROCArea))


def get(measure: str | Measure, k: int = 0) -> Measure:
    """The measure of this name, with this k if it has one; a measure object is returned as it is, checked.

    Examples
    --------
    >>> get("precision_at_k", 10)
    PrecisionAtK(k=10)
    """
    if isinstance(measure, str):
        if measure not in _BY_NAME:
            raise unknown("measure", measure, names())
        measure = _BY_NAME[measure]()
    elif type(measure) not in _BY_NAME.values():
        kinds = f"a name ({', '.join(names())}) or an object of maxmargin.measures"
        raise ValueError(f"measure must be {kinds}, got {measure!r}")
    k = k or getattr(measure, "k", 0)
    if not isinstance(k, (int, np.integer)) or k < 0:
        raise ValueError(f"k must be a whole number of rows, or 0 for as many as there are positives; got {k!r}")
    if k == getattr(measure, "k", 0):
        return measure
    if measure != type(measure)() or not isinstance(measure, (PrecisionAtK, RecallAtK)):
        raise ValueError(f"{measure!r} does not take k={k}")
    return type(measure)(int(k))


# ---------------------------------------------------------------- rows that count


def _counting(z: Array, y: Array, cost: Array | None) -> tuple[Array, Array, Array]:
    """The rows that have a cost, as float64."""
    z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if cost is None:
        return z, y, np.ones(len(y))
    counts = np.asarray(cost) > 0.0
    return z[counts], y[counts], np.asarray(cost, dtype=np.float64)[counts]


def _found_at(k: int, z: Array, y: Array, cost: Array) -> tuple[int, float, int]:
    """k, the (expected) number of positives among the k highest outputs, the number of positives."""
    P = int(np.count_nonzero(y > 0.0))
    k = min(k or P, len(z))
    threshold = np.partition(z, len(z) - k)[len(z) - k]
    above, tied = z > threshold, z == threshold
    places = k - np.count_nonzero(above)
    share = np.count_nonzero(tied & (y > 0.0)) / np.count_nonzero(tied)
    return k, float(np.count_nonzero(above & (y > 0.0)) + places * share), P


def _check_counts(measure: Any, y: Array, cost: Array) -> None:
    name, counting = name_of(measure), cost[cost > 0.0]
    if not np.any((y > 0.0) & (cost > 0.0)):
        raise ValueError(f"measure {name!r} is not defined without a positive row")
    if counting.min() != counting.max():
        raise ValueError(
            f"measure {name!r} counts rows: weights must be 0 or all the same; "
            "for weights of all kinds take 'error_rate' or 'roc_area'"
        )
    if getattr(measure, "k", 0) > len(counting):
        raise ValueError(f"{measure!r} needs {measure.k} rows or more, but there are {len(counting)}")


# ---------------------------------------------------------------- algorithm 2: tables of a and b


class _Order:
    """Rows in the order in which a labelling gives them the wrong label, and what z_i sum up to on the way."""

    def __init__(self, z: Array, y: Array, cost: Array):
        positives, negatives = np.flatnonzero((y > 0.0) & (cost > 0.0)), np.flatnonzero((y < 0.0) & (cost > 0.0))
        self.positives = positives[np.argsort(z[positives], kind="stable")]  # the lowest is missed first
        self.negatives = negatives[np.argsort(-z[negatives], kind="stable")]  # the highest is taken first
        self.z_taken = z[self.negatives]
        self.missed = np.append(0.0, np.cumsum(-z[self.positives]))  # what it gains to miss the first c
        self.cost = float(cost[self.positives[0]])

    def plane(self, a: int, b: int, loss: float, p: Array) -> float:
        """The plane of the labelling that finds a positives, and takes b negatives for positives."""
        n = len(self.positives) + len(self.negatives)
        p[:] = 0.0
        p[self.positives[: len(self.positives) - a]] = -self.cost
        p[self.negatives[:b]] = self.cost
        return self.cost * n * loss

    def plane_at(self, k: int, loss: Any, p: Array) -> float:
        """The best plane with a + b = k, or the plane zero if that is better: y need not have k positives."""
        P, N = len(self.positives), len(self.negatives)
        a = np.arange(max(0, k - N), min(k, P) + 1)
        taken = np.append(0.0, np.cumsum(self.z_taken))
        values = (P + N) * loss(a) + self.missed[P - a] + taken[k - a]
        best = int(np.argmax(values))
        if values[best] <= 0.0:
            p[:] = 0.0
            return 0.0
        return self.plane(int(a[best]), k - int(a[best]), float(loss(a[best])), p)


@compiled
def _best_table_of_f1(missed, z_taken):
    """(a, b) with the largest  n (1 - 2a / (P + a + b)) + missed[P - a] + the sum of the first b of z_taken."""
    P, N = len(missed) - 1, len(z_taken)
    n = P + N
    best, best_a, best_b = 0.0, P, 0  # y itself
    b, taken = 0, 0.0
    for a in range(P + 1):
        while b < N and z_taken[b] + 2.0 * a * n / ((P + a + b) * (P + a + b + 1.0)) > 0.0:
            taken += z_taken[b]
            b += 1
        total = n * (1.0 - 2.0 * a / (P + a + b)) + missed[P - a] + taken
        if total > best:
            best, best_a, best_b = total, a, b
    return best_a, best_b
