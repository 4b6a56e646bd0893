"""A random order of rows that do not fit into memory.

Every row is dealt into one of K buckets by a random number; then each bucket, which is about as large as a block, is
put into a random order in memory, and the buckets follow one another. Every order of all rows is as likely as any
other: it is that of sorting by random keys, the bucket being the first digit of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from maxmargin.data.rows import CSR, Array, Dense, Rows, between, n_rows, take
from maxmargin.data.store.blocks import BlockFacts, Piece, cut, length, read_block
from maxmargin.data.store.writer import BlockWriter

_MOST_BUCKETS = 1024


def shuffle_blocks(
    folder: Path, blocks: Sequence[BlockFacts], target: Path, block_bytes: int, seed: int
) -> BlockWriter:
    """Write the rows of blocks to other blocks, in a random order.

    Parameters
    ----------
    folder : Path
        Where the blocks are.
    blocks : sequence of BlockFacts
    target : Path
        An empty directory for the new ones. Buckets are there, too, until they are used.
    block_bytes : int
    seed : int

    Returns
    -------
    BlockWriter
        Finished: `done` are the new blocks.
    """
    rng = np.random.default_rng(seed)
    n_buckets = min(_MOST_BUCKETS, len(blocks))
    paths = [target / f"bucket-{k:04d}" for k in range(n_buckets)]
    for facts in blocks:
        piece = read_block(folder, facts)
        bucket = rng.integers(0, n_buckets, length(piece))
        dealt = take_piece(piece, np.argsort(bucket, kind="stable"))
        ends = np.cumsum(np.bincount(bucket, minlength=n_buckets))
        for path, begin, end in zip(paths, [0, *ends], ends):
            if begin < end:
                with open(path, "ab") as file:
                    _append(file, cut(dealt, int(begin), int(end)))
    writer = BlockWriter(target, block_bytes)
    try:
        for path in paths:
            if path.exists():
                piece = _read_bucket(path, like=piece)
                writer.add(take_piece(piece, rng.permutation(length(piece))))
                path.unlink()
        writer.finish()
    finally:
        writer.abandon()
    return writer


def take_piece(piece: Piece, chosen: Array) -> Piece:
    """A copy of some rows, in this order."""
    weight = None if piece.weight is None else piece.weight[chosen]
    return Piece(take(piece.rows, chosen), piece.y[chosen], weight, piece.norms2[chosen])


# ---------------------------------------------------------------- buckets


def _append(file: BinaryIO, piece: Piece) -> None:
    """Add rows to a bucket: the numbers of rows and of values, then the arrays."""
    rows = _compact(piece.rows)
    n_values = rows.values.size if isinstance(rows, Dense) else len(rows.data)
    file.write(np.array([length(piece), n_values], np.int64).tobytes())
    for array in _arrays(piece._replace(rows=rows)):
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _read_bucket(path: Path, like: Piece) -> Piece:
    """All rows of a bucket."""
    content, offset, parts = path.read_bytes(), 0, []
    while offset < len(content):
        n, n_values = np.frombuffer(content, np.int64, 2, offset).tolist()
        offset += 16
        arrays = []
        for array, count in zip(_arrays(like), _counts(like, n, n_values)):
            arrays.append(np.frombuffer(content, array.dtype, count, offset))
            offset += arrays[-1].nbytes
        parts.append(arrays)
    joined = [np.concatenate(arrays) for arrays in zip(*parts)]
    weight = None if like.weight is None else joined[2]
    if isinstance(like.rows, Dense):
        rows: Rows = Dense(joined[-1].reshape(len(joined[0]), -1), 0.0)
    else:
        indptr = np.concatenate(([0], np.cumsum(joined[-3]))).astype(like.rows.indices.dtype)
        rows = CSR(joined[-1], joined[-2], indptr, like.rows.n_features, 0.0)
    return Piece(rows, joined[0], weight, joined[1])


def _arrays(piece: Piece) -> list[Array]:
    """What a bucket holds of rows: labels, lengths, weights if any; then dense values, or sizes, indices and values."""
    first = [piece.y, piece.norms2] + ([] if piece.weight is None else [piece.weight])
    if isinstance(piece.rows, Dense):
        return [*first, piece.rows.values]
    return [*first, np.diff(piece.rows.indptr.astype(np.int64)), piece.rows.indices, piece.rows.data]


def _counts(like: Piece, n: int, n_values: int) -> list[int]:
    first = [n, n] + ([] if like.weight is None else [n])
    return [*first, n_values] if isinstance(like.rows, Dense) else [*first, n, n_values, n_values]


def _compact(rows: Rows) -> Rows:
    """Rows whose arrays hold nothing else."""
    if isinstance(rows, Dense):
        return rows
    begin, end = int(rows.indptr[0]), int(rows.indptr[-1])
    whole = between(rows, 0, n_rows(rows))
    assert isinstance(whole, CSR)
    return whole._replace(data=rows.data[begin:end], indices=rows.indices[begin:end], indptr=rows.indptr - begin)
