"""What all displays share: colours, axes, and the names of what is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LINE, ACCENT, FAINT, GRID = "#1f5a99", "#c44e00", "#9aa5b1", "#e6e9ed"
CYCLE = (LINE, ACCENT, "#2e8b57", "#8a4fb0", "#b08900", "#b3285a", "#3f7f93", "#555c66")


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("a plot takes matplotlib: pip install maxmargin[plot]") from error
    return matplotlib


def axes_or_new(ax: Any) -> Any:
    """The axes given, or those of a new figure of pyplot's; plain, with a faint grid."""
    _matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    ax.grid(color=GRID, lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def panels(heights: Sequence[float]) -> tuple[Any, list[Any]]:
    """A figure that pyplot does not know of, and its axes, one above the other over one x axis."""
    _matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.2 + 1.2 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), sharex=True, gridspec_kw={"height_ratios": heights}, squeeze=False)[:, 0]
    return figure, [axes_or_new(axis) for axis in axes]


def named(things: Any, name: Any, default: Any) -> dict[str, Any]:
    """One thing, a list of things or a dict of names to things, as a dict; `default(thing)` makes missing names."""
    if isinstance(things, Mapping):
        return {str(key): thing for key, thing in things.items()}
    several = list(things) if isinstance(things, (list, tuple)) else [things]
    names = [name] if isinstance(name, str) else [default(thing) for thing in several] if name is None else list(name)
    if len(names) != len(several):
        raise ValueError(f"{len(names)} names for {len(several)} lines")
    taken: dict[str, Any] = {}
    for label, thing in zip(names, several):
        number, unique = 1, label
        while unique in taken:
            number += 1
            unique = f"{label} ({number})"
        taken[unique] = thing
    return taken
