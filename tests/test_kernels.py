"""`kernels.py`: values against scikit-learn's, in every storage and precision; the fast exponential; errors."""

import os
import subprocess
import sys

import numpy as np
import pytest
import samples
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from maxmargin import kernels
from maxmargin._jit import JIT_DISABLED, compiled
from maxmargin.data.rows import as_rows, n_rows, row_norm2
from maxmargin.kernels import RBF, Double, Linear, Polynomial, Sigmoid, Single

FUNCTIONS = [RBF(0.3), Linear(), Polynomial(3, 0.5, 1.0), Polynomial(1, 2.0, -0.5), Sigmoid(0.1, 0.2)]
STORAGES = {"dense": np.asarray, "csr": samples.csr}

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=str)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def expected(function, X, Z):
    """scikit-learn's matrix of kernel values."""
    parameters = function._asdict()
    return pairwise.pairwise_kernels(X, Z, metric=kernels.name_of(function), **parameters)


def data(n=40, n_support=37, n_features=7):
    X, _ = samples.sample("hinge", n_rows=n, n_features=n_features, seed=1)
    Z, _ = samples.sample("hinge", n_rows=n_support, n_features=n_features, seed=2)
    Z[11] = X[9]
    return X, Z


# ---------------------------------------------------------------- the exponential


@compiled
def _exponentials(precision, x, out):
    for i in range(len(x)):
        out[i] = kernels.exp(precision, x[i])


