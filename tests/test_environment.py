"""Surroundings that are not as one would like them: no home, little memory, several first runs at once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from maxmargin import save_svmlight

SOURCE = Path(__file__).resolve().parents[1] / "src"


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    save_svmlight(tmp_path / "data", X, np.where(X[:, 0] > 0, 1, -1))
    return tmp_path / "data"


def environment(**changes):
    kept = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    }
    return {**kept, "PYTHONPATH": str(SOURCE), **changes}


def maxmargin(*arguments, before="", env=None):
    """Run a command in a process of its own, after some statements."""
    program = f"import sys\n{before}\nfrom maxmargin.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env or dict(os.environ))


@pytest.mark.parametrize("home", [{}, {"HOME": "/dev/null"}], ids=["missing", "not a directory"])
def test_a_home_is_not_needed(home, data):
    done = maxmargin("info", data, env=environment(**home))
    assert done.returncode == 0, done.stderr
    assert "40" in done.stdout


def test_four_processes_fill_the_cache_at_once(tmp_path):
    program = (
        "import numpy as np\n"
        "from maxmargin.data.rows import as_rows\n"
        "print(as_rows(np.arange(6.0).reshape(2, 3))[1].tolist())\n"
    )
    env = environment(HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        for _ in range(4)
    ]
    results = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * 4, results
    assert {out.decode().strip() for out, _ in results} == {"[5.0, 50.0]"}
    assert any(path.is_file() for path in (tmp_path / "cache").rglob("*")), "what was compiled is kept"
    again = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert again.stdout.strip() == "[5.0, 50.0]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of POSIX")
def test_too_little_memory_is_told_in_a_sentence(data, tmp_path):
    """As ``ulimit -v`` would have it: 4 GB of address space, and a model that would take 16."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"
    done = maxmargin("info", data, before=limit)
    assert done.returncode == 0, done.stderr
    done = maxmargin("train", "--n-features", 2 * 10**9, "-n", 1, data, tmp_path / "m.mm", before=limit)
    assert done.returncode == 1
    assert "not enough memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m.mm").exists()


def test_a_library_that_cannot_be_loaded_is_told_in_a_sentence(data):
    done = maxmargin("train", data, before="sys.modules['numba'] = None")
    assert done.returncode == 1
    assert "cannot load what is needed" in done.stderr
    assert "Traceback" not in done.stderr
