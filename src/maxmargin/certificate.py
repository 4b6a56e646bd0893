"""What is proven of an answer; it takes no compiler to read that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Certificate(NamedTuple):
    """How far an answer can be from the optimum: `dual` <= optimum <= `primal`.

    Examples
    --------
    >>> Certificate(primal=100.0, dual=99.5, gap=0.5).relative_gap
    0.005
    """

    primal: float
    dual: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the primal objective (of its size: a one-class machine's is negative)."""
        if self.primal == 0.0:
            return 0.0 if self.gap <= 0.0 else np.inf
        return self.gap / abs(self.primal)
