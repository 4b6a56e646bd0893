"""Compiling: not on the clock of `max_time`, announced once, and done beforehand by `warmup`."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import maxmargin
from maxmargin import _code_cache, _jit, _on_compile, warmup
from maxmargin.cli import main

PROGRAM = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("error")
import maxmargin
from maxmargin._code_cache import compile_seconds
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
begun = time.perf_counter()
model = maxmargin.LinearSVC(loss="hinge", solver="dual_cd", max_time=1.0).fit(X, y)
took = time.perf_counter() - begun
print(json.dumps([model.stop_reason_, model.history_["seconds"][-1], took, compile_seconds()]))
"""


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """A first fit where nothing is compiled yet, and the same again."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    runs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=200
        )
        assert done.returncode == 0, done.stderr
        runs.append((json.loads(done.stdout), done.stderr))
    return runs


@pytest.mark.skipif(_jit.JIT_DISABLED, reason="nothing is compiled")
def test_compiling_is_not_on_the_clock(cold):
    """A fit of a few milliseconds has all of its second, however long its code takes to make."""
    (reason, seconds, took, compiling), _ = cold[0]
    assert reason == "converged"
    assert compiling > 10.0 * seconds
    assert took >= compiling
    (reason, _, _, loading), _ = cold[1]
    assert reason == "converged"
    assert 0.0 < loading < compiling


@pytest.mark.skipif(_jit.JIT_DISABLED, reason="nothing is compiled")
def test_compiling_is_announced_once(cold):
    (_, said), (_, unsaid) = cold
    assert said.count("maxmargin is compiling for this processor") == 1
    assert "later runs start at once" in said
    assert unsaid == ""


def test_what_is_warm_is_not_compiled_again():
    warmup(["OnlineSVC"])
    compiled = []
    with _on_compile.on_compile(compiled.append):
        assert warmup(["OnlineSVC"]) < 5.0
    assert compiled == []
    with pytest.raises(ValueError, match="no estimator of the name 'LinearSVX'"):
        warmup(["LinearSVX"])


def test_the_command(capsys):
    assert main(["warmup", "OnlineSVC", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["estimators"] == ["OnlineSVC"]
    assert told["seconds"] >= 0.0
    assert main(["warmup", "-q", "OnlineSVC"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["warmup", "nonsense"]) == 1
    assert "no estimator" in capsys.readouterr().err


def test_the_clock_is_the_same_in_all_threads(monkeypatch):
    """What one thread has compiled is not on the clock of others: they work for the same fit."""
    monkeypatch.setattr(_code_cache._clock, "seconds", _code_cache.compile_seconds())  # as it was, afterwards
    _code_cache._clock.spent(time.perf_counter() - 1000.0)
    started = _code_cache.working_time()
    elsewhere = ThreadPoolExecutor(1).submit(_code_cache.working_time).result()
    assert 0.0 <= elsewhere - started < 500.0
    X = np.random.default_rng(0).normal(size=(400, 5))
    y = X[:, :4].argmax(axis=1)
    model = maxmargin.LinearSVC(max_time=500.0, n_jobs=4).fit(X, y)
    assert model.stop_reason_ == "converged"


@pytest.mark.parametrize("memory", [10**6, 2000])
def test_a_pass_over_a_store_is_not_paused_by_what_was_compiled(monkeypatch, tmp_path, memory):
    X = np.random.default_rng(0).normal(size=(400, 5))
    maxmargin.pack(X, tmp_path / "store", y=np.where(X[:, 0] > 0, 1, -1), block_size=2000)
    monkeypatch.setattr(_code_cache._clock, "seconds", _code_cache.compile_seconds())
    _code_cache._clock.spent(time.perf_counter() - 1000.0)
    store = maxmargin.open_store(tmp_path / "store", memory=memory)
    assert maxmargin.LinearSVC(max_time=500.0, n_jobs=2).fit(store).stop_reason_ == "converged"
