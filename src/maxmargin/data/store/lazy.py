"""Dask arrays and dataframes to pack: computed chunk by chunk, so that no more than one is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.data.store.inputs import Given, Seen


class Collection:
    """A Dask array or dataframe; labels and weights are such collections, too, of the same chunks, or arrays.

    Parameters
    ----------
    X : dask array or dataframe
    y : dask array, series or array-like
    weight : dask array, series, array-like or None
    """

    is_text = False
    name = "a Dask collection"

    def __init__(self, X: Any, y: Any, weight: Any):
        if y is None:
            raise ValueError("a Dask collection needs labels: pack(X, path, y=y)")
        self.X, self.columns = _chunks(X), [y if _is_lazy(y) else np.asarray(y)]
        if weight is not None:
            self.columns.append(weight if _is_lazy(weight) else np.asarray(weight))
        for name, column in zip(("y", "sample_weight"), self.columns):
            if _is_lazy(column) and len(_chunks(column)) != len(self.X):
                n = len(_chunks(column))
                raise ValueError(f"X has {len(self.X)} chunks of rows, but {name} has {n}: rechunk one of them")

    def fingerprint(self) -> None:
        """Nothing tells one collection from another."""
        return None

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        """Its chunks, but for the first `skip`."""
        lazy = [_chunks(column) if _is_lazy(column) else None for column in self.columns]
        begin = 0
        for k, chunk in enumerate(self.X):
            X = chunk.compute()
            X = X if hasattr(X, "tocsr") else np.asarray(X)
            rows = slice(begin, begin + X.shape[0])
            begin = rows.stop
            parts = [
                column[rows] if some is None else np.asarray(some[k].compute())
                for column, some in zip(self.columns, lazy)
            ]
            if k >= skip:
                yield Given(X, *parts)
        for column, some in zip(self.columns, lazy):
            if some is None and len(column) != begin:
                raise ValueError(f"X has {begin} rows, but {len(column)} labels or weights came with it")


def _is_lazy(data: Any) -> bool:
    """Whether these are chunks that are computed when they are asked for."""
    return hasattr(data, "to_delayed")


def _chunks(data: Any) -> list[Any]:
    """The chunks of rows, each with all columns."""
    if getattr(data, "ndim", 1) == 2 and hasattr(data, "rechunk") and data.numblocks[1] > 1:
        data = data.rechunk({1: -1})
    return list(np.ravel(data.to_delayed()))
