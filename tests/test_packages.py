"""The wheel and the sdist: they build, hold what they should, and work where nothing else of ours is."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*command, **options):
    """Run a command; what it says is shown if it fails."""
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with both packages."""
    pytest.importorskip("build", reason="pip install build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "maxmargin/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"maxmargin", f"maxmargin-{maxmargin.__version__}.dist-info"}
    own = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "maxmargin").rglob("*.py")}
    assert own <= set(names)


def test_the_sdist_holds_tests_and_documentation(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "docs/conf.py", "examples/plot_path.py"}
    assert expected | {"tests/test_packages.py", "src/maxmargin/__init__.py"} <= names
    assert not any(name.startswith(("docs/_build", "docs/gallery", ".venv")) for name in names)


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_in_an_empty_environment(built, kind, tmp_path):
    (package,) = built.glob(kind)
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    scripts = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "-q", package)
    fit = "from maxmargin import LinearSVC; print(LinearSVC().fit([[0.], [1.]], [0, 1]).stop_reason_)"
    assert run(scripts / "python", "-c", fit, cwd=tmp_path).strip() == "converged"
    assert maxmargin.__version__ in run(scripts / "maxmargin", "--version", cwd=tmp_path)
