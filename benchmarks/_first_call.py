"""One first call in a new process: ``python -m benchmarks._first_call NAME`` prints what it cost, as JSON.

`startup` runs this with an empty cache of compiled code, then again with what the first run left.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.core import event

import maxmargin as mm

_rng = np.random.default_rng(0)
_X = _rng.normal(size=(300, 10))
_sparse = sp.csr_array(np.where(np.abs(_X) > 1.0, _X, 0.0))
_y = (_X[:, 0] + _rng.normal(size=300) > 0.0).astype(int)
_target = _X[:, 0] + _rng.normal(size=300)
_classes = np.digitize(_target, (-0.7, 0.7))


def _load() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_text("".join(f"{label} 1:{row[0]!r} 3:{row[1]:.4f} 7:2\n" for label, row in zip(_y, _X.tolist())))
        return mm.load_svmlight(path)


def _save() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mm.save_svmlight(Path(folder) / "data", _sparse, _y)


def _stored() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        mm.pack([(_sparse, _y)], Path(folder) / "store")
        return mm.LinearSVC().fit(mm.open_store(Path(folder) / "store"))


CALLS: dict[str, Callable[[], Any]] = {
    "LinearSVC, dense": lambda: mm.LinearSVC().fit(_X, _y).predict(_X),
    "LinearSVC, CSR": lambda: mm.LinearSVC().fit(_sparse, _y).predict(_sparse),
    "LinearSVC, hinge, dense": lambda: mm.LinearSVC(loss="hinge").fit(_X, _y).predict(_X),
    "LinearSVC, hinge, CSR": lambda: mm.LinearSVC(loss="hinge").fit(_sparse, _y).predict(_sparse),
    "LinearSVC, C=1000": lambda: mm.LinearSVC(C=1000.0).fit(_X, _y).predict(_X),
    "LinearSVC, hinge, C=1000": lambda: mm.LinearSVC(loss="hinge", C=1000.0).fit(_X, _y).predict(_X),
    "LinearSVC, huber": lambda: mm.LinearSVC(loss="huber").fit(_X, _y).predict(_X),
    "LinearSVC, logistic": lambda: mm.LinearSVC(loss="logistic").fit(_X, _y).predict(_X),
    "LinearSVC, l1": lambda: mm.LinearSVC(penalty="l1").fit(_X, _y).predict(_X),
    "LinearSVC, three classes": lambda: mm.LinearSVC().fit(_X, _classes).predict(_X),
    "LinearSVC, crammer_singer": lambda: mm.LinearSVC(multi_class="crammer_singer").fit(_X, _classes).predict(_X),
    "LinearSVC, free intercept": lambda: mm.LinearSVC(penalize_intercept=False).fit(_X, _y).predict(_X),
    "LinearSVR, dense": lambda: mm.LinearSVR().fit(_X, _target).predict(_X),
    "LinearSVR, CSR": lambda: mm.LinearSVR().fit(_sparse, _target).predict(_sparse),
    "LinearSVR, squared": lambda: mm.LinearSVR(loss="squared_epsilon_insensitive").fit(_X, _target).predict(_X),
    "LinearSVCCV": lambda: mm.LinearSVCCV().fit(_X, _y).predict(_X),
    "path": lambda: mm.path(_X, _y),
    "OnlineSVC": lambda: mm.OnlineSVC().fit(_X, _y).predict(_X),
    "OnlineSVC, CSR": lambda: mm.OnlineSVC().partial_fit(_sparse, _y, classes=[0, 1]).predict(_sparse),
    "BudgetSVC, dense": lambda: mm.BudgetSVC(budget=50).fit(_X, _y).predict(_X),
    "BudgetSVC, CSR": lambda: mm.BudgetSVC(budget=50).fit(_sparse, _y).predict(_sparse),
    "BudgetSVC, partial_fit": lambda: mm.BudgetSVC(budget=50).partial_fit(_X, _y, classes=[0, 1]).predict(_X),
    "BudgetSVC, auto": lambda: mm.BudgetSVC(budget="auto").fit(_X, _y).predict(_X),
    "suggest_rbf": lambda: mm.suggest_rbf(_X, _y),
    "StructuralSVC": lambda: mm.StructuralSVC().fit(_X, _y).predict(_X),
    "SVC, dense": lambda: mm.SVC().fit(_X, _y).predict(_X),
    "SVC, CSR": lambda: mm.SVC().fit(_sparse, _y).predict(_sparse),
    "SVR": lambda: mm.SVR().fit(_X, _target).predict(_X),
    "OneClassSVM": lambda: mm.OneClassSVM().fit(_X).predict(_X),
    "load_svmlight": _load,
    "save_svmlight": _save,
    "pack and fit": _stored,
}


class _Compiled(event.Listener):
    """Seconds of each function that Numba compiles, without those of the functions inside it."""

    def __init__(self) -> None:
        self.open: list[list[Any]] = []
        self.done: list[tuple[str, float]] = []

    def on_start(self, event: Any) -> None:
        self.open.append([event.data["dispatcher"].py_func, time.process_time(), 0.0])

    def on_end(self, event: Any) -> None:
        function, begun, inside = self.open.pop()
        seconds = time.process_time() - begun
        if self.open:
            self.open[-1][2] += seconds
        where = f"{function.__module__}.{function.__qualname__}:{function.__code__.co_firstlineno}"
        self.done.append((where, seconds - inside))


def main(name: str) -> None:
    """Make the call twice and print what the first cost beyond imports."""
    warnings.simplefilter("ignore")
    logging.getLogger("maxmargin").setLevel("ERROR")
    for public in ("LinearSVC", "SVC", "BudgetSVC"):
        getattr(mm, public)  # imports are not counted
    listener = _Compiled()
    with event.install_listener("numba:compile", listener):
        begun = time.process_time()
        CALLS[name]()
        first = time.process_time() - begun
    begun = time.process_time()
    CALLS[name]()
    second = time.process_time() - begun
    print(json.dumps({"first": first, "second": second, "compiled": listener.done}))


if __name__ == "__main__":
    main(sys.argv[1])
