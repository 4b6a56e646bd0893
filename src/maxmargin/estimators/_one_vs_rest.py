"""From class labels to binary problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from maxmargin.data.rows import Array
from maxmargin.problem import Problem
from maxmargin.problem.risks import CrammerSinger


class OneVsRest(Sequence[Problem]):
    """The binary problems of a classification, made when asked for: all at once they may outweigh the data.

    Parameters
    ----------
    problem : Problem
        The rows and their costs; its labels do not matter.
    y : ndarray of shape (n_rows,)
        Class labels.
    class_weight : dict, "balanced" or None

    Attributes
    ----------
    classes : ndarray
        The classes that have a row of positive weight.
    """

    def __init__(self, problem: Problem, y: Array, class_weight: Any):
        self.problem, self.y = problem, y
        self.classes = observed_classes(y, problem.cost)
        self.factors = class_factors(class_weight, self.classes, y, problem.cost)

    def __len__(self) -> int:
        return 1 if len(self.classes) == 2 else len(self.classes)

    def __getitem__(self, k: Any) -> Problem:  # type: ignore[override]
        """The problem that separates class k from the rest, or the second class of two from the first."""
        two = len(self.classes) == 2
        own, other = (self.factors[1], self.factors[0]) if two else (self.factors[k], 1.0)
        positive = self.y == self.classes[1 if two else k]
        cost = self.problem.cost if own == other == 1.0 else self.problem.cost * np.where(positive, own, other)
        return self.problem.with_labels(np.where(positive, 1.0, -1.0), cost)


def check_labels(y: Array) -> None:
    """Refuse what is no classification: numbers with fractions, a label that is missing, text beside numbers."""
    if y.dtype.kind == "O":
        for i, label in enumerate(y):
            if label is None or label != label:
                raise ValueError(f"y has no label in row {i} (counted from 0): it is {label!r}")
        if len({isinstance(label, str) for label in y}) > 1:
            raise ValueError("y has labels of two kinds, text and numbers: make all of them text, or all numbers")
    if y.dtype.kind not in "biuUS":  # which are labels, whatever they are
        check_classification_targets(y)


class AllClasses(Sequence[Problem]):
    """The one problem of all classes together, as Crammer and Singer have it; parameters as of `OneVsRest`."""

    def __init__(self, problem: Problem, y: Array, class_weight: Any):
        self.classes = observed_classes(y, problem.cost)
        labels = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)  # rows without weight: any will do
        cost = problem.cost * class_factors(class_weight, self.classes, y, problem.cost)[labels]
        self.problem = problem.with_risk(CrammerSinger(len(self.classes)), labels, cost)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, k: Any) -> Problem:  # type: ignore[override]
        return (self.problem,)[k]


def observed_classes(y: Array, cost: Array) -> Array:
    classes = np.unique(y[cost > 0.0])
    if len(classes) < 2:
        raise one_class(classes)
    return classes


def one_class(classes: Array) -> ValueError:
    """The error for data of one class, or none."""
    return ValueError(
        "a classifier needs samples of at least 2 classes, "
        f"but the data contains only one class (of positive weight): {', '.join(map(str, classes))}"
    )


def class_factors(class_weight: Any, classes: Array, y: Array, cost: Array) -> Array:
    """Factor of C for each class. Balanced: as if every class had the same total weight."""
    is_balanced = isinstance(class_weight, str) and class_weight == "balanced"
    totals = [cost[y == label].sum() for label in classes] if is_balanced else []
    return factors_of(class_weight, classes, np.array(totals))


def factors_of(class_weight: Any, classes: Array, totals: Array) -> Array:
    """Factor of C for each class; `totals` are their weights, which are looked at for "balanced" alone."""
    if len(classes) < 2:
        raise one_class(classes)
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return totals.sum() / (len(classes) * totals)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f'class_weight must be a dict, "balanced" or None, got {class_weight!r}')
    labels = classes.tolist()
    # A name too many may be a class that this part of the data lacks; with a class left unnamed it is a mistake.
    unknown, unnamed = [name for name in class_weight if name not in labels], set(labels) - set(class_weight)
    if unknown and unnamed:
        raise ValueError(f"class_weight names {unknown}, which are not in y, but not its classes {sorted(unnamed)}")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    if not np.all((factors > 0.0) & np.isfinite(factors)):
        raise ValueError(f"class weights must be positive and finite, got {class_weight!r}")
    return factors


def stream_classes(known: Array | None, y: Array, classes: Any) -> Array:
    """All classes of a stream, of which `known` were found or announced before; what is not among them is refused."""
    if known is None:
        known = np.unique(y if classes is None else classes)
        if len(known) < 2:
            raise ValueError(
                "a classifier needs samples of at least 2 classes, but the data contains only one class: "
                f"{known[0]!s}; name all in partial_fit(X, y, classes=...)"
            )
    elif classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(f"classes={classes!r} is not the same as in the first call: {known!r}")
    strange = np.setdiff1d(y, known)
    if len(strange):
        raise ValueError(f"y has labels {strange.tolist()}, which are not among the classes {known.tolist()}")
    return known
