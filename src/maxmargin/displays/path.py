"""Pictures of a path over C: scores, objective, certified gap, coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.displays.style import ACCENT, CYCLE, FAINT, LINE, axes_or_new, panels

if TYPE_CHECKING:
    from maxmargin.selection.regularization_path import RegularizationPath

_SCORES = {"roc_auc": "area under the ROC curve"}
_KINDS = ("score", "objective", "gap", "coef")
_MOST_COEFFICIENTS = 30


class PathDisplay:
    """Scores, objective, certified gap or coefficients over a grid of C.

    Make one with `from_estimator` or `from_result`.

    Parameters
    ----------
    Cs : ndarray of shape (n_Cs,)
    scores : ndarray of shape (n_folds, n_Cs), default=None
    gaps, objectives : ndarray of shape (n_Cs,), default=None
    coefs : ndarray of shape (n_Cs, n_features), default=None
    tol : float, default=0.0
        The goal of the gap, drawn as a dotted line.
    scoring : str, default="score"
        What the score is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    best_C_ : float or None
        The C with the best mean score.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from maxmargin import PathDisplay, path
    >>> X, y = make_classification(n_samples=300, random_state=0)
    >>> display = PathDisplay.from_result(path(X[:200], y[:200], Cs=4), X[200:], y[200:])
    >>> display.best_C_ in display.Cs
    True
    """

    def __init__(
        self,
        Cs: Array,
        *,
        scores: Array | None = None,
        gaps: Array | None = None,
        objectives: Array | None = None,
        coefs: Array | None = None,
        tol: float = 0.0,
        scoring: str = "score",
    ):
        order = np.argsort(Cs, kind="stable")

        def sorted_by_C(values: Any) -> Any:
            return None if values is None else np.asarray(values)[..., order]

        self.Cs, self.scores = np.asarray(Cs)[order], sorted_by_C(scores)
        self.gaps, self.objectives = sorted_by_C(gaps), sorted_by_C(objectives)
        self.coefs = None if coefs is None else np.asarray(coefs)[order]
        self.tol, self.scoring = tol, scoring

    @property
    def best_C_(self) -> float | None:
        """The C with the best mean score; of equal scores the smallest."""
        mean = None if self.scores is None else self.scores.mean(axis=0)
        return None if mean is None or not np.isfinite(mean).any() else float(self.Cs[int(np.nanargmax(mean))])

    @classmethod
    def from_estimator(cls, estimator: Any, **kwargs: Any) -> PathDisplay:
        """Draw what cross validation found over C.

        Parameters
        ----------
        estimator : LinearSVCCV
            Fitted.
        **kwargs
            As of `plot`: `ax`, `kind` ("score" or "gap"), and what is for Matplotlib.

        Returns
        -------
        PathDisplay
        """
        return cls.of_selection(estimator).plot(**kwargs)

    @classmethod
    def of_selection(cls, estimator: Any) -> PathDisplay:
        """The display of a fitted `LinearSVCCV`, not drawn yet."""
        from sklearn.utils.validation import check_is_fitted

        from maxmargin.selection.scoring import scoring_name

        check_is_fitted(estimator, "cv_results_")
        return cls(
            estimator.Cs_,
            scores=estimator.scores_,
            gaps=estimator.cv_results_["relative_gap"],
            tol=estimator.tol,
            scoring=scoring_name(estimator.scoring, len(estimator.classes_)),
        )

    @classmethod
    def from_result(
        cls, path: RegularizationPath, X: Any = None, y: Any = None, *, scoring: Any = None, **kwargs: Any
    ) -> PathDisplay:
        """Draw a path of `maxmargin.path`.

        Parameters
        ----------
        path : RegularizationPath
        X, y : array-like, optional
            Rows to score the models on.
        scoring : str or callable, default=None
            As in scikit-learn; None is "roc_auc" for two classes, else "accuracy".
        **kwargs
            As of `plot`; `kind` is "score" if there are rows to score on, else "objective", unless it is given.

        Returns
        -------
        PathDisplay
        """
        kind = "objective" if X is None else "score"
        return cls.of_path(path, X, y, scoring=scoring).plot(**{"kind": kind, **kwargs})

    @classmethod
    def of_path(cls, path: RegularizationPath, X: Any = None, y: Any = None, *, scoring: Any = None) -> PathDisplay:
        """The display of a path, not drawn yet."""
        from maxmargin.selection.scoring import scoring_name

        n_features = path.template.n_features_in_
        return cls(
            path.Cs,
            scores=None if X is None else path.score(X, y, scoring)[np.newaxis],
            gaps=path.relative_gap,
            objectives=path.objective,
            coefs=np.stack([each[0].w[:n_features] for each in path.results]),
            tol=path.template.tol,
            scoring=scoring_name(scoring, len(path.classes)),
        )

    def plot(self, ax: Any = None, *, kind: str = "score", **kwargs: Any) -> PathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            A new figure if None.
        kind : {"score", "objective", "gap", "coef"}, default="score"
            The largest coefficients, at most 30, are those of the first class if there are more than two.
        **kwargs
            For Matplotlib's `plot`.

        Returns
        -------
        self
        """
        values = {"score": self.scores, "objective": self.objectives, "gap": self.gaps, "coef": self.coefs}
        if kind not in values:
            raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
        if values[kind] is None:
            raise ValueError(
                f"this display has no {kind}; it has {', '.join(k for k in _KINDS if values[k] is not None)}"
            )
        self.ax_ = axes_or_new(ax)
        self.figure_ = self.ax_.figure
        self.ax_.set_xscale("log")
        self.ax_.set_xlabel("C")
        getattr(self, f"_draw_{kind}")({"ms": 4, "marker": "o", "color": LINE, **kwargs})
        return self

    def stacked(self) -> Any:
        """All that there is but coefficients, one panel above the other.

        Returns
        -------
        matplotlib.figure.Figure
        """
        having = {"score": self.scores, "objective": self.objectives, "gap": self.gaps}
        kinds = [kind for kind, values in having.items() if values is not None]
        figure, axes = panels([2.0 if kind == "score" else 1.0 for kind in kinds])
        for axis, kind in zip(axes, kinds):
            self.plot(axis, kind=kind)
            axis.set_xlabel("")
        axes[-1].set_xlabel("C")
        return figure

    def _draw_score(self, style: dict[str, Any]) -> None:
        """One line a fold, the mean over them, and where it is best."""
        assert self.scores is not None
        mean, folds = self.scores.mean(axis=0), len(self.scores)
        if folds > 1:
            for k, fold in enumerate(self.scores):
                self.ax_.plot(self.Cs, fold, color=FAINT, lw=0.8, label=f"{folds} folds" if k == 0 else None)
        self.ax_.plot(self.Cs, mean, **{"label": "mean" if folds > 1 else None, **style})
        best = self.best_C_
        if best is not None:
            score = float(mean[int(np.nanargmax(mean))])
            self.ax_.axvline(best, color=ACCENT, lw=1.0, ls="--", label=f"best: C = {best:.3g}, {score:.4g}")
            self.ax_.plot(best, score, "o", color=ACCENT, ms=7)
            self.ax_.legend(frameon=False, fontsize="small")
        self.ax_.set_ylabel(_SCORES.get(self.scoring, self.scoring.replace("_", " ")))

    def _draw_objective(self, style: dict[str, Any]) -> None:
        self.ax_.plot(self.Cs, self.objectives / self.Cs, **style)  # else it is all but C itself
        self.ax_.set_ylabel("objective / C")

    def _draw_gap(self, style: dict[str, Any]) -> None:
        """What was proven for each C, and what was asked for; whole decades."""
        from matplotlib.ticker import NullFormatter

        shown = np.maximum(self.gaps, 1e-16)
        self.ax_.plot(self.Cs, shown, **style)
        self.ax_.set_yscale("log")
        self.ax_.yaxis.set_minor_formatter(NullFormatter())
        if self.tol > 0.0:
            self.ax_.axhline(self.tol, color=ACCENT, lw=1.0, ls=":")
            place = {"xycoords": ("axes fraction", "data"), "xytext": (0.0, 2.0), "textcoords": "offset points"}
            self.ax_.annotate(f"tol = {self.tol:g}", (0.01, self.tol), color=ACCENT, fontsize="small", **place)
        lowest, highest = min(shown.min(), self.tol or 1.0), max(shown.max(), self.tol)
        self.ax_.set_ylim(10.0 ** np.floor(np.log10(0.9 * lowest)), 4.0 * highest)
        self.ax_.set_ylabel("certified\nrelative gap")

    def _draw_coef(self, style: dict[str, Any]) -> None:
        assert self.coefs is not None
        largest = np.argsort(-np.abs(self.coefs).max(axis=0), kind="stable")[:_MOST_COEFFICIENTS]
        for k, j in enumerate(largest):
            self.ax_.plot(self.Cs, self.coefs[:, j], **(style | {"color": CYCLE[k % len(CYCLE)], "marker": ""}))
        self.ax_.axhline(0.0, color=FAINT, lw=0.8)
        self.ax_.set_ylabel("coefficients")
