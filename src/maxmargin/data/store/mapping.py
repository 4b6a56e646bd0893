"""Arrays of a file where the system has them, in its memory for files: nothing is copied.

A mapped array takes memory of the process only while it lives. Its pages are asked for at once and in one go, by
``MADV_POPULATE_READ``, so that a disk that fails is an error here and not the end of the process later. Systems that
do not have that (Linux before 5.14, and all others) read the array into a buffer instead.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import sys
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.models.parts import Extent

_POPULATE_READ = 22  # Linux's number of it
_GRAIN = mmap.ALLOCATIONGRANULARITY


def map_between(handle: int, extent: Extent, begin: int, end: int) -> Array | None:
    """Entries begin to end, along the first axis, of an array in an open file; None if it cannot be mapped.

    Raises
    ------
    EOFError
        If the file ends before the array does.
    OSError
        If it cannot be read.
    """
    madvise = _madvise()
    offset, n_bytes = extent.offset + begin * extent.row_bytes, (end - begin) * extent.row_bytes
    if madvise is None or n_bytes == 0 or offset % extent.dtype.itemsize:
        return None
    start = offset // _GRAIN * _GRAIN
    if os.fstat(handle).st_size < offset + n_bytes:
        raise EOFError
    content = mmap.mmap(handle, offset - start + n_bytes, access=mmap.ACCESS_READ, offset=start)
    count = math.prod(extent.shape[1:]) * (end - begin)
    array: Array = np.frombuffer(content, extent.dtype, count, offset - start)
    address = array.__array_interface__["data"][0] - (offset - start)
    if madvise(ctypes.c_void_p(address), ctypes.c_size_t(len(content)), _POPULATE_READ):
        raise OSError(ctypes.get_errno(), "cannot be read")
    return array.reshape(end - begin, *extent.shape[1:])


@functools.cache
def _madvise() -> Any:
    """The system's call, if it can do what is asked of it; called by ctypes, it lets other threads work."""
    if not sys.platform.startswith("linux"):
        return None
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    trial = mmap.mmap(-1, _GRAIN)
    address = ctypes.addressof(ctypes.c_char.from_buffer(trial))
    return None if madvise(ctypes.c_void_p(address), ctypes.c_size_t(_GRAIN), _POPULATE_READ) else madvise
