"""Our kernel machines beside LIBSVM's, as scikit-learn runs it: objectives in float64 by formulas of the tests.

LIBSVM keeps its matrix in float32, but for the diagonal. Its answer is the exact optimum of that rounded problem: ours,
trained on the rounded values, has the same coefficients to ten digits. In exact values its dual is right to rounding,
and its primal, which feels errors to the first order, is too large by up to 1e-4 where C is large.
"""

import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import sklearn.svm as peers
from machines import bounds, machine, matrix, rows
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import SVC, SVR, OneClassSVM, load_svmlight

OURS = {"svc": SVC, "svr": SVR, "one_class": OneClassSVM}
THEIRS = {"svc": peers.SVC, "svr": peers.SVR, "one_class": peers.OneClassSVM}


def solution(model, n):
    """Coefficients of all rows, and the intercept."""
    beta = np.zeros(n)
    coefficients = model.dual_coef_
    beta[model.support_] = (coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients)[0]
    return beta, model.intercept_[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["svc", "svr", "one_class"])
def test_libsvm_is_the_optimum_of_values_rounded_to_float32_and_ours_of_the_exact_ones(kind, seed):
    X, y = rows(200, seed=seed)
    C = 10.0 ** (seed - 1)
    problem = machine(kind, X, y, C, gamma=0.5)
    parameters = {"nu": 0.3} if kind == "one_class" else {"C": C}
    K = matrix(problem, X)
    rounded = K.astype(np.float32).astype(np.float64)
    np.fill_diagonal(rounded, np.diagonal(K))
    theirs = solution(THEIRS[kind](gamma=0.5, tol=1e-12, **parameters).fit(X, problem.y), 200)
    same = solution(OURS[kind](kernel="precomputed", tol=1e-12, **parameters).fit(rounded, problem.y), 200)
    exact = solution(OURS[kind](gamma=0.5, tol=1e-12, **parameters).fit(X, problem.y), 200)
    np.testing.assert_allclose(same[0], theirs[0], atol=1e-9 * np.abs(theirs[0]).max())
    assert same[1] == pytest.approx(theirs[1], abs=1e-10)

    (primal, dual), (their_primal, their_dual) = (bounds(problem, K, *found) for found in (exact, theirs))
    assert primal - dual <= 1e-11 * abs(primal)
    assert their_dual == pytest.approx(dual, rel=1e-9)
    assert dual <= their_primal <= primal + 2e-4 * abs(primal)
    assert exact[1] == pytest.approx(theirs[1], abs=1e-6)


# ---------------------------------------------------------------- real data


SETS = {  # name: (kind, C, gamma, rows at most, LIBSVM's tol)
    "a9a": ("svc", 1.0, 0.05, 12_000, 1e-6),
    "w8a": ("svc", 8.0, 0.1, 12_000, 1e-6),
    "ijcnn1": ("svc", 10.0, 1.0, 12_000, 1e-6),
    "phishing": ("svc", 8.0, 0.1, 11_055, 1e-6),
    "splice": ("svc", 1.0, 0.01, 1_000, 1e-8),
    "abalone": ("svr", 10.0, 0.5, 4_177, 1e-6),
}


def real_set(name, n):
    """The first rows of a set of the data folder."""
    folder = Path(os.environ.get("MAXMARGIN_DATA") or Path(__file__).parents[3] / "shared" / "data")
    path = folder / f"{name}.xz"
    if not path.is_file():
        pytest.skip(f"{name}.xz is not in {folder}: set MAXMARGIN_DATA")
    with lzma.open(path) as file:
        X, y = load_svmlight(file)
    return X[:n], y[:n]


def judge(kind, X, y, C, gamma, model):
    """Primal and dual of a fitted machine in float64, block by block."""
    beta, b = solution(model, len(y))
    support = np.flatnonzero(beta)
    f = np.concatenate(
        [
            pairwise_kernels(X[begin : begin + 2000], X[support], metric="rbf", gamma=gamma) @ beta[support]
            for begin in range(0, len(y), 2000)
        ]
    )
    half = 0.5 * beta @ f
    assert abs(beta.sum()) <= 1e-8 * np.abs(beta).sum()
    assert np.abs(beta).max() <= C
    if kind == "svc":
        assert np.all(beta * y >= 0.0)
        return half + C * np.maximum(0.0, 1.0 - y * (f + b)).sum(), np.abs(beta).sum() - half
    return half + C * np.maximum(0.0, np.abs(y - f - b) - 0.1).sum(), y @ beta - 0.1 * np.abs(beta).sum() - half


def compare(kind, X, y, C, gamma, their_tol):
    ours = OURS[kind](C=C, gamma=gamma, tol=1e-7).fit(X, y)
    theirs = THEIRS[kind](C=C, gamma=gamma, tol=their_tol, cache_size=1000).fit(X, y)
    (primal, dual), (their_primal, their_dual) = (judge(kind, X, y, C, gamma, model) for model in (ours, theirs))
    assert primal - dual <= 1e-7 * primal * (1.0 + 1e-6)
    assert their_dual == pytest.approx(dual, rel=1e-6)
    assert primal * (1.0 - 1e-7) <= their_primal <= primal * (1.0 + 1e-5)  # see the head of this file
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], rel=1e-4, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_same_objective_and_intercept_on_real_sets(name):
    kind, C, gamma, n, their_tol = SETS[name]
    X, y = real_set(name, n)
    if kind == "svc":
        y = np.where(y == y.max(), 1.0, -1.0)
    compare(kind, X, y, C, gamma, their_tol)


@pytest.mark.parametrize("kind", ["svc", "svr"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_same_objective_and_intercept_on_generated_rows(kind, sparse):
    X, y = rows(1500, 6, seed=3, sparse=sparse)
    y = machine(kind, X, y).y
    compare(kind, X, y, 10.0, 0.2, 1e-8)
