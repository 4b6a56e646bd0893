"""``python -m benchmarks small``: warm fits of small data, beside scikit-learn's LinearSVC.

Cross-validation and scripts live there. Processor time of one thread, the two in turn, medians; a ratio below one is
faster than scikit-learn. Also the first fit of a process that finds its compiled code on disk.
"""

from __future__ import annotations

import argparse
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


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the table."""
    import sklearn.svm

    import maxmargin

    os.environ["OMP_NUM_THREADS"] = "1"
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
