"""Vectors with an entry for each row, within a budget of memory; those beyond it lie in scratch files.

A vector in a scratch file is mapped: to whoever uses it, it is an array like any other. What a pass has done with is
given back to the system by `release`, so that such vectors take no memory of the process but for the part in use and
what the budget has room for.

Scratch files are used again, and are written in large pieces when they are made: the system then keeps them in large
pages, of which it takes far fewer to map. Both together made a pass over such a vector ten times as fast.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from maxmargin.data.rows import Array

_PAGE = mmap.ALLOCATIONGRANULARITY
_AT_ONCE = 1 << 22  # bytes that are written at a time: two of the largest pages


class Scratch:
    """Makes vectors.

    Parameters
    ----------
    budget : int
        Bytes of memory that living vectors may take together.
    folder : str or path-like
        Where scratch files go. They have no name there, and vanish with this object or the process.
    """

    def __init__(self, budget: int, folder: str | os.PathLike[str]):
        self.budget, self.folder = budget, folder
        self._n_bytes = 0  # of living vectors in memory, and of those that were forgotten since `_collect`
        self._lock = threading.Lock()
        self._maps: dict[int, _Map] = {}  # by their address
        self._unused: dict[int, list[_Map]] = {}  # by their size
        self._forgotten: deque[tuple[int, _Map | None]] = deque()  # written to by finalizers, which must not wait

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that living vectors take."""
        with self._lock:
            self._collect()
            return self._n_bytes

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """A new vector, its entries not set.

        Raises
        ------
        OSError
            If there is no room for its scratch file.
        """
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        with self._lock:
            self._collect()
            room = max(0, self.budget - self._n_bytes)
            n_kept = n_bytes if n_bytes <= room else room // _PAGE * _PAGE
            self._n_bytes += n_kept
        if n_kept < n_bytes:
            return self._mapped(shape, dtype, n_bytes, n_kept)
        try:
            vector = np.empty(shape, dtype)
        except MemoryError:
            self._forgotten.append((n_bytes, None))
            raise
        self._when_forgotten(vector, n_bytes, None)
        return vector

    def release(self, vector: Array, begin: int, end: int) -> None:
        """Entries begin to end of a vector are not needed for the time being."""
        owner = self._maps.get(_address(vector))
        if owner is not None:
            owner.release(begin * vector.strides[0], end * vector.strides[0])

    def _mapped(self, shape: Any, dtype: Any, n_bytes: int, n_kept: int) -> Array:
        with self._lock:
            unused = self._unused.get(n_bytes)
            content = unused.pop() if unused else None
        try:
            content = content or _new_map(self.folder, n_bytes)
        except BaseException:
            self._forgotten.append((n_kept, None))
            raise
        content.n_kept = n_kept
        whole: Array = np.frombuffer(content, dtype)
        self._maps[_address(whole)] = content
        self._when_forgotten(whole, n_kept, content)  # it lives as long as any part of it
        return whole.reshape(shape)

    def _when_forgotten(self, vector: Array, n_bytes: int, content: _Map | None) -> None:
        weakref.finalize(vector, self._forgotten.append, (n_bytes, content)).atexit = False

    def _collect(self) -> None:
        """Take back what vectors had that are no more; the lock is held."""
        while self._forgotten:
            n_bytes, content = self._forgotten.popleft()
            self._n_bytes -= n_bytes
            if content is not None:
                content.n_kept = 0
                content.release(0, len(content))
                self._unused.setdefault(len(content), []).append(content)


class _Map(mmap.mmap):
    """A mapped scratch file."""

    n_kept = 0  # bytes, the first ones, that stay in memory

    def release(self, begin: int, end: int) -> None:
        """Give memory back; what was written stays in the file."""
        begin, end = -(-max(begin, self.n_kept) // _PAGE) * _PAGE, min(end, len(self))
        end = end if end == len(self) else end // _PAGE * _PAGE
        if begin < end and hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _new_map(folder: str | os.PathLike[str], n_bytes: int) -> _Map:
    with tempfile.TemporaryFile(dir=folder, prefix="maxmargin-scratch-", buffering=0) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)  # a full disk is an error now, not a crash later
        zeros = memoryview(bytes(min(n_bytes, _AT_ONCE)))
        n_written = 0
        while n_written < n_bytes:
            n_written += file.write(zeros[: n_bytes - n_written])
        return _Map(file.fileno(), n_bytes)


def _address(vector: Array) -> int:
    return int(vector.__array_interface__["data"][0])
