"""Kernel machines for tests, and independent float64 judges of their solutions."""

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import losses
from maxmargin.problem.kernel_problem import KernelProblem


def rows(n=60, d=4, seed=0, sparse=False):
    """Rows and the labels of a rule that no line follows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X = np.where(np.abs(X) > 0.6, X, 0.0) if sparse else X
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return (csr_matrix(X) if sparse else X), y


def targets(X, seed=1):
    X = X.toarray() if hasattr(X, "toarray") else X
    return np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(seed).normal(size=len(X))


def machine(kind, X, y, C=1.0, **options):
    """A problem by the name of its estimator."""
    options = {"kernel": "rbf", "gamma": 0.5} | options
    if kind == "svc":
        return KernelProblem(X, y, C, "hinge", **options)
    if kind == "svr":
        return KernelProblem(X, targets(X), C, losses.EpsilonInsensitive(0.1), **options)
    if kind == "one_class":
        return KernelProblem.one_class(X, 0.3, **options)
    return KernelProblem(X, y, C, kind, **options)


MACHINES = ["svc", "svr", "one_class", "squared_hinge"]


def matrix(problem, X):
    """The kernel matrix by scikit-learn, in float64."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if problem.kernel == "precomputed":
        return X
    if not hasattr(problem.kernel, "_asdict"):
        return problem.kernel(X, X)
    from maxmargin import kernels

    return pairwise_kernels(X, metric=kernels.name_of(problem.kernel), **problem.kernel._asdict())


def bounds(problem, K, beta, b):
    """Primal and dual by the textbook formulas of each machine, written without regard to `KernelProblem`'s."""
    f = K @ beta
    z = f + b
    C, y = problem.cost, problem.y
    half = 0.5 * beta @ f
    if problem.machine == "one class":
        rho = -b
        return half + C @ np.maximum(0.0, rho - f) - problem.total * rho, -half
    kind = losses.name_of(problem.loss)
    if kind == "hinge":
        return half + C @ np.maximum(0.0, 1.0 - y * z), np.abs(beta).sum() - half
    if kind == "squared_hinge":
        used = C > 0.0
        return half + C @ np.maximum(0.0, 1.0 - y * z) ** 2, np.abs(beta).sum() - half - 0.25 * (
            beta[used] ** 2 / C[used]
        ).sum()
    epsilon = problem.loss.epsilon
    if kind == "squared_epsilon_insensitive":
        beyond = np.maximum(0.0, np.abs(y - z) - epsilon)
        return half + C @ beyond**2, y @ beta - epsilon * np.abs(beta).sum() - half - 0.25 * (beta**2 / C).sum()
    return half + C @ np.maximum(0.0, np.abs(y - z) - epsilon), y @ beta - epsilon * np.abs(beta).sum() - half


def assert_optimal(problem, X, result, tol):
    """The claim of a result, checked by other code: feasible, and its gap is what it says and small."""
    beta, b = result.state.beta, result.state.intercept
    assert np.all(beta >= problem.lower)
    assert np.all(beta <= problem.upper)
    assert abs(beta.sum() - problem.total) <= 1e-8 * max(1.0, np.abs(beta).sum())
    primal, dual = bounds(problem, matrix(problem, X), beta, b)
    scale = max(abs(primal), 1e-300)
    assert primal - dual <= (tol + 1e-11) * scale
    assert primal - dual <= 1.02 * result.certificate.gap + 1e-11 * scale
    assert abs(result.certificate.primal - primal) <= (1e-9 + 0.02 * tol) * scale + result.certificate.rounding


def optimum(problem, K):
    """Exact minimum of the dual program by an active-set method, in plain numpy: (beta, objective)."""
    from scipy.optimize import LinearConstraint, minimize

    n = len(K)
    D, t, kink = problem.diagonal, problem.target, problem.kink
    big = np.where(np.isfinite(problem.upper), problem.upper, 1e6)
    small = np.where(np.isfinite(problem.lower), problem.lower, -1e6)

    def objective(v):  # beta = plus - minus
        beta = v[:n] - v[n:]
        g = K @ beta + D * beta - t
        value = 0.5 * beta @ (K @ beta + D * beta) - t @ beta + kink @ (v[:n] + v[n:])
        return value, np.concatenate([g + kink, -g + kink])

    row = np.concatenate([np.ones(n), -np.ones(n)])
    limits = [(0.0, hi) for hi in big] + [(0.0, -lo) for lo in small]
    start = np.concatenate([np.full(n, problem.total / n), np.zeros(n)])
    solution = minimize(
        objective,
        start,
        jac=True,
        bounds=limits,
        constraints=LinearConstraint(row, problem.total, problem.total),
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return solution.x[:n] - solution.x[n:], solution.fun


def split(target, kink, lower, upper):
    """beta = u * (p - m) with 0 <= p, m <= 1: which row each variable moves, how far, and its linear cost."""
    up, down = np.flatnonzero(upper > 0.0), np.flatnonzero(lower < 0.0)
    row = np.concatenate([up, down])
    reach = np.concatenate([upper[up], lower[down]])
    return row, reach, -target[row] * reach + kink * np.abs(reach)


def interior_point(K, target, kink, bounds, total):
    """Minimum of 1/2 beta K beta - target beta + kink |beta| in a box, with sum(beta) = total: (objective, its error).

    A primal-dual interior-point method in plain numpy; K is positive semi-definite, the box holds zero. The error is
    the method's own duality gap, with what its equations are off.
    """
    row, reach, c = split(target, kink, *bounds)
    Q = K[np.ix_(row, row)] * np.outer(reach, reach)
    unit = max(np.abs(c).max(), np.abs(Q).max(), 1e-300)
    a, d = reach / np.abs(reach).max(), total / np.abs(reach).max()
    Q, c, n = Q / unit, c / unit, len(row)
    x, z, w, y = np.full(n, 0.5), np.ones(n), np.ones(n), 0.0
    for _ in range(100):
        t = 1.0 - x
        mu = (x @ z + t @ w) / (2 * n)
        dual, primal = Q @ x + c - a * y - z + w, d - a @ x
        value = float(0.5 * x @ Q @ x + c @ x)
        error = 2 * n * mu + np.abs(dual) @ x + abs(primal * y)
        if error <= 1e-9 * abs(value) or error < 1e-18:
            break
        aim = 0.1 * mu
        M = np.block([[Q + np.diag(z / x + w / t), -a[:, None]], [a[None], np.zeros((1, 1))]])
        try:
            step = np.linalg.solve(M, np.append(-dual + aim / x - z - aim / t + w, primal))
        except np.linalg.LinAlgError:  # rounding allows no more
            break
        dx, dy = step[:n], step[n]
        dz, dw = (aim - z * dx) / x - z, (aim + w * dx) / t - w
        at, by = np.concatenate([x, t, z, w]), np.concatenate([dx, -dx, dz, dw])
        length = min(1.0, 0.99 * np.min(at[by < 0.0] / -by[by < 0.0], initial=np.inf))
        x, y, z, w = x + length * dx, y + length * dy, z + length * dz, w + length * dw
    return unit * value, unit * error
