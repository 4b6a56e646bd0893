"""Stores: random rows packed and read again, fitted block by block, and read once their files are damaged.

What comes back are the rows that went in, bit by bit; a fit on the store claims no more than is true of them; a damaged
store is refused by a `StoreError`, unless it gives the same rows.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.hunt.fits import exact_primal, scaled_rows
from tests.hunt.frame import Case
from tests.hunt.mutations import damaged, pick

import maxmargin
from maxmargin import LinearSVC, LinearSVR, Problem, losses
from maxmargin.data.store import StoreError

LIMIT = 20.0
CASES = 12


def hunt(case: Case) -> None:
    rng = case.rng
    is_classification = bool(rng.random() < 0.7)
    X, y, weight = scaled_rows(rng, is_classification)
    dtype = pick(rng, [np.float64, np.float32])
    given = X.astype(dtype)
    if rng.random() < 0.5:
        given = sp.csr_matrix(given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store: Any = None
        with case.run("pack", allowed=(ValueError,)):
            options = {"block_size": int(pick(rng, [200, 2000, 10**6])), "storage": pick(rng, ["auto", "dense", "csr"])}
            store = maxmargin.pack(given, path, y=y, sample_weight=weight, dtype=dtype, **options)
        if store is None:
            return
        _read(case, path, given, y, weight)
        if not is_classification or len(np.unique(y if weight is None else y[weight > 0])) == 2:
            _fit(case, path, given, y, weight, is_classification)
        _damage(case, path)


def _contents(path: Path) -> Any:
    """Everything in a store."""
    store = maxmargin.open_store(path)
    X, y = store.load()[:2]
    weight = store.weights()
    return (X.toarray() if sp.issparse(X) else np.asarray(X)), y, np.ones(len(y)) if weight is None else weight


def _read(case: Case, path: Path, given: Any, y: Any, weight: Any) -> None:
    whole = given.toarray() if sp.issparse(given) else given
    with case.run("open_store, load"):
        X, labels, weights = _contents(path)
        case.check(X.dtype == whole.dtype and np.array_equal(X, whole), "other rows come back")
        case.check(np.array_equal(labels, y), "other labels come back")
        case.check(np.array_equal(weights, np.ones(len(y)) if weight is None else weight), "other weights come back")
        parts = [part[0] for part in maxmargin.open_store(path)]
        together = np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])
        case.check(np.array_equal(together, whole), "chunks are other rows")


def _fit(case: Case, path: Path, given: Any, y: Any, weight: Any, is_classification: bool) -> None:
    rng = case.rng
    C, tol = float(10.0 ** rng.uniform(-3, 3)), float(pick(rng, [1e-2, 1e-5]))
    kind = LinearSVC if is_classification else LinearSVR
    model = kind(C=C, tol=tol, max_iter=200, max_time=2.0, n_jobs=int(pick(rng, [1, 2, 16])))
    with case.run(f"{kind.__name__}.fit of a store"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(maxmargin.open_store(path, memory=int(pick(rng, [10**9, 1000]))))
        certificate = model.certificate_
        case.check_finite([certificate.primal, certificate.dual], f"certificate of a store ({model.stop_reason_})")
        w = np.append(model.coef_.ravel(), model.intercept_ / model.intercept_scaling)
        loss = losses.get(model.loss) if is_classification else losses.EpsilonInsensitive(model.epsilon)
        signs = np.where(y == model.classes_[1], 1.0, -1.0) if is_classification else y
        problem = Problem(given, signs, C, loss, sample_weight=weight, bias=float(model.intercept_scaling))
        exact = exact_primal(problem, given, w)
        slack = 1e-9 * abs(exact) + certificate.gap / 1000  # the intercept was multiplied by its scale and divided
        case.check(exact <= certificate.primal + slack, f"P = {exact} is above the certified {certificate.primal}")


def _damage(case: Case, path: Path) -> None:
    rng, before = case.rng, _contents(path)
    file = pick(rng, sorted(item for item in path.iterdir() if item.is_file()))
    if rng.random() < 0.1:
        file.unlink()
    else:
        file.write_bytes(damaged(rng, file.read_bytes(), tokens=(b"\x00", b"\xff", b"{", b"9")))
    with case.run(f"a damaged {file.name}"):
        try:
            after = _contents(path)
        except (StoreError, FileNotFoundError) as error:
            case.check(path.name in str(error), f"the message does not name the store: {error}")
            return
        same = all(np.array_equal(one, other) for one, other in zip(before, after))
        case.check(same, f"{file.name} was damaged, and other rows come back")
