"""Vectors with an entry for each row, within a budget of memory; those beyond it lie in scratch files.

A vector in a scratch file is mapped: to whoever uses it, it is an array like any other. What a pass has done with is
given back to the system by `release`, so that such vectors take no memory of the process but for the part in use.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from typing import Any

import numpy as np

from maxmargin.data.rows import Array

_PAGE = mmap.ALLOCATIONGRANULARITY


class Scratch:
    """Makes vectors.

    Parameters
    ----------
    budget : int
        Bytes of memory that living vectors may take together.
    folder : str or path-like
        Where scratch files go. They have no name there, and vanish with the vector or the process.
    """

    def __init__(self, budget: int, folder: str | os.PathLike[str]):
        self.budget, self.folder = budget, folder
        self.n_bytes = 0  # of living vectors in memory
        self._lock = threading.Lock()
        self._maps: weakref.WeakValueDictionary[int, _Map] = weakref.WeakValueDictionary()

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """A new vector, its entries not set.

        Raises
        ------
        OSError
            If there is no room for its scratch file.
        """
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        with self._lock:
            fits = self.n_bytes + n_bytes <= self.budget
            self.n_bytes += n_bytes if fits else 0
        if not fits and n_bytes:
            return self._mapped(shape, dtype, n_bytes)
        try:
            vector = np.empty(shape, dtype)
        except MemoryError:
            self._forget(n_bytes)
            raise
        weakref.finalize(vector, self._forget, n_bytes)
        return vector

    def release(self, vector: Array, begin: int, end: int) -> None:
        """Entries begin to end of a vector are not needed for the time being."""
        owner = self._maps.get(_address(vector))
        if owner is not None:
            owner.release(begin * vector.strides[0], end * vector.strides[0])

    def _forget(self, n_bytes: int) -> None:
        with self._lock:
            self.n_bytes -= n_bytes

    def _mapped(self, shape: Any, dtype: Any, n_bytes: int) -> Array:
        with tempfile.TemporaryFile(dir=self.folder, prefix="maxmargin-scratch-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)  # a full disk is an error now, not a crash later
            else:
                file.truncate(n_bytes)
            content = _Map(file.fileno(), n_bytes)
        vector: Array = np.frombuffer(content, dtype).reshape(shape)
        self._maps[_address(vector)] = content
        return vector


class _Map(mmap.mmap):
    """A mapped scratch file, which lives as long as the arrays made of it."""

    def release(self, begin: int, end: int) -> None:
        """Give memory back; what was written stays in the file."""
        begin, end = -(-begin // _PAGE) * _PAGE, min(end, len(self))
        end = end if end == len(self) else end // _PAGE * _PAGE
        if begin < end and hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _address(vector: Array) -> int:
    return int(vector.__array_interface__["data"][0])
