"""Data sets on disk that may be larger than memory: packed once, then read block by block as often as it takes.

A store is a directory: an index and blocks of rows, all in the layout of the model file, with checksums.

    blocks      one block: written, looked at, read from one row to another        index    what is known of the whole
    writer      rows in, blocks of equal size out                                 inputs   text, .npz, iterables
    tables      Parquet and CSV                                                   packing  `pack`: resumable, atomic
    shuffle     a random order of more rows than memory holds                     store    `Store`, `open_store`
"""

from maxmargin.data.store.packing import pack
from maxmargin.data.store.store import Store, StoreError, open_store

__all__ = ["Store", "StoreError", "open_store", "pack"]
