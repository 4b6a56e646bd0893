"""Random kernel machines over all solvers: what is claimed of beta, computed anew in 80-bit arithmetic.

Classifier, regressor and one-class machine, all kernels and storages, scales of rows and columns, duplicates, weights,
one to sixteen threads. Coefficients are within their bounds, neither the objective nor the gap is larger than what is
certified, without any allowance for rounding, and what one solver proves no other contradicts. Estimators are saved and
loaded, and predict the same.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.hunt.fits import scaled_rows
from tests.hunt.frame import Case
from tests.hunt.mutations import pick

import maxmargin
from maxmargin import SVC, SVR, OneClassSVM, losses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers

LIMIT = 20.0
CASES = 8

_LIMITS = {"max_time": 2.0, "max_iter": 200}
_SAME_PROBLEM = ("auto", "block_smo", "smo", "svmlight")  # solvers that minimise the machine's own objective
_KERNELS = ("rbf", "rbf", "linear", "poly", "precomputed", "function")


def hunt(case: Case) -> None:
    rng = case.rng
    is_usual = case.seed == 0 and case.number < CASES
    loss = losses.get(pick(rng, ["hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive"]))
    X, y, weight = scaled_rows(rng, losses.is_margin_loss(loss))
    name = pick(rng, _KERNELS[:3] if is_usual else _KERNELS)
    if name == "poly":
        X = X / max(1.0, np.abs(X).max())  # cubes of what is left are numbers still
    size = float((X**2).sum(axis=1).mean()) or 1.0
    gamma = float(10.0 ** rng.uniform(-3, 3) / size)
    storage = pick(
        rng, [np.asarray, sp.csr_array] if is_usual else [np.asarray, np.float32, sp.csr_array, sp.csr_matrix]
    )
    rows = storage(X)
    dense = np.asarray(rows.toarray() if sp.issparse(rows) else rows)
    K = _kernel_matrix(name, dense, gamma)
    options: dict[str, Any] = {"kernel": name, "gamma": gamma, "coef0": 1.0, "sample_weight": weight}
    options["n_jobs"] = int(pick(rng, [1, 2, 16]))
    options["cache_size"] = float(pick(rng, [500.0, 0.01]))
    if name == "precomputed":
        rows = np.asarray(K, dtype=float)
        K = rows.astype(np.longdouble)
    elif name == "function":
        options["kernel"] = _function
        rows = dense.astype(float)
        K = _function(rows, rows).astype(np.longdouble)
    if not np.isfinite(np.asarray(K, dtype=float)).all():
        return
    problem: Any = None
    with case.run(f"KernelProblem, {name}", allowed=(ValueError,)):
        if rng.random() < 0.25:
            problem = KernelProblem.one_class(rows, float(rng.uniform(0.05, 1.0)), **options)
        else:
            problem = KernelProblem(rows, y, float(10.0 ** rng.uniform(-4, 5)), loss, **options)
    if problem is not None:
        _solve(case, problem, K, is_usual)
        _estimate(case, problem, rows, options)


def _solve(case: Case, problem: Any, K: Any, is_usual: bool) -> None:
    """Solve by some methods, and compute anew what they claim."""
    rng, able = case.rng, ["auto", *kernel_solvers.names()]
    tried = ["auto", "smo"] if is_usual else [str(name) for name in rng.permutation(able)[:3]]
    lowest, bound = np.inf, -np.inf
    for name in tried:
        tol = float(pick(rng, [1e-2, 1e-4, 1e-8]))
        result: Any = None
        what = f"{name}, {problem.machine}, {losses.name_of(problem.loss)}"
        refusals = () if name in _SAME_PROBLEM else (ValueError,)  # of machines that a method is not made for
        with case.run(what, allowed=refusals), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = kernel_solvers.solve(problem, name, tol=tol, **_LIMITS)
        if result is None:
            continue
        case.check_finite(result.w, f"coefficients of {what} ({result.stop_reason})")
        claimed = result.certificate
        case.check_finite([claimed.primal, claimed.dual], f"certificate of {what} ({result.stop_reason})")
        if result.stop_reason == "converged":
            case.check(claimed.relative_gap <= tol, f"{what}: converged at {claimed}")
        if name not in _SAME_PROBLEM:
            continue
        beta, b = result.state.beta.astype(np.longdouble), np.longdouble(result.state.intercept)
        inside = np.all(beta >= problem.lower) and np.all(beta <= problem.upper)
        case.check(inside, f"{what}: a coefficient is out of its bounds")
        missing = problem.total - beta.sum()
        case.check(abs(missing) <= 1e-8 * np.abs(beta).sum(), f"{what}: coefficients sum up to {beta.sum()}")
        primal, dual = _objectives(problem, K, beta, b)
        gap = primal - dual - b * missing  # the sum of what rows add to it
        if claimed.dual == 0.0:  # which bounds the optimum of a positive kernel, and better than these coefficients
            gap = min(gap, primal)
        case.check(gap <= claimed.gap, f"{what}: the gap is {gap}, not {claimed.gap}")
        case.check(primal <= claimed.primal, f"{what}: P = {primal}, not {claimed.primal}")
        case.check(claimed.primal - primal <= claimed.gap, f"{what}: P = {primal}, not {claimed.primal}")
        lowest, bound = min(lowest, primal), max(bound, claimed.dual)
    case.check(bound <= lowest, f"{tried}: a bound of {bound} was proven, but P = {lowest}")


def _estimate(case: Case, problem: Any, rows: Any, options: dict[str, Any]) -> None:
    """The estimator of the machine: its fit ends, and once saved and loaded it predicts the same."""
    rng, estimator = case.rng, OneClassSVM(nu=0.5)
    if problem.machine != "one class":
        is_margin = losses.is_margin_loss(problem.loss)
        estimator = SVC(C=float(problem.cost.max() or 1.0)) if is_margin else SVR(C=float(problem.cost.max() or 1.0))
        if is_margin and len(np.unique(problem.y[problem.cost > 0])) < 2:
            return
    shared = {key: options[key] for key in ("kernel", "gamma", "coef0", "n_jobs")}
    estimator.set_params(**shared, tol=float(pick(rng, [1e-2, 1e-5])))
    name = type(estimator).__name__
    with (
        case.run(f"{name}.fit, {options['kernel']}"),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")
        estimator.fit(rows, problem.y, sample_weight=options["sample_weight"])
        said = estimator.decision_function(rows) if hasattr(estimator, "decision_function") else estimator.predict(rows)
        case.check_finite(said, f"{name}: outputs")
        case.check_finite(estimator.intercept_, f"{name}: intercept ({estimator.stop_reason_})")
        if isinstance(options["kernel"], str) and options["kernel"] != "precomputed":
            path = Path(folder) / "model"
            estimator.save(path)
            same = maxmargin.load(path).predict(rows)
            case.check(np.array_equal(same, estimator.predict(rows)), f"{name} predicts otherwise once it is loaded")


def _function(A: Any, B: Any) -> Any:
    """Products of rows that do not depend on which are asked for together."""
    return np.asarray(A.astype(np.longdouble) @ B.astype(np.longdouble).T, dtype=float)


def _kernel_matrix(name: str, X: Any, gamma: float) -> Any:
    """Kernel values in 80 bits, by their definitions."""
    X = X.astype(np.longdouble)
    if name in ("linear", "function", "precomputed"):
        return X @ X.T
    if name == "poly":
        return (np.longdouble(gamma) * (X @ X.T) + 1) ** 3
    return np.exp(-np.longdouble(gamma) * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def _objectives(problem: Any, K: Any, beta: Any, b: Any) -> tuple[Any, Any]:
    """Primal and dual by the textbook's formula of each machine."""
    cost, y, f = problem.cost.astype(np.longdouble), problem.y.astype(np.longdouble), K @ beta
    half = beta @ f / 2
    if problem.machine == "one class":
        return half + cost @ np.maximum(0, -b - f) + problem.total * b, -half
    if losses.is_margin_loss(problem.loss):
        short, linear = np.maximum(0, 1 - y * (f + b)), y @ beta
    else:
        epsilon = np.longdouble(problem.loss.epsilon)
        short, linear = np.maximum(0, np.abs(y - f - b) - epsilon), y @ beta - epsilon * np.abs(beta).sum()
    if isinstance(problem.loss, losses.Hinge | losses.EpsilonInsensitive):
        return half + cost @ short, linear - half
    used = cost > 0
    return half + cost @ short**2, linear - half - (beta[used] ** 2 / cost[used]).sum() / 4
