"""FOLOS beyond the contract, which knows the penalty "l2" only: other penalties, sparsity, options."""

import functools
import itertools

import naive
import numpy as np
import pytest
import samples
from naive.folos import folos as naive_folos
from naive.folos import one_pass

from maxmargin import Problem, losses, penalties, solve
from maxmargin.solvers import get
from maxmargin.solvers.stochastic import solver as _solver
from maxmargin.solvers.stochastic.folos import FOLOS

every_loss = pytest.mark.parametrize("loss", losses.names())
every_norm = pytest.mark.parametrize("penalty", ["l1", "l2_norm", "linf"])
STORAGES = {"dense": np.asarray, "csr": samples.csr}
TOL = FOLOS.accuracy


@every_loss
@every_norm
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("every", [None, 1, 4])
def test_every_pass_is_that_of_the_naive_version(loss, penalty, storage, every):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(STORAGES[storage](X), y, 0.7, loss, penalty=penalty)
    oracle = naive_folos(X, y, problem.cost, problem.loss, seed=5, penalty=penalty, every=every)
    for passes, (w, _) in enumerate(itertools.islice(oracle, 8), start=1):
        result = solve(problem, FOLOS(every=every), tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-9)


@every_norm
def test_the_published_schedule_is_that_of_the_naive_version(penalty):
    """eta_t = eta0 / sqrt(t), and prox after every step."""
    X, y = samples.sample("hinge", n_rows=20, n_features=3)
    problem, solver = Problem(X, y, 0.7, "hinge", penalty=penalty), get("folos_published")
    oracle = naive_folos(X, y, problem.cost, problem.loss, seed=5, penalty=penalty, every=1, by_steps=True)
    for passes, (w, _) in enumerate(itertools.islice(oracle, 5), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-9)


def test_in_the_midst_of_a_pass_what_is_owed_is_paid():
    X, y = samples.sample("logistic", n_rows=20, n_features=3)
    problem = Problem(X, y, 0.7, "logistic", penalty="l1")
    order, random = list(range(20)), naive.Xorshift(5)
    random.shuffle(order)
    eta = 0.01
    w = one_pass(X, y, problem.cost, problem.loss, np.zeros(3), order[:13], 20, "l1", 20, [eta] * 13)  # its end pays
    result = solve(problem, FOLOS(every=20, eta0=eta), tol=0.0, max_iter=13 / 20, seed=5)
    np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-12)


@functools.cache
def optimum(loss, penalty):
    """The least objective of a sample."""
    X, y = samples.sample(loss, n_rows=80)
    return naive.optimum(X, y, np.full(80, 0.5), losses.get(loss), penalty).primal


@every_loss
@every_norm
@pytest.mark.parametrize("storage", STORAGES)
def test_the_gap_is_below_the_tolerance_and_the_optimum_the_right_one(loss, penalty, storage):
    X, y = samples.sample(loss, n_rows=80)
    problem = Problem(STORAGES[storage](X), y, 0.5, loss, penalty=penalty)
    result = solve(problem, FOLOS(), tol=TOL)
    assert result.stop_reason == "converged"
    assert result.certificate.relative_gap <= TOL
    regulariser = penalties.value(penalties.get(penalty), result.w)
    primal = regulariser + naive.primal(X, y, problem.cost, problem.loss, result.w)
    assert result.certificate.primal == pytest.approx(primal - 0.5 * result.w @ result.w, rel=1e-11)  # and rounding
    best = optimum(loss, penalty)
    assert result.certificate.dual <= best * (1 + 1e-10)
    assert best <= result.certificate.primal * (1 + 1e-10)
    assert result.certificate.primal <= best * (1 + TOL)


