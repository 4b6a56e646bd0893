"""Parameters that several estimators have, in groups: an estimator derives from those that it takes.

Each is a field of a dataclass, so that scikit-learn finds it in the signature of `__init__`; `documented` takes what is
said of it from here, unless the estimator says something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, repr=False, kw_only=True)
class Limits:
    """How far and how long to train.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap to reach: primal - dual <= tol * primal.
    max_iter : float, default=None
        Limit on passes over the data, of several classes for each; None: the solver's own, 1000 for most.
    max_time : float, default=None
        Limit in seconds on the whole fit, which several classes share. The model found by then is kept.
    n_jobs : int, default=None
        Threads, over classes and inside passes over the data; -1: all cores.
    verbose : int, default=0
        1: show a progress bar on a terminal.
    """

    tol: float = 1e-3
    max_iter: Any = None
    max_time: float | None = None
    n_jobs: int | None = None
    verbose: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class LossWeight:
    """The constant of the objective.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    """

    C: float = 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class SolverChoice:
    """The algorithm.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        A name from ``maxmargin.solvers.names()``, a solver object with its own parameters, or "auto".
    """

    solver: Any = "auto"


@dataclass(eq=False, repr=False, kw_only=True)
class Seeded:
    """Random numbers.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None, default=None
        Seed of the order in which rows are visited. None is a fixed seed: the same data give the same bits.
    """

    random_state: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class Intercept:
    """The intercept of a linear model.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is penalised like the other weights; larger `intercept_scaling` makes that
        penalty smaller.
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight makes the intercept.
    """

    fit_intercept: bool = True
    intercept_scaling: float = 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class KernelFunction:
    """The kernel, but for its gamma.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"}, kernel object or callable, default="rbf"
        "precomputed": X is the matrix of kernel values, of shape (n_samples, n_samples) in `fit` and (n_samples,
        n_samples_fit) in `predict`. A callable is given two arrays of rows and returns the matrix of their kernel
        values; as in scikit-learn, it is called once for all rows in `fit`, and with new rows and those of `fit` in
        `predict`. With "sigmoid", and whatever else is not positive semi-definite, `certificate_` tells the distance
        from a stationary point.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    """

    kernel: Any = "rbf"
    degree: int = 3
    coef0: float = 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class Gamma:
    """The width of the kernel.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "sigmoid". "scale": 1 / (n_features * variance of X), weighted; "auto": 1 / n_features.
    """

    gamma: Any = "scale"


@dataclass(eq=False, repr=False, kw_only=True)
class Search:
    """What is tried by cross validation.

    Parameters
    ----------
    Cs : int or array-like of float, default=8
        The values of C to choose from, or how many of them between 0.0001 and 1000.
    cv : int, splitter or iterable, default=None
        As in scikit-learn: an integer is a number of folds, stratified by class. None are five, or as many as the
        smallest class has rows, at least two.
    scoring : str or callable, default=None
        As in scikit-learn. Scores are weighed by `sample_weight`, if the scorer can do that.
    """

    Cs: Any = 8
    cv: Any = None
    scoring: Any = None
