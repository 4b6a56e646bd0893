"""Reading a store: blocks are cut into spans, which are the unit of a pass.

The spans of a block are those that a pass over the same rows in memory would make, so both give the same bits. A
span is read into memory of its own or, to be used once, mapped: see `mapping`. What has been used can be dropped from
the system's memory.

Each block is compared with its checksum when it is first read, and again whenever its file has changed since.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxmargin.data.cuts import page_borders
from maxmargin.data.rows import CSR, Array, Dense, Rows
from maxmargin.data.store.blocks import StoreError, block_layout, status
from maxmargin.data.store.index import BlockEntry, Index
from maxmargin.data.store.mapping import MappedFile, announce, can_map
from maxmargin.models.parts import Extent, Layout, checksum_of, read_between


class StoredSpan(NamedTuple):
    """Rows of one block: `begin` to `end`, and for sparse rows the places of their values."""

    block: int
    number: int  # in its block
    begin: int
    end: int
    first_value: int
    last_value: int
    n_bytes: int


class MappedBlock:
    """A block, mapped, and its arrays.

    Parameters
    ----------
    file : MappedFile
    extents : dict of str to Extent
    """

    def __init__(self, file: MappedFile, extents: dict[str, Extent]):
        self.file = file
        self.arrays = {name: file.array(extent) for name, extent in extents.items()}


class Reader:
    """Reads spans of a store, from several threads at a time.

    Parameters
    ----------
    folder : Path
    index : Index
    """

    def __init__(self, folder: Path, index: Index):
        self.folder, self.index = folder, index
        self.is_sparse = index.storage == "csr"
        self._layouts: dict[int, Layout] = {}
        self._verified: dict[int, tuple[int, int, int]] = {}
        self._spans: dict[int, list[StoredSpan]] = {}
        self._looked_at: set[tuple[int, int]] = set()
        self._locks = [threading.RLock() for _ in index.blocks]

    def path(self, block: int) -> str:
        """The file of a block."""
        return os.path.join(self.folder, self.entry(block).file)

    def entry(self, block: int) -> BlockEntry:
        """What the index says of a block."""
        return self.index.blocks[block]

    # ------------------------------------------------------------ trust

    def verify(self, block: int) -> None:
        """Compare a block with its checksum, unless that has been done and its file has not changed since.

        Raises
        ------
        StoreError
            If it is missing, cut short or damaged; its file is named.
        """
        with self._locks[block]:
            path = self.path(block)
            try:
                now = status(path)
            except FileNotFoundError:
                raise StoreError(f"{path}: this block of the store is missing") from None
            if self._verified.get(block) == now:
                return
            entry = self.entry(block)
            self._layouts[block] = block_layout(self.folder, entry)
            if checksum_of(path, entry.sha256) != entry.sha256:
                raise StoreError(f"{path}: this block of the store is damaged: it does not match its checksum")
            self._verified[block] = now

    def layout(self, block: int) -> Layout:
        """Where the arrays of a block are."""
        self.verify(block)
        return self._layouts[block]

    # ------------------------------------------------------------ spans

    def spans(self, block: int) -> list[StoredSpan]:
        """The spans of a block, in their order."""
        with self._locks[block]:
            if block not in self._spans:
                self._spans[block] = self._cut(block)
            return self._spans[block]

    def _cut(self, block: int) -> list[StoredSpan]:
        n, width = self.entry(block).n_rows, self.index.n_features
        if not self.is_sparse:
            itemsize = np.dtype(self.index.dtype).itemsize
            borders = page_borders(Dense(np.broadcast_to(np.zeros(1), (n, width)), 0.0))
            sizes = borders * width * itemsize
            places = np.zeros_like(borders)
        else:
            indptr = self.column(block, "indptr")
            if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != self.entry(block).n_stored:
                raise StoreError(f"{self.path(block)}: the places of its rows are not in order")
            nothing = np.empty(0)
            borders = page_borders(CSR(nothing, nothing, indptr, width, 0.0))
            places = indptr[borders].astype(np.int64)
            extents = self.layout(block).extents
            per_value = extents["data"].dtype.itemsize + extents["indices"].dtype.itemsize
            sizes = places * per_value + borders * extents["indptr"].dtype.itemsize
        borders, places, sizes = borders.tolist(), places.tolist(), sizes.tolist()
        return [
            StoredSpan(block, k, borders[k], borders[k + 1], places[k], places[k + 1], sizes[k + 1] - sizes[k])
            for k in range(len(borders) - 1)
        ]

    def after(self, span: StoredSpan, n: int) -> StoredSpan | None:
        """The span so many further on; None if it is not known yet or there is none."""
        number, block = span.number + n, span.block
        while (spans := self._spans.get(block)) is not None:
            if number < len(spans):
                return spans[number]
            number, block = number - len(spans), block + 1
        return None

    def column(self, block: int, name: str) -> Array:
        """All of an array of a block."""
        extent = self.layout(block).extents[name]
        return self._read(block, name, 0, extent.shape[0])

    def rows(self, span: StoredSpan) -> Rows:
        """The rows of a span, without a bias, in memory of their own."""
        begin, end = span.begin, span.end
        if not self.is_sparse:
            return Dense(self._read(span.block, "values", begin, end), 0.0)
        first, last = span.first_value, span.last_value
        data, indices = (self._read(span.block, name, first, last) for name in ("data", "indices"))
        indptr = self._read(span.block, "indptr", begin, end + 1)
        indptr -= indptr.dtype.type(first)
        self._look_at(span, indices, indptr)
        return CSR(data, indices, indptr, self.index.n_features, 0.0)

    def map(self, block: int) -> MappedBlock | None:
        """A block that has been verified, mapped; None if it cannot be."""
        extents = self._layouts[block].extents
        if not can_map() or any(e.offset % e.dtype.itemsize for e in extents.values()):
            return None
        with self._errors_named(block):
            return MappedBlock(MappedFile(self.path(block)), extents)

    def mapped_rows(self, span: StoredSpan, mapped: MappedBlock) -> Rows:
        """The rows of a span, without a bias, as they lie in their block."""
        with self._errors_named(span.block):
            for begin, end in self.places(span):
                mapped.file.need(begin, end)
        arrays = mapped.arrays
        if not self.is_sparse:
            return Dense(arrays["values"][span.begin : span.end], 0.0)
        indptr = arrays["indptr"][span.begin : span.end + 1]
        self._look_at(span, arrays["indices"][span.first_value : span.last_value], indptr)
        return CSR(arrays["data"], arrays["indices"], indptr, self.index.n_features, 0.0)

    def places(self, span: StoredSpan) -> list[tuple[int, int]]:
        """From where to where in its file the parts of a span are, for a block that has been verified."""
        extents = self._layouts[span.block].extents
        if self.is_sparse:
            parts = [(extents[name], span.first_value, span.last_value) for name in ("data", "indices")]
            parts.append((extents["indptr"], span.begin, span.end + 1))
        else:
            parts = [(extents["values"], span.begin, span.end)]
        return [(e.offset + begin * e.row_bytes, e.offset + end * e.row_bytes) for e, begin, end in parts]

    def _look_at(self, span: StoredSpan, indices: Array, indptr: Array) -> None:
        """Kernels do not look where they step: a store made by others may have anything in it."""
        if (span.block, span.begin) in self._looked_at:
            return
        inside = indices.min(initial=0) >= 0 and indices.max(initial=-1) < self.index.n_features
        if not inside or indptr[-1] - indptr[0] != len(indices) or (np.diff(indptr) < 0).any():
            raise StoreError(f"{self.path(span.block)}: an index of a feature is out of range")
        self._looked_at.add((span.block, span.begin))

    def _read(self, block: int, name: str, begin: int, end: int) -> Array:
        extent = self.layout(block).extents[name]
        with self._errors_named(block), open(self.path(block), "rb", buffering=0) as file:
            return read_between(file, extent, begin, end)

    @contextlib.contextmanager
    def _errors_named(self, block: int) -> Iterator[None]:
        """Errors of reading as errors of the store, which name the block."""
        try:
            yield
        except FileNotFoundError:
            raise StoreError(f"{self.path(block)}: this block of the store is missing") from None
        except EOFError:
            raise StoreError(f"{self.path(block)}: this block of the store is cut short") from None
        except OSError as error:
            raise StoreError(f"{self.path(block)}: this block of the store cannot be read: {error.strerror}") from None

    # ------------------------------------------------------------ the system's memory

    def announce(self, span: StoredSpan, mapped: MappedBlock | None) -> None:
        """Let the system read a span ahead, unless all of its block will be read at once, to be verified."""
        if mapped is not None:
            mapped.file.announce(self.places(span))
        elif span.block in self._verified:
            with contextlib.suppress(OSError), open(self.path(span.block), "rb", buffering=0) as file:
                announce(file.fileno(), self.places(span))  # if it cannot be read, who reads it will say so

    def drop(self, block: int) -> None:
        """Let the system forget a block."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError), open(self.path(block), "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
