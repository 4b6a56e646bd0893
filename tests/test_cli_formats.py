"""The command line: what it reads and trains beside svmlight text and linear models, and how soon it starts."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest

import maxmargin
from maxmargin import BudgetSVC, LinearSVC
from maxmargin.cli import main
from maxmargin.data.svmlight import SvmlightError
from maxmargin.data.table import is_table, load_table
from maxmargin.models import is_liblinear, read_model
from maxmargin.models.predictor import open_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.where(X[:, 0] - X[:, 1] > 0, 1, -1)
Y3 = np.argmax(X, axis=1)


def svmlight(labels, base=1, columns=(0, 1, 2)):
    lines = (" ".join([str(k), *(f"{j + base}:{float(row[j])!r}" for j in columns)]) for k, row in zip(labels, X))
    return "\n".join(lines) + "\n"


def csv(labels, names="", delimiter=",", last=False):
    rows = [
        [*map(repr, row.tolist()), str(k)] if last else [str(k), *map(repr, row.tolist())] for k, row in zip(labels, X)
    ]
    return names + "\n".join(delimiter.join(row) for row in rows) + "\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.svm").write_text(svmlight(Y))
    (tmp_path / "three.svm").write_text(svmlight(Y3))
    return tmp_path


def run(capsys, *argv):
    """Exit code, stdout and stderr."""
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def evaluated(capsys, *argv):
    code, out, err = run(capsys, "evaluate", "--json", *argv)
    assert code == 0, err
    return json.loads(out), err


# ---------------------------------------------------------------- what indices count from


def test_the_model_remembers_what_indices_count_from(folder, capsys):
    (folder / "train").write_text(svmlight(Y, base=0))
    (folder / "test").write_text(svmlight(Y, base=0, columns=(1, 2)))  # no index 0, and taken for indices from 1 alone
    assert run(capsys, "train", "-q", "train", "m.mm")[0] == 0
    whole, _ = evaluated(capsys, "train", "m.mm")
    assert whole["accuracy"] > 0.95
    report, err = evaluated(capsys, "test", "m.mm")
    without = X.copy()
    without[:, 0] = 0.0
    expected = (open_model("m.mm").predict(without) == Y).mean()
    assert report["accuracy"] == pytest.approx(expected)
    assert err == ""
    assert json.loads(run(capsys, "info", "--json", "m.mm")[1])["first_index"] == 0
    assert run(capsys, "predict", "test", "m.mm", "out")[0] == 0
    assert evaluated(capsys, "test", "m.mm", "--first-index", "1")[0]["accuracy"] != report["accuracy"]


@pytest.mark.parametrize("command", [("select", "-v", "2", "-c", "1"), ("train", "--stream")])
def test_other_ways_to_train_remember_it_too(command, folder, capsys):
    (folder / "train").write_text(svmlight(Y, base=0))
    assert run(capsys, *command, "train", "m.mm")[0] == 0
    assert open_model("m.mm").first_index == 0


def test_an_index_0_is_refused_by_a_model_that_counts_from_1(folder, capsys):
    (folder / "test").write_text(svmlight(Y, base=0))
    assert run(capsys, "train", "-q", "two.svm", "m.mm")[0] == 0
    code, _, err = run(capsys, "evaluate", "test", "m.mm")
    assert code == 1
    assert "test:1:" in err
    assert "the model was trained on indices that count from 1: give --first-index 0" in err


def test_an_ambiguous_file_is_named_where_the_model_does_not_know(folder, capsys):
    LinearSVC().fit(X, Y).save("m.mm")
    (folder / "test").write_text(svmlight(Y, columns=(0, 1)))
    _, err = evaluated(capsys, "test", "m.mm")
    assert "warning: test: no index is 0 and none is 3, and the model does not say what indices count from" in err
    assert evaluated(capsys, "test", "m.mm", "--first-index", "1")[1] == ""
    assert evaluated(capsys, "two.svm", "m.mm")[1] == "", "index 3 of 3 features counts from 1"


def test_a_store_that_was_packed_otherwise_is_told_of(folder, capsys):
    (folder / "train").write_text(svmlight(Y, base=0))
    (folder / "test").write_text(svmlight(Y, base=0, columns=(1, 2)))
    for name, options in (("train", ()), ("test", ()), ("right", ("--first-index", "0", "--n-features", "3"))):
        text = "test" if name == "right" else name
        assert run(capsys, "pack", "-q", *options, text, f"{name}.store")[0] == 0
    assert run(capsys, "train", "-q", "train.store", "m.mm")[0] == 0
    assert open_model("m.mm").first_index == 0
    code, _, err = run(capsys, "predict", "right.store", "m.mm", "out")
    assert (code, err) == (0, "")
    assert "indices were taken as counted from 1" in run(capsys, "predict", "test.store", "m.mm", "out")[2]


# ---------------------------------------------------------------- labels that are words


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_labels_may_be_words(stream, folder, capsys):
    (folder / "words").write_text(svmlight(np.where(Y > 0, "spam", "ham")))
    assert run(capsys, "train", "-q", *stream, "words", "m.mm")[0] == 0
    report, _ = evaluated(capsys, "words", "m.mm")
    assert report["accuracy"] > 0.9
    assert {each["label"] for each in report["classes"]} == {"ham", "spam"}
    code, out, err = run(capsys, "predict", "words", "m.mm")
    assert set(out.split()) == {"ham", "spam"}
    assert "Accuracy" in err
    code, _, err = run(capsys, "evaluate", "two.svm", "m.mm")  # numbers are words as well, and none of these
    assert code == 0
    assert run(capsys, "train", "-q", "two.svm", "n.mm")[0] == 0
    code, _, err = run(capsys, "evaluate", "words", "n.mm")
    assert code == 1
    assert 'label "' in err
    assert '" is not a number' in err
    weighted = run(capsys, "train", "-q", "words", "w.mm", "--class-weight", "spam=5", "--class-weight", "ham=1")
    assert weighted[0] == 0, weighted


# ---------------------------------------------------------------- tables


def test_tables_are_read():
    table = load_table(io.BytesIO(csv(Y).encode()))
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, Y)
    assert table.names is None
    text = "\ufeff" + csv(np.where(Y > 0, "a b", "c"), names="p;q;r;kind\n", delimiter=";", last=True)
    table = load_table(io.BytesIO(text.encode()), label="kind", dtype=np.float32)
    np.testing.assert_array_equal(table.X, X.astype(np.float32))
    assert (table.names, set(table.y.tolist())) == (["p", "q", "r"], {"a b", "c"})
    assert load_table(io.BytesIO(b'y\tx\n"1"\t2\n\n3\t4')).y.tolist() == [1.0, 3.0]
    assert load_table(io.BytesIO(b"1,2\n3,4\n"), label=2).X.tolist() == [[1.0], [3.0]]
    assert load_table(io.BytesIO(b"1,2\n3,4\n"), features=2).y is None
    assert load_table(io.BytesIO(b"a,b,c\n1,2,x\n"), features=["b", "a"]).y.tolist() == ["x"]
    assert [is_table(name) for name in ("a.csv", "b.TSV.gz", "c.svm", "csv")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"", {}, "<stream>: there is no row"),
        (b"a,b\n", {}, "<stream>: there is no row"),
        (b"1\n2\n", {}, "<stream>: there is no column of features"),
        (b"1,2\n3\n", {}, "<stream>:2: 1 columns, where the first line has 2"),
        (b"1,2\n3,4,5\n", {}, "<stream>:2: 3 columns"),
        (b"1,2\n\n3,x\n", {}, '<stream>:3: column 2: "x" is not a number'),
        (b"1,2,a\n3,,b\n", {"label": "3"}, '<stream>:2: column 2: "" is not a number'),
        (b"1,2\n,3\n", {}, "<stream>:2: the label is missing"),
        (b"1,2\nnan,3\n", {}, '<stream>:2: label "nan" is not finite'),
        (b"1,2\n3,inf\n", {}, "<stream>:2: column 2: inf is not finite"),
        (b"1,2\n3,1e300\n", {"dtype": np.float32}, "<stream>:2: column 2: inf is not finite"),
        (b"1,2\n", {"label": "x"}, "<stream>: there is no column 'x'; the first line names none"),
        (b"a,b\n1,2\n", {"label": "x"}, "<stream>: there is no column 'x'; it has a, b"),
        (b"1,2\n", {"label": 3}, "<stream>: there is no column 3; it has 2"),
        (b"1,\xff\n", {}, "<stream>: not UTF-8 text"),
    ],
)
def test_tables_that_are_none_are_refused_with_their_line(text, options, message):
    with pytest.raises(SvmlightError, match="^" + message.replace(".", r"\.").replace("?", r"\?")):
        load_table(io.BytesIO(text), **options)


def test_tables_train_predict_and_evaluate(folder, capsys):
    (folder / "train.csv").write_text(csv(np.where(Y > 0, "yes", "no"), names="kind,p,q,r\n"))
    assert run(capsys, "train", "-q", "train.csv", "m.mm", "--label", "kind")[0] == 0
    direct = LinearSVC(random_state=0).fit(X, Y)
    np.testing.assert_allclose(open_model("m.mm").coef_, direct.coef_, rtol=1e-3)
    report, _ = evaluated(capsys, "train.csv", "m.mm")
    assert report["accuracy"] == direct.score(X, Y)
    (folder / "other.csv").write_text("q,r,p\n" + "\n".join(f"{b},{c},{a}" for a, b, c in X.tolist()))
    code, out, _ = run(capsys, "predict", "other.csv", "m.mm")
    assert code == 0
    assert out.split() == np.where(direct.predict(X) > 0, "yes", "no").tolist(), "columns by name, and no labels"
    code, _, err = run(capsys, "evaluate", "other.csv", "m.mm")
    assert code == 1
    assert "has no labels" in err
    (folder / "less.csv").write_text("kind,p,q\nyes,1,2\n")
    code, _, err = run(capsys, "predict", "less.csv", "m.mm")
    assert code == 1
    assert "has no column 'r', which the model was trained with" in err
    (folder / "plain").write_text(csv(Y))
    assert run(capsys, "train", "-q", "--format", "csv", "plain", "n.mm")[0] == 0
    assert evaluated(capsys, "--format", "csv", "plain", "n.mm")[0]["accuracy"] == direct.score(X, Y)
    code, out, _ = run(capsys, "info", "train.csv", "--label", "kind")
    assert code == 0
    assert "yes" in out
    assert run(capsys, "train", "-v", "3", "train.csv", "--label", "kind")[0] == 0


# ---------------------------------------------------------------- other machines


def test_all_classes_in_one_problem(capsys):
    assert run(capsys, "train", "-q", "-s", "4", "three.svm", "m.mm")[0] == 0
    model = maxmargin.load("m.mm")
    assert model.multi_class == "crammer_singer"
    direct = LinearSVC(multi_class="crammer_singer").fit(X, Y3)
    np.testing.assert_allclose(model.coef_, direct.coef_, atol=1e-2)
    assert run(capsys, "train", "-q", "-s", "4", "--liblinear", "three.svm", "m.lin")[0] == 0
    assert is_liblinear("m.lin")
    assert (np.sum(open_model("m.lin").predict(X) == Y3)) == (direct.predict(X) == Y3).sum()
    assert run(capsys, "train", "-s", "4", "--free-intercept", "three.svm", "n.mm")[0] == 2
    assert run(capsys, "train", "-s", "4", "--stream", "three.svm", "n.mm")[0] == 2


def test_kernel_machines_on_a_budget(capsys):
    code, out, err = run(capsys, "train", "--json", "--budget", "20", "--gamma", "0.5", "three.svm", "m.mm")
    assert code == 0, err
    report = json.loads(out)
    assert report["support_vectors"] <= 20
    direct = BudgetSVC(budget=20, gamma=0.5, random_state=0, tol=1e-3).fit(maxmargin.load_svmlight("three.svm")[0], Y3)
    model = maxmargin.load("m.mm")
    np.testing.assert_array_equal(model.predict(X), direct.predict(X))
    assert run(capsys, "train", "--budget", "20", "--kernel", "poly", "--degree", "2", "two.svm", "p.mm")[0] == 0
    assert open_model("p.mm").kernel_.degree == 2
    assert "support" in run(capsys, "info", "m.mm")[1]


def test_classifiers_for_a_measure(capsys):
    code, out, err = run(capsys, "train", "--json", "--measure", "f1", "two.svm", "m.mm")
    assert code == 0, err
    assert json.loads(out)["solver"] == "svmperf"
    assert read_model("m.mm").kind == "StructuralSVC"
    assert run(capsys, "convert", "m.mm", "m.lin")[0] == 0
    np.testing.assert_array_equal(open_model("m.lin").predict(X), open_model("m.mm").predict(X))
    code, _, err = run(capsys, "train", "--measure", "f1", "three.svm", "n.mm")
    assert (code, "works for two classes" in err) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kernel", "rbf"], "--kernel is of a kernel machine: add --budget"),
        (["--gamma", "1"], "--gamma is of a kernel machine"),
        (["--budget", "20", "--measure", "f1"], "leave one out"),
        (["--budget", "20", "--loss", "hinge"], "--loss does not go with --budget"),
        (["--budget", "20", "-s", "3"], "-s does not go with --budget"),
        (["--budget", "1"], "budget must be an integer of at least 2"),
        (["--budget", "20", "--stream"], "--stream does not go with --budget"),
        (["--measure", "f1", "--checkpoint", "c"], "--checkpoint does not go with --measure"),
        (["--measure", "f1", "--class-weight", "balanced"], "--class-weight does not go with --measure"),
        (["--measure", "f3"], "f3"),
        (["--at", "5"], "--at goes with --measure"),
        (["-s", "21"], "a one-class model, is not offered"),
    ],
)
def test_options_of_another_machine_are_refused(options, message, capsys):
    code, _, err = run(capsys, "train", *options, "two.svm", "m.mm")
    assert code == 2
    assert message in err


# ---------------------------------------------------------------- checkpoints of several classes


def test_several_classes_have_a_checkpoint_each(folder, capsys):
    options = ["-q", "--solver", "dual_cd", "-e", "1e-8", "three.svm"]
    assert run(capsys, "train", *options, "whole.mm")[0] == 0
    assert run(capsys, "train", "--max-iter", "2", "--checkpoint", "c", *options, "part.mm")[0] == 0
    assert sorted(path.name for path in folder.glob("c*")) == ["c.0", "c.1", "c.2"]
    assert run(capsys, "train", "--checkpoint", "c", *options, "resumed.mm")[0] == 0
    whole, part, resumed = (maxmargin.load(name) for name in ("whole.mm", "part.mm", "resumed.mm"))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert not np.array_equal(part.coef_, whole.coef_)
    code, _, err = run(capsys, "train", "--checkpoint", "c", "-c", "2", *options, "m.mm")
    assert (code, "belongs to other data" in err) == (1, True)
    assert "going on from c" in run(capsys, "train", "--checkpoint", "c", *options[1:], "m.mm")[2]


# ---------------------------------------------------------------- models of others, and files in each other's place


def test_models_of_liblinear_become_ours(capsys):
    assert run(capsys, "train", "-q", "--liblinear", "three.svm", "m.lin")[0] == 0
    assert run(capsys, "convert", "m.lin", "m.mm")[0] == 0
    assert read_model("m.mm").kind == "LinearSVC"
    assert open_model("m.mm").first_index == 1
    np.testing.assert_array_equal(maxmargin.load("m.mm").predict(X), open_model("m.lin").predict(X))


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_model_in_the_place_of_the_data(command, capsys):
    assert run(capsys, "train", "-q", "two.svm", "m.mm")[0] == 0
    code, _, err = run(capsys, command, "m.mm", "two.svm")
    assert code == 1
    assert "m.mm: is a model, where data were expected; the other way round? DATA comes first: two.svm m.mm" in err
    code, _, err = run(capsys, command, "m.mm", "m.mm")
    assert (code, "name the data first, and then the model" in err) == (1, True)
    code, _, err = run(capsys, command, "two.svm", "two.svm")
    assert (code, "two.svm: not a model file" in err) == (1, True)


# ---------------------------------------------------------------- how soon commands start


def test_commands_that_only_predict_do_without_scikit_learn(folder, capsys):
    assert run(capsys, "train", "-q", "two.svm", "linear.mm")[0] == 0
    assert run(capsys, "train", "-q", "--budget", "10", "two.svm", "budget.mm")[0] == 0
    program = (
        "import sys\n"
        "from maxmargin.cli import main\n"
        "for model in ('linear.mm', 'budget.mm'):\n"
        "    for command in (['info', model], ['evaluate', 'two.svm', model], ['predict', 'two.svm', model, 'out'],\n"
        "                    ['convert', model, model + '.text'], ['info', 'two.svm']):\n"
        "        assert main(command) == 0, command\n"
        "        assert model == 'budget.mm' or 'numba' not in sys.modules, command\n"
        "assert 'sklearn' not in sys.modules\n"
        "assert 'maxmargin.solvers.base' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
