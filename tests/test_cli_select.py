"""maxmargin select: the table, the choice, and what it writes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import maxmargin
from maxmargin.cli import main
from maxmargin.cli._folds import stratified_folds
from maxmargin.cli.select import grid


def rows_of(n_rows, n_features, labels, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), 3)
    noisy = X @ rng.normal(size=(n_features, len(labels))) + rng.normal(size=(n_rows, len(labels)))
    return X, np.array(labels, dtype=float)[noisy.argmax(axis=1)]


def as_text(X, y):
    lines = (
        " ".join([f"{label:g}", *(f"{j + 1}:{v!r}" for j, v in enumerate(row))]) for row, label in zip(X.tolist(), y)
    )
    return "\n".join(lines) + "\n"


TWO = rows_of(90, 5, [-1, 1])
THREE = rows_of(90, 5, [1, 2, 7])


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.svm").write_text(as_text(*TWO))
    (tmp_path / "three.svm").write_text(as_text(*THREE))
    return tmp_path


@pytest.fixture
def cli(capsys):
    """Run a command; its exit code, stdout and stderr (but for the news that it compiles)."""

    def run(*argv):
        code = main(["select", *map(str, argv)])
        out, err = capsys.readouterr()
        return code, out, "".join(line for line in err.splitlines(True) if "compiling kernels" not in line)

    return run


# ---------------------------------------------------------------- from end to end


def test_it_chooses_trains_and_writes(cli):
    code, out, err = cli("-c", "0.001,0.1,10", "two.svm", "best.model", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert [each["C"] for each in report["grid"]] == [0.001, 0.1, 10.0]
    best = max(report["grid"], key=lambda each: each["mean"])
    assert (report["C"], report["score"]) == (best["C"], best["mean"])
    assert (report["scoring"], report["model"], report["folds"]) == ("roc_auc", "best.model", 5)
    assert all(each["relative_gap"] <= 1e-3 for each in [*report["grid"], report])
    model = maxmargin.load("best.model")
    assert type(model) is maxmargin.LinearSVC
    assert (model.C, model.n_jobs) == (best["C"], None)

    # The same folds as train -v has, by hand.
    X, y = TWO
    fold_of_row, areas = stratified_folds(y, 5, 0), []
    for k in range(5):
        held_out = fold_of_row == k
        single = maxmargin.LinearSVC(C=best["C"]).fit(X[~held_out], y[~held_out])
        areas.append(roc_auc_score(y[held_out], single.decision_function(X[held_out])))
    assert best["mean"] == pytest.approx(np.mean(areas), abs=0.01)
    assert best["deviation"] == pytest.approx(np.std(areas), abs=0.01)


def test_folds_need_two_rows_of_the_rarer_of_two_labels():
    fold_of_row = stratified_folds(np.array([0, 1, 0, 1, 1]), 2, 0)
    assert sorted(fold_of_row[[0, 2]]) == [0, 1]
    assert set(stratified_folds(np.array([0, 1, 2, 1, 0]), 2, 0)) == {0, 1}, "of three labels one may be missing"
    with pytest.raises(ValueError, match="only one row has the label 7"):
        stratified_folds(np.array([1, 1, 7, 1]), 2, 0)
    assert sorted(stratified_folds(np.array([0, 0, 1, 1]), 4, 0)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="5 folds of 4 rows"):
        stratified_folds(np.array([0, 0, 1, 1]), 5, 0)


def test_the_table(cli, files):
    code, out, err = cli("-c", "0.001:10:5", "-v", 3, "two.svm")
    assert (code, err) == (0, "")
    header, *lines = out.splitlines()
    assert header.split()[:3] == ["C", "ROC", "AUC"]
    assert [line.split()[0] for line in lines[:5]] == ["0.001", "0.01", "0.1", "1", "10"]
    (best,) = [line for line in lines if "<- best" in line]
    assert f"C = {best.split()[0]}: ROC AUC {best.split()[1]} in 3 folds" in out
    assert sorted(path.name for path in files.iterdir()) == ["three.svm", "two.svm"]  # no model was named


def test_several_classes_and_other_scores(cli):
    code, out, _ = cli("-c", "0.01,1", "three.svm", "--json")
    assert code == 0
    report = json.loads(out)
    assert (report["scoring"], report["labels"]) == ("accuracy", [1, 2, 7])
    assert len(report["classes"]) == 3
    code, out, _ = cli("-c", "0.01,1", "three.svm", "--scoring", "f1_macro", "--loss", "hinge")
    assert code == 0
    assert "f1 macro" in out


def test_options_reach_the_training(cli):
    options = ["--loss", "hinge", "--solver", "dual_cd", "-B", "-1", "-w1", "3", "-e", "1e-6", "-n", "1"]
    code, _, err = cli("-c", "0.1", "two.svm", "m", "-q", *options)
    assert (code, err) == (0, "")
    model = maxmargin.load("m")
    assert (model.loss, model.solver_.name, model.class_weight, model.tol) == ("hinge", "dual_cd", {1.0: 3.0}, 1e-6)
    assert model.intercept_.tolist() == [0.0]
    expected = maxmargin.LinearSVC(C=0.1, loss="hinge", class_weight={1.0: 3.0}, fit_intercept=False, tol=1e-6)
    np.testing.assert_allclose(model.coef_, expected.fit(*TWO).coef_, atol=1e-2)


def test_liblinear_models_and_several_files(cli):
    code, _, err = cli("-c", "0.1,1", "--liblinear", "-q", "-o", "m", "two.svm", "two.svm")
    assert (code, err) == (0, "")
    with open("m") as file:
        assert file.readline().startswith("solver_type L2R_L2LOSS_SVC")


def test_plot(cli, files):
    pytest.importorskip("matplotlib")
    code, out, _ = cli("-c", "0.01,0.1,1", "two.svm", "--plot", "scores.png")
    assert code == 0
    assert "plot: scores.png" in out
    assert (files / "scores.png").read_bytes()[:4] == b"\x89PNG"
    code, _, err = cli("two.svm", "--plot", "scores.nonsense")
    assert code == 2
    assert ".png" in err


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("argv", "code", "what"),
    [
        (["-c", "0,1", "two.svm"], 2, "must be positive"),
        (["-c", "1:2:3:4", "two.svm"], 2, "LOW:HIGH"),
        (["-c", "1:2:1", "two.svm"], 2, "two values"),
        (["--scoring", "nonsense", "two.svm"], 2, "no such score"),
        (["--loss", "nonsense", "two.svm"], 2, "unknown loss"),
        (["--solver", "nonsense", "two.svm"], 2, "unknown solver"),
        (["two.svm", "-"], 2, "not to stdout"),
        (["two.svm", "a", "b"], 2, "-o MODEL"),
        (["two.svm", "three.svm"], 1, "is not a model"),
        (["missing.svm"], 1, "missing.svm"),
        (["-v", "1000", "two.svm"], 1, "1000 folds"),
        (["one.svm"], 1, "two classes"),
    ],
)
def test_mistakes(cli, files, argv, code, what):
    (files / "one.svm").write_text(as_text(TWO[0], np.ones(len(TWO[1]))))
    got, out, err = cli(*argv)
    assert (got, out) == (code, "")
    assert what in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", [1.0]),
        ("3,1,0.5", [3.0, 1.0, 0.5]),
        ("0.1:10:3", [0.1, 1.0, 10.0]),
        ("0.0001:1000", [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]),
        ("10:0.1:3", [10.0, 1.0, 0.1]),
        ("2:2:1", [2.0]),
    ],
)
def test_grids(text, values):
    assert grid(text) == values


def test_help_imports_nothing_heavy():
    heavy = {"numpy", "numba", "scipy", "sklearn", "rich", "matplotlib"}
    script = (
        f"import sys; from maxmargin.cli import main; main(['select', '-h']); assert not {heavy} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "usage: maxmargin select" in done.stdout


# ---------------------------------------------------------------- kernels


def test_c_and_gamma_of_a_kernel_machine(cli):
    options = ["-t", "2", "-c", "0.1,10", "-g", "0.01,0.5", "-v", "3"]
    code, out, err = cli(*options, "two.svm", "best.model", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert [(each["C"], each["gamma"]) for each in report["grid"]] == [
        (0.1, 0.01),
        (0.1, 0.5),
        (10.0, 0.01),
        (10.0, 0.5),
    ]
    best = max(report["grid"], key=lambda each: each["mean"])
    assert (report["C"], report["gamma"], report["score"]) == (best["C"], best["gamma"], best["mean"])
    assert (report["scoring"], report["kind"]) == ("accuracy", "SVC")
    model = maxmargin.load("best.model")
    assert type(model) is maxmargin.SVC
    assert (model.C, model.gamma, model.n_jobs) == (best["C"], best["gamma"], None)

    # The folds of train -v, by hand.
    X, y = TWO
    fold_of_row = stratified_folds(y, 3, 0)
    shares = [
        maxmargin.SVC(C=best["C"], gamma=best["gamma"])
        .fit(X[fold_of_row != k], y[fold_of_row != k])
        .score(X[fold_of_row == k], y[fold_of_row == k])
        for k in range(3)
    ]
    assert best["mean"] == pytest.approx(np.mean(shares), abs=0.02)
    code, out, _ = cli(*options, "two.svm", "best.model", "--libsvm")
    assert code == 0
    assert "<- best" in out
    assert "gamma" in out
    assert maxmargin.models.is_libsvm("best.model")


def test_c_and_gamma_of_a_kernel_regression(cli, files):
    X, _ = TWO
    y = np.round(np.sin(X[:, 0]), 4)
    (files / "wave.svm").write_text(as_text(X, y))
    code, out, err = cli(
        "-t", "rbf", "-s", "3", "-p", "0.05", "-c", "1,10", "-g", "0.01:1:2", "wave.svm", "m", "--json"
    )
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["scoring"], report["kind"], len(report["grid"])) == ("r2", "SVR", 4)
    model = maxmargin.load("m")
    assert (type(model), model.epsilon, model.C) == (maxmargin.SVR, 0.05, report["C"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-g", "1"], "--gammas is of kernel machines: choose a kernel with -t"),
        (["-s", "3"], "-s is of kernel machines"),
        (["--libsvm"], "--libsvm is of kernel machines"),
        (["-t", "2", "--loss", "hinge"], "--loss does not go with -t"),
        (["-t", "2", "--liblinear"], "--liblinear does not go with -t"),
        (["-t", "2", "--solver", "tron"], "unknown solver 'tron'; with -t there are"),
        (["-t", "2", "-s", "3", "-w1", "2"], "a SVR has no classes"),
        (["-t", "2", "--plot", "a.png"], "--plot does not go with -t"),
    ],
)
def test_what_does_not_go_with_kernels_or_without(cli, options, complaint):
    code, _, err = cli(*options, "two.svm")
    assert code == 2
    assert complaint in err
