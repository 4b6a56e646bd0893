"""Ctrl-C during a training.

The first one lets the training end within a second, with what it has found. What happens then:

* an estimator keeps the model and raises KeyboardInterrupt, so that a loop around `fit`, such as scikit-learn's grid
  search, ends as any other Python loop does;
* `solve` and `path` return the answer, which says "interrupted": otherwise it would be lost;
* inside a ``with catch_interrupt() as event`` of the caller's, everything returns, and the event tells.

Another one, while the first is being obeyed or soon after, always raises KeyboardInterrupt at once.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

_IN_A_ROW = 2.0  # seconds within which a second Ctrl-C means the whole program

_caught: threading.Event | None = None  # of the outermost `catch_interrupt`, while it lasts
_last_caught = -float("inf")  # when the last Ctrl-C was


@contextlib.contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """While the context lasts, let Ctrl-C set an event, at which trainings end early and return what they have.

    A second Ctrl-C raises KeyboardInterrupt. Only the main thread receives signals: elsewhere the event is never set,
    nor where the program has a handler of its own (but for asyncio's, which is called as well). Nested contexts share
    one event.

    Examples
    --------
    >>> from maxmargin import LinearSVC, catch_interrupt
    >>> with catch_interrupt() as event:  # without it, Ctrl-C would raise KeyboardInterrupt at the end of `fit`
    ...     model = LinearSVC().fit([[0.0], [1.0]], [0, 1])
    >>> event.is_set(), model.stop_reason_
    (False, 'converged')
    """
    global _caught
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _caught is not None:
        yield _caught
        return
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler and not _is_of_asyncio(before):
        yield event  # somebody else handles it: leave it to them
        return
    signal.signal(signal.SIGINT, functools.partial(_on_signal, event, before))
    _caught = event
    try:
        yield event
    finally:
        _caught = None
        signal.signal(signal.SIGINT, before)


def _on_signal(event: threading.Event, before: Any, signum: int, frame: FrameType | None) -> None:
    global _last_caught
    is_second = event.is_set() or time.monotonic() - _last_caught < _IN_A_ROW
    _last_caught = time.monotonic()
    event.set()
    if before is not signal.default_int_handler:
        before(signum, frame)  # asyncio cancels its task
    if is_second:
        raise KeyboardInterrupt


def _is_of_asyncio(handler: Any) -> bool:
    """asyncio's handler cancels the task, which would not notice before the training has ended by itself."""
    function = getattr(handler, "func", handler)
    return callable(function) and getattr(function, "__module__", None) == "asyncio.runners"


def end_of_fit(reason: str, complaint: str, warning: type[Warning], stacklevel: int = 1) -> None:
    """Say that a training has not come to its end, as the last thing that `fit` does: the model is kept by now.

    Raises KeyboardInterrupt if the reason is "interrupted" and no caller catches interrupts; else warns.

    Parameters
    ----------
    reason : str
        The `stop_reason_`.
    complaint : str
    warning : type
        Category of the warning.
    stacklevel : int
        As in `warnings.warn`, seen from the caller.
    """
    if reason == "interrupted" and _caught is None and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt(complaint)
    warnings.warn(complaint, warning, stacklevel=stacklevel + 1)