@pytest.mark.parametrize(
    ("precision", "dtype", "lowest", "tolerance"),
    [(Single(), np.float32, -77.9, 2e-7), (Double(), float, -699.9, 4e-16)],
)
def test_exponential_is_accurate(precision, dtype, lowest, tolerance):
    n = 2_000 if JIT_DISABLED else 500_000
    x = np.concatenate([np.linspace(lowest, 0.0, n), -np.logspace(-12, 0, n // 10)]).astype(dtype)
    out = np.empty_like(x)
    _exponentials(precision, x, out)
    true = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(out / true - 1)) < tolerance + np.finfo(dtype).eps / 2


@pytest.mark.parametrize(("precision", "dtype"), [(Single(), np.float32), (Double(), float)])
def test_exponential_at_its_ends(precision, dtype):
    out = np.empty(4, dtype)
    _exponentials(precision, np.array([0.0, -0.0, -1e6, -np.inf], dtype), out)
    assert out[0] == out[1] == 1.0
    assert np.all(out[2:] == 0.0)


@pytest.mark.parametrize(("precision", "dtype"), [(Single(), np.float32), (Double(), float)])
def test_exponential_is_never_so_small_that_products_with_it_are_slow(precision, dtype):
    x = np.linspace(-1000.0, -50.0, 4001).astype(dtype)
    out = np.empty_like(x)
    _exponentials(precision, x, out)
    assert np.all((out == 0.0) | (out > 1e3 * np.finfo(dtype).tiny))
    assert np.all(np.diff(out) >= 0.0)


# ---------------------------------------------------------------- kernel values


@pytest.mark.parametrize(
    ("function", "dtype", "store"),
    [(function, dtype, dtype) for function in FUNCTIONS for dtype in (np.float32, np.float64)]
    + [(RBF(0.3), np.float32, np.float64), (RBF(0.3), np.float64, np.float32)],
    ids=lambda part: str(getattr(part, "__name__", part)),
)
@every_storage
@pytest.mark.parametrize("n_features", [1, 4, 7])
def test_matrix_is_that_of_scikit_learn(function, storage, dtype, store, n_features):
    X, Z = data(n_features=n_features)
    X = X.astype(dtype)
    rows, _ = as_rows(X if storage == "dense" else samples.csr(X, dtype=dtype))
    matrix = kernels.kernel_matrix(function, rows, kernels.as_support(Z, store), len(Z))
    assert matrix.dtype == store
    exact = expected(function, X.astype(float), Z)
    single = np.float32 in (dtype, store)
    np.testing.assert_allclose(matrix, exact, rtol=1e-6 if single else 1e-13, atol=3e-6 if single else 1e-13)


def test_float32_rbf_is_accurate_to_a_millionth():
    """Where the distance itself is exact (values of few digits), what is left is the error of the exponential."""
    rng = np.random.default_rng(0)
    X, Z = (rng.integers(-8, 9, (50, 6)) / 8.0 for _ in range(2))
    matrix = kernels.kernel_matrix(RBF(0.25), as_rows(X)[0], kernels.as_support(Z, np.float32), 50)
    np.testing.assert_allclose(matrix, expected(RBF(0.25), X, Z), rtol=1e-6)


def test_kernel_of_a_vector_with_itself_is_one_and_never_more():
    X = np.random.default_rng(0).normal(size=(200, 9)) * 30.0
    for dtype in (np.float32, np.float64):
        matrix = kernels.kernel_matrix(RBF(1e-3), as_rows(X)[0], kernels.as_support(X, dtype), 200)
        assert matrix.max() <= 1.0
        rounding = 4.0 * np.finfo(dtype).eps * 1e-3 * np.max(np.sum(X**2, axis=1))
        np.testing.assert_allclose(np.diag(matrix), 1.0, atol=rounding)


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 10_000))
def test_every_number_of_support_vectors(n_features, n, seed):
    """Sweeps are padded: no place beyond the last vector may leak into a result, nor be left out of one."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(2, n_features)), rng.normal(size=(n, n_features))
    support = kernels.as_support(Z)
    matrix = kernels.kernel_matrix(RBF(0.2), as_rows(X)[0], support, n)
    np.testing.assert_allclose(matrix, expected(RBF(0.2), X, Z), rtol=1e-12)
    assert support.vectors.shape[1] % 32 == 16


@every_function
@every_storage
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_decisions_are_sums_of_kernel_values(function, storage, n_outputs):
    X, Z = data()
    rng = np.random.default_rng(3)
    coefficients, intercepts = rng.normal(size=(n_outputs, len(Z))), rng.normal(size=n_outputs)
    rows, _ = as_rows(STORAGES[storage](X))
    values = kernels.decision_values(function, rows, kernels.as_support(Z), coefficients, intercepts)
    np.testing.assert_allclose(values, expected(function, X, Z) @ coefficients.T + intercepts, rtol=1e-10, atol=1e-12)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    n = 32 if JIT_DISABLED else 300
    X, Z = rng.normal(size=(10 * n, 20)), rng.normal(size=(n, 20))
    rows, support = as_rows(X)[0], kernels.as_support(Z, np.float32)
    coefficients = rng.normal(size=(2, n))
    results = [kernels.decision_values(RBF(0.1), rows, support, coefficients, np.zeros(2), jobs) for jobs in (1, 2, 3)]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    assert JIT_DISABLED or len(kernels.support._blocks(rows, n)) > 3


@every_storage
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_are_set_moved_and_measured(storage, dtype):
    X, _ = data()
    rows, norms2 = as_rows(STORAGES[storage](X))
    support = kernels.new_support(X.shape[1], 5, dtype)
    support.vectors[:] = 7.0  # a sparse row must overwrite the features that it lacks, too
    for i in range(n_rows(rows)):
        kernels.set_vector(rows, i, row_norm2(rows, i), support, i % 5)
    np.testing.assert_array_equal(support.vectors[:, :5].T, X[-5:].astype(dtype))
    np.testing.assert_array_equal(support.norms2[:5], norms2[-5:].astype(dtype))
    kernels.move_vector(support, 3, 1)
    np.testing.assert_array_equal(support.vectors[:, 1], X[-2].astype(dtype))
    assert support.norms2[1] == support.norms2[3]


def test_precision_follows_the_length_of_the_rows():
    """Rows far from the origin and close to each other: float32 would see no difference between them."""
    assert kernels.precision_for(RBF(1.0), 100.0) is np.float32
    X = 3000.0 + np.random.default_rng(0).normal(size=(20, 3))
    rows, norms2 = as_rows(X)
    dtype = kernels.precision_for(RBF(1.0), norms2.max())
    assert dtype is np.float64
    matrix = kernels.kernel_matrix(RBF(1.0), rows, kernels.as_support(X, dtype), 20)
    np.testing.assert_allclose(matrix, expected(RBF(1.0), X - 3000.0, X - 3000.0), rtol=1e-6)


# ---------------------------------------------------------------- names and errors


def test_names_and_objects():
    for name in kernels.names():
        assert kernels.name_of(kernels.get(name)) == name
        assert kernels.get(kernels.get(name)) == kernels.get(name)
    assert kernels.get("poly", gamma=2, degree=2, coef0=1) == Polynomial(2, 2.0, 1.0)
    assert type(kernels.get(RBF(2)).gamma) is float


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        ("gauss", {}, "unknown kernel 'gauss'; choose one of rbf, linear, poly, sigmoid"),
        ("sigmoidal", {}, r"unknown kernel 'sigmoidal' \(did you mean \"sigmoid\"\?\); choose one of rbf"),
        (3, {}, "kernel must be a name"),
        ("rbf", {"gamma": 0.0}, "gamma must be positive"),
        ("rbf", {"gamma": np.inf}, "gamma must be a finite number"),
        (RBF("scale"), {}, "gamma must be a finite number"),
        ("poly", {"degree": 2.5}, "degree must be a positive integer"),
        ("poly", {"degree": 0}, "degree must be a positive integer"),
        ("sigmoid", {"coef0": np.nan}, "coef0 must be a finite number"),
    ],
)
def test_bad_parameters_are_named(function, parameters, message):
    with pytest.raises(ValueError, match=message):
        kernels.get(function, **parameters)


def test_other_features_are_refused():
    X, Z = data()
    with pytest.raises(ValueError, match="the rows have 6 features, the support vectors 7"):
        kernels.kernel_matrix(RBF(1.0), as_rows(X[:, 1:])[0], kernels.as_support(Z), len(Z))


@pytest.mark.skipif(JIT_DISABLED, reason="is the plain Python run itself")
def test_plain_python_gives_the_same():
    program = """
