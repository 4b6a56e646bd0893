"""All classes at once with a kernel: the problem of `kernel_larank`.

    min_W  P(W) = 1/2 sum_r |w_r|^2 + sum_i C_i max_r ( f_r(x_i) + [r != y_i] ) - f_{y_i}(x_i)
    max_b  D(b) = sum_i b_i^{y_i} - 1/2 sum_r b^r' K b^r,     f_r(x) = sum_i b_i^r k(x_i, x),
           b_i^r <= C_i [r = y_i],   sum_r b_i^r = 0

Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines, JMLR 2001. There is no
intercept. P(W) - D(b) is a sum of one nonnegative number a row and is computed as such, in float64.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from maxmargin import kernels, penalties
from maxmargin.data.rows import Array
from maxmargin.kernels.rounding import UNIT_DOUBLE
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.problem.kernel_program import KernelCertificate
from maxmargin.problem.risks import CrammerSinger


class KernelClasses:
    """A kernel machine of several classes to train, all at once. Never changes.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        Classes by number, 0 to K - 1.
    C : float
    kernel : str, kernel object or callable
        As of `KernelProblem`.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C.
    **options
        `gamma`, `degree`, `coef0`, `n_jobs`: as of `KernelProblem`.

    Examples
    --------
    >>> problem = KernelClasses([[0.0], [1.0], [2.0]], [0, 1, 2], C=1.0, kernel="rbf", gamma=1.0)
    >>> problem.certificate(np.zeros((3, 3)))
    KernelCertificate(primal=3.0, dual=0.0, gap=3.0)
    """

    penalty: ClassVar[Any] = penalties.L2()
    accesses: ClassVar[tuple[str, ...]] = ("gram",)
    has_free_intercept: ClassVar[bool] = False

    def __init__(
        self, X: Any, y: Any, C: float = 1.0, kernel: Any = "rbf", *, sample_weight: Any = None, **options: Any
    ):
        codes = np.asarray(y)
        n = codes.shape[0] if codes.ndim else 0
        machine = KernelProblem(X, np.ones(n), C, "hinge", kernel, sample_weight=sample_weight, **options)
        self.risk = CrammerSinger(int(codes.max(initial=0)) + 1)
        self.y = self.risk.labels(codes, machine.n_rows, machine.loss)
        self.rows, self.cost, self.loss, self.values = machine.rows, machine.cost, machine.loss, machine.values
        self.kernel, self.n_rows, self.n_jobs = machine.kernel, machine.n_rows, machine.n_jobs
        self.fingerprint = f"{machine.fingerprint}|all classes"

    @property
    def n_weights(self) -> int:
        """Length of `Result.w`: a coefficient for each row and class."""
        return self.n_rows * self.risk.n_outputs

    def decision(self, beta: Array) -> Array:
        """f_r(x_i), a line a row, with kernel values in float64."""
        support = np.flatnonzero(np.any(beta != 0.0, axis=1))
        coefficients = np.ascontiguousarray(beta[support].T)
        return np.ascontiguousarray(self.values.apply(np.arange(self.n_rows), support, coefficients, np.float64).T)

    def certificate(self, beta: Array) -> KernelCertificate:
        """Bound the distance of beta from the optimum; what rounding can do is part of it, as of other machines."""
        own = np.arange(self.n_rows), self.y.astype(np.int64)
        F = self.decision(beta)
        scores = F + 1.0
        scores[own] -= 1.0
        norms2 = float(np.sum(beta * F))
        risk = float(self.cost @ (scores.max(axis=1) - F[own]))
        primal = 0.5 * norms2 + risk
        share = self._feasible_share(beta, own)
        dual = share * float(beta[own].sum()) - 0.5 * share * share * norms2
        gap = max(primal - dual, 0.0)
        in_primal, in_dual = self._rounding_errors(beta, F, risk)
        primal, gap = primal + in_primal, gap + in_primal + in_dual
        if kernels.is_positive(self.kernel):
            gap = min(gap, primal)  # no loss is negative, so zero bounds the optimum as well
        certificate = KernelCertificate(primal, primal - gap, gap)
        certificate.rounding = in_primal + in_dual
        return certificate

    def _rounding_errors(self, beta: Array, F: Array, risk: float) -> tuple[float, float]:
        """By how much primal and dual may be off: outputs as `kernel_rounding` says, sums by their lengths."""
        if not beta.any():
            return 0.0, 0.0
        digits, size = self.values.digits, np.abs(beta)
        spread = size * digits.size[:, np.newaxis]
        moved = UNIT_DOUBLE * (self.values.longest_sum(np.count_nonzero(size.any(axis=1))) + 8)
        h = digits.size[:, np.newaxis] * (
            (digits.error[:, np.newaxis] + moved) * spread.sum(axis=0) + digits.error @ spread
        )
        a = 4.0 * UNIT_DOUBLE * (1.0 + np.abs(F))
        in_norms = 0.5 * float(np.sum(size * (h + UNIT_DOUBLE * beta.size * np.abs(F))))
        in_primal = 2.0 * float(self.cost @ (h + a).max(axis=1)) + UNIT_DOUBLE * (self.n_rows + 8) * risk
        # Coefficients of a row that do not quite sum up to zero: its own one, made right, changes the dual objective.
        off = np.abs(beta.sum(axis=1)) + UNIT_DOUBLE * beta.shape[1] * size.max(axis=1)
        in_dual = float(off @ (1.0 + np.abs(F).max(axis=1))) + UNIT_DOUBLE * (self.n_rows + 8) * float(size.sum())
        return in_primal + in_norms, in_dual + in_norms

    def _feasible_share(self, beta: Array, own: tuple[Array, Array]) -> float:
        """The share of beta that keeps all bounds: 1 but for rounding; 0, which proves nothing, if it does not."""
        others, most = beta.copy(), beta[own]
        others[own] = 0.0
        sums = np.abs(beta.sum(axis=1)).max(initial=0.0)
        if np.any(others > 0.0) or np.any(most < 0.0) or sums > 1e-12 * np.abs(beta).max(initial=0.0):
            return 0.0
        share = float(np.divide(self.cost, most, out=np.ones_like(most), where=most > 0.0).min(initial=1.0))
        return share if share >= 1.0 - 1e-9 else 0.0
