"""Text in, in batches of whole lines: from files, file objects and standard input, compressed or not.

How a source is compressed is told by its first bytes, else by the suffix of its path. Files are read, not mapped into
memory: shortening a mapped file kills the process that reads it, and reading costs a few per cent of parsing.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data._line import SvmlightError
from maxmargin.data._zstd import open_zstd, zstd_errors

PADDING = 64  # bytes behind the end of a batch that can be read
_BATCH_BYTES = 1 << 24  # two of these and what is made of them stay in a processor's outer cache
_LONGEST_LINE = 1 << 31
_NEWLINE, _BLANK = ord("\n"), ord(" ")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # with which some editors begin UTF-8 text
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_LONGEST_MAGIC = max(map(len, _MAGIC))


class Source(NamedTuple):
    """Something to read: what error messages call it, and a path or a binary file object."""

    name: str
    origin: Any


def as_sources(path_or_paths: Any) -> list[Source]:
    """The sources that a user named: one, or a list of them."""
    items = list(path_or_paths) if isinstance(path_or_paths, list | tuple) else [path_or_paths]
    if not items:
        raise ValueError("there is nothing to read: the list of paths is empty")
    return [_as_source(item) for item in items]


def _as_source(item: Any) -> Source:
    if isinstance(item, str) and item == "-":
        return Source("<stdin>", sys.stdin.buffer)
    if isinstance(item, str | os.PathLike):
        return Source(os.fsdecode(item), Path(os.fsdecode(item)))
    if hasattr(item, "read"):
        name = getattr(item, "name", None)
        return Source(name if isinstance(name, str) else "<stream>", item)
    raise TypeError(f'expected a path, "-" or a binary file object, got {type(item).__name__}')


# ---------------------------------------------------------------- batches of lines


class Batch(NamedTuple):
    """Whole lines of one source."""

    source: Source
    text: np.ndarray  # of uint8; ends with a newline, behind which `PADDING` bytes can be read
    fraction: float  # how much of all sources has been read, between 0 and 1; 0 if not known


def read_batches(sources: list[Source], batch_bytes: int | None = None) -> Generator[Batch, None, None]:
    """The text of all sources, one after the other, about so many bytes at a time.

    Two buffers take turns: a batch stays valid while the next one is read, no longer.
    """
    batch_bytes = batch_bytes or _BATCH_BYTES
    sizes = [_size(source) for source in sources]
    total = 0 if None in sizes else sum(size or 0 for size in sizes)
    buffers = [np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8)]
    n_before = 0
    for source, size in zip(sources, sizes):
        with ExitStack() as stack:
            raw = stack.enter_context(_open(source))
            stream = stack.enter_context(_unpack(raw, source))
            n_bytes = batch_bytes if stream is not raw or size is None else min(batch_bytes, size + 1)
            for k, text in enumerate(_whole_lines(stream, source, buffers, n_bytes)):
                if k == 0 and text[: len(_BYTE_ORDER_MARK)].tobytes() == _BYTE_ORDER_MARK:
                    text[: len(_BYTE_ORDER_MARK)] = _BLANK
                yield Batch(source, text, min(1.0, (n_before + raw.n_read) / total) if total else 0.0)
            n_before += raw.n_read


def _whole_lines(stream: Any, source: Source, buffers: list[np.ndarray], n_bytes: int) -> Iterator[np.ndarray]:
    """The text of one stream. What follows the last newline of a batch begins the next one."""
    rest = np.empty(0, dtype=np.uint8)
    ended = False
    while not ended:
        room = max(n_bytes, 2 * len(rest))  # doubles until a long line has its end in it
        if len(buffers[0]) < room + PADDING:
            buffers[0] = np.empty(room + PADDING, dtype=np.uint8)
        buffer = buffers[0]
        buffer[: len(rest)] = rest
        n_filled = len(rest) + _fill(buffer[len(rest) : room].data, stream, source)
        ended = n_filled < room
        if ended and n_filled and buffer[n_filled - 1] != _NEWLINE:  # the last line may do without
            buffer[n_filled] = _NEWLINE
            n_filled += 1
        n_whole = _behind_last_newline(buffer[:n_filled])
        rest = buffer[n_whole:n_filled].copy()
        if len(rest) > _LONGEST_LINE:
            raise SvmlightError(f"{source.name}: a line is longer than {_LONGEST_LINE >> 30} GiB")
        if n_whole:
            yield buffer[:n_whole]
            buffers.reverse()


def _behind_last_newline(text: np.ndarray, window: int = 1 << 16) -> int:
    """Position behind the last newline; 0 if there is none."""
    for end in range(len(text), 0, -window):
        begin = max(0, end - window)
        found = text[begin:end].tobytes().rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return 0


def _fill(room: memoryview, stream: Any, source: Source) -> int:
    """Read until there is no more room or no more text; return the number of bytes."""
    n_filled = 0
    try:
        while n_filled < len(room):
            n_read = stream.readinto(room[n_filled:])
            if not n_read:
                break
            n_filled += n_read
    except Exception as error:
        if not _is_about_content(error):
            raise
        raise SvmlightError(f"{source.name}: the compressed data is damaged or cut short ({error})") from error
    return n_filled


def _is_about_content(error: Exception) -> bool:
    """Is it the unpacking that failed? gzip and bz2 raise an OSError without number then, a disk has one."""
    if isinstance(error, OSError):
        return error.errno is None
    return isinstance(error, (EOFError, zlib.error, lzma.LZMAError, *zstd_errors()))


# ---------------------------------------------------------------- sources


class _CountedInput(io.RawIOBase):
    """Any binary file object, with its first bytes known and its bytes counted."""

    def __init__(self, file: Any, owned: bool):
        self._file = file
        self._owned = owned
        self.n_read = 0
        self.first = b""
        while len(self.first) < _LONGEST_MAGIC and (more := self._read(_LONGEST_MAGIC - len(self.first))):
            self.first += more
        self._pending = self.first

    def _read(self, n_bytes: int) -> bytes:
        data = self._file.read(n_bytes)
        if data is None:
            raise BlockingIOError("a file object in non-blocking mode cannot be read")
        if isinstance(data, str):
            raise TypeError("the file object gives text: open it in binary mode")
        return data

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self._pending:
            data, self._pending = self._pending[: len(target)], self._pending[len(target) :]
        elif self._owned:  # a path: straight into place
            n_bytes = self._file.readinto(target)
            self.n_read += n_bytes
            return n_bytes
        else:
            data = self._read(len(target))
        target[: len(data)] = data
        self.n_read += len(data)
        return len(data)

    def close(self) -> None:
        if self._owned:
            self._file.close()
        super().close()


def _open(source: Source) -> _CountedInput:
    if isinstance(source.origin, Path):
        return _CountedInput(open(source.origin, "rb", buffering=0), owned=True)
    return _CountedInput(source.origin, owned=False)


def _size(source: Source) -> int | None:
    """Number of bytes (compressed, if so), None if it cannot be known before the end."""
    if not isinstance(source.origin, Path):
        return None
    status = source.origin.stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _unpack(raw: Any, source: Source) -> Any:
    """The stream behind the compression, or `raw` itself if there is none."""
    # The suffix counts for paths only: the name of a gzip.GzipFile, say, is that of the file it unpacks.
    suffix = source.origin.suffix.lower() if raw.first and isinstance(source.origin, Path) else ""
    for magic, meaning in _MAGIC.items():
        if raw.first.startswith(magic):
            suffix = meaning
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if suffix == ".bz2":
        return bz2.BZ2File(raw)
    if suffix == ".xz":
        return lzma.LZMAFile(raw)
    if suffix == ".zst":
        return open_zstd(raw)
    return raw
