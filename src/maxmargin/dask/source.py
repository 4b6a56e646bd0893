"""Rows on the workers of a Dask cluster, as a source: passes become plain tasks, one a partition.

The rows of a partition are the result of a task, and stay where that ran, as do labels and costs, which are sent once.
All other vectors with an entry for each row (outputs, dual variables) are the driver's: each task is sent its part, and
sends its part back. So workers hold nothing that cannot be made again: if one is lost, the scheduler lets others load
its partitions and repeat what was unfinished. Tasks are pure, nothing is pinned to a worker, and each pass has only the
rows and labels behind it, so that there is no history to replay.

What a task does is a pass over one partition in memory, by `InMemory.make_pass`, and sums are added in the tree of
`SumTree`: the same bits as in memory, for any number of workers.
"""

from __future__ import annotations

import importlib
import itertools
import uuid
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import dask
import numpy as np
from dask import delayed

from maxmargin.dask.tasks import (
    Partition,
    TaskRequest,
    add_sums,
    drop_sums,
    keep,
    on_matrix,
    pack_vector,
    run_pass,
    take_sums,
    unpack_labels,
)
from maxmargin.data.cuts import SumTree, size_of
from maxmargin.data.rows import Array
from maxmargin.data.source import Labels, Pass, Paused, Request, Source, asked_to_pause
from maxmargin.data.store.store import StoreRows

_PATIENCE = 0.2  # seconds between two looks at whether a pass shall pause
_MUCH = 1 << 24  # bytes of sums that are not all sent to the driver, but added on the workers
_LITTLE = 1 << 16  # bytes of what all tasks of a pass are given that each may get with its task


class _Sent(NamedTuple):
    """Labels that workers have."""

    y: weakref.ref[Array]
    cost: weakref.ref[Array]
    futures: list[Any]  # one of each partition


