"""The pictures of a path over C. Matplotlib is imported when one is drawn, and no window is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.rows import Array

if TYPE_CHECKING:
    from maxmargin.paths import RegularizationPath

_LINE, _ACCENT, _FAINT = "#1f5a99", "#c44e00", "#9aa5b1"
_NAMES = {"roc_auc": "area under the ROC curve"}


def draw_path(path: RegularizationPath, scores: Array | None, scoring: str) -> Any:
    """Objective and certified gap over C, below the score if there is one."""
    panels = ("score", "objective", "gap") if scores is not None else ("objective", "gap")
    figure, axes = _figure(panels)
    order = np.argsort(path.Cs, kind="stable")
    Cs = path.Cs[order]
    if scores is not None:
        _draw_scores(axes["score"], Cs, scores[order][np.newaxis], scoring)
    axes["objective"].plot(Cs, path.objective[order] / Cs, "o-", color=_LINE, ms=4)  # else it is all but C itself
    axes["objective"].set_ylabel("objective / C")
    _draw_gaps(axes["gap"], Cs, path.relative_gap[order], path.template.tol)
    return figure


def draw_selection(Cs: Array, scores: Array, gaps: Array, tol: float, scoring: str) -> Any:
    """The scores of the folds (folds x Cs), their mean, the chosen C, and the largest gap of all folds."""
    figure, axes = _figure(("score", "gap"))
    order = np.argsort(Cs, kind="stable")
    _draw_scores(axes["score"], Cs[order], scores[:, order], scoring)
    _draw_gaps(axes["gap"], Cs[order], gaps[order], tol)
    return figure


def _figure(panels: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a plot takes matplotlib: pip install maxmargin[plot]") from error

    heights = [2.0 if name == "score" else 1.0 for name in panels]
    figure = Figure(figsize=(6.4, 1.2 + 1.2 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, gridspec_kw={"height_ratios": heights}, squeeze=False)[:, 0]
    for axis in axes:
        axis.set_xscale("log")
        axis.grid(color="#e6e9ed", lw=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("C")
    return figure, dict(zip(panels, axes))


def _draw_scores(axis: Any, Cs: Array, scores: Array, scoring: str) -> None:
    """One line a fold, the mean over them, and where it is best."""
    mean = scores.mean(axis=0)
    if len(scores) > 1:
        for k, fold in enumerate(scores):
            axis.plot(Cs, fold, color=_FAINT, lw=0.8, label=f"{len(scores)} folds" if k == 0 else None)
    axis.plot(Cs, mean, "o-", color=_LINE, ms=4, label="mean" if len(scores) > 1 else None)
    if np.isfinite(mean).any():
        best = int(np.nanargmax(mean))
        axis.axvline(Cs[best], color=_ACCENT, lw=1.0, ls="--", label=f"best: C = {Cs[best]:.3g}, {mean[best]:.4g}")
        axis.plot(Cs[best], mean[best], "o", color=_ACCENT, ms=7)
        axis.legend(frameon=False, fontsize="small")
    axis.set_ylabel(_NAMES.get(scoring, scoring.replace("_", " ")))


def _draw_gaps(axis: Any, Cs: Array, gaps: Array, tol: float) -> None:
    """What was proven for each C, and what was asked for; whole decades."""
    from matplotlib.ticker import NullFormatter

    shown = np.maximum(gaps, 1e-16)
    axis.plot(Cs, shown, "o-", color=_LINE, ms=4)
    axis.set_yscale("log")
    axis.yaxis.set_minor_formatter(NullFormatter())
    if tol > 0.0:
        axis.axhline(tol, color=_ACCENT, lw=1.0, ls=":")
        place = {"xycoords": ("axes fraction", "data"), "xytext": (0.0, 2.0), "textcoords": "offset points"}
        axis.annotate(f"tol = {tol:g}", (0.01, tol), color=_ACCENT, fontsize="small", **place)
    lowest, highest = min(shown.min(), tol or 1.0), max(shown.max(), tol)
    axis.set_ylim(10.0 ** np.floor(np.log10(0.9 * lowest)), 4.0 * highest)
    axis.set_ylabel("certified\nrelative gap")
