"""Rows that are not learnt from, and what they say about when to stop."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.solvers.base import Progress
from maxmargin.solvers.stochastic.stream_models import StreamModels, with_features

_KEPT = 10_000  # rows of a stream that are held out, at most: they stay in memory
_CHECK_EVERY = 100_000  # rows of a stream between two looks at the rows held out: ten times as many as these


class HeldOut:
    """A callback that looks at the rows held out: after each pass, and within those over a stream now and then.

    Parameters
    ----------
    every : int
        Each row with such a number, counted from 1, is held out.
    tol : float
        A loss is better than the best one if it is smaller by this share of it.
    patience : int
        Looks without a better loss before the end.
    average : bool
        Whether averaged weights predict.
    most : int or None
        Of a stream, as many are kept; None: not of a stream.
    """

    def __init__(self, every: int, tol: float, patience: int, average: bool, most: int | None = _KEPT):
        self.every, self.tol, self.patience, self.average, self.most = every, tol, patience, average, most
        self.pieces: list[tuple[Rows, Array, Array]] = []
        self.n_kept = 0
        self.best = np.inf
        self.n_without = 0
        self.is_done = False  # the last look has said so
        self.history: list[dict[str, float]] = []

    def rows_to_next(self, n_seen: int) -> int:
        """How many rows may be learnt from before the next look."""
        return _CHECK_EVERY - n_seen % _CHECK_EVERY

    def choose(self, first: int, n: int) -> Array:
        """Which of n rows are held out, the first of them having this number in its pass, counted from 0."""
        chosen = np.arange(n)[(self.every - 1 - first) % self.every :: self.every]
        if self.most is not None:
            chosen = chosen[: max(0, self.most - first // self.every)]
        return chosen

    def keep(self, rows: Rows, y: Array, weight: Array) -> None:
        """Take rows out of the first pass."""
        self.pieces.append((rows, y, weight))
        self.n_kept += len(y)

    def loss(self, models: StreamModels) -> float:
        """Mean over the rows held out of the loss of the models as they are."""
        total = total_weight = 0.0
        for rows, y, weight in self.pieces:
            codes, is_known = models.codes(y)
            outputs = models.outputs(with_features(rows, models.n_features), self.average)
            total += float(weight @ models.losses(outputs, np.where(is_known, codes, -1)))
            total_weight += float(weight.sum())
        return total / total_weight if total_weight else np.nan

    def is_enough(self, loss: float) -> bool:
        """Whether the loss has not become better for a while."""
        if loss < self.best * (1.0 - self.tol):
            self.best, self.n_without = loss, 0
        else:
            self.n_without += 1
        return self.n_without >= self.patience

    def __call__(self, progress: Progress) -> bool:
        """Look, if it is time, and say whether to stop."""
        state, n_seen = progress.state, progress.state.models.n_seen
        is_end_of_pass = state.position == 0
        if not is_end_of_pass and (self.most is None or n_seen % _CHECK_EVERY):
            return False
        if self.history and self.history[-1]["rows"] == n_seen:  # a pass that ends where one was due
            self.history[-1]["passes"] = float(state.passes)
            return False
        loss = self.loss(state.models)
        entry = {"seconds": progress.seconds, "passes": float(state.passes), "rows": float(n_seen)}
        self.history.append(entry | {"held_out_loss": loss})
        self.is_done = self.is_enough(loss)
        return self.is_done


def columns(history: list[dict[str, float]]) -> dict[str, Array]:
    """A history, a column a number."""
    names = ("seconds", "passes", "rows", "held_out_loss")
    return {name: np.array([entry[name] for entry in history]) for name in names}
