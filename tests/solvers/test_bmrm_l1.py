"""`solvers/bmrm.py` with the L1 penalty: its linear programs, LIBLINEAR's optimum, the certificate."""

import itertools

import naive
import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate.dual_cd import DualCD
from maxmargin.solvers.planes.bmrm import BMRM
from maxmargin.solvers.planes.cutting_plane import CuttingPlane
from maxmargin.solvers.planes.reduced_l1 import reduce_l1
from maxmargin.solvers.planes.store import add_plane, no_planes

LOSSES = [losses.get(name) for name in losses.names()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)
STORAGES = {"dense": np.asarray, "csr": samples.csr}


def primal(problem, X, w):
    """P(w), by plain numpy and the losses' own tests."""
    t = losses.argument(problem.loss, X @ w, problem.y)
    return np.abs(w).sum() + sum(c * losses.value(problem.loss, ti) for c, ti in zip(problem.cost, t))


# ---------------------------------------------------------------- the reduced problem


def test_the_reduced_problem_is_solved_and_its_bound_proven():
    rng = np.random.default_rng(0)
    for n_planes, n in itertools.product((1, 2, 7, 30), (1, 4, 12)):
        planes = no_planes(n, nonnegative=False)
        for _ in range(n_planes):
            planes = add_plane(planes, 2 * rng.normal(size=n), float(rng.uniform(0, 3)))
        planes, w, bound = reduce_l1(planes)
        a, b, alpha = planes.a[:n_planes], planes.b[:n_planes], planes.alpha[:n_planes]
        assert np.abs(w).sum() + max(0.0, np.max(a @ w + b)) == pytest.approx(bound, rel=1e-8, abs=1e-9)
        # What makes it a bound holds exactly.
        assert np.all(alpha >= 0.0)
        assert alpha.sum() <= 1.0 + 1e-15
        assert np.abs(alpha @ a).max() <= 1.0 + 1e-15
        assert bound == pytest.approx(b @ alpha, rel=1e-14)


def test_a_weight_that_is_in_no_plane_is_zero():
    planes = add_plane(no_planes(3, nonnegative=False), np.array([0.0, -2.0, 0.0]), 1.0)
    _, w, bound = reduce_l1(planes)
    np.testing.assert_allclose(w, [0.0, 0.5, 0.0], atol=1e-12)
    assert bound == pytest.approx(0.5)


# ---------------------------------------------------------------- the optimum


@every_loss
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_gap_is_below_the_tolerance(loss, storage, C):
    X, y = samples.sample(loss, n_rows=60)
    problem = Problem(STORAGES[storage](X), y, C, loss, penalty="l1")
    result = solve(problem, BMRM(), tol=1e-5)
    assert result.stop_reason == "converged"
    assert result.certificate.relative_gap <= 1e-5
    assert result.certificate.primal == pytest.approx(primal(problem, X, result.w), rel=1e-10)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            w = result.w + scale * rng.normal(size=5) * (rng.random(5) < 0.5)
            assert primal(problem, X, w) >= result.certificate.dual


@pytest.mark.parametrize(("loss", "number"), [("squared_hinge", 5), ("logistic", 6)])
@pytest.mark.parametrize("C", [0.03, 0.3, 3.0])
def test_the_optimum_is_that_of_liblinear(loss, number, C):
    X, y = samples.sample(loss, n_rows=100, n_features=8)
    problem = Problem(X, y, C, loss, penalty="l1")
    result = solve(problem, BMRM(), tol=1e-7)
    w = samples.liblinear_weights(X, y, f"-s {number} -c {C} -e 1e-10", lambda w: primal(problem, X, w))
    assert result.stop_reason == "converged"
    assert result.certificate.primal == pytest.approx(primal(problem, X, w), rel=1e-6)
    assert result.certificate.dual <= primal(problem, X, w)
    np.testing.assert_allclose(result.w, w, atol=5e-3)


@pytest.mark.parametrize("C", [0.03, 0.3, 3.0])
def test_the_optimum_of_the_hinge_loss_is_that_of_one_linear_program(C):
    """LIBLINEAR has no such solver."""
    X, y = samples.sample("hinge", n_rows=100, n_features=8)
    problem = Problem(X, y, C, "hinge", penalty="l1")
    result = solve(problem, BMRM(), tol=1e-8)
    assert result.certificate.primal == pytest.approx(
        naive.optimum(X, y, problem.cost, problem.loss, "l1").primal, rel=1e-7
    )