@dataclass(frozen=True, eq=False)
class DaskSource(Source):
    """Rows on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    futures : tuple of distributed.Future
        Each of a partition: rows, as `tasks.load_partition` makes them.
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
    _sent: list[_Sent] = field(default_factory=list, repr=False)

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
        filled = [k for k, part in enumerate(self.partitions) if part.n_rows]
        ask = delayed(on_matrix, pure=False, traverse=False)
        keys = self._keys("predict", filled)
        return self._gathered([ask(function, self.futures[k], dask_key_name=key) for k, key in zip(filled, keys)])

    def _partition_sizes(self) -> list[tuple[int, int]]:
        return [(part.n_rows, part.n_stored) for part in self.partitions]

    def _answer(self, request: Request) -> Pass:
        if not request.looks_at_rows:  # all that is needed is here
            return super()._answer(request)
        labels, reads, sums = request.labels, request.reads, request.sums
        task = TaskRequest(
            _name_of(request.step), labels.loss, tuple(request.shared), tuple(request.writes), request.effort
        )
        vectors = tuple(self.new_vector(kind) for kind in request.writes)
        filled = [k for k, part in enumerate(self.partitions) if part.n_rows]
        firsts = list(itertools.accumulate((part.n_rows for part in self.partitions), initial=0))
        spans = [slice(firsts[k], firsts[k + 1]) for k in filled]
        reads_of = [[_travelling(vector[span]) for vector in reads] for span in spans]
        sums_of = [list(sums)] + [[_shape(kind) for kind in sums]] * (len(filled) - 1)
        answers, totals = self._computed(task, filled, self._labels_of(labels), reads_of, sums_of)
        for span, (_, parts, *_rest) in zip(spans, answers):
            for vector, part in zip(vectors, parts):
                vector[span] = part
        for kind, total in zip(sums, totals):
            if isinstance(kind, np.ndarray):
                kind[...] = total
        totals = [kind if isinstance(kind, np.ndarray) else total for kind, total in zip(sums, totals)]
        return Pass([result for answer in answers for result in answer[0]], vectors, tuple(totals))

    def _labels_of(self, labels: Labels) -> list[Any]:
        """What is known of the rows of each partition, on the workers: sent with the first pass that asks for it."""
        alive = [each for each in self._sent if each.y() is not None and each.cost() is not None]
        self._sent[:] = alive
        for each in alive:
            if each.y() is labels.y and each.cost() is labels.cost:
                return each.futures
        firsts = itertools.accumulate((part.n_rows for part in self.partitions), initial=0)
        parts = [(labels.y[a:b], labels.cost[a:b]) for a, b in itertools.pairwise(firsts)]
        with _large_graphs():
            futures = self.client.map(
                unpack_labels,
                self.futures,
                [pack_vector(y) for y, _ in parts],
                [pack_vector(cost) for _, cost in parts],
                key=self._keys("labels", range(len(parts))),
            )
        self._sent.append(_Sent(weakref.ref(labels.y), weakref.ref(labels.cost), futures))
        return futures

    def _keys(self, what: str, partitions: Iterable[int]) -> list[str]:
        """Names of tasks: of which fit and round, and what Dask's dashboard shows first, what they do."""
        number = next(self._round)
        return [f"{what}-{self._name}-{number}-{k}" for k in partitions]

    def _computed(
        self, request: TaskRequest, filled: list[int], known: list[Any], reads: list[Any], sums: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """What workers say of the partitions that have rows, and the sums."""
        keys = self._keys(request.step[1], filled)
        size = sum(each.nbytes for each in request.shared if isinstance(each, np.ndarray))
        asked: Any = request
        if size > _LITTLE:  # else it goes with each task
            asked = delayed(keep, pure=False, traverse=False)(request, dask_key_name=self._keys("keep", [0])[0])
        run = delayed(run_pass, pure=False, traverse=False)
        tasks = [
            run(self.futures[k], known[k], asked, reads[j], sums[j], dask_key_name=keys[j])
            for j, k in enumerate(filled)
        ]
        if sum(map(size_of, sums[0])) * 8 * len(tasks) > _MUCH:
            small = [delayed(drop_sums)(task, dask_key_name=f"drop-{key}") for task, key in zip(tasks, keys)]
            *answers, totals = self._gathered([*small, _sum_of(tasks, keys)])
            return answers, totals
        answers, tree = self._gathered(tasks), SumTree()
        for answer in answers:
            tree.add([np.array(total) for total in answer[2]])
        return answers, tree.total()

    def _gathered(self, tasks: list[Any]) -> list[Any]:
        """What tasks return; given up as soon as the pass shall pause."""
        from distributed import wait

        with _large_graphs():
            futures = self.client.compute(tasks)
        pending = list(futures)
        while pending:
            try:
                wait(pending, timeout=_PATIENCE)
                pending = []
            except TimeoutError:
                if asked_to_pause():
                    self.client.cancel(futures)
                    raise Paused from None
        return self.client.gather(futures)


def _sum_of(tasks: list[Any], keys: list[str]) -> Any:
    """The sums of all tasks, added on the workers: neighbours in pairs, and so on, which is the tree of `SumTree`."""
    level = [delayed(take_sums)(task, dask_key_name=f"take-{key}") for task, key in zip(tasks, keys)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2])
        odd = level[len(level) // 2 * 2 :]
        level = [delayed(add_sums)(a, b, dask_key_name=f"add-{b.key}") for a, b in pairs] + odd
    return level[0]


def _travelling(part: Array) -> Any:
    """A part of a vector, in few bytes if that can be."""
    return pack_vector(part) if part.ndim == 1 else part


def _large_graphs() -> Any:
    """While it lasts, Dask does not warn of vectors that travel with tasks: they are new each time."""
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"})


def _name_of(step: Any) -> tuple[str, str]:
    """By what a worker finds a step."""
    name = step.__module__, step.__name__
    if getattr(importlib.import_module(name[0]), name[1], None) is not step:
        raise ValueError(f"a step must be a function of its module, and {name[1]!r} is not one of {name[0]}")
    return name


def _shape(kind: Any) -> Any:
    return kind.shape if isinstance(kind, np.ndarray) else kind
