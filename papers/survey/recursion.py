"""SGD-QN's recursion as the survey prints it (section 4.3.3), before the authors' paper and its correction.

    w_{t+1} = w_t - 1/t D g_t(w_t)
    D      <- (1 - 2/(t+1)) D + 2/(t+1) (w_{t+1} - w_t) / (g_t(w_{t+1}) - g_t(w_t)),   entry by entry,

g_t the gradient of lambda/2 |w|^2 + loss of the t-th row. An entry whose gradient did not change keeps its D. The text
does not say where D begins; 1 / lambda makes the first step that of Pegasos. Nothing keeps D positive or bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from maxmargin import losses
from maxmargin._jit import compiled
from maxmargin._random import new_rng, shuffle
from maxmargin.losses import derivative


class Recursion:
    """The weights after so many passes over the rows; they go on where they were."""

    def __init__(self, X: Any, y: np.ndarray, C: float, loss: str):
        self.X, self.y, self.lam, self.loss = csr_matrix(X), y, 1.0 / (C * len(y)), losses.get(loss)
        self.w, self.D = np.zeros(X.shape[1]), np.full(X.shape[1], 1.0 / self.lam)
        self.rng, self.passes = new_rng(0), 0

    def advance(self, passes: int) -> np.ndarray:
        """The weights then."""
        order = np.arange(len(self.y), dtype=np.uint32)
        rows = self.X.data, self.X.indices, self.X.indptr
        for k in range(self.passes, passes):
            shuffle(order, len(order), self.rng)
            _steps(rows, self.y, self.loss, self.lam, order, k * len(order), self.w, self.D)
        self.passes = passes
        return self.w


@compiled
def _steps(rows, y, loss, lam, order, t, w, D):
    values, indices, indptr = rows
    change, of_loss = np.zeros(len(w)), np.zeros(len(w))  # of w; x_i y_i (phi'(t_new) - phi'(t_old))
    for k in range(len(order)):
        i = np.int64(order[k])
        t += 1
        begin, end = indptr[i], indptr[i + 1]
        margin = 0.0
        for p in range(begin, end):
            margin += values[p] * w[indices[p]]
        slope = derivative(loss, y[i] * margin) * y[i]
        for j in range(len(w)):
            change[j] = -D[j] * lam * w[j] / t
        for p in range(begin, end):
            change[indices[p]] -= D[indices[p]] * slope * values[p] / t
        margin = 0.0
        for j in range(len(w)):
            w[j] += change[j]
        for p in range(begin, end):
            margin += values[p] * w[indices[p]]
        difference = derivative(loss, y[i] * margin) * y[i] - slope
        for p in range(begin, end):
            of_loss[indices[p]] = difference * values[p]
        share = 2.0 / (t + 1.0)
        for j in range(len(w)):
            gradient = lam * change[j] + of_loss[j]
            if gradient != 0.0:
                D[j] += share * (change[j] / gradient - D[j])
        for p in range(begin, end):
            of_loss[indices[p]] = 0.0
