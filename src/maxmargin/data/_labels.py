"""Labels of svmlight text that are words: taken out of it before it is parsed, as the parser knows numbers only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_FIRST_TOKEN = re.compile(rb"^[ \t\r\v\f]*([^\s#]+)", re.MULTILINE)
_ZERO, _BLANK = ord("0"), ord(" ")
CHOICES = ("number", "text", "auto")


class Labels:
    """The labels of a data set, batch by batch.

    Parameters
    ----------
    choice : {"number", "text", "auto"}
        What labels are. "auto": what the first one is.
    """

    def __init__(self, choice: str):
        if choice not in CHOICES:
            raise ValueError(f'labels must be "number", "text" or "auto", got {choice!r}')
        self._choice = choice
        self._words: list[str] = []

    @property
    def are_text(self) -> bool:
        """Whether labels are words."""
        return self._choice == "text"

    def take_from(self, text: Any) -> None:
        """Remember the labels of whole lines, and put 0 in their place, if they are words."""
        if self._choice == "number":
            return
        content = text.tobytes()
        if self._choice == "auto":
            first = _FIRST_TOKEN.search(content)
            if first is None:
                return
            self._choice = "number" if _looks_like_number(first[1]) else "text"
            return self.take_from(text)
        for match in _FIRST_TOKEN.finditer(content):
            begin, end = match.span(1)
            if b":" in match[1]:
                continue  # a feature: a label is missing, as the parser will say
            self._words.append(match[1].decode("utf-8", "backslashreplace"))
            text[begin:end] = _BLANK
            text[begin] = _ZERO
        return None

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """The labels of the rows since the last time: what the parser has read, or words."""
        if not self.are_text:
            return numbers
        words, self._words = self._words, []
        return np.array(words, dtype=str)


def _looks_like_number(token: bytes) -> bool:
    """Whether the first label is a number, or something that the parser has a better message for."""
    if b":" in token:
        return True
    try:
        return all(isinstance(float(part), float) for part in token.split(b","))
    except ValueError:
        return False
