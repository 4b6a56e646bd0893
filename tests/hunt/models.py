"""Model files and checkpoints, damaged: bytes at random, and numbers and names in them under a checksum made anew.

Whatever is in a file, reading it ends in an estimator that predicts or in a `ModelFileError` with the file's name. It
takes no more memory than a few times the file, and runs nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests.hunt.frame import Case
from tests.hunt.mutations import TOKENS, damaged, pick

import maxmargin
from maxmargin.models import ModelFileError

LIMIT = 5.0
CASES = 120
_MEMORY = 32 << 20  # bytes, for a file of a few kB

_NUMBERS = (0, -1, 1, 2, 10**9, 2**31, 2**63, 10**40, 0.5, -0.0, 1e308, 1e-308)
_TEXTS = ("LIBLINEAR", "LIBSVM", "LIBSVM classes")
_LIBLINEAR = """solver_type L2R_L2LOSS_SVC
nr_class 2
label 1 -1
nr_feature 3
bias 1
w
0.5
-1
2
1e-3
"""
_LIBSVM = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 3
rho -0.1
label 1 -1
nr_sv 2 1
SV
0.5 1:0.25 3:-1
0.25 2:1
-0.75 1:1 2:2 3:3
"""
_CLASSES = """svm_type nu_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 3
total_sv 3
rho 0.5 0.25 -1
label 3 1 2
nr_sv 1 1 1
SV
1 0.5 1:1
-1 0.25 2:1
-0.5 -0.25 3:1
"""
_ODD = (*_NUMBERS, None, True, "", "x", "inf", "nan", "F64", "rbf", "hinge", [], {}, [[]], [10**9], {"fields": {}})


# ---------------------------------------------------------------- sound files


