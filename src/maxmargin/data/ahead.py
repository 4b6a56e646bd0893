"""Chunks of a stream, made in a thread a few before they are asked for; see `maxmargin.data.stream`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_WAITING = 2  # chunks that wait for their use
_PATIENCE = 0.1  # seconds between two looks at whether somebody wants to stop
_END = object()


class Ahead(Iterator[Any]):
    """The same chunks, made in a thread, a few before they are asked for.

    An error in the making is raised here, in its turn. The thread ends with the stream, by `close`, or when the
    iterator is forgotten; it is a daemon, so that a pipe into which nobody writes does not keep a program from ending.

    Parameters
    ----------
    chunks : iterable
        What to make; its iterator lives in the thread.

    Examples
    --------
    >>> list(Ahead(n * n for n in range(4)))
    [0, 1, 4, 9]
    """

    def __init__(self, chunks: Iterable[Any]):
        self._stop: threading.Event | None = None
        self._work = _Work(chunks)
        threading.Thread(target=self._work.run, name="maxmargin-stream", daemon=True).start()

    def until(self, stop: threading.Event | None) -> None:
        """Be at the end once an event is set, even while a chunk is being waited for."""
        self._stop = stop

    def __next__(self) -> Any:
        while not (self._work.is_abandoned.is_set() or (self._stop is not None and self._stop.is_set())):
            try:
                made = self._work.made.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
            if made is _END:
                break
            if isinstance(made, _Failure):
                self.close()
                raise made.error
            return made
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the stream; what was made and not used is lost."""
        self._work.is_abandoned.set()

    def __del__(self) -> None:
        self.close()


class _Failure(NamedTuple):
    error: BaseException


class _Work:
    """The thread's part. It knows nothing of who asks for chunks, so that those can be forgotten."""

    def __init__(self, chunks: Iterable[Any]):
        self.chunks = chunks
        self.made: queue.Queue[Any] = queue.Queue(_WAITING)
        self.is_abandoned = threading.Event()

    def run(self) -> None:
        """Make chunks until there are no more, or nobody wants them."""
        iterator: Iterator[Any] = iter(())
        try:
            iterator = iter(self.chunks)
            for chunk in iterator:
                if not self.offer(chunk):
                    return
            self.offer(_END)
        except BaseException as error:  # whatever it is, it is for who asks for the chunk
            self.offer(_Failure(error))
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    def offer(self, item: Any) -> bool:
        """Wait for room; False if nobody wants the item any more."""
        while not self.is_abandoned.is_set():
            try:
                self.made.put(item, timeout=_PATIENCE)
                return True
            except queue.Full:
                continue
        return False
