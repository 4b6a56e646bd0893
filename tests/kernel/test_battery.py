"""A random battery of small problems: what estimators claim, judged in float64 by formulas written down here."""

import numpy as np
import pytest
from machines import machine, matrix, optimum, rows
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import SVC, SVR, OneClassSVM
from maxmargin.solvers import kernel as kernel_solvers

KINDS = {"SVC": SVC, "SVR": SVR, "OneClassSVM": OneClassSVM}


def draw(seed):
    """A problem with something odd about it: (estimator's name, its parameters, X, y, weights, kernel matrix)."""
    rng = np.random.default_rng(seed)
    kind = ["SVC", "SVC", "SVR", "OneClassSVM"][seed % 4]
    n, d = int(rng.integers(2, 70)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.4:
        X[rng.integers(0, n, n // 2)] = X[0]  # duplicates
    if rng.random() < 0.3:
        X[rng.random(n) < 0.3] = 0.0
    if rng.random() < 0.2:
        X = np.round(X)
    y = np.where(rng.random(n) < rng.choice([0.5, 0.9]), 1.0, -1.0)
    if rng.random() < 0.2:
        y[:] = -1.0  # all but one row of one class
    y[:2] = 1.0, -1.0
    if kind == "SVR":
        y = np.round(rng.normal(size=n), int(rng.integers(0, 4))) * 10.0 ** rng.integers(-2, 3)
    weight = rng.choice([0.0, 0.5, 1.0, 7.0], n) if rng.random() < 0.3 else np.ones(n)
    weight[:2] = 1.0
    name = rng.choice(["rbf", "rbf", "linear", "poly", "sigmoid", "precomputed"])
    gamma, C = 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-4, 4)
    parameters = {"kernel": str(name), "gamma": gamma}
    if name in ("linear", "poly"):  # of a size at which float64 has digits to spare
        X = X / max(1.0, np.abs(X).max())
    if name in ("poly", "sigmoid"):
        parameters |= {"gamma": 10.0 ** rng.uniform(-2, 0), "coef0": float(rng.uniform(-0.5, 1.0))}
    parameters |= {"SVC": {"C": C}, "SVR": {"C": C, "epsilon": float(rng.choice([0.0, 0.1, 1.0]))}}.get(kind, {})
    parameters |= {"nu": float(rng.uniform(0.05, 1.0))} if kind == "OneClassSVM" else {}
    if name == "precomputed":
        A = rng.normal(size=(n, 3))
        K = X = A @ A.T
    elif name == "rbf":
        K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    else:
        options = {k: v for k, v in parameters.items() if k in ("gamma", "coef0") and name != "linear"}
        K = pairwise_kernels(X, metric=name, **options, **({"degree": 3} if name == "poly" else {}))
    return kind, parameters, X, y, weight, K


def judged(kind, parameters, y, weight, K, model):
    """Primal, dual and their gap, by the textbook, of a fitted machine of positive semi-definite kernel."""
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    b, f = model.intercept_[0], K @ beta
    half = 0.5 * beta @ f
    if kind == "OneClassSVM":
        total, rho = parameters["nu"] * weight.sum(), -b
        assert np.all((beta >= 0.0) & (beta <= weight))
        assert beta.sum() == pytest.approx(total, rel=1e-8)
        return half + weight @ np.maximum(0.0, rho - f) - total * rho, -half
    cost = parameters["C"] * weight
    assert abs(beta.sum()) <= 1e-8 * max(np.abs(beta).sum(), 1e-300)
    if kind == "SVC":
        assert np.all((y * beta >= 0.0) & (y * beta <= cost))
        return half + cost @ np.maximum(0.0, 1.0 - y * (f + b)), np.abs(beta).sum() - half
    assert np.all(np.abs(beta) <= cost)
    epsilon = parameters["epsilon"]
    loss = cost @ np.maximum(0.0, np.abs(y - f - b) - epsilon)
    return half + loss, y @ beta - epsilon * np.abs(beta).sum() - half


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", range(10))
def test_no_claim_is_false(block):
    for seed in range(16 * block, 16 * block + 16):
        kind, parameters, X, y, weight, K = draw(seed)
        tol = [1e-3, 1e-6, 1e-8][seed % 3]
        model = KINDS[kind](tol=tol, **parameters).fit(X, y, sample_weight=weight)
        if parameters["kernel"] == "sigmoid":
            continue  # indefinite: see below
        primal, dual = judged(kind, parameters, y, weight, K, model)
        claimed, size = model.certificate_, max(abs(primal), abs(dual), model.certificate_.scale)
        # Distances are differences of squared lengths: their last digits, times gamma, are those of kernel values.
        digits = 1e-11 + 1e-15 * (
            parameters["gamma"] * (X**2).sum(axis=1).max() if parameters["kernel"] == "rbf" else 1
        )
        rounding = digits * max(size, np.abs(model.dual_coef_).sum() * np.abs(K).max())
        assert abs(claimed.primal - primal) <= 1e-9 * size + rounding, (seed, claimed, primal)
        assert primal - dual <= claimed.gap * 1.01 + rounding or claimed.dual == 0.0, (seed, claimed, primal, dual)
        assert model.stop_reason_ == "converged", (seed, kind, parameters, claimed)
        gap = primal - max(dual, 0.0) if kind != "OneClassSVM" else primal - dual  # no loss is negative
        assert gap <= tol * size + rounding, (seed, claimed, primal, dual)


@pytest.mark.parametrize("seed", range(6))
def test_an_indefinite_kernel_ends_where_no_pair_of_rows_can_gain(seed):
    X, y = rows(50, seed=seed)
    C, gamma, coef0 = 2.0, 1.0, -0.5
    K = np.tanh(gamma * X @ X.T + coef0)
    assert np.linalg.eigvalsh(K).min() < -0.1
    model = SVC(C=C, kernel="sigmoid", gamma=gamma, coef0=coef0, tol=1e-6).fit(X, y)
    alpha = np.zeros(50)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    margin = y - K @ (alpha * y)
    can_rise = ((y > 0) & (alpha < C)) | ((y < 0) & (alpha > 0.0))
    can_fall = ((y > 0) & (alpha > 0.0)) | ((y < 0) & (alpha < C))
    assert margin[can_rise].max() - margin[can_fall].min() < 1e-2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["svc", "svr", "one_class"])
def test_same_optimum_as_a_general_solver(kind, seed):
    X, y = rows(22, seed=seed)
    problem = machine(kind, X, y, 10.0 ** (seed - 2), gamma=[0.01, 0.1, 1.0, 10.0, 100.0][seed])
    result = kernel_solvers.solve(problem, "auto", tol=1e-10)
    _, value = optimum(problem, matrix(problem, X))
    assert result.certificate.dual == pytest.approx(-value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_claim_that_rests_on_a_sample_of_rows_is_true_of_all(sparse):
    """Of many rows times support vectors the outputs are checked on a sample; the claim is about all of them."""
    X, y = rows(7000, 3, seed=1, sparse=sparse)
    y = np.where(np.random.default_rng(0).random(7000) < 0.3, -y, y)  # noise: thousands of support vectors
    for tol in (1e-3, 1e-5):
        model = SVC(C=3.0, gamma=0.7, tol=tol).fit(X, y)
        assert len(model.support_) * 7000 > 1 << 22
        A = X.toarray() if sparse else X
        K = pairwise_kernels(A, A[model.support_], metric="rbf", gamma=0.7)
        coefficients = model.dual_coef_.toarray()[0] if sparse else model.dual_coef_[0]
        f = K @ coefficients
        half = 0.5 * coefficients @ f[model.support_]
        primal = half + 3.0 * np.maximum(0.0, 1.0 - y * (f + model.intercept_[0])).sum()
        gap = primal - (np.abs(coefficients).sum() - half)
        assert gap <= tol * primal
        assert gap <= 1.001 * model.certificate_.gap
        assert model.certificate_.primal == pytest.approx(primal, rel=tol)
