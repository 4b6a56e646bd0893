"""The progress of learning from a stream, as Vowpal Wabbit prints it: a line at 1, 2, 4, 8 ... examples.

What is shown is an estimate of the loss on rows never seen: every row is predicted before it is learnt from
("progressive validation": Blum, Kalai, Langford, COLT 1999).
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

import numpy as np

from maxmargin.data.rows import Array, Rows, row_size, take
from maxmargin.solvers.stochastic.row_order import Reordered
from maxmargin.solvers.stochastic.stream_models import StreamModels

_BLOCK = 1024  # rows that are predicted by the same weights, at most
_HEADER = (
    "average    since          example   current   current   current\n"
    "loss       last           counter     label   predict  features"
)


class ProgressTable:
    """Prints a line whenever the number of rows has doubled.

    For two classes the loss is that which is trained; for more it is the share of wrong predictions.

    Parameters
    ----------
    average : bool
        Whether averaged weights predict.
    file : text file, optional
        The default is stderr.
    """

    def __init__(self, average: bool, file: TextIO | None = None):
        self.average = average
        self.file = file
        self.n_rows = 0
        self.next_line = 1
        self.next_look = 0  # at the models, by rows: so that it does not matter in which pieces these come
        self.models: StreamModels | None = None  # as they were at the last look
        self.sum = self.sum_before = 0.0
        self.weight = self.weight_before = 0.0

    def rows_to_next(self, n_seen: int) -> int:
        """How many rows may be learnt from before the table has to see more."""
        next_look = self.next_look if self.n_rows < self.next_look else self.n_rows + _BLOCK
        return min(self.next_line, next_look) - self.n_rows

    def watch(self, models: StreamModels, rows: Rows | Reordered, y: Array, weight: Array) -> None:
        """Predict rows that are about to be learnt from, as many as `rows_to_next` says or less."""
        if not self.n_rows:
            self._write(_HEADER)
        if isinstance(rows, Reordered):
            rows = take(*rows)
        if self.models is None or self.n_rows == self.next_look:
            self.models = models.as_now(self.average)
            self.next_look = min(self.next_line, self.n_rows + _BLOCK)
        self.n_rows += len(y)
        codes, is_known = self.models.codes(y)
        codes = np.where(is_known, codes, -1)
        outputs = self.models.outputs(rows, self.average)
        if len(self.models.classes) > 2:
            losses = (outputs.argmax(axis=1) != codes).astype(float)
        else:
            losses = self.models.losses(outputs, codes)
        self.sum += float(weight @ losses)
        self.weight += float(weight.sum())
        if self.n_rows == self.next_line:
            self.next_line *= 2
            self._print(outputs[-1], y[-1], int(row_size(rows, len(y) - 1)))

    def end(self) -> None:
        """Say how it was at last."""
        if self.weight:
            self._write(f"\nexamples = {self.n_rows}\naverage loss = {self.sum / self.weight:.6f}")

    def _write(self, text: str) -> None:
        print(text, file=sys.stderr if self.file is None else self.file, flush=True)

    def _print(self, outputs: Array, label: Any, n_features: int) -> None:
        since = (self.sum - self.sum_before) / (self.weight - self.weight_before)
        classes: Any = () if self.models is None else self.models.classes
        predicted = _shown(classes[outputs.argmax()]) if len(classes) > 2 else f"{outputs[0]:.4f}"
        numbers = f"{self.sum / self.weight:<10.6f} {since:<10.6f} {self.n_rows:>11}"
        self._write(f"{numbers} {_shown(label):>9.9} {predicted:>9.9} {n_features:>9}")
        self.sum_before, self.weight_before = self.sum, self.weight


def _shown(label: Any) -> str:
    """A label as text: ``1`` rather than ``1.0``."""
    return f"{label:g}" if isinstance(label, (float, np.floating)) else str(label)
