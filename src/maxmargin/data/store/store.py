"""A store, opened: what is in it, and its rows, some at a time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.rows import CSR, Array
from maxmargin.data.sizes import as_bytes, in_words
from maxmargin.data.store.blocks import StoreError
from maxmargin.data.store.index import FILE, read_index
from maxmargin.data.store.reader import Reader
from maxmargin.data.stream import Ahead

__all__ = ["Store", "StoreError", "is_store", "open_store"]


def open_store(path: str | os.PathLike[str], memory: int | str = "2G") -> Store:
    """Open a store that `maxmargin pack` or `maxmargin.pack` has written.

    Parameters
    ----------
    path : path-like
        The directory.
    memory : int or str
        How much memory may be used for its rows, and for vectors with an entry for each row, in bytes or as text such
        as ``"500M"``. As many rows as fit are kept in memory between passes, the others are read each time.

    Returns
    -------
    Store

    Raises
    ------
    StoreError
        If it is no store, or its index is damaged. A block is looked at when it is first read.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin import pack
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pack(np.eye(3), f"{folder}/tiny", y=[1.0, -1.0, 1.0])
    ...     store = open_store(f"{folder}/tiny", memory="1M")
    ...     [y.tolist() for X, y in store]
    [[1.0, -1.0, 1.0]]
    """
    return Store(Path(os.fsdecode(path)), as_bytes(memory, "memory"))


def is_store(path: Any) -> bool:
    """Whether a path is that of a store, sound or not."""
    return isinstance(path, str | os.PathLike) and os.path.isfile(os.path.join(os.fsdecode(path), FILE))


class Store:
    """Rows on disk, with labels and perhaps weights. Iterating gives ``(X, y)`` or ``(X, y, weight)``, some rows each.

    Parameters
    ----------
    path : Path
    memory : int
        The budget in bytes; see `open_store`.

    Attributes
    ----------
    index : Index
        All that is known of it.
    """

    def __init__(self, path: Path, memory: int):
        self.path, self.memory = path, memory
        self.index = read_index(path)
        self.reader = Reader(path, self.index)
        self.first_rows = list(itertools.accumulate((block.n_rows for block in self.index.blocks), initial=0))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.index.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.index.n_features

    @property
    def n_stored(self) -> int:
        """Number of stored values."""
        return self.index.n_stored

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights."""
        return self.index.has_weights

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.index.blocks)

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return np.dtype(self.index.dtype)

    @property
    def classes(self) -> Array | None:
        """Distinct labels in ascending order; None if there are too many for classes."""
        return None if self.index.classes is None else np.array(self.index.classes)

    def __repr__(self) -> str:
        shape = f"{self.n_rows:,} rows x {self.n_features:,} features"
        return f"Store({str(self.path)!r}: {shape}, {in_words(self.index.n_bytes)} in {self.n_blocks} blocks)"

    def verify(self) -> None:
        """Compare every block with its checksum.

        Raises
        ------
        StoreError
            It names the first block that is missing, cut short or damaged.
        """
        for block in range(self.n_blocks):
            self.reader.verify(block)

    def labels(self) -> Array:
        """The labels of all rows."""
        return self.index.label_values(self._column("y"))

    def weights(self) -> Array | None:
        """The weights of all rows, if they have any."""
        return self._column("weight") if self.index.has_weights else None

    def _column(self, name: str) -> Array:
        return np.concatenate([self.reader.column(block, name) for block in range(self.n_blocks)])

    @cached_property
    def _memory(self) -> Any:
        from maxmargin.data.store.source import Memory

        return Memory(self)

    def source(self, bias: float = 0.0, n_jobs: int = 1) -> Any:
        """The rows as a source for `Problem`; all sources of a store share its memory.

        Parameters
        ----------
        bias : float
            Value of a virtual constant column, for an intercept; 0: none.
        n_jobs : int
            Threads for passes.
        """
        from maxmargin.data.store.source import StoreSource

        return StoreSource(self, self._memory, float(bias), n_jobs)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, chosen: Array) -> StoreRows:
        """Some rows, by their numbers or a mask, for a prediction; they are not read yet."""
        return StoreRows(self, np.asarray(chosen))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return Ahead(self._chunks())

    def _chunks(self) -> Iterator[tuple[Any, ...]]:
        for block in range(self.n_blocks):
            y = self.index.label_values(self.reader.column(block, "y"))
            weight = self.reader.column(block, "weight") if self.index.has_weights else None
            for span in self.reader.spans(block):
                X = as_matrix(self.reader.rows(span))
                part = slice(span.begin, span.end)
                yield (X, y[part]) if weight is None else (X, y[part], weight[part])

    def load(self) -> tuple[Any, ...]:
        """All of it in memory: ``X, y``, or ``X, y, weight`` if rows have weights."""
        from scipy.sparse import vstack

        chunks = list(zip(*self._chunks()))
        X = vstack(chunks[0], format="csr") if self.index.storage == "csr" else np.concatenate(chunks[0])
        return (X, *(np.concatenate(parts) for parts in chunks[1:]))


class StoreRows:
    """Some rows of a store, or of another source.

    Parameters
    ----------
    store : Store or Source
    chosen : ndarray
        Their numbers, or a mask.
    """

    def __init__(self, store: Any, chosen: Array):
        self.store, self.chosen = store, chosen

    def __len__(self) -> int:
        return int(self.chosen.sum()) if self.chosen.dtype == bool else len(self.chosen)


def as_matrix(rows: Any) -> Any:
    """Rows as the matrix that a user knows: an array or a `scipy.sparse.csr_matrix`."""
    if not isinstance(rows, CSR):
        return rows.values
    from scipy.sparse import csr_matrix

    X = csr_matrix((len(rows.indptr) - 1, rows.n_features), dtype=rows.data.dtype)
    X.data, X.indices, X.indptr = rows.data, rows.indices, rows.indptr
    X.has_canonical_format = True  # the packer has seen to it
    return X
