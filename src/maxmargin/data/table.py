"""Dense tables as text: a row a line, cells between commas, semicolons or tabs, and a column of labels."""

from __future__ import annotations

import csv
import io
import math
from array import array
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data._line import SvmlightError
from maxmargin.data._streams import as_sources, read_batches

SUFFIXES = (".csv", ".tsv")
USUAL_LABELS = ("label", "target", "class", "y")
_PACKED = (".gz", ".bz2", ".xz", ".zst")


class Table(NamedTuple):
    """What a table holds: features, labels (None if it has none) and the names of the features, if it has names."""

    X: np.ndarray
    y: np.ndarray | None
    names: list[str] | None


def is_table(path: str) -> bool:
    """Whether a file's name is that of a table, perhaps of a compressed one."""
    name = path.lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name.endswith(SUFFIXES)


def load_table(path: Any, *, label: str | int | None = None, features: Any = None, dtype: Any = float) -> Table:
    """Read a table.

    Parameters
    ----------
    path : str, path-like or binary file object
        Plain or compressed. The first line names the columns if none of its cells is a number.
    label : str or int, optional
        The column of the labels, by name or counted from 1. Default: the one called label, target, class or y, or else
        the first.
    features : int or list of str, optional
        Of a model, their number or names: a table that has just these columns has no labels, and one that has another
        column beside those that are named has its labels there.
    dtype : data-type
        Of the features.

    Returns
    -------
    Table
        Labels are numbers if all of them are, else strings.

    Raises
    ------
    SvmlightError
        A `ValueError` that begins with file and line.

    Examples
    --------
    >>> load_table(io.BytesIO(b"class,width,height\\nspam,1,2.5\\nham,0,1\\n")).names
    ['width', 'height']
    """
    sources = as_sources(path)
    name = sources[0].name
    try:
        text = b"".join(batch.text.tobytes() for batch in read_batches(sources)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SvmlightError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    rows = csv.reader(io.StringIO(text), delimiter=_delimiter(text))
    first = next((row for row in rows if any(cell.strip() for cell in row)), None)
    if first is None:
        raise SvmlightError(f"{name}: there is no row")
    has_names = not any(map(_is_number, first))
    names = [cell.strip() for cell in first] if has_names else None
    place = _label_place(name, label, names or [], len(first), features)
    reader = _Reader(name, len(first), place)
    if not has_names:
        reader.add(first, rows.line_num)
    try:
        for row in rows:
            if any(cell.strip() for cell in row):
                reader.add(row, rows.line_num)
    except csv.Error as error:
        raise SvmlightError(f"{name}:{rows.line_num}: {error}") from None
    if names is not None and place is not None:
        del names[place]
    return Table(reader.features(dtype), reader.labels(), names)


class _Reader:
    """Rows of a table, added one by one."""

    def __init__(self, name: str, n_columns: int, label: int | None):
        self.name, self.n_columns, self.label = name, n_columns, label
        self.numbers, self.words, self.lines = array("d"), list[str](), list[int]()

    def add(self, row: list[str], line: int) -> None:
        if len(row) != self.n_columns:
            raise SvmlightError(f"{self.name}:{line}: {len(row)} columns, where the first line has {self.n_columns}")
        if self.label is not None:
            self.words.append(row.pop(self.label).strip())
        try:
            self.numbers.extend(map(float, row))
        except ValueError:
            bad = next(k for k, cell in enumerate(row) if not _is_number(cell))
            column = bad + 1 + (self.label is not None and bad >= self.label)
            raise SvmlightError(f'{self.name}:{line}: column {column}: "{row[bad][:40]}" is not a number') from None
        self.lines.append(line)

    def features(self, dtype: Any) -> np.ndarray:
        n_features = self.n_columns - (self.label is not None)
        if not self.lines or not n_features:
            raise SvmlightError(f"{self.name}: there is no {'row' if not self.lines else 'column of features'}")
        X = np.frombuffer(self.numbers, dtype=np.float64).reshape(len(self.lines), n_features)
        with np.errstate(over="ignore"):
            X = X.astype(dtype)
        finite = np.isfinite(X)
        if not finite.all():
            i, j = (int(k) for k in np.argwhere(~finite)[0])
            column = j + 1 + (self.label is not None and j >= self.label)
            raise SvmlightError(f"{self.name}:{self.lines[i]}: column {column}: {X[i, j]} is not finite")
        return X

    def labels(self) -> np.ndarray | None:
        if self.label is None:
            return None
        for line, word in zip(self.lines, self.words):
            if not word:
                raise SvmlightError(f"{self.name}:{line}: the label is missing")
            if _is_number(word) and not math.isfinite(float(word)):
                raise SvmlightError(f'{self.name}:{line}: label "{word}" is not finite')
        return np.array(self.words, dtype=float if all(map(_is_number, self.words)) else str)


def _delimiter(text: str) -> str:
    """What the first line that is not blank has most of."""
    line = next((line for line in io.StringIO(text) if line.strip()), "")
    return max(",;\t", key=line.count)


def _label_place(name: str, label: str | int | None, names: list[str], n_columns: int, features: Any) -> int | None:
    """Where the labels are; None if there are none."""
    if isinstance(label, int) or (isinstance(label, str) and label.isdecimal()):
        if not 1 <= int(label) <= n_columns:
            raise SvmlightError(f"{name}: there is no column {label}; it has {n_columns}")
        return int(label) - 1
    if label is not None:
        if label not in names:
            known = f"it has {', '.join(names)}" if names else "the first line names none"
            raise SvmlightError(f"{name}: there is no column {label!r}; {known}")
        return names.index(label)
    if names and isinstance(features, list):
        others = [k for k, column in enumerate(names) if column not in features]
        if len(others) < 2:
            return others[0] if others else None
    usual = [names.index(word) for word in USUAL_LABELS if word in names]
    if usual:
        return usual[0]
    n_features = len(features) if isinstance(features, list) else features
    return None if n_features == n_columns else 0


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
