"""Passes over the rows of arrays or streams: blocks of rows to learn from, progress, held-out rows, the end."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.estimators._progress_table import ProgressTable
from maxmargin.estimators._row_order import Reordered, rows_between, take_rows
from maxmargin.estimators._stream_models import StreamModels, with_features

_BLOCK = 1 << 16  # rows between two looks at whether to stop
_KEPT = 10_000  # rows of a stream that are held out, at most: they stay in memory
_CHECK_EVERY = 100_000  # rows of a stream between two looks at the rows held out: ten times as many as these


class HeldOut:
    """Rows that are not learnt from, and what they say about when to stop.

    Parameters
    ----------
    every : int
        Each row with such a number, counted from 1, is held out.
    tol : float
        A loss is better than the best one if it is smaller by this share of it.
    patience : int
        Looks without a better loss before the end.
    most : int or None
        Of a stream, as many are kept.
    """

    def __init__(self, every: int, tol: float, patience: int, most: int | None = _KEPT):
        self.every, self.tol, self.patience, self.most = every, tol, patience, most
        self.pieces: list[tuple[Rows, Array, Array]] = []
        self.n_kept = 0
        self.best = np.inf
        self.n_without = 0

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

    def loss(self, models: StreamModels, average: bool) -> float:
        """Mean over the rows held out of the loss of the models as they are."""
        total = total_weight = 0.0
        for rows, y, weight in self.pieces:
            codes, is_known = models.codes(y)
            outputs = models.outputs(with_features(rows, models.n_features), average)
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


class Passes:
    """The passes of one fit.

    Parameters
    ----------
    models : StreamModels
    class_weight : dict, "balanced" or None
    average : bool
    table : ProgressTable or None
    held_out : HeldOut or None
    interrupt : threading.Event

    Attributes
    ----------
    stop_reason : str or None
        Why no more rows should be visited, once they should not.
    history : list of dict
    """

    def __init__(
        self,
        models: StreamModels,
        class_weight: Any,
        average: bool,
        table: ProgressTable | None = None,
        held_out: HeldOut | None = None,
        interrupt: threading.Event | None = None,
    ):
        self.models, self.class_weight, self.average = models, class_weight, average
        self.table, self.held_out, self.interrupt = table, held_out, interrupt
        self.started = time.perf_counter()
        self.stop_reason: str | None = None
        self.n_passes = 0
        self.n_in_pass = 0  # rows of this pass so far
        self.history: list[dict[str, float]] = []

    def visit(self, rows: Rows | Reordered, norms2: Array, y: Array, weight: Array) -> None:
        """Learn from rows of positive weight, in their order."""
        begin, n = 0, len(y)
        while begin < n and self.stop_reason is None:
            end = min(n, begin + self._rows_to_next())
            part = slice(begin, end)
            block = rows_between(rows, begin, end)
            if self.table is not None:
                seen = take_rows(*block) if isinstance(block, Reordered) else block
                self.table.watch(self.models, seen, y[part], weight[part])
            self.models.learn(block, norms2[part], y[part], weight[part], self.class_weight)
            begin = end
            if self.interrupt is not None and self.interrupt.is_set():
                self.stop_reason = "interrupted"
            elif self.held_out is not None and self.held_out.most and self.models.n_seen % _CHECK_EVERY == 0:
                self.look()

    def _rows_to_next(self) -> int:
        """Rows to the next look or line, wherever one piece of the rows ends and another begins."""
        rows = [_BLOCK]
        if self.table is not None:
            rows.append(self.table.rows_to_next())
        if self.held_out is not None:
            rows.append(_CHECK_EVERY - self.models.n_seen % _CHECK_EVERY)
        return min(rows)

    def visit_chunk(self, rows: Rows, norms2: Array, y: Array, weight: Array) -> None:
        """Rows of a stream: some of them are held out, as in the pass before; those of zero weight are not there."""
        present = np.flatnonzero(weight > 0.0)
        out = present[:0] if self.held_out is None else present[self.held_out.choose(self.n_in_pass, len(present))]
        self.n_in_pass += len(present)
        if not len(out):
            self._visit_some(rows, norms2, y, weight, present)
            return
        left, begin = np.setdiff1d(present, out, assume_unique=True), 0
        while len(left) and self.stop_reason is None:  # up to the next look, which must not know of rows behind it
            n = _CHECK_EVERY - self.models.n_seen % _CHECK_EVERY
            now, left = left[:n], left[n:]
            end = int(now[-1]) + 1
            self._hold_out(rows, y, weight, out[(out >= begin) & (out < end)])
            self._visit_some(rows, norms2, y, weight, now)
            begin = end
        self._hold_out(rows, y, weight, out[out >= begin])

    def _hold_out(self, rows: Rows, y: Array, weight: Array, chosen: Array) -> None:
        if self.held_out is not None and self.n_passes == 0 and len(chosen):  # later passes hold the same rows out
            self.held_out.keep(take_rows(rows, chosen), y[chosen], weight[chosen])

    def _visit_some(self, rows: Rows, norms2: Array, y: Array, weight: Array, chosen: Array) -> None:
        if len(chosen) < len(weight):
            rows, norms2, y, weight = take_rows(rows, chosen), norms2[chosen], y[chosen], weight[chosen]
        self.visit(rows, norms2, y, weight)

    def end_pass(self) -> None:
        """Count the pass, and look at the rows held out."""
        self.n_passes, self.n_in_pass = self.n_passes + 1, 0
        if self.stop_reason is None:
            self.look()

    def look(self) -> None:
        """Note where things are; stop if the rows held out say so."""
        if self.history and self.history[-1]["rows"] == self.models.n_seen:  # a pass that ends where one was due
            self.history[-1]["passes"] = float(self.n_passes)
            return
        loss = np.nan if self.held_out is None else self.held_out.loss(self.models, self.average)
        self.history.append(
            {
                "seconds": time.perf_counter() - self.started,
                "passes": float(self.n_passes),
                "rows": float(self.models.n_seen),
                "held_out_loss": loss,
            }
        )
        if self.held_out is not None and self.held_out.is_enough(loss):
            self.stop_reason = "early_stopping"

    def columns(self) -> dict[str, Array]:
        """The history, a column a number."""
        names = ("seconds", "passes", "rows", "held_out_loss")
        return {name: np.array([entry[name] for entry in self.history]) for name in names}
