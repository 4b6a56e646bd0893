"""LaRank with a kernel: step by step against the linear one on the kernel's features, and what it proves."""

import itertools

import numpy as np
import pytest
import samples
from naive.larank import larank

from maxmargin import Problem, solve
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.problem.risks import CrammerSinger
from maxmargin.solvers.base import run
from maxmargin.solvers.kernel import get
from maxmargin.solvers.kernel.kernel_larank import KernelLaRank


def classes(n, K, d, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(K, d))[y], y


def rbf(X, gamma):
    return np.exp(-gamma * np.sum((X[:, None] - X) ** 2, axis=2))


@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize(("block", "n_optimize"), [(64, 3), (7, 0), (5, 4)])
def test_every_pass_is_the_papers(make, block, n_optimize):
    """The features of a kernel are the lines of a root of its matrix."""
    X, y = classes(20, 4, 3)
    weight = np.arange(20) % 4
    problem = KernelClasses(make(X), y, 0.7, kernel="rbf", gamma=0.3, sample_weight=weight)
    features = np.linalg.cholesky(rbf(X, 0.3) + 1e-12 * np.eye(20))
    oracle = larank(features, y, problem.cost, 4, seed=3, n_optimize=n_optimize, block=block)
    for passes, beta in enumerate(itertools.islice(oracle, 4), start=1):
        result = run(KernelLaRank(n_optimize, block), problem, tol=0.0, max_iter=passes, seed=3)
        assert result.passes == passes
        np.testing.assert_allclose(result.alpha, beta, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(result.state.F, rbf(X, 0.3) @ result.alpha, atol=1e-9)


def test_with_a_linear_kernel_the_optimum_is_that_of_bmrm():
    X, y = classes(150, 4, 5)
    linear = solve(Problem(X, y, 1.0, loss="hinge", risk=CrammerSinger(4)), "bmrm", tol=1e-7)
    result = run(get("kernel_larank"), KernelClasses(X, y, 1.0, kernel="linear"), tol=1e-4)
    assert result.stop_reason == "converged"
    assert result.certificate.dual <= linear.certificate.primal
    assert result.certificate.primal == pytest.approx(linear.certificate.primal, rel=1e-4)


def test_the_certificate_is_true_and_the_machine_learns():
    X, y = classes(300, 5, 4)
    problem = KernelClasses(X, y, 5.0, kernel="rbf", gamma=0.5)
    result = run(KernelLaRank(), problem, tol=1e-4)
    beta, K = result.alpha, rbf(X, 0.5)
    F, own = K @ beta, (np.arange(300), y)
    assert result.stop_reason == "converged"
    assert np.abs(beta.sum(axis=1)).max() < 1e-12
    assert np.all(beta <= np.where(np.arange(5) == y[:, None], 5.0 * (1.0 + 1e-12), 0.0))
    scores = F + (np.arange(5) != y[:, None])
    primal = 0.5 * np.sum(beta * F) + 5.0 * np.sum(scores.max(axis=1) - F[own])
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert result.certificate.dual == pytest.approx(beta[own].sum() - 0.5 * np.sum(beta * F), rel=1e-9)
    assert np.mean(F.argmax(axis=1) == y) > np.mean(
        (X @ np.linalg.lstsq(X, np.eye(5)[y], rcond=None)[0]).argmax(1) == y
    )


def test_what_is_not_feasible_proves_nothing():
    X, y = classes(30, 3, 2)
    problem = KernelClasses(X, y, 1.0, kernel="rbf", gamma=1.0)
    beta = np.zeros((30, 3))
    beta[0, (int(y[0]) + 1) % 3] = 0.5  # a wrong class has an upper bound of zero
    assert problem.certificate(beta).dual == 0.0
    beta[0] = 0.0
    beta[0, y[0]] = 0.5  # the sum is not zero
    assert problem.certificate(beta).dual == 0.0


def test_starts_checkpoints_and_seeds(tmp_path):
    X, y = classes(100, 3, 4)
    problem = KernelClasses(X, y, 2.0, kernel="rbf", gamma=0.3)
    first = run(KernelLaRank(), problem, tol=1e-4)
    assert run(KernelLaRank(), problem, tol=1e-3, start=first).passes == 0
    smaller = run(KernelLaRank(), KernelClasses(X, y, 0.3, kernel="rbf", gamma=0.3), tol=1e-4, start=first)
    assert smaller.stop_reason == "converged"
    for limit in (1, 2):
        run(KernelLaRank(), problem, tol=1e-4, max_iter=limit, checkpoint=tmp_path / "state")
    resumed = run(KernelLaRank(), problem, tol=1e-4, checkpoint=tmp_path / "state")
    assert resumed.alpha.tobytes() == first.alpha.tobytes()
    other = run(KernelLaRank(), problem, tol=1e-4, seed=1)
    assert other.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-4)


def test_what_it_does_not_take_is_named():
    from maxmargin.problem.kernel_problem import KernelProblem

    X, y = classes(20, 2, 3)
    with pytest.raises(ValueError, match="kernel_larank"):
        run(KernelLaRank(), KernelProblem(X, 2.0 * y - 1.0))
    with pytest.raises(ValueError, match="block"):
        KernelLaRank(block=0)
    with pytest.raises(ValueError, match="numbers 0 to"):
        KernelClasses(X, y + 0.5)
