"""Parquet and CSV files, through pyarrow: numbers in columns, one of them the label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.store.inputs import Given, Options, Seen, print_of

_USUAL_LABELS = ("label", "target", "class", "y")


class Tables:
    """Tables with the same columns, one after the other.

    Parameters
    ----------
    paths : list of Path
        Parquet or CSV files; the first line of a CSV file names its columns.
    options : Options
        `label` names the column of the labels: by default the one called label, target, class or y. `weight` names the
        one of weights. All other columns are features, in their order.
    """

    is_text = False

    def __init__(self, paths: list[Path], options: Options):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise ValueError("Parquet and CSV files are read by pyarrow: pip install maxmargin[parquet]") from None
        self.paths, self.options = paths, options
        self.name = ", ".join(map(str, paths))

    def fingerprint(self) -> list[Any] | None:
        """Names, sizes and times of the files."""
        return print_of(self.paths)

    def pieces(self, skip: int, seen: Seen) -> Iterator[Given]:
        """All pieces, but for the first ones."""
        k, names = 0, None
        for path in self.paths:
            for batch in _batches(path, self.options.chunk_bytes):
                if names is None:
                    names = batch.schema.names
                if batch.schema.names != names:
                    raise ValueError(f"{path}: its columns are not those of {self.paths[0]}")
                if k >= skip:
                    yield self._piece(path, batch)
                k += 1

    def _piece(self, path: Path, batch: Any) -> Given:
        names = batch.schema.names
        label = self.options.label or next((name for name in _USUAL_LABELS if name in names), None)
        if label is None:
            usual = ", ".join(_USUAL_LABELS)
            raise ValueError(f"{path}: which column has the labels? None is called {usual}; name it (label=, --label)")
        for name in filter(None, (label, self.options.weight)):
            if name not in names:
                raise ValueError(f"{path}: has no column {name!r}; it has {', '.join(names)}")
        features = [name for name in names if name not in (label, self.options.weight)]
        if not features:
            raise ValueError(f"{path}: has no columns of features beside {label!r}")
        X = np.empty((batch.num_rows, len(features)), self.options.dtype or _dtype(batch, features))
        for j, name in enumerate(features):
            X[:, j] = _numbers(path, batch, name)
        weight = None if self.options.weight is None else _numbers(path, batch, self.options.weight)
        y = batch.column(label)
        if y.null_count:
            raise ValueError(f"{path}: the column {label!r} of labels has empty cells")
        return Given(X, y.to_numpy(zero_copy_only=False), weight)


def _dtype(batch: Any, features: list[str]) -> Any:
    """float32 if all columns are, else float64."""
    return np.float32 if all(str(batch.column(name).type) == "float" for name in features) else np.float64


def _numbers(path: Path, batch: Any, name: str) -> np.ndarray:
    """A column of numbers; an empty cell becomes NaN, which is refused later, with its row."""
    column = batch.column(name).to_numpy(zero_copy_only=False)
    if column.dtype.kind not in "fiub":
        raise ValueError(f"{path}: column {name!r} holds {batch.column(name).type}, not numbers: encode or drop it")
    return column


def _batches(path: Path, n_bytes: int) -> Iterator[Any]:
    import pyarrow as pa

    try:
        if path.suffix.lower() == ".csv":
            from pyarrow import csv

            with csv.open_csv(path, read_options=csv.ReadOptions(block_size=n_bytes)) as reader:
                yield from reader
            return
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            at_once = max(1, n_bytes // (8 * max(1, file.metadata.num_columns)))
            yield from file.iter_batches(batch_size=at_once)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from None
