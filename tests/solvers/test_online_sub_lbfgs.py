"""Online subLBFGS: what is particular to it. The rest is in `test_contract`."""

import itertools

import naive
import numpy as np
import pytest
import samples
from naive.sub_lbfgs import online_sub_lbfgs

from maxmargin import Problem, solve
from maxmargin.solvers.newton.sub_lbfgs import SubLBFGS
from maxmargin.solvers.stochastic.online_sub_lbfgs import OnlineSubLBFGS


@pytest.mark.oracle
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize(("batch", "tau"), [(7, 1.0), (9, 0.3), (2, 5.0)])
def test_every_batch_is_that_of_a_naive_version(loss, batch, tau, make):
    """With batches that do not divide the rows evenly, and rows without a cost."""
    X, y = samples.sample(loss, n_rows=23, n_features=4)
    problem = Problem(make(X), y, 0.2, loss, sample_weight=np.arange(23) % 4)
    solver = OnlineSubLBFGS(memory=3, batch=batch, tau=tau, growth=1)
    seen = []
    solve(problem, solver, tol=0.0, max_iter=20, seed=5, callbacks=[lambda p: seen.append(np.array(p.state.w))])
    oracle = online_sub_lbfgs(X, y, problem.cost, problem.loss, naive.Xorshift(5), 3, 50, batch, tau)
    n = min(len(seen), 7)
    assert n > 2
    np.testing.assert_allclose(seen[:n], list(itertools.islice(oracle, n)), rtol=1e-6, atol=1e-8)


def noisy(n_rows=6000, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.sign(X @ rng.normal(size=n_features) + rng.normal(size=n_rows))


def test_a_few_passes_are_worth_many_of_sub_lbfgs():
    X, y = noisy()
    problem = Problem(X, y, 1.0, "hinge")
    best = solve(problem, "augmented_lagrangian", tol=1e-8).certificate.primal
    online = solve(problem, OnlineSubLBFGS(batch=200), tol=0.0, max_iter=3)
    batch = solve(problem, SubLBFGS(), tol=0.0, max_iter=3)
    assert online.state.steps > 10
    assert 0.0 < online.certificate.primal - best < 0.5 * (batch.certificate.primal - best)


def test_batches_grow_until_the_goal_is_proven():
    X, y = noisy()
    problem = Problem(X, y, 1.0, "hinge")
    growing = solve(problem, OnlineSubLBFGS(batch=200), tol=1e-5, max_iter=500)
    assert growing.stop_reason == "converged"
    assert growing.state.n_batches == 1
    assert growing.alpha is not None
    best = solve(problem, "augmented_lagrangian", tol=1e-8).certificate
    assert growing.certificate.dual <= best.primal
    assert growing.certificate.primal == pytest.approx(best.primal, rel=1e-5)
    fixed = solve(problem, OnlineSubLBFGS(batch=200, growth=1), tol=1e-5, max_iter=10)
    assert fixed.state.n_batches == 30
    assert fixed.alpha is None


def test_partitions_do_not_matter_to_batches():
    from maxmargin.data.memory import InMemory
    from maxmargin.data.rows import as_rows

    X, y = samples.sample("hinge", n_rows=60)
    parts = InMemory(tuple(as_rows(X[lo:hi])[0] for lo, hi in itertools.pairwise((0, 13, 40, 60))))
    solver = OnlineSubLBFGS(batch=20, growth=1)
    one, other = (solve(Problem(rows, y, 0.5, "hinge"), solver, tol=0.0, max_iter=4) for rows in (X, parts))
    np.testing.assert_allclose(one.w, other.w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{"batch": 0}, {"growth": 1.5}, {"tau": 0.0}, {"memory": 0}, {"subgradients": 1}])
def test_what_cannot_be_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        OnlineSubLBFGS(**options)
