"""LIBSVM's model files: what LIBSVM itself and a reader of its format make of ours."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from maxmargin import LinearSVC, load
from maxmargin.cli import main
from maxmargin.estimators.budget import BudgetSVC
from maxmargin.models import ModelFileError, is_libsvm, write_libsvm
from maxmargin.models.predictor import open_model

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


@pytest.mark.parametrize(("kernel", "parameters"), KERNELS)
def test_libsvm_predicts_the_same(kernel, parameters, tmp_path):
    """LIBSVM's own code, as scikit-learn has it inside, given what stands in the file."""
    from sklearn.svm import _libsvm

    X, y = make()
    clf = BudgetSVC(kernel=kernel, budget=20, max_iter=3, **parameters).fit(X, y)
    clf.export_libsvm(tmp_path / "model")
    fields, coefficients, vectors = read(tmp_path / "model")
    number = {name: float(fields.get(name, [0.0])[0]) for name in ("gamma", "coef0", "degree")}
    values = _libsvm.decision_function(
        X,
        np.arange(len(vectors), dtype=np.int32),
        vectors,
        np.array(fields["nr_sv"], dtype=np.int32),
        coefficients[np.newaxis],
        np.array([-float(fields["rho"][0])]),
        np.empty(0),
        np.empty(0),
        svm_type=0,
        kernel=kernel,
        degree=int(number["degree"]),
        gamma=number["gamma"],
        coef0=number["coef0"],
    )
    scale = np.abs(clf.dual_coef_).sum()
    np.testing.assert_allclose(np.ravel(values), clf.decision_function(X), atol=2e-6 * scale)


# ---------------------------------------------------------------- models that LIBSVM has trained


def written_as_libsvm_does(machine, path):
    """What svm-train would write of a machine of scikit-learn, which is LIBSVM's."""
    kind = {SVC: "c_svc", NuSVC: "nu_svc", SVR: "epsilon_svr", OneClassSVM: "one_class"}[type(machine)]
    names = {"rbf": "rbf", "linear": "linear", "poly": "polynomial", "sigmoid": "sigmoid"}
    lines = [f"svm_type {kind}", f"kernel_type {names[machine.kernel]}", f"gamma {machine._gamma:.17g}"]
    lines += [f"degree {machine.degree}", f"coef0 {machine.coef0:.17g}"] if machine.kernel == "poly" else []
    coefficients, rho = machine.dual_coef_, -machine.intercept_
    n_classes = len(machine.classes_) if hasattr(machine, "classes_") else 2
    if hasattr(machine, "classes_") and n_classes == 2:  # which scikit-learn turns around
        coefficients, rho = -coefficients, -rho
    lines += [f"nr_class {n_classes}", f"total_sv {coefficients.shape[1]}", "rho " + " ".join(map(repr, rho.tolist()))]
    if hasattr(machine, "classes_"):
        lines.append("label " + " ".join(map(str, machine.classes_)))
        lines.append("nr_sv " + " ".join(map(str, machine.n_support_)))
    lines.append("SV")
    for column, vector in zip(coefficients.T.tolist(), machine.support_vectors_.tolist()):
        features = [f"{j + 1}:{value!r}" for j, value in enumerate(vector) if value]
        lines.append(" ".join([*map(repr, column), *features]) + " ")
    path.write_text("\n".join(lines) + "\n")


def digits(n_classes, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 4))
    return X, 10 * np.argmax(X @ rng.normal(size=(4, n_classes)) + 0.5 * rng.normal(size=(160, n_classes)), axis=1) - 10


