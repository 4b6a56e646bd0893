"""Rows to svmlight text, compiled, and the files it goes to."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from maxmargin._files import atomic_write
from maxmargin._jit import compiled
from maxmargin.data._bits import put_byte
from maxmargin.data._floats import EXACT_MATH
from maxmargin.data._parse import COLON, NEWLINE, SPACE
from maxmargin.data._shortest import LONGEST_NUMBER, put_integer, put_number
from maxmargin.data._zstd import compress_zstd

_VALUES_AT_ONCE = 1 << 17
_LONGEST_FEATURE = LONGEST_NUMBER + 22  # a blank, up to 20 bytes of index, a colon, the value
_LONGEST_LABEL = LONGEST_NUMBER + 26  # the label, " qid:", up to 20 bytes of query id, a newline
_NO_QUERIES = np.empty(0, dtype=np.int64)
_QID = np.frombuffer(b" qid:", dtype=np.uint8)


def format_rows(X: Any, y: np.ndarray, queries: np.ndarray | None, shift: int) -> Iterator[memoryview]:
    """The text of all rows of a CSR matrix with sorted rows, in blocks; each is valid until the next is asked for."""
    buffer: Any = np.empty(0, dtype=np.uint8)
    narrow = X.data.dtype == np.float32
    begin = 0
    while begin < X.shape[0]:
        limit = int(X.indptr[begin]) + _VALUES_AT_ONCE
        end = begin + int(np.searchsorted(X.indptr[begin + 1 :], limit, side="right"))
        end = min(max(end, begin + 1), begin + _VALUES_AT_ONCE)
        n_values = int(X.indptr[end]) - int(X.indptr[begin])
        n_bytes = n_values * _LONGEST_FEATURE + (end - begin) * _LONGEST_LABEL
        if len(buffer) < n_bytes:
            buffer = np.empty(n_bytes, dtype=np.uint8)
        base = buffer.ctypes.data
        some_queries = _NO_QUERIES if queries is None else queries[begin:end]
        some_rows = X.indptr[begin : end + 1]
        stop = _write_rows(base, y[begin:end], some_queries, some_rows, X.indices, X.data, shift, narrow)
        yield memoryview(buffer)[: stop - base]
        begin = end


@compiled(fastmath=EXACT_MATH)
def _write_rows(p, labels, queries, indptr, indices, values, shift, narrow):
    """Write rows at address `p`; return the address behind them."""
    for row in range(len(labels)):
        p = put_number(p, labels[row], False)
        if len(queries):
            for i in range(len(_QID)):
                put_byte(p, np.int64(_QID[i]))
                p += 1
            p = put_integer(p, queries[row])
        for k in range(indptr[row], indptr[row + 1]):
            put_byte(p, SPACE)
            p = put_integer(p + 1, np.int64(indices[k]) + shift)
            put_byte(p, COLON)
            p = put_number(p + 1, np.float64(values[k]), narrow)
        put_byte(p, NEWLINE)
        p += 1
    return p


@contextmanager
def open_for_writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that is written whole or not at all, compressed as its suffix says; "-" is standard output."""
    if path == "-":
        yield sys.stdout.buffer  # type: ignore[misc]
        sys.stdout.buffer.flush()
        return
    suffix = Path(path).suffix.lower()
    with atomic_write(path) as raw, _compressed(raw, suffix) as file:
        yield file


def _compressed(raw: Any, suffix: str) -> Any:
    """A stream into `raw`; closing it leaves `raw` open."""
    if suffix == ".gz":
        return gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)  # the same bytes at any time
    if suffix == ".bz2":
        return bz2.BZ2File(raw, "wb")
    if suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    if suffix == ".zst":
        return compress_zstd(raw)
    return nullcontext(raw)
