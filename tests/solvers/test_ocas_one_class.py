"""OCAS for one class: the line search against one that looks at every change of ranks, and the optimum of LIBSVM."""

import itertools

import numpy as np
import pytest
import samples
from sklearn.svm import OneClassSVM

from maxmargin import Problem, solve
from maxmargin.problem.line_search import line_search
from maxmargin.problem.risks import OneClass
from maxmargin.vectors import dot


def away_from_the_origin(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)) + rng.uniform(0.5, 1.5, size=4)


def naive_objective(X, cost, nu, w):
    """1/2 |w|^2 minus the sum of the lowest outputs, of which a share nu of the cost counts."""
    left, total = nu * cost.sum(), 0.0
    for i in np.argsort(X @ w):
        total += min(cost[i], left) * (X[i] @ w)
        left -= min(cost[i], left)
    return 0.5 * w @ w - total


def naive_step(X, cost, nu, w, w_t):
    """The least value on the line, looked for between all places where two rows change ranks."""
    z, d = X @ w, X @ (w_t - w)
    pairs = itertools.combinations(range(len(X)), 2)
    places = {0.0} | {(z[j] - z[i]) / (d[i] - d[j]) for i, j in pairs if d[i] != d[j]}
    ends = sorted(k for k in places if 0.0 <= k < 1e6)
    candidates = list(ends)
    for low, high in zip(ends, [*ends[1:], 2.0 * ends[-1] + 10.0]):
        ks = np.array([low, (low + high) / 2, high])
        curvature, slope, _ = np.polyfit(ks - low, [naive_objective(X, cost, nu, w + k * (w_t - w)) for k in ks], 2)
        if curvature > 0.0:
            candidates.append(low + np.clip(-slope / (2.0 * curvature), 0.0, high - low))
    return min(naive_objective(X, cost, nu, w + k * (w_t - w)) for k in candidates)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_line_search_is_exact(seed, weighted):
    X, rng = away_from_the_origin(12, seed), np.random.default_rng(seed)
    weight = rng.integers(1, 4, size=12) if weighted else np.ones(12)
    problem = Problem(X, None, C=0.5, risk=OneClass(0.4), sample_weight=weight)
    w, w_t = rng.normal(size=4), 2.0 * X.mean(axis=0)
    direction = w_t - w
    k = line_search(problem, problem.outputs(w), problem.outputs(w_t), dot(direction, direction), dot(w, direction))
    found, best = naive_objective(X, problem.cost, 0.4, w + k * direction), naive_step(X, problem.cost, 0.4, w, w_t)
    assert k > 0.0
    assert found == pytest.approx(problem.primal(w + k * direction), rel=1e-12)
    assert found <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("nu", [0.06, 0.31, 0.77])  # nu times 80 is no whole number: else rho is not unique
def test_the_optimum_is_that_of_libsvm(nu):
    X = away_from_the_origin(80)
    problem = Problem(X, None, 1.0, risk=OneClass(nu))
    result, w = solve(problem, "ocas", tol=1e-8), OneClassSVM(kernel="linear", nu=nu, tol=1e-12).fit(X).coef_[0]
    assert result.stop_reason == "converged"
    np.testing.assert_allclose(result.w, w, rtol=1e-3, atol=1e-3 * np.linalg.norm(w))
    assert result.certificate.dual <= 0.5 * w @ w * (1 + 1e-9)  # of the dual problem, as of BMRM
    assert result.certificate.primal == pytest.approx(0.5 * w @ w, rel=1e-6)
    assert result.certificate.dual == pytest.approx(-naive_objective(X, problem.cost, nu, result.w), rel=1e-9)


@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
def test_the_objective_only_falls_and_iterations_are_fewer_than_those_of_bmrm(make):
    X = away_from_the_origin(2000)
    problem = Problem(make(X), None, 1.0, risk=OneClass(0.2))
    seen = []
    ocas = solve(problem, "ocas", tol=1e-6, callbacks=[lambda progress: seen.append(progress.state.best.primal)])
    bmrm = solve(problem, "bmrm", tol=1e-6)
    assert all(b <= a for a, b in itertools.pairwise(seen))
    assert ocas.certificate.primal == pytest.approx(bmrm.certificate.primal, rel=2e-6)
    assert ocas.history["iterations"][-1] <= bmrm.history["iterations"][-1]


def test_a_warm_start_ends_at_once():
    X = away_from_the_origin(80)
    problem = Problem(X, None, 1.0, risk=OneClass(0.31))
    result = solve(problem, "ocas", tol=1e-6)
    assert solve(problem, "ocas", tol=1e-6, start=result).passes == 0.0
