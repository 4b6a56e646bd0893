"""Cross validation: several folds at a time, all of them on the same rows in memory."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    complain,
    errors_of,
    label_text,
    print_json,
    told_warnings,
    working,
)
from maxmargin.cli._kernel import describe as describe_machine
from maxmargin.cli._report import describe
from maxmargin.parallel import effective_n_jobs, map_ordered
from maxmargin.solvers.interrupts import catch_interrupt

if TYPE_CHECKING:
    pass


def cross_validate(estimator: Any, X: Any, y: np.ndarray, arguments: argparse.Namespace) -> int:
    """Predict each fold by a model of the others; print LIBLINEAR's line, or lines."""
    is_regressor = not hasattr(estimator, "decision_function")
    fold_of_row = stratified_folds(np.zeros(len(y)) if is_regressor else y, arguments.folds, arguments.seed)
    predicted = np.empty(len(y), dtype=y.dtype)
    n_jobs = effective_n_jobs(arguments.jobs)
    together = min(n_jobs, arguments.folds)
    started = time.perf_counter()
    with catch_interrupt() as interrupt, told_warnings() as warnings:

        def one_fold(k: int) -> dict[str, Any]:
            held_out = fold_of_row == k
            fold_estimator = clone(estimator).set_params(n_jobs=max(1, n_jobs // together), verbose=0)
            fold_estimator._run_options = {"interrupt": interrupt}
            begun = time.perf_counter()
            # A row of weight zero is as good as absent: no fold needs a copy of the others' rows.
            fold_estimator.fit(X, y, sample_weight=np.where(held_out, 0.0, 1.0))
            seconds = time.perf_counter() - begun
            predicted[held_out] = fold_estimator.predict(X[held_out])
            tell = describe if hasattr(estimator, "loss") else describe_machine
            fit = tell(fold_estimator, X)
            kept = "primal", "dual", "relative_gap", "passes", "stop_reason", "solver"
            quality = _quality(y[held_out], predicted[held_out], is_regressor)
            return quality | {"seconds": seconds} | {name: fit[name] for name in kept}

        with working(f"cross validation, {arguments.folds} folds", arguments.quiet):
            results = map_ordered(one_fold, range(arguments.folds), together)
        interrupted = any(result["stop_reason"] == "interrupted" for result in results)
        if interrupted:
            warnings.clear()
    if interrupted:
        complain("interrupted; the cross validation is not complete", kind="")
        return INTERRUPTED
    summary = _quality(y, predicted, is_regressor)
    if arguments.json:
        print_json(summary | {"seconds": time.perf_counter() - started, "folds": results})
    elif is_regressor:
        print(f"Cross Validation Mean squared error = {summary['mean_squared_error']:g}")
        print(f"Cross Validation Squared correlation coefficient = {summary['squared_correlation']:g}")
    else:
        print(f"Cross Validation Accuracy = {100.0 * summary['accuracy']:g}%")
    return DONE


def _quality(y: np.ndarray, predicted: np.ndarray, is_regressor: bool) -> dict[str, Any]:
    if is_regressor:
        return errors_of(y, predicted) | {"rows": len(y)}
    correct = int(np.sum(predicted == y))
    return {"accuracy": correct / len(y), "correct": correct, "rows": len(y)}


def stratified_folds(y: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """The fold of each row: of every class each fold gets its share, and folds differ by one row at most."""
    labels, class_of_row, counts = np.unique(y, return_inverse=True, return_counts=True)
    if n_folds > len(y):
        raise ValueError(f"{n_folds} folds of {len(y)} rows: some would be empty; lower -v")
    if len(labels) == 2 and counts.min() < 2:
        rare = label_text(labels[counts.argmin()])
        raise ValueError(f"only one row has the label {rare}: without it there is nothing to train on")
    shuffled = np.random.default_rng(seed).permutation(len(y))
    by_class = shuffled[np.argsort(class_of_row[shuffled], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[by_class] = np.arange(len(y)) % n_folds  # deal them out like cards
    return folds