@pytest.mark.parametrize(
    "machine",
    [SVC(), SVC(kernel="poly", degree=2, coef0=1.0), NuSVC(nu=0.2), SVC(kernel="linear", C=0.1), SVC(kernel="sigmoid")],
    ids=lambda machine: f"{type(machine).__name__} {machine.kernel}",
)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_classifiers_of_libsvm_are_read_and_converted(machine, n_classes, tmp_path, capsys):
    X, y = digits(n_classes)
    machine = clone(machine).set_params(break_ties=False).fit(X, y)
    written_as_libsvm_does(machine, tmp_path / "theirs")
    assert main(["convert", str(tmp_path / "theirs"), str(tmp_path / "ours.mm")]) == 0, capsys.readouterr()
    for path in (tmp_path / "theirs", tmp_path / "ours.mm"):
        model = open_model(path)
        np.testing.assert_array_equal(model.predict(X), machine.predict(X))
        if n_classes == 2:
            np.testing.assert_allclose(model.decision_function(X), machine.decision_function(X), atol=1e-8)
        np.testing.assert_array_equal(load(path).predict(X), machine.predict(X))


@pytest.mark.parametrize("machine", [SVR(C=10.0), OneClassSVM(nu=0.3)], ids=["SVR", "OneClassSVM"])
def test_other_machines_of_libsvm_are_read(machine, tmp_path):
    X, y = digits(3)
    machine = clone(machine).fit(X, y)
    written_as_libsvm_does(machine, tmp_path / "theirs")
    np.testing.assert_allclose(open_model(tmp_path / "theirs").predict(X), machine.predict(X), atol=1e-8)


def test_labels_of_libsvm_in_another_order(tmp_path):
    """LIBSVM has them as they come in the training data; a positive decision means the first."""
    text = (
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0.5\nlabel {}\nnr_sv 1 1\nSV\n1 1:1\n-1 2:1\n"
    )
    for labels, expected in (("3 8", [3, 8]), ("8 3", [8, 3])):
        (tmp_path / "a").write_text(text.format(labels))
        assert open_model(tmp_path / "a").predict(np.array([[2.0, 0.0], [0.0, 2.0]])).tolist() == expected
        assert open_model(tmp_path / "a").classes_.tolist() == [3, 8]


SOUND = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 1 -1\nnr_sv 1 0\nSV\n1 1:1\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("c_svc", "x_svc", r":1: svm_type 'x_svc'; known are"),
        ("kernel_type rbf", "kernel_type precomputed", ":2: kernel_type 'precomputed'"),
        ("gamma 0.5", "gamma -1", ":2: gamma must be positive"),
        ("gamma 0.5", "gamma 1 2", ":3: gamma is one number"),
        ("gamma 0.5", "gamma x", ":3: gamma: 'x' is not a finite number"),
        ("nr_class 2", "nr_class 1000000000", ":4: nr_class is not 2"),
        ("total_sv 1", "total_sv 1000000000", ":5: total_sv is not 1"),
        ("rho 0", "rho 0 0", ":6: 2 numbers rho of 2 classes"),
        ("label 1 -1", "label 1 1", ":7: a classifier has two labels or more, all different"),
        ("label 1 -1", "label 1 0.5", ":7: label has something other than integers"),
        ("nr_sv 1 0", "nr_sv 2 -1", ":8: nr_sv"),
        ("SV\n", "", ":9: '1' where a keyword"),
        ("1 1:1", "1 1:1 1:2", ":10: index 1: indices begin at 1 and ascend"),
        ("1 1:1", "1 0:1", ":10: index 0"),
        ("1 1:1", "1 x", ":10: 'x' is not index:value"),
        ("1 1:1", "1 1:nan", ":10: value: 'nan' is not a finite number"),
        ("1 1:1", "1 2147483647:1", ":10: 1 support vectors of 2147483647 features are too sparse"),
        ("gamma 0.5", "gamma 0.5\ngamma 0.5", ":4: gamma for the second time"),
        ("gamma 0.5", "gama 0.5", ":3: 'gama' where a keyword"),
        ("label 1 -1\n", "", ":1: there is no label"),
    ],
)
def test_nonsense_is_refused_with_its_line(old, new, message, tmp_path):
    (tmp_path / "a").write_text(SOUND)
    assert open_model(tmp_path / "a").n_features_in_ == 1
    (tmp_path / "a").write_text(SOUND.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=message):
        open_model(tmp_path / "a")


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
