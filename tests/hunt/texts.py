"""Svmlight text, sound and damaged: read by every way there is, against scikit-learn's reader and a slow one.

A text is either refused by all ways with the same words, which name file, line and column, or read by all to the same
bits; what scikit-learn reads, too, it must read to the same bits, and what is read can be written and read again.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from tests.hunt.frame import Case
from tests.hunt.mutations import damaged, pick

from maxmargin import load_svmlight, save_svmlight, stream_svmlight
from maxmargin.data.svmlight import SvmlightError

LIMIT = 5.0
CASES = 150

_LOCATED = re.compile(r"<stream>:\d+:\d+: |<stream>: ")


def hunt(case: Case) -> None:
    rng = case.rng
    text = _text(rng)
    if rng.random() < 0.9:
        text = damaged(rng, text)
    options: dict[str, Any] = {"zero_based": pick(rng, ["auto", "auto", True, False])}
    options["dtype"] = pick(rng, [np.float64, np.float32])
    if rng.random() < 0.3:
        options["n_features"] = int(rng.integers(1, 12))
    options["labels"] = pick(rng, ["number", "number", "auto", "text"])
    read = _outcome(case, "load_svmlight", lambda: load_svmlight(io.BytesIO(text), **options))
    if read is None:
        return
    if isinstance(read, str):
        case.check(_LOCATED.match(read), f"the message does not tell where: {read}")
    for other in (
        lambda: load_svmlight(io.BytesIO(text), n_jobs=2, **options),
        lambda: load_svmlight(_packed(rng, text), **options),
    ):
        again = _outcome(case, "load_svmlight, another way", other)
        case.check(again is None or _same(read, again), f"another way gives {_show(again)}, not {_show(read)}")
    if isinstance(read, str):
        _damaged_archive(case, text)
        return
    _streamed(case, text, options, read)
    if read[1].dtype == np.float64:
        del options["labels"]
        _against_sklearn(case, text, options, read)
        _written(case, read, options)


def _text(rng: np.random.Generator) -> bytes:
    """A sound text of a few rows."""
    lines = []
    base, numbers = int(rng.integers(2)), rng.random() < 0.8
    for _ in range(int(rng.integers(0, 8))):
        width = int(pick(rng, [4, 9, 30, 40000]))
        indices = np.sort(rng.choice(width, size=min(width, int(rng.integers(0, 9))), replace=False)) + base
        values = rng.normal(size=len(indices)) * 10.0 ** rng.integers(-12, 12, size=len(indices))
        shown = [
            f"{j}:{pick(rng, ['%r', '%.3g', '%.20e', '%d', '%.15f']) % v}" for j, v in zip(indices, values.tolist())
        ]
        label = pick(rng, ["1", "-1", "+1", "2.5", "0", "1e2"] if numbers else ["ham", "späm", "1", "x-y"])
        query = [f"qid:{rng.integers(-3, 3)}"] if rng.random() < 0.2 else []
        comment = ["# a comment: 1:2"] if rng.random() < 0.1 else []
        lines.append(pick(rng, [" ", " ", " ", "\t", "  "]).join([label, *query, *shown, *comment]))
    end = pick(rng, ["\n", "\n", "\r\n"])
    return (end.join(lines) + (end if rng.random() < 0.8 else "")).encode()


def _outcome(case: Case, what: str, read: Any) -> Any:
    """(X, y), or the words of the refusal; None after a finding."""
    outcome: Any = None
    with case.run(what, allowed=()):
        try:
            outcome = read()
        except SvmlightError as error:
            outcome = str(error)
    return outcome


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    (X, y), (Z, z) = one, other
    parts = zip((X.data, X.indices, X.indptr, y), (Z.data, Z.indices, Z.indptr, z))
    return X.shape == Z.shape and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in parts)


def _show(outcome: Any) -> str:
    return outcome if isinstance(outcome, str) else f"a matrix of shape {outcome[0].shape}, {outcome[0].nnz} values"


def _packed(rng: np.random.Generator, text: bytes) -> io.BytesIO:
    pack = pick(rng, [gzip.compress, bz2.compress, lzma.compress])
    return io.BytesIO(pack(text))


def _damaged_archive(case: Case, text: bytes) -> None:
    """A damaged archive is refused, or happens to be sound: it never raises anything else."""
    packed = damaged(case.rng, _packed(case.rng, text).getvalue(), tokens=(b"\x00", b"\xff"))
    _outcome(case, "a damaged archive", lambda: load_svmlight(io.BytesIO(packed)))


def _against_sklearn(case: Case, text: bytes, options: dict[str, Any], read: Any) -> None:
    text = text.removeprefix(b"\xef\xbb\xbf")  # scikit-learn's reader does not skip it
    try:
        X, y = load_svmlight_file(io.BytesIO(text), **options)
    except (ValueError, OverflowError):
        return  # it refuses some more: see the notes of load_svmlight
    (Z, z), n = read, read[0].shape[1]
    case.check(X.shape[1] <= max(n, 1) and np.array_equal(y, z), f"scikit-learn reads {X.shape} and {y}, not {Z.shape}")
    same = X.nnz == Z.nnz and np.array_equal(X.indices, Z.indices) and X.data.tobytes() == Z.data.tobytes()
    case.check(same, "scikit-learn reads other values")


def _streamed(case: Case, text: bytes, options: dict[str, Any], read: Any) -> None:
    """Chunks, all together, are the data set, unless an index 0 comes late."""
    rows = int(case.rng.integers(1, 4))

    def chunks() -> Any:
        return list(
            stream_svmlight(io.BytesIO(text), chunk_bytes=int(case.rng.integers(1, 80)), chunk_rows=rows, **options)
        )

    parts = _outcome(case, "stream_svmlight", chunks)
    if parts is None:
        return
    if isinstance(parts, str):
        case.check("feature index 0, but there was none" in parts, f"a stream is refused: {parts}")
        return
    X, y = read
    together = sp.vstack(
        [sp.csr_matrix((Z.data, Z.indices, Z.indptr), shape=(Z.shape[0], X.shape[1])) for Z, _ in parts]
    )
    labels = np.concatenate([z for _, z in parts])
    case.check(_same((together.tocsr(), labels), (X, y)) or _differs_in_width(together, X), "a stream gives other rows")


def _differs_in_width(one: Any, other: Any) -> bool:
    """The same numbers in indices of another width."""
    return np.array_equal(one.indices, other.indices) and one.data.tobytes() == other.data.tobytes()


def _written(case: Case, read: Any, options: dict[str, Any]) -> None:
    X, y = read
    from_zero = bool(case.rng.random() < 0.5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.svm"
        with case.run("save_svmlight"):
            save_svmlight(path, X, y, zero_based=from_zero)
            again = load_svmlight(path, zero_based=from_zero, n_features=X.shape[1], dtype=options["dtype"])
            case.check(_same(read, again), "what was written reads back as something else")
