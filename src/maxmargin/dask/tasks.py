"""What the workers of a Dask cluster do for a source: load a partition, and make one partition's part of a pass.

All are functions of what they are given, so that a task may run twice, anywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.cuts import fold
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import Array, Dense, Rows, as_rows, n_features, n_rows, n_stored
from maxmargin.data.source import Labels
from maxmargin.data.store.store import as_matrix


class Partition(NamedTuple):
    """What the driver knows of a partition."""

    n_rows: int
    n_features: int
    n_stored: int
    is_dense: bool
    checksum: str


class TaskRequest(NamedTuple):
    """A pass, but for the rows and what is known of each."""

    step: tuple[str, str]  # its module and its name there: compiled code does not travel
    loss: Any
    shared: tuple[Any, ...]
    writes: tuple[Any, ...]
    effort: float


class Packed(NamedTuple):
    """A part of a vector, as it travels."""

    numbers: Array  # in fewer bytes, where they can be; a single one if all are the same
    length: int
    dtype: Any
    scale: float | None = None  # by which numbers are to be multiplied


def load_partition(content: Any, number: int, bias: float) -> Rows:
    """The rows of a chunk, in memory of the worker that does it."""
    X = content[0] if isinstance(content, tuple) else content
    try:
        return as_rows(X if hasattr(X, "tocsr") else np.atleast_2d(np.asarray(X)), bias)[0]
    except ValueError as error:
        raise ValueError(f"partition {number}: {error}") from error


def describe_partition(rows: Rows) -> Partition:
    """What the driver needs to know of rows."""
    return Partition(
        n_rows(rows), n_features(rows), n_stored(rows), isinstance(rows, Dense), InMemory((rows,)).checksum()
    )


def on_matrix(function: Callable[[Any], Any], rows: Rows) -> Any:
    """What a function says of rows."""
    return function(as_matrix(rows))


def keep(request: TaskRequest) -> TaskRequest:
    """What all parts of a pass are given, so that it travels to each worker once."""
    return request


def pack_vector(vector: Array) -> Packed:
    """A vector in few bytes, if all entries are the same, as costs mostly are, or 0, c and -c, as labels and slopes."""
    n = len(vector)
    if n and (vector == vector[0]).all() and not (vector[0] == 0.0 and np.signbit(vector).any()):
        return Packed(vector[:1].copy(), n, vector.dtype)  # not a view, which would keep all of them
    if vector.dtype != np.float64:
        return Packed(vector, n, vector.dtype)
    size = np.abs(vector)
    scale = float(size.max(initial=0.0))
    zero = size == 0.0
    if np.isfinite(scale) and (zero | (size == scale)).all() and not np.signbit(vector[zero]).any():
        return Packed(np.sign(vector).astype(np.int8), n, vector.dtype, scale)
    return Packed(vector, n, vector.dtype)


def unpack_labels(rows: Rows, y: Packed, cost: Packed) -> tuple[Array, Array]:
    """Labels and costs of the rows of a partition: where the rows are, for they are given them to no other purpose."""
    return unpacked(y), unpacked(cost)


def unpacked(packed: Packed) -> Array:
    """The vector."""
    numbers = np.broadcast_to(packed.numbers, packed.length) if len(packed.numbers) == 1 else packed.numbers
    vector = np.array(numbers, dtype=packed.dtype)
    return vector if packed.scale is None else np.multiply(vector, packed.scale, out=vector)


def run_pass(rows: Rows, known: tuple[Array, Array], request: TaskRequest, reads: list[Any], sums: list[Any]) -> Any:
    """One partition's part of a pass: results, vectors, sums."""
    module, name = request.step
    y, cost = known
    done = InMemory((rows,)).make_pass(
        getattr(importlib.import_module(module), name),
        Labels(_own(y), _own(cost), request.loss),
        shared=[_own(each) for each in request.shared],
        reads=[unpacked(part) if isinstance(part, Packed) else _own(part) for part in reads],
        writes=request.writes,
        sums=[kind.copy() if isinstance(kind, np.ndarray) else kind for kind in sums],  # a task may run twice
        effort=request.effort,
    )
    return done.results, done.vectors, done.sums


def _own(array: Any) -> Any:
    """An array as kernels have been compiled for it: what has travelled may be read-only, or not aligned."""
    return np.require(array, requirements=["C", "A", "W"]) if isinstance(array, np.ndarray) else array


def drop_sums(answer: Any) -> Any:
    """Results and vectors."""
    return answer[:2]


def take_sums(answer: Any) -> list[Array]:
    """Sums."""
    return list(answer[2])


def add_sums(left: list[Array], right: list[Array]) -> list[Array]:
    """Left and right, in new arrays."""
    return fold([[np.array(total) for total in left], right])
