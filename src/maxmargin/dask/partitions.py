"""From what users have (Dask arrays, dataframes, delayed chunks, a store) to a source."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.dask.source import DaskSource, describe_partition, load_partition
from maxmargin.data.rows import CSR, Array
from maxmargin.data.store.blocks import StoreError, read_block
from maxmargin.data.store.store import Store
from maxmargin.models.parts import checksum_of


def make_source(client: Any, X: Any, y: Any, weight: Any, bias: float) -> tuple[DaskSource, Array, Array | None]:
    """The rows as a source, labels and weights as arrays of the driver.

    Parameters
    ----------
    client : distributed.Client
    X : dask array or dataframe, list of delayed or futures of chunks, or Store
        Chunks of a list are ``(X, y)`` or ``(X, y, weight)`` if `y` is None. Workers must be able to read a store.
    y, weight : dask collections, array-likes or None
    bias : float
    """
    chunks = _chunks(client, X)
    if isinstance(X, Store):
        y, weight = X.labels(), X.weights()
    elif y is None:
        taken = client.gather([client.submit(_labels, chunk, pure=False) for chunk in chunks])
        y = np.concatenate([labels for labels, _ in taken])
        weight = None if taken[0][1] is None else np.concatenate([weights for _, weights in taken])
    y, weight = _in_memory(y), None if weight is None else _in_memory(weight)
    name = f"maxmargin-{uuid.uuid4().hex[:12]}"
    futures = [client.submit(load_partition, chunk, bias, key=f"{name}-rows-{k}") for k, chunk in enumerate(chunks)]
    facts = [client.submit(describe_partition, rows, key=f"{name}-facts-{k}") for k, rows in enumerate(futures)]
    known = client.gather(facts)
    widths = {part.n_features for part in known}
    if len(widths) > 1:
        raise ValueError(f"partitions have different numbers of features: {', '.join(map(str, sorted(widths)))}")
    source = DaskSource(client, tuple(futures), tuple(known), bias)
    if len(y) != source.n_rows:
        raise ValueError(f"X has {source.n_rows} rows, but y has {len(y)}")
    return source, y, weight


def _chunks(client: Any, X: Any) -> list[Any]:
    """A future for each chunk of rows, which the cluster can make again."""
    if isinstance(X, Store):
        path, name = X.path.resolve(), f"maxmargin-{uuid.uuid4().hex[:12]}"
        blocks = enumerate(X.index.blocks)
        return [client.submit(_read, path, block, X.n_features, key=f"{name}-{k}") for k, block in blocks]
    if hasattr(X, "to_delayed"):
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if hasattr(X, "rechunk") and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return client.compute(list(np.ravel(X.to_delayed())))
    if isinstance(X, list | tuple) and X and all(hasattr(each, "key") for each in X):
        from distributed import Future

        return [each if isinstance(each, Future) else client.compute(each) for each in X]
    what = "a dask array or dataframe, a list of delayed or futures, or a store"
    raise TypeError(f"expected {what}, got {type(X).__name__}; for rows in memory there is maxmargin.LinearSVC")


def _read(path: Path, block: Any, n_features: int) -> Any:
    """The rows of a block, on a worker."""
    from maxmargin.data.store.store import as_matrix

    if checksum_of(path / block.file, block.sha256) != block.sha256:
        raise StoreError(f"{path / block.file}: this block of the store is damaged: it does not match its checksum")
    rows = read_block(path, block).rows
    return as_matrix(rows._replace(n_features=n_features) if isinstance(rows, CSR) else rows)


def _labels(chunk: Any) -> tuple[Array, Array | None]:
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise ValueError("without y, chunks must be tuples (X, y) or (X, y, weight)")
    return np.asarray(chunk[1]), np.asarray(chunk[2]) if len(chunk) == 3 else None


def _in_memory(column: Any) -> Array:
    return np.asarray(column.compute() if hasattr(column, "compute") else column)
