"""Whom would each method merge? Table 3's right half: decisions side by side in one and the same training.

Golden section search to a precision of 0.01 decides, as in "standard" BSGD. At each event the table of WD and golden
section search to 1e-10 are asked, too. The loss of each is the true one, of the partner it prefers at the h that it
would merge at; the least is that of the precise search. A factor is the sum of the losses over the sum of the least.
(Not the mean of loss / least, which has no bound: if an h is off by d, that is about d^2 / (1 - kappa), and neighbours
may be as close as rounding allows.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import kernel
from maxmargin._random import shuffle
from maxmargin.solvers._budget_maintenance import (
    MERGES,
    _best_partner,
    _merge,
    _row_of_vector,
    _share,
    added,
    drop,
    maintain,
    smallest,
)
from maxmargin.solvers.budget_sgd import BudgetProblem, BudgetSGD, _steps
from maxmargin.solvers.merging import (
    PRECISE,
    GoldenSection,
    LookupWD,
    degradation,
    merge_position,
    tables,
)

EVENTS, EQUAL, LEAST, LOSS_GSS, LOSS_LOOKUP = range(5)


class Watched(NamedTuple):
    """The maintenance of `standard`, with the others looking on."""

    standard: GoldenSection
    lookup: LookupWD
    precise: GoldenSection
    seen: np.ndarray


@added.register(Watched)
def _(method, e, size):
    pass


@maintain.register(Watched)
def _(method, e, size, exhaustive):
    p = smallest(e.alpha, size)
    kappa = e.values if p == size - 1 else _row_of_vector(e, p, size)
    chosen = _best_partner(method.standard, e, p, kappa, size, True)
    if chosen >= 0:
        by_table = _best_partner(method.lookup, e, p, kappa, size, True)
        best = _best_partner(method.precise, e, p, kappa, size, True)
        seen = method.seen
        seen[EVENTS] += 1.0
        seen[EQUAL] += chosen == by_table
        seen[LEAST] += _loss(method.precise, e.alpha[0], p, best, kappa)
        seen[LOSS_GSS] += _loss(method.standard, e.alpha[0], p, chosen, kappa)
        seen[LOSS_LOOKUP] += _loss(method.lookup, e.alpha[0], p, by_table, kappa)
        _merge(method.standard, e, p, chosen, min(1.0, np.float64(kappa[chosen])))
        e.tally[MERGES] += 1
    return drop(e, p, size)


@kernel
def _loss(search, alpha, p, j, kappa):
    """What merging p and j really loses, at the h of this search."""
    m, k = _share(alpha[p], alpha[j]), min(1.0, np.float64(kappa[j]))
    return (alpha[p] + alpha[j]) ** 2 * degradation(m, k, merge_position(search, m, k))


def compare(solver: BudgetSGD, problem: BudgetProblem, passes: int, seed: int) -> dict[str, Any]:
    """Share of equal decisions and the factors over the exact WD, in `passes` passes."""
    method = Watched(GoldenSection(0.01), LookupWD(tables(solver.grid)), GoldenSection(PRECISE), np.zeros(5))
    state = solver.init_state(problem, seed)
    expansion, size, violations, n = solver._expansion(state), 0, 0, len(state.order)
    for number in range(passes):
        shuffle(state.order, n, state.stream)
        size, violations, *_ = _steps(
            (problem.rows, problem.norms2, problem.y, problem.cost),
            expansion,
            (method, solver.budget, True),
            (state.order, state.offset, state.mean_offset, state.n, solver.bias**2),
            (size, number * n, violations, 0, n),
        )
    seen = method.seen
    return {
        "frequency": float(seen[EVENTS]) / (passes * n),
        "equal": _ratio(seen[EQUAL], seen[EVENTS]),
        "factor_gss": _ratio(seen[LOSS_GSS], seen[LEAST]),
        "factor_lookup": _ratio(seen[LOSS_LOOKUP], seen[LEAST]),
    }


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0.0 else 1.0
