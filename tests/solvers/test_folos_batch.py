"""FOLOS with all rows beyond the contract, which knows the penalty "l2" only: other penalties, sparsity, options."""

import functools
import itertools

import naive
import numpy as np
import pytest
import samples
from naive.folos_batch import folos_batch as naive_folos_batch

from maxmargin import Problem, losses, solve
from maxmargin.solvers.stochastic.folos_batch import BatchFOLOS

every_loss = pytest.mark.parametrize("loss", losses.names())
every_norm = pytest.mark.parametrize("penalty", ["l1", "l2_norm", "linf"])
HAS_KINKS = ("hinge", "epsilon_insensitive")


@every_loss
@every_norm
def test_every_step_is_that_of_the_naive_version(loss, penalty):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, 0.7, loss, penalty=penalty)
    oracle = naive_folos_batch(X, y, problem.cost, problem.loss, penalty=penalty)
    for passes, w in itertools.islice(oracle, 8):
        result = solve(problem, BatchFOLOS(), tol=0.0, max_iter=passes)
        assert result.passes == passes
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-9)


@functools.cache
def optimum(loss, penalty):
    """The least objective of a sample."""
    X, y = samples.sample(loss, n_rows=80)
    return naive.optimum(X, y, np.full(80, 0.5), losses.get(loss), penalty).primal


@pytest.mark.oracle
@every_loss
@every_norm
def test_the_optimum_is_the_right_one_and_its_bound_is_true(loss, penalty):
    X, y = samples.sample(loss, n_rows=80)
    tol = BatchFOLOS.accuracy if loss in HAS_KINKS else 1e-6
    result = solve(Problem(samples.csr(X), y, 0.5, loss, penalty=penalty), BatchFOLOS(), tol=tol)
    best = optimum(loss, penalty)
    assert result.stop_reason == "converged"
    assert result.certificate.dual <= best * (1 + 1e-10)
    assert best <= result.certificate.primal * (1 + 1e-10)
    assert result.certificate.primal <= best * (1 + tol)


def test_weights_that_are_zero_at_the_optimum_are_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    y = np.where(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=200) > 0.0, 1.0, -1.0)
    problem = Problem(X, y, 0.02, "squared_hinge", penalty="l1")
    ours, exact = solve(problem, "folos_batch", tol=1e-8), solve(problem, "primal_cd", tol=1e-10)
    assert 0 < np.count_nonzero(exact.w) < 20
    np.testing.assert_array_equal(ours.w != 0.0, exact.w != 0.0)


def test_with_the_square_as_penalty_w_belongs_to_its_dual_point():
    """w is the mean of the -g_t, so that the gap is that of Frank and Wolfe, which falls as 1 / t."""
    X, y = samples.sample("hinge")
    problem, gaps = Problem(X, y, 1.0, "hinge"), []

    def look(progress):
        state = progress.state
        if state.steps:
            np.testing.assert_allclose(state.here.w, problem.weights(state.slopes), atol=1e-9)
            gaps.append(problem.gap(state.here.w, state.slopes))

    solve(problem, "folos_batch", tol=0.0, max_iter=2000, callbacks=[look])
    assert min(gaps[1000:]) < 0.05 * min(gaps[:20])


def test_a_step_size_may_be_given_and_what_cannot_be_one_is_refused():
    X, y = samples.sample("hinge")
    problem = Problem(X, y, 1.0, "hinge", penalty="l1")
    one, other = (solve(problem, BatchFOLOS(eta0=eta0), tol=0.0, max_iter=9) for eta0 in (1e-3, 1e-2))
    assert one.history["steps"][-1] == other.history["steps"][-1] == 8.0  # no trials
    assert not np.array_equal(one.w, other.w)
    with pytest.raises(ValueError, match="eta0"):
        BatchFOLOS(eta0=0.0)
