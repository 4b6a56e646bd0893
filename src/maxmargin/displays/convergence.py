"""How the certified gap falls: over seconds or over passes, of one fit or of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.displays.style import CYCLE, FAINT, axes_or_new, named

_LABELS = {
    "seconds": "seconds",
    "passes": "passes over the data",
    "relative_gap": "certified relative gap",
    "primal": "objective (primal)",
    "dual": "lower bound (dual)",
}
_SMALLEST = 1e-16  # a gap of zero has no place on a logarithmic axis


class ConvergenceDisplay:
    """Certified relative gap of fits over time or passes.

    Make one with `from_estimator` or `from_result`; the constructor takes the histories themselves.

    Parameters
    ----------
    histories : dict of str to list of dict
        For each line's name the histories of its binary problems: one for two classes, else one a class.
    tol : float, default=None
        The goal, drawn as a dotted line.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from maxmargin import ConvergenceDisplay, LinearSVC
    >>> X, y = make_classification(n_samples=500, random_state=0)
    >>> fits = [LinearSVC(solver=name, tol=1e-6).fit(X, y) for name in ("tron", "dual_cd")]
    >>> display = ConvergenceDisplay.from_estimator(fits, x="passes")
    >>> [line.get_label() for line in display.lines_]
    ['tron', 'dual_cd']
    """

    def __init__(self, histories: dict[str, list[dict[str, Any]]], *, tol: float | None = None):
        self.histories = histories
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the history of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : estimator, list of them, or dict of names to estimators
            Fitted, with `history_`.
        name : str or list of str, default=None
            By default that of the solver.
        **kwargs
            As of `plot`: `ax`, `x`, `y`, and what is for Matplotlib.

        Returns
        -------
        ConvergenceDisplay
        """
        from sklearn.utils.validation import check_is_fitted

        fits = named(
            estimator, name, lambda fit: str(getattr(getattr(fit, "solver_", None), "name", type(fit).__name__))
        )
        for fit in fits.values():
            check_is_fitted(fit, "history_")
        tols = {fit.tol for fit in fits.values()}
        tol = tols.pop() if len(tols) == 1 else 0.0
        return cls({name: fit.histories_ for name, fit in fits.items()}, tol=tol or None).plot(**kwargs)

    @classmethod
    def from_result(cls, result: Any, *, name: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the history of a `Result` of `maxmargin.solve`, or of several.

        Parameters
        ----------
        result : Result, list of them, or dict of names to results
        name, **kwargs :
            As of `from_estimator`.

        Returns
        -------
        ConvergenceDisplay
        """
        results = named(result, name, lambda each: each.solver.name)
        return cls({name: [each.history] for name, each in results.items()}).plot(**kwargs)

    def plot(self, ax: Any = None, *, x: str = "seconds", y: str = "relative_gap", **kwargs: Any) -> ConvergenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            A new figure if None.
        x : {"seconds", "passes"}, default="seconds"
        y : {"relative_gap", "primal", "dual"}, default="relative_gap"
        **kwargs
            For Matplotlib's `plot`.

        Returns
        -------
        self
        """
        if x not in ("seconds", "passes") or y not in ("relative_gap", "primal", "dual"):
            raise ValueError(f'x is "seconds" or "passes" and y "relative_gap", "primal" or "dual", got {x!r}, {y!r}')
        missing = [name for name, each in self.histories.items() if any(y not in history for history in each)]
        if missing:
            raise ValueError(f"{missing[0]}: its history has no {y}; nothing was certified on the way")
        self.ax_ = axes_or_new(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for k, (name, histories) in enumerate(self.histories.items()):
            style = {"color": CYCLE[k % len(CYCLE)], "marker": "o", "ms": 3.5, "lw": 1.4, **kwargs}
            for i, history in enumerate(histories):  # classes share colour and name
                values = np.maximum(history[y], _SMALLEST) if y == "relative_gap" else history[y]
                label = {"label": name if i == 0 else "_nolegend_"}
                self.lines_ += self.ax_.plot(history[x], values, **(style | label))
        self.ax_.set(xlabel=_LABELS[x], ylabel=_LABELS[y])
        if y == "relative_gap":
            self.ax_.set_yscale("log")
            if self.tol:
                self.ax_.axhline(self.tol, color=FAINT, lw=1.0, ls=":", label=f"tol = {self.tol:g}")
        if len(self.ax_.get_legend_handles_labels()[1]) > 1:
            self.ax_.legend(frameon=False, fontsize="small")
        return self
