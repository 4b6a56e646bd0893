"""Kernel machines in files: ours, LIBSVM's, and by the command line."""

import json

import numpy as np
import pytest
from machines import rows, targets
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

import maxmargin
from maxmargin import SVC, SVR, OneClassSVM, load
from maxmargin.cli import main
from maxmargin.models.predictor import open_model
from maxmargin.solvers.kernel.smo import SMO

CASES = [(SVC, 2), (SVC, 3), (SVR, 0), (OneClassSVM, 0)]
every_case = pytest.mark.parametrize(("kind", "classes"), CASES, ids=["two", "three", "regression", "one-class"])


def data(kind, classes, n=90):
    X, y = rows(n)
    y = targets(X) if kind is SVR else y.astype(int) if classes != 3 else np.digitize(X[:, 0], [-0.5, 0.5])
    return X, y


def fitted(kind, classes, storage=np.asarray, **options):
    X, y = data(kind, classes)
    return kind(tol=1e-6, **options).fit(storage(X), y), X


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@every_case
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_a_model_comes_back_as_it_was(kind, classes, storage, tmp_path):
    model, X = fitted(kind, classes, storage, solver=SMO(shrinking=False))
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert type(back) is kind
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(values(back, X), values(model, X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    for name in ("support_", "n_support_", "intercept_", "shape_fit_", "n_iter_", "stop_reason_", "fit_status_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert back.certificate_ == model.certificate_
    as_list = model.certificate_ if classes == 3 else [model.certificate_]
    again = back.certificate_ if classes == 3 else [back.certificate_]
    assert [c.relative_gap for c in again] == [c.relative_gap for c in as_list]
    bare = open_model(tmp_path / "m")
    np.testing.assert_array_equal(bare.predict(X), model.predict(X))
    if classes:
        np.testing.assert_allclose(bare.decision_function(X), values(model, X), atol=1e-12)


def test_probabilities_come_back(tmp_path):
    model, X = fitted(SVC, 3, probability=True)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


@every_case
def test_a_precomputed_kernel_is_its_support_vectors_places(kind, classes, tmp_path):
    X, y = data(kind, classes)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model = kind(kernel="precomputed", tol=1e-6).fit(K, y)
    model.save(tmp_path / "m")
    back, bare = load(tmp_path / "m"), open_model(tmp_path / "m")
    assert back.get_params() == model.get_params()
    assert back.certificate_ == model.certificate_
    np.testing.assert_array_equal(back.support_, model.support_)
    new = K[:7] + 0.01
    for some in (back, bare):
        np.testing.assert_array_equal(some.predict(new), model.predict(new))
        np.testing.assert_allclose(values(some, new), values(model, new), atol=1e-12)
    with pytest.raises(ValueError, match="90"):
        back.predict(K[:, :50])


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    X, y = data(SVC, 2)
    for options, match in (
        ({"kernel": lambda A, B: A @ B.T}, "a function"),
        ({"solver": "fourier"}, "fourier"),
    ):
        with pytest.raises(TypeError, match=match):
            SVC(**options).fit(X, y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="no form in LIBSVM"):
        SVC(kernel="precomputed").fit(X @ X.T, y).export_libsvm(tmp_path / "m")
    with pytest.raises(ValueError, match="against the rest"):
        SVC(multi_class="ovr").fit(*data(SVC, 3)).export_libsvm(tmp_path / "m")


@pytest.mark.parametrize(
    ("kind", "classes", "storage", "kernel"),
    [(*case, storage, "rbf") for case in CASES for storage in (np.asarray, csr_matrix)]
    + [(SVC, 2, np.asarray, kernel) for kernel in ("poly", "linear", "sigmoid")],
)
def test_libsvm_reads_what_we_write_and_we_what_it_writes(kind, classes, storage, kernel, tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil", reason="libsvm-official is not installed")
    options = {"coef0": 0.5, "degree": 2} if kernel in ("poly", "sigmoid") else {}
    model, X = fitted(kind, classes, storage, kernel=kernel, gamma=0.05, **options)
    path = str(tmp_path / "libsvm.model")
    model.export_libsvm(path)
    theirs = svmutil.svm_load_model(path)
    labels, _, decisions = svmutil.svm_predict([0] * len(X), [dict(enumerate(x, 1)) for x in X], theirs, "-q")
    if kind is SVC:
        np.testing.assert_array_equal(labels, model.predict(X))
        model.decision_function_shape = "ovo"
        ours = model.decision_function(X)
        np.testing.assert_allclose(np.squeeze(decisions), ours, atol=1e-9)
    else:
        np.testing.assert_allclose(np.ravel(decisions), values(model, X), atol=1e-9)
    back = load(path)
    assert type(back) is kind
    np.testing.assert_array_equal(back.predict(X), model.predict(X)) if kind is not SVR else None
    trained = svmutil.svm_train(
        [int(label) for label in model.predict(X)] if classes else [0.0] * len(X),
        [dict(enumerate(x, 1)) for x in X],
        f"-s {0 if classes else 2} -t {['linear', 'poly', 'rbf', 'sigmoid'].index(kernel)} -g 0.05 -r 0.5 -d 2 -q",
    )
    svmutil.svm_save_model(path, trained)
    labels, _, _ = svmutil.svm_predict([0] * len(X), [dict(enumerate(x, 1)) for x in X], trained, "-q")
    agree = np.mean(load(path).predict(X) == labels)
    assert agree == 1.0 if classes else agree > 0.9  # rows on the border of one class may fall to either side


def command(*arguments):
    return main([str(each) for each in arguments])


@every_case
def test_the_command_line_trains_predicts_and_tells(kind, classes, tmp_path, capsys):
    X, y = data(kind, classes)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    kinds = {SVC: 0, SVR: 3, OneClassSVM: 2}
    model = tmp_path / "model"
    assert command("train", "-s", kinds[kind], "-t", 2, "-g", 0.5, "-c", 8, "-e", 1e-6, "-p", 0.05, "--json",
                   tmp_path / "data", model) == 0  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert report["relative_gap"] <= 1e-6
    own = {SVC: {"C": 8.0}, SVR: {"C": 8.0, "epsilon": 0.05}, OneClassSVM: {"nu": 0.5}}[kind]
    reference = kind(gamma=0.5, tol=1e-6, **own).fit(csr_matrix(X), y)
    certificates = reference.certificate_ if classes == 3 else [reference.certificate_]
    assert report["primal"] == pytest.approx(sum(c.primal for c in certificates), rel=1e-5)
    assert report["support_vectors"] == len(reference.support_)
    assert command("predict", tmp_path / "data", model, tmp_path / "out", "-q") == 0
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), reference.predict(X), atol=1e-4)
    capsys.readouterr()
    if kind is not OneClassSVM:
        assert command("evaluate", tmp_path / "data", model) == 0
    assert command("info", model) == 0
    assert "RBF(gamma=0.5)" in capsys.readouterr().out
    assert command("convert", model, tmp_path / "libsvm") == 0
    assert (tmp_path / "libsvm").read_text().startswith("svm_type ")
    assert command("info", tmp_path / "libsvm") == 0
    assert command("predict", tmp_path / "data", tmp_path / "libsvm", tmp_path / "out2", "-q") == 0
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out2"), reference.predict(X), atol=1e-4)


def test_options_that_do_not_go_together(tmp_path, capsys):
    X, y = data(SVC, 2)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    for wrong, message in (
        (["-t", "2", "--loss", "hinge"], "does not go with -t"),
        (["-t", "2", "-s", "1"], "nu-SVC is not offered"),
        (["-t", "2", "--solver", "ocas"], "unknown solver"),
        (["--libsvm"], "choose a kernel"),
        (["-t", "2", "-s", "3", "-w1", "2"], "has no classes"),
    ):
        assert command("train", *wrong, tmp_path / "data", tmp_path / "m") == 2
        assert message in capsys.readouterr().err
    assert command("train", "-t", "rbf", "-v", 3, "-q", tmp_path / "data") == 0
    assert command("train", "-t", "rbf", "--libsvm", "-q", tmp_path / "data", tmp_path / "m") == 0
    assert isinstance(maxmargin.load(tmp_path / "m"), SVC)
