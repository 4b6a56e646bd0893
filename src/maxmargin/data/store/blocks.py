"""A block of a store: some rows, their labels and weights, in one file.

The file has the layout of a model file. Arrays: ``values`` of dense rows, or ``data``, ``indices`` and ``indptr`` of
sparse ones; ``y``; ``weight``, if rows have weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import CSR, Array, Dense, Rows, between, squared_norms
from maxmargin.models.file import ModelFileError
from maxmargin.models.parts import Layout, read_between, read_layout, write_parts

KIND = "block"
_MOST_CLASSES = 1000  # more distinct labels than that are the targets of a regression


class StoreError(ValueError):
    """A store that is not one, or is damaged or incomplete; the file at fault is named."""


class Piece(NamedTuple):
    """Some rows on their way into a store."""

    rows: Rows
    y: Array
    weight: Array | None
    norms2: Array


class BlockFacts(NamedTuple):
    """What is known of a block without its rows."""

    file: str
    n_rows: int
    n_stored: int
    n_bytes: int
    sha256: str
    smallest_index: int  # of a sparse row; -1: a text whose indices count from 0, stored as if they did from 1
    largest_index: int
    largest_norm2: float
    sum_norm2: float
    labels: list[list[Any]] | None  # each label with the number of its rows; None: too many
    smallest_label: float
    largest_label: float


def length(piece: Piece) -> int:
    """Number of rows of a piece."""
    return len(piece.y)


def cut(piece: Piece, begin: int, end: int) -> Piece:
    """A view of rows begin to end."""
    weight = None if piece.weight is None else piece.weight[begin:end]
    return Piece(between(piece.rows, begin, end), piece.y[begin:end], weight, piece.norms2[begin:end])


def bytes_of_rows(piece: Piece) -> Array:
    """How much room each row of a piece takes in a block."""
    labels = piece.y.itemsize + (0 if piece.weight is None else 8)
    if isinstance(piece.rows, Dense):
        return np.full(length(piece), piece.rows.values.shape[1] * piece.rows.values.itemsize + labels)
    rows = piece.rows
    return np.diff(rows.indptr.astype(np.int64)) * (rows.data.itemsize + rows.indices.itemsize) + (
        rows.indices.itemsize + labels
    )


def write_block(path: Path, pieces: Sequence[Piece]) -> BlockFacts:
    """Write pieces as one block.

    Parameters
    ----------
    path : Path
    pieces : sequence of Piece
        At least one, all of the same storage and dtypes.
    """
    arrays: dict[str, Sequence[Array]]
    smallest, largest = 0, -1
    if isinstance(pieces[0].rows, Dense):
        arrays = {"values": [piece.rows.values for piece in pieces]}  # type: ignore[union-attr]
        n_stored, largest = sum(piece.size for piece in arrays["values"]), arrays["values"][0].shape[1] - 1
    else:
        arrays, n_stored = _sparse_columns([piece.rows for piece in pieces])  # type: ignore[misc]
        if n_stored:
            smallest = min(int(part.min(initial=0)) for part in arrays["indices"])
            largest = max(int(part.max(initial=-1)) for part in arrays["indices"])
    arrays["y"] = [piece.y for piece in pieces]
    if pieces[0].weight is not None:
        arrays["weight"] = [piece.weight for piece in pieces if piece.weight is not None]
    sha256 = write_parts(path, KIND, {}, arrays)
    y, norms2 = np.concatenate(arrays["y"]), np.concatenate([piece.norms2 for piece in pieces])
    labels, counts = np.unique(y, return_counts=True)
    few = len(labels) <= _MOST_CLASSES
    return BlockFacts(
        file=path.name,
        n_rows=len(y),
        n_stored=int(n_stored),
        n_bytes=path.stat().st_size,
        sha256=sha256,
        smallest_index=smallest,
        largest_index=largest,
        largest_norm2=float(norms2.max(initial=0.0)),
        sum_norm2=float(norms2.sum()),
        labels=[[k, n] for k, n in zip(labels.tolist(), counts.tolist())] if few else None,
        smallest_label=float(labels[0]),
        largest_label=float(labels[-1]),
    )


def _sparse_columns(rows: list[CSR]) -> tuple[dict[str, Sequence[Array]], int]:
    """The arrays of a CSR matrix, in pieces."""
    data, indices = [], []
    sizes = [np.diff(part.indptr.astype(np.int64)) for part in rows]
    for part in rows:
        stored = slice(int(part.indptr[0]), int(part.indptr[-1]))
        data.append(part.data[stored])
        indices.append(part.indices[stored])
    index_dtype = np.result_type(*indices)
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(index_dtype)
    indices = [part.astype(index_dtype, copy=False) for part in indices]
    return {"data": data, "indices": indices, "indptr": [indptr]}, int(indptr[-1])


def block_layout(folder: Path, facts: Any) -> Layout:
    """Where the arrays of a block are; an error that names the file if it is not the one that the index means."""
    path = folder / facts.file
    try:
        layout = read_layout(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: this block of the store is missing") from None
    except ModelFileError as error:
        raise StoreError(f"{error} (a damaged block)") from None
    if layout.kind != KIND or layout.sha256 != facts.sha256 or layout.size != facts.n_bytes:
        raise StoreError(f"{path}: this is not the block that the index of the store means")
    if "y" not in layout.extents or not {"values", "indptr"} & set(layout.extents):
        raise StoreError(f"{path}: arrays of this block are missing (a damaged block)")
    expected = facts.n_rows
    n = layout.extents["values"].shape[0] if "values" in layout.extents else layout.extents["indptr"].shape[0] - 1
    if n != expected or layout.extents["y"].shape != (expected,):
        raise StoreError(f"{path}: the block has {n} rows, and the index says {expected}")
    return layout


def status(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """What changes when somebody replaces or changes a file."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def read_block(folder: Path, facts: Any) -> Piece:
    """All rows of a block, in memory of their own."""
    layout = block_layout(folder, facts)
    with open(folder / facts.file, "rb", buffering=0) as file:
        try:
            arrays = {name: read_between(file, e, 0, e.shape[0]) for name, e in layout.extents.items()}
        except EOFError:
            raise StoreError(f"{folder / facts.file}: the block became shorter while it was read") from None
    return as_piece(arrays)


def as_piece(arrays: dict[str, Array]) -> Piece:
    """The arrays of a block as rows."""
    rows: Rows
    if "values" in arrays:
        rows = Dense(arrays["values"], 0.0)
        return Piece(rows, arrays["y"], arrays.get("weight"), squared_norms(rows))
    indices = arrays["indices"]
    rows = CSR(arrays["data"], indices, arrays["indptr"], 1 + int(indices.max(initial=0)), 0.0)
    safe = rows if indices.min(initial=0) >= 0 else rows._replace(indices=indices + 1, n_features=rows.n_features + 1)
    return Piece(rows, arrays["y"], arrays.get("weight"), squared_norms(safe))
