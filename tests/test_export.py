"""Exported models say what our own say: ONNX in ONNX Runtime, C source compiled."""

import pickle
import shutil
import subprocess

import joblib
import numpy as np
import onnxruntime
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    SVC,
    SVCCV,
    SVR,
    BudgetSVC,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    OneClassSVM,
    OnlineSVC,
    StructuralSVC,
    load,
    save_svmlight,
)
from maxmargin.cli import main
from maxmargin.export import machine_of, to_c, to_onnx

TWO = make_classification(n_samples=400, n_features=6, flip_y=0.1, random_state=0)
THREE = load_iris(return_X_y=True)
NAMES = THREE[0], np.array(["setosa", 'vers"i\\color?', "virginia @model_ \u00fc"])[THREE[1]]
TARGETS = TWO[0], TWO[0] @ np.arange(6.0) + np.sin(TWO[0][:, 0])

MODELS = {
    "linear": (LinearSVC(C=0.1), TWO),
    "linear of three classes": (LinearSVC(C=0.1, penalize_intercept=False), NAMES),
    "logistic": (LinearSVC(loss="logistic"), TWO),
    "logistic of three classes": (LinearSVC(loss="logistic"), NAMES),
    "selected": (LinearSVCCV(Cs=2, cv=2), TWO),
    "regressor": (LinearSVR(epsilon=0.1), TARGETS),
    "online": (OnlineSVC(max_iter=3), (TWO[0], np.where(TWO[1] == 1, 7.0, -1.0))),
    "structural": (StructuralSVC(), TWO),
    "rbf": (BudgetSVC(C=10.0, budget=40, gamma=0.3), TWO),
    "rbf of three classes": (BudgetSVC(budget=30), NAMES),
    "polynomial": (BudgetSVC(kernel="poly", degree=2, coef0=1.0, gamma=0.2, maintenance="remove", budget=20), TWO),
    "sigmoid": (BudgetSVC(kernel="sigmoid", gamma=0.05, maintenance="remove", budget=20), TWO),
    "exact": (SVC(C=10.0, gamma=0.3), TWO),
    "exact of three classes": (SVC(), NAMES),
    "exact, ties broken": (SVC(break_ties=True, kernel="poly", degree=2), THREE),
    "exact, selected": (SVCCV(Cs=[1.0, 10.0], gammas=[0.1, 0.3], cv=2), TWO),
    "exact pairs": (SVC(decision_function_shape="ovo", kernel="linear"), THREE),
    "exact against the rest": (SVC(multi_class="ovr"), THREE),
    "exact of sparse rows": (SVC(), (csr_matrix(THREE[0]), THREE[1])),
    "exact regressor": (SVR(epsilon=0.1, C=10.0), TARGETS),
    "exact one-class": (OneClassSVM(nu=0.2, gamma=0.2), (TWO[0], None)),
    "linear kernel": (BudgetSVC(kernel="linear", maintenance="remove", budget=20), TWO),
}


@pytest.fixture(scope="module", params=MODELS, ids=lambda name: name.replace(" ", "-"))
def fitted(request):
    estimator, (X, y) = MODELS[request.param]
    return estimator.fit(X, y), X.toarray() if hasattr(X, "toarray") else X


def outputs_of(model, X):
    return model.predict(X) if isinstance(model, (LinearSVR, SVR)) else model.decision_function(X)


def exact_outputs(model, X):
    """The same in double precision, from the definition; kernel models of ours may compute in single precision."""
    if not isinstance(model, BudgetSVC):
        return outputs_of(model, X)
    named = {"rbf": rbf_kernel, "poly": polynomial_kernel, "sigmoid": sigmoid_kernel, "linear": linear_kernel}
    values = named[model.kernel](X, model.support_vectors_.astype(float), **model.kernel_._asdict())
    found = values @ model.dual_coef_.T + model.intercept_
    return found.ravel() if found.shape[1] == 1 else found


