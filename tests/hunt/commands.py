"""The command line: commands with options and files at random, sound and damaged, in the wrong places.

A command ends with one of its exit codes; what goes wrong is one message on stderr, never a traceback.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests.hunt.frame import Case
from tests.hunt.models import originals
from tests.hunt.mutations import damaged, pick

from maxmargin.cli import main

LIMIT = 20.0
CASES = 40

_CODES = (0, 1, 2)
_VALUES = ("0", "1", "-1", "2", "0.5", "1e308", "1e-300", "nan", "inf", "", "x", "9" * 30, "0.1,1", "1:2", "balanced")
_TRAIN = (
    "-c", "-s", "--loss", "--penalty", "-p", "-B", "--class-weight", "--solver", "-e", "--max-iter", "--seed", "-n",
    "--first-index", "--n-features", "--dtype",
)  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    "-s": ("0", "1", "2", "3", "4", "5", "6", "7", "11", "12", "13", "21"),
    "--loss": ("hinge", "squared_hinge", "logistic", "huber", "epsilon_insensitive", "squared_error"),
    "--penalty": ("l1", "l2"),
    "--solver": ("auto", "dual_cd", "ocas", "tron", "pegasos"),
    "--dtype": ("float32", "float64"),
    "--class-weight": ("balanced", "1=2", "-1=0.5"),
}
_FLAGS = ("--json", "--quiet", "--liblinear", "--free-intercept", "--stream")


def hunt(case: Case) -> None:
    rng = case.rng
    with tempfile.TemporaryDirectory() as folder:
        files = _files(rng, Path(folder))
        command = _command(rng, files)
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        before = Path.cwd()
        os.chdir(folder)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                warnings.simplefilter("ignore")
                with case.run(" ".join(command)):
                    code = main(command)
        finally:
            os.chdir(before)
    shown = " ".join(command)
    case.check(code is None or code in _CODES, f"{shown}: exit code {code}")
    case.check("Traceback" not in err.getvalue(), f"{shown}: a traceback")
    case.check(not code or err.getvalue().strip(), f"{shown}: exit code {code} and not a word")


def _files(rng: np.random.Generator, folder: Path) -> list[str]:
    """Data and models, some of them damaged."""
    X = rng.normal(size=(30, 4))
    y = pick(rng, [np.where(X[:, 0] > 0, 1, -1), np.arange(30) % 3, np.ones(30, int), np.round(X[:, 1], 2)])
    rows = (" ".join([f"{label:g}", *(f"{j + 1}:{v:.4g}" for j, v in enumerate(row))]) for label, row in zip(y, X))
    contents = {"data.svm": "\n".join(rows).encode(), "model.mm": originals()[pick(rng, list(originals()))]}
    table = "\n".join(",".join([f"{label:g}", *(f"{v:.4g}" for v in row)]) for label, row in zip(y, X))
    contents["table.csv"] = table.encode()
    for name, content in contents.items():
        (folder / name).write_bytes(damaged(rng, content) if rng.random() < 0.3 else content)
    return [*contents, "new", "nowhere/new", "."]


def _command(rng: np.random.Generator, files: list[str]) -> list[str]:
    name = pick(rng, ["train", "train", "train", "predict", "evaluate", "info", "convert", "select"])
    paths = [pick(rng, files) for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.6:
        paths = {"train": [*files[:1], "new"], "select": files[:1], "info": [pick(rng, files[:2])]}.get(name, files[:2])
        paths = [*paths, "new"] if name == "predict" else paths
        paths = [files[1], "new"] if name == "convert" else paths
    options: list[str] = []
    for option in rng.choice(_TRAIN, size=int(rng.integers(0, 4)), replace=False).tolist():
        words = _WORDS.get(option, _VALUES)
        options += [option, pick(rng, words if rng.random() < 0.8 else _VALUES)]
    if rng.random() < 0.3:
        options.append(pick(rng, _FLAGS))
    if name not in ("train", "select") and rng.random() < 0.8:
        options = options[-1:] if rng.random() < 0.3 else []
    limits = ["--max-iter", "20"] if name in ("train", "select") and "--stream" not in options else []
    limits += ["-c", "0.1,1", "-v", "2"] if name == "select" and rng.random() < 0.8 else []
    return [name, *limits, *options, *paths]
