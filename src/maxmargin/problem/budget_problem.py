"""The problem of kernel classifiers on a budget: rows, their classes, and a cost for each row and output.

    min_w  1/2 sum_c |w_c|^2 + sum_ic C_ic max(0, 1 - y_ic (<w_c, phi(x_i)> + b_c)),   w_c = sum_j alpha_cj phi(z_j)

with at most B support vectors z_j. One output for two classes, else one a class, against the rest: y_ic is +1 for the
rows of class c and -1 for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.rows import Array, Rows, as_rows, n_features, n_rows
from maxmargin.losses import Hinge
from maxmargin.penalties import L2, Penalty
from maxmargin.problem.checks import check_weights


@dataclass(frozen=True, init=False, eq=False)
class BudgetProblem:
    """The rows of a kernel classifier, their classes and costs. Never changes.

    Parameters
    ----------
    X : ndarray, memmap or scipy.sparse matrix of shape (n_rows, n_features)
        Not copied if it is C-ordered or CSR, float32 or float64.
    y : array-like of shape (n_rows,)
        Classes 0, 1, ... by number.
    n_classes : int
        Two make one output, which is positive for class 1; more make one each.
    C : float
        Weight of the loss against 1/2 |w|^2.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C, row by row.
    class_factors : array-like of shape (n_classes,), optional
        Factors of C by class. With more than two classes they apply in the class's own output alone.
    """

    rows: Rows
    norms2: Array
    y: Array  # int64
    n_classes: int
    cost: Array  # (n_rows, 2): in the output of the row's own class, and in the others

    accesses: ClassVar[tuple[str, ...]] = ("rows", "stream")  # how solvers can get at the rows

    # What a checkpoint asks of a problem besides.
    loss: ClassVar[Hinge] = Hinge()
    penalty: ClassVar[Penalty] = L2()
    has_free_intercept: ClassVar[bool] = False

    def __init__(
        self,
        X: Any,
        y: Any,
        n_classes: int = 2,
        C: float = 1.0,
        *,
        sample_weight: Any = None,
        class_factors: Any = None,
    ):
        if not 0.0 < C < np.inf:
            raise ValueError(f"C must be a positive finite number, got {C!r}")
        rows, norms2 = as_rows(X)
        y = np.ascontiguousarray(y, dtype=np.int64)
        if y.shape != (n_rows(rows),):
            raise ValueError(f"X has {n_rows(rows)} rows but y has shape {y.shape}")
        if n_rows(rows) == 0:
            raise ValueError("X has no rows: there is nothing to learn from")
        if n_rows(rows) >= 2**32:
            raise ValueError(f"budget_sgd takes fewer than 2^32 rows at a time, got {n_rows(rows)}")
        if y.min() < 0 or y.max() >= n_classes:
            raise ValueError(f"classes must be 0..{n_classes - 1}, but y has {y.min()}..{y.max()}")
        factors = np.ones(n_classes) if class_factors is None else np.asarray(class_factors, dtype=float)
        cost = C * check_weights(sample_weight, n_rows(rows))
        own = cost * factors[y]
        fields = {
            "rows": rows,
            "norms2": norms2,
            "y": y,
            "n_classes": n_classes,
            "cost": np.column_stack([own, own if n_classes == 2 else cost]),
        }
        for name, content in fields.items():
            object.__setattr__(self, name, content)

    @property
    def n_outputs(self) -> int:
        """Decision functions: one for two classes, else one a class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows(self.rows)

    @property
    def n_weights(self) -> int:
        """Number of features."""
        return n_features(self.rows)

    def signs(self, c: int) -> Array:
        """+1 for the rows of output c's class and -1 for the others."""
        return np.where(self.y == (1 if self.n_classes == 2 else c), 1.0, -1.0)

    def costs(self, c: int) -> Array:
        """The rows' costs in output c."""
        return np.where(self.y == (1 if self.n_classes == 2 else c), self.cost[:, 0], self.cost[:, 1])