@functools.cache
def originals() -> dict[str, bytes]:
    """A small file of each kind."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    many = np.array(["a", "b", "c"])[np.arange(40) % 3]
    estimators = {
        "LinearSVC": maxmargin.LinearSVC().fit(X, y),
        "classes": maxmargin.LinearSVC(class_weight="balanced").fit(X, many),
        "LinearSVR": maxmargin.LinearSVR().fit(X, X[:, 0]),
        "BudgetSVC": maxmargin.BudgetSVC(budget=5, random_state=0).fit(X, y),
        "OnlineSVC": maxmargin.OnlineSVC().fit(X, y),
        "StructuralSVC": maxmargin.StructuralSVC(measure="f1").fit(X, y),
    }
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for name, estimator in estimators.items():
            estimator.save(path)
            files[name] = path.read_bytes()
        path.unlink()
        maxmargin.solve(_problem(), "dual_cd", checkpoint=path, checkpoint_every=1e-9)
        files["checkpoint"] = path.read_bytes()
    files |= {name: text.encode() for name, text in zip(_TEXTS, (_LIBLINEAR, _LIBSVM, _CLASSES))}
    return files


def _problem() -> maxmargin.Problem:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 3))
    return maxmargin.Problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), 1.0, "hinge")


# ---------------------------------------------------------------- damage


def _damaged_file(rng: np.random.Generator, name: str, content: bytes) -> bytes:
    if name in _TEXTS or rng.random() < 0.2:
        return damaged(rng, content, TOKENS)
    length = int.from_bytes(content[:8], "little")
    table, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    for _ in range(int(rng.integers(1, 4))):
        # What a checkpoint says of a state is believed, once it has the right form: its numbers are not changed here.
        kind = 0 if name == "checkpoint" else int(rng.integers(5))
        if kind == 0:
            table = _changed(rng, table)
        elif kind == 1:
            data = _other_numbers(rng, data)
        else:
            metadata = table.get("__metadata__") if isinstance(table, dict) else None
            info = metadata.get("info") if isinstance(metadata, dict) else None
            if isinstance(info, str) and info.startswith("{"):
                metadata["info"] = json.dumps(_changed(rng, json.loads(info)))
    return _sealed(table, data)


def _changed(rng: np.random.Generator, tree: Any) -> Any:
    """A copy of parsed JSON in which something is something else, is missing or has another name."""
    if not isinstance(tree, (dict, list)) or not tree or rng.random() < 0.1:
        if isinstance(tree, (int, float)) and rng.random() < 0.5:
            return tree * pick(rng, [2, -1, 10**9, 0])
        return pick(rng, _ODD)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = pick(rng, keys)
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    if rng.random() < 0.1:
        del copy[key]
    elif rng.random() < 0.1 and isinstance(copy, dict):
        copy[pick(rng, ["x", "fields", "float", "pairs", "kernel", "solver", "loss"])] = copy.pop(key)
    else:
        copy[key] = _changed(rng, copy[key])
    return copy


def _other_numbers(rng: np.random.Generator, data: bytes) -> bytes:
    """Eight bytes of an array are another number."""
    if len(data) < 8:
        return data
    at = 8 * int(rng.integers(len(data) // 8))
    number = pick(rng, [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 1e-320])
    kinds = [np.float64(number), np.int64(pick(rng, [0, -1, 5, 10**9, 2**62])), np.uint64(rng.integers(2**63))]
    return data[:at] + pick(rng, kinds).tobytes() + data[at + 8 :]


def _sealed(table: Any, data: bytes) -> bytes:
    """A file of this header and data whose checksum is right."""
    if isinstance(table, dict) and isinstance(table.get("__metadata__"), dict):
        table["__metadata__"] = {**table["__metadata__"], "sha256": "0" * 64}
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % 64)
    blank = len(header).to_bytes(8, "little") + header
    entry = table.get("__clock__") if isinstance(table, dict) else None
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    end = offsets[0] if isinstance(offsets, list) and offsets and type(offsets[0]) is int else len(data)
    end = min(max(end, 0), len(data))
    checksum = hashlib.sha256(blank + data[:end]).hexdigest()
    readings = data[end:-32]
    clock = readings + hashlib.sha256(checksum.encode() + readings).digest() if end < len(data) else b""
    return blank.replace(b"0" * 64, checksum.encode(), 1) + data[:end] + clock


# ---------------------------------------------------------------- the hunt


def hunt(case: Case) -> None:
    name = pick(case.rng, list(originals()))
    content = _damaged_file(case.rng, name, originals()[name])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "file"
        path.write_bytes(content)
        tracemalloc.start()
        try:
            if name == "checkpoint":
                _resume(case, path)
            else:
                _load(case, path, name)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        case.check(peak < _MEMORY, f"{name}: reading {len(content)} bytes took {peak:,} bytes of memory")


def _load(case: Case, path: Path, name: str) -> None:
    estimator = None
    with case.run(f"load a {name}"):
        try:
            estimator = maxmargin.load(path)
        except ModelFileError as error:
            case.check(str(error).startswith(str(path)), f"the message does not name the file: {error}")
    if estimator is None or estimator.n_features_in_ > 1000:
        return
    X = np.random.default_rng(0).normal(size=(4, estimator.n_features_in_))
    with case.run(f"predict by a {name}", allowed=(ValueError, TypeError)):
        predicted = estimator.predict(X)
        if hasattr(estimator, "classes_"):
            case.check(np.isin(predicted, estimator.classes_).all(), f"{name}: a label that is no class")
        else:
            case.check_finite(predicted, f"{name}: predictions {predicted}")
        if not hasattr(estimator, "save"):
            return
        again = path.with_name("again")
        estimator.save(again)
        same = maxmargin.load(again).predict(X)
        case.check(np.array_equal(predicted, same), f"{name}: predicts otherwise once it is saved and loaded")


def _resume(case: Case, path: Path) -> None:
    with case.run("resume from a checkpoint", allowed=(ValueError,)):
        result = maxmargin.solve(_problem(), "dual_cd", checkpoint=path, checkpoint_every=1e9, max_iter=50)
        case.check_finite(result.w, "weights after resuming")
