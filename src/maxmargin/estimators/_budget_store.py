"""`BudgetSVC.fit` on a store: passes over its blocks, and a sample of its rows for what needs rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.store.store import Store
from maxmargin.estimators._stored import StoredOneVsRest, stored_data
from maxmargin.problem import Problem
from maxmargin.problem.budget_problem import BudgetProblem
from maxmargin.solvers.base import Result, Solver, run
from maxmargin.solvers.budget.refit import BYTES


class StoredRows:
    """The rows of a store for a machine of fixed size: blocks to pass over, and a sample that stands for all.

    Parameters
    ----------
    store : Store
    y, sample_weight : array-like or None
        As in `fit`.
    model : BudgetSVC
        Its parameters.
    """

    def __init__(self, store: Store, y: Any, sample_weight: Any, model: Any):
        if isinstance(model.budget, str):
            raise ValueError('budget="auto" needs rows in memory; give a number of support vectors')
        source, labels, weight = stored_data(store, y, sample_weight, 0.0, 1)
        whole = Problem(source, None, 1.0, "hinge", sample_weight=weight)
        made = StoredOneVsRest(whole, labels, model.class_weight)
        self.store, self.C, self.cost, self.n = store, float(model.C), whole.cost, whole.n_weighted
        self.classes, self.factors = made.classes, made.factors
        row_bytes = store.index.n_bytes // store.n_rows + 1
        room = BYTES // (8 * int(model.budget) + row_bytes), store.memory // (2 * row_bytes)
        self._sample(min(store.n_rows, max(2 * int(model.budget), min(room))))

    def _chunks(self) -> Iterator[tuple[Any, Array, Array]]:
        """Rows, the numbers of their classes, weights: some at a time."""
        begin = 0
        for X, y, *_ in self.store:
            codes = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)  # without weight: any will do
            yield X, codes, np.array(self.cost[begin : begin + len(y)])
            begin += len(y)

    def _sample(self, size: int) -> None:
        """Choose rows at random. Their costs are those of all."""
        chosen = np.zeros(self.store.n_rows, dtype=bool)
        chosen[np.random.default_rng(0).choice(self.store.n_rows, size, replace=False)] = True
        parts, begin = [], 0
        for X, codes, cost in self._chunks():
            mask = chosen[begin : begin + len(codes)] & (cost > 0.0)
            parts.append((X[mask], codes[mask], cost[mask]))
            begin += len(codes)
        self.X, self.y, weight = (stacked(column) for column in zip(*parts))
        self.weight = weight * (self.n / max(1, len(weight)))

    def problem(self, X: Any, codes: Array, weight: Array) -> BudgetProblem:
        """Some rows as a problem."""
        n_classes, factors = len(self.classes), self.factors
        return BudgetProblem(X, codes, n_classes, self.C, sample_weight=weight, class_factors=factors)

    def run(self, solver: Solver, *, max_iter: float, max_time: float | None, start: Any, **options: Any) -> Result:
        """As `solvers.base.run`, over the blocks in their order; rows are permuted within."""
        state = start
        if state is None:
            sample: Any = self.problem(self.X, self.y, self.weight)
            state = solver.init_state(sample, options.get("seed"))._replace(n=float(self.n))
        passes, seconds, entries = 0.0, 0.0, []
        result: Any = None
        while passes < max_iter and (result is None or result.stop_reason == "max_iter"):
            for X, codes, weight in self._chunks():
                if not weight.any():
                    continue
                left = None if max_time is None else max(max_time - seconds, 1e-9)
                share = np.count_nonzero(weight) / self.n
                part = min(1.0, (max_iter - passes) / share)
                chunk = self.problem(X, codes, weight)
                result = run(solver, chunk, max_iter=part, max_time=left, start=state, **options)  # type: ignore[arg-type]
                state, seconds = result.state, seconds + result.seconds
                passes += share * result.passes
                if result.stop_reason != "max_iter" or passes >= max_iter:
                    break
            passes = round(passes, 9)  # shares add up to 1 but for rounding
            entries.append({name: column[-1] for name, column in result.history.items()})
            entries[-1] |= {"seconds": seconds, "passes": passes}
        history = {name: np.array([entry[name] for entry in entries]) for name in entries[0]}
        return replace(result, history=history, passes=passes, seconds=seconds)


def stacked(parts: Any) -> Any:
    """Matrices, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if any(hasattr(part, "tocsr") for part in parts):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts)
