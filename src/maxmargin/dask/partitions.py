"""From what users have (Dask arrays, dataframes, delayed chunks, a store) to a source."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.dask.source import DaskSource
from maxmargin.dask.tasks import describe_partition, load_partition
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
    own = None  # weights that come with the rows
    if isinstance(X, Store):
        if y is not None:
            raise ValueError("a store has labels of its own: fit(store), without y")
        y, own = X.labels(), X.weights()
    elif y is None:
        y, own = _labels(client, chunks)
    if own is not None and weight is not None:
        raise ValueError("the rows come with weights of their own: leave out sample_weight")
    y, weight = _in_memory(y), own if weight is None else _in_memory(weight)
    name = f"maxmargin-{uuid.uuid4().hex[:12]}"
    numbers = range(len(chunks))
    futures = client.map(load_partition, chunks, numbers, bias=bias, key=[f"load-{name}-{k}" for k in numbers])
    facts = client.map(describe_partition, futures, key=[f"describe-{name}-{k}" for k in numbers])
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
    if _is_list_of_chunks(X):
        from distributed import Future

        return [each if isinstance(each, Future) else client.compute(each) for each in X]
    what = "a dask array or dataframe, a list of delayed or futures, or a store"
    raise TypeError(f"expected {what}, got {type(X).__name__}; for rows in memory there is maxmargin.LinearSVC")


def _is_list_of_chunks(X: Any) -> bool:
    """Whether these are delayed or futures."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(hasattr(each, "key") for each in X)


def as_dask_array(X: Any, n_features: int) -> Any:
    """A dask array whose chunks have all columns, of what `make_source` takes; what is in memory stays as it is."""
    if _is_list_of_chunks(X):
        import dask.array as da
        from dask import delayed

        shape = np.nan, n_features
        chunks = [da.from_delayed(delayed(_rows)(each), shape, meta=np.empty((0, 0))) for each in X]
        return da.concatenate(chunks, allow_unknown_chunksizes=True)
    if hasattr(X, "map_partitions") and not hasattr(X, "map_blocks"):  # a dataframe
        X = X.to_dask_array()
    return X.rechunk({1: -1}) if hasattr(X, "map_blocks") and X.ndim == 2 and X.numblocks[1] > 1 else X


def _rows(chunk: Any) -> Any:
    return chunk[0] if isinstance(chunk, tuple) else chunk


def _read(path: Path, block: Any, n_features: int) -> Any:
    """The rows of a block, on a worker."""
    from maxmargin.data.store.store import as_matrix

    if checksum_of(path / block.file, block.sha256) != block.sha256:
        raise StoreError(f"{path / block.file}: this block of the store is damaged: it does not match its checksum")
    rows = read_block(path, block).rows
    return as_matrix(rows._replace(n_features=n_features) if isinstance(rows, CSR) else rows)


def _labels(client: Any, chunks: list[Any]) -> tuple[Array, Array | None]:
    """The labels and weights, if any, of chunks that have them with them."""
    taken = client.gather(client.map(_labels_of, chunks, pure=False))
    n_weighted = sum(weight is not None for _, weight in taken)
    if n_weighted not in (0, len(taken)):
        raise ValueError(f"{n_weighted} of {len(taken)} chunks have weights: either all must have them, or none")
    weight = np.concatenate([weight for _, weight in taken]) if n_weighted else None
    return np.concatenate([labels for labels, _ in taken]), weight


def _labels_of(chunk: Any) -> tuple[Array, Array | None]:
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise ValueError("without y, chunks must be tuples (X, y) or (X, y, weight)")
    return np.asarray(chunk[1]), np.asarray(chunk[2]) if len(chunk) == 3 else None


def _in_memory(column: Any) -> Array:
    return np.asarray(column.compute() if hasattr(column, "compute") else column)
