"""Reference optima, each with a lower bound that proves how good it is; computed once and cached.

Who found a point does not matter, since the bounds are checked here in plain numpy:

* squared hinge: Newton's method. At any w, alpha_i = 2C max(0, 1 - m_i) is dual feasible and P(w) - D(alpha) equals
  1/2 |gradient|^2, so a small gradient is the proof.
* hinge with few features: an interior-point method, whose iterates are feasible inside the box.
* hinge with many features: our own dual coordinate descent at a tight tolerance, checked by its alpha.

Where the bounds are apart, the best point that any solver finds replaces the upper one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .datasets import CACHE, Dataset
from .objectives import Objective

_FILE = CACHE / "references.json"
_FEW_FEATURES = 1000
_GOAL = 1e-9  # relative gap


@dataclass(frozen=True)
class Reference:
    """`dual` <= optimum <= `primal`; `how` says who found them."""

    primal: float
    dual: float
    how: str


def get(data: Dataset, objective: Objective) -> Reference:
    """The cached reference, or a new one."""
    known = _load().get(_key(data, objective))
    if known:
        return Reference(**known)
    reference = _compute(data, objective)
    _save(data, objective, reference)
    return reference


def lower(data: Dataset, objective: Objective, reference: Reference, primal: float) -> None:
    """Remember that some solver found a better point."""
    if primal < reference.primal:
        _save(data, objective, replace(reference, primal=primal))


def _compute(data: Dataset, objective: Objective) -> Reference:
    method: Callable[..., tuple[np.ndarray, np.ndarray]]
    if objective.loss == "squared_hinge":
        how, method = "Newton", _newton
    elif data.X.shape[1] <= _FEW_FEATURES:
        how, method = "interior point", _interior_point
    else:
        how, method = "maxmargin dual_cd", _ours
    w, alpha = method(data.X, data.y, objective)
    return Reference(objective.primal(data.X, data.y, w), objective.dual(data.X, data.y, alpha), how)


def _ours(X: Any, y: np.ndarray, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    from maxmargin import Problem, solve

    problem = Problem(X, y, C=objective.C, loss=objective.loss)
    result = solve(problem, solver="dual_cd", tol=_GOAL, max_iter=100_000, max_time=120.0, seed=0)
    return result.w, np.asarray(result.alpha)


def _newton(X: Any, y: np.ndarray, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method with conjugate gradients and halved steps; squared hinge."""
    from scipy.sparse.linalg import LinearOperator, cg

    n, C = X.shape[1], objective.C
    w, value = np.zeros(n), objective.primal(X, y, np.zeros(n))
    for _ in range(100):
        alpha = 2 * C * np.maximum(0.0, 1.0 - y * (X @ w))
        gradient = w - X.T @ (y * alpha)
        if 0.5 * gradient @ gradient <= _GOAL * value:
            break
        rows = X[alpha > 0.0]
        hessian = LinearOperator((n, n), matvec=lambda d, rows=rows: d + 2 * C * (rows.T @ (rows @ d)), dtype=float)
        step, _ = cg(hessian, -gradient, rtol=0.03, maxiter=500)
        slope, size = gradient @ step, 1.0
        while (candidate := objective.primal(X, y, w + size * step)) > value + 1e-4 * size * slope and size > 1e-10:
            size /= 2
        w, value = w + size * step, candidate
    return w, alpha


def _interior_point(X: Any, y: np.ndarray, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Mehrotra's predictor and corrector for hinge:  min 1/2 |w|^2 + C sum xi,  y_i x_i'w - 1 + xi_i = s_i >= 0.

    alpha and beta = C - alpha are the multipliers of s >= 0 and xi >= 0. Each step solves one n x n system.
    """
    from scipy.linalg import cho_factor, cho_solve

    m, n = X.shape
    C = objective.C
    w, alpha, s, xi = np.zeros(n), np.full(m, C / 2), np.ones(m), np.ones(m)
    best = w, alpha
    best_gap = np.inf
    for _ in range(100):
        beta, margin = C - alpha, y * (X @ w)
        v = X.T @ (y * alpha)
        gap = objective.primal(X, y, w) - (alpha.sum() - 0.5 * v @ v)
        if gap < best_gap:
            best, best_gap = (w, alpha), gap
        if gap <= _GOAL * objective.primal(X, y, w):
            break
        scale = 1.0 / (s / alpha + xi / beta)
        factor = cho_factor(np.eye(n) + _weighted_gram(X, scale))

        def direction(target_s: Any, target_xi: Any) -> tuple[np.ndarray, ...]:
            """Newton step towards alpha * s = target_s, beta * xi = target_xi and feasibility."""
            residual = (s + 1.0 - margin - xi) + (target_s / alpha - s) - (target_xi / beta - xi)  # noqa: B023
            d_w = cho_solve(factor, v - w + X.T @ (y * (scale * residual)))  # noqa: B023
            d_alpha = scale * (residual - y * (X @ d_w))  # noqa: B023
            d_s = (target_s - s * d_alpha) / alpha - s  # noqa: B023
            d_xi = (target_xi + xi * d_alpha) / beta - xi  # noqa: B023
            return d_w, d_alpha, d_s, d_xi

        mu = (alpha @ s + beta @ xi) / (2 * m)
        _, d_alpha, d_s, d_xi = direction(0.0, 0.0)
        size = _longest_step((alpha, d_alpha), (beta, -d_alpha), (s, d_s), (xi, d_xi))
        predicted = (alpha + size * d_alpha) @ (s + size * d_s) + (beta - size * d_alpha) @ (xi + size * d_xi)
        aim = mu * (predicted / (2 * m * mu)) ** 3
        d_w, d_alpha, d_s, d_xi = direction(aim - d_alpha * d_s, aim + d_alpha * d_xi)
        size = 0.995 * _longest_step((alpha, d_alpha), (beta, -d_alpha), (s, d_s), (xi, d_xi))
        w, alpha, s, xi = w + size * d_w, alpha + size * d_alpha, s + size * d_s, xi + size * d_xi
    return best


def _longest_step(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """The longest step up to 1 that keeps all values positive."""
    return min([1.0] + [float(np.min(-x[d < 0] / d[d < 0])) for x, d in pairs if np.any(d < 0)])


def _weighted_gram(X: Any, weights: np.ndarray, block: int = 8192) -> np.ndarray:
    """X' diag(weights) X, by blocks of dense rows."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, X.shape[0], block):
        rows = X[start : start + block]
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        rows = rows * np.sqrt(weights[start : start + block, None])
        total += rows.T @ rows
    return total


def _key(data: Dataset, objective: Objective) -> str:
    return f"{data.name} {data.fingerprint()} {objective.loss} C={objective.C:g}"


def _load() -> dict[str, Any]:
    return json.loads(_FILE.read_text()) if _FILE.exists() else {}


def _save(data: Dataset, objective: Objective, reference: Reference) -> None:
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps(_load() | {_key(data, objective): asdict(reference)}, indent=1))
