"""Whom would each method merge? Table 3's right half: decisions side by side in one and the same training.

Golden section search to a precision of 0.01 decides, as in "standard" BSGD. At each event the table of WD, golden
section search to 1e-10 and the text's own tables (`literal.py`) are asked, too. The loss of each is the true one, of
the partner it prefers at the h that it would merge at; the least is that of the precise search. A factor is the sum of
the losses over the sum of the least. (Not the mean of loss / least, which has no bound: if an h is off by d, that is
about d^2 / (1 - kappa), and neighbours may be as close as rounding allows.)

Losses are those of w, whose coefficients are n / t times those that `BudgetSGD` keeps. If that is left out ("even"),
late merges count as much as early ones, in which no vector had been added to hundreds of times yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin._random import shuffle
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.budget.budget_sgd import Budget, BudgetSGD, Constants, Reached, Span, steps
from maxmargin.solvers.budget.maintenance import (
    _best_partner,
    _merge,
    _row_of_vector,
    _share,
    added,
    drop,
    maintain,
    smallest,
)
from maxmargin.solvers.budget.merging import (
    PRECISE,
    GoldenSection,
    LookupWD,
    degradation,
    merge_position,
    tables,
)
from maxmargin.solvers.visits import examples
from papers.budget.literal import NAMES, LiteralWD, literal

BLOCK = 0.03  # of the steps so far: steps that are taken to have the same n / t
EVENTS, EQUAL, LEAST, LOSS_GSS, LOSS_LOOKUP, N_SEEN = range(6)


class Watched(NamedTuple):
    """The maintenance of `standard`, with the others looking on."""

    standard: GoldenSection
    lookup: LookupWD
    precise: GoldenSection
    literals: tuple[LiteralWD, ...]
    seen: np.ndarray  # sums of the names above, then for each literal its equal decisions and its losses


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
        for k in range(len(method.literals)):
            by_paper = _best_partner(method.literals[k], e, p, kappa, size, True)
            seen[N_SEEN + 2 * k] += best == by_paper
            seen[N_SEEN + 2 * k + 1] += _loss(method.literals[k], e.alpha[0], p, by_paper, kappa)
        _merge(method.standard, e, p, chosen, min(1.0, np.float64(kappa[chosen])))
        e.tally[0]["merges"] += 1
    return drop(e, p, size)


@compiled
def _loss(search, alpha, p, j, kappa):
    """What merging p and j really loses, at the h of this search."""
    m, k = _share(alpha[p], alpha[j]), min(1.0, np.float64(kappa[j]))
    return (alpha[p] + alpha[j]) ** 2 * degradation(m, k, merge_position(search, m, k))


def compare(solver: BudgetSGD, problem: BudgetProblem, passes: int, seed: int) -> dict[str, Any]:
    """Share of equal decisions and the factors over the exact WD, in `passes` passes; of each literal variant, too."""
    method = Watched(
        GoldenSection(0.01),
        LookupWD(tables(solver.grid)),
        GoldenSection(PRECISE),
        tuple(literal(name, solver.grid) for name in NAMES),
        np.zeros(N_SEEN + 2 * len(NAMES)),
    )
    state = solver.init_state(problem, seed)
    expansion, reached, n = solver._expansion(state), Reached(0, 0, 0, 0), len(state.order)
    even, scaled = np.zeros_like(method.seen), np.zeros_like(method.seen)
    for _ in range(passes):
        shuffle(state.order, n, state.rng)
        end = 0
        while end < n:
            begin, end = end, min(n, end + max(16, int(BLOCK * reached.steps)))
            method.seen[:] = 0.0
            reached, _ = steps(
                examples(problem),
                expansion,
                Budget(method, solver.budget, True),
                Constants(state.n, solver.bias**2, state.offset, state.mean_offset),
                Span(state.order, begin, end),
                reached,
            )
            even += method.seen
            scaled += method.seen / reached.steps**2
    return {
        "frequency": float(even[EVENTS]) / (passes * n),
        "equal": _ratio(even[EQUAL], even[EVENTS]),
        "factor_gss": _ratio(scaled[LOSS_GSS], scaled[LEAST]),
        "factor_lookup": _ratio(scaled[LOSS_LOOKUP], scaled[LEAST]),
        "even_factor_gss": _ratio(even[LOSS_GSS], even[LEAST]),
        "literal_equal": [_ratio(part, even[EVENTS]) for part in even[N_SEEN::2]],
        "literal_factor": [_ratio(part, scaled[LEAST]) for part in scaled[N_SEEN + 1 :: 2]],
    }


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0.0 else 1.0
