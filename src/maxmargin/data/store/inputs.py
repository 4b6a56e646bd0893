"""What can be packed: svmlight text, ``.npz`` files, tables, and iterables of chunks from Python.

Every input is a sequence of pieces that is the same each time, so that an interrupted `pack` can go on: it skips the
pieces whose rows are safely in blocks. Text is skipped without being parsed.
"""

from __future__ import annotations

import copy
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.data._columns import Columns
from maxmargin.data._loader import Loader, read_ahead
from maxmargin.data._streams import Batch, as_sources, read_batches
from maxmargin.data.ahead import Ahead
from maxmargin.data.rows import CSR, Array, as_rows, squared_norms
from maxmargin.data.stream import as_chunks, is_stream
from maxmargin.data.svmlight import as_csr, checked_options, no_rows

_CHUNK_BYTES = 1 << 24  # of an array, or of a text
_TABLES = (".parquet", ".pq", ".csv")


class Options(NamedTuple):
    """How an input is to be read."""

    dtype: Any = None  # None: as it is, float64 for text
    storage: str = "auto"
    n_features: int | None = None
    zero_based: Any = "auto"
    label: str | None = None  # the column of a table that has the labels
    weight: str | None = None  # the one that has weights, if any
    n_jobs: int | None = None
    chunk_bytes: int = _CHUNK_BYTES


class Given(NamedTuple):
    """Rows as an input gives them; what is wrong with them is found later."""

    X: Any  # an array or a sparse matrix, or `CSR` if it has been checked
    y: Any
    weight: Any = None


class Seen(NamedTuple):
    """Of what has been skipped: the lowest and the highest index, as they are stored."""

    smallest: int = 0
    largest: int = -1


class Input(Protocol):
    """Something to pack."""

    name: str
    is_text: bool

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        """All pieces, but for the first `skip` of them."""

    def fingerprint(self) -> list[Any] | None:
        """What tells this input from others; None if nothing does."""


def as_input(data: Any, y: Any, weight: Any, options: Options, tables: Callable[..., Input]) -> Input:
    """The input that a user means; `tables` makes one of Parquet and CSV files."""
    if y is not None or weight is not None:
        if is_stream(data):
            raise ValueError("the labels and weights of a file or an iterable come with its rows: leave out y")
        return _Matrix(data, y, weight, options)
    if hasattr(data, "__array__") or hasattr(data, "tocsr"):
        raise ValueError("a matrix needs labels: pack(X, path, y=y)")
    items = data if isinstance(data, list | tuple) else [data]
    suffixes = {_suffix(item) for item in items}
    if suffixes == {".npz"}:
        return _Archives([Path(item) for item in items], options)
    if suffixes and suffixes <= set(_TABLES):
        return tables([Path(item) for item in items], options)
    if suffixes & {".npz", *_TABLES}:
        raise ValueError("files of several kinds cannot be packed together: they have no order of features in common")
    if items and all(suffix is not None for suffix in suffixes):
        return _Text(data, options)
    return _Chunks(data, options)


def _suffix(item: Any) -> str | None:
    """The suffix of a path; "" of other text; None for what is no text."""
    if isinstance(item, str | os.PathLike):
        return Path(os.fsdecode(item)).suffix.lower()
    return "" if hasattr(item, "read") else None


def print_of(paths: Iterable[Any]) -> list[Any] | None:
    """Names, sizes and times of files; None if one of them is no file."""
    prints = []
    for path in paths:
        if not isinstance(path, Path) or not path.is_file():
            return None
        found = path.stat()
        prints.append([str(path.resolve()), found.st_size, found.st_mtime_ns])
    return prints


# ---------------------------------------------------------------- svmlight text


class _Text:
    """Svmlight text. Indices are stored as if they counted from 1, unless it is known that they do not.

    An index 0, wherever it turns up, is then stored as -1: who finishes the store adds 1 to all indices.
    """

    is_text = True

    def __init__(self, data: Any, options: Options):
        self.sources = as_sources(data)
        self.options = options
        self.name = ", ".join(source.name for source in self.sources)

    def fingerprint(self) -> list[Any] | None:
        if any(source.name == "<stdin>" for source in self.sources):
            return ["<stdin>"]  # whoever sends the same text again may go on with it
        return print_of(source.origin for source in self.sources)

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        with closing(Ahead(self._parsed(skip, seen))) as ahead:  # one is parsed while the one before is written
            yield from ahead

    def _parsed(self, skip: int, seen: Seen) -> Iterator[Given]:
        dtype = self.options.dtype or np.float64
        dtype, n_features, zero_based = checked_options(dtype, self.options.n_features, self.options.zero_based)
        with ExitStack() as stack:
            batches = stack.enter_context(closing(read_batches(self.sources, self.options.chunk_bytes)))
            pool = stack.enter_context(ThreadPoolExecutor(max(2, self.options.n_jobs or 1)))
            loader = _PieceLoader(dtype, n_features, zero_based, False, pool)
            loader.know(seen)
            has_rows = bool(skip)
            for k, batch in enumerate(read_ahead(batches, pool)):
                if k < skip:
                    loader.pass_over(batch)
                    continue
                columns = loader.take(batch)
                has_rows = has_rows or columns.n_rows > 0
                X = as_csr(columns, n_features or loader.n_features)
                yield Given(CSR(X.data, X.indices, X.indptr, X.shape[1], 0.0), columns.labels)
            if not has_rows:
                raise no_rows(self.sources)


