"""From kernels to the linear solvers: Nystroem features and random Fourier features.

Nystroem (Williams, Seeger 2001): m random rows are landmarks, K_mm = L L', and z(x) = L^-1 (k(x, l_1), ..., k(x, l_m)),
so that z(x)'z(x') is the best approximation of k(x, x') in the span of the landmarks. The linear machine w on z is the
expansion L^-T w on the landmarks: exact in that span.

Fourier (Rahimi, Recht 2007), for RBF: z(x) = sqrt(2/m) cos(W'x + phase), W_jk ~ N(0, 2 gamma), phase uniform;
z(x)'z(x') is k(x, x') on average.

The linear problem in z is solved by the linear solvers to a certified gap. The certificate is that of the APPROXIMATED
problem: it says nothing about the distance from the optimum of the kernel machine. For Nystroem, whose answer is a
kernel expansion, its primal value is also an upper bound of the kernel machine's optimum.

Features are made block by block over threads: of dense rows by BLAS, of sparse rows without making them dense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin import kernels
from maxmargin.data.rows import Array
from maxmargin.parallel import map_ordered
from maxmargin.problem import Problem
from maxmargin.problem.gram import one_blas_thread
from maxmargin.problem.kernel_problem import LOSSES, KernelProblem
from maxmargin.solvers.auto import solve_auto
from maxmargin.solvers.base import Result, Solver, run
from maxmargin.solvers.checks import check_count
from maxmargin.solvers.registry import get

_ROWS = 1024  # of a block of features
_RIDGE = 1e-6  # of the largest diagonal entry, where K_mm is singular


class NystroemState(NamedTuple):
    """Coefficients on the landmarks, zero for all other rows: an expansion like any other kernel machine's."""

    beta: Array
    intercept: float
    landmarks: Array  # rows
    weights: Array  # w of the linear problem

    @property
    def w(self) -> Array:
        """The weights of the linear problem."""
        return self.weights


class FourierState(NamedTuple):
    """The random features and their weights: f(x) = weights'z(x) + intercept."""

    weights: Array
    intercept: float
    frequencies: Array  # (n_features, n_components)
    phases: Array

    @property
    def w(self) -> Array:
        """The weights of the linear problem."""
        return self.weights

    def features(self, X: Any, n_jobs: int = 1) -> Array:
        """z(x) of the rows of a matrix, float32."""
        return fourier_features(X, self.frequencies, self.phases, n_jobs)

    def decision(self, X: Any, n_jobs: int = 1) -> Array:
        """f(x) of the rows of a matrix."""
        return self.features(X, n_jobs) @ self.weights + self.intercept


@dataclass(frozen=True)
class Features(Solver):
    """A kernel machine by way of a linear one on approximate features.

    Parameters
    ----------
    n_components : int
        Landmarks, or random features.
    linear_solver : str or Solver
        One of `maxmargin.solvers`, for the linear problem.
    """

    n_components: int = 500
    linear_solver: Any = "auto"

    losses: ClassVar[tuple[type, ...]] = LOSSES
    takes_free_intercept: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count(self, "n_components", 1)

    def solve(self, problem: KernelProblem, *, tol: float = 1e-3, seed: int | None = 0, **options: Any) -> Result:
        """Train the linear machine; the certificate is that of the approximated problem.

        Parameters
        ----------
        problem : KernelProblem
            With one loss a row; "fourier" takes `kernels.RBF` only.
        tol : float
            Relative gap of the linear problem.
        seed : int, optional
        **options
            See `maxmargin.solvers.base.run`.

        Returns
        -------
        Result
            `state` is a `NystroemState` or a `FourierState`.
        """
        if problem.machine == "one class":
            raise ValueError(f"{self.name!r} takes a problem with one loss a row, not a one-class machine")
        Z, finish = self._features(problem, np.random.default_rng(seed))
        linear = Problem(
            Z,
            problem.y,
            1.0,
            problem.loss,
            sample_weight=problem.cost,
            bias=1.0,
            penalize_intercept=problem.penalize_intercept,
            n_jobs=problem.n_jobs,
        )
        if isinstance(self.linear_solver, str) and self.linear_solver == "auto":
            result = solve_auto(linear, tol=tol, seed=seed, **options)
        else:
            result = run(get(self.linear_solver), linear, tol=tol, seed=seed, **options)
        return replace(result, solver=self, state=finish(result.w[:-1], float(result.w[-1])))

    def _features(self, problem: KernelProblem, rng: np.random.Generator) -> tuple[Array, Any]:
        """The features of all rows, and what makes a state of weights and intercept."""
        raise NotImplementedError


