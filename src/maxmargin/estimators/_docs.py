"""Docstrings of estimators, completed: what several classes or methods have in common is written once.

A class describes the parameters and attributes that it adds, or that mean something else than in its bases; the others
are described as in the bases. A method need not describe `X`, `y` and `sample_weight` if they are as everywhere.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import TypeVar

_ARGUMENTS = """
X : array-like or sparse matrix of shape (n_samples, n_features)
y : array-like of shape (n_samples,)
sample_weight : array-like of shape (n_samples,), optional
    Weight 2 is a row given twice, weight 0 a row left out.
"""

Class = TypeVar("Class", bound=type)


def documented(cls: Class) -> Class:
    """Complete the docstrings of a class and of its methods; a decorator, to be written above `dataclass`."""
    if cls.__doc__ is None:  # python -OO
        return cls
    for name, member in vars(cls).items():
        method = getattr(member, "fn", member)  # of what `available_if` returns
        if not name.startswith("_") and inspect.isfunction(method) and method.__doc__:
            arguments = list(inspect.signature(method).parameters)[1:]
            member.__doc__ = method.__doc__ = _completed(method.__doc__, {"Parameters": [_ARGUMENTS]}, arguments)
    bases = [_sections(base.__doc__) for base in cls.__mro__[1:] if base.__doc__ and "maxmargin" in base.__module__]
    described = {title: [base.get(title, "") for base in bases] for title in ("Parameters", "Attributes")}
    cls.__doc__ = _completed(cls.__doc__, described, inspect.signature(cls).parameters)
    return cls


def _completed(docstring: str, described: dict[str, list[str]], parameters: Iterable[str]) -> str:
    """A docstring whose sections have, besides their own entries, those of these texts, nearest first."""
    own = _sections(docstring)
    made = {"": own.pop("")}
    for title, texts in described.items():
        entries: dict[str, str] = {}
        for text in [own.pop(title, ""), *texts]:
            entries = entries | {name: entry for name, entry in _entries(text).items() if name not in entries}
        if title == "Parameters":  # in the order of the signature
            entries = {name: entries[name] for name in parameters if name in entries}
        if entries:
            made[title] = "\n".join(dict.fromkeys(entries.values()))
    head, *sections = (made | own).items()
    return "\n\n".join([head[1], *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections)])


def _sections(docstring: str) -> dict[str, str]:
    """The sections of a numpydoc docstring by title; what comes before the first has the title ""."""
    parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(docstring), flags=re.M)
    return {title: text.rstrip() for title, text in zip(["", *parts[1::2]], parts[::2])}


def _entries(section: str) -> dict[str, str]:
    """The entries of a section by the names that they describe."""
    entries = re.split(r"\n(?=\S)", section.strip("\n"))
    return {name.strip(" *"): entry for entry in entries if entry for name in entry.partition(" :")[0].split(",")}
