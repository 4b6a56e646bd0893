"""Arrays of a file where the system has them, in its memory for files: nothing is copied.

A file is mapped whole, and takes memory of the process only where it is in use. Parts of it are asked for at once and
in one go, by ``MADV_POPULATE_READ``, so that a disk that fails is an error here and not the end of the process later.
Systems that do not have that (Linux before 5.14, and all others) read arrays into buffers instead.

To map a file whole is more than a saving of calls: the system may have it in large pages, of which only whole ones are
mapped at once, and parts of a file seldom begin where one of these does.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.models.parts import Extent

_POPULATE_READ = 22  # Linux's number of it
_GRAIN = mmap.ALLOCATIONGRANULARITY


class MappedFile:
    """A file, mapped.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        self._content = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        self._address = np.frombuffer(self._content, np.uint8).__array_interface__["data"][0]

    def array(self, extent: Extent) -> Array:
        """An array of the file, for those of its entries that have been asked for by `need`."""
        n = int(np.prod(extent.shape))
        array: Array = np.frombuffer(self._content, extent.dtype, n, extent.offset)
        return array.reshape(extent.shape)

    def need(self, begin: int, end: int) -> None:
        """Bytes begin to end will be looked at.

        Raises
        ------
        EOFError
            If the file ends before.
        OSError
            If it cannot be read.
        """
        if os.fstat(self._handle).st_size < end:
            raise EOFError
        self._advise(begin // _GRAIN * _GRAIN, end, _POPULATE_READ)

    def release(self, begin: int, end: int) -> None:
        """Bytes begin to end are not needed for the time being."""
        self._advise(begin // _GRAIN * _GRAIN, end, mmap.MADV_DONTNEED)

    def announce(self, places: Sequence[tuple[int, int]]) -> None:
        """Let the system read bytes from one place to another ahead."""
        announce(self._handle, places)

    def _advise(self, begin: int, end: int, advice: int) -> None:
        madvise = _madvise()
        if begin < end and madvise(ctypes.c_void_p(self._address + begin), ctypes.c_size_t(end - begin), advice):
            raise OSError(ctypes.get_errno(), "cannot be read")


def announce(handle: int, places: Sequence[tuple[int, int]]) -> None:
    """Let the system read bytes of an open file ahead, unless it has them: if it has the last, then all, as a rule."""
    if not hasattr(os, "posix_fadvise"):
        return
    for begin, end in places:
        if not _is_in_memory(handle, end - 1):
            os.posix_fadvise(handle, begin, end - begin, os.POSIX_FADV_WILLNEED)


def _is_in_memory(handle: int, place: int) -> bool:
    try:
        return os.preadv(handle, [bytearray(1)], place, os.RWF_NOWAIT) == 1
    except (OSError, AttributeError):  # it would have to wait for the disk, or the system does not tell
        return False


def can_map() -> bool:
    """Whether files can be mapped as `MappedFile` does it."""
    return _madvise() is not None


@functools.cache
def _madvise() -> Any:
    """The system's call, if it can do what is asked of it; called by ctypes, it lets other threads work."""
    if not sys.platform.startswith("linux"):
        return None
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    trial = mmap.mmap(-1, _GRAIN)
    address = ctypes.addressof(ctypes.c_char.from_buffer(trial))
    return None if madvise(ctypes.c_void_p(address), ctypes.c_size_t(_GRAIN), _POPULATE_READ) else madvise
