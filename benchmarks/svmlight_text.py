"""``python -m benchmarks.svmlight_text``: megabytes a second of svmlight text, read and written, ours and others'.

The text is made on the spot: documents with four digits a weight, the same with all digits of a double, presence of
words only, and rows of small integers like pixels. All readers get the same file from the page cache and make a CSR
matrix of it. Repetitions are interleaved; a cell is the median. Slow readers get the first rows only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_SLOW_SHARE = 8  # slow readers get one part in so many


class Reader(NamedTuple):
    """A way to read svmlight text."""

    name: str
    read: Callable[[str], Any]
    slow: bool


def readers() -> list[Reader]:
    """Ours, and those of the peers that are installed."""
    from sklearn.datasets import load_svmlight_file

    from maxmargin.data.svmlight import load_svmlight

    found = [
        Reader("maxmargin, 1 thread", lambda path: load_svmlight(path, n_jobs=1), slow=False),
        Reader("maxmargin, 2 threads", lambda path: load_svmlight(path, n_jobs=2), slow=False),
        Reader("scikit-learn", load_svmlight_file, slow=True),
    ]
    if find_spec("snapml"):
        from snapml.Loaders import load_from_svmlight_format

        found.append(Reader("snapml", load_from_svmlight_format, slow=True))
    if find_spec("liblinear"):
        from liblinear.commonutil import svm_read_problem

        found.append(Reader("liblinear-official", lambda path: svm_read_problem(path, return_scipy=True), slow=True))
    return found


def texts(megabytes: float) -> dict[str, tuple[Any, np.ndarray]]:
    """Data sets by what their text looks like, of about that size once written (the ones: 60 % of it)."""
    from scipy.sparse import csr_matrix

    from maxmargin.data.generators import make_text

    X, y = make_text(n_rows=int(megabytes * 900), n_features=50_000, nonzeros=87)
    short = np.array([float(f"{v:.4g}") for v in X.data[: 1 << 16]])
    ones = csr_matrix((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (int(megabytes * 340), 784)) * (rng.random(784) < 0.5)
    n_long = int(X.shape[0] * 0.5)
    return {
        "tf-idf, 4 digits": (csr_matrix((np.resize(short, X.nnz), X.indices, X.indptr), shape=X.shape), y),
        "tf-idf, all digits": (X[:n_long], y[:n_long]),
        "ones": (ones, y),
        "pixels 0..255": (csr_matrix(pixels, dtype=np.float64), rng.integers(0, 10, len(pixels))),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--mb", type=float, default=200, help="size of each text in megabytes, about (default 200)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (default 5)")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the tables."""
    competitors = readers()
    names = " | ".join(reader.name for reader in competitors)
    print(f"| text | MB | {names} | ratio to scikit-learn, 1 / 2 threads | written |")
    print("|---" * (len(competitors) + 4) + "|")
    processor_lines = []
    for name, (X, y) in texts(arguments.mb).items():
        megabytes, written, rates, processor_rates = _measure(competitors, X, y, arguments.repeat)
        ratios = f"{rates[0] / rates[2]:.0f}x / {rates[1] / rates[2]:.0f}x"
        print(f"| {name} | {megabytes:.0f} | {_cells(rates)} | {ratios} | {written:.0f} |", flush=True)
        processor_lines.append(f"| {name} | {_cells(processor_rates)} |")
    print("\nMegabytes per second of processor time, which other work on the machine disturbs less:\n")
    print(f"| text | {names} |\n" + "|---" * (len(competitors) + 1) + "|")
    print("\n".join(processor_lines))


def _measure(
    competitors: list[Reader], X: Any, y: np.ndarray, repeat: int
) -> tuple[float, float, list[float], list[float]]:
    """Megabytes of text; megabytes a second written, and read by each of the competitors: clock and processor."""
    from maxmargin.data.svmlight import save_svmlight

    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder, "whole.txt"), Path(folder, "part.txt")
        n_part = max(1, X.shape[0] // _SLOW_SHARE)
        save_svmlight(part, X[:n_part], y[:n_part])  # also compiles
        write_seconds, _ = _timed(lambda: save_svmlight(whole, X, y))
        paths = [str(part if reader.slow else whole) for reader in competitors]
        sizes = [os.path.getsize(path) / 1e6 for path in paths]
        for reader in competitors:
            reader.read(str(part))  # compile, import
        times: list[list[tuple[float, float]]] = [[] for _ in competitors]
        for start in range(repeat):  # everyone follows everyone else
            for k in np.roll(range(len(competitors)), start):
                times[k].append(_timed(partial(competitors[k].read, paths[k])))
        megabytes = whole.stat().st_size / 1e6
    rates, processor_rates = (
        [size / statistics.median(t[kind] for t in own) for size, own in zip(sizes, times)] for kind in (0, 1)
    )
    return megabytes, megabytes / write_seconds, rates, processor_rates


def _cells(rates: list[float]) -> str:
    return " | ".join(f"{rate:.0f}" for rate in rates)


def _timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    """Run this benchmark alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.svmlight_text", description=__doc__)
    add_arguments(parser)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
