"""`pack`: data into a store, in memory that does not grow with them, whole or not at all.

Blocks go to a directory beside the store, ``STORE.packing``, with a journal of how far the work has come. When all is
there the index is written and the directory takes the store's name, in one step. An interrupted `pack` that is started
again with the same input and options goes on behind the last border that the journal knows.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.sizes import as_bytes
from maxmargin.data.store.blocks import BlockFacts, Piece, cut, length, read_block, write_block
from maxmargin.data.store.form import Form
from maxmargin.data.store.index import FILE, Origin, make_index, write_index
from maxmargin.data.store.inputs import Input, Options, Seen, as_input
from maxmargin.data.store.journal import Border, Journal, are_sound, read_journal, write_journal
from maxmargin.data.store.lazy import Collection
from maxmargin.data.store.shuffle import shuffle_blocks, take_piece
from maxmargin.data.store.store import Store, open_store
from maxmargin.data.store.tables import Tables
from maxmargin.data.store.writer import BlockWriter
from maxmargin.parallel import effective_n_jobs

_LEAST_CHUNK = 1 << 12


def pack(
    data: Any,
    path: str | os.PathLike[str],
    *,
    y: Any = None,
    sample_weight: Any = None,
    block_size: int | str = "64M",
    shuffle: bool = False,
    test: float | None = None,
    seed: int = 0,
    overwrite: bool = False,
    on_progress: Callable[[int], None] | None = None,
    **reading: Any,
) -> Store:
    """Pack data into a store on disk, from which models are trained without ever holding it all in memory.

    Packing itself takes a few blocks of memory, however long the input. The store appears under its name when it is
    complete; an interrupted call leaves a directory ``<path>.packing``, and the same call goes on from there (with
    files and standard input, not with Python's iterables).

    Parameters
    ----------
    data : str, path-like, list of these, matrix, or iterable
        Svmlight text, plain or compressed, ``"-"`` for standard input; ``.npz`` files with ``X`` and ``y`` (or the
        parts of a CSR matrix that `scipy.sparse.save_npz` writes, and ``y``); Parquet or CSV files; a matrix, or a Dask
        array or dataframe, with `y`; or an iterable of chunks ``(X, y)`` or ``(X, y, sample_weight)``. A list of files
        is one data set.
    path : path-like
        The store: a directory that does not exist yet.
    y, sample_weight : array-like, optional
        Labels and weights, if `data` is a matrix, or such collections of the same chunks.
    block_size : int or str
        Size of a block, such as ``"64M"``.
    shuffle : bool
        Put all rows into a random order; by default they stay in their order.
    test : float, optional
        Put this share of the rows, chosen at random, into a second store, ``<path>.test``.
    seed : int
        Of that order and that choice.
    overwrite : bool
        Replace a store of that name.
    on_progress : callable, optional
        Called with the number of rows read so far, now and then.
    **reading
        How the data are read. `dtype`: float32 or float64, by default that of the data, float64 for text. `storage`:
        "dense", "csr", or "auto", as given, which for text is "csr". `n_features` and `zero_based`, for text, and
        `n_jobs` are as in `load_svmlight`. `label` and `weight`: the columns of a table that hold these.

    Returns
    -------
    Store
        The new store, opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = pack(np.eye(4), f"{folder}/tiny", y=[0, 1, 1, 1])
    ...     print(store.n_rows, store.n_features, store.classes)
    4 4 [0 1]
    """
    options = Options(**reading)
    work = _Work(Path(path), test, overwrite)
    block_bytes = as_bytes(block_size, "block_size")
    options = options._replace(
        n_jobs=effective_n_jobs(options.n_jobs), chunk_bytes=max(_LEAST_CHUNK, min(options.chunk_bytes, block_bytes))
    )
    is_lazy = hasattr(data, "to_delayed")
    given = Collection(data, y, sample_weight) if is_lazy else as_input(data, y, sample_weight, options, Tables)
    form = Form(options, given.is_text)
    identity = given.fingerprint()
    how = [form.dtype, *options[1:-2], options.chunk_bytes, block_bytes, bool(shuffle), test, seed]
    packing = _Packing(work, form, block_bytes, None if identity is None else [identity, *how], seed)
    packing.read(given, on_progress)
    work.finish(packing, given, options.zero_based, seed if shuffle else None)
    return open_store(work.target)


class _Work:
    """The directories of a `pack`: where blocks are made, and where they go.

    Parameters
    ----------
    target : Path
    test : float or None
    overwrite : bool
    """

    def __init__(self, target: Path, test: float | None, overwrite: bool):
        if test is not None and not 0.0 < test < 1.0:
            raise ValueError(f"test must be between 0 and 1, got {test!r}")
        self.target, self.test = target, test
        self.targets = [target] if test is None else [target, target.with_name(target.name + ".test")]
        for each in self.targets:
            if each.exists() and not (overwrite and (each / FILE).is_file()):
                what = "exists; overwrite=True (--overwrite) replaces a store"
                raise FileExistsError(17, what if (each / FILE).is_file() else "exists and is not a store", str(each))
        if not target.absolute().parent.is_dir():
            raise FileNotFoundError(2, "there is no such directory", str(target.absolute().parent))
        self.folder = target.with_name(target.name + ".packing")
        self.parts = [self.folder / "rows", self.folder / "test"][: len(self.targets)]

    def prepare(self, fingerprint: list[Any] | None) -> Journal | None:
        """Make the directories; the journal of an earlier time, if it was about the same work."""
        journal = read_journal(self.folder) if fingerprint is not None else None
        is_same = journal is not None and journal.fingerprint == fingerprint
        if journal is None or not (is_same and all(map(are_sound, self.parts, journal.blocks))):
            shutil.rmtree(self.folder, ignore_errors=True)
            journal = None
        for part in self.parts:
            part.mkdir(parents=True, exist_ok=True)
        return journal

    def finish(self, packing: _Packing, given: Input, zero_based: Any, seed: int | None) -> None:
        """From blocks to a store."""
        form, n_features = packing.form, packing.form.n_features
        parts = list(zip(self.parts, [writer.done for writer in packing.writers]))
        base = None
        if given.is_text:
            counts_from_zero = zero_based is True or any(f.smallest_index < 0 for _, blocks in parts for f in blocks)
            base = 0 if counts_from_zero else 1
            if counts_from_zero and zero_based is not True and form.storage == "csr":
                parts = [_rewritten(folder, blocks, _with_next_index) for folder, blocks in parts]
            n_features = n_features or max(1, 1 + max(f.largest_index for _, blocks in parts for f in blocks))
        if seed is not None:
            parts = [_shuffled(folder, blocks, packing.block_bytes, seed) for folder, blocks in parts]
        origin = Origin(
            form.storage, str(form.dtype), form.label, form.names, form.has_weights, n_features, base, given.name, seed
        )
        for folder, blocks in parts:
            write_index(folder, make_index(blocks, origin))
        for (folder, _), target in reversed(list(zip(parts, self.targets))):
            if target.exists():
                shutil.rmtree(target)
            os.replace(folder, target)
        shutil.rmtree(self.folder, ignore_errors=True)


class _Packing:
    """Pieces of the input on their way into blocks of one part or two."""

    def __init__(self, work: _Work, form: Form, block_bytes: int, fingerprint: list[Any] | None, seed: int):
        self.work, self.form, self.block_bytes, self.fingerprint = work, form, block_bytes, fingerprint
        journal = work.prepare(fingerprint)
        self.border = journal.border if journal else Border(shares=(0,) * len(work.parts))
        self.borders = deque([self.border])
        blocks = journal.blocks if journal else [[] for _ in work.parts]
        self.writers = [BlockWriter(f, block_bytes, b, self._save) for f, b in zip(work.parts, blocks)]
        form.restore(journal.form if journal else None)
        form.n_rows = self.border.n_rows
        self.seen = Seen(
            min((f.smallest_index for part in blocks for f in part), default=0),
            max((f.largest_index for part in blocks for f in part), default=-1),
        )
        bits = np.random.PCG64(seed)
        bits.advance(self.border.n_rows)
        self.rng = np.random.Generator(bits)

    def read(self, given: Input, on_progress: Callable[[int], None] | None) -> None:
        """Read all of the input."""
        border = self.border
        to_drop = [writer.n_written - share for writer, share in zip(self.writers, border.shares)]
        try:
            for rows in given.pieces(border.n_pieces, self.seen):
                piece = self.form.piece(rows)
                shares = []
                for k, part in enumerate(self._dealt(piece)):
                    shares.append(border.shares[k] + length(part))
                    n_drop = min(to_drop[k], length(part))
                    to_drop[k] -= n_drop
                    self.writers[k].add(cut(part, n_drop, length(part)))
                border = Border(border.n_pieces + 1, border.n_rows + length(piece), tuple(shares))
                self.borders.append(border)
                if on_progress is not None:
                    on_progress(border.n_rows)
            if not border.n_rows:
                raise ValueError("there are no rows to pack")
            for writer in self.writers:
                if not writer.finish():
                    raise ValueError(f"the test part of {border.n_rows} rows, or the rest, would be empty")
        finally:
            for writer in self.writers:
                writer.abandon()

    def _dealt(self, piece: Piece) -> list[Piece]:
        """The rows of each part."""
        if self.work.test is None:
            return [piece]
        is_test = self.rng.random(length(piece)) < self.work.test
        return [take_piece(piece, np.flatnonzero(~is_test)), take_piece(piece, np.flatnonzero(is_test))]

    def _save(self) -> None:
        """After a block: write down the last border before which all rows are in blocks."""
        if self.fingerprint is None:
            return
        written = [writer.n_written for writer in self.writers]
        while len(self.borders) > 1 and all(share <= n for share, n in zip(self.borders[1].shares, written)):
            self.borders.popleft()
        blocks = [writer.done for writer in self.writers]
        write_journal(self.work.folder, Journal(self.fingerprint, self.borders[0], blocks, self.form.as_json()))


# ---------------------------------------------------------------- blocks once more


def _rewritten(
    folder: Path, blocks: list[BlockFacts], change: Callable[[Piece], Piece]
) -> tuple[Path, list[BlockFacts]]:
    """The same blocks with something changed, in another directory: what the journal knows stays as it is."""
    target = _empty(folder.with_name(folder.name + "-changed"))
    changed = []
    for facts in blocks:
        again = write_block(target / facts.file, [change(read_block(folder, facts))])
        changed.append(again._replace(labels=facts.labels))
    return target, changed


def _with_next_index(piece: Piece) -> Piece:
    """Indices that were stored as if they counted from 1, and count from 0."""
    rows: Any = piece.rows
    return piece._replace(rows=rows._replace(indices=rows.indices + 1))


def _shuffled(folder: Path, blocks: list[BlockFacts], block_bytes: int, seed: int) -> tuple[Path, list[BlockFacts]]:
    target = _empty(folder.with_name(folder.name + "-shuffled"))
    return target, shuffle_blocks(folder, blocks, target, block_bytes, seed).done


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