def run_onnx(model, X, number=np.float32):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(number)})))


def undecided(outputs, size=1e-4):
    """Rows whose class rounding may change."""
    if outputs.ndim == 1:
        return np.abs(outputs) < size
    best = np.sort(outputs, axis=1)
    return best[:, -1] - best[:, -2] < size


@pytest.mark.parametrize(("number", "precision"), [("float32", 1e-5), ("float64", 1e-12)])
def test_onnx_says_what_we_say(fitted, number, precision):
    model, X = fitted
    X = X.astype(np.float32).astype(float)  # the same rows for both
    found, expected = run_onnx(model.to_onnx(dtype=number), X, np.dtype(number)), exact_outputs(model, X)
    scale = max(1.0, np.abs(expected).max())
    if isinstance(model, (LinearSVR, SVR)):
        assert np.abs(found["value"] - expected).max() <= precision * scale
        return
    assert found["decision"].shape == expected.shape
    assert np.abs(found["decision"] - expected).max() <= precision * scale
    sure = ~undecided(expected)
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(found["label"][sure], model.predict(X)[sure])
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_says_what_we_say(fitted, tmp_path):
    model, X = fitted
    model.to_c(tmp_path / "model.c")
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", "-O1", *warnings, "-DMODEL_MAIN", "model.c", "-lm"], cwd=tmp_path, check=True)
    text = "\n".join(" ".join(map(repr, row)) for row in X.tolist())
    ran = subprocess.run([tmp_path / "a.out"], input=text, capture_output=True, check=True, encoding="utf-8")
    n_outputs = len(machine_of(model).intercepts)
    lines = [line.rsplit(" ", n_outputs) for line in ran.stdout.splitlines()]
    found = np.array([line[1:] for line in lines], dtype=float)
    expected = (model._outputs(X) if isinstance(model, SVC) else exact_outputs(model, X)).reshape(len(X), -1)
    terms = np.abs(model.dual_coef_).sum() if hasattr(model, "dual_coef_") else 0.0  # that outputs are sums of
    np.testing.assert_allclose(found, expected, atol=1e-12 * max(1.0, np.abs(expected).max(), terms))
    if not isinstance(model, (LinearSVR, SVR)):
        sure = ~undecided(outputs_of(model, X))
        labels = np.array([line[0] for line in lines])[sure]
        np.testing.assert_array_equal(labels.astype(model.predict(X).dtype), model.predict(X)[sure])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_has_sparse_rows_probabilities_and_a_name(tmp_path):
    X, y = THREE
    model = LinearSVC(loss="logistic").fit(X, y)
    caller = """
    #include <stdio.h>
    #include "iris.c"
    int main(void) {
        const int index[] = {1, 3}; const double value[] = {3.0, 0.5}, x[] = {0.0, 3.0, 0.0, 0.5};
        double out[IRIS_OUTPUTS], p[IRIS_CLASSES];
        iris_decision_sparse(2, index, value, out);
        iris_probabilities(x, p);
        for (int c = 0; c < IRIS_CLASSES; c++) printf("%.17g %.17g\\n", out[c], p[c]);
        return 0;
    }
    """
    model.to_c(tmp_path / "iris.c", name="iris")
    (tmp_path / "main.c").write_text(caller)
    subprocess.run(["cc", "main.c", "-lm"], cwd=tmp_path, check=True)
    found = np.array(subprocess.check_output([tmp_path / "a.out"]).split(), dtype=float).reshape(-1, 2)
    row = [[0.0, 3.0, 0.0, 0.5]]
    np.testing.assert_allclose(found[:, 0], model.decision_function(row)[0])
    np.testing.assert_allclose(found[:, 1], model.predict_proba(row)[0])


PIPED = [LinearSVC(C=0.1), LinearSVC(loss="logistic"), BudgetSVC(budget=20), SVC(), LinearSVR(), SVR()]


