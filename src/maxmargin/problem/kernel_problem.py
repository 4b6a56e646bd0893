"""The problem of kernel machines: one quadratic program that C-SVC, epsilon-SVR and one-class SVM are instances of.

    min_beta  1/2 beta'(K + D)beta - t'beta + sum_i eps_i |beta_i|
    s.t.      sum_i beta_i = total,   lower_i <= beta_i <= upper_i,   lower_i <= 0 <= upper_i

There is one signed variable a row, beta_i = y_i alpha_i or alpha_i - alpha*_i, so the decision function is
f(x) = sum_i beta_i k(x_i, x) + b whatever the machine:

    machine                        t     eps      lower, upper           D_i        total
    C-SVC (hinge)                  y     0        0, C_i or -C_i, 0      0          0
    squared hinge                  y     0        0, inf or -inf, 0      1/(2 C_i)  0
    epsilon-SVR                    y     epsilon  -C_i, C_i              0          0
    squared epsilon-insensitive    y     epsilon  -inf, inf              1/(2 C_i)  0
    one-class (nu)                 0     0        0, weight_i            0          nu sum_i weight_i

With z_i = t_i - f(x_i) the primal is  1/2 beta'K beta + sum_i phi_i(z_i) + total b,  where
phi_i(z) = max of beta z - eps_i |beta| - D_i/2 beta^2 over the box: C_i times the loss. Hence

    primal - dual = sum_i phi_i(z_i) - beta_i z_i + eps_i |beta_i| + D_i/2 beta_i^2,

a sum of one nonnegative number a row. It is computed as such, in float64, and it is zero only at the optimum. If the
kernel is not positive semi-definite there is no such bound: the sum then tells how far beta is from a stationary point,
and zero, below which no objective of other kernels is, says nothing either.

If the intercept is penalised, b = sum_i beta_i, the kernel is k + 1 and the equality constraint is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from maxmargin import kernels, losses, penalties
from maxmargin.data.rows import Array, Dense, Rows, as_dense, as_rows, n_features, n_rows, take
from maxmargin.kernels.blocks import KernelValues
from maxmargin.kernels.classes import ClassBlocks, ValuesOfPair
from maxmargin.kernels.given import CallableValues, PrecomputedValues
from maxmargin.kernels.kept import KeptValues
from maxmargin.kernels.part import PartOfValues
from maxmargin.parallel import effective_n_jobs
from maxmargin.problem.checks import check_labels, check_weights
from maxmargin.problem.gram_rows import GramRows
from maxmargin.problem.kernel_program import KernelCertificate, Program, best_intercept, program_of_losses, risk_and_gap
from maxmargin.problem.kernel_rounding import cost_of_balance, rounding_error

_TILE_SHARE = 0.1  # of the cache's size, for copies of the rows at hand; not part of it
_WORTH_A_PASS = 0.1  # of the gap: what rounding can do is bounded more closely above that
LOSSES = (losses.Hinge, losses.SquaredHinge, losses.EpsilonInsensitive, losses.SquaredEpsilonInsensitive)


@dataclass(frozen=True, init=False, eq=False)
class KernelProblem:
    """A kernel machine to train: rows, a kernel, and the quadratic program above. Never changes.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix of shape (n_rows, n_features)
        With ``kernel="precomputed"`` the matrix of kernel values, (n_rows, n_rows).
    y : array-like of shape (n_rows,)
        Labels -1 and +1, or the targets of a regression loss.
    C : float
    loss : str or loss object
        "hinge", "squared_hinge", "epsilon_insensitive" or "squared_epsilon_insensitive", or an object of these.
    kernel : str, kernel object or callable
        A name of ``kernels.names()``, a tag such as ``kernels.RBF(0.5)``, "precomputed", or a function of two matrices
        that returns the matrix of kernel values.
    gamma, degree, coef0 : float, int, float
        Parameters of a kernel given by name.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of C. Weight 2 is a row given twice, weight 0 a row left out.
    penalize_intercept : bool
        Whether the penalty includes the intercept; LIBSVM's does not.
    cache_size : float
        Megabytes for kernel values.
    n_jobs : int, optional
        Threads. Results do not depend on it.

    Examples
    --------
    >>> problem = KernelProblem([[1.0, 0.0], [0.0, 2.0]], [1, -1], C=1.0, kernel="rbf", gamma=0.5)
    >>> problem.certificate(np.array([1.0, -1.0])).primal < 2.0
    True
    """

    rows: Rows
    y: Array
    cost: Array
    loss: losses.Loss
    kernel: Any
    target: Array
    kink: Array
    lower: Array
    upper: Array
    diagonal: Array
    total: float
    penalize_intercept: bool
    cache_size: float
    n_jobs: int
    machine: str
    penalty: ClassVar[Any] = penalties.L2()
    accesses: ClassVar[tuple[str, ...]] = ("gram", "rows", "stream")

    def __init__(
        self,
        X: Any,
        y: Any,
        C: float = 1.0,
        loss: str | losses.Loss = "hinge",
        kernel: Any = "rbf",
        *,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        sample_weight: Any = None,
        penalize_intercept: bool = False,
        cache_size: float = 500.0,
        n_jobs: int | None = 1,
    ):
        if not 0.0 < C < np.inf:
            raise ValueError(f"C must be a positive finite number, got {C!r}")
        loss = losses.get(loss)
        if not isinstance(loss, LOSSES):
            able = ", ".join(losses.name_of_type(tag) for tag in LOSSES)
            raise ValueError(f"kernel machines take the losses {able}, not {losses.name_of(loss)!r}")
        rows, n = self._set_rows(X, kernel, gamma, degree, coef0)
        self._set(
            rows=rows,
            loss=loss,
            total=0.0,
            penalize_intercept=bool(penalize_intercept),
            cache_size=float(cache_size),
            n_jobs=effective_n_jobs(n_jobs),
            machine="one loss a row",
            **program_of_losses(check_labels(y, n, loss), C * check_weights(sample_weight, n), loss),
        )

    @classmethod
    def one_class(
        cls,
        X: Any,
        nu: float = 0.5,
        kernel: Any = "rbf",
        *,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        sample_weight: Any = None,
        cache_size: float = 500.0,
        n_jobs: int | None = 1,
    ) -> KernelProblem:
        """The one-class machine of Schoelkopf et al., in LIBSVM's scaling: 0 <= beta_i <= weight_i, sum nu * weights.

        Its primal is 1/2 |w|^2 + sum_i weight_i max(0, rho - <w, x_i>) - nu sum_i weight_i rho, and the intercept
        is -rho. The optimum is negative.
        """
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"nu must be in (0, 1], got {nu!r}")
        self = object.__new__(cls)
        rows, n = self._set_rows(X, kernel, gamma, degree, coef0)
        weights = check_weights(sample_weight, n)
        self._set(
            rows=rows,
            y=np.ones(n),
            cost=weights,
            loss=losses.Hinge(),
            target=np.zeros(n),
            kink=np.zeros(n),
            lower=np.zeros(n),
            upper=weights,
            diagonal=np.zeros(n),
            total=float(nu * weights.sum()),
            penalize_intercept=False,
            cache_size=float(cache_size),
            n_jobs=effective_n_jobs(n_jobs),
            machine="one class",
        )
        return self

    def _set(self, **fields: Any) -> None:
        for name, content in fields.items():
            object.__setattr__(self, name, content)

    def _set_rows(self, X: Any, kernel: Any, gamma: float, degree: int, coef0: float) -> tuple[Rows, int]:
        is_tag = isinstance(kernel, (str, *kernels.TAGS))
        is_function = not is_tag and callable(kernel)
        if is_function:  # what a row is, it knows best
            X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
        has_rows = not is_function or (X.ndim == 2 and X.dtype.kind in "biuf")
        rows = as_rows(X)[0] if has_rows else Dense(np.zeros((X.shape[0], 0)), 0.0)
        n = n_rows(rows)
        if n == 0:
            raise ValueError("X has no rows: there is nothing to learn from")
        if is_tag and kernel != "precomputed":
            kernel = kernels.get(kernel, gamma=gamma, degree=degree, coef0=coef0)
        elif not is_tag and not is_function:
            raise ValueError(f"kernel must be a name, a tag of maxmargin.kernels or a function, got {kernel!r}")
        if kernel == "precomputed" and n_features(rows) != n:
            raise ValueError(f"a precomputed kernel must be a square matrix, got shape {(n, n_features(rows))}")
        self._set(kernel=kernel, _X=X if is_function else None)
        return rows, n

    def with_labels(
        self,
        y: Array,
        cost: Array,
        which: Array | None = None,
        *,
        n_jobs: int | None = None,
        share: int = 1,
        blocks: ClassBlocks | None = None,
    ) -> KernelProblem:
        """The problem of some of the rows (default: all) with other labels.

        Parameters
        ----------
        y, cost : ndarray of shape (n_rows,) or (len(which),)
            Targets, and C times weight, of these rows.
        which : ndarray of int, optional
        n_jobs : int, optional
        share : int
            How many such problems share the cache at a time.
        blocks : ClassBlocks, optional
            Kernel values that all such problems share, part of the cache.
        """
        other = self._copy()
        cache_size = self.cache_size
        rows = self.rows if which is None else take(self.rows, which)
        which = np.arange(self.n_rows) if which is None else which
        if blocks is None:
            values = PartOfValues(self.values, which, n_jobs)
        else:
            values, cache_size = ValuesOfPair(blocks, which, n_jobs), cache_size - blocks.megabytes(blocks.codes)
        program = program_of_losses(check_labels(y, n_rows(rows), self.loss), cost, self.loss)
        other._set(rows=rows, values=values, cache_size=cache_size / share, **program)
        if n_jobs is not None:
            other._set(n_jobs=n_jobs)
        return other

    def _copy(self) -> KernelProblem:
        other = object.__new__(KernelProblem)
        other._set(_X=None, **{name: getattr(self, name) for name in self.__dataclass_fields__ if name != "penalty"})
        return other

    def with_kept_values(self) -> KernelProblem:
        """The same problem with all of its kernel values computed now, in float64: for a few rows."""
        if isinstance(self.values, KeptValues):
            return self
        other = self._copy()
        other._set(values=KeptValues(self.values))
        return other

    def of_rows(self, which: Array, cost: Array | None = None) -> KernelProblem:
        """The problem of some of the rows, with these costs (default: their own). The sum to keep stays."""
        other = self._copy()
        cost = self.cost[which] if cost is None else cost
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(self.cost[which] > 0.0, cost / self.cost[which], 0.0)
            lower, upper = (
                np.where(bound != 0.0, scale * bound, 0.0) for bound in (self.lower[which], self.upper[which])
            )
            diagonal = np.where(scale > 0.0, self.diagonal[which] / scale, 0.0)
        if "values" in self.__dict__ or not isinstance(self.kernel, kernels.TAGS):
            values = self.values
            other._set(values=values.part(which) if isinstance(values, PartOfValues) else PartOfValues(values, which))
        other._set(
            rows=take(self.rows, which),
            y=self.y[which],
            cost=cost,
            target=self.target[which],
            kink=self.kink[which],
            lower=lower,
            upper=upper,
            diagonal=diagonal,
        )
        return other

    # ------------------------------------------------------------ shape

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows(self.rows)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return n_features(self.rows)

    @property
    def n_weights(self) -> int:
        """Length of `Result.w`: a coefficient a row."""
        return self.n_rows

    @property
    def has_free_intercept(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return not self.penalize_intercept

    @property
    def fingerprint(self) -> str:
        """What a checkpoint must know besides rows, labels, costs and loss."""
        name = self.kernel if isinstance(self.kernel, (str, *kernels.TAGS)) else self.kernel.__qualname__
        return f"{name!r}|{self.machine}|{self.total!r}|{self.penalize_intercept}"

    @cached_property
    def values(self) -> Any:
        """Kernel values between rows, block by block."""
        if self.kernel == "precomputed":
            return PrecomputedValues(as_dense(self.rows))
        if isinstance(self.kernel, kernels.TAGS):
            values = KernelValues(self.kernel, self.rows, self.n_jobs)
            values.most_kept = min(values.most_kept, int(_TILE_SHARE * self.cache_size * 2**18))
            return values
        return CallableValues(self.kernel, self._X)  # type: ignore[attr-defined]

    @cached_property
    def gram(self) -> GramRows:
        """Kernel rows, with a cache of `cache_size` megabytes."""
        return GramRows(self.values, self.cache_size)

    # ------------------------------------------------------------ objectives

    def decision(self, beta: Array, dtype: Any = np.float64) -> Array:
        """K beta of every row, without the intercept unless that is penalised."""
        support = np.flatnonzero(beta)
        f = self.values.apply(np.arange(self.n_rows), support, beta[support], dtype)
        return f + beta.sum() if self.penalize_intercept else f

    def intercept(self, f: Array) -> float:
        """The b that makes the primal least, given f = K beta; the middle one if there are several. 0 if penalised."""
        if self.penalize_intercept:
            return 0.0
        return best_intercept(self.program, self.target - f, self.total)

    def dual(self, beta: Array, f: Array) -> float:
        """The dual objective, given f = K beta."""
        quadratic = 0.5 * float(beta @ f) + 0.5 * float(self.diagonal @ (beta * beta))
        return float(self.target @ beta) - quadratic - float(self.kink @ np.abs(beta))

    def is_feasible(self, beta: Array) -> bool:
        """Whether beta keeps the constraints (the sum to 1e-9 of its size)."""
        if np.any(beta < self.lower) or np.any(beta > self.upper):
            return False
        size = float(np.abs(beta).sum())
        return self.penalize_intercept or abs(float(beta.sum()) - self.total) <= 1e-9 * max(size, self.total, 1e-300)

    def certificate(
        self, beta: Array, intercept: float | None = None, f: Array | None = None, dtype: Any = np.float64
    ) -> KernelCertificate:
        """Bound the distance of beta from the optimum, with f = K beta computed in float64 for every row.

        What rounding can do is part of it; see `kernel_rounding`.

        Parameters
        ----------
        beta : ndarray of shape (n_rows,)
        intercept : float, optional
            The best one if it is not given.
        f : ndarray of shape (n_rows,), optional
            Promise that this is K beta, which saves the work.
        """
        beta = np.ascontiguousarray(beta, dtype=np.float64)
        f = self.decision(beta, dtype) if f is None else f
        b = self.intercept(f) if intercept is None else intercept
        risk, gap = risk_and_gap(self.program, beta, f, b)
        primal = 0.5 * float(beta @ f) + risk + self.total * b
        in_primal, in_gap = rounding_error(self, beta, f, b, risk, gap)
        if 2.0 * in_primal + in_gap > _WORTH_A_PASS * gap:
            in_primal, in_gap = rounding_error(self, beta, f, b, risk, gap, closely=True)
        gap += cost_of_balance(self, beta, f, b) if self.is_feasible(beta) else np.inf
        error = 2.0 * in_primal + in_gap
        primal, gap = primal + in_primal, gap + error
        if self.machine != "one class" and kernels.is_positive(self.kernel) and primal > 0.0:
            gap = min(gap, primal)  # no loss is negative, so zero bounds the optimum as well
        certificate = KernelCertificate(primal, primal - gap, gap)
        certificate.scale, certificate.rounding = self.scale, error
        return certificate

    @cached_property
    def scale(self) -> float:
        """What a gap is compared with where the primal is nearer to zero; see `KernelCertificate`."""
        if self.machine != "one class":
            return 0.0
        share = self.total * self.cost / self.cost.sum()
        return 0.5 * float((share * share) @ self.values.diagonal)

    @property
    def program(self) -> Program:
        """The quadratic program but for its kernel matrix."""
        return Program(self.target, self.kink, self.lower, self.upper, self.diagonal)
