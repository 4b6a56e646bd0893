"""Rows on the workers of a Dask cluster, as a source: passes become plain tasks, one a partition.

The rows of a partition are the result of a task, and stay where that ran. Vectors with an entry for each row (labels,
costs, outputs) are the driver's, who sends each task its part and gets its part back. So workers hold nothing that
cannot be made again: if one is lost, the scheduler lets others load its partitions and repeat what was unfinished.
Tasks are pure, nothing is pinned to a worker, and each pass has only the rows behind it, so that there is no history
to replay.

What a task does is a pass over one partition in memory, by `InMemory.make_pass`, and sums are added in the tree of
`SumTree`: the same bits as in memory, for any number of workers.
"""

from __future__ import annotations

import importlib
import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.cuts import SumTree, fold, size_of
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, Dense, Rows, as_rows, n_features, n_rows, n_stored
from maxmargin.data.source import Labels, Pass, Paused, RowVector, Source, asked_to_pause
from maxmargin.data.store.store import StoreRows, as_matrix

_PATIENCE = 0.2  # seconds between two looks at whether a pass shall pause
_MUCH = 1 << 24  # bytes of sums that are not all sent to the driver, but added on the workers


class Partition(NamedTuple):
    """What the driver knows of a partition."""

    n_rows: int
    n_features: int
    n_stored: int
    is_dense: bool
    checksum: str


class Request(NamedTuple):
    """A pass, but for the rows and what is known of each."""

    step: tuple[str, str]  # its module and its name there: compiled code does not travel
    loss: Any
    shared: tuple[Any, ...]
    writes: tuple[Any, ...]
    effort: float


@dataclass(frozen=True, eq=False)
class DaskSource(Source):
    """Rows on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    futures : tuple of distributed.Future
        Each of a partition: rows, as `load_partition` makes them.
    partitions : tuple of Partition
    bias : float
        Value of the virtual intercept column, which the rows have; 0: there is none.
    """

    client: Any
    futures: tuple[Any, ...]
    partitions: tuple[Partition, ...]
    bias: float = 0.0  # type: ignore[assignment]
    n_jobs: int = 1
    _name: str = field(default_factory=lambda: f"maxmargin-{uuid.uuid4().hex[:12]}")
    _round: Any = field(default_factory=itertools.count, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(part.n_rows for part in self.partitions)

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's virtual one not counted."""
        return self.partitions[0].n_features

    @property
    def n_stored(self) -> int:
        """Number of stored values."""
        return sum(part.n_stored for part in self.partitions)

    @property
    def is_dense(self) -> bool:
        """Whether rows store all their values."""
        return self.partitions[0].is_dense

    def with_jobs(self, n_jobs: int) -> DaskSource:
        """The same: workers have threads of their own."""
        return replace(self, n_jobs=n_jobs)

    def checksum(self) -> str:
        """The checksums of the partitions."""
        return "".join(part.checksum for part in self.partitions)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, chosen: Array) -> StoreRows:
        """Some rows, by their numbers or a mask, for a prediction; they stay on the workers."""
        return StoreRows(self, np.asarray(chosen))

    def of_partitions(self, function: Callable[[Any], Any]) -> list[Any]:
        """What a function says of the matrix of each partition that has rows, on the workers."""
        number = next(self._round)
        return self._gathered(
            [
                self.client.submit(on_matrix, function, rows, key=f"{self._name}-{number}-{k}")
                for k, (rows, part) in enumerate(zip(self.futures, self.partitions))
                if part.n_rows
            ]
        )

    def _partition_sizes(self) -> list[tuple[int, int]]:
        return [(part.n_rows, part.n_stored) for part in self.partitions]

    def make_pass(
        self,
        step: Callable[..., Any],
        labels: Labels,
        *,
        shared: Sequence[Any] = (),
        reads: Sequence[RowVector] = (),
        writes: Sequence[Any] = (),
        sums: Sequence[int | tuple[int, ...] | Array] = (),
        looks_at_rows: bool = True,
        effort: float = 1.0,
    ) -> Pass:
        """Call `step` on every block of rows; see `maxmargin.data.source`."""
        if not looks_at_rows:  # all that is needed is here
            return super().make_pass(
                step, labels, shared=shared, reads=reads, writes=writes, sums=sums, looks_at_rows=False
            )
        request = Request(_name_of(step), labels.loss, tuple(shared), tuple(writes), effort)
        vectors = tuple(self.new_vector(kind) for kind in writes)
        number, zeros = next(self._round), [_shape(kind) for kind in sums]
        firsts = list(itertools.accumulate((part.n_rows for part in self.partitions), initial=0))
        tasks, places = [], []
        onto: Sequence[Any] = sums
        for k, (begin, end) in enumerate(itertools.pairwise(firsts)):
            if begin < end:
                known = labels.y[begin:end], labels.cost[begin:end], [vector[begin:end] for vector in reads]
                key = f"{self._name}-{number}-{k}"
                tasks.append(self.client.submit(run_pass, self.futures[k], request, *known, list(onto), key=key))
                places.append((begin, end))
                onto = zeros
        totals = None
        if sum(map(size_of, sums)) * 8 * len(tasks) > _MUCH:
            totals = self._add_up(tasks, number)
            answers = self._gathered([*self._without_sums(tasks, number), totals])
            totals = answers.pop()
        else:
            answers = self._gathered(tasks)
            tree = SumTree()
            for answer in answers:
                tree.add([np.array(total) for total in answer[2]])
            totals = tree.total()
        for (begin, end), (_, parts, *_rest) in zip(places, answers):
            for vector, part in zip(vectors, parts):
                vector[begin:end] = part
        for kind, total in zip(sums, totals):
            if isinstance(kind, np.ndarray):
                kind[...] = total
        totals = [kind if isinstance(kind, np.ndarray) else total for kind, total in zip(sums, totals)]
        return Pass([result for answer in answers for result in answer[0]], vectors, tuple(totals))

    def _without_sums(self, tasks: list[Any], number: int) -> list[Any]:
        return [self.client.submit(drop_sums, t, key=f"{self._name}-{number}-small-{k}") for k, t in enumerate(tasks)]

    def _add_up(self, tasks: list[Any], number: int) -> Any:
        """The tree of `SumTree`, as tasks."""
        waiting: list[tuple[int, Any]] = []
        names = itertools.count()

        def add(left: Any, right: Any) -> Any:
            return self.client.submit(add_sums, left, right, key=f"{self._name}-{number}-sum-{next(names)}")

        for k, task in enumerate(tasks):
            n, sums = 1, self.client.submit(take_sums, task, key=f"{self._name}-{number}-take-{k}")
            while waiting and waiting[-1][0] == n:
                n, sums = 2 * n, add(waiting.pop()[1], sums)
            waiting.append((n, sums))
        sums = waiting.pop()[1]
        while waiting:
            sums = add(waiting.pop()[1], sums)
        return sums

    def _gathered(self, tasks: list[Any]) -> list[Any]:
        """What tasks return; given up as soon as the pass shall pause."""
        from distributed import wait

        pending = list(tasks)
        while pending:
            try:
                wait(pending, timeout=_PATIENCE)
                pending = []
            except TimeoutError:
                if asked_to_pause():
                    self.client.cancel(tasks)
                    raise Paused from None
        return self.client.gather(tasks)


