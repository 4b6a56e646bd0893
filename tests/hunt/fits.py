"""Random problems over all solvers: what one proves, no other may contradict, in 80-bit arithmetic.

Shapes from one row up, scales from 1e-8 to 1e8 of rows, columns or all, duplicates, weights (zeros among them), labels
of one kind, every loss, penalty, storage, precision and number of threads. Of each answer the objective is computed
anew in `np.longdouble`: it must not lie above the certified one, nor below what any solver has proven of the optimum.
Solvers may end early, give up or refuse what they do not take; they may not return what is no number, raise, or go on.
"""

from __future__ import annotations

import warnings
from typing import Any

import naive
import numpy as np
import scipy.sparse as sp
from tests.hunt.frame import Case
from tests.hunt.mutations import pick

from maxmargin import Problem, losses, solve, solvers

LIMIT = 20.0
CASES = 20  # in the normal suite, of combinations that other tests have compiled

_LIMITS: tuple[dict[str, Any], ...] = ({"max_iter": 300, "max_time": 2.0}, {"max_iter": 300}, {})
_USUAL = ("auto", "dual_cd", "tron", "augmented_lagrangian", "ocas")


def hunt(case: Case) -> None:
    rng = case.rng
    is_usual = case.seed == 0 and case.number < CASES
    loss = losses.get(pick(rng, ["hinge", "squared_hinge"] if is_usual else losses.names()))
    X, y, weight = scaled_rows(rng, losses.is_margin_loss(loss))
    storages = [np.asarray, sp.csr_array] if is_usual else [np.asarray, np.float32, sp.csr_array, _short_csr]
    storage = pick(rng, storages)
    penalty = "l2" if is_usual else pick(rng, ["l2", "l2", "l2", "l1"])
    C, bias, n_jobs = 10.0 ** rng.uniform(-4, 5), float(pick(rng, [0.0, 1.0])), int(pick(rng, [1, 2, 16]))
    problem = None
    with case.run("Problem", allowed=(ValueError,)):
        problem = Problem(storage(X), y, C, loss, sample_weight=weight, bias=bias, penalty=penalty, n_jobs=n_jobs)
    if problem is None:
        return
    able = ["auto", *solvers.supporting(loss, penalty)]
    able = [name for name in able if not is_usual or name in _USUAL]
    tried = list(rng.permutation(able)[:4])
    primal, dual = np.inf, -np.inf
    for name in tried:
        tol = float(pick(rng, [1e-2, 1e-4, 1e-8]))
        result: Any = None
        limits = pick(rng, _LIMITS if name == "auto" else _LIMITS[:2])  # "auto" ends of itself
        with case.run(f"{name}, {loss}, {limits}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = solve(problem, str(name), tol=tol, **limits)
        if result is None:
            continue
        case.check_finite(result.w, f"weights of {name} ({result.stop_reason}, {loss}, C = {C:g})")
        case.check_finite(result.certificate, f"certificate of {name} ({result.stop_reason}, {loss}, C = {C:g})")
        exact = exact_primal(problem, storage(X), result.w)
        claimed = np.longdouble(result.certificate.primal)
        case.check(exact <= claimed, f"{name}, {loss}: P = {exact} is above the certified {claimed}")
        if result.stop_reason == "converged":
            case.check(result.certificate.relative_gap <= tol, f"{name}: converged at {result.certificate}")
        primal, dual = min(primal, exact), max(dual, np.longdouble(result.certificate.dual))
    primal = min(primal, _by_another_method(problem, storage(X)))
    case.check(dual <= primal, f"{tried}, {loss}: a bound of {dual} was proven, but P = {primal}")


def scaled_rows(rng: np.random.Generator, is_classification: bool) -> tuple[Any, Any, Any]:
    """Rows, labels or targets, and weights or None."""
    n, m = int(pick(rng, [1, 2, 3, 10, 40, 150])), int(pick(rng, [1, 2, 5, 20, 60]))
    X = rng.normal(size=(n, m)) * (rng.random((n, m)) < pick(rng, [1.0, 0.5, 0.1]))
    kind = int(rng.integers(4))
    scales = [np.ones((n, m)), np.full((n, m), 10.0 ** rng.uniform(-8, 8))]
    scales += [
        10.0 ** rng.uniform(-8, 8, (n, 1)) * np.ones((n, m)),
        10.0 ** rng.uniform(-4, 4, (1, m)) * np.ones((n, m)),
    ]
    X *= scales[kind]
    truth = X @ rng.normal(size=m)
    noise = rng.normal(size=n) * (np.abs(truth).mean() + 1e-100)  # its square is a number still
    y = np.where(truth + pick(rng, [0.0, 0.5]) * noise > 0.0, 1.0, -1.0) if is_classification else truth + noise
    if is_classification and rng.random() < 0.1:
        y[:] = 1.0
    if rng.random() < 0.3:  # some rows come again and again
        which = rng.integers(0, n, size=n)
        X, y = X[which], y[which]
    weight = None
    if rng.random() < 0.3:
        weight = rng.random(n) * (rng.random(n) < 0.8)
        weight[0] = 1.0
    return X, y, weight


def _short_csr(X: Any) -> Any:
    return sp.csr_array(np.float32(X))


def _by_another_method(problem: Any, X: Any) -> Any:
    """P in 80 bits at the optimum of the interior point of tests/naive, which shares no code with the solvers."""
    A = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    if problem.source.bias:
        A = np.column_stack([A, np.full(len(A), problem.source.bias)])
    penalty = "l1" if type(problem.penalty).__name__ == "L1" else "l2"
    try:
        with np.errstate(all="ignore"):
            found = naive.optimum(A, problem.y, problem.cost, problem.loss, penalty)
    except (AssertionError, ArithmeticError, ValueError):  # it did not come close: this was no problem for it
        return np.inf
    return exact_primal(problem, X, found.w)


def exact_primal(problem: Any, X: Any, w: Any) -> Any:
    """P(w) in 80 bits, by the losses' definitions."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    w, bias = w.astype(np.longdouble), np.longdouble(problem.source.bias)
    z = X @ w[: X.shape[1]] + (bias * w[-1] if bias else 0.0)
    values = _exact_loss(problem.loss, z, problem.y.astype(np.longdouble))
    penalty = np.abs(w).sum() if type(problem.penalty).__name__ == "L1" else (w @ w) / 2
    return penalty + problem.cost.astype(np.longdouble) @ values


def _exact_loss(loss: Any, z: Any, y: Any) -> Any:
    name, zero = losses.name_of(loss), np.longdouble(0)
    short, off = np.maximum(1 - y * z, zero), np.maximum(np.abs(z - y) - getattr(loss, "epsilon", 0.0), zero)
    if name == "huber":
        return np.where(short < loss.delta, short**2 / (2 * loss.delta), short - np.longdouble(loss.delta) / 2)
    return {
        "hinge": short,
        "squared_hinge": short**2,
        "logistic": np.logaddexp(zero, -y * z),
        "squared_error": (z - y) ** 2 * np.longdouble(losses.value(losses.SquaredError(), 1.0)),
        "epsilon_insensitive": off,
        "squared_epsilon_insensitive": off**2,
    }[name]
