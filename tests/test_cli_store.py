"""Stores on the command line."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

import maxmargin
from maxmargin.cli import main


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Run a command in a directory with data; its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 6)), 3)
    y = np.where(X @ rng.normal(size=6) + 0.3 * rng.normal(size=400) > 0, 1, -1)
    maxmargin.save_svmlight("two.svm", X, y)

    def run(*argv):
        code = main(list(map(str, argv)))
        return (code, *capsys.readouterr())

    return run


def test_pack_and_info(cli):
    code, out, _ = cli("pack", "two.svm", "two.store", "--block-size", "8K")
    assert code == 0
    assert "400" in out
    code, out, _ = cli("info", "two.store")
    assert code == 0
    assert "all blocks are sound" in out
    code, out, _ = cli("info", "--json", "two.store")
    facts = json.loads(out)
    assert (facts["kind"], facts["rows"], facts["features"], facts["index_base"]) == ("store", 400, 6, 1)
    assert facts["blocks"] > 2
    assert sum(each["rows"] for each in facts["classes"]) == 400
    assert [each["label"] for each in facts["classes"]] == [-1, 1]


def test_pack_from_stdin_with_all_options(cli, monkeypatch):
    text = Path("two.svm").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    options = ["--dtype", "float32", "--shuffle", "--test", "0.3", "--seed", "5", "--n-features", "9", "--json"]
    code, out, _ = cli("pack", "-", "s", *options, "--first-index", "1")
    facts = json.loads(out)
    assert code == 0
    assert (facts["dtype"], facts["shuffled"], facts["features"]) == ("float32", 5, 9)
    assert facts["rows"] + maxmargin.open_store("s.test").n_rows == 400


def test_targets_of_a_regression_are_told_by_their_range(cli):
    maxmargin.save_svmlight("r.svm", np.eye(3), [0.5, 2.25, 1.0])
    _, out, _ = cli("pack", "r.svm", "r.store")
    assert "0.5: 1" in out
    np.savez("many.npz", X=np.ones((1500, 1)), y=np.arange(1500) / 2)
    _, out, _ = cli("pack", "many.npz", "many.store")
    assert "from 0 to 749.5" in out


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["pack", "two.svm"], 2, "the store to make"),
        (["pack", "two.svm", "s", "--test", "2"], 2, "between 0 and 1"),
        (["pack", "nothing.svm", "s"], 1, "nothing.svm: No such file"),
        (["pack", "two.svm", "two.svm"], 1, "exists and is not a store"),
        (["pack", "two.svm", "no/where/s"], 1, "no such directory"),
        (["pack", "two.svm", "s", "--block-size", "huge"], 1, "block_size"),
        (["info", "."], 1, "not a store"),
    ],
)
def test_mistakes_are_told(cli, argv, code, message):
    got, out, err = cli(*argv)
    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_a_damaged_store_is_told(cli):
    cli("pack", "two.svm", "s", "--block-size", "8K")
    with open("s/block-000001", "r+b") as file:
        file.seek(-5, 2)
        file.write(b"?")
    code, _, err = cli("info", "s")
    assert code == 1
    assert "block-000001" in err
    code, _, err = cli("pack", "two.svm", "s")
    assert code == 1
    assert "--overwrite" in err
    assert cli("pack", "two.svm", "s", "--overwrite")[0] == 0
    assert cli("info", "s")[0] == 0


# ---------------------------------------------------------------- training and use


@pytest.fixture
def packed(cli):
    """A store in the current directory."""
    assert cli("pack", "two.svm", "two.store", "--block-size", "8K")[0] == 0
    return cli


def test_train_predict_and_evaluate_on_a_store(packed):
    options = ["--loss", "logistic", "--tol", "1e-8", "--json"]
    code, out, _ = packed("train", *options, "two.store", "m", "--memory", "12K")
    on_disk = json.loads(out)
    assert code == 0
    in_memory = json.loads(packed("train", *options, "two.svm", "n")[1])
    assert on_disk["primal"] == pytest.approx(in_memory["primal"], rel=1e-7)
    assert on_disk["relative_gap"] <= 1e-8
    assert (on_disk["rows"], on_disk["features"], on_disk["nonzeros"]) == (400, 6, in_memory["nonzeros"])
    for data in ("two.store", "two.svm"):
        code, out, _ = packed("predict", data, "m", f"{data}.out")
        assert code == 0
        assert "Accuracy" in out
        assert packed("predict", "--scores", data, "m", f"{data}.scores")[0] == 0
    assert Path("two.store.out").read_text() == Path("two.svm.out").read_text()
    scores = [np.loadtxt(f"{data}.scores") for data in ("two.store", "two.svm")]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    reports = [json.loads(packed("evaluate", "--json", data, "m")[1]) for data in ("two.store", "two.svm")]
    assert reports[0]["accuracy"] == reports[1]["accuracy"]
    assert reports[0]["roc_auc"] == reports[1]["roc_auc"]
    code, out, err = packed("predict", "two.store", "m")
    assert len(out.splitlines()) == 400
    assert "Accuracy" in err


def test_a_regressor_on_a_store(packed):
    code, out, _ = packed("train", "--loss", "squared_error", "two.store", "m", "--json")
    assert code == 0
    assert json.loads(out)["relative_gap"] <= 1e-3
    assert "Mean squared error" in packed("predict", "two.store", "m", "out")[1]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["train", "-v", "5", "two.store"], 2, "-v does not go with a store"),
        (["train", "--n-features", "9", "two.store", "m"], 2, "--n-features does not go"),
        (["train", "--memory", "lots", "two.store", "m"], 2, "no size"),
        (["train", "-o", "m", "two.store", "two.svm"], 1, "name it alone"),
        (["train", ".", "m"], 1, "not a store"),
        (["train", "--solver", "dual_cd", "two.store", "m"], 1, "does not take these rows"),
    ],
)
def test_mistakes_with_stores_are_told(packed, argv, code, message):
    got, out, err = packed(*argv)
    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
