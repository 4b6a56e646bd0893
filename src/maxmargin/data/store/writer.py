"""Rows in, in pieces of any size; blocks of equal size out.

Where a block ends depends on the rows alone: a row begins a new block if the old one would become larger than
`block_bytes` by it. However the rows came, in one file or ten, they make the same blocks. One block is written, in a
thread, while the next one fills.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from maxmargin.data.store.blocks import BlockFacts, Piece, bytes_of_rows, cut, length, write_block


class BlockWriter:
    """Writes blocks into a directory.

    Parameters
    ----------
    folder : Path
    block_bytes : int
        Size of a block, at most, but for a single row that is larger.
    done : sequence of BlockFacts
        Blocks that are there already, from an earlier, interrupted time.
    on_block : callable, optional
        Called in the thread of `add` after each block that is safely on disk.
    """

    def __init__(
        self,
        folder: Path,
        block_bytes: int,
        done: Sequence[BlockFacts] = (),
        on_block: Callable[[], None] = lambda: None,
    ):
        self.folder, self.block_bytes, self.on_block = folder, block_bytes, on_block
        self.done = list(done)
        self._n_begun = len(self.done)
        self._pieces: list[Piece] = []
        self._filled = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="maxmargin-pack")
        self._writing: Future[BlockFacts] | None = None

    @property
    def n_written(self) -> int:
        """Number of rows in blocks that are safely on disk."""
        return sum(block.n_rows for block in self.done)

    def add(self, piece: Piece) -> None:
        """Add rows."""
        sizes = bytes_of_rows(piece)
        begin = 0
        while begin < len(sizes):
            ends = self._filled + np.cumsum(sizes[begin:])
            n_fit = int(np.searchsorted(ends, self.block_bytes, side="right"))
            if n_fit == 0 and not self._pieces:
                n_fit = 1  # a row that is larger than a block has one of its own
            if n_fit:
                self._pieces.append(cut(piece, begin, begin + n_fit))
                self._filled = int(ends[n_fit - 1])
                begin += n_fit
            if begin < len(sizes):
                self._close_block()

    def finish(self) -> list[BlockFacts]:
        """Write what is left; all blocks."""
        if self._pieces:
            self._close_block()
        self._wait()
        self._pool.shutdown()
        return self.done

    def abandon(self) -> None:
        """End the thread; what is not in a block yet is lost."""
        self._pool.shutdown(wait=True)

    def _close_block(self) -> None:
        self._wait()
        path = self.folder / f"block-{self._n_begun:06d}"
        self._writing = self._pool.submit(write_block, path, [piece for piece in self._pieces if length(piece)])
        self._n_begun += 1
        self._pieces, self._filled = [], 0

    def _wait(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self.done.append(writing.result())
            self.on_block()