@dataclass(frozen=True)
class Nystroem(Features):
    """Random rows as landmarks, in whose span the kernel is exact.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 1, 0]
    >>> SVC(solver=Nystroem(n_components=3)).fit(X, y).stop_reason_
    'converged'
    """

    name: ClassVar[str] = "nystroem"

    def _features(self, problem: KernelProblem, rng: np.random.Generator) -> tuple[Array, Any]:
        usable = np.flatnonzero(problem.cost > 0.0)
        landmarks = np.sort(rng.choice(usable, min(self.n_components, len(usable)), replace=False))
        Z, inverse = nystroem_features(problem, landmarks)

        def finish(weights: Array, b: float) -> NystroemState:
            beta = np.zeros(problem.n_rows)
            beta[landmarks] = inverse @ weights
            return NystroemState(beta, b, landmarks, weights)

        return Z, finish


@dataclass(frozen=True)
class Fourier(Features):
    """Random waves whose products are an RBF kernel on average.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> X, y = [[0.0, 0.1], [1.0, 0.0], [2.0, 1.0], [0.1, 0.2]], [0, 1, 1, 0]
    >>> SVC(solver=Fourier(n_components=50)).fit(X, y).stop_reason_
    'converged'
    """

    name: ClassVar[str] = "fourier"

    def _features(self, problem: KernelProblem, rng: np.random.Generator) -> tuple[Array, Any]:
        if not isinstance(problem.kernel, kernels.RBF):
            raise ValueError(f"solver 'fourier' takes the RBF kernel only, got {problem.kernel!r}")
        frequencies = np.sqrt(2.0 * problem.kernel.gamma) * rng.normal(size=(problem.n_features, self.n_components))
        phases = rng.uniform(0.0, 2.0 * np.pi, self.n_components)
        Z = fourier_features(problem.rows, frequencies, phases, problem.n_jobs)
        return Z, lambda weights, b: FourierState(weights, b, frequencies, phases)


def nystroem_features(problem: KernelProblem, landmarks: Array) -> tuple[Array, Array]:
    """L^-1 k(x, landmarks) of all rows, and L^-T."""
    from scipy.linalg import eigh

    values, m = problem.values, len(landmarks)
    columns = values.columns(landmarks, np.float64)
    K = np.empty((m, m))
    values.block(landmarks, columns, K, np.arange(m))
    eigenvalues, vectors = eigh(0.5 * (K + K.T))
    kept = eigenvalues > _RIDGE * eigenvalues[-1]  # the others are rounding errors, or of a kernel that is indefinite
    inverse = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    Z = np.empty((problem.n_rows, m), np.float32)
    values.block(np.arange(problem.n_rows), values.columns(landmarks), Z, np.arange(problem.n_rows))
    single = inverse.astype(np.float32)
    out = np.empty((problem.n_rows, single.shape[1]), np.float32)

    def multiply(begin: int) -> None:
        np.dot(Z[begin : begin + _ROWS], single, out=out[begin : begin + _ROWS])

    with one_blas_thread():
        map_ordered(multiply, range(0, problem.n_rows, _ROWS), problem.n_jobs)
    return out, inverse


def fourier_features(X: Any, frequencies: Array, phases: Array, n_jobs: int = 1) -> Array:
    """sqrt(2/m) cos(W'x + phase) of the rows of a matrix."""
    from scipy.sparse import csr_matrix

    if hasattr(X, "indptr") and not hasattr(X, "shape"):  # rows of ours
        X = csr_matrix((X.data, X.indices, X.indptr), (len(X.indptr) - 1, X.n_features))
    elif hasattr(X, "values") and hasattr(X, "bias"):
        X = X.values
    m = len(phases)
    out = np.empty((X.shape[0], m), np.float32)
    W, shift = frequencies.astype(np.float32), phases.astype(np.float32)

    def block(begin: int) -> None:
        part = X[begin : begin + _ROWS].astype(np.float32)
        angles = part @ W
        angles += shift
        np.cos(angles, out=angles)
        np.multiply(angles, np.float32(np.sqrt(2.0 / m)), out=out[begin : begin + _ROWS])

    with one_blas_thread():
        map_ordered(block, range(0, X.shape[0], _ROWS), n_jobs)
    return out
