"""Sizes in bytes, as people write them."""

from __future__ import annotations

import operator
import re
from typing import Any

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def as_bytes(size: Any, name: str = "size") -> int:
    """Number of bytes that is meant.

    Parameters
    ----------
    size : int or str
        A number of bytes, or text such as ``"2G"``, ``"500 MB"``, ``"1.5GiB"``; K, M, G, T are powers of 1024.
    name : str
        What an error message calls it.

    Examples
    --------
    >>> as_bytes("2G"), as_bytes("1.5K"), as_bytes(100)
    (2147483648, 1536, 100)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
        if match is None:
            raise ValueError(f'{name} must be a number of bytes or text like "2G", got {size!r}')
        n = int(float(match[1]) * _UNITS[match[2].upper()])
    else:
        try:
            n = operator.index(size)
        except TypeError:
            raise TypeError(f"{name} must be an int or a str, got {type(size).__name__}") from None
    if n < 1:
        raise ValueError(f"{name} must be at least 1 byte, got {size!r}")
    return n


def in_words(n_bytes: float) -> str:
    """A size that is easy to read.

    Examples
    --------
    >>> in_words(2_500_000)
    '2.4 MB'
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TB"


def available_memory() -> float:
    """Bytes that the system could use for files; infinity where nobody tells."""
    return min(_of_the_machine(), _of_the_group())


def _of_the_machine() -> float:
    try:
        with open("/proc/meminfo", "rb") as file:
            return next(int(line.split()[1]) * 1024.0 for line in file if line.startswith(b"MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def _of_the_group() -> float:
    """What a container allows, if this is one."""
    try:
        with open("/sys/fs/cgroup/memory.max", "rb") as file:
            return float(file.read())
    except (OSError, ValueError):  # it is not limited
        return float("inf")
