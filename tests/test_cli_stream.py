"""``maxmargin train --stream``: what it writes, what it prints where, and how it fails."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from test_cli import PROCESS, THREE, TWO, as_text, compiled

import maxmargin
from maxmargin import OnlineSVC
from maxmargin.cli import main


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.svm").write_text(as_text(*TWO))
    (tmp_path / "three.svm").write_text(as_text(*THREE))


@pytest.fixture
def cli(capsys):
    """Run a command; its exit code, stdout and stderr."""

    def run(*argv):
        code = main([str(argument) for argument in argv])
        return code, *capsys.readouterr()

    return run


def test_the_model_is_that_of_the_estimator(cli):
    code, out, err = cli("train", "--stream", "--alpha", 1e-2, "--json", "-B", 2, "-w1", 3, "three.svm", "m")
    assert code == 0, err
    report, model = json.loads(out), maxmargin.load("m")
    expected = OnlineSVC(alpha=1e-2, intercept_scaling=2.0, class_weight={1.0: 3.0}).fit("three.svm")
    assert isinstance(model, OnlineSVC)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    assert model.get_params() == {**expected.get_params(), "max_iter": 1}
    assert (report["rows"], report["features"], report["labels"]) == (90, 6, [1, 2, 7])
    assert (report["solver"], report["stop_reason"], report["passes"]) == ("sgd", "max_iter", 1)
    assert (report["primal"], report["dual"], report["relative_gap"]) == (None, None, None)
    assert report["seconds"] > 0.0
    assert (report["alpha"], report["loss"], report["bias"]) == (1e-2, "hinge", 2.0)


def test_the_other_commands_take_its_model(cli):
    assert cli("train", "--stream", "-q", "two.svm", "m") == (0, "", "")
    model, (X, y) = maxmargin.load("m"), TWO
    code, out, _ = cli("evaluate", "--json", "two.svm", "m")
    assert (code, json.loads(out)["correct"]) == (0, int((model.predict(X) == y).sum()))
    assert cli("predict", "-q", "two.svm", "m", "labels")[0] == 0
    np.testing.assert_array_equal(np.loadtxt("labels"), model.predict(X))
    code, out, _ = cli("info", "--json", "m")
    assert (code, json.loads(out)["kind"], json.loads(out)["rows_learnt"]) == (0, "OnlineSVC", 60)
    assert "averaged SGD: 60 rows in 1 pass, max_iter" in cli("info", "m")[1]
    assert cli("train", "--stream", "-q", "--liblinear", "--loss", "squared_hinge", "two.svm", "l")[0] == 0
    expected = OnlineSVC(loss="squared_hinge").fit("two.svm")
    liblinear = maxmargin.load("l")
    np.testing.assert_allclose(liblinear.decision_function(X), expected.decision_function(X), rtol=1e-12)


def test_passes_shards_holdout_and_words(cli):
    code, out, err = cli("train", "--stream", "--passes", 3, "-o", "m", "two.svm", "two.svm")
    assert code == 0, err
    assert "360 rows in 3 passes" in out
    assert "held out" not in out
    np.testing.assert_array_equal(maxmargin.load("m").coef_, OnlineSVC(max_iter=3).fit(["two.svm", "two.svm"]).coef_)
    code, out, err = cli("train", "--stream", "--holdout", 5, "two.svm", "m")
    assert code == 0, err
    held = OnlineSVC(early_stopping=True, validation_fraction=0.2).fit("two.svm")
    assert f"held out  loss {held.history_['held_out_loss'][-1]:.6g}" in out
    assert "48 rows in 1 pass" in out


def test_progress_goes_to_stderr(cli):
    code, out, err = cli("train", "--stream", "--progress", "--json", "two.svm", "m")
    assert code == 0
    json.loads(out)
    counters = [line.split()[2] for line in err.splitlines() if len(line.split()) == 6 and line[0].isdigit()]
    assert counters == ["1", "2", "4", "8", "16", "32"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-c", 2], "give --alpha"),
        (["--solver", "ocas"], "--solver"),
        (["-e", 0.1], "--holdout stops early"),
        (["--penalty", "l1"], "--penalty"),
        (["-s", 5], "L1 penalty of -s 5"),
        (["-v", 3], "cross validation"),
        (["--checkpoint", "c"], "--checkpoint"),
        (["--max-iter", 3], "--passes"),
        (["--loss", "epsilon_insensitive"], "for regression"),
        (["--loss", "huber", "--liblinear"], "LIBLINEAR has no loss"),
    ],
)
def test_options_of_data_in_memory_are_refused(cli, argv, message):
    code, out, err = cli("train", "--stream", *argv, "two.svm", "m")
    assert (code, out) == (2, "")
    assert message in err
    assert not os.path.exists("m")


def test_options_of_streams_need_a_stream(cli):
    for option in (["--alpha", 1], ["--passes", 2], ["--holdout", 5], ["--progress"]):
        code, _, err = cli("train", *option, "two.svm", "m")
        assert code == 2
        assert "add --stream" in err


def test_bad_input(cli, tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n-1 2:x\n")
    (tmp_path / "one").write_text("1 1:1\n1 2:1\n")
    for path, message in [("bad", "bad:2:6: feature value"), ("one", "2 classes"), ("none", "No such file")]:
        code, out, err = cli("train", "--stream", path, "m")
        assert (code, out) == (1, "")
        assert message in err
        assert not os.path.exists("m")
    code, _, err = cli("train", "--stream", "two.svm", "three.svm")
    assert code == 1
    assert "not a model" in err


def test_stdin(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(as_text(*TWO).encode())}))
    code, _, err = cli("train", "--stream", "-q", "-", "m")
    assert code == 0, err
    np.testing.assert_array_equal(maxmargin.load("m").coef_, OnlineSVC().fit("two.svm").coef_)
    code, _, err = cli("train", "--stream", "--passes", 2, "-", "m")
    assert code == 2
    assert "only once" in err


@compiled
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_while_waiting_for_stdin(tmp_path):
    """Before there is a model: 130 and no file; afterwards: 130 and the model. The process ends by itself."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for text, is_written in [("1 1:1\n", False), (as_text(*TWO) * 3000, True)]:
        with subprocess.Popen([*PROCESS, "train", "--stream", "--progress", "-", "m"], text=True, **pipes) as process:
            process.stdin.write(text)
            process.stdin.flush()
            if is_written:  # a chunk of it has been learnt from
                while not re.search(r" 32768 ", process.stderr.readline()):
                    pass
            else:
                time.sleep(1.0)
            process.send_signal(signal.SIGINT)
            out, err = process.stdout.read(), process.stderr.read()
        assert process.returncode == 130, err
        assert "interrupted" in err
        assert os.path.exists("m") == is_written
    assert maxmargin.load("m").stop_reason_ == "interrupted"
    assert "interrupted" in out
