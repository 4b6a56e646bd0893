"""What is said of a name that is not known: what may have been meant, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any


def suggestion(name: Any, names: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """Which of the names somebody may have meant, for an error message; `elsewhere` has what others call them.

    Examples
    --------
    >>> suggestion("dual-cd", ["ocas", "dual_cd"])
    ' (did you mean "dual_cd"?)'
    """
    spelled = {known.replace("-", "_"): known for known in names}
    close = difflib.get_close_matches(str(name).lower().replace("-", "_"), spelled, 1, 0.75)
    meant = elsewhere.get(name, spelled[close[0]] if close else None)
    return "" if meant is None else f' (did you mean "{meant}"?)'


def unknown(
    kind: str, name: Any, names: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})
) -> ValueError:
    """The error for a name that is not among those that there are."""
    names = list(names)
    return ValueError(f"unknown {kind} {name!r}{suggestion(name, names, elsewhere)}; choose one of {', '.join(names)}")