def test_few_weights_are_not_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30))
    y = np.where(X[:, :2] @ [2.0, -2.0] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    result = solve(Problem(X, y, 0.02, "hinge", penalty="l1"), BMRM(), tol=1e-7)
    assert set(np.flatnonzero(np.abs(result.w) > 1e-6)) == {0, 1}


def test_a_penalty_so_large_that_nothing_is_learnt():
    X, y = samples.sample("hinge", n_rows=60)
    result = solve(Problem(X, y, 1e-4, "hinge", penalty="l1"), BMRM(), tol=1e-9)
    assert result.stop_reason == "converged"
    assert not result.w.any()


# ---------------------------------------------------------------- as with the other penalty


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_small_and_large_values(scale):
    """The same problem in other units: C and w take up what X lost."""
    X, y = samples.sample("hinge", n_rows=60)
    one = solve(Problem(X, y, 1.0, "hinge", penalty="l1"), BMRM(), tol=1e-6)
    other = solve(Problem(scale * X, y, 1.0 / scale, "hinge", penalty="l1"), BMRM(), tol=1e-6)
    assert other.stop_reason == "converged"
    assert other.certificate.primal * scale == pytest.approx(one.certificate.primal, rel=3e-6)


def test_the_bound_rises_and_the_answer_falls():
    problem = Problem(*samples.sample("logistic", n_rows=60), 1.0, "logistic", penalty="l1")
    solver = BMRM()
    state, seen = solver.init_state(problem), []
    for _ in range(20):
        state = solver.update(problem, state, Goal(0.0, np.inf))
        seen.append((state.best.primal, state.bound))
    primals, bounds = np.array(seen).T
    assert np.all(np.diff(primals) <= 0.0)
    assert np.all(np.diff(bounds) >= 0.0)
    assert bounds[-1] > 0.9 * primals[-1]


@every_loss
def test_weights_and_an_intercept(loss):
    X, y = samples.sample(loss, n_rows=40, n_features=4)
    copies = np.random.default_rng(0).integers(0, 4, size=40)
    weighted = solve(Problem(X, y, 0.3, loss, sample_weight=copies, bias=1.0, penalty="l1"), BMRM(), tol=1e-6)
    explicit = np.column_stack([np.repeat(X, copies, axis=0), np.ones(copies.sum())])
    repeated = solve(Problem(explicit, np.repeat(y, copies), 0.3, loss, penalty="l1"), BMRM(), tol=1e-6)
    assert weighted.stop_reason == repeated.stop_reason == "converged"
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=3e-6)


def test_a_run_that_is_resumed_is_one_run(tmp_path):
    problem, path = Problem(*samples.sample("hinge", n_rows=60), 0.5, "hinge", penalty="l1"), tmp_path / "state"
    whole = solve(problem, BMRM(), tol=1e-6)
    for limit in (3, 1, 8):
        calls = itertools.count(1)
        stop = [lambda _, c=calls, n=limit: next(c) >= n]
        solve(problem, BMRM(), tol=1e-6, checkpoint=path, callbacks=stop)
    resumed = solve(problem, BMRM(), tol=1e-6, checkpoint=path)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.passes == whole.passes
    assert resumed.certificate == whole.certificate


def test_starts():
    """At its own end it stops at once; at another's w, and from another penalty's planes, it is not misled."""
    X, y = samples.sample("hinge", n_rows=60)
    problem = Problem(X, y, 0.5, "hinge", penalty="l1")
    done = solve(problem, BMRM(), tol=1e-7)
    again = solve(problem, BMRM(), tol=1e-6, start=done)
    assert again.stop_reason == "converged"
    assert again.passes <= 1.0
    l2 = Problem(X, y, 0.5, "hinge")
    for first, second, start in [(l2, problem, CuttingPlane()), (l2, problem, DualCD()), (problem, l2, BMRM())]:
        begun = solve(first, start, tol=1e-6)
        result = solve(second, BMRM(), tol=1e-6, start=begun)
        fresh = solve(second, BMRM(), tol=1e-6)
        assert result.stop_reason == "converged"
        assert result.certificate.primal == pytest.approx(fresh.certificate.primal, rel=3e-6)


def test_other_cutting_plane_methods_say_that_they_do_not_take_it():
    problem = Problem(*samples.sample("hinge"), 0.5, "hinge", penalty="l1")
    with pytest.raises(ValueError, match="'cutting_plane' does not take penalty 'l1'"):
        solve(problem, CuttingPlane())
