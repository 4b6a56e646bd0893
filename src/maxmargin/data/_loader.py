"""From batches of text to columns: the parts of a batch over threads, the lines that are not ordinary through Python.

So are all lines of a short text as long as nothing else has imported the compiler, which takes longer than they do.

The text decides how it is cut and the results are put together in its order, so that neither the numbers nor the
error that is reported depend on the number of threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data._columns import INT32_MAX, Columns, Limits, Piece, Target
from maxmargin.data._line import LineError, Row, Rules, SvmlightError, read_line
from maxmargin.data._streams import Batch, Source
from maxmargin.data.indices import IndexBase

_CHUNK_BYTES = 1 << 19  # stays in a core's own cache between counting and parsing
_LARGEST_INDEX = 2**63 - 2
_SHORT = 1 << 18  # bytes of text that Python reads in a fraction of the time that the compiler takes to be imported


class _IndicesTooNarrow(Exception):
    """An index that int32 cannot hold."""


class _Chunk(NamedTuple):
    """A part of a batch, whole lines, and where its rows go."""

    begin: int
    end: int
    first_row: int
    first_value: int


class Loader:
    """Rows of one data set, added batch by batch.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the values, float32 or float64.
    n_features : int or None
        The number of features, if the user gave it.
    zero_based : bool or "auto"
        What the indices count from.
    with_queries : bool
        Every row must have a query id.
    pool : concurrent.futures.ThreadPoolExecutor or None
        The threads to work on; None for the caller's own.
    """

    def __init__(
        self,
        dtype: Any,
        n_features: int | None,
        zero_based: bool | str,
        with_queries: bool,
        pool: ThreadPoolExecutor | None,
    ):
        self.columns = Columns(dtype, n_features is not None and n_features > INT32_MAX, with_queries)
        self.largest_index = -1
        self._auto = zero_based == "auto"
        self._starts_at_zero = zero_based is True
        self._shift = int(zero_based is not True)  # subtracted from an index when it is stored
        highest = _LARGEST_INDEX if n_features is None else n_features - (zero_based is True)
        self._rules = Rules(int(zero_based is False), highest, n_features or 0, _largest_finite(dtype), with_queries)
        self._pool = pool
        self._n_bytes = 0
        self._parser = _PYTHON
        self._source: Source | None = None
        self._n_lines = 0  # of the current source, before the current batch

    def add(self, batch: Batch) -> None:
        """Parse a batch and add its rows."""
        if batch.source is not self._source:
            self._source, self._n_lines = batch.source, 0
        self._n_bytes += len(batch.text)
        if self._parser is _PYTHON and (self._n_bytes > _SHORT or _has_compiler()):
            self._parser = _compiled_parser()
        parts = list(_parts(batch.text))
        bounds = self._map(self._bounds, [batch.text[begin:end] for begin, end in parts])
        try:
            pieces = self._parse(batch, parts, bounds)
            self._decide_base(batch.text, pieces)
        except LineError as error:
            raise self._located(error, batch.text) from None
        self.columns.close_gaps(pieces)
        self._n_lines += sum(n_lines for n_lines, _ in bounds)

    def finish(self) -> Columns:
        """After the last batch: all columns, as long as they need to be, indices from 0."""
        self.columns.trim()
        if self._auto and self._starts_at_zero:
            self.columns.indices += 1  # they were stored as if counted from 1
        return self.columns

    @property
    def base(self) -> IndexBase:
        """What indices were found to count from, and whether anything but habit says so."""
        zero, top = self._starts_at_zero, self._rules.n_features
        certain = not self._auto or zero or (top > 0 and self.largest_index == top)
        return IndexBase(0 if zero else 1, certain, self._source.name if self._source else "")

    @property
    def n_features(self) -> int:
        """The number of features seen, at least 1."""
        return max(1, self.largest_index + int(self._starts_at_zero))

    # ------------------------------------------------------------ parsing

    def _parse(self, batch: Batch, parts: list[tuple[int, int]], bounds: list[tuple[int, int]]) -> list[Piece]:
        """Store all rows of a batch, each part where there is room for as many as it may have."""
        rows = list(accumulate((n_rows for n_rows, _ in bounds), initial=self.columns.n_rows))
        values = list(accumulate((n_values for _, n_values in bounds), initial=self.columns.n_values))
        room = rows[-1] - self.columns.n_rows, values[-1] - self.columns.n_values
        chunks = [_Chunk(*part, *first) for part, *first in zip(parts, rows, values)]
        while True:
            target = self.columns.reserve(*room, batch.fraction)
            try:
                return self._map(partial(self._parse_chunk, batch.text, target), chunks)
            except _IndicesTooNarrow:
                self.columns.widen()

    def _parse_chunk(self, text: np.ndarray, target: Target, chunk: _Chunk) -> Piece:
        """Store the rows of a chunk: compiled, as far as they are ordinary, the others through Python."""
        rules = self._rules
        highest = rules.highest if self.columns.wide else min(rules.highest, INT32_MAX)
        limits = Limits(self._shift, rules.lowest, highest, rules.largest, rules.with_queries)
        base = text.ctypes.data
        begin = chunk.begin
        n_rows = n_values = 0
        smallest, largest = _LARGEST_INDEX, -1
        while begin < chunk.end:
            room = target.after(chunk.first_row + n_rows, chunk.first_value + n_values)
            found = self._parser.parse_rows(base + begin, base + chunk.end, limits, room)
            stop, more_rows, more_values, low, high = found
            begin = stop - base
            if more_rows == 0 and begin < chunk.end:
                line = _line_at(text, begin)
                more_rows, more_values, low, high = _store(_read_line(line, begin, rules), limits, room)
                begin += len(line) + 1
            n_rows, n_values = n_rows + more_rows, n_values + more_values
            smallest, largest = min(smallest, low), max(largest, high)
        return Piece(chunk.first_row, chunk.first_value, n_rows, n_values, smallest, largest)

    def _map(self, function: Any, items: list[Any]) -> list[Any]:
        """`function` of every item, over threads. All have ended when the error of the first that failed is raised."""
        if self._pool is None or len(items) == 1:
            return [function(item) for item in items]
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def _bounds(self, text: np.ndarray) -> tuple[int, int]:
        """At most so many rows and values are in a text: the shortest feature is ``1:1``, with a blank before it."""
        n_lines, n_colons = self._parser.count_lines_and_colons(text)
        return n_lines, min(n_colons, len(text) // 4)

    # ------------------------------------------------------------ zero or one, and where errors are

    def _decide_base(self, text: np.ndarray, pieces: list[Piece]) -> None:
        """An index 0 anywhere means that indices count from 0, everywhere; then `n_features` itself is no index."""
        starts_at_zero = self._starts_at_zero or min(piece.smallest for piece in pieces) == 0
        largest_index = max(self.largest_index, max(piece.largest for piece in pieces))
        if self._auto and starts_at_zero and self._rules.n_features:
            if largest_index == self._rules.n_features:
                self._raise_conflict(text)
            self._rules = self._rules._replace(highest=self._rules.n_features - 1)
        self._starts_at_zero, self.largest_index = starts_at_zero, largest_index

    def _raise_conflict(self, text: np.ndarray) -> None:
        """Find the index that no longer fits with those before it: 0, or `n_features` where there was a 0."""
        top = self._rules.n_features
        zero_seen, top_seen = self._starts_at_zero, self.largest_index == top
        begin = 0
        while begin < len(text):
            line = _line_at(text, begin)
            row = _read_line(line, begin, self._rules)
            if row is not None and len(row.indices):
                zero_seen = zero_seen or row.indices[0] == 0
                if zero_seen and row.indices[-1] == top:
                    _read_line(line, begin, self._rules._replace(highest=top - 1))
                if zero_seen and top_seen:
                    _read_line(line, begin, self._rules._replace(lowest=1))
                top_seen = top_seen or row.indices[-1] == top
            begin += len(line) + 1

    def _located(self, error: LineError, text: np.ndarray) -> SvmlightError:
        """The error for the user: file, line and column come first."""
        before = text[: error.offset].tobytes()
        line = self._n_lines + before.count(b"\n") + 1
        column = error.offset - before.rfind(b"\n")
        name = self._source.name if self._source else ""
        return SvmlightError(f"{name}:{line}:{column}: {error}")


class _Parser(NamedTuple):
    count_lines_and_colons: Callable[[np.ndarray], tuple[int, int]]
    parse_rows: Callable[[int, int, Limits, Target], tuple[int, int, int, int, int]]


def _count(text: np.ndarray) -> tuple[int, int]:
    return int(np.count_nonzero(text == ord("\n"))), int(np.count_nonzero(text == ord(":")))


def _take_nothing(begin: int, end: int, limits: Limits, room: Target) -> tuple[int, int, int, int, int]:
    """As if no line was ordinary: Python then reads each of them."""
    return begin, 0, 0, limits.highest, -1


_PYTHON = _Parser(_count, _take_nothing)


def _compiled_parser() -> _Parser:
    from maxmargin.data import _parse

    return _Parser(_parse.count_lines_and_colons, _parse.parse_rows)


def _has_compiler() -> bool:
    return "maxmargin._jit" in sys.modules


def _store(row: Row | None, limits: Limits, room: Target) -> tuple[int, int, int, int]:
    """What `parse_rows` does with a row: store it, count rows and values, tell its smallest and largest index."""
    if row is None:
        return 0, 0, limits.highest, -1
    n_values = len(row.indices)
    low, high = (int(row.indices[0]), int(row.indices[-1])) if n_values else (limits.highest, -1)
    if high > limits.highest:
        raise _IndicesTooNarrow
    room.labels[0] = row.label
    room.row_sizes[0] = n_values
    if limits.with_queries:
        room.queries[0] = row.query
    room.indices[:n_values] = row.indices - limits.shift
    room.values[:n_values] = row.values
    return 1, n_values, low, high


def _read_line(line: bytes, begin: int, rules: Rules) -> Row | None:
    """`read_line`, whose error tells the offset in the batch."""
    try:
        return read_line(line, rules)
    except LineError as error:
        raise LineError(begin + error.offset, str(error)) from None


def _line_at(text: np.ndarray, begin: int) -> bytes:
    """The line that begins there, without its newline."""
    return text[begin : _behind_newline(text, begin) - 1].tobytes()


def _behind_newline(text: np.ndarray, begin: int, window: int = 1 << 12) -> int:
    """The position behind the next newline; there is one."""
    while (found := text[begin : begin + window].tobytes().find(b"\n")) < 0:
        begin += window
    return begin + found + 1


def _parts(text: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut a batch into parts of whole lines."""
    begin = 0
    while begin < len(text):
        end = len(text)
        if end - begin > 2 * _CHUNK_BYTES:
            end = _behind_newline(text, begin + _CHUNK_BYTES)
        yield begin, end
        begin = end


def _largest_finite(dtype: Any) -> float:
    """The largest double that is finite once rounded to `dtype`."""
    info = np.finfo(dtype)
    if dtype == np.float64:
        return float(info.max)
    half_a_step = (float(info.max) - float(np.nextafter(info.max, dtype.type(0)))) / 2
    return float(np.nextafter(float(info.max) + half_a_step, 0.0))


def read_ahead(batches: Iterator[Batch], pool: ThreadPoolExecutor | None) -> Iterable[Batch]:
    """The same batches, each read (and unpacked) while the one before is parsed, if there are threads for it."""
    if pool is None:
        yield from batches
        return
    coming = pool.submit(next, batches, None)
    try:
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch
    finally:
        wait([coming])
