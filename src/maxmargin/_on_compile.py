"""Who wants to know when functions are compiled; apart from the compiler, which takes a third of a second to import."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def on_compile(listener: Callable[[str], None]) -> Iterator[None]:
    """While the context lasts, call `listener(function_name)` before a function is compiled."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)
