"""The command line: what it writes, what it prints where, and how it fails."""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import samples
from liblinear import liblinearutil
from sklearn import metrics

import maxmargin
from maxmargin.cli import main
from maxmargin.cli._folds import stratified_folds
from maxmargin.cli.evaluate import by_class, roc_auc

# A process of its own, with Ctrl-C as on a terminal: under some shells' "&" it would be ignored.
PROCESS = [
    sys.executable,
    "-c",
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from maxmargin.cli import main; sys.exit(main())",
]
compiled = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="takes compiled speed")
on_posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")


def rows_of(n_rows, n_features, labels, seed=0):
    """Sparse rows and labels that depend on them, with noise."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), 3) * (rng.random((n_rows, n_features)) < 0.6)
    noisy = X @ rng.normal(size=(n_features, len(labels))) + rng.normal(size=(n_rows, len(labels)))
    return X, np.array(labels, dtype=float)[noisy.argmax(axis=1)]


def as_text(X, y, first_index=1):
    lines = []
    for row, label in zip(X, y):
        features = [f"{j + first_index}:{value!r}" for j, value in enumerate(row.tolist()) if value]
        lines.append(" ".join([f"{label:g}", *features]) + "\n")
    return "".join(lines)


TWO = rows_of(60, 6, [-1, 1])
THREE = rows_of(90, 6, [1, 2, 7])


@pytest.fixture(autouse=True)
def two(tmp_path, monkeypatch):
    """Two data sets in the current directory; the path of the first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.svm").write_text(as_text(*TWO))
    (tmp_path / "three.svm").write_text(as_text(*THREE))
    return tmp_path / "two.svm"


@pytest.fixture
def cli(capsys):
    """Run a command; its exit code, stdout and stderr."""

    def run(*argv):
        code = main([str(argument) for argument in argv])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def done(cli):
    """Run a command that must succeed and say nothing on stderr (but that it compiles); its stdout."""

    def run(*argv):
        code, out, err = cli(*argv)
        assert code == 0, err
        assert [line for line in err.splitlines() if "compiling kernels" not in line] == []
        return out

    return run


def objective(coef, intercept, X, y, C=1.0):
    shortfall = np.maximum(0.0, 1.0 - y * (X @ coef.ravel() + intercept))
    return 0.5 * (coef.ravel() @ coef.ravel() + float(intercept[0]) ** 2) + C * shortfall @ shortfall


# ---------------------------------------------------------------- help


def test_help_lists_the_commands_and_each_has_its_own(done):
    overview = done("--help")
    for command in ("train", "predict", "evaluate", "info", "pack", "convert", "solvers", "demo"):
        assert f"  {command} " in overview
        assert f"usage: maxmargin {command}" in done(command, "--help")
    assert done("--version") == f"maxmargin {maxmargin.__version__}\n"


