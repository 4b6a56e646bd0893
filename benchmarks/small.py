"""``python -m benchmarks small``: warm fits of small data, beside scikit-learn's LinearSVC, SVC, SVR and OneClassSVM.

Cross-validation and scripts live there. ``--only kernel`` measures the kernel machines alone, and says the largest
certified gap of ours. Processor time of one thread, the two in turn, medians; a ratio below one is
faster than scikit-learn. Also the first fit of a process that finds its compiled code on disk.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

_SHAPES = [(50, 5, 2), (200, 20, 2), (200, 20, 3), (1000, 20, 2)]  # rows, features, classes
_FIRST = """
import time; import numpy as np; from {module} import LinearSVC
X = np.random.default_rng(0).normal(size=(200, 20)); y = X[:, 0] > 0.0
start = time.process_time(); LinearSVC(loss="{loss}").fit(X, y); print(time.process_time() - start)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--fits", type=int, default=300, help="fits of each kind (default 300)")
    parser.add_argument("--repeat", type=int, default=5, help="processes for the first fit (default 5)")
    parser.add_argument("--only", choices=["linear", "kernel", "first"], help="one table of the three")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each kernel machine (default 4)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if arguments.only in (None, "linear"):
        _linear(arguments)
    if arguments.only in (None, "kernel"):
        _kernel(arguments)
    if arguments.only in (None, "first"):
        _first(arguments)


def _linear(arguments: argparse.Namespace) -> None:
    import sklearn.svm

    import maxmargin

    print("| rows x features, classes | loss | ours, ms | scikit-learn, ms | ratio |\n|---|---|---|---|---|")
    for n_rows, n_features, n_classes in _SHAPES:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, n_features))
        scores = X @ rng.normal(size=(n_features, n_classes)) + 0.5 * rng.normal(size=(n_rows, n_classes))
        y = scores.argmax(axis=1)
        for loss in ("squared_hinge", "hinge"):
            ours, theirs = _medians(
                [
                    lambda loss=loss, X=X, y=y: maxmargin.LinearSVC(loss=loss).fit(X, y),
                    lambda loss=loss, X=X, y=y: sklearn.svm.LinearSVC(loss=loss, random_state=0).fit(X, y),
                ],
                arguments.fits,
            )
            what = f"{n_rows} x {n_features}, {n_classes}"
            print(f"| {what} | {loss} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {ours / theirs:.2f} |", flush=True)


def _kernel(arguments: argparse.Namespace) -> None:
    """Fits of kernel machines, in turn with scikit-learn's, and predictions of one row."""
    import sklearn.svm

    import maxmargin

    print("| data | machine | ours, ms | scikit-learn, ms | ratio | largest gap of ours |\n|---|---|---|---|---|---|")
    for what, X, y in _small_sets():
        machines: list[tuple[str, dict[str, Any]]] = [("SVC", {}), ("SVC", {"C": 10.0}), ("SVC", {"gamma": "auto"})]
        if len(np.unique(y)) == 2:
            machines += [("SVR", {}), ("OneClassSVM", {})]
        for name, options in machines:
            pair = [getattr(module, name)(**options) for module in (maxmargin, sklearn.svm)]
            fits = [functools.partial(model.fit, X, y) for model in pair]
            ours, theirs = _medians(fits, _n_fits(fits[1], arguments.seconds))
            gap = max(certificate.relative_gap for certificate in pair[0].certificates_)
            called = f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
            times = f"{1e3 * ours:.2f} | {1e3 * theirs:.2f} | {ours / theirs:.2f}"
            print(f"| {what} | {called} | {times} | {gap:.0e} |", flush=True)
        fitted = [module.SVC().fit(X, y) for module in (maxmargin, sklearn.svm)]
        for n in (1, 100):
            called = f"SVC().predict, {n} rows" if n > 1 else "SVC().predict, one row"
            uses = [functools.partial(model.predict, X[:n]) for model in fitted]
            ours, theirs = _medians(uses, 300)
            print(f"| {what} | {called} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ours / theirs:.2f} | |", flush=True)


def _n_fits(fit: Callable[[], Any], seconds: float) -> int:
    start = time.process_time()
    fit()
    return int(min(200, max(5, seconds / 2.0 / (time.process_time() - start))))


def _small_sets() -> list[tuple[str, np.ndarray, np.ndarray]]:
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    y = (X @ rng.normal(size=20) + 0.5 * rng.normal(size=200) > 0.0).astype(int)
    centres, letters = rng.normal(size=(26, 16)), np.repeat(np.arange(26), 40)
    known = [(f.__name__[5:], *f(return_X_y=True)) for f in (load_iris, load_breast_cancer, load_digits)]
    near = centres[letters] + 0.7 * rng.normal(size=(len(letters), 16))
    return [*known, ("26 classes of 40 rows", near, letters), ("200 x 20", X, y)]


def _first(arguments: argparse.Namespace) -> None:
    print("| | loss | ours, ms | scikit-learn, ms | ratio |\n|---|---|---|---|---|")
    for loss in ("squared_hinge", "hinge"):
        ours, theirs = (_first_fit(module, loss, arguments.repeat) for module in ("maxmargin", "sklearn.svm"))
        what = "first fit of a process"
        print(f"| {what} | {loss} | {1e3 * ours:.0f} | {1e3 * theirs:.0f} | {ours / theirs:.0f} |", flush=True)


def _medians(fits: list[Callable[[], Any]], n: int) -> list[float]:
    times: list[list[float]] = [[] for _ in fits]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(n + 3):
            for fit, measured in zip(fits, times):
                start = time.process_time()
                fit()
                if k >= 3:  # compiled and warm
                    measured.append(time.process_time() - start)
    return [statistics.median(measured) for measured in times]


def _first_fit(module: str, loss: str, repeat: int) -> float:
    script = [sys.executable, "-c", _FIRST.format(module=module, loss=loss)]
    seconds = [float(subprocess.run(script, capture_output=True, check=True).stdout) for _ in range(repeat + 1)]
    return statistics.median(seconds[1:])
