"""Fits in surroundings that are not as one would like them, each in a process of its own.

Little address space, a home that is missing, no directory or cannot be written to, a cache that four processes fill at
once, more threads than cores, and a fork while another thread fits. A process ends with the answer of an ordinary
one, or with an error that Python can tell; it does not crash and does not hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.hunt.frame import Case
from tests.hunt.mutations import pick

LIMIT = 60.0  # the processes' own time is limited by RLIMIT_CPU
CASES = 3

_SOURCE = Path(__file__).resolve().parents[2] / "src"
_SECONDS = 200  # of processor time for a process, compiling included
_WAIT = 3600.0  # by the clock: a deadlock

_HEAD = """
import json, os, resource, sys, threading
options = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (options["cpu"], options["cpu"]))
if options["memory"]:
    resource.setrlimit(resource.RLIMIT_AS, (options["memory"],) * 2)
import numpy as np
rng = np.random.default_rng(options["seed"])
X = rng.normal(size=(options["n"], options["m"]))
y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
from maxmargin import LinearSVC, OnlineSVC, SVC
kinds = {
    "LinearSVC": lambda n_jobs: LinearSVC(n_jobs=n_jobs, tol=1e-5),
    "hinge": lambda n_jobs: LinearSVC(loss="hinge", n_jobs=n_jobs, tol=1e-5),
    "OnlineSVC": lambda n_jobs: OnlineSVC(),
    "SVC": lambda n_jobs: SVC(n_jobs=n_jobs),
}
def fit(n_jobs=1):
    model = kinds[options["kind"]](n_jobs).fit(X, y)
    return np.asarray(model.decision_function(X[:20])).tolist()
"""
_PLAIN = _HEAD + "print(json.dumps(fit(options['n_jobs'])))\n"
_FORKED = (
    _HEAD
    + """
stop, wrong, alone = threading.Event(), [], fit()
def go_on():
    while not stop.is_set():
        if fit(options["n_jobs"]) != alone:
            wrong.append("the parent's answer has changed")
worker = threading.Thread(target=go_on)
worker.start()
for _ in range(4):
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = 0 if fit(options["n_jobs"]) == alone else 4
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        wrong.append(f"a child ended with {code}")
stop.set()
worker.join()
print(json.dumps(wrong or alone))
"""
)


def hunt(case: Case) -> None:
    rng = case.rng
    options = {"cpu": _SECONDS, "memory": 0, "seed": int(rng.integers(1000)), "n": int(pick(rng, [40, 400, 5000]))}
    options |= {
        "m": int(pick(rng, [3, 30])),
        "kind": pick(rng, ["LinearSVC", "hinge", "OnlineSVC", "SVC"]),
        "n_jobs": 1,
    }
    if options["kind"] == "SVC":
        options["n"] = min(options["n"], 400)
    ordinary = _ended(case, [_started(_PLAIN, options, dict(os.environ))], options)[0]
    kind = (_small_memory, _odd_home, _fork, _threads, _shared_cache)[case.number % (5 if case.seed else CASES)]
    kind(case, options, ordinary)


def _small_memory(case: Case, options: dict[str, Any], ordinary: Any) -> None:
    """As by ``ulimit -v``: either there is enough, or Python says so."""
    memory = int(10.0 ** case.rng.uniform(8.9, 9.7))
    options = options | {"memory": memory, "n_jobs": int(pick(case.rng, [1, 4]))}
    allowed = (
        "MemoryError",
        "Cannot allocate memory",
        "cannot allocate memory",
        "can't start new thread",
        "failed to map",
    )
    found = _ended(case, [_started(_PLAIN, options, dict(os.environ))], options, allowed)[0]
    case.check(found in (None, ordinary), f"another answer in {memory:,} bytes of memory: {options}")


def _odd_home(case: Case, options: dict[str, Any], ordinary: Any) -> None:
    home = pick(case.rng, [None, "/dev/null", "/proc", "/nowhere", "relative", ""])
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    if case.rng.random() < 0.3:
        environment.pop("NUMBA_CACHE_DIR", None)
    environment |= {} if home is None else {"HOME": home}
    environment |= {"XDG_CACHE_HOME": home} if home and case.rng.random() < 0.5 else {}
    found = _ended(case, [_started(_PLAIN, options, environment)], options)[0]
    case.check(found == ordinary, f"another answer with HOME={home}: {options}")


def _threads(case: Case, options: dict[str, Any], ordinary: Any) -> None:
    options = options | {"n_jobs": 16}
    found = _ended(case, [_started(_PLAIN, options, dict(os.environ))], options)[0]
    case.check(found == ordinary, f"another answer by 16 threads: {options}")


def _fork(case: Case, options: dict[str, Any], ordinary: Any) -> None:
    options = options | {"n_jobs": int(pick(case.rng, [1, 2, 16]))}
    found = _ended(case, [_started(_FORKED, options, dict(os.environ))], options)[0]
    case.check(found == ordinary, f"another answer where processes fork: {found}, {options}")


def _shared_cache(case: Case, options: dict[str, Any], ordinary: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        found = _ended(case, [_started(_PLAIN, options, environment) for _ in range(4)], options)
        case.check(found == [ordinary] * 4, f"another answer where four fill a cache: {options}")
        again = _ended(case, [_started(_PLAIN, options, environment)], options)[0]
        case.check(again == ordinary, f"another answer by code that four have kept: {options}")


def _started(program: str, options: dict[str, Any], environment: Any) -> Any:
    command = [sys.executable, "-X", "faulthandler", "-c", program, json.dumps(options)]
    environment = {**environment, "PYTHONPATH": str(_SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _ended(case: Case, processes: list[Any], options: dict[str, Any], allowed: tuple[str, ...] = ()) -> list[Any]:
    """What each process printed; None after an error that is allowed, or a finding."""
    answers = []
    for process in processes:
        case.runs += 1
        try:
            out, err = process.communicate(timeout=_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            case.found("over_limit", f"no end after {_WAIT:g} s: {options}")
        answers.append(json.loads(out) if process.returncode == 0 else None)
        if process.returncode in (-24, -9):  # SIGXCPU, and SIGKILL at the hard limit
            case.found("over_limit", f"more than {_SECONDS} s of processor time: {options}")
        elif process.returncode and not any(words in err for words in allowed):
            case.found("exception", f"exit code {process.returncode}: {err[-600:]}, {options}")
        elif process.returncode == 0:
            case.check_finite(np.ravel(answers[-1]), f"outputs: {options}")
    return answers
