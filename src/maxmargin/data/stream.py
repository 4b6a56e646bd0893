"""Data that need not fit into memory: a stream is any iterable of chunks ``(X, y)`` or ``(X, y, sample_weight)``.

    svmlight text    `stream_svmlight`: batches of lines, each parsed into a chunk of its own
    arrays           `stream_rows`: views of some rows at a time (memory-mapped ones are read as they are reached)
    anything else    a generator, or any iterable of such tuples

`Ahead` makes the chunks of a stream in a thread of their own, a few before they are asked for: while a model learns
from one chunk, the next ones are read, unpacked and parsed. What is in memory at any time is the chunk in use, those
that wait, and the one in the making, whatever the length of the stream. Text is always read that way; a generator of
the user's runs where it is used, because it may not expect threads, and can be wrapped in `Ahead` if it does.

The reader of text is that of `load_svmlight` (`_streams`, `_loader`, `_parse`), with one difference that a stream
brings with it: nobody has seen its end. So what indices count from is decided by the first chunk that has any, and
there are as many features as have been seen so far, unless `n_features` tells.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from maxmargin.data._columns import Columns
from maxmargin.data._labels import Labels
from maxmargin.data._line import LineError, SvmlightError
from maxmargin.data._loader import Loader
from maxmargin.data._streams import Batch, as_sources, read_batches
from maxmargin.data.ahead import Ahead
from maxmargin.data.indices import IndexBase, mark
from maxmargin.data.sparse import check_sparse
from maxmargin.data.svmlight import Readable, as_csr, checked_options, no_rows
from maxmargin.parallel import effective_n_jobs

__all__ = ["Ahead", "SvmlightStream", "stream_rows", "stream_svmlight"]

_CHUNK_BYTES = 1 << 22  # of text; about as much in memory, and some ten milliseconds of parsing
_CHUNK_VALUES = 1 << 19  # of a matrix: the same size


class Chunk(NamedTuple):
    """Some rows of a stream."""

    X: Any
    y: Any
    sample_weight: Any = None


# ---------------------------------------------------------------- svmlight text


def stream_svmlight(
    path_or_paths: Readable | Sequence[Readable],
    *,
    chunk_rows: int | None = None,
    chunk_bytes: int = _CHUNK_BYTES,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    like: Any = None,
    labels: Literal["number", "text", "auto"] = "number",
) -> SvmlightStream:
    r"""Read svmlight text of any length, chunk by chunk, in memory that does not grow with it.

    The next chunks are read, unpacked and parsed in a thread while the last one is in use. The rows, all chunks
    together, are those of `load_svmlight`, bit for bit.

    Parameters
    ----------
    path_or_paths : str, path-like, binary file object, or list of these
        What to read, as in `load_svmlight`: ``"-"`` is standard input, compressed data is unpacked, a list is one
        data set cut into pieces.
    chunk_rows : int, optional
        At most so many rows in a chunk; by default as many as its text has.
    chunk_bytes : int
        About so much text in a chunk, at least a line. A slow pipe is waited for until so much of it is there.
    n_features : int, optional
        The number of columns of every chunk. By default a chunk has as many as the largest index in it and before it
        asks for, so that later chunks may be wider.
    dtype : data-type
        Of the values: float64 or float32.
    zero_based : bool or "auto"
        Whether indices count from 0. "auto": as the first chunk with features says, from 0 if there is an index 0
        in it, else from 1. An index 0 that turns up later is an error.
    n_jobs : int, optional
        Threads that parse a chunk: None is 1, -1 all cores. The result is the same for any number.
    like, labels : optional
        As in `load_svmlight`.

    Returns
    -------
    SvmlightStream
        An iterable of ``(X, y)``: a `scipy.sparse.csr_matrix` and the labels, float64 or str. Files are read anew every
        time that it is iterated over. Text that is not svmlight data raises an `SvmlightError` when it is reached.

    Examples
    --------
    >>> import io
    >>> text = b"+1 1:0.5 3:2\n-1 2:25e-2\n+1 5:1\n"
    >>> for X, y in stream_svmlight(io.BytesIO(text), chunk_rows=2):
    ...     print(X.shape, y)
    (2, 5) [ 1. -1.]
    (1, 5) [1.]
    """
    return SvmlightStream(
        path_or_paths,
        chunk_rows=chunk_rows,
        chunk_bytes=chunk_bytes,
        n_features=n_features,
        dtype=dtype,
        zero_based=zero_based,
        n_jobs=n_jobs,
        like=like,
        labels=labels,
    )


class SvmlightStream(Iterable[tuple[Any, np.ndarray]]):
    """Svmlight text as a stream of chunks; the parameters are those of `stream_svmlight`."""

    def __init__(
        self,
        path_or_paths: Any,
        *,
        chunk_rows: int | None = None,
        chunk_bytes: int = _CHUNK_BYTES,
        n_features: int | None = None,
        dtype: Any = np.float64,
        zero_based: Any = "auto",
        n_jobs: int | None = None,
        like: Any = None,
        labels: str = "number",
    ):
        self._sources = as_sources(path_or_paths)
        self._dtype, self._n_features, self._counts_from = checked_options(dtype, n_features, zero_based, like)
        self._labels = labels
        Labels(labels)  # which checks it
        self._chunk_bytes = _at_least_one("chunk_bytes", chunk_bytes)
        self._chunk_rows = None if chunk_rows is None else _at_least_one("chunk_rows", chunk_rows)
        self._n_threads = effective_n_jobs(n_jobs)

    @property
    def is_repeatable(self) -> bool:
        """Whether it can be read again: files can, a pipe cannot."""
        return all(isinstance(source.origin, Path) and source.origin.is_file() for source in self._sources)

    def __iter__(self) -> Ahead:
        return Ahead(self._chunks())

    def _chunks(self) -> Generator[tuple[Any, np.ndarray], None, None]:
        with ExitStack() as stack:
            batches = stack.enter_context(closing(read_batches(self._sources, self._chunk_bytes)))
            pool = stack.enter_context(ThreadPoolExecutor(self._n_threads)) if self._n_threads > 1 else None
            loader = _ChunkLoader(self._dtype, self._n_features, self._counts_from, False, pool)
            words, has_rows = Labels(self._labels), False
            for batch in batches:
                words.take_from(batch.text)
                loader.add(batch)
                columns = loader.take()
                if columns.n_rows:
                    has_rows = True
                    X, base = as_csr(columns, self._n_features or loader.n_features), loader.base
                    y = words.of(columns.labels)
                    for some, labels in stream_rows(X, y, chunk_rows=self._chunk_rows or columns.n_rows):
                        yield mark(some, base), labels
            if not has_rows:
                raise no_rows(self._sources)


class _ChunkLoader(Loader):
    """A `Loader` whose rows are taken from it after every batch; see there for its parameters."""

    _decided_early = False

    @property
    def base(self) -> IndexBase:
        """The first chunk with an index decides by habit, and that is not certain."""
        base = super().base
        return base._replace(is_certain=not self._decided_early or self._starts_at_zero)

    def add(self, batch: Batch) -> None:
        """Parse a batch. It is all that there will be in the columns, so no room is left for more."""
        super().add(batch._replace(fraction=1.0))

    def take(self) -> Columns:
        """The rows since the last time."""
        columns = self.finish()
        self.columns = Columns(columns.values.dtype, columns.wide, self._rules.with_queries)
        if self._auto and self.largest_index >= 0:  # an index has been seen: what follows must agree with it
            self._auto, self._decided_early = False, True
            self._shift = int(not self._starts_at_zero)
            self._rules = self._rules._replace(lowest=self._shift)
        return columns

    def _located(self, error: LineError, text: np.ndarray) -> SvmlightError:
        if self._decided_early and str(error).startswith("feature index 0, but"):
            reason = "but there was none in the first chunk, so indices were taken as counted from 1"
            error = LineError(error.offset, f"feature index 0, {reason}: pass zero_based=True")
        return super()._located(error, text)


# ---------------------------------------------------------------- arrays, and what users make


def stream_rows(X: Any, y: Any, sample_weight: Any = None, *, chunk_rows: int | None = None) -> Iterator[Any]:
    """The rows of a matrix, some at a time, without a copy.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse CSR matrix of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    sample_weight : ndarray of shape (n_rows,), optional
    chunk_rows : int, optional
        By default as many as have half a million values.

    Yields
    ------
    tuple
        Views of X, y and, if there is one, sample_weight.

    Examples
    --------
    >>> [y.tolist() for X, y in stream_rows(np.eye(3), np.array([1, 2, 1]), chunk_rows=2)]
    [[1, 2], [1]]
    """
    check_sparse(X)
    n_rows = X.shape[0]
    if chunk_rows is None:
        n_values = X.nnz if hasattr(X, "nnz") else n_rows * X.shape[1]
        chunk_rows = max(1, _CHUNK_VALUES * n_rows // max(1, n_values))
    chunk_rows = _at_least_one("chunk_rows", chunk_rows)
    for begin in range(0, n_rows, chunk_rows):
        end = min(n_rows, begin + chunk_rows)
        rest = () if sample_weight is None else (sample_weight[begin:end],)
        yield (_rows_between(X, begin, end), y[begin:end], *rest)


def _rows_between(X: Any, begin: int, end: int) -> Any:
    """Rows ``begin:end`` of an array or of a CSR matrix, as a view of it: slices of scipy's are copies."""
    if not hasattr(X, "indptr") or X.format != "csr":
        return X[begin:end]
    first, last = X.indptr[begin], X.indptr[end]
    view = type(X)((end - begin, X.shape[1]), dtype=X.dtype)  # made of arrays, it would copy small parts of large ones
    view.data, view.indices, view.indptr = X.data[first:last], X.indices[first:last], X.indptr[begin : end + 1] - first
    if X.has_canonical_format:
        view.has_canonical_format = True
    return view


