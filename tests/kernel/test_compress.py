"""Machines with fewer support vectors, and whether what is told of their loss is true."""

import numpy as np
import pytest
import sklearn.svm as peers
from machines import rows, targets
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin
from maxmargin import SVC, SVR, OneClassSVM


def dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def data(n=240):
    X, y = rows(n)
    return X, y, np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])


@pytest.mark.parametrize("package", [maxmargin, peers], ids=["ours", "scikit-learn"])
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_the_distance_told_is_the_distance(package, storage):
    X, y, _ = data()
    X = storage(X)
    model = package.SVC(C=2.0, gamma=0.3).fit(X[:160], y[:160])
    distances = []
    for budget in (10, 30, 1000):
        small = maxmargin.compress(model, budget, X[160:], y[160:])
        assert isinstance(small, SVC)
        told = small.compression_
        assert told.n_after == len(small.support_) <= budget
        Z, S = (dense(m.support_vectors_) for m in (model, small))
        b, c = (dense(m.dual_coef_)[0] for m in (model, small))
        whole = b @ rbf_kernel(Z, Z, 0.3) @ b
        apart = whole + c @ rbf_kernel(S, S, 0.3) @ c - 2.0 * b @ rbf_kernel(Z, S, 0.3) @ c
        assert told.distance == pytest.approx(np.sqrt(max(apart, 0.0) / whole), abs=1e-5)
        assert told.score_before == model.score(X[160:], y[160:])
        assert told.score_after == small.score(X[160:], y[160:])
        assert told.agreement == np.mean(model.predict(X[160:]) == small.predict(X[160:]))
        distances.append(told.distance)
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-5
    np.testing.assert_allclose(small.decision_function(X), model.decision_function(X), atol=1e-5)


def test_several_classes_regression_and_one_class():
    X, _, classes = data()
    model = SVC(C=2.0).fit(X, classes)
    small = maxmargin.compress(model, 60, X)
    assert small.n_support_.sum() == len(small.support_) == 60
    assert small.compression_.agreement > 0.9
    assert small.compression_.score_after is None
    reg = SVR(C=5.0).fit(X, targets(X))
    assert maxmargin.compress(reg, 60, X, targets(X)).compression_.score_after > 0.9
    one = OneClassSVM(nu=0.3).fit(X)
    assert maxmargin.compress(one, 30, X).compression_.agreement > 0.8


def test_a_small_machine_is_saved_like_others(tmp_path):
    X, y, _ = data()
    small = maxmargin.compress(SVC().fit(X, y), 20)
    small.save(tmp_path / "m")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "m").predict(X), small.predict(X))


def test_errors():
    X, y, _ = data(40)
    with pytest.raises(TypeError, match="compress takes SVC"):
        maxmargin.compress(maxmargin.LinearSVC().fit(X, y), 5)
    with pytest.raises(ValueError, match="budget must be"):
        maxmargin.compress(SVC().fit(X, y), 0)
    with pytest.raises(ValueError, match="kernel with a name"):
        maxmargin.compress(SVC(kernel="precomputed").fit(X @ X.T, y), 5)
