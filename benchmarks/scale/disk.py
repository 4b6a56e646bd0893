"""Stores on disk beside memory: time of fits, coordinate descent by blocks, a cold disk, the budget, packing.

Fits in memory and from stores take turns, and have the same goal; the passes that each took are in the record. The page
cache is dropped where that is allowed (as root); if not, what needs it is left out.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import Problem, load_svmlight, open_store, pack, save_svmlight, solve
from maxmargin.data.generators import make_dense, make_text
from maxmargin.parallel import effective_n_jobs

from .. import datasets

_METHODS = (("ocas", "hinge"), ("tron", "squared_hinge"), ("augmented_lagrangian", "hinge"))
_DROP = Path("/proc/sys/vm/drop_caches")
_MB = 1e6
_LARGE = 4 << 30  # bytes of memory for large sets


# ---------------------------------------------------------------- data


def _text(n_rows: int) -> tuple[Any, np.ndarray]:
    return make_text(n_rows, 50_000, random_state=0, dtype=np.float32)


def _dense(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_dense(n_rows, 54, random_state=seed, dtype=np.float32)


def _dense_chunks(n_rows: int, n_classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of 54 features, some at a time: the same direction for all, labels with noise."""
    directions = np.random.default_rng(1).normal(size=(54, n_classes)).astype(np.float32)
    for begin in range(0, n_rows, 1 << 19):
        rng = np.random.default_rng(begin)
        n = min(1 << 19, n_rows - begin)
        X = rng.standard_normal((n, 54), dtype=np.float32)
        score = X @ directions + 2.0 * rng.standard_normal((n, n_classes), dtype=np.float32)
        yield X, np.where(score[:, 0] > score[:, 1], 1, -1) if n_classes == 2 else score.argmax(axis=1)


def _problem(rows: Any, y: np.ndarray, loss: str) -> Problem:
    if hasattr(rows, "make_pass"):
        return Problem(rows, y, 1.0, loss)
    return Problem(rows, y, 1.0, loss, bias=1.0, n_jobs=-1)


def _seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


# ---------------------------------------------------------------- passes