class _PieceLoader(Loader):
    """A `Loader` whose rows are taken from it batch by batch, indices as they were stored."""

    def know(self, seen: Seen) -> None:
        """Of the rows that are skipped."""
        self._starts_at_zero = self._starts_at_zero or seen.smallest < 0
        self.largest_index = max(self.largest_index, seen.largest + 1 if self._shift else seen.largest)

    def take(self, batch: Batch) -> Columns:
        """The rows of a batch."""
        self.add(batch._replace(fraction=1.0))  # nothing will be added: no room for more
        columns = self.columns
        columns.trim()
        self.columns = Columns(columns.values.dtype, columns.wide, False)
        return columns

    def pass_over(self, batch: Batch) -> None:
        """Count the lines of a batch, for the places of errors to come."""
        if batch.source is not self._source:
            self._source, self._n_lines = batch.source, 0
        self._n_lines += batch.text.tobytes().count(b"\n")


# ---------------------------------------------------------------- arrays


class _Matrix:
    """A matrix and its labels in memory."""

    is_text = False
    name = "arrays"

    def __init__(self, X: Any, y: Any, weight: Any, options: Options):
        self.X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
        self.y, self.weight, self.options = np.asarray(y), weight if weight is None else np.asarray(weight), options
        if self.X.ndim != 2 or self.y.shape != (self.X.shape[0],):
            raise ValueError(f"X has shape {self.X.shape} and y {self.y.shape}: one label is needed for each row")

    def fingerprint(self) -> None:
        return None

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        n = self.X.shape[0]
        n_bytes = self.X.data.nbytes if hasattr(self.X, "tocsr") else self.X.nbytes
        at_once = max(1, self.options.chunk_bytes * n // max(1, n_bytes))
        for begin in range(skip * at_once, n, at_once):
            part = slice(begin, begin + at_once)
            yield Given(self.X[part], self.y[part], None if self.weight is None else self.weight[part])


class _Chunks:
    """An iterable of ``(X, y)`` or ``(X, y, weight)``."""

    is_text = False
    name = "chunks"

    def __init__(self, chunks: Any, options: Options):
        if not hasattr(chunks, "__iter__"):
            raise TypeError(f"expected paths or an iterable of chunks (X, y), got {type(chunks).__name__}")
        self.chunks, self.options = chunks, options

    def fingerprint(self) -> None:
        return None

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        for k, chunk in enumerate(as_chunks(self.chunks)):
            if k >= skip:  # whoever made it may use its memory again
                yield Given(*(None if part is None else copy.copy(_as_array(part)) for part in chunk))


def _as_array(part: Any) -> Any:
    return part if hasattr(part, "tocsr") else np.asarray(part)


# ---------------------------------------------------------------- .npz


class _Archives:
    """``.npz`` files with ``X`` (dense), or what ``scipy.sparse.save_npz`` writes of a CSR matrix; ``y``; ``weight``.

    They are read some rows at a time, compressed or not.
    """

    is_text = False

    def __init__(self, paths: list[Path], options: Options):
        self.paths, self.options = paths, options
        self.name = ", ".join(map(str, paths))

    def fingerprint(self) -> list[Any] | None:
        return print_of(self.paths)

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        k = 0
        for path in self.paths:
            for piece in self._of_archive(path):
                if k >= skip:
                    yield piece
                k += 1

    def _of_archive(self, path: Path) -> Iterator[Given]:
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path}: not an .npz file, or a damaged one ({error})") from None
        with archive, ExitStack() as stack:
            members = {
                name.removesuffix(".npy"): stack.enter_context(closing(_Member(path, archive, name)))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
            weight = members.get("weight", members.get("sample_weight"))
            if "y" not in members or not ({"X"} <= members.keys() or {"data", "indices", "indptr"} <= members.keys()):
                has = ", ".join(members) or "nothing"
                raise ValueError(f"{path}: has the arrays {has}; needs y, and X or the parts of a CSR matrix")
            read = _read_dense if "X" in members else _read_sparse
            n, y = members["y"].n, members["y"]
            for X in read(members, self.options.chunk_bytes):
                rows = X.shape[0]
                yield Given(X, y.read(rows), None if weight is None else weight.read(rows))
            if y.n_read != n or (weight is not None and weight.n != n):
                raise ValueError(f"{path}: X has {y.n_read} rows, y has {n}")


class _Member:
    """An array of an archive, read from its beginning to its end."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str):
        self.where = f"{path}: array {name.removesuffix('.npy')!r}"
        self.file = archive.open(name)
        try:
            version = np.lib.format.read_magic(self.file)
            read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
            read_header = read_header or np.lib.format.read_array_header_2_0
            self.shape, self.is_fortran, self.dtype = read_header(self.file)
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}") from None
        self.n = self.shape[0] if self.shape else 1
        self.n_read = 0

    def read(self, n: int) -> Array:
        """The next n entries."""
        if self.dtype.hasobject:
            raise ValueError(f"{self.where}: holds Python objects, which are not read")
        shape = (min(n, self.n - self.n_read), *self.shape[1:])
        n_bytes = int(np.prod(shape)) * self.dtype.itemsize
        content = self.file.read(n_bytes)
        if shape[0] < n or len(content) < n_bytes:
            raise ValueError(f"{self.where}: is shorter than it should be")
        self.n_read += n
        return np.frombuffer(content, self.dtype).reshape(shape)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _read_dense(members: dict[str, _Member], n_bytes: int) -> Iterator[Array]:
    X = members["X"]
    if len(X.shape) != 2:
        raise ValueError(f"{X.where}: has {len(X.shape)} dimensions, expected 2")
    if X.is_fortran:  # columns one after the other: the first row is complete when all has been read
        whole = X.file.read()
        yield np.frombuffer(whole, X.dtype).reshape(X.shape[::-1]).T
        return
    at_once = max(1, n_bytes // max(1, X.shape[1] * X.dtype.itemsize))
    while X.n_read < X.n:
        yield X.read(min(at_once, X.n - X.n_read))


def _read_sparse(members: dict[str, _Member], n_bytes: int) -> Iterator[Any]:
    from scipy.sparse import csr_matrix

    kind = members.get("format")
    if kind is not None and kind.file.read().strip(b"\x00") != b"csr":
        raise ValueError(f"{kind.where}: is not csr; convert the matrix by tocsr() before it is saved")
    indptr, data, indices = members["indptr"], members["data"], members["indices"]
    shape = members["shape"].read(2) if "shape" in members else None
    pointers = indptr.read(indptr.n).astype(np.int64)
    n_features = None if shape is None else int(shape[1])
    if len(pointers) < 1 or pointers[0] != 0 or (np.diff(pointers) < 0).any() or pointers[-1] != data.n:
        raise ValueError(f"{indptr.where}: does not ascend from 0 to the number of values, {data.n}")
    per_value = data.dtype.itemsize + indices.dtype.itemsize
    begin, n = 0, len(pointers) - 1
    while begin < n:
        end = int(np.searchsorted(pointers, pointers[begin] + n_bytes // per_value, side="right")) - 1
        end = min(n, max(begin + 1, end))
        n_values = int(pointers[end] - pointers[begin])
        parts = data.read(n_values), indices.read(n_values), pointers[begin : end + 1] - pointers[begin]
        yield csr_matrix(parts, shape=(end - begin, n_features) if n_features else None)
        begin = end


# ---------------------------------------------------------------- checking


def checked_rows(X: Any, dtype: Any, first_row: int) -> tuple[Any, Array]:
    """Rows with the squared lengths of each; an error that counts rows from the beginning of the input."""
    if isinstance(X, CSR):  # from our own parser, which has looked at everything
        lowest = int(X.indices.min(initial=0))
        safe = X if lowest >= 0 else X._replace(indices=X.indices + 1, n_features=X.n_features + 1)
        return X, squared_norms(safe)
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        X = X if dtype is None else X.astype(dtype, copy=False)
    else:
        X = np.ascontiguousarray(X, dtype=dtype)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers, got dtype {X.dtype}")
    try:
        return as_rows(X)
    except ValueError as error:
        where = f" (rows counted from row {first_row} of the input on)" if first_row else ""
        raise ValueError(f"{error}{where}") from None
