"""The index of a store: what is known of the whole, and its blocks with their checksums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.store.blocks import BlockFacts, StoreError
from maxmargin.models.file import ModelFileError, read_model, write_model

FILE = "index"
_KIND = "store"


class BlockEntry(NamedTuple):
    """A block, as the index knows it."""

    file: str
    n_rows: int
    n_stored: int
    n_bytes: int
    sha256: str


class Classes(NamedTuple):
    """Distinct labels in ascending order, and how many rows each has."""

    labels: list[Any]
    counts: list[int]


@dataclass(frozen=True)
class Index:
    """What is known of a store.

    Attributes
    ----------
    storage : {"dense", "csr"}
    n_rows, n_features, n_stored : int
    dtype : str
        Of the values.
    label : {"float64", "int64", "names"}
        Type of the labels; "names" are stored as numbers, whose meaning is in `names`.
    names : list of str
    has_weights : bool
    classes : list or None
        Distinct labels in ascending order; None if there are more than a thousand of them in a block.
    class_counts : list of int or None
    label_range : list of float
        The smallest and the largest label.
    index_base : int or None
        What the indices of the text counted from; None for what was no text.
    largest_norm2, mean_norm2 : float
        Of the squared lengths of the rows.
    made_from : str
    shuffled : int or None
        The seed of the random order of rows, if they were shuffled.
    blocks : tuple of BlockEntry
    """

    storage: str
    n_rows: int
    n_features: int
    n_stored: int
    dtype: str
    label: str
    names: list[str]
    has_weights: bool
    classes: list[Any] | None
    class_counts: list[int] | None
    label_range: list[float]
    index_base: int | None
    largest_norm2: float
    mean_norm2: float
    made_from: str
    shuffled: int | None
    blocks: tuple[BlockEntry, ...]

    @property
    def n_bytes(self) -> int:
        """Size of all blocks."""
        return sum(block.n_bytes for block in self.blocks)

    def label_values(self, y: np.ndarray) -> np.ndarray:
        """Stored labels as what they mean."""
        return np.asarray(self.names)[y] if self.label == "names" else y


class Origin(NamedTuple):
    """Where the rows of a store come from, and what the rows themselves do not tell."""

    storage: str
    dtype: str
    label: str
    names: list[str]
    has_weights: bool
    n_features: int | None
    index_base: int | None
    made_from: str
    shuffled: int | None


def make_index(blocks: Sequence[BlockFacts], origin: Origin) -> Index:
    """The index of blocks that have been written."""
    n_rows = sum(block.n_rows for block in blocks)
    seen = 1 + max(block.largest_index for block in blocks)
    classes = merge_labels(blocks)
    if classes is not None and origin.label == "names":
        named = sorted((origin.names[code], n) for code, n in zip(classes.labels, classes.counts))
        classes = Classes([name for name, _ in named], [n for _, n in named])
    return Index(
        storage=origin.storage,
        n_rows=n_rows,
        n_features=origin.n_features or max(1, seen),
        n_stored=sum(block.n_stored for block in blocks),
        dtype=origin.dtype,
        label=origin.label,
        names=origin.names,
        has_weights=origin.has_weights,
        classes=None if classes is None else classes.labels,
        class_counts=None if classes is None else classes.counts,
        label_range=[min(block.smallest_label for block in blocks), max(block.largest_label for block in blocks)],
        index_base=origin.index_base,
        largest_norm2=max(block.largest_norm2 for block in blocks),
        mean_norm2=sum(block.sum_norm2 for block in blocks) / n_rows,
        made_from=origin.made_from,
        shuffled=origin.shuffled,
        blocks=tuple(BlockEntry(*(getattr(block, name) for name in BlockEntry._fields)) for block in blocks),
    )


def merge_labels(blocks: Sequence[BlockFacts]) -> Classes | None:
    """All labels and the numbers of their rows; None if a block has too many of them."""
    total: Counter[Any] = Counter()
    for block in blocks:
        if block.labels is None:
            return None
        for label, n in block.labels:
            total[label] += n
    labels = sorted(total)
    return Classes(labels, [total[label] for label in labels])


def write_index(folder: Path, index: Index) -> None:
    """Write the index: the last file of a store, without which it is none."""
    info = asdict(index) | {"blocks": [list(block) for block in index.blocks]}
    write_model(folder / FILE, _KIND, info, {})


def read_index(folder: Path) -> Index:
    """Read the index of a store.

    Raises
    ------
    StoreError
        If the directory is no store, or its index is damaged.
    """
    if not folder.exists():
        raise FileNotFoundError(2, "there is no such store", str(folder))
    if not (folder / FILE).is_file():
        raise StoreError(f"{folder}: not a store: it has no file {FILE!r}; make one with: maxmargin pack DATA {folder}")
    try:
        model = read_model(folder / FILE, mmap=False)
    except ModelFileError as error:
        raise StoreError(str(error)) from None
    if model.kind != _KIND or model.info.keys() != {each.name for each in fields(Index)}:
        raise StoreError(f"{folder / FILE}: not the index of a store")
    info = dict(model.info)
    info["blocks"] = tuple(BlockEntry(*block) for block in info["blocks"])
    return Index(**info)