def is_stream(data: Any) -> bool:
    """Whether this is something to make a stream of, rather than a matrix."""
    if isinstance(data, list | tuple):
        return bool(data) and (all(map(_is_readable, data)) or isinstance(data[0], tuple))
    is_matrix = hasattr(data, "__array__") or hasattr(data, "shape")
    return _is_readable(data) or (hasattr(data, "__iter__") and not is_matrix)


def is_repeatable(data: Any) -> bool:
    """Whether a stream can be begun again: files and lists can, a pipe and a generator cannot."""
    if _is_text(data):
        data = SvmlightStream(data)
    if isinstance(data, SvmlightStream):
        return data.is_repeatable
    return not isinstance(data, Iterator)


def as_chunks(data: Any, stop: threading.Event | None = None, n_jobs: int | None = None) -> Iterator[Chunk]:
    """The chunks of text files or of any iterable.

    Parameters
    ----------
    data : str, path-like, binary file object, list of these, or iterable
        Svmlight text, or what gives tuples ``(X, y)`` or ``(X, y, sample_weight)``.
    stop : threading.Event, optional
        Once set, the stream is at its end, even while text is being waited for.
    n_jobs : int, optional
        Threads that parse text.

    Yields
    ------
    Chunk
    """
    if _is_text(data):
        data = SvmlightStream(data, n_jobs=n_jobs)
    chunks = iter(data)
    try:
        if isinstance(chunks, Ahead):
            chunks.until(stop)
        for k, given in enumerate(chunks):
            if stop is not None and stop.is_set():
                return
            yield _as_chunk(k, given)
    finally:
        if isinstance(chunks, Ahead):
            chunks.close()


def _as_chunk(k: int, given: Any) -> Chunk:
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        what = f"a tuple of {len(given)}" if isinstance(given, tuple) else f"of type {type(given).__name__}"
        raise ValueError(f"chunk {k} of the stream is {what}; expected (X, y) or (X, y, sample_weight)")
    return Chunk(*given)


def _is_text(data: Any) -> bool:
    items = data if isinstance(data, list | tuple) else [data]
    return bool(items) and all(map(_is_readable, items))


def _is_readable(item: Any) -> bool:
    return isinstance(item, str | os.PathLike) or hasattr(item, "read")


def _at_least_one(name: str, number: Any) -> int:
    number = operator.index(number)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number
