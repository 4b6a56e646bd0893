"""SVM-light, core vector machines, stochastic methods and approximate features."""

import numpy as np
import pytest
from machines import assert_optimal, machine, matrix, rows
from sklearn.kernel_approximation import Nystroem

from maxmargin.solvers import kernel
from maxmargin.solvers.kernel.features import Nystroem as OurNystroem
from maxmargin.solvers.kernel.features import fourier_features
from maxmargin.solvers.kernel.norma import NORMA
from maxmargin.solvers.kernel.svmlight import SVMLight


def penalized(X, y, C, loss="squared_hinge", **options):
    return machine(loss, X, y, C, penalize_intercept=True, **options)


@pytest.mark.parametrize("kind", ["svc", "svr", "one_class", "squared_hinge"])
def test_svmlight_reaches_the_gap_that_it_claims(kind):
    X, y = rows(120)
    problem = machine(kind, X, y, 2.0)
    for solver in ("svmlight", SVMLight(q=2, shrinking=False), SVMLight(q=30, patience=3)):
        assert_optimal(problem, X, kernel.solve(problem, solver, tol=1e-6), 1e-6)


def squared_hinge_gap(problem, X, beta):
    """Primal - dual of the squared hinge with a penalised intercept, by the textbook."""
    f = (matrix(problem, X) + 1.0) @ beta
    half, y, C = 0.5 * beta @ f, problem.y, problem.cost
    primal = half + C @ np.maximum(0.0, 1.0 - y * f) ** 2
    return primal, primal - (np.abs(beta).sum() - half - (beta**2 / (4.0 * C)).sum())


@pytest.mark.parametrize(("solver", "tol"), [("cvm", 1e-5), ("bvm", 0.1)])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_core_sets_reach_the_gap_that_they_claim(solver, tol, sparse):
    X, y = rows(200, sparse=sparse)
    problem = penalized(X, y, 1.0)
    result = kernel.solve(problem, solver, tol=tol)
    assert result.stop_reason == "converged"
    primal, gap = squared_hinge_gap(problem, X, result.state.beta)
    assert gap <= tol * primal
    assert gap == pytest.approx(result.certificate.gap, rel=1e-3, abs=1e-9 * primal)
    assert np.all(problem.y * result.state.beta >= 0.0)
    assert result.state.intercept == pytest.approx(result.state.beta.sum())


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
def test_cvm_is_not_erratic_in_c_on_a_checkerboard(C):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, size=(400, 2))
    y = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1.0, -1.0)
    problem = penalized(X, y, C, gamma=2.0)
    result = kernel.solve(problem, "cvm", tol=1e-3)
    primal, gap = squared_hinge_gap(problem, X, result.state.beta)
    assert gap <= 1e-3 * primal
    if C >= 1e2:
        assert np.mean(np.sign(problem.decision(result.state.beta)) == y) > 0.97


def test_core_sets_need_the_squared_hinge_and_a_penalized_intercept():
    X, y = rows(20)
    with pytest.raises(ValueError, match="does not take loss 'hinge'"):
        kernel.solve(machine("svc", X, y), "cvm")
    with pytest.raises(ValueError, match="intercept without penalty"):
        kernel.solve(machine("squared_hinge", X, y), "cvm")


def test_kernel_pegasos_comes_close_and_says_how_close():
    X, y = rows(300)
    problem = machine("svc", X, y, 0.1, penalize_intercept=True)
    result = kernel.solve(problem, "kernel_pegasos", max_iter=50, tol=1e-3)
    beta = result.state.beta
    f = (matrix(problem, X) + 1.0) @ beta
    half = 0.5 * beta @ f
    primal = half + problem.cost @ np.maximum(0.0, 1.0 - y * f)
    assert primal - (np.abs(beta).sum() - half) == pytest.approx(result.certificate.gap, rel=1e-6)
    assert result.certificate.relative_gap < 0.08
    assert np.all((beta >= problem.lower) & (beta <= problem.upper))


