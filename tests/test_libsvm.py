"""LIBSVM's model files: what LIBSVM itself and a reader of its format make of ours."""

import importlib.util

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import LinearSVC
from maxmargin.cli import main
from maxmargin.estimators.budget import BudgetSVC
from maxmargin.models import is_libsvm, write_libsvm

KERNELS = [
    ("rbf", {"gamma": 0.7}),
    ("linear", {"maintenance": "remove"}),
    ("poly", {"maintenance": "remove", "gamma": 0.3, "degree": 2, "coef0": 0.5}),
    ("sigmoid", {"maintenance": "remove", "gamma": 0.1, "coef0": -0.25, "refit": False}),
]


def make(n=300, dtype=np.float64, seed=0):
    """Rows with zeros, an empty one among them, and classes -3 and 7, of which there are more."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.7)).astype(dtype)
    X[0] = 0.0
    return X, np.where(X[:, 0] ** 2 + X[:, 1] > 0.3, 7, -3)


def read(path):
    """Fields by name and the support vectors, by the description of the format alone."""
    head, _, tail = path.read_text().partition("SV\n")
    fields = {line.split()[0]: line.split()[1:] for line in head.splitlines()}
    rows = [line.split() for line in tail.splitlines()]
    vectors = np.zeros((len(rows), 4))
    for j, (_, *entries) in enumerate(rows):
        places = [int(entry.partition(":")[0]) for entry in entries]
        assert places == sorted(set(places))
        vectors[j, np.array(places, int) - 1] = [float(entry.partition(":")[2]) for entry in entries]
    return fields, np.array([float(row[0]) for row in rows]), vectors


def decisions(path, X):
    """svm_predict of LIBSVM: decision values, positive for the first label, and labels."""
    fields, coefficients, vectors = read(path)
    assert fields["svm_type"] == ["c_svc"]
    assert fields["nr_class"] == ["2"]
    assert int(fields["total_sv"][0]) == len(vectors) == sum(map(int, fields["nr_sv"]))
    parameters = {name: float(fields[name][0]) for name in ("gamma", "coef0", "degree") if name in fields}
    kernel = fields["kernel_type"][0]
    values = pairwise_kernels(X, vectors, metric=kernel, **parameters) @ coefficients - float(fields["rho"][0])
    labels = np.array(list(map(int, fields["label"])))
    return values, labels[(values <= 0.0).astype(int)]


@pytest.mark.parametrize(
    ("kernel", "parameters", "dtype"),
    [*((*kernel, np.float64) for kernel in KERNELS), (*KERNELS[0], np.float32)],
)
def test_a_reader_of_the_format_predicts_the_same(kernel, parameters, dtype, tmp_path):
    X, y = make(dtype=dtype)
    clf = BudgetSVC(kernel=kernel, budget=20, max_iter=3, **parameters).fit(X, y)
    clf.export_libsvm(tmp_path / "model")
    values, labels = decisions(tmp_path / "model", X)
    expected = clf.decision_function(X)
    scale = np.abs(clf.dual_coef_).sum()
    np.testing.assert_allclose(values, expected, atol=2e-6 * scale)
    clear = np.abs(expected) > 1e-5 * scale
    assert clear.sum() > 200
    np.testing.assert_array_equal(labels[clear], clf.predict(X)[clear])


def test_every_number_is_read_back_as_it_was(tmp_path):
    X, y = make()
    clf = BudgetSVC(budget=400, gamma=0.7).fit(X, y)  # room for all rows: float64
    write_libsvm(tmp_path / "model", clf)
    fields, coefficients, vectors = read(tmp_path / "model")
    assert clf.support_vectors_.dtype == np.float64
    order = np.argsort(clf.dual_coef_[0] <= 0.0, kind="stable")
    np.testing.assert_array_equal(vectors, clf.support_vectors_[order])
    np.testing.assert_array_equal(coefficients, clf.dual_coef_[0][order])
    assert -float(fields["rho"][0]) == clf.intercept_[0]
    assert float(fields["gamma"][0]) == 0.7
    assert fields["label"] == ["7", "-3"]
    assert int(fields["nr_sv"][0]) == (clf.dual_coef_ > 0.0).sum()


@pytest.mark.skipif(importlib.util.find_spec("libsvm") is None, reason="needs libsvm-official")
@pytest.mark.parametrize(("kernel", "parameters"), KERNELS)
def test_libsvm_predicts_the_same(kernel, parameters, tmp_path):
    from libsvm.svmutil import svm_load_model, svm_predict

    X, y = make()
    clf = BudgetSVC(kernel=kernel, budget=20, max_iter=3, **parameters).fit(X, y)
    clf.export_libsvm(tmp_path / "model")
    labels, _, values = svm_predict([], X, svm_load_model(str(tmp_path / "model")), "-q")
    scale = np.abs(clf.dual_coef_).sum()
    np.testing.assert_allclose(np.ravel(values), clf.decision_function(X), atol=2e-6 * scale)
    clear = np.abs(np.ravel(values)) > 1e-5 * scale
    np.testing.assert_array_equal(np.array(labels)[clear], clf.predict(X)[clear])


def test_what_has_no_form_is_refused_and_nothing_is_written(tmp_path):
    X, y = make()
    path = tmp_path / "model"
    with pytest.raises(ValueError, match="each class against the rest"):
        BudgetSVC(budget=20).fit(X, np.arange(len(X)) % 3).export_libsvm(path)
    with pytest.raises(ValueError, match="integers of 32 bits"):
        BudgetSVC(budget=20).fit(X, np.where(y == 7, "yes", "no")).export_libsvm(path)
    with pytest.raises(ValueError, match="integers of 32 bits"):
        BudgetSVC(budget=20).fit(X, np.where(y == 7, 2**40, 0)).export_libsvm(path)
    with pytest.raises(ValueError, match=r"a LinearSVC is not.*write_liblinear"):
        write_libsvm(path, LinearSVC().fit(X, y))
    assert not path.exists()


def test_the_command_line_converts_kernel_models(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = make()
    clf = BudgetSVC(budget=20, gamma=0.7).fit(X, y)
    clf.save("ours")
    clf.export_libsvm(tmp_path / "theirs")
    assert main(["convert", "ours", "converted"]) == 0
    assert (tmp_path / "converted").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert is_libsvm("converted")
    assert not is_libsvm("ours")
    assert main(["convert", "ours", "converted"]) == 0  # over a model, which it is
    (tmp_path / "letter").write_text("not a model")
    assert main(["convert", "ours", "letter"]) == 1
    assert "is not a model" in capsys.readouterr().err
