"""What a budget buys: the score of kernel models of several sizes over size, latency or training time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.displays.style import LINE, axes_or_new

_LABELS = {
    "budget": "support vectors (budget)",
    "latency": "microseconds a row, predicting",
    "seconds": "seconds of training",
}
_ROWS_TIMED, _REPEATS = 1000, 5


class BudgetDisplay:
    """Score of `BudgetSVC` models over their budget, their latency or their training time.

    Make one with `from_estimator`, which trains a model for each budget, or `from_result`, which takes trained ones.

    Parameters
    ----------
    budgets : array-like of shape (n_models,)
    scores : array-like of shape (n_models,)
    latencies : array-like of shape (n_models,)
        Microseconds a row of `predict` on blocks of rows.
    seconds : array-like of shape (n_models,), default=None
        Of training.
    scoring : str, default="accuracy"
        What the score is called.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    line_ : matplotlib.lines.Line2D
    models_ : list of BudgetSVC
        What was measured.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import BudgetDisplay, BudgetSVC
    >>> X, y = make_moons(n_samples=1000, noise=0.2, random_state=0)
    >>> display = BudgetDisplay.from_estimator(BudgetSVC(gamma=2.0), X, y, budgets=[5, 20])
    >>> display.budgets
    array([ 5, 20])
    >>> bool(display.scores[1] > 0.9)
    True
    """

    def __init__(self, budgets: Any, scores: Any, latencies: Any, *, seconds: Any = None, scoring: str = "accuracy"):
        self.budgets, self.scores, self.latencies = np.asarray(budgets), np.asarray(scores), np.asarray(latencies)
        self.seconds = None if seconds is None else np.asarray(seconds)
        self.scoring = scoring
        self.models_: list[Any] = []

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        budgets: Sequence[int] = (25, 50, 100, 200, 400),
        test_size: float = 0.25,
        scoring: Any = None,
        **kwargs: Any,
    ) -> BudgetDisplay:
        """Train a model for each budget on a part of the rows, and score it on the others.

        Parameters
        ----------
        estimator : BudgetSVC
            With all parameters but `budget`; it is not changed.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        budgets : sequence of int, default=(25, 50, 100, 200, 400)
        test_size : float, default=0.25
            Share of the rows to score on; they are drawn with a fixed seed, the same share of every class.
        scoring : str or callable, default=None
            As in scikit-learn; None is accuracy.
        **kwargs
            As of `plot`: `ax`, `x`, and what is for Matplotlib.

        Returns
        -------
        BudgetDisplay
        """
        from sklearn.base import clone
        from sklearn.model_selection import train_test_split

        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=test_size, stratify=y, random_state=0)
        models, seconds = [], []
        for budget in budgets:
            started = time.perf_counter()
            models.append(clone(estimator).set_params(budget=int(budget)).fit(X_train, y_train))
            seconds.append(time.perf_counter() - started)
        return cls._measured(models, X_test, y_test, seconds, scoring).plot(**kwargs)

    @classmethod
    def from_result(cls, models: Sequence[Any], X: Any, y: Any, *, scoring: Any = None, **kwargs: Any) -> BudgetDisplay:
        """Score trained models on rows that they have not seen.

        Parameters
        ----------
        models : list of BudgetSVC
            Fitted.
        X, y, scoring, **kwargs :
            As of `from_estimator`; `x` is "budget" or "latency".

        Returns
        -------
        BudgetDisplay
        """
        return cls._measured(list(models), X, y, None, scoring).plot(**kwargs)

    @classmethod
    def _measured(cls, models: list[Any], X: Any, y: Any, seconds: Any, scoring: Any) -> BudgetDisplay:
        from sklearn.metrics import get_scorer

        name = "accuracy" if scoring is None else scoring if isinstance(scoring, str) else "score"
        score = get_scorer(name) if scoring is None or isinstance(scoring, str) else scoring
        display = cls(
            [model.budget_ for model in models],
            [float(score(model, X, y)) for model in models],
            [_microseconds_a_row(model, X) for model in models],
            seconds=seconds,
            scoring=name,
        )
        display.models_ = models
        return display

    def plot(self, ax: Any = None, *, x: str = "budget", **kwargs: Any) -> BudgetDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            A new figure if None.
        x : {"budget", "latency", "seconds"}, default="budget"
        **kwargs
            For Matplotlib's `plot`.

        Returns
        -------
        self
        """
        places: dict[str, Any] = {"budget": self.budgets, "latency": self.latencies, "seconds": self.seconds}
        if places.get(x) is None:
            able = ", ".join(name for name, values in places.items() if values is not None)
            raise ValueError(f"x must be one of {able}, got {x!r}")
        self.ax_ = axes_or_new(ax)
        self.figure_ = self.ax_.figure
        (self.line_,) = self.ax_.plot(places[x], self.scores, **{"marker": "o", "ms": 4, "color": LINE, **kwargs})
        self.ax_.set_xscale("log")
        if x == "budget":
            self.ax_.set_xticks(self.budgets, labels=[f"{budget:,}" for budget in self.budgets], minor=False)
            self.ax_.minorticks_off()
        else:
            for place, score, budget in zip(places[x], self.scores, self.budgets):
                offset = {"xytext": (4.0, -11.0), "textcoords": "offset points"}
                self.ax_.annotate(f"{budget:,}", (place, score), fontsize="small", **offset)
        self.ax_.set(xlabel=_LABELS[x], ylabel=self.scoring.replace("_", " "))
        return self


def _microseconds_a_row(model: Any, X: Any) -> float:
    """Shortest of several timings of a block of rows."""
    block = X[: min(_ROWS_TIMED, X.shape[0])]
    model.predict(block)  # compiled, and in the cache
    seconds = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        model.predict(block)
        seconds.append(time.perf_counter() - started)
    return 1e6 * min(seconds) / block.shape[0]