def _measure_passes(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Seconds of the same fit in memory, from a store within its budget, and from one with memory for a tenth."""
    records = []
    for name, make, n_rows in (("text", _text, sizes.text), ("dense", _dense, sizes.dense)):
        X, y = make(n_rows)
        store = pack(X, folder / name, y=y)
        for solver, loss in _METHODS:
            if (name, solver) == ("text", "augmented_lagrangian"):
                continue  # it makes a matrix of all features, and takes 10,000 of them at most
            runs: dict[str, list[float]] = {"memory": [], "within": [], "overflow": []}
            budgets = {"within": 2 * store.index.n_bytes + 100 * n_rows, "overflow": store.index.n_bytes // 10}
            stores = {where: open_store(store.path, memory=memory) for where, memory in budgets.items()}
            n_passes: dict[str, float] = {}
            for turn in range(sizes.repeat + 1):  # the first one compiles, verifies, and fills memory
                for where in runs:
                    rows = X if where == "memory" else stores[where].source(1.0, effective_n_jobs(-1))
                    problem = _problem(rows, y, loss)
                    seconds, found = _seconds(lambda p=problem, s=solver: solve(p, s, tol=1e-3, max_iter=20))
                    n_passes[where] = found.passes
                    runs[where] += [seconds] if turn else []
            best = {where: min(seconds) for where, seconds in runs.items()}
            records.append({"data": name, "rows": n_rows, "solver": solver, **best, "passes": n_passes})
    return records


# ---------------------------------------------------------------- coordinate descent by blocks


def _measure_blocks(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Seconds to 1e-3: in memory by dual_cd; from a store with memory for a half and an eighth of the rows."""
    X, y = _text(sizes.text)
    store = pack(X, folder / "text", y=y, block_size=max(1 << 20, 12 * X.nnz // 64))
    warm = pack(X[:5000], folder / "warm", y=y[:5000], block_size=1 << 20)
    records = []
    for loss in ("hinge", "squared_hinge"):
        for solver in ("block_cd", "ocas" if loss == "hinge" else "tron"):  # compiled
            solve(_problem(open_store(warm.path, memory="2M").source(1.0, 2), y[:5000], loss), solver, tol=1e-3)
        seconds, found = _seconds(lambda loss=loss: solve(_problem(X, y, loss), "dual_cd", tol=1e-3))
        record = {"loss": loss, "memory": seconds, "passes": found.passes}
        for share in (2, 8):
            for solver in ("block_cd", "ocas" if loss == "hinge" else "tron"):
                opened = open_store(store.path, memory=store.index.n_bytes // share)
                opened.verify()
                problem = _problem(opened.source(1.0, effective_n_jobs(-1)), y, loss)
                seconds, found = _seconds(lambda p=problem, s=solver: solve(p, s, tol=1e-3))
                assert found.stop_reason == "converged"
                record |= {f"{solver}_{share}": seconds, f"{solver}_{share}_passes": found.passes}
        records.append(record)
    return records


# ---------------------------------------------------------------- a cold disk


def _drop_caches() -> bool:
    try:
        os.sync()
        _DROP.write_text("3")
    except OSError:
        return False
    return True


def _measure_cold(folder: Path, sizes: Any) -> dict[str, float] | None:
    """MB/s of a pass from a disk whose files are not in memory, and of dd that reads the same files."""
    X, y = _dense(sizes.dense)
    store = pack(X, folder / "dense", y=y)
    if not _drop_caches():
        return None
    n_bytes, rates = sum(path.stat().st_size for path in store.path.iterdir()), []
    problem = _problem(open_store(store.path, memory=1).source(1.0, effective_n_jobs(-1)), y, "squared_hinge")
    problem.evaluate(np.zeros(problem.n_weights))  # compiled, and compared with the checksums
    command = "for f in *; do dd if=$f of=/dev/null bs=4M 2>/dev/null; done"
    for _ in range(sizes.repeat + 1):
        _drop_caches()
        seconds, _ = _seconds(lambda: problem.evaluate(np.zeros(problem.n_weights)))
        _drop_caches()
        of_dd, _ = _seconds(lambda: subprocess.run(command, shell=True, cwd=store.path, check=True))
        rates.append((n_bytes / seconds / _MB, n_bytes / of_dd / _MB))
    pass_rate, dd_rate = (max(rate) for rate in zip(*rates))
    return {"pass": pass_rate, "dd": dd_rate}


# ---------------------------------------------------------------- the budget


_FIT = r"""
import json, re, sys, time
from pathlib import Path
import maxmargin.models.codec, sklearn.linear_model
path, memory, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
model = getattr(maxmargin, options.pop("estimator", "LinearSVC"))(n_jobs=-1, **options)
def peak_memory():  # of this process alone: that of `resource` begins with its parent's
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])

before = peak_memory()
began = time.perf_counter()
model.fit(maxmargin.open_store(path, memory=memory))
seconds = time.perf_counter() - began
certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
peak = peak_memory()
print(json.dumps({"seconds": seconds, "before": before, "peak": peak,
    "gap": max(c.relative_gap for c in certificates), "solver": model.solver_.name, "passes": model.n_iter_}))
"""


def _fit_alone(path: Path, memory: int, **options: Any) -> dict[str, Any]:
    """A fit in a process of its own."""
    command = [sys.executable, "-c", _FIT, str(path), str(memory), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"memory": memory, **json.loads(done.stdout)}


def _measure_budget(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Fits of data of ten times the budget, to a certified 1e-3: time and the most memory that the process had."""
    records = []
    for n_classes, loss in ((2, "hinge"), (10, "squared_hinge")):
        small = pack(_dense_chunks(100_000, n_classes), folder / f"small{n_classes}")
        _fit_alone(small.path, small.index.n_bytes // 10, loss=loss, tol=1e-3)  # compiling takes memory
        store = pack(_dense_chunks(sizes.budget, n_classes), folder / str(n_classes))
        found = _fit_alone(store.path, store.index.n_bytes // 10, loss=loss, tol=1e-3)
        records.append({"classes": n_classes, "bytes": store.index.n_bytes, "loss": loss, **found})
    return records


def _measure_large(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Fifty million rows with 4 GB."""
    store = pack(_dense_chunks(sizes.large, 2), folder / "large")
    fits = [(loss, _fit_alone(store.path, _LARGE, loss=loss, tol=1e-3)) for loss in ("hinge", "squared_hinge")]
    return [{"data": "generated", "bytes": store.index.n_bytes, "loss": loss, **found} for loss, found in fits]


def _measure_flights(folder: Path, sizes: Any) -> list[dict[str, Any]]:
    """Three million flights with 4 GB: which will be late, and by how many minutes."""
    path = datasets.find("flights3m")
    store = pack(path, folder / "flights", shuffle=True, dtype="float32", n_jobs=-1)
    found = [(loss, _fit_alone(store.path, _LARGE, loss=loss, tol=1e-3)) for loss in ("hinge", "squared_hinge")]
    with lzma.open(path.with_name("flights3m.delay.xz"), "rt") as file:
        minutes = np.loadtxt(file)
    delays = pack(load_svmlight(path, n_jobs=-1)[0], folder / "delays", y=minutes, shuffle=True, dtype="float32")
    loss = "epsilon_insensitive"
    found.append((loss, _fit_alone(delays.path, _LARGE, estimator="LinearSVR", loss=loss, epsilon=5.0, tol=1e-3)))
    return [{"data": "flights3m", "bytes": store.index.n_bytes, "loss": loss, **fit} for loss, fit in found]


# ---------------------------------------------------------------- packing


def _measure_pack(folder: Path, sizes: Any) -> dict[str, float]:
    """MB/s of svmlight text that is packed, and seconds of parsing it beside those of reading the store."""
    X, y = _text(sizes.packed)
    text = folder / "text.svm"
    save_svmlight(text, X, y)
    n_bytes = text.stat().st_size
    pack(text, folder / "warm", n_jobs=-1)
    packing = min(_seconds(lambda k=k: pack(text, folder / f"store{k}", n_jobs=-1))[0] for k in range(3))
    store = open_store(folder / "warm")
    store.verify()
    parsing = min(_seconds(lambda: load_svmlight(text, n_jobs=-1))[0] for _ in range(3))
    reading = min(_seconds(store.load)[0] for _ in range(3))
    return {"bytes": n_bytes, "pack": n_bytes / packing / _MB, "parsing": parsing, "reading": reading}


# ---------------------------------------------------------------- tables


def _lines_of_passes(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| data | rows | solver | in memory, s | store within its budget | overflow in the page cache |"]
    lines += ["|---|---:|---|---:|---:|---:|"]
    for r in records:
        ratios = [f"{r[where] / r['memory']:.2f}x" for where in ("within", "overflow")]
        lines.append(f"| {r['data']} | {r['rows']:,} | {r['solver']} | {r['memory']:.2f} | {' | '.join(ratios)} |")
    return lines


def _lines_of_blocks(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| loss | dual_cd in memory, s | block_cd, half | eighth | passes solver, half | eighth |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for r in records:
        other = "ocas" if r["loss"] == "hinge" else "tron"
        names = [f"{solver}_{share}" for solver in ("block_cd", other) for share in (2, 8)]
        ratios = [f"{r[name] / r['memory']:.1f}x" for name in names]
        lines.append(f"| {r['loss']} | {r['memory']:.2f} | {' | '.join(ratios)} |")
    return lines


def _lines_of_cold(rates: dict[str, float] | None) -> list[str]:
    if not rates:
        return ["Cold disk: not measured."]
    share = rates["pass"] / rates["dd"]
    return [f"Cold disk: {rates['pass']:.0f} MB/s in a pass, {rates['dd']:.0f} by dd: {share:.0%}."]


def _lines_of_fits(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| data | classes | loss | budget | solver | gap | seconds | peak memory above the budget |"]
    lines += ["|---|---:|---|---:|---|---:|---:|---:|"]
    for r in records:
        what = f"{r.get('data', 'generated')}, {r['bytes'] / _MB:,.0f} MB | {r.get('classes', 2)} | {r['loss']}"
        over = f"{(r['peak'] - r['memory']) / _MB:,.0f} MB ({r['before'] / _MB:.0f} MB before the fit)"
        found = f"{r['solver']} | {r['gap']:.1e} | {r['seconds']:.1f} | {over}"
        lines.append(f"| {what} | {r['memory'] / _MB:,.0f} MB | {found} |")
    return lines


def _lines_of_pack(rates: dict[str, float]) -> list[str]:
    times = rates["parsing"] / rates["reading"]
    return [f"pack: {rates['pack']:.0f} MB/s of text; a store is read {times:.1f}x as fast as text is parsed."]


PARTS = {  # what measures them, and what shows them
    "passes": (_measure_passes, _lines_of_passes),
    "blocks": (_measure_blocks, _lines_of_blocks),
    "cold": (_measure_cold, _lines_of_cold),
    "pack": (_measure_pack, _lines_of_pack),
    "budget": (_measure_budget, _lines_of_fits),
    "large": (_measure_large, _lines_of_fits),
    "flights": (_measure_flights, _lines_of_fits),
}
