"""Large files in the layout of the model file, written and read in parts.

`write_model` and `read_model` have all arrays of a file in memory at once. Here an array is written from pieces, one
after the other, and read from any row to any other; the checksum is taken on the way. The files are the same.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from maxmargin._files import atomic_write
from maxmargin.models import _header as rules
from maxmargin.models.file import ModelFileError

_AT_ONCE = 1 << 22  # bytes that are hashed together


class Whole(NamedTuple):
    """An array that is not there in one piece."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class Extent(NamedTuple):
    """Where an array lies in its file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def row_bytes(self) -> int:
        """Size of one entry of the first axis."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


class Layout(NamedTuple):
    """A file that can be read in parts: what it says of itself, and where its arrays are."""

    kind: str
    info: dict[str, Any]
    sha256: str
    size: int
    extents: dict[str, Extent]


def write_parts(
    path: str | os.PathLike[str], kind: str, info: dict[str, Any], arrays: dict[str, Sequence[np.ndarray]]
) -> str:
    """Write a file as `write_model` does, from pieces of the arrays, without waiting for the disk.

    Parameters
    ----------
    path : path-like
        A regular file.
    kind : str
    info : dict
    arrays : dict of str to sequence of ndarray
        Each array as pieces along its first axis, at least one, of the same dtype.

    Returns
    -------
    str
        The checksum that the file carries: SHA-256, in hexadecimal digits.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin.models import read_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_parts(f"{folder}/a", "Rows", {}, {"y": [np.zeros(1), np.ones(2)]})
    ...     read_model(f"{folder}/a", mmap=False).arrays["y"].tolist()
    [0.0, 1.0, 1.0]
    """
    wholes = {name: _whole(pieces) for name, pieces in arrays.items()}
    wholes = dict(sorted(wholes.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    header = rules.make_header(kind, info, wholes)  # type: ignore[arg-type]
    length = len(header).to_bytes(8, "little")
    checksum = hashlib.sha256(length + header)
    with atomic_write(path, durable=False) as file:
        file.write(length + header)
        for name, whole in wholes.items():
            for piece in arrays[name]:
                content = np.ascontiguousarray(piece, dtype=whole.dtype).reshape(-1).view(np.uint8)
                checksum.update(content.data)
                file.write(content.data)
        file.seek(len(length))
        file.write(header.replace(rules.NO_CHECKSUM.encode(), checksum.hexdigest().encode(), 1))
    return checksum.hexdigest()


def _whole(pieces: Sequence[np.ndarray]) -> Whole:
    first = pieces[0]
    return Whole(first.dtype.newbyteorder("<"), (sum(map(len, pieces)), *first.shape[1:]))


def read_layout(path: str | os.PathLike[str]) -> Layout:
    """Read and check the header of a file; of its arrays nothing is read.

    Raises
    ------
    ModelFileError
        If it is not a file of this layout, or is longer or shorter than its header says.
    OSError
        If it cannot be read.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError(f"{os.fspath(path)}: not a regular file")
    with open(path, "rb") as file:
        try:
            return _layout(file)
        except rules.Refused as refusal:
            raise ModelFileError(f"{os.fspath(path)}: {refusal}") from None


def _layout(file: BinaryIO) -> Layout:
    header, _, start = rules.read_header(file, "file")
    size = os.fstat(file.fileno()).st_size
    extents = {name: Extent(e.dtype, tuple(e.shape), start + e.begin) for name, e in header.extents.items()}
    return Layout(header.kind, header.info, header.sha256, size, extents)


def read_between(file: BinaryIO, extent: Extent, begin: int, end: int, out: np.ndarray | None = None) -> np.ndarray:
    """Entries begin to end, along the first axis, of an array; into the first bytes of `out` if that is given.

    The file must be open without a buffer. Raises `EOFError` if it ends before the array does.
    """
    if not 0 <= begin <= end <= extent.shape[0]:
        raise IndexError(f"entries {begin} to {end} of an array of {extent.shape[0]}")
    n_bytes = (end - begin) * extent.row_bytes
    room = np.empty(n_bytes, np.uint8) if out is None else out[:n_bytes]
    _fill(file, room, extent.offset + begin * extent.row_bytes)
    return room.view(extent.dtype).reshape(end - begin, *extent.shape[1:])


def _fill(file: BinaryIO, room: np.ndarray, offset: int) -> None:
    """Read bytes from a place in a file. Threads may read the same file at a time where the system has `preadv`."""
    view, n_read = room.data, 0
    while n_read < len(view):
        if hasattr(os, "preadv"):
            n = os.preadv(file.fileno(), [view[n_read:]], offset + n_read)
        else:
            file.seek(offset + n_read)
            n = file.readinto(view[n_read:])  # type: ignore[attr-defined]
        if not n:
            raise EOFError
        n_read += n


def checksum_of(path: str | os.PathLike[str], sha256: str) -> str:
    """The checksum of a file as it is now, if its header carries `sha256`."""
    checksum = hashlib.sha256()
    room = np.empty(_AT_ONCE, np.uint8)
    carried = sha256.encode()
    with open(path, "rb", buffering=0) as file:
        start = file.read(8)
        length = min(int.from_bytes(start, "little"), rules.MAX_HEADER)
        checksum.update(start + file.read(length).replace(carried, rules.NO_CHECKSUM.encode(), 1))
        while n := file.readinto(room.data):
            checksum.update(room[:n].data)
    return checksum.hexdigest()