@pytest.mark.parametrize("argv", [["--help"], ["train", "--help"], ["train", "-c", "nonsense", "x"]])
def test_help_imports_nothing_heavy(argv):
    heavy = {"numpy", "numba", "scipy", "sklearn", "rich"}
    script = f"import sys; from maxmargin.cli import main; main({argv}); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_python_m_maxmargin():
    ran = subprocess.run([sys.executable, "-m", "maxmargin", "nothing"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "usage: maxmargin COMMAND" in ran.stderr


def test_without_a_command_help_is_shown(cli):
    code, out, err = cli()
    assert (code, out) == (2, "")
    assert "commands:" in err


# ---------------------------------------------------------------- train


def test_the_json_of_train_tells_the_truth_about_the_model(done, two):
    out = done("train", "-c", 0.5, "--tol", 1e-5, "--json", two, "m")
    report = json.loads(out)
    assert out.count("\n") == 1
    model = maxmargin.load("m")
    assert report["primal"] == pytest.approx(objective(model.coef_, model.intercept_, *TWO, C=0.5), rel=1e-12)
    assert 0.0 <= report["relative_gap"] <= 1e-5
    assert report["primal"] - report["dual"] == pytest.approx(report["relative_gap"] * report["primal"], abs=1e-12)
    assert report["stop_reason"] == "converged"
    assert report["solver"] == "tron"
    assert report["passes"] > 0.0
    assert report["seconds"] > 0.0
    assert (report["rows"], report["features"], report["labels"]) == (60, 6, [-1, 1])
    assert report["nonzeros"] == np.count_nonzero(TWO[0])
    assert (model.n_jobs, model.verbose) == (None, 0)


def test_train_for_people(done, two):
    out = done("train", two)
    assert "60 rows, 6 features" in out
    assert "tron" in out
    assert "certified (goal 1e-03): converged" in out
    assert "two.svm.model" in out
    assert os.path.exists("two.svm.model")


def test_quiet(done, two):
    assert done("train", "-q", two, "m") == ""
    assert json.loads(done("train", "-q", "--json", two, "m"))["model"] == "m"


def test_options_may_stand_behind_the_files(done, two):
    assert json.loads(done("train", two, "-c", 0.25, "m", "--json"))["C"] == 0.25


@pytest.mark.parametrize(
    "options", ["-s 1 -c 2 -B 1", "-s 3 -c 0.5 -B 2 -w1 3", "-s 2 -B -1 -w-1 0.25 -w1 4", "-s 3 -c 0.1 -B -1"]
)
def test_liblinear_options_mean_what_they_mean_in_liblinear(done, two, options):
    done("train", "-q", "-e", 1e-9, *options.split(), two, "m")
    model = maxmargin.load("m")
    X, y = TWO
    for _ in range(12):  # with -s 3 its random order leads, every other time, to its limit of passes
        peer = liblinearutil.train(y, X, f"{options} -e 1e-9 -q".replace("-s 2", "-s 1"))
        coef, bias = peer.get_decfun(0)
        sign = 1.0 if peer.get_labels()[0] == 1 else -1.0
        if np.allclose(model.coef_[0], sign * np.array(coef), atol=1e-4):
            break
    np.testing.assert_allclose(model.coef_[0], sign * np.array(coef), atol=1e-4)
    np.testing.assert_allclose(model.intercept_[0], sign * bias if "-B -1" not in options else 0.0, atol=1e-4)


def test_class_weights_in_their_long_form(done, two):
    done("train", "-q", "-w1", 5, "-w-1", 2, two, "short")
    done("train", "-q", "--class-weight", "1=5", "--class-weight=-1=2", two, "long")
    done("train", "-q", "--class-weight", "balanced", two, "balanced")
    assert maxmargin.load("short").class_weight == {1.0: 5.0, -1.0: 2.0}
    assert np.array_equal(maxmargin.load("short").coef_, maxmargin.load("long").coef_)
    assert maxmargin.load("balanced").class_weight == "balanced"


def test_several_classes(done):
    report = json.loads(done("train", "--json", "--tol", 1e-4, "three.svm", "m"))
    model = maxmargin.load("m")
    X, y = THREE
    assert report["labels"] == [1, 2, 7]
    for k, each in enumerate(report["classes"]):
        signs = np.where(y == each["label"], 1.0, -1.0)
        assert each["primal"] == pytest.approx(objective(model.coef_[k], model.intercept_[[k]], X, signs), rel=1e-12)
    assert report["primal"] == pytest.approx(sum(each["primal"] for each in report["classes"]))
    assert report["relative_gap"] == max(each["relative_gap"] for each in report["classes"]) <= 1e-4
    assert report["passes"] == max(each["passes"] for each in report["classes"])
    assert "for the worst class, certified" in done("train", "three.svm", "m")


def test_a_limit_gives_a_model_and_one_warning(cli, two):
    code, out, err = cli("train", "--json", "--max-iter", 1, "-e", 1e-12, two, "m")
    report = json.loads(out)
    assert code == 0
    assert report["stop_reason"] == "max_iter"
    assert report["relative_gap"] > 1e-12
    assert err.count("warning: ") == 1
    assert "max_iter" in err
    assert os.path.exists("m")


@pytest.mark.parametrize("seed", [0, 7])
def test_the_seed_decides_the_path(done, two, seed):
    for name in ("a", "b"):
        done("train", "-q", "--solver", "dual_cd", "--seed", seed, "-n", 1 if name == "a" else 2, two, name)
    done("train", "-q", "--solver", "dual_cd", "--seed", 3, two, "other")
    assert np.array_equal(maxmargin.load("a").coef_, maxmargin.load("b").coef_)
    assert not np.array_equal(maxmargin.load("a").coef_, maxmargin.load("other").coef_)


def test_data_from_stdin_shards_and_compressed_files(done, two, monkeypatch):
    text = two.read_bytes()
    lines = text.splitlines(keepends=True)
    done("train", "-q", two, "whole")
    expected = maxmargin.load("whole").coef_
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    done("train", "-q", "-", "m")
    assert np.array_equal(maxmargin.load("m").coef_, expected)
    (two.parent / "a.gz").write_bytes(gzip.compress(b"".join(lines[:20])))
    (two.parent / "b.bz2").write_bytes(bz2.compress(b"".join(lines[20:40])))
    (two.parent / "c.xz").write_bytes(lzma.compress(b"".join(lines[40:])))
    assert "a.gz, b.bz2, c.xz: 60 rows" in done("train", "-o", "m", "a.gz", "b.bz2", "c.xz")
    assert np.array_equal(maxmargin.load("m").coef_, expected)


def test_how_the_data_are_read(done, cli, two, monkeypatch):
    (two.parent / "zero.svm").write_text(as_text(*TWO, first_index=0))
    done("train", "-q", two, "m")
    done("train", "-q", "zero.svm", "zero")
    assert np.array_equal(maxmargin.load("m").coef_, maxmargin.load("zero").coef_)
    report = json.loads(done("train", "--json", "--first-index", 0, two, "m"))
    assert report["features"] == 7  # feature 0 is never used
    assert json.loads(done("train", "--json", "--n-features", 20, two, "m"))["features"] == 20
    assert "1:" in cli("train", "--first-index", 1, "zero.svm", "m")[2]

    def reader(paths, **options):
        raise ValueError(f"{options['dtype']} over {options['n_jobs']}")

    monkeypatch.setattr("maxmargin.data.svmlight.load_svmlight", reader)
    assert "float32 over 2" in cli("train", "--dtype", "float32", "-n", 2, two, "m")[2]


# ---------------------------------------------------------------- checkpoints and cross validation


def test_a_checkpoint_is_resumed_to_the_same_bits(cli, done, two):
    options = ["-q", "-c", 100, "-e", 1e-13]
    cli("train", *options, "--max-iter", 40, two, "straight")
    cli("train", *options, "--max-iter", 7, "--checkpoint", "state", two, "first")
    assert os.path.exists("state")
    cli("train", *options, "--max-iter", 40, "--checkpoint", "state", two, "resumed")
    assert not np.array_equal(maxmargin.load("first").coef_, maxmargin.load("straight").coef_)
    assert np.array_equal(maxmargin.load("resumed").coef_, maxmargin.load("straight").coef_)
    assert "checkpoint" in done("info", "state")

    code, _, err = cli("train", "-c", 3, "--checkpoint", "state", two, "m")
    assert code == 1
    assert "state belongs to other data" in err


def test_cross_validation_is_what_one_would_do_by_hand(done, two):
    X, y = maxmargin.load_svmlight(two)
    folds = stratified_folds(y, 4, seed=5)
    correct = []
    for k in range(4):
        model = maxmargin.LinearSVC(C=0.3, tol=1e-10).fit(X[folds != k], y[folds != k])
        correct.append(int((model.predict(X[folds == k]) == y[folds == k]).sum()))
    options = ["train", "-v", 4, "-c", 0.3, "--seed", 5, "-e", 1e-10, two]
    assert done(*options) == f"Cross Validation Accuracy = {100 * sum(correct) / 60:g}%\n"
    report = json.loads(done(*options, "--json"))
    assert [fold["correct"] for fold in report["folds"]] == correct
    assert report["accuracy"] == sum(correct) / 60
    assert all(fold["relative_gap"] <= 1e-10 for fold in report["folds"])
    assert not os.path.exists("two.svm.model")


def test_folds_are_stratified():
    y = np.repeat([1.0, 2.0, 3.0], [31, 9, 4])
    folds = stratified_folds(y, 4, seed=1)
    assert np.ptp(np.bincount(folds)) <= 1
    for label in (1.0, 2.0, 3.0):
        assert np.ptp(np.bincount(folds[y == label], minlength=4)) <= 1
    assert not np.array_equal(folds, stratified_folds(y, 4, seed=2))


# ---------------------------------------------------------------- predict and evaluate


def test_predict_writes_labels_and_liblinears_line(cli, done, two):
    done("train", "-q", two, "m")
    X, y = TWO
    expected = maxmargin.load("m").predict(X)
    line = f"Accuracy = {100 * np.mean(expected == y):g}% ({np.sum(expected == y)}/60)\n"
    assert done("predict", two, "m", "out") == line
    labels = "".join(f"{label:g}\n" for label in expected)
    assert Path("out").read_text() == labels
    for out in ([], ["-"]):
        code, printed, err = cli("predict", two, "m", *out)
        assert (code, printed, err) == (0, labels, line)
    assert done("predict", "-q", two, "m") == labels


@pytest.mark.parametrize("data", ["two.svm", "three.svm"])
def test_scores_read_back_as_the_decision_values(done, data):
    done("train", "-q", data, "m")
    scores = np.loadtxt(io.StringIO(done("predict", "-q", "--scores", data, "m")))
    assert np.array_equal(scores, maxmargin.load("m").decision_function(maxmargin.load_svmlight(data)[0]))


def test_features_beyond_the_model_are_ignored_and_fewer_are_fine(cli, done, two):
    X, y = TWO
    done("train", "-q", two, "m")
    expected = done("predict", "-q", two, "m")
    (two.parent / "wide.svm").write_text(as_text(np.hstack([X, np.full((60, 3), 100.0)]), y))
    code, out, err = cli("predict", "-q", "wide.svm", "m")
    assert (code, out) == (0, expected)
    assert "warning: wide.svm: the model has 6 features and the data 9" in err
    (two.parent / "narrow.svm").write_text(as_text(X[:, :2], y))
    zeroed = maxmargin.load("m").predict(X * [1, 1, 0, 0, 0, 0])
    assert done("predict", "-q", "narrow.svm", "m") == "".join(f"{label:g}\n" for label in zeroed)


def test_models_are_exchanged_with_liblinear(done, two):
    X, y = TWO
    done("train", "-q", two, "ours")
    expected = done("predict", "-q", two, "ours")
    done("train", "-q", "--liblinear", two, "theirs")
    done("convert", "ours", "converted")
    assert Path("theirs").read_text() == Path("converted").read_text()
    labels, _, _ = liblinearutil.predict(y, X, liblinearutil.load_model("theirs"), "-q")
    assert "".join(f"{label:g}\n" for label in labels) == expected
    assert done("predict", "-q", two, "theirs") == expected
    assert "L2R_L2LOSS_SVC_DUAL" in done("info", "theirs")


@pytest.mark.parametrize("data", ["two.svm", "three.svm"])
def test_evaluate_agrees_with_scikit_learn(done, data):
    done("train", "-q", data, "m")
    X, y = {"two.svm": TWO, "three.svm": THREE}[data]
    model = maxmargin.load("m")
    predicted = model.predict(X)
    report = json.loads(done("evaluate", "--json", data, "m"))
    table = metrics.precision_recall_fscore_support(y, predicted)
    for name, column in zip(("precision", "recall", "f1", "rows"), table):
        assert [each[name] for each in report["classes"]] == pytest.approx(list(column))
    assert report["accuracy"] == metrics.accuracy_score(y, predicted)
    if data == "two.svm":
        assert report["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, model.decision_function(X)))
    else:
        assert report["roc_auc"] is None
    printed = done("evaluate", data, "m")
    assert printed.startswith(f"Accuracy = {100 * np.mean(predicted == y):g}% (")
    area = "" if report["roc_auc"] is None else f"ROC AUC = {report['roc_auc']:.6g}\n"
    assert printed.partition("\n")[2].partition("\n")[0] == area.strip()
    rows = [line.split() for line in printed.splitlines()[-len(report["classes"]) :]]
    for words, each, shares in zip(rows, report["classes"], np.transpose(table[:3])):
        assert each["predicted"] == np.sum(predicted == each["label"])
        assert words == [str(each["label"]), *(f"{x:.4f}" for x in shares), str(each["rows"]), str(each["predicted"])]


def test_ties_classes_that_are_absent_and_classes_that_are_new():
    rng = np.random.default_rng(0)
    scores, positive = rng.integers(0, 5, 50).astype(float), rng.random(50) < 0.4
    assert roc_auc(positive, scores) == pytest.approx(metrics.roc_auc_score(positive, scores))
    assert roc_auc(np.ones(3, dtype=bool), np.arange(3.0)) is None
    rows = by_class(np.array([1.0, 1.0, 5.0]), np.array([1.0, 2.0, 1.0]))
    assert [(each["label"], each["precision"], each["recall"]) for each in rows] == [
        (1, 0.5, 0.5),
        (2, 0.0, 0.0),
        (5, 0.0, 0.0),
    ]


# ---------------------------------------------------------------- info, solvers, demo


def test_info_of_data(done, two):
    (two.parent / "odd.svm").write_text("3 1:-2.5 4:8\n# a comment\n3\n-1 2:0.5\n")
    facts = json.loads(done("info", "--json", "odd.svm"))
    assert (facts["rows"], facts["features"], facts["nonzeros"], facts["empty_rows"]) == (3, 4, 3, 1)
    assert facts["unused_features"] == 1
    assert facts["density"] == 3 / 12
    assert facts["values"] == {"smallest": -2.5, "largest": 8.0}
    assert facts["classes"] == [{"label": -1, "rows": 1}, {"label": 3, "rows": 2}]
    words = {line.split()[0]: line.partition("  ")[2].strip() for line in done("info", "odd.svm").splitlines()}
    assert words | {"file": "odd.svm"} == words
    assert words["rows"] == "3, 1 of them empty"
    assert words["features"] == "4, 1 of them never used"
    assert words["nonzeros"] == "3: 25.00%, 1.0 a row, at most 2"
    assert words["values"] == "from -2.5 to 8"
    assert words["classes"] == "-1: 1, 3: 2"


@pytest.mark.parametrize("n_classes", [10, 11])
def test_info_of_many_classes_shows_ten(done, n_classes, tmp_path):
    (tmp_path / "many.svm").write_text("".join(f"{k} 1:1\n{k} 1:2\n" for k in range(n_classes)))
    shown = done("info", "many.svm")
    assert ", ".join(f"{k}: 2" for k in range(10)) in shown
    assert ("10: 2" in shown) is False
    assert (f"... ({n_classes} classes)" in shown) == (n_classes > 10)


def test_info_of_a_model(done, two):
    trained = json.loads(done("train", "--json", "-c", 0.5, "-w1", 3, two, "m"))
    facts = json.loads(done("info", "--json", "m"))
    assert facts["kind"] == "LinearSVC"
    assert facts["made_by"] == f"maxmargin {maxmargin.__version__}"
    for name in ("labels", "features", "primal", "dual", "relative_gap", "stop_reason", "solver"):
        assert facts[name] == trained[name]
    assert facts["nonzero_weights"] == np.count_nonzero(maxmargin.load("m").coef_)
    assert facts["parameters"]["class_weight"] == {"1": 3.0}
    assert facts["parameters"]["C"] == 0.5
    assert f"{trained['primal']:.10g}" in done("info", "m")


def test_solvers_and_the_losses_they_take(done, monkeypatch):
    listing = json.loads(done("solvers", "--json"))
    assert [each["name"] for each in listing["solvers"]] == maxmargin.solvers.names()
    for each in listing["solvers"]:
        for loss in each["losses"]:
            assert each["name"] in maxmargin.solvers.supporting(maxmargin.losses.get(loss))
    for loss in listing["losses_without_solver"]:
        assert maxmargin.solvers.supporting(maxmargin.losses.get(loss)) == []
    assert "dual_cd\n  Dual coordinate descent" in done("solvers")
    assert "no solver yet" not in done("solvers")
    monkeypatch.setattr(maxmargin.losses, "names", lambda: ["hinge", "ramp"])
    assert "\nno solver yet: ramp\n" in done("solvers")
    assert json.loads(done("solvers", "--json"))["losses_without_solver"] == ["ramp"]


def test_demo(done, monkeypatch):
    for name, size in {"_N_TRAIN": 2000, "_N_TEST": 500, "_N_WORDS": 300, "_WORDS_A_ROW": 30}.items():
        monkeypatch.setattr(f"maxmargin.cli.demo.{name}", size)
    before = sorted(os.listdir())
    out = done("demo")
    (ours, theirs) = (line.split() for line in out.splitlines() if line.startswith(("maxmargin ", "scikit-learn ")))
    assert 0.0 <= float(ours[3]) <= 1e-6
    assert float(ours[2]) == pytest.approx(float(theirs[2]), rel=1e-4)
    assert 75.0 < float(ours[4].rstrip("%")) <= 100.0
    assert "maxmargin train DATA MODEL" in out
    assert sorted(os.listdir()) == before


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("nonsense", "invalid choice: 'nonsense'"),
        ("train", "required: DATA"),
        ("train -c -1 two.svm", "must be positive, got -1"),
        ("train -c nan two.svm", "'nan' is not a number"),
        ("train -e -1 two.svm", "must not be negative"),
        ("train -v 1 two.svm", "at least 2"),
        ("train -n 0 two.svm", "must not be 0"),
        ("train --seed x two.svm", "'x' is not an integer"),
        ("train --max-iter 0 two.svm", "must be positive"),
        ("train --n-features 0 two.svm", "at least 1"),
        ("train --dtype int8 two.svm", "float64"),
        ("train --unknown two.svm", "unrecognized arguments: --unknown"),
        (
            "train --loss nonsense two.svm",
            "unknown loss 'nonsense'; a classifier takes hinge, squared_hinge, huber, logistic",
        ),
        ("train --los hinge two.svm", '--los (did you mean "--loss"?)'),
        ("train --solver dual-cd two.svm", "unknown solver 'dual-cd' (did you mean \"dual_cd\"?)"),
        ("train --loss logistic --solver dual_cd two.svm", "logistic"),
        ("train --solver nonsense two.svm", "choose one of auto, dual_cd"),
        ("train -s 21 two.svm", "-s 21: a one-class model, is not offered"),
        ("train -s 3 --penalty l1 two.svm", "-s 3 has the penalty l2"),
        (
            "train --loss hinge --penalty l1 --solver dual_cd two.svm",
            "solver 'dual_cd' does not take loss 'hinge' with penalty 'l1': choose one of auto, bmrm",
        ),
        ("train --loss squared_error -w1 2 two.svm", "a regressor, which has no classes"),
        ("train -p -1 two.svm", "must not be negative"),
        ("train -s 99 two.svm", "-s 99: no such type"),
        ("train -s 3 --loss hinge two.svm", "not allowed with"),
        ("train -w1 0 two.svm", "must be positive"),
        ("train --class-weight 5 two.svm", "expected LABEL=WEIGHT"),
        ("train --class-weight balanced -w1 2 two.svm", "either balanced or"),
        ("train --liblinear --loss huber two.svm", "LIBLINEAR has no loss 'huber'"),
        ("train -", "maxmargin train - MODEL"),
        ("train two.svm -", "not to stdout"),
        ("train a b c", "-o MODEL"),
        ("train --checkpoint m two.svm m", "a file each"),
        ("train --checkpoint c -v 3 two.svm", "leave out --checkpoint"),
        ("predict two.svm", "required: MODEL"),
        ("demo 3", "unrecognized arguments: 3"),
    ],
)
def test_bad_usage(cli, argv, message):
    code, out, err = cli(*argv.split())
    assert (code, out) == (2, "")
    assert message in err
    assert not os.path.exists("two.svm.model")


BAD_FILES = {
    "token.svm": "1 1:2\n-1 1:0 3:abc\n",
    "nan.svm": "1 1:2\n-1 1:nan\n",
    "multi.svm": "1,2 1:2\n",
    "empty.svm": "# nothing\n",
    "one.svm": "4 1:1\n4 1:2\n",
    "rare.svm": "1 1:1\n2 1:2\n2 1:3\n",
    "float.svm": "0.5 1:1\n1.5 1:2\n",
    "cut.svm.gz": gzip.compress(b"1 1:2\n-1 1:0\n" * 999)[:-20],
    "noise.svm": bytes(range(256)),
    "fake.model": b"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 999999999\nbias -1\nw\n1\n",
    "huge.model": (10**7).to_bytes(8, "little") + b'{"coef"',
}


def test_a_read_only_file_system_is_found_out_before_the_work(cli, two, monkeypatch):
    def refuse(**options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(maxmargin.LinearSVC, "fit", lambda *arguments, **options: pytest.fail("it was trained"))
    code, _, err = cli("train", two, "m")
    assert code == 1
    assert "m: cannot be written: Read-only file system" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("train missing.svm m", "missing.svm: No such file or directory"),
        ("train . m", "."),
        ("train token.svm m", 'token.svm:2:10: feature value "abc"'),
        ("train nan.svm m", "nan.svm:2:6:"),
        ("train multi.svm m", "multi.svm:1:1:"),
        ("train empty.svm m", "empty.svm"),
        ("train noise.svm m", "noise.svm:2:"),
        ("train cut.svm.gz m", "cut.svm.gz: the compressed data is damaged"),
        ("train one.svm m", "one.svm: all rows have the label 4"),
        ("train float.svm m", "continuous"),
        ("train --liblinear float.svm m", "labels are integers"),
        ("train -w5 2 two.svm m", "5"),
        ("train -v 61 two.svm", "61 folds of 60 rows"),
        ("train -v 2 rare.svm", "only one row has the label 1"),
        ("train --n-features 3 two.svm m", "n_features=3"),
        ("train two.svm three.svm", "three.svm: exists and is not a model"),
        ("train two.svm nowhere/m", "nowhere/m: cannot be written"),
        ("train two.svm .", "Is a directory"),
        ("train --checkpoint nowhere/c two.svm m", "nowhere/c: cannot be written"),
        ("train --checkpoint three.svm two.svm m", "three.svm: exists and is not"),
        ("predict two.svm missing", "missing: No such file"),
        ("predict two.svm two.svm", "two.svm: not a model file"),
        ("predict two.svm .", "not a model file"),
        ("predict two.svm fake.model", "fake.model:"),
        ("predict two.svm huge.model", "huge.model:"),
        ("predict two.svm cut.model", "cut.model:"),
        ("predict two.svm flipped.model", "flipped.model: damaged"),
        ("predict missing.svm sound.model", "missing.svm: No such file"),
        ("predict two.svm sound.model nowhere/out", "nowhere/out: cannot be written"),
        ("evaluate token.svm sound.model", "token.svm:2:10:"),
        ("info missing", "missing: No such file"),
        ("info cut.model", "cut.model:"),
        ("info nan.svm", "nan.svm:2:6:"),
        ("convert two.svm out", "two.svm: not a model"),
        ("convert sound.model two.svm", "two.svm: exists and is not a model"),
    ],
)
def test_bad_input(cli, argv, message, two):
    for name, content in BAD_FILES.items():
        (two.parent / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = two.read_bytes()
    assert cli("train", "-q", two, "sound.model")[0] == 0
    sound = (two.parent / "sound.model").read_bytes()
    (two.parent / "cut.model").write_bytes(sound[:-8])
    (two.parent / "flipped.model").write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    code, out, err = cli(*argv.split())
    assert (code, out) == (1, "")
    error = [line for line in err.splitlines() if "compiling" not in line]
    assert len(error) == 1
    assert error[0].startswith("maxmargin: error: ")
    assert message in error[0]
    assert two.read_bytes() == before
    assert not os.path.exists("m")


def test_the_place_of_the_model_is_checked_before_the_data_are_read(cli):
    assert "nowhere/m" in cli("train", "missing.svm", "nowhere/m")[2]


def test_a_full_disk_leaves_the_old_model(cli, done, two, monkeypatch):
    done("train", "-q", two, "m")
    before = Path("m").read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for command in (["train", "-c", 3, two, "m"], ["train", "--liblinear", two, "m"], ["predict", two, "m", "out"]):
        code, out, err = cli(*command)
        assert (code, out) == (1, "")
        assert "No space left on device" in err
    assert Path("m").read_bytes() == before
    assert sorted(os.listdir()) == ["m", "three.svm", "two.svm"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout(two):
    with open("/dev/full", "w") as full:
        ran = subprocess.run([*PROCESS, "solvers"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 1
    assert ran.stderr == "maxmargin: error: output: No space left on device\n"


@on_posix
def test_a_reader_that_has_gone_is_no_error(two):
    process = subprocess.Popen([*PROCESS, "solvers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


# ---------------------------------------------------------------- Ctrl-C, terminals and first runs, in processes


@pytest.fixture
def endless(two):
    """Data that take hours: many rows, few features, large C, no tolerance."""
    X, y = rows_of(3000, 8, [-1, 1])
    (two.parent / "endless.svm").write_text(as_text(X, y))
    return ["train", "--solver", "dual_cd", "-c", "1e4", "-e", "0", "--max-iter", "1e12", "endless.svm"]


@compiled
@on_posix
@pytest.mark.parametrize("form", ["json", "words"])
def test_ctrl_c_keeps_the_model(endless, done, form):
    options = ["m", "--checkpoint", "state", "--checkpoint-every", "0.05", *(["--json"] if form == "json" else [])]
    process = subprocess.Popen(
        [*PROCESS, *endless, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: os.path.exists("state"))  # it is in the middle of it
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    err = [line for line in err.splitlines() if "compiling kernels" not in line]
    assert err == ["maxmargin: interrupted; the model found so far is in m"]  # and no progress in a pipe
    if form == "json":
        report = json.loads(out)
        assert report["stop_reason"] == "interrupted"
        assert 0.0 < report["relative_gap"] < 1.0
    else:
        assert "certified (goal 0e+00): interrupted" in out
    assert maxmargin.load("m").stop_reason_ == "interrupted"
    assert done("predict", "-q", "endless.svm", "m").count("\n") == 3000


@compiled
@on_posix
def test_ctrl_c_ends_cross_validation(endless, cli, monkeypatch):
    from maxmargin.estimators import _base

    def solve_and_press(*arguments, **options):
        if to_press:
            os.kill(os.getpid(), to_press.pop())
        return actual_solve(*arguments, **options)

    actual_solve, to_press = _base.solve, [signal.SIGINT]
    monkeypatch.setattr(_base, "solve", solve_and_press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, out, err = cli(*endless, "-v", 3, "-n", 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, out) == (130, "")
    assert "interrupted; the cross validation is not complete" in err


@compiled
@on_posix
def test_progress_is_drawn_on_a_terminal(endless):
    import pty

    command = [*PROCESS, *endless, "m", "--json", "--max-time", "0.5"]
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    drawn = b""
    try:
        while chunk := os.read(controller, 1 << 16):
            drawn += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(controller)
    assert json.loads(process.communicate()[0])["stop_reason"] == "max_time"
    assert b"passes" in drawn
    assert b"gap" in drawn


@compiled
def test_the_first_run_says_that_it_compiles_and_the_second_does_not(tmp_path, two):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (
        subprocess.run([*PROCESS, "train", two, "m"], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert first.stderr.count("compiling kernels") == 1
    assert "compiling included" in first.stdout
    assert second.stderr == ""
    assert "compiling" not in second.stdout


def wait_for(condition, seconds=120.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


# ---------------------------------------------------------------- other losses and regression


def liblinear_objective(kind, C, w, epsilon):
    """LIBLINEAR's objective of its type `kind` at weights w, intercept (of the constant feature 1) last."""
    X, y = TWO
    z = X @ w[:-1] + w[-1]
    if int(kind) > 8:
        excess = np.maximum(np.abs(z - y) - epsilon, 0.0)
        risk = np.sum(excess if kind == "13" else excess**2)
    else:
        margin = np.where(y > 0, z, -z)
        hinge = np.maximum(1.0 - margin, 0.0)
        risk = np.sum(np.log1p(np.exp(-margin)) if kind in "067" else hinge if kind == "3" else hinge**2)
    return (np.abs(w).sum() if kind in "56" else 0.5 * w @ w) + C * risk


@pytest.mark.parametrize("kind", ["0", "1", "2", "3", "5", "6", "7", "11", "12", "13"])
def test_liblinears_types_are_its_objectives(done, two, kind):
    report = json.loads(done("train", "-s", kind, "-c", 0.5, "-B", 1, "-p", 0.2, "--tol", 1e-9, "--json", two, "m"))
    assert report["stop_reason"] == "converged"
    model = maxmargin.load("m")
    expected = samples.liblinear_weights(
        *TWO, f"-s {kind} -c 0.5 -p 0.2 -e 1e-10", lambda w: liblinear_objective(kind, 0.5, w, 0.2), bias=1.0
    )
    ours = np.array([*model.coef_.ravel(), *model.intercept_])
    # LIBLINEAR's own objective says how close its weights must be.
    excess = liblinear_objective(kind, 0.5, expected, 0.2) - report["dual"]
    assert liblinear_objective(kind, 0.5, ours, 0.2) == pytest.approx(report["primal"], rel=1e-9)
    assert -1e-9 * report["primal"] <= excess <= 1e-4 * report["primal"]
    if kind in ("5", "6"):
        np.testing.assert_allclose(ours, expected, atol=2e-3)
        assert np.array_equal(model.coef_.ravel() == 0.0, expected[:-1] == 0.0)
    else:  # 1/2 |w - w*|^2 <= P(w) - P(w*)
        assert 0.5 * np.sum((ours - expected) ** 2) <= 1.01 * max(excess, 0.0) + 1e-7 * report["primal"]


def test_regression_from_train_to_evaluate(done, cli, two):
    out = done("train", "--loss", "epsilon_insensitive", "-p", 0.05, two, "m")
    assert "numbers to predict" in out
    assert "epsilon_insensitive, epsilon = 0.05, C = 1" in out
    model = maxmargin.load("m")
    predicted = model.predict(TWO[0])
    code, out, err = cli("predict", two, "m")
    assert code == 0
    np.testing.assert_allclose([float(line) for line in out.split()], predicted, rtol=1e-9, atol=1e-12)
    assert f"Mean squared error = {metrics.mean_squared_error(TWO[1], predicted):g} (regression)" in err
    report = json.loads(done("evaluate", "--json", two, "m"))
    assert report["r2"] == pytest.approx(metrics.r2_score(TWO[1], predicted))
    assert report["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(TWO[1], predicted))
    assert report["squared_correlation"] == pytest.approx(np.corrcoef(TWO[1], predicted)[0, 1] ** 2)
    assert "r2" in done("evaluate", two, "m")
    assert "LinearSVR" in done("info", "m")


def test_cross_validation_of_a_regression(done, two):
    report = json.loads(done("train", "-s", "13", "-v", 3, "--json", two))
    assert sum(fold["rows"] for fold in report["folds"]) == 60
    means = sum(fold["mean_squared_error"] * fold["rows"] for fold in report["folds"]) / 60
    assert report["mean_squared_error"] == pytest.approx(means)
    assert "Cross Validation Mean squared error = " in done("train", "-s", "13", "-v", 3, two)


def test_a_regressor_for_liblinear(done, two):
    done("train", "-q", "-s", "11", "--liblinear", two, "theirs")
    done("train", "-q", "-s", "11", two, "ours")
    X, y = TWO
    rows = [dict(enumerate(row, start=1)) for row in X.tolist()]
    predicted, _, _ = liblinearutil.predict(y.tolist(), rows, liblinearutil.load_model("theirs"), "-q")
    np.testing.assert_allclose(predicted, maxmargin.load("ours").predict(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(maxmargin.load("theirs").predict(X), predicted, rtol=1e-9, atol=1e-12)