def sparse_text(n_rows=2000, n_features=3000):
    """Rows of 30 rare features, of which 20 matter."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    columns = (n_features * rng.random((n_rows, 30)) ** 2).astype(np.int32)
    X = sp.csr_array(
        (np.full(30 * n_rows, 30**-0.5), columns.ravel(), np.arange(n_rows + 1) * 30), (n_rows, n_features)
    )
    X.sum_duplicates()
    true = np.zeros(n_features)
    true[:20] = rng.normal(size=20) * 5
    return X, np.where(X @ true + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_l1_answers_are_sparse_and_within_a_percent(loss):
    X, y = sparse_text()
    problem = Problem(X, y, 1.0, loss, penalty="l1")
    reference = solve(problem, "primal_cd", tol=1e-4)
    n_best = np.count_nonzero(reference.w)
    result = solve(problem, FOLOS(), tol=0.0, max_iter=200)
    assert result.certificate.primal <= 1.01 * reference.certificate.primal
    assert 0 < np.count_nonzero(result.w) <= 1.5 * n_best
    published = solve(problem, FOLOS(every=1), tol=0.0, max_iter=200)
    assert np.count_nonzero(published.w) > 1.5 * np.count_nonzero(result.w)


def test_linf_makes_the_largest_weights_equal_and_l2_norm_can_make_all_zero():
    X, y = samples.sample("squared_hinge", n_rows=80)
    w = np.abs(solve(Problem(X, y, 0.05, "squared_hinge", penalty="linf"), FOLOS(), tol=TOL).w)
    assert np.count_nonzero(w == w.max()) >= 2
    problem = Problem(X, y, 1e-3, "squared_hinge", penalty="l2_norm")
    result = solve(problem, FOLOS(), tol=1e-6)
    assert result.stop_reason == "converged"
    np.testing.assert_array_equal(result.w, np.zeros(5))


@every_norm
def test_same_seed_same_bits_watched_stopped_and_resumed(penalty, tmp_path, monkeypatch):
    monkeypatch.setattr(_solver, "_BLOCK", 150)
    X, y = samples.sample("huber", n_rows=60)
    problem, path = Problem(samples.csr(X), y, 0.5, "huber", penalty=penalty), tmp_path / "state"
    whole = solve(problem, FOLOS(), tol=0.0, max_iter=30)
    watched = solve(problem, FOLOS(), tol=0.0, max_iter=30, callbacks=[lambda progress: False])
    for limit in (3, 9, 14):
        calls = itertools.count(1)
        stop = [lambda _, c=calls, n=limit: next(c) >= n]
        solve(problem, FOLOS(), tol=0.0, max_iter=30, checkpoint=path, callbacks=stop)
    resumed = solve(problem, FOLOS(), tol=0.0, max_iter=30, checkpoint=path)
    assert whole.w.tobytes() == watched.w.tobytes() == resumed.w.tobytes()
    assert whole.certificate == resumed.certificate


@every_norm
def test_weights_are_copies_and_zero_is_absence(penalty):
    X, y = samples.sample("logistic", n_rows=40)
    copies = np.random.default_rng(0).integers(0, 3, size=40)
    weighted = solve(Problem(X, y, 0.3, "logistic", sample_weight=copies, penalty=penalty), FOLOS(), tol=TOL)
    repeated = Problem(np.repeat(X, copies, axis=0), np.repeat(y, copies), 0.3, "logistic", penalty=penalty)
    other = solve(repeated, FOLOS(), tol=TOL)
    assert weighted.stop_reason == other.stop_reason == "converged"
    assert weighted.certificate.primal == pytest.approx(other.certificate.primal, rel=TOL)
    kept = copies > 0
    absent = solve(
        Problem(X, y, 0.3, "logistic", sample_weight=kept * 1.0, penalty=penalty), FOLOS(), tol=0.0, max_iter=9
    )
    removed = solve(Problem(X[kept], y[kept], 0.3, "logistic", penalty=penalty), FOLOS(), tol=0.0, max_iter=9)
    np.testing.assert_allclose(absent.w, removed.w, rtol=1e-9, atol=1e-12)


@every_norm
def test_odd_data_with_a_norm(penalty):
    X, y = samples.sample("hinge", n_rows=12, n_features=4)
    for name, (rows, labels) in {
        "empty": (np.zeros((12, 4)), y),
        "one row": (X[:1], y[:1]),
        "one feature": (X[:, :1], y),
        "large": (1e6 * X, y),
        "one class": (X, np.abs(y)),
    }.items():
        for loss, C in itertools.product(("hinge", "squared_hinge"), (1e-4, 1.0, 1e4)):
            result = solve(Problem(samples.csr(rows), labels, C, loss, penalty=penalty), FOLOS(), tol=1e-2, max_iter=40)
            assert np.all(np.isfinite(result.w)), name
            assert 0.0 <= result.certificate.gap <= result.certificate.primal, name
            if name == "empty":
                assert not result.w.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be a whole number, 1 or more"),
        ({"every": 2.5}, "every must be a whole number, 1 or more"),
        ({"power": 1.5}, "power must be between 0 and 1"),
        ({"eta0": 0.0}, "eta0 must be a finite number, above 0"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        FOLOS(**options)
