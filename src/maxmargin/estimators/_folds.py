"""The folds of a cross validation over C: training them on the rows of all, their scores, the best of them."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators.linear import LinearSVC
from maxmargin.problem import Problem
from maxmargin.selection.paths import solve_paths
from maxmargin.selection.regularization_path import RegularizationPath
from maxmargin.solvers.base import Progress

_FOLDS = 5


class Fold(NamedTuple):
    """What is kept of a fold, for each C."""

    scores: Array
    gaps: Array
    seconds: Array
    passes: Array
    all_converged: bool


class Folds:
    """The folds that are complete, and the one model of theirs that an interrupt would leave."""

    def __init__(self, n_folds: int):
        self.found: list[Fold | None] = [None] * n_folds
        self.best_index = 0
        self.best_weights: list[Array] | None = None  # of each class
        self.lock = threading.Lock()

    def add(self, k: int, fold: Fold, path: RegularizationPath) -> None:
        """Take the k-th fold, and of its models that which is the best by now."""
        with self.lock:
            self.found[k] = fold
            self.best_index = int(from_the_best(path.Cs, mean_scores(self.complete))[0])
            self.best_weights = [result.w for result in path.results[self.best_index]]

    @property
    def complete(self) -> list[Fold]:
        """Those whose models were all trained to the end, or to a limit."""
        return [fold for fold in self.found if fold is not None]


class SharedRows(NamedTuple):
    """What folds share."""

    X: Any
    y: Array
    sample_weight: Array | None
    problem: Problem
    template: LinearSVC
    score: Any


def train_fold(
    rows: SharedRows, split: tuple[Any, Any], values: Array, solver: Any, **options: Any
) -> tuple[Fold, RegularizationPath]:
    """Solve the path of one fold and score its models on the rows held out."""
    train, test = split
    # A row of weight zero is as good as absent: no fold needs a copy of its rows. (One that is named twice counts so.)
    cost = rows.problem.cost * _counts(train, len(rows.y))
    problems = rows.template._problems(rows.problem.with_labels(rows.problem.y, cost), rows.y)
    by_class = solve_paths(problems, values, solver, whole=True, **options)
    held_out, labels = rows.X[test], rows.y[test]
    weights = None if rows.sample_weight is None else rows.sample_weight[test]
    results = [list(each) for each in zip(*by_class)]
    path = RegularizationPath(values, problems.classes, results, rows.template)
    fold = Fold(
        scores=np.array([rows.score(path.model(k), held_out, labels, weights) for k in range(len(path))]),
        gaps=path.relative_gap,
        seconds=path.seconds,
        passes=path.passes,
        all_converged=all(result.stop_reason in ("converged", "callback") for each in results for result in each),
    )
    return fold, path


def number_of_folds(y: Array) -> int:
    """Five, unless a class has not so many rows."""
    return max(2, min(_FOLDS, int(np.unique(y, return_counts=True)[1].min())))


def mean_scores(folds: list[Fold]) -> Array:
    return np.array([fold.scores for fold in folds]).mean(axis=0)


def from_the_best(values: Array, mean: Array) -> Array:
    """From the best score down; of equal ones the smallest C first."""
    return np.lexsort((values, -np.where(np.isfinite(mean), mean, -np.inf)))


def _counts(train: Any, n_rows: int) -> Array:
    """How often a fold trains on each row: indices may name one twice; a mask is as good as indices."""
    train = np.asarray(train)
    return np.bincount(np.flatnonzero(train) if train.dtype == bool else train, minlength=n_rows)


class OfEachRun:
    """A reporter counts the passes of one run; this lets it count those of each C and class."""

    def __init__(self, reporter: Any):
        self.reporter, self.lock = reporter, threading.Lock()
        self.reported: dict[int, tuple[Problem, int]] = {}  # the problem is there to keep its id its own

    def __call__(self, progress: Progress) -> bool:
        problem = progress.problem
        with self.lock:
            self.reporter.n_reported = self.reported.get(id(problem), (problem, 0))[1]
            stop = self.reporter(progress)
            self.reported[id(problem)] = problem, self.reporter.n_reported
        return stop
