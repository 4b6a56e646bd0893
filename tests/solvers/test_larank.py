"""LaRank step by step against the paper's three operations, and what it proves."""

import itertools

import numpy as np
import pytest
import samples
from naive.larank import larank

from maxmargin import Problem, solve
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers import get
from maxmargin.solvers.coordinate.larank import NEW, OLD, OPTIMIZE, LaRank, choose


def classes(n, K, d, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(K, d))[y], y


def problem_of(X, y, C=1.0, **options):
    return Problem(X, y, C=C, loss="hinge", risk=CrammerSinger(int(y.max()) + 1), **options)


@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize("n_optimize", [0, 3])
def test_every_pass_is_the_papers(make, n_optimize):
    X, y = classes(20, 4, 3)
    X[5] = 0.0  # a row that has nothing to say
    weight = np.arange(20) % 4
    problem, solver = problem_of(make(X), y, 0.7, sample_weight=weight), LaRank(n_optimize)
    oracle = larank(X, y, problem.cost, 4, seed=3, n_optimize=n_optimize)
    for passes, beta in enumerate(itertools.islice(oracle, 4), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=3)
        np.testing.assert_allclose(result.alpha, beta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(result.w.reshape(4, 3), beta.T @ X, rtol=1e-8, atol=1e-10)
        assert result.history["support"][-1] == np.count_nonzero(beta.any(axis=1))


def test_the_same_optimum_as_bmrm_and_a_true_certificate():
    X, y = classes(200, 5, 6)
    problem = problem_of(X, y)
    result, other = solve(problem, get("larank"), tol=1e-4), solve(problem, "bmrm", tol=1e-6)
    assert result.stop_reason == "converged"
    assert result.certificate.dual <= other.certificate.primal * (1.0 + 1e-9)
    assert result.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-4)
    beta = result.alpha
    assert np.abs(beta.sum(axis=1)).max() < 1e-9
    limits = np.where(np.arange(5) == y[:, None], 1.0, 0.0)
    assert np.all(beta <= limits + 1e-12)
    dual = beta[np.arange(200), y].sum() - 0.5 * np.sum((beta.T @ X) ** 2)
    assert result.certificate.dual == pytest.approx(dual, rel=1e-9)


def test_a_start_at_the_solution_ends_at_once_and_another_C_is_cut_to_bounds():
    X, y = classes(100, 3, 4)
    first = solve(problem_of(X, y), LaRank(), tol=1e-3)
    assert solve(problem_of(X, y), LaRank(), tol=1e-2, start=first).passes == 0
    smaller = solve(problem_of(X, y, C=0.3), LaRank(), tol=1e-3, start=first)
    cold = solve(problem_of(X, y, C=0.3), LaRank(), tol=1e-3)
    assert smaller.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-3)
    assert smaller.certificate.relative_gap <= 1e-3


def test_what_it_does_not_take_is_named():
    X, y = classes(20, 2, 3)
    with pytest.raises(ValueError, match="larank"):
        solve(Problem(X, 2.0 * y - 1.0, loss="hinge"), LaRank())
    with pytest.raises(ValueError, match="n_optimize"):
        LaRank(-1)


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        (NEW, (0, 3)),  # upwards the row's own class only
        (OLD, (2, 3)),  # any class that is below its bound
        (OPTIMIZE, (2, 1)),  # those with a coefficient only
    ],
)
def test_the_pair_of_classes(kind, pair):
    g, beta = np.array([0.1, -0.2, 0.9, -0.5]), np.array([0.5, -0.2, -0.3, 0.0])
    up, down, gain = choose(g, beta, 0, 1.0, kind)
    assert (up, down) == pair
    assert gain == pytest.approx(g[up] - g[down])
    assert choose(g[::-1].copy(), np.array([0.0, 0.0, 0.0, 1.0]), 3, 1.0, OPTIMIZE) == (-1, -1, 0.0)
