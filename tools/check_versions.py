"""The test suite under every setting that is promised; run before each release.

    python tools/check_versions.py                 # all of them, one after the other: an hour or two
    python tools/check_versions.py lowest haswell  # some; --list names them
    python tools/check_versions.py lowest -- -x tests/test_linear_svc.py     # what is behind -- goes to pytest

Versions of Python get the whole suite with the newest packages, "lowest" with the lowest ones that pyproject.toml
declares. Settings of BLAS and of the compiler stand for other processors and get the tests marked "oracle", which
compare with proven optima. Environments are kept in a folder of their own and used again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ORACLES = ("-m", "oracle", "tests")


class Check(NamedTuple):
    python: str | None = None  # None: the one that runs this
    is_lowest: bool = False
    environment: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # none: the whole suite


def on_processor(*environment: str) -> Check:
    return Check(environment=environment, tests=ORACLES)


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


def lowest_versions() -> list[str]:
    """Every ">=" of the package and of its tests as "==", but for the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["plot"], *extras["zstd"]]
    pairs = [re.match(r"([\w\-\[\],]+?)>=([\d.]+)", line) for line in wanted]
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
    own = home / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", home], check=True)
    constraints = folder / "lowest.txt"
    constraints.write_text("\n".join(lowest_versions()) + "\n")
    limits = ["-c", constraints] if check.is_lowest else []
    subprocess.run([own, "-m", "pip", "install", "-q", *limits, "-e", f"{ROOT}[test]"], check=True)
    return own


def run(check: Check, python: Path, n_jobs: int, extra: list[str]) -> bool:
    """Whether the tests passed. Compiled code is kept apart: the user's own cache holds few versions."""
    settings = dict(setting.split("=", 1) for setting in check.environment)
    environment = os.environ | settings | {"XDG_CACHE_HOME": str(python.parents[1] / "cache")}
    tests = [*check.tests, *extra] if extra or check.tests else []
    command = [python, "-m", "pytest", "-q", "-n", str(n_jobs), "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    """Exit code 1 if a check failed or could not be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all")
    parser.add_argument("--list", action="store_true", help="names of the checks")
    parser.add_argument("--jobs", type=int, default=2, help="processes of each run (default: 2)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "maxmargin-versions")
    ours, _, theirs = " ".join(sys.argv[1:]).partition("-- ")
    arguments = parser.parse_args(ours.split())
    if arguments.list:
        print(*CHECKS, sep="\n")
        return 0
    unknown = set(arguments.checks) - CHECKS.keys()
    if unknown:
        parser.error(f"unknown check {', '.join(sorted(unknown))}; choose from {', '.join(CHECKS)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in arguments.checks or CHECKS:
        print(f"==== {name}", flush=True)
        start, python = time.monotonic(), environment_for(CHECKS[name], arguments.folder)
        if python is None:
            lines.append(f"{name:16s} NOT RUN: no Python {CHECKS[name].python}")
            continue
        passed = run(CHECKS[name], python, arguments.jobs, theirs.split())
        lines.append(f"{name:16s} {'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s")
    print(*lines, sep="\n")
    return int(any("passed" not in line for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