def test_kernel_pegasos_takes_the_steps_of_its_paper():
    X, y = rows(60)
    problem = machine("svc", X, y, 0.5, penalize_intercept=True)
    solver = kernel.get("kernel_pegasos")
    state = solver.update(problem, solver.init_state(problem, seed=3), None)
    K, order = matrix(problem, X) + 1.0, np.random.default_rng([3, 0]).permutation(60)
    w = np.zeros(60)  # coefficients of phi(x_i), decayed in every step
    for t, begin in enumerate(range(0, state.n_seen, 32), start=1):
        batch = order[begin : begin + 32]
        violators = batch[y[batch] * (K[batch] @ w) < 1.0]
        w *= 1.0 - 1.0 / t
        np.add.at(w, violators, 0.5 * 60 / (t * 32) * y[violators])
    np.testing.assert_allclose(np.clip(w, problem.lower, problem.upper), state.beta, atol=1e-12)


@pytest.mark.parametrize(("tau", "accuracy"), [(0, 0.75), (100, 0.65)], ids=["all terms", "a quarter of them"])
def test_norma_learns_and_certifies(tau, accuracy):
    X, y = rows(400)
    problem = machine("svc", X, y, 1.0)
    result = kernel.solve(problem, NORMA(tau=tau), max_iter=20)
    assert tau == 0 or np.count_nonzero(result.state.beta) <= tau
    K = matrix(problem, X)
    z = K @ result.state.beta + result.state.intercept
    assert np.mean(np.sign(z) == y) > accuracy
    primal = 0.5 * result.state.beta @ K @ result.state.beta + np.maximum(0.0, 1.0 - y * z).sum()
    assert primal == pytest.approx(result.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("solver", ["kernel_pegasos", "norma", "cvm", "svmlight"])
def test_a_run_in_two_parts_is_a_run_in_one(solver, tmp_path):
    X, y = rows(200)
    loss = "squared_hinge" if solver == "cvm" else "svc"
    free = solver in ("norma", "svmlight")
    problems = [machine(loss, X, y, 1.0, penalize_intercept=not free) for _ in range(3)]
    options = {"tol": 1e-4, "max_iter": 6.0}
    whole = kernel.solve(problems[0], solver, **options)
    stop = iter([False, True])
    kernel.solve(problems[1], solver, **options, checkpoint=tmp_path / "c", callbacks=[lambda _: next(stop, True)])
    parts = kernel.solve(problems[2], solver, **options, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(parts.state.beta, whole.state.beta, atol=1e-9)


def test_nystroem_with_all_rows_is_the_kernel_machine():
    X, y = rows(150)
    problem = machine("svc", X, y, 1.0)
    exact = kernel.solve(problem, "auto", tol=1e-6)
    result = OurNystroem(150).solve(problem, tol=1e-6)
    assert result.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-3)
    own = problem.certificate(result.state.beta, result.state.intercept).primal
    assert own == pytest.approx(result.certificate.primal, rel=1e-2)


def test_features_approximate_the_kernel():
    X, y = rows(200)
    problem = machine("svc", X, y, 1.0)
    K = matrix(problem, X)
    rng = np.random.default_rng(0)
    Z = fourier_features(X, rng.normal(size=(4, 4000)), rng.uniform(0, 2 * np.pi, 4000))
    assert np.abs(Z.astype(float) @ Z.T - K).max() < 0.15
    ours = OurNystroem(60).solve(problem, tol=1e-4, seed=0)
    landmarks = X[ours.state.landmarks]
    peer = Nystroem(gamma=0.5, n_components=60, random_state=0).fit(landmarks).transform(X)
    f = problem.decision(ours.state.beta)
    assert np.abs(peer @ np.linalg.lstsq(peer, f, rcond=None)[0] - f).max() < 1e-2 * np.abs(f).max()
    fourier = kernel.solve(problem, "fourier", tol=1e-3)
    assert np.mean(np.sign(fourier.state.decision(X)) == y) > 0.85
