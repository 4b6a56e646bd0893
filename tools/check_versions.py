"""The test suite under every setting that is promised; run before each release.

    python tools/check_versions.py                      # all of them, one after the other: an hour or two
    python tools/check_versions.py lowest haswell       # some; --list names them
    python tools/check_versions.py --minutes 5          # a part: the next call goes on where this one stopped
    python tools/check_versions.py lowest --tests tests/solvers tests/test_linear_svc.py

Versions of Python get the whole suite with the newest packages, "lowest" with the lowest ones that pyproject.toml
declares. Settings of BLAS and of the compiler stand for other processors and get the tests marked "oracle", which
compare with proven optima.

Environments are kept in a folder and used again. So is what has passed: test files that did are left out of later runs
on the same sources, those that failed are run again. What pytest says is in a log for each setting.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NO_TESTS = 5  # pytest's code where none is of the kind that is asked for


class Check(NamedTuple):
    python: str | None = None  # None: the one that runs this
    is_lowest: bool = False
    environment: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of pytest


def on_processor(*environment: str) -> Check:
    return Check(environment=environment, options=("-m", "oracle"))


CHECKS = {
    "python3.11": Check("3.11"),
    "python3.12": Check("3.12"),
    "python3.13": Check("3.13"),
    "lowest": Check("3.11", is_lowest=True),
    "sandybridge": on_processor("OPENBLAS_CORETYPE=Sandybridge", "OPENBLAS_NUM_THREADS=2"),
    "haswell": on_processor("OPENBLAS_CORETYPE=Haswell", "OPENBLAS_NUM_THREADS=1"),
    "zen": on_processor("OPENBLAS_CORETYPE=Zen", "OPENBLAS_NUM_THREADS=2"),
    "skylakex": on_processor("OPENBLAS_CORETYPE=SkylakeX", "OPENBLAS_NUM_THREADS=1"),  # needs AVX-512
    "generic": on_processor("NUMBA_CPU_NAME=generic"),
    "haswell-generic": on_processor("OPENBLAS_CORETYPE=Haswell", "NUMBA_CPU_NAME=generic"),
}


# ---------------------------------------------------------------- environments


def lowest_versions() -> list[str]:
    """Every ">=" of the package and of its tests as "==", but for the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in ("test", "onnx", "plot", "zstd", "parquet", "dask"))]
    pairs = [re.match(r"([\w\-]+)(?:\[[\w,]+\])?>=([\d.]+)", line) for line in itertools.chain(*groups)]
    return [f"{pair[1]}=={pair[2]}" for pair in pairs if pair]


def interpreter(version: str | None) -> str | None:
    """A Python of this version: on the PATH, or pyenv's."""
    if version is None:
        return sys.executable
    found = shutil.which(f"python{version}")
    installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    for candidate in [found, *map(str, reversed(installed))]:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def environment_for(check: Check, folder: Path) -> Path | None:
    """The Python of a virtual environment with the package and its tests' packages; None if there is no such Python."""
    python = interpreter(check.python)
    if python is None:
        return None
    home = folder / (f"{check.python or 'present'}{'-lowest' if check.is_lowest else ''}")
    own, uv = home / "bin" / "python", shutil.which("uv")
    if not own.exists():
        subprocess.run([python, "-m", "venv", *(["--without-pip"] if uv else []), home], check=True)
    constraints = folder / "lowest.txt"
    constraints.write_text("\n".join(lowest_versions()) + "\n")
    limits = ["-c", constraints] if check.is_lowest else []
    installer = [uv, "pip", "install", "-p", own] if uv else [own, "-m", "pip", "install"]
    subprocess.run([*installer, "-q", *limits, "-e", f"{ROOT}[test]"], check=True)
    return own


# ---------------------------------------------------------------- running


def sources() -> str:
    """A name for the tree as it is: its commit, and what has been changed since."""
    state = (["rev-parse", "HEAD"], ["diff", "HEAD"])
    said = [subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout for words in state]
    return hashlib.sha256(b"".join(said)).hexdigest()[:16]


def test_files(places: Sequence[str]) -> list[str]:
    """Files of tests in these places; without any, all that pytest looks at (doctests as folders)."""
    paths = [ROOT / place for place in places or ["tests"]]
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))]
    return [str(file.relative_to(ROOT)) for file in files] + ([] if places else ["src", "docs"])


class Record:
    """What has passed under a setting, kept in a file with a line for each: sources, test file."""

    def __init__(self, file: Path):
        self.file = file
        self.sources = sources()

    def left_of(self, files: Sequence[str]) -> list[str]:
        """Those that have not passed with these sources."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        passed = {line.partition(" ")[2] for line in lines if line.startswith(self.sources)}
        return [file for file in files if file not in passed]

    def passed(self, file: str) -> None:
        with self.file.open("a") as record:
            record.write(f"{self.sources} {file}\n")


def run(name: str, python: Path, place: str, n_jobs: int, log: Path) -> bool:
    """Whether the tests passed. Compiled code is kept apart: the user's own cache holds few versions."""
    check = CHECKS[name]
    settings = dict(setting.split("=", 1) for setting in check.environment)
    environment = os.environ | settings | {"XDG_CACHE_HOME": str(python.parents[1] / "cache")}
    jobs = ["-n", str(n_jobs)] if n_jobs > 1 else []
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *jobs, *check.options, place]
    with log.open("a+") as file:
        begin = file.seek(0, os.SEEK_END)
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=file)
        file.seek(begin)
        lines = file.read().splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    print(*failures, f"{name}: {place}: {lines[-1] if lines else 'nothing was said'}", sep="\n", flush=True)
    return done.returncode in (0, NO_TESTS)


def try_one(name: str, arguments: argparse.Namespace, deadline: float) -> str:
    """Try a setting: its line of the summary."""
    start, python = time.monotonic(), environment_for(CHECKS[name], arguments.folder)
    if python is None:
        return f"NOT RUN: no Python {CHECKS[name].python}"
    record, log = Record(arguments.folder / f"{name}.passed"), arguments.folder / f"{name}.log"
    files = test_files(arguments.tests)
    left, failed = record.left_of(files), []
    while left and time.monotonic() < deadline:
        place, *left = left
        if run(name, python, place, arguments.jobs, log):
            record.passed(place)
        else:
            failed.append(place)
    seconds = f"{time.monotonic() - start:.0f} s"
    if failed:
        return f"FAILED: {', '.join(failed)}; {len(left)} of {len(files)} files are left, {seconds}, see {log}"
    if left:
        return f"UNFINISHED: {len(left)} of {len(files)} files are left, {seconds}; call again to go on"
    return f"passed, {len(files)} files, {seconds}"


def main() -> int:
    """Exit code 1 if a check failed, could not be run, or is not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all")
    parser.add_argument("--list", action="store_true", help="names of the checks")
    parser.add_argument("--jobs", type=int, default=2, help="processes of each run (default: 2)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no file after as many")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="only these files or folders")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "maxmargin-versions")
    arguments = parser.parse_args()
    if arguments.list:
        print(*CHECKS, sep="\n")
        return 0
    unknown = set(arguments.checks) - CHECKS.keys()
    if unknown:
        parser.error(f"unknown check {', '.join(sorted(unknown))}; choose from {', '.join(CHECKS)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60.0 * arguments.minutes
    lines = {name: try_one(name, arguments, deadline) for name in arguments.checks or CHECKS}
    print(*(f"{name:16s} {line}" for name, line in lines.items()), sep="\n")
    return int(any(not line.startswith("passed") for line in lines.values()))


if __name__ == "__main__":
    raise SystemExit(main())
