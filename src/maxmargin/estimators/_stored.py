"""Training and prediction on a store: labels are read block by block, and never all in memory at once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.source import RowVector, Source
from maxmargin.data.store.store import Store, StoreRows
from maxmargin.estimators._one_vs_rest import OneVsRest, factors_of
from maxmargin.problem import Problem


def is_stored(X: Any) -> bool:
    """Whether rows are on disk."""
    return isinstance(X, Store)


def see_features(estimator: Any, rows: Any) -> None:
    """Note of a store or a source what `validated` notes of a matrix."""
    estimator.n_features_in_ = rows.n_features
    for name in ("feature_names_in_", "first_index_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    if isinstance(rows, Store) and rows.index.index_base is not None:
        estimator.first_index_ = rows.index.index_base


def stored_data(store: Store, y: Any, sample_weight: Any, bias: float, n_jobs: int) -> tuple[Any, StoredLabels, Any]:
    """The source, labels and weights of a store."""
    if y is not None:
        raise ValueError("a store has labels of its own: fit(store), without y")
    if sample_weight is not None and store.index.has_weights:
        raise ValueError("the store has weights of its own: leave out sample_weight")
    source = store.source(bias, n_jobs)
    if sample_weight is None and store.index.has_weights:
        sample_weight = source.column("weight")
    return source, StoredLabels(source), sample_weight


class StoredLabels:
    """The labels of a store, read when they are asked for.

    Parameters
    ----------
    source : StoreSource
    """

    def __init__(self, source: Any):
        self.source, self.index = source, source.store.index

    def __len__(self) -> int:
        return self.index.n_rows

    def targets(self) -> RowVector:
        """As the targets of a regression."""
        if self.index.label == "names":
            raise ValueError(f"the targets of a regression must be numbers, not names like {self.index.names[0]!r}")
        return self.source.column("y")

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The places and labels, as they are stored, of one block after the other."""
        firsts = self.source.store.first_rows
        for block, (begin, end) in enumerate(itertools.pairwise(firsts)):
            yield slice(begin, end), self.source.store.reader.column(block, "y")

    def problems(self, problem: Problem, class_weight: Any) -> StoredOneVsRest:
        """The binary problems of a classification."""
        return StoredOneVsRest(problem, self, class_weight)


class StoredOneVsRest(OneVsRest):
    """The binary problems of a classification of the rows of a store.

    Parameters
    ----------
    problem : Problem
        The rows and their costs; its labels do not matter.
    labels : StoredLabels
    class_weight : dict, "balanced" or None
    """

    def __init__(self, problem: Problem, labels: StoredLabels, class_weight: Any):
        problem.norms2  # noqa: B018 - made once, all problems have it
        self.problem, self.labels = problem, labels
        totals: Counter[Any] = Counter()
        for place, y in labels.blocks():
            stored, which = np.unique(y, return_inverse=True)
            costs = np.bincount(which.reshape(-1), weights=problem.cost[place], minlength=len(stored))
            totals.update(dict(zip(stored.tolist(), costs.tolist())))
            problem.source.release([problem.cost], place.start, place.stop)
        observed = sorted(
            (labels.index.label_values(np.array(label)).item(), label) for label in totals if totals[label]
        )
        self.stored = [label for _, label in observed]
        self.classes = np.array([name for name, _ in observed])
        self.factors = factors_of(class_weight, self.classes, np.array([totals[label] for label in self.stored]))

    def __getitem__(self, k: Any) -> Problem:  # type: ignore[override]
        """The problem that separates class k from the rest, or the second class of two from the first."""
        two = len(self.classes) == 2
        own, other = (self.factors[1], self.factors[0]) if two else (self.factors[k], 1.0)
        label, problem = self.stored[1 if two else k], self.problem
        signs = self._filled(lambda place, is_own: np.where(is_own, 1.0, -1.0), label)
        cost = problem.cost
        if not own == other == 1.0:
            cost = self._filled(lambda place, is_own: problem.cost[place] * np.where(is_own, own, other), label)
        labelled = problem.with_labels(signs, cost)
        problem.source.release([signs, cost], 0, problem.n_rows)  # they have been looked at
        return labelled

    def _filled(self, numbers: Callable[[slice, Array], Array], label: Any) -> RowVector:
        """A vector made block by block from whether rows have a label."""
        source = self.problem.source
        vector = source.new_vector(np.float64)
        for place, y in self.labels.blocks():
            vector[place] = numbers(place, y == label)
            source.release([vector, self.problem.cost], place.start, place.stop)
        return vector


def outputs_of(X: Any, outputs: Callable[[Any], Array]) -> Array:
    """`outputs` of the rows of a matrix; of a store or a cluster, or of some of its rows, some at a time."""
    if isinstance(X, StoreRows):
        return outputs_of(X.store, outputs)[X.chosen]
    if isinstance(X, Source):
        return np.concatenate(X.of_partitions(outputs))
    return np.concatenate([outputs(chunk[0]) for chunk in X]) if isinstance(X, Store) else outputs(X)