# ---------------------------------------------------------------- what workers do


def load_partition(content: Any, bias: float) -> Rows:
    """The rows of a chunk, in memory of the worker that does it."""
    X = content[0] if isinstance(content, tuple) else content
    return as_rows(X if hasattr(X, "tocsr") else np.atleast_2d(np.asarray(X)), bias)[0]


def describe_partition(rows: Rows) -> Partition:
    """What the driver needs to know of rows."""
    return Partition(
        n_rows(rows), n_features(rows), n_stored(rows), isinstance(rows, Dense), InMemory((rows,)).checksum()
    )


def on_matrix(function: Callable[[Any], Any], rows: Rows) -> Any:
    """What a function says of rows."""
    return function(as_matrix(rows))


def run_pass(rows: Rows, request: Request, y: Array, cost: Array, reads: list[Array], sums: list[Any]) -> Any:
    """One partition's part of a pass: results, vectors, sums."""
    module, name = request.step
    done = InMemory((rows,)).make_pass(
        getattr(importlib.import_module(module), name),
        Labels(_own(y), _own(cost), request.loss),
        shared=[_own(each) for each in request.shared],
        reads=[_own(vector) for vector in reads],
        writes=request.writes,
        sums=[kind.copy() if isinstance(kind, np.ndarray) else kind for kind in sums],  # a task may run twice
        effort=request.effort,
    )
    return done.results, done.vectors, done.sums


def _own(array: Any) -> Any:
    """An array as kernels have been compiled for it: what has travelled may be read-only, or not aligned."""
    return np.require(array, requirements=["C", "A", "W"]) if isinstance(array, np.ndarray) else array


def _name_of(step: Any) -> tuple[str, str]:
    """By what a worker finds a step."""
    name = step.__module__, step.__name__
    if getattr(importlib.import_module(name[0]), name[1], None) is not step:
        raise ValueError(f"a step must be a function of its module, and {name[1]!r} is not one of {name[0]}")
    return name


def drop_sums(answer: Any) -> Any:
    """Results and vectors."""
    return answer[:2]


def take_sums(answer: Any) -> list[Array]:
    """Sums."""
    return list(answer[2])


def add_sums(left: list[Array], right: list[Array]) -> list[Array]:
    """Left and right, in new arrays."""
    return fold([[np.array(total) for total in left], right])


def _shape(kind: Any) -> Any:
    return kind.shape if isinstance(kind, np.ndarray) else kind
