"""How far a `pack` has come, on disk: what is needed to go on after an interruption.

The journal is written after each block. It holds the blocks, and a *border*: a place between two pieces of the input
before which all rows are safely in blocks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from maxmargin.data.store.blocks import BlockFacts
from maxmargin.data.store.index import merge_labels
from maxmargin.models.file import ModelFileError, read_model, write_model
from maxmargin.models.parts import checksum_of

_FILE = "journal"


class Border(NamedTuple):
    """A place between two pieces of the input."""

    n_pieces: int = 0
    n_rows: int = 0  # of the input, before it
    shares: tuple[int, ...] = (0,)  # how many of them went to each part


class Journal(NamedTuple):
    """The state of a `pack`."""

    fingerprint: list[Any]
    border: Border
    blocks: list[list[BlockFacts]]  # of each part
    form: dict[str, Any] | None  # what the first piece has decided; None: there was none yet


def write_journal(folder: Path, journal: Journal) -> None:
    """Replace the journal."""
    info = {
        "fingerprint": journal.fingerprint,
        "border": [journal.border.n_pieces, journal.border.n_rows, list(journal.border.shares)],
        "blocks": [[list(facts) for facts in _labels_first(part)] for part in journal.blocks],
        "form": journal.form,
    }
    write_model(folder / _FILE, _FILE, info, {}, durable=False)


def _labels_first(blocks: list[BlockFacts]) -> list[BlockFacts]:
    """The same blocks, with the labels of all of them at the first: there may be many blocks and many labels."""
    if not blocks:
        return []
    found = merge_labels(blocks)
    labels = None if found is None else [[label, n] for label, n in zip(found.labels, found.counts)]
    return [blocks[0]._replace(labels=labels), *(facts._replace(labels=[]) for facts in blocks[1:])]


def read_journal(folder: Path) -> Journal | None:
    """The journal of a directory; None if there is none that can be read."""
    try:
        model = read_model(folder / _FILE, mmap=False)
    except (ModelFileError, OSError):
        return None
    info = model.info
    n_pieces, n_rows, shares = info["border"]
    blocks = [[BlockFacts(*facts) for facts in part] for part in info["blocks"]]
    return Journal(info["fingerprint"], Border(n_pieces, n_rows, tuple(shares)), blocks, info["form"])


def are_sound(folder: Path, blocks: list[BlockFacts]) -> bool:
    """Whether blocks are what the journal says: they were not waited for, and a power cut may have lost some."""
    try:
        return all(checksum_of(folder / facts.file, facts.sha256) == facts.sha256 for facts in blocks)
    except OSError:
        return False
