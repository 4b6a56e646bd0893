"""What a pass over rows is asked to do, what it brings, and the work between; see `maxmargin.data.source`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.cuts import Span, SumTree, fold, most_groups, size_of
from maxmargin.data.rows import Array, Rows

RowVector = Any  # an array with an entry (or a line) for each row


class Labels(NamedTuple):
    """What is known of each row but the row itself."""

    y: Array
    cost: Array
    loss: Any


class Block(NamedTuple):
    """Some rows, with what is known of them."""

    rows: Rows
    y: Array
    cost: Array
    loss: Any


class Pass(NamedTuple):
    """What a pass brings."""

    results: list[Any]  # what the step returned, block by block
    vectors: tuple[RowVector, ...]  # that it wrote
    sums: tuple[Array, ...]

    @property
    def total(self) -> Any:
        """The sum of the results: a number, or a tuple of numbers."""
        if isinstance(self.results[0], tuple):
            return tuple(sum(numbers) for numbers in zip(*self.results))
        return sum(self.results)


class Request(NamedTuple):
    """A pass that is asked for: the arguments of `Source.make_pass`, and who says whether it shall pause."""

    step: Callable[..., Any]
    labels: Labels
    shared: Sequence[Any] = ()
    reads: Sequence[RowVector] = ()
    writes: Sequence[Any] = ()
    sums: Sequence[int | tuple[int, ...] | Array] = ()
    looks_at_rows: bool = True
    effort: float = 1.0
    should_pause: Callable[[], bool] | None = None


# ---------------------------------------------------------------- pausing


class Paused(Exception):
    """A pass was asked to stop between two blocks."""


_should_pause: ContextVar[Callable[[], bool] | None] = ContextVar("should_pause", default=None)


@contextlib.contextmanager
def pausing(should_pause: Callable[[], bool]) -> Iterator[None]:
    """While the context lasts, passes that this thread makes raise `Paused` as soon as `should_pause()` is true."""
    token = _should_pause.set(should_pause)
    try:
        yield
    finally:
        _should_pause.reset(token)


def who_pauses() -> Callable[[], bool] | None:
    """What tells whether passes that this thread makes shall pause; None if nothing does."""
    return _should_pause.get()


def asked_to_pause() -> bool:
    """Whether passes that this thread makes shall pause."""
    should_pause = _should_pause.get()
    return should_pause is not None and should_pause()


def check_pause() -> None:
    """Raise `Paused` if passes shall pause: for long work that is no pass."""
    if asked_to_pause():
        raise Paused


# ---------------------------------------------------------------- the work


class Work:
    """A pass that is being made, bundle after bundle."""

    def __init__(self, source: Any, request: Request, sizes: Sequence[tuple[int, int]]):
        self.source, self.request = source, request
        size = sum(map(size_of, request.sums))
        self.most_groups = [most_groups(size, stored, request.effort) for _, stored in sizes]
        self.results: list[Any] = []
        self.tree = SumTree()
        self.errors: dict[int, Exception] = {}  # by the group's number
        self.vectors: tuple[RowVector, ...] = ()
        try:
            self.vectors = tuple(source.new_vector(kind) for kind in request.writes)
        except OSError as error:  # there is no room for them
            self.errors[0] = error

    def cut(self, bundle: range) -> None:
        """Cut the rows of a bundle into groups of blocks."""
        parts = [] if self.errors else [self.source.groups(k, self.request, self.most_groups[k]) for k in bundle]
        self.n_groups = [len(part) for part in parts if part]  # of each partition that has rows
        self.groups = [group for part in parts for group in part]
        self.done: list[tuple[list[Any], list[Array]]] = [([], []) for _ in self.groups]  # results and sums

    def do(self, k: int, span: Span, rows_of: Callable[[Any], Rows]) -> None:
        """Call the step on the next block of group k, unless it has failed on another one."""
        if self.errors:
            return
        step, labels, shared, reads, _, sums, looks_at_rows, _, should_pause = self.request
        (begin, end, rows), (results, totals) = span, self.done[k]
        if not results:
            totals += [start_of_sum(kind, k == 0 and self.tree.is_empty) for kind in sums]
        try:
            if should_pause is not None and should_pause():
                raise Paused
            known = labels.y[begin:end], labels.cost[begin:end], labels.loss
            block = Block(rows_of(rows), *known) if looks_at_rows else Labels(*known)
            parts = [vector[begin:end] for vector in itertools.chain(reads, self.vectors)]
            results.append(step(block, *shared, *parts, *totals))
        except Exception as error:  # whose pass it is will raise it
            self.errors[k] = error

    def finish_bundle(self) -> None:
        """Add up what the groups of a bundle have brought."""
        if self.errors or not self.groups:
            return
        done = iter(self.done)
        for n in self.n_groups:
            answers = list(itertools.islice(done, n))
            self.results += [result for some, _ in answers for result in some]
            self.tree.add(fold([totals for _, totals in answers]))
        labels, begin, end = self.request.labels, self.groups[0][0].begin, self.groups[-1][-1].end
        self.source.release([labels.y, labels.cost, *self.request.reads, *self.vectors], begin, end)

    def answer(self) -> Pass | Exception:
        """What the pass brings, or the error of its first group that has one."""
        if self.errors:
            return self.errors[min(self.errors)]
        return Pass(self.results, self.vectors, tuple(self.tree.total()))


def start_of_sum(kind: int | tuple[int, ...] | Array, is_first: bool) -> Array:
    """What a group of blocks adds to: the first one to the caller's array if there is one, the others to zeros."""
    if isinstance(kind, np.ndarray):
        return kind if is_first else np.zeros_like(kind)
    return np.zeros(kind)
