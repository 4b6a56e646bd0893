"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

_PACKAGES = ("maxmargin", "numpy", "scipy", "numba", "scikit-learn", "liblinear-official", "snapml")


def describe() -> dict[str, Any]:
    """Machine, load and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "versions": {name: version(name) for name in _PACKAGES},
    }


def version(package: str) -> str | None:
    """The installed version of a package, if it is installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
