"""`solvers/cutting_plane.py`, and what cutting-plane solvers share."""

import itertools
import pickle

import naive
import numpy as np
import pytest
import samples
from naive.cutting_plane import cutting_plane

from maxmargin import Problem, losses, solve
from maxmargin.data.source import Paused, pausing
from maxmargin.problem.risks import Linearization, SumOfLosses
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate.dual_cd import DualCD
from maxmargin.solvers.planes.bmrm import BMRM
from maxmargin.solvers.planes.cutting_plane import CuttingPlane
from maxmargin.solvers.planes.ocas import OCAS

LOSSES = [losses.get(name) for name in losses.names()]
SOLVERS = [CuttingPlane(), OCAS(), BMRM()]
STORAGES = {
    "dense": lambda X: X,
    "csr": samples.csr,
    "float32": lambda X: X.astype(np.float32),
    "csr32": lambda X: samples.csr(X, np.int64, np.float32),
}

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def weighted_problem(loss, storage="dense", n_rows=23, n_features=3, C=0.7):
    """A problem with costs of all kinds and an intercept; its rows with the intercept's column, in float64."""
    X, y = samples.sample(loss, n_rows=n_rows, n_features=n_features)
    X = X.astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).integers(0, 4, size=n_rows).astype(float)
    problem = Problem(STORAGES[storage](X), y, C, loss, sample_weight=weight, bias=0.5)
    return problem, np.column_stack([X, np.full(n_rows, 0.5)])


