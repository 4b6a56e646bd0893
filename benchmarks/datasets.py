"""The data sets by name, parsed or generated once and kept as ``cache/*.npz``.

A name is a generated set (`GENERATED`), or a svmlight file with two classes: a path, or the name of a file
(compressed or not) in the folder ``$MAXMARGIN_DATA``, or in ``../shared/data`` beside the repository. ``NAME@5000``
is the set cut down to 5000 rows, evenly spaced; ``NAME#8`` is class 8 against all others,
``NAME#all`` the set with all its classes.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from maxmargin.data import generators

CACHE = Path(__file__).parent / "cache"
FULL = ("20news.binary", "text", "a9a", "w8a", "covtype.binary.scale", "dense")
QUICK = ("a9a", "text-50k", "covtype.binary.scale@50000", "20news.binary@6000")  # the quickest first
GENERATED: dict[str, Callable[[], Any]] = {
    "text": generators.make_text,
    "text-50k": partial(generators.make_text, n_rows=50_000),
    "dense": generators.make_dense,
}
REGRESSION = ("abalone", "flights3m.delay")  # the targets of NAME.delay are in a file of that name, one a line
_SUFFIXES = ("", ".xz", ".bz2", ".gz", ".zst")


class MissingData(LookupError):
    """A set whose file is not here."""


@dataclass(frozen=True)
class Dataset:
    """Rows and labels -1, +1, and the file they were loaded from."""

    name: str
    X: Any
    y: np.ndarray
    path: Path

    @property
    def nbytes(self) -> int:
        """Bytes of X."""
        parts = (self.X,) if isinstance(self.X, np.ndarray) else (self.X.data, self.X.indices, self.X.indptr)
        return sum(part.nbytes for part in parts)

    @property
    def stored(self) -> int:
        """Stored values of X."""
        return self.X.size if isinstance(self.X, np.ndarray) else self.X.nnz

    def fingerprint(self) -> str:
        """Tells apart sets that differ, to keep their reference optima apart."""
        values = self.X if isinstance(self.X, np.ndarray) else self.X.data
        return f"{'x'.join(map(str, self.X.shape))}-{zlib.crc32(self.y.data, zlib.crc32(values.data)):08x}"


def folder() -> Path:
    """Where the svmlight files are."""
    return Path(os.environ.get("MAXMARGIN_DATA") or Path(__file__).parents[2] / "shared" / "data")


def find(name: str) -> Path:
    """The svmlight file of that name, or `MissingData`."""
    for base in (Path(name), folder() / name):
        for suffix in _SUFFIXES:
            path = base.with_name(base.name + suffix)
            if path.is_file():
                return path
    raise MissingData(f"no file {name} here or in {folder()} (set MAXMARGIN_DATA)")


def get(name: str) -> Dataset:
    """The set of that name, from the cache if it is there."""
    make: Callable[[], Any]
    whole, _, n_rows = name.partition("@")
    if n_rows:
        all_rows = get(whole)
        path = all_rows.path.with_stem(f"{all_rows.path.stem}@{n_rows}")
        make = partial(_thin_out, all_rows, int(n_rows))
    elif name in GENERATED:
        source = Path(generators.__file__).read_bytes()
        path = CACHE / f"{name}-{hashlib.sha256(source).hexdigest()[:8]}.npz"
        make = GENERATED[name]
    else:
        stem, _, label = name.partition("#")
        file = find(stem)
        path = CACHE / f"{Path(name).name}-{file.stat().st_size}.npz"
        make = partial(_read_targets if name in REGRESSION else _read, file, label)
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        _store(path, *make())
    return load(path, name)


def load(path: Path, name: str = "") -> Dataset:
    """Read a set from its cache file, into memory of our own (no memory map: page sizes would differ)."""
    with np.load(path) as arrays:
        y = arrays["y"]
        if "X" in arrays:
            return Dataset(name, arrays["X"], y, path)
        X = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]), copy=False)
    X.has_sorted_indices = X.has_canonical_format = True
    return Dataset(name, X, y, path)


def few_rows(X: Any, y: np.ndarray, n: int = 64) -> tuple[Any, np.ndarray]:
    """Some rows of both classes, of the same storage: enough to compile for, too few to take time."""
    if not np.isin(y[:1000], (-1.0, 1.0)).all():  # targets
        return X[:n], y[:n]
    rows = np.sort(np.concatenate([np.flatnonzero(y == label)[: n // 2] for label in (-1.0, 1.0)]))
    return X[rows], y[rows]


def _thin_out(data: Dataset, n_rows: int) -> tuple[Any, np.ndarray]:
    rows = np.linspace(0, len(data.y) - 1, n_rows).astype(np.int64)
    return data.X[rows], data.y[rows]


def _read(path: Path, label: str) -> tuple[Any, np.ndarray]:
    from maxmargin import load_svmlight

    X, y = load_svmlight(path)
    if label:
        return X, y if label == "all" else np.where(y == float(label), 1.0, -1.0)
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"{path} has {len(classes)} classes; these benchmarks need two")
    return X, np.where(y == classes[1], 1.0, -1.0)


def _read_targets(path: Path, _: str) -> tuple[Any, np.ndarray]:
    from maxmargin import load_svmlight

    if ".delay" not in path.name:
        return load_svmlight(path)[:2]
    X, _labels = load_svmlight(find(path.name.partition(".delay")[0]))[:2]
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        return X, np.loadtxt(file)


def _store(path: Path, X: Any, y: np.ndarray) -> None:
    arrays: dict[str, Any] = {"y": y}
    if isinstance(X, np.ndarray):
        arrays["X"] = X
    else:
        X.sort_indices()
        index_type = np.int32 if X.nnz <= np.iinfo(np.int32).max else np.int64
        arrays |= {"data": X.data, "indices": X.indices.astype(index_type), "indptr": X.indptr.astype(index_type)}
        arrays["shape"] = np.array(X.shape)
    temporary = path.with_suffix(".part.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
