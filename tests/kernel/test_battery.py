"""A random battery of small problems: what estimators claim, judged in float64 by formulas written down here."""

import numpy as np
import pytest
from machines import interior_point, machine, matrix, optimum, rows, split
from scipy.optimize import linprog
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import SVC, SVR, OneClassSVM
from maxmargin.solvers import kernel as kernel_solvers

KINDS = {"SVC": SVC, "SVR": SVR, "OneClassSVM": OneClassSVM}
CORNERS = {1000: (1e-4, 1e-4), 1001: (1e-4, 1e4), 1002: (1e4, 1e-4), 1003: (1e4, 1e4)}  # seed: gamma, C


def draw(seed, kind=None, kernel=None, most_rows=70):
    """A problem with something odd about it: (estimator's name, its parameters, X, y, weights, kernel matrix)."""
    rng = np.random.default_rng(seed)
    kind = kind or ["SVC", "SVC", "SVR", "OneClassSVM"][seed % 4]
    n, d = int(rng.integers(2, most_rows)), int(rng.integers(1, 6))
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
    name = kernel or name
    gamma, C = 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-4, 4)
    gamma, C = CORNERS.get(seed, (gamma, C))
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


def rounding_of(parameters, X, K, model, size):
    """What the last digits of kernel values may change in an objective of this size."""
    # Distances are differences of squared lengths: their last digits, times gamma, are those of kernel values.
    digits = 1e-11 + 1e-15 * (parameters["gamma"] * (X**2).sum(axis=1).max() if parameters["kernel"] == "rbf" else 1)
    return digits * max(size, np.abs(model.dual_coef_).sum() * np.abs(K).max())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", range(10))
def test_no_claim_is_false(block):
    n_rounding = 0
    for seed in range(16 * block, 16 * block + 16):
        kind, parameters, X, y, weight, K = draw(seed)
        tol = [1e-3, 1e-6, 1e-8][seed % 3]
        model = KINDS[kind](tol=tol, **parameters).fit(X, y, sample_weight=weight)
        if parameters["kernel"] == "sigmoid":
            continue  # indefinite: see below
        primal, dual = judged(kind, parameters, y, weight, K, model)
        claimed, size = model.certificate_, max(abs(primal), abs(dual), model.certificate_.scale)
        rounding = rounding_of(parameters, X, K, model, size)
        assert abs(claimed.primal - primal) <= 1e-9 * size + rounding + claimed.rounding, (seed, claimed, primal)
        assert primal - dual <= claimed.gap * 1.01 + rounding or claimed.dual == 0.0, (seed, claimed, primal, dual)
        if claimed.rounding > 0.5 * tol * size:
            assert model.stop_reason_ in ("converged", "rounding"), (seed, kind, parameters, claimed)
            n_rounding += 1
            continue
        assert model.stop_reason_ == "converged", (seed, kind, parameters, claimed)
        gap = primal - max(dual, 0.0) if kind != "OneClassSVM" else primal - dual  # no loss is negative
        assert gap <= tol * size + rounding, (seed, claimed, primal, dual)
    assert n_rounding <= 4  # tol is within reach of most


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


def program(kind, parameters, y, weight):
    """Target, kink, bounds and sum of the coefficients of a machine, by the textbook."""
    if kind == "OneClassSVM":
        return np.zeros(len(y)), 0.0, (np.zeros(len(y)), weight), parameters["nu"] * weight.sum()
    cost = parameters["C"] * weight
    if kind == "SVC":
        return y, 0.0, (np.where(y < 0.0, -cost, 0.0), np.where(y > 0.0, cost, 0.0)), 0.0
    return y, parameters["epsilon"], (-cost, cost), 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "precomputed"])
def test_same_optimum_as_an_interior_point_method(kind, kernel):
    """The optimum lies between what is claimed; the bounds are those of other code, in float64."""
    for seed in range(1000, 1025):
        _, parameters, X, y, weight, K = draw(seed, kind, kernel, most_rows=26)
        model = KINDS[kind](tol=1e-8, **parameters).fit(X, y, sample_weight=weight)
        if np.linalg.eigvalsh(K).min() < -1e-12 * np.abs(K).max():
            continue  # a polynomial with a negative constant may be indefinite: see below
        value, error = interior_point(K, *program(kind, parameters, y, weight))
        primal, dual = judged(kind, parameters, y, weight, K, model)
        size = max(abs(primal), model.certificate_.scale)
        rounding = rounding_of(parameters, X, K, model, size)
        assert error <= 1e-7 * (size or parameters.get("C", 1.0)), (
            seed,
            error,
        )  # an optimum of zero has no size of its own
        assert primal - max(dual, -np.inf if kind == "OneClassSVM" else 0.0) <= 1e-8 * size + rounding, seed
        assert abs(primal + value) <= 1e-7 * size + rounding + error, (seed, parameters, primal, dual, -value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_of_an_indefinite_kernel_bounds_all_first_order_gains(kind):
    """The promise for a sigmoid: no feasible direction gains more than the gap, to first order. No more is known."""
    n_indefinite = n_converged = 0
    for seed in range(2000, 2040):
        _, parameters, X, y, weight, K = draw(seed, kind, "sigmoid", most_rows=40)
        model = KINDS[kind](tol=1e-4, **parameters).fit(X, y, sample_weight=weight)
        n_indefinite += np.linalg.eigvalsh(K).min() < -1e-3 * np.abs(K).max()
        primal, _ = judged(kind, parameters, y, weight, K, model)  # which asserts that it is feasible
        beta = np.zeros(len(y))
        beta[model.support_] = model.dual_coef_[0]
        f = K @ beta
        target, kink, bounds, total = program(kind, parameters, y, weight)
        _, reach, cost = split(target - f, kink, *bounds)
        best = -linprog(cost, A_eq=reach[np.newaxis], b_eq=[total], bounds=(0.0, 1.0)).fun
        gain = best - ((target - f) @ beta - kink * np.abs(beta).sum())
        claimed = model.certificate_
        size = max(abs(primal), claimed.scale)
        rounding = 1e-7 * max(size, np.abs(beta).sum() * max(1.0, np.abs(f).max()))  # linprog's own tolerance
        assert gain <= claimed.gap + rounding, (seed, parameters, gain, claimed)
        off = 1e-9 * max(size, np.abs(beta).sum() * np.abs(K).max()) + claimed.rounding
        assert abs(claimed.primal - primal) <= off, seed
        if model.stop_reason_ == "converged":
            n_converged += 1
            assert claimed.gap <= 1e-4 * size * (1.0 + 1e-9), (seed, claimed)
    assert n_indefinite >= 10
    assert n_converged >= 10


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
