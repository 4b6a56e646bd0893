"""SGD-QN beyond the contract: its options against the naive version, what scaling is for, bad parameters."""

import itertools

import numpy as np
import pytest
import samples
from naive.sgd_qn import sgd_qn

from maxmargin import Problem, losses, solve
from maxmargin.solvers import get
from maxmargin.solvers.stochastic.sgd_qn import SGDQN

every_loss = pytest.mark.parametrize("loss", losses.names())


@every_loss
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "options",
    [
        {"skip": 1},
        {"skip": 3, "clip": 5.0},
        {"skip": 2, "estimate": "secant", "clip": 100.0},
        {"skip": 4, "t0": 30.0, "clip": np.inf},
        {"skip": 0},
    ],
    ids=str,
)
def test_every_option_is_that_of_the_naive_version(loss, make, options):
    X, y = samples.sample(loss, n_rows=25, n_features=4)
    problem = Problem(make(X), y, 0.7, loss)
    known = {"secant": options.get("estimate") == "secant"} | {k: v for k, v in options.items() if k != "estimate"}
    oracle = sgd_qn(X, y, problem.cost, problem.loss, seed=3, **known)
    for passes, (w, inverse) in enumerate(itertools.islice(oracle, 4), start=1):
        state = solve(problem, SGDQN(**options), tol=0.0, max_iter=passes, seed=3).state
        np.testing.assert_allclose(state.w, w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.t0 + state.visits.count + state.extra, inverse, rtol=1e-8)


def test_the_published_one_has_a_name():
    """The secant of the paper, cut at 100 lambda."""
    assert get("sgd_qn_published") == SGDQN(skip=16, clip=100.0, estimate="secant")


def test_an_intercept_and_weights_go_into_the_step_sizes():
    X, y = samples.sample("huber", n_rows=25, n_features=4)
    weight = np.random.default_rng(0).integers(0, 4, size=25).astype(float)
    full = np.column_stack([X, np.full(25, 0.5)])
    oracle = sgd_qn(full, y, 0.7 * weight, losses.get("huber"), seed=3, skip=2)
    w, _ = next(itertools.islice(oracle, 2, None))
    for make in (np.asarray, samples.csr):
        problem = Problem(make(X), y, 0.7, "huber", sample_weight=weight, bias=0.5)
        result = solve(problem, SGDQN(skip=2), tol=0.0, max_iter=3, seed=3)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_scaling_helps_where_some_features_are_rare(loss):
    """As words are: the first of 500 features is in every third row, the last in every hundredth or so."""
    rng = np.random.default_rng(0)
    X = (rng.random((1000, 500)) < 1.0 / np.arange(3, 503)) * rng.random((1000, 500))
    y = np.where(X @ rng.normal(size=500) > 0.0, 1.0, -1.0)
    problem = Problem(samples.csr(X), y, 1.0, loss)
    best = solve(problem, "tron" if loss == "logistic" else "dual_cd", tol=1e-4).certificate.dual
    plain, scaled = (solve(problem, SGDQN(skip=skip), tol=0.0, max_iter=4).certificate.primal for skip in (0, 16))
    assert scaled - best < 0.9 * (plain - best)


def test_weights_of_rare_features_keep_long_steps():
    """1 / B_jj grows with the rows of feature j: a feature of every row has a shorter step than one of few."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(500), rng.random((500, 3)) < 0.02])
    y = np.where(rng.random(500) < 0.7, 1.0, -1.0)
    state = solve(Problem(samples.csr(X), y, 1.0, "logistic"), SGDQN(), tol=0.0, max_iter=3).state
    assert state.extra[0] > 5 * state.extra[1:].max() > 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skip": -1}, "skip must be a whole number"),
        ({"skip": 1.5}, "skip must be a whole number"),
        ({"clip": 0.5}, "clip must be 1 or more"),
        ({"clip": np.nan}, "clip must be 1 or more"),
        ({"estimate": "full"}, 'estimate must be "diagonal" or "secant"'),
        ({"t0": 0.0}, "t0 must be a finite number, 1 or more"),
        ({"t0": np.inf}, "t0 must be a finite number, 1 or more"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SGDQN(**options)


def test_a_start_of_another_solver_is_taken():
    X, y = samples.sample("hinge", n_rows=60)
    problem = Problem(X, y, 0.5, "hinge")
    optimum = solve(problem, "dual_cd", tol=1e-6)
    again = solve(problem, SGDQN(), tol=1e-3, start=optimum)
    assert (again.stop_reason, again.passes) == ("converged", 0.0)
    with pytest.raises(ValueError, match="cannot start at 5 weights"):
        solve(Problem(X[:, :3], y), SGDQN(), start=optimum)
