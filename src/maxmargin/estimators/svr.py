"""Support vector regression with kernels, scikit-learn's interface and a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from maxmargin.data.rows import Array
from maxmargin.estimators._kernel_machine import KernelMachine, finite, loss_pair
from maxmargin.problem.kernel_problem import KernelProblem


class SVR(RegressorMixin, KernelMachine):
    """Support vector regression with a kernel, whose answers carry a certificate.

    Minimises ``1/2 |w|^2 + C sum_i weight_i max(0, |<w, phi(x_i)> + b - y_i| - epsilon)``, the objective of
    scikit-learn's SVR and of LIBSVM, and stops when it has proven that the objective is within `tol` of the optimum.
    Parameters, attributes and their layout are those of scikit-learn's SVR; those after `max_iter` are more.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"}, kernel object or callable, default="rbf"
        A callable is given two arrays of rows and returns the matrix of their kernel values; as in scikit-learn, it is
        called once for all rows in `fit`, and with new rows and those of `fit` in `predict`.
    degree : int, default=3
        Of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "sigmoid". "scale": 1 / (n_features * variance of X), weighted; "auto": 1 / n_features.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * primal. (In scikit-learn: the violation of an optimality
        condition.)
    C : float, default=1.0
        Weight of the loss. inf is taken as 1e10.
    epsilon : float, default=0.1
        Errors up to this size cost nothing. Its scale is that of y.
    shrinking : bool, default=True
        Of the solvers "smo" and "svmlight": whether rows that seem to stay at a bound are left out for a while.
    cache_size : float, default=500
        Megabytes for kernel values.
    verbose : bool or int, default=False
        1: show a progress bar on a terminal.
    max_iter : float, default=-1
        Limit on passes over the rows; -1 or None: none. (In scikit-learn: on steps of two rows.)
    solver : str or Solver, default="auto"
        "auto", "block_smo", "smo" or "svmlight", "nystroem" or "fourier", or a solver object.
    max_time : float, default=None
        Limit in seconds. The model found by then is kept.
    n_jobs : int, default=None
        Threads; -1: all cores. Results do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of samples of rows. None is a fixed seed: the same data give the same bits.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of X that are support vectors.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        Empty if the kernel is precomputed or a callable.
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray or sparse matrix of shape (1, n_support)
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or sparse matrix of shape (1, n_features)
        If the kernel is linear.
    certificate_ : Certificate
        Proven bounds on the optimum: primal, dual, gap, relative_gap.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "interrupted", "callback", "rounding" or "stalled" (rounding ends it before
        the gap is at `tol`).
    history_ : dict of str to ndarray
        Seconds, passes, primal, dual, relative_gap and work counters at each certificate.
    solver_ : Solver
        What ran.
    kernel_ : kernel object, "precomputed" or callable
        With the gamma that was used.
    fit_status_ : int
        0 if the fit converged, else 1.
    shape_fit_ : tuple of int
    n_iter_ : int
        Passes over the rows, rounded up.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, if X had names

    Examples
    --------
    >>> X = np.linspace(0.0, 6.0, 200)[:, np.newaxis]
    >>> reg = SVR(C=10.0, epsilon=0.05, tol=1e-6).fit(X, np.sin(X[:, 0]))
    >>> reg.certificate_.relative_gap <= 1e-6
    True
    >>> bool(abs(reg.predict([[1.5]])[0] - np.sin(1.5)) < 0.06)
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 500,
        verbose: Any = False,
        max_iter: Any = -1,
        solver: Any = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train on rows X with targets y.

        Ctrl-C ends the training within a second or so and leaves the model found so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C. Weight 2 is a row given twice, weight 0 a row left out.

        Returns
        -------
        self
        """
        self._fit_and_warn(X, y, sample_weight)
        return self

    def _machines(self, X: Any, y: Any, sample_weight: Any, options: dict[str, Any]) -> list[KernelProblem]:
        try:
            targets = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the targets of a regression must be numbers: {error}") from error
        loss, penalized = self._loss_for(*loss_pair(float(self.epsilon)))
        self.class_weight_ = np.empty(0)
        options = options | {"sample_weight": sample_weight, "penalize_intercept": penalized}
        return [KernelProblem(X, targets, finite(self.C), loss, **options)]

    def predict(self, X: Any) -> Array:
        """Value of the regression function at each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples_fit) if precomputed

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._outputs(X).ravel()