import sys, warnings
warnings.simplefilter("error")
import numpy as np, samples
from maxmargin import kernels
from maxmargin.data.rows import as_rows
X, _ = samples.sample("hinge", n_rows=9)
for store in (np.float32, np.float64):
    for function in (kernels.RBF(0.3), kernels.Polynomial(2, 1.0, 1.0), kernels.Sigmoid(0.1, 0.0)):
        for make in (np.asarray, samples.csr):
            matrix = kernels.kernel_matrix(function, as_rows(make(X))[0], kernels.as_support(X, store), 9)
            sys.stdout.buffer.write(matrix.astype(float).tobytes())
"""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    plain, compiled = (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=100, env=environment | extra, check=True
        ).stdout
        for extra in ({"NUMBA_DISABLE_JIT": "1"}, {})
    )
    assert len(plain) == 12 * 81 * 8
    np.testing.assert_allclose(np.frombuffer(plain), np.frombuffer(compiled), rtol=1e-6, atol=1e-6)


@every_storage
@pytest.mark.parametrize("n_features", [3, 9])
def test_products_of_a_group_are_those_of_its_rows(storage, n_features):
    rng = np.random.default_rng(n_features)
    X, Z = rng.normal(size=(6, n_features)), rng.normal(size=(5, n_features))
    X[rng.random(X.shape) < 0.3] = 0.0
    rows, support = as_rows(STORAGES[storage](X))[0], kernels.as_support(Z)
    for chosen in ([4, 0, 5, 2], [3, 3, 3, 3], [1, 2, 2, 2]):
        out = np.full((kernels.GROUP, kernels.padded(5)), np.nan)
        kernels.products_of_group(rows, np.array(chosen), support.vectors, kernels.padded(5), out)
        known = [r for r in range(kernels.GROUP) if storage == "dense" or r == 0 or chosen[r] != chosen[r - 1]]
        np.testing.assert_allclose(out[known, :5], (X[chosen] @ Z.T)[known], atol=1e-12)
    for i, j in ((0, 0), (5, 4)):
        np.testing.assert_allclose(kernels.product_with(rows, i, support.vectors, j), X[i] @ Z[j], atol=1e-12)
