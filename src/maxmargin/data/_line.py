"""One line of svmlight text in plain Python: what the format means, and every error message.

The compiled parser (`maxmargin.data._parse`) reads the ordinary lines, some hundred times as fast. It hands over each
line that it cannot take as it stands; that line is read here or refused here, with the column and the reason.
What is accepted is what ``float`` and ``int`` accept, as in scikit-learn's reader, except for what is not finite.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

_TOKEN = re.compile(rb"[^ \t\n\r\v\f]+")  # the same blanks as bytes.split()
_SHOWN = 40  # characters of a token that an error message repeats

_SMALLEST_QUERY, _LARGEST_QUERY = -(2**63), 2**63 - 1


class Rules(NamedTuple):
    """What the numbers of a row must satisfy."""

    lowest: int  # the smallest index: 1 where indices count from 1 for certain, else 0
    highest: int  # the largest index that n_features, or the width of an integer, allows
    n_features: int  # as the user gave it, 0 if not: for the message
    largest: float  # the largest value that is finite in the dtype asked for
    with_queries: bool  # every row must have a query id


class Row(NamedTuple):
    """A line's numbers; indices as they stand in the text."""

    label: float
    query: int
    indices: np.ndarray
    values: np.ndarray


class SvmlightError(ValueError):
    """Text that is not svmlight data; the message begins with file, line and column."""


class LineError(Exception):
    """What is wrong, and the offset of the byte where it begins: in the line, further up in the batch of lines."""

    def __init__(self, offset: int, reason: str):
        super().__init__(reason)
        self.offset = offset


def read_line(line: bytes, rules: Rules) -> Row | None:
    """The row in a line (without its newline), None for a blank one or a comment, `LineError` for nonsense."""
    tokens = _TOKEN.finditer(line.partition(b"#")[0])
    first = next(tokens, None)
    if first is None:
        return None
    label = _read_label(first)
    token = next(tokens, None)
    query = 0
    if token is not None and token.group().startswith(b"qid:"):
        query = _read_query(token)
        token = next(tokens, None)
    elif rules.with_queries:
        raise LineError(first.start(), "the row has no query id: expected qid:<integer> behind the label")
    indices: list[int] = []
    values: list[float] = []
    previous = -1
    while token is not None:
        index_text, colon, value_text = token.group().partition(b":")
        if not colon:
            raise LineError(token.start(), f"{_show(token.group())} is not a feature: expected index:value")
        previous = _read_index(index_text, token.start(), previous, rules)
        indices.append(previous)
        values.append(_read_value(value_text, token.start() + len(index_text) + 1, index_text, rules))
        token = next(tokens, None)
    return Row(label, query, np.array(indices, dtype=np.int64), np.array(values))


def _read_label(token: re.Match[bytes]) -> float:
    text = token.group()
    try:
        label = float(text)
    except ValueError:
        reason = f"label {_show(text)} is not a number"
        if b"," in text:
            reason = f"label {_show(text)} names several classes: multi-label data is not supported"
        elif b":" in text:
            reason = f"the line begins with {_show(text)}, a label is missing"
        raise LineError(token.start(), reason) from None
    if not np.isfinite(label):
        raise LineError(token.start(), f"label {_show(text)} is not finite")
    return label


def _read_query(token: re.Match[bytes]) -> int:
    text = token.group()[4:]
    try:
        query = int(text)
    except ValueError:
        query = _LARGEST_QUERY + 1
    if not _SMALLEST_QUERY <= query <= _LARGEST_QUERY:
        raise LineError(token.start() + 4, f"query id {_show(text)} is not a 64-bit integer")
    return query


def _read_index(text: bytes, offset: int, previous: int, rules: Rules) -> int:
    try:
        index = int(text)
    except ValueError:
        reason = f"feature index {_show(text)} is not an integer"
        if text == b"qid":
            reason = "a query id must follow the label"
        raise LineError(offset, reason) from None
    if index < 0:
        raise LineError(offset, f"feature index {_show(text)} is negative")
    if index < rules.lowest:
        raise LineError(
            offset,
            "feature index 0, but indices count from 1: zero_based=False, or an index as high as n_features, says so",
        )
    if index > rules.highest:
        if not rules.n_features:
            raise LineError(offset, f"feature index {_show(text)} is too large")
        base = "0" if rules.highest < rules.n_features else "1"
        limit = f"n_features={rules.n_features}, counting from {base}"
        raise LineError(offset, f"feature index {_show(text)} is beyond {limit}")
    if index <= previous:
        reason = "occurs twice" if index == previous else f"follows {previous}: indices must ascend"
        raise LineError(offset, f"feature index {index} {reason}")
    return index


def _read_value(text: bytes, offset: int, index_text: bytes, rules: Rules) -> float:
    if not text:
        raise LineError(offset, f"feature {_show(index_text)} has no value")
    try:
        value = float(text)
    except ValueError:
        raise LineError(offset, f"feature value {_show(text)} is not a number") from None
    if not abs(value) <= rules.largest:
        written_out = b"n" in text.lower()  # nan, inf
        reason = "is not finite" if written_out else "is too large for the dtype"
        raise LineError(offset, f"feature value {_show(text)} {reason}")
    return value


def _show(text: bytes) -> str:
    """A token between quotation marks, whatever its bytes are, shortened if long."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text.decode("utf-8", "backslashreplace"))
    return f'"{shown}"' if len(shown) <= _SHOWN else f'"{shown[: _SHOWN - 3]}..."'