def large_problem(loss="hinge", n_jobs=1):
    """Rows enough for planes that are summed in blocks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 40))
    y = np.sign(X @ rng.normal(size=40) + 3 * rng.normal(size=40_000))
    return Problem(X, y, 1e-3, loss, n_jobs=n_jobs)


def states(solver, problem, n):
    """The states of so many iterations."""
    state = solver.init_state(problem)
    for _ in range(n):
        state = solver.update(problem, state, Goal(0.0, np.inf))
        yield state


# ---------------------------------------------------------------- step by step


@every_loss
@pytest.mark.parametrize("C", [0.01, 0.7, 50.0])
def test_every_iteration_is_that_of_the_paper(loss, C):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, C, loss)
    oracle = cutting_plane(X, y, problem.cost, loss)
    for passes, w in itertools.islice(oracle, 1, 8):
        result = solve(problem, CuttingPlane(), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-7, atol=1e-9)


@every_storage
def test_steps_with_costs_of_their_own_and_an_intercept(storage):
    problem, X = weighted_problem(losses.Huber(), storage)
    oracle = cutting_plane(X, problem.y, problem.cost, problem.loss)
    for passes, w in itertools.islice(oracle, 1, 7):
        result = solve(problem, CuttingPlane(), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-10)


def test_an_iteration_is_two_passes():
    """But the first, in which the outputs are those of w = 0."""
    problem = Problem(*samples.sample("hinge", n_rows=60), 0.5, "hinge")
    result = solve(problem, CuttingPlane(), tol=0.0, max_iter=20)
    assert result.passes == 21.0
    assert result.history["iterations"][-1] == 11


# ---------------------------------------------------------------- planes and bounds


@every_loss
@every_solver
def test_no_plane_exceeds_the_risk(loss, solver):
    """Whatever the point, and each touches it somewhere: at the point for which it was made."""
    problem, X = weighted_problem(loss)
    *_, state = states(solver, problem, 8)
    planes, rng = state.planes, np.random.default_rng(1)
    for scale in (0.0, 0.1, 1.0, 10.0):
        w = scale * rng.normal(size=4)
        risk = np.sum(problem.cost * naive.phi(loss, naive.argument(loss, X @ w, problem.y)))
        assert np.all(planes.a[: planes.n] @ w + planes.b[: planes.n] <= risk + 1e-10 * max(1.0, risk))
    at_zero = np.sum(problem.cost * naive.phi(loss, naive.argument(loss, 0.0, problem.y)))
    assert planes.b[: planes.n].max() == pytest.approx(at_zero, rel=1e-12)  # the first plane, at zero


@pytest.mark.oracle
@every_loss
@every_solver
def test_the_bound_rises_to_the_optimum_and_the_answer_falls_to_it(loss, solver):
    X, y = samples.sample(loss, n_rows=40)
    problem = Problem(X, y, 0.5, loss)
    optimum = naive.optimum(X, y, problem.cost, loss).primal
    seen = [(state.best.primal, state.bound) for state in states(solver, problem, 25)]
    primals, bounds = np.array(seen).T
    assert np.all(np.diff(primals) <= 0.0)
    assert np.all(np.diff(bounds) >= 0.0)
    assert np.all(primals >= optimum * (1 - 1e-8))
    assert np.all(bounds <= optimum * (1 + 1e-8))
    assert primals[-1] - bounds[-1] < 0.1 * (primals[0] - bounds[0])


@every_solver
def test_dropping_planes_changes_the_way_but_not_the_end(solver, monkeypatch):
    problem = Problem(*samples.sample("squared_hinge", n_rows=80), 1.0, "squared_hinge")
    kept = solve(problem, solver, tol=1e-7)
    monkeypatch.setattr("maxmargin.solvers.planes.store._PATIENCE", 0)
    dropped = solve(problem, solver, tol=1e-7)
    assert dropped.stop_reason == "converged"
    assert dropped.history["planes"][-1] < kept.history["planes"][-1]
    assert dropped.certificate.primal == pytest.approx(kept.certificate.primal, rel=1e-6)


def test_the_risk_is_an_object_that_can_be_exchanged():
    """Another one: twice the sum of the losses. It is the risk at twice the cost."""

    class Twice(SumOfLosses):
        def between(self, *arguments):
            z, risk = super().between(*arguments)
            return z, 2.0 * risk

        def linearize(self, *arguments):
            return Linearization(*(2.0 * part for part in super().linearize(*arguments)))

    X, y = samples.sample("hinge", n_rows=50)
    *_, one = states(CuttingPlane(), Problem(X, y, 0.5, "hinge", risk=Twice()), 20)
    *_, other = states(CuttingPlane(), Problem(X, y, 1.0, "hinge"), 20)
    np.testing.assert_allclose(one.w, other.w, rtol=1e-12)
    assert one.bound == pytest.approx(other.bound, rel=1e-12)


# ---------------------------------------------------------------- blocks of rows


@every_solver
def test_blocks_of_rows_add_up(solver):
    problem = large_problem()
    looks = itertools.count()
    with pausing(lambda: next(looks) < 0):
        problem.combine(problem.y)
    assert next(looks) > 1
    *_, state = states(solver, problem, 3)
    X, y = problem.rows.values, problem.y
    np.testing.assert_allclose(state.best.z, X @ state.w, rtol=1e-10, atol=1e-12)
    first = int(solver.has_zero_plane)
    np.testing.assert_allclose(state.planes.a[first], -1e-3 * X.T @ y, rtol=1e-10, atol=1e-12)


@every_solver
def test_an_interrupted_iteration_has_changed_nothing(solver):
    """Not even the arrays of its planes."""
    problem = large_problem()
    *_, state = states(solver, problem, 4)
    before, copy, n_looks = pickle.dumps(state), pickle.loads(pickle.dumps(state)), itertools.count()
    with pausing(lambda: next(n_looks) < 0):
        solver.update(problem, copy, Goal(0.0, np.inf))
    n_blocks = next(n_looks)
    assert n_blocks > 2
    for looks in (0, n_blocks // 2, n_blocks - 1):  # in the pass for the outputs, and in the one for the plane
        answers = itertools.chain(itertools.repeat(False, looks), itertools.repeat(True))
        with pausing(lambda answers=answers: next(answers)), pytest.raises(Paused):
            solver.update(problem, state, Goal(0.0, np.inf))
        assert pickle.dumps(state) == before


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "epsilon_insensitive"])
@every_solver
def test_any_number_of_threads_gives_the_same_bits(solver, loss):
    one, two = (solve(large_problem(loss, n_jobs), solver, tol=0.0, max_iter=6) for n_jobs in (1, 2))
    assert one.w.tobytes() == two.w.tobytes()
    assert one.certificate == two.certificate


def test_the_parts_of_an_iteration_are_timed():
    result = solve(large_problem(), OCAS(), tol=1e-3)
    parts = [result.history[f"seconds_{part}"] for part in ("output", "line_search", "plane", "reduced")]
    assert all(seconds[-1] > 0.0 for seconds in parts)
    assert sum(seconds[-1] for seconds in parts) <= result.seconds


@pytest.mark.parametrize("n_rows", [16, 32, 60])
def test_a_run_is_resumed_whatever_room_its_planes_have(n_rows, tmp_path):
    """Room for 16 planes, then 32: not to be taken for arrays with a number for each row."""
    problem = Problem(*samples.sample("logistic", n_rows=n_rows, n_features=12), 10.0, "logistic")
    whole = solve(problem, CuttingPlane(), tol=1e-5)
    assert whole.history["planes"][-1] > 17
    for passes in (3, 41):
        solve(problem, CuttingPlane(), tol=1e-5, checkpoint=tmp_path / "state", max_iter=passes)
    resumed = solve(problem, CuttingPlane(), tol=1e-5, checkpoint=tmp_path / "state")
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.passes == whole.passes


# ---------------------------------------------------------------- starts


@every_solver
def test_planes_serve_another_C(solver):
    X, y = samples.sample("hinge", n_rows=200)
    first = solve(Problem(X, y, 1.0, "hinge"), solver, tol=1e-6)
    for C in (0.3, 1.1, 4.0):
        problem = Problem(X, y, C, "hinge")
        state = solver.init_state(problem, start=first.state)
        assert state.planes.n == first.state.planes.n
        cold = solve(problem, solver, tol=1e-6)
        warm = solve(problem, solver, tol=1e-6, start=first)
        assert warm.passes < cold.passes
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-6)
        assert warm.certificate.dual <= cold.certificate.primal * (1 + 1e-12)


@every_solver
@pytest.mark.parametrize("change", ["rows", "a value", "labels", "weights", "loss"])
@pytest.mark.parametrize("max_iter", [None, 1.0])
def test_planes_of_another_risk_are_not_taken(solver, change, max_iter):
    """They might be above this one, and the certificate wrong. After one pass there is a plane, but w is still zero."""
    X, y = samples.sample("hinge", n_rows=50)
    weight, loss = np.ones(50), "hinge"
    first = solve(Problem(X, y, 1.0, loss), solver, tol=1e-6, max_iter=max_iter)
    if change == "rows":
        X = X[:, ::-1]  # of the same lengths
    elif change == "a value":
        X = X.copy()
        X[7, 2] *= -1  # the same lengths again
    elif change == "labels":
        y = np.where(np.arange(50) == 11, -y, y)
    elif change == "weights":
        weight[9] = 2.0
    else:
        loss = losses.Huber(0.1)
    problem = Problem(X, y, 1.0, loss, sample_weight=weight)
    state = solver.init_state(problem, start=first.state)
    assert state.planes.n == solver.has_zero_plane
    assert state.bound == 0.0
    result = solve(problem, solver, tol=1e-6, start=first)
    reference = solve(problem, DualCD(), tol=1e-9).certificate
    assert result.certificate.dual <= reference.primal * (1 + 1e-12)
    assert result.certificate.primal == pytest.approx(reference.primal, rel=2e-6)


@every_solver
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive"])
def test_dual_variables_of_another_solver_make_a_plane(solver, loss):
    problem = Problem(*samples.sample(loss, n_rows=60), 0.5, loss)
    first = solve(problem, DualCD(), tol=1e-9)
    state = solver.init_state(problem, start=first.state)
    assert state.bound == pytest.approx(first.certificate.dual, rel=1e-8)
    again = solve(problem, solver, tol=1e-6, start=first)
    assert (again.stop_reason, again.passes) == ("converged", 0.0)


@every_solver
def test_a_start_at_weights_alone(solver):
    """Nothing is known but w; the first plane touches the risk there."""
    from maxmargin.solvers.newton.tron import Tron

    problem = Problem(*samples.sample("logistic", n_rows=60), 0.5, "logistic")
    first = solve(problem, Tron(), tol=1e-9)
    again = solve(problem, solver, tol=1e-6, start=first)
    assert again.stop_reason == "converged"
    assert again.passes == 1.0  # one plane: at its optimum, that of a smooth loss is a proof


def test_a_start_of_the_wrong_size():
    first = solve(Problem(*samples.sample("hinge", n_features=4), 0.5, "hinge"), CuttingPlane())
    with pytest.raises(ValueError, match="cannot start at 4 weights: the problem has 5"):
        solve(Problem(*samples.sample("hinge", n_features=5), 0.5, "hinge"), CuttingPlane(), start=first)


def test_the_certificate_leaves_room_for_rounding():
    """At the end the bound and the objective agree to the last digits; a gap of zero would be more than is known."""
    problem = Problem(*samples.sample("hinge", n_rows=60), 0.5, "hinge")
    result = solve(problem, CuttingPlane(), tol=0.0, max_iter=200)
    assert 0.0 < result.certificate.relative_gap < 1e-12