@pytest.mark.parametrize("model", PIPED, ids=lambda model: str(model))
def test_pipelines(model):
    X, y = TARGETS if isinstance(model, (LinearSVR, SVR)) else NAMES
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    X = X.astype(np.float32)
    first, *second = run_onnx(to_onnx(pipeline), X).values()
    if isinstance(model, (LinearSVR, SVR)):
        np.testing.assert_allclose(first.ravel(), pipeline.predict(X), rtol=0.0, atol=1e-5)
        return
    sure = ~undecided(pipeline.decision_function(X))
    np.testing.assert_array_equal(first[sure], pipeline.predict(X)[sure])
    expected = pipeline.predict_proba(X) if hasattr(model, "predict_proba") else pipeline.decision_function(X)
    np.testing.assert_allclose(second[0], expected, rtol=0.0, atol=1e-5)


def test_calibrated_classifiers():
    X, y = TWO
    calibrated = LinearSVC(C=0.1).calibrate(X, y)
    X = X.astype(np.float32)
    labels, probabilities = run_onnx(to_onnx(calibrated), X).values()
    np.testing.assert_allclose(probabilities, calibrated.predict_proba(X), atol=1e-5)
    sure = np.abs(probabilities[:, 1] - 0.5) > 1e-4
    np.testing.assert_array_equal(labels[sure], calibrated.predict(X)[sure])


def test_far_from_the_origin_float32_is_still_good_enough():
    X, y = TWO
    model = BudgetSVC(C=10.0, budget=40, gamma=0.3).fit(X + 100.0, y)
    moved = (X + 100.0).astype(np.float32)
    found = run_onnx(model.to_onnx(), moved)["decision"]
    assert np.abs(found - exact_outputs(model, moved)).max() <= 1e-5


def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_svmlight("two.svm", *TWO)
    assert main(["train", "-q", "two.svm", "two.model"]) == 0
    assert main(["export", "two.model", "two.onnx", "--dtype", "float64"]) == 0
    session = onnxruntime.InferenceSession("two.onnx", providers=["CPUExecutionProvider"])
    labels, decision = session.run(["label", "decision"], {"X": TWO[0]})
    np.testing.assert_array_equal(labels, load("two.model").predict(TWO[0]))
    np.testing.assert_allclose(decision, load("two.model").decision_function(TWO[0]), rtol=1e-12)
    assert main(["export", "two.model", "two.c", "--name", "spam"]) == 0
    assert "int spam_class(const double *x)" in (tmp_path / "two.c").read_text()
    assert main(["export", "two.model", "two.txt"]) == 2
    assert "must end in .onnx or .c" in capsys.readouterr().err
    assert main(["export", "two.svm", "two.c"]) == 1
    assert "not a model file" in capsys.readouterr().err


def test_what_cannot_be_exported():
    with pytest.raises(NotFittedError):
        LinearSVC().to_onnx()
    with pytest.raises(TypeError, match="not a StandardScaler"):
        to_c(StandardScaler().fit(TWO[0]))
    model = LinearSVC().fit(*TWO)
    with pytest.raises(ValueError, match='"float32" or "float64"'):
        model.to_onnx(dtype="int8")
    with pytest.raises(ValueError, match="one that C allows"):
        model.to_c(name="2 models")
    one = OnlineSVC().partial_fit(TWO[0], np.ones(len(TWO[0])))
    with pytest.raises(ValueError, match="single class"):
        machine_of(one)


def test_round_trips_of_pickle_joblib_and_skops(fitted, tmp_path):
    model, X = fitted
    joblib.dump(model, tmp_path / "model.joblib")
    skops.io.dump(model, tmp_path / "model.skops")
    trusted = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.split(".")[0] in ("maxmargin", "numpy", "scipy", "builtins") for name in trusted)
    again = [
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        skops.io.load(tmp_path / "model.skops", trusted=trusted),
    ]
    for other in again:
        np.testing.assert_array_equal(outputs_of(other, X), outputs_of(model, X))
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert repr(other) == repr(model)
