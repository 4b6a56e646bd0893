"""OCAS for all classes at once: the line search against one that looks at every breakpoint, and the optimum."""

import numpy as np
import pytest
import samples

from maxmargin import Problem, solve
from maxmargin.problem.line_search import line_search
from maxmargin.problem.risks import CrammerSinger
from maxmargin.vectors import dot


def three_classes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 1.2 * np.eye(3, 4)[y], y


def naive_objective(X, y, C, W):
    """1/2 |W|^2 + C sum_i max_r (w_r'x_i + [r is wrong]) - w_y'x_i."""
    risk = 0.0
    for x, label in zip(X, y):
        scores = W @ x
        risk += max(scores[r] + (r != label) for r in range(len(W))) - scores[label]
    return 0.5 * np.sum(W**2) + C * risk


def naive_step(X, y, C, W, W_t):
    """The least value on the line, looked for between all places where two classes of a row change ranks."""
    places = {0.0}
    for x, label in zip(X, y):
        a, d = W @ x + (np.arange(len(W)) != label), (W_t - W) @ x
        for r in range(len(W)):
            places |= {(a[s] - a[r]) / (d[r] - d[s]) for s in range(r) if d[r] != d[s]}
    ends = sorted(k for k in places if 0.0 <= k < 1e6)
    candidates = list(ends)
    for low, high in zip(ends, [*ends[1:], 2.0 * ends[-1] + 10.0]):
        ks = np.array([low, (low + high) / 2, high])
        values = [naive_objective(X, y, C, W + k * (W_t - W)) for k in ks]
        curvature, slope, _ = np.polyfit(ks - low, values, 2)
        if curvature > 0.0:
            candidates.append(low + np.clip(-slope / (2.0 * curvature), 0.0, high - low))
    return min(naive_objective(X, y, C, W + k * (W_t - W)) for k in candidates)


@pytest.mark.parametrize("seed", range(4))
def test_the_line_search_is_exact(seed):
    X, y = three_classes(12, seed)
    problem = Problem(X, y, C=0.5, loss="hinge", risk=CrammerSinger(3))
    rng = np.random.default_rng(seed)
    W, W_t = rng.normal(size=(2, 3, 4)) * [[[1.0]], [[0.3]]]
    z, z_t, direction = problem.outputs(W.ravel()), problem.outputs(W_t.ravel()), (W_t - W).ravel()
    k = line_search(problem, z, z_t, dot(direction, direction), dot(W.ravel(), direction))
    found = naive_objective(X, y, 0.5, W + k * (W_t - W))
    assert found == pytest.approx(problem.primal((W + k * (W_t - W)).ravel()), rel=1e-12)
    assert found <= naive_step(X, y, 0.5, W, W_t) * (1.0 + 1e-9)


@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
def test_the_same_optimum_as_bmrm_in_fewer_iterations(make):
    X, y = three_classes(300)
    problem = Problem(make(X), y, C=10.0, loss="hinge", risk=CrammerSinger(3))
    ocas, bmrm = (solve(problem, name, tol=1e-5) for name in ("ocas", "bmrm"))
    assert ocas.stop_reason == bmrm.stop_reason == "converged"
    assert ocas.certificate.primal == pytest.approx(bmrm.certificate.primal, rel=2e-5)
    assert ocas.certificate.primal == pytest.approx(naive_objective(X, y, 10.0, ocas.w.reshape(3, 4)), rel=1e-12)
    assert ocas.history["iterations"][-1] < bmrm.history["iterations"][-1]
