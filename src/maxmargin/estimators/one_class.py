"""The one-class support vector machine with kernels, scikit-learn's interface and a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin

from maxmargin.data.rows import Array
from maxmargin.estimators._docs import documented
from maxmargin.estimators._kernel_machine import KernelMachine
from maxmargin.estimators._shared_parameters import Gamma
from maxmargin.models.pairs import ON_THE_BORDER
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OneClassSVM(OutlierMixin, KernelMachine, Gamma):
    """One-class support vector machine for outliers and novelties, whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + sum_i weight_i max(0, rho - <w, phi(x_i)>) - nu rho sum_i weight_i``, the objective of
    scikit-learn's OneClassSVM and of LIBSVM, and stops when it has proven that the objective is within `tol` of the
    optimum. It takes the parameters of scikit-learn's OneClassSVM, and has its attributes in the same layout.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: at most this share of the rows are outliers, and at least this share are support vectors.
    solver : {"auto", "block_smo", "smo", "svmlight"} or Solver, default="auto"

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``: rho, which is minus the intercept.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [9.0]])
    >>> OneClassSVM(gamma=1.0, nu=0.5).fit(X).decision_function([[0.15], [9.0]]) > 0.0
    array([ True, False])
    """

    nu: float = 0.5

    def _chosen_solver(self) -> Any:
        solver = super()._chosen_solver()
        if kernel_solvers.get(solver).name not in ("block_smo", "smo", "svmlight"):
            raise ValueError(f"solver {self.solver!r} is for classes; take auto, block_smo, smo or svmlight")
        return solver

    def _checked_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        return super()._checked_data(X, None)

    def _machines(self, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]) -> list[KernelProblem]:
        self.class_weight_ = np.empty(0)
        return [KernelProblem.one_class(X, self.nu, sample_weight=sample_weight, **options)]

    def _finish(self, X: Any, y: Any, sample_weight: Any) -> None:
        self.offset_ = -float(self.intercept_[0])

    def decision_function(self, X: Any) -> Array:
        """Positive inside, negative outside, and zero on the border, where the free support vectors are.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self._outputs(X).ravel()
        values[np.abs(values) <= ON_THE_BORDER * max(abs(self.offset_), np.abs(self.dual_coef_).sum())] = 0.0
        return values

    def score_samples(self, X: Any) -> Array:
        """The decision function without its intercept.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """1 for rows inside, -1 for outliers.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
