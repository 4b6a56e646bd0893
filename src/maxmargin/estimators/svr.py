"""Support vector regression with kernels, scikit-learn's interface and a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.estimators._docs import documented
from maxmargin.estimators._estimator import Regressor, as_targets
from maxmargin.estimators._kernel_machine import KernelMachine, finite, loss_pair
from maxmargin.estimators._shared_parameters import Gamma, LossWeight
from maxmargin.problem.kernel_problem import KernelProblem


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(Regressor, KernelMachine):
    """Base of `SVR` and `SVRCV`.

    Parameters
    ----------
    epsilon : float, default=0.1
        Errors up to this size cost nothing. Its scale is that of y.
    solver : str or Solver, default="auto"
        "auto", "block_smo", "smo" or "svmlight", "nystroem" or "fourier", or a solver object.
    """

    epsilon: float = 0.1

    def _machines(self, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]) -> list[KernelProblem]:
        loss, penalized = self._loss_for(*loss_pair(float(self.epsilon)))
        self.class_weight_ = np.empty(0)
        options = options | {"sample_weight": sample_weight, "penalize_intercept": penalized}
        return [KernelProblem(X, as_targets(y), finite(self.C), loss, **options)]


@documented
@dataclass(eq=False, repr=False)
class SVR(KernelRegressor, Gamma, LossWeight):
    """Support vector regression with a kernel, whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i max(0, |<w, phi(x_i)> + b - y_i| - epsilon)``, the objective of
    scikit-learn's SVR and of LIBSVM, and stops when it has proven that the objective is within `tol` of the optimum.
    It takes the parameters of scikit-learn's SVR, and has its attributes in the same layout.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. inf is taken as 1e10.

    Examples
    --------
    >>> X = np.linspace(0.0, 6.0, 200)[:, np.newaxis]
    >>> reg = SVR(C=10.0, epsilon=0.05, tol=1e-6).fit(X, np.sin(X[:, 0]))
    >>> reg.certificate_.relative_gap <= 1e-6
    True
    >>> bool(abs(reg.predict([[1.5]])[0] - np.sin(1.5)) < 0.06)
    True
    """
