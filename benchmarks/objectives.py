"""The two objectives, in plain numpy and shared by all solvers, so that nobody is measured by its own ruler.

    P(w) = 1/2 |w|^2 + C sum_i loss(y_i x_i'w)        D(alpha) = sum_i alpha_i - 1/2 |v|^2 - penalty(alpha)

with v = sum_i alpha_i y_i x_i. Hinge: 0 <= alpha <= C and no penalty; squared hinge: alpha >= 0, alpha^2 / (4C).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True)
class Objective:
    """An L2-regularised loss without intercept."""

    loss: str
    C: float = 1.0

    def primal(self, X: Any, y: np.ndarray, w: np.ndarray) -> float:
        """P(w); infinite where w is not finite."""
        slack = np.maximum(0.0, 1.0 - y * (X @ w))
        risk = slack.sum() if self.loss == "hinge" else slack @ slack
        value = 0.5 * (w @ w) + self.C * risk
        return float(value) if np.isfinite(value) else np.inf

    def dual(self, X: Any, y: np.ndarray, alpha: np.ndarray) -> float:
        """D(alpha): a lower bound of the optimum for every feasible alpha, -infinity for any other."""
        ceiling = self.C if self.loss == "hinge" else np.inf
        if not np.all((alpha >= 0.0) & (alpha <= ceiling)):
            return -np.inf
        v = X.T @ (y * alpha)
        penalty = 0.0 if self.loss == "hinge" else (alpha @ alpha) / (4.0 * self.C)
        return float(alpha.sum() - 0.5 * (v @ v) - penalty)
