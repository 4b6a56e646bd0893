"""Train on built-in data and show what comes out: the certificate, the accuracy, and scikit-learn beside it.

Takes some seconds, needs no files and leaves none.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

from maxmargin.cli._console import (
    DONE,
    INTERRUPTED,
    announced_compilation,
    complain,
    counted,
    on_a_terminal,
    print_table,
    working,
)

_N_TRAIN, _N_TEST, _N_WORDS, _WORDS_A_ROW, _NOISE = 50_000, 10_000, 8_000, 60, 0.05
_TOL = 1e-6  # about what scikit-learn's default comes to on these data, so that the times can be compared

_NEXT = """\
In Python:
    from maxmargin import LinearSVC
    clf = LinearSVC(C=1.0).fit(X, y)
    clf.certificate_.relative_gap      # proven, for every fit

On your own data, as svmlight text (also .gz .bz2 .xz .zst):
    maxmargin train DATA MODEL
    maxmargin evaluate TEST MODEL"""


class _Split(NamedTuple):
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""


def run(arguments: argparse.Namespace) -> int:
    """Make data, train twice, compare."""
    with announced_compilation(quiet=False):
        with working("making up documents", quiet=False):
            data = _make_data()
        _introduce(data)
        ours, seconds = _train_ours(data)
    if ours.stop_reason_ == "interrupted":
        complain("interrupted", kind="")
        return INTERRUPTED
    with working("now scikit-learn, for comparison", quiet=False):
        theirs, their_seconds = _train_theirs(data)

    lower_bound = ours.certificate_.dual
    rows = [
        ["maxmargin", f"{seconds:.2f}", *_outcome(ours, data, lower_bound)],
        ["scikit-learn", f"{their_seconds:.2f}", *_outcome(theirs, data, lower_bound)],
    ]
    print_table(["LinearSVC of", "seconds", "objective", "gap, proven", "accuracy"], rows)
    ratio = their_seconds / seconds
    speed = f"{ratio:.1f} times as fast" if ratio >= 1.0 else f"this time {1.0 / ratio:.1f} times as slow"
    print(f"""
Both minimise 1/2 |w|^2 + sum_i max(0, 1 - y_i f(x_i))^2, to about the same precision; maxmargin was {speed}.
The gap is how far the objective can be from its optimum, relative to it. maxmargin proves such a bound for every
model that it trains, and stops when it is small enough; here that took {counted(ours.n_iter_, "pass")} over the data.

{_NEXT}""")
    return DONE


def _make_data() -> _Split:
    from maxmargin.data.generators import make_text

    X, y = make_text(_N_TRAIN + _N_TEST, _N_WORDS, _WORDS_A_ROW, _NOISE, random_state=0)
    return _Split(X[:_N_TRAIN], y[:_N_TRAIN], X[_N_TRAIN:], y[_N_TRAIN:])


def _introduce(data: _Split) -> None:
    print(f"Documents made up on the spot: {counted(_N_TRAIN, 'row')} to train on, {_N_TEST:,} to test on,")
    contents = f"{_N_WORDS:,} words, {counted(data.X.nnz, 'nonzero')}"
    print(f"{contents}, {_NOISE:.0%} of the labels wrong on purpose.\n", flush=True)


def _train_ours(data: _Split) -> tuple[Any, float]:
    from maxmargin import LinearSVC

    LinearSVC(tol=_TOL).fit(data.X[:100], data.y[:100])  # compiles, the first time, off the clock
    started = time.perf_counter()
    classifier = LinearSVC(tol=_TOL, verbose=int(on_a_terminal())).fit(data.X, data.y)
    return classifier, time.perf_counter() - started


def _train_theirs(data: _Split) -> tuple[Any, float]:
    from sklearn.svm import LinearSVC

    started = time.perf_counter()
    classifier = LinearSVC(random_state=0).fit(data.X, data.y)
    return classifier, time.perf_counter() - started


def _outcome(classifier: Any, data: _Split, lower_bound: float) -> list[str]:
    """What to compare: the objective, how far it can be from the optimum, and the accuracy on rows not seen."""
    objective = _objective(classifier, data)
    gap = max(0.0, (objective - lower_bound) / objective)
    return [f"{objective:.3f}", f"{gap:.1e}", f"{classifier.score(data.X_test, data.y_test):.2%}"]


def _objective(classifier: Any, data: _Split) -> float:
    """Of either classifier, by the same formula; the intercept is penalised as any weight."""
    import numpy as np

    w, b = classifier.coef_.ravel(), float(classifier.intercept_[0])
    shortfall = np.maximum(0.0, 1.0 - data.y * (data.X @ w + b))
    return float(0.5 * (w @ w + b * b) + shortfall @ shortfall)
