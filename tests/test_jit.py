"""`_jit.py`: what the disk cache promises is tested in processes of their own, on a small package made for it."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

from maxmargin import _code_cache, _inner_code, _jit
from maxmargin._jit import DENSE_MATH, JIT_DISABLED, compiled, generic, prefetch
from maxmargin._on_compile import on_compile

LOSSES = """
import math
from typing import NamedTuple
from little._jit import generic

class Hinge(NamedTuple):
    scale: float

@generic
def value(loss, x):
    raise TypeError(f"no value for {type(loss).__name__}")

@generic
def slope(loss, x):
    raise TypeError(f"no slope for {type(loss).__name__}")

@value.register(Hinge)
def _(loss, x):
    s = math.cos(x)
    return loss.scale if s < 1e9 else s

@slope.register(Hinge)
def _(loss, x):
    s = math.cos(x)
    return -loss.scale if s < 1e9 else s
"""

LOOPS = """
from little._jit import compiled, prefetch
from little.losses import slope, value

@compiled
def total_value(loss, x):
    total = 0.0
    for i in range(x.shape[0]):
        prefetch(x, i)
        total += value(loss, x[i])
    return total

@compiled
def total_slope(loss, x):
    total = 0.0
    for i in range(x.shape[0]):
        total += slope(loss, x[i])
    return total
"""

# Runs jobs "kernel dtype" on three numbers and prints what came out and which kernels had to be compiled.
MAIN = """
import json, sys
import numpy as np
from little import _code_cache, loops
from little.losses import Hinge
from maxmargin import _on_compile

compiled = []
with _on_compile.on_compile(compiled.append):
    results = []
    for job in sys.argv[1:]:
        name, dtype = job.split()
        x = np.array([0.5, 1.5, -2.5], dtype=dtype)
        x.setflags(write=name != "total_slope")
        results.append(getattr(loops, name)(Hinge(2.0), x))
print(json.dumps({"results": results, "compiled": compiled, "cache": str(_code_cache.cache_directory())}))
"""

VALUE, SLOPE, VALUE32 = "total_value float64", "total_slope float64", "total_value float32"


class Little:
    """A package of its own with copies of what compiles and keeps code, and a cache directory of its own."""

    def __init__(self, folder):
        self.folder, self.package, self.cache = folder, folder / "little", folder / "cache"
        self.package.mkdir()
        for module in (_code_cache, _inner_code):
            shutil.copy(module.__file__, self.package)
        (self.package / "_jit.py").write_text(Path(_jit.__file__).read_text().replace("maxmargin.", "little."))
        (self.package / "__init__.py").write_text("")
        (self.package / "losses.py").write_text(LOSSES)
        (self.package / "loops.py").write_text(LOOPS)

    def environment(self, **extra):
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON", "XDG_"))}
        # With a fixed hash seed two processes give two functions the same symbols, if anything does.
        own = {"PYTHONPATH": self.folder, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "HOME": self.folder}
        return {**kept, **own, "XDG_CACHE_HOME": self.cache, **extra}

    def start(self, script, *arguments, **extra):
        command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
        environment = {name: str(value) for name, value in self.environment(**extra).items()}
        return subprocess.Popen(command, env=environment, cwd=self.folder, stdout=-1, stderr=-1, text=True)

    def finish(self, process):
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return json.loads(out)

    def run(self, *jobs, script=MAIN, **extra):
        return self.finish(self.start(script, *jobs, **extra))

    def entries(self):
        return sorted(self.cache.rglob("*.kernel"))

    def rewrite(self, file, old, new):
        path = self.package / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture
def little(tmp_path):
    return Little(tmp_path)


def test_code_is_compiled_once_until_a_file_that_it_is_made_of_changes(little):
    first = little.run(VALUE)
    assert first["results"] == [6.0]
    assert first["compiled"] == ["total_value"]

    second = little.run(VALUE)
    assert second["results"] == [6.0]
    assert second["compiled"] == []

    little.rewrite("losses.py", "return loss.scale if", "return 10 * loss.scale if")
    edited = little.run(VALUE)
    assert edited["results"] == [60.0]
    assert edited["compiled"] == ["total_value"]

    little.rewrite("losses.py", "return 10 * loss.scale if", "return loss.scale if")
    reverted = little.run(VALUE)
    assert reverted == second


def test_what_is_imported_indirectly_counts_and_what_is_not_imported_does_not(little):
    (little.package / "numbers.py").write_text("FACTOR = 1.0\n")
    (little.package / "other.py").write_text("from little import losses\n")
    little.rewrite("losses.py", "from little._jit", "from little.numbers import FACTOR\nfrom little._jit")
    little.rewrite("losses.py", "return loss.scale if", "return FACTOR * loss.scale if")
    assert little.run(VALUE)["results"] == [6.0]
    (little.package / "other.py").write_text("from little import losses  # edited\n")
    assert little.run(VALUE)["compiled"] == []
    (little.package / "numbers.py").write_text("FACTOR = 5.0\n")
    outcome = little.run(VALUE)
    assert (outcome["results"], outcome["compiled"]) == ([30.0], ["total_value"])


def test_few_versions_of_a_function_are_kept(little):
    for version in range(6):
        little.rewrite("losses.py", "import math", f"import math  # {version}")
        little.run(VALUE, VALUE32)
    assert len(little.entries()) == 2 * _code_cache._VERSIONS_KEPT
    assert little.run(VALUE, VALUE32)["compiled"] == []


def test_a_tag_is_registered_where_the_cache_will_look_for_it(little):
    (little.package / "third.py").write_text(
        textwrap.dedent("""
        from little import losses
        @losses.value.register(losses.Hinge)
        def _(loss, x):
            return x
        """)
    )
    script = """
        import json
        try:
            import little.third
        except ValueError as error:
            print(json.dumps(str(error)))
    """
    assert "must be registered in little.losses" in little.run(script=script)


def test_processes_that_fill_the_cache_at_once_do_not_mix_their_kernels(little):
    """Each compiles another kernel or type; the last loads them all, with inner functions of the same name and type."""
    branch = "    if x * {0} > s: s += math.sin(x + {0})\n    else: s -= math.cos(s * {0})\n"
    too_long_to_be_inlined = "".join(branch.format(k) for k in range(20))
    little.rewrite("losses.py", "    s = math.cos(x)\n", "    s = 0.0\n" + too_long_to_be_inlined)
    expected = {VALUE: 6.0, SLOPE: -6.0, VALUE32: 6.0}
    processes = {job: little.start(MAIN, job) for job in expected}
    for job, process in processes.items():
        outcome = little.finish(process)
        assert outcome["results"] == [expected[job]]
        assert len(outcome["compiled"]) == 1
    for jobs in [(VALUE, SLOPE, VALUE32), (SLOPE, VALUE32, VALUE)]:
        outcome = little.run(*jobs)
        assert outcome["results"] == [expected[job] for job in jobs]
        assert outcome["compiled"] == []
    assert len(little.entries()) == 3
    assert not list(little.cache.rglob("*.tmp"))


def test_damaged_cache_entries_are_compiled_anew(little):
    little.run(VALUE, SLOPE, VALUE32)
    truncated, flipped, emptied = little.entries()
    truncated.write_bytes(truncated.read_bytes()[:-1000])
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1  # in the machine code, where nothing else would notice
    flipped.write_bytes(content)
    emptied.write_bytes(b"")

    mended = little.run(VALUE, SLOPE, VALUE32)
    assert mended["results"] == [6.0, -6.0, 6.0]
    assert sorted(mended["compiled"]) == ["total_slope", "total_value", "total_value"]
    assert little.run(VALUE, SLOPE, VALUE32)["compiled"] == []


def test_nowhere_to_write_means_uncached_and_right(little):
    (little.package / "__pycache__").write_text("a file where the directory would be")
    before = sorted(little.folder.rglob("*"))
    outcome = little.run(VALUE, XDG_CACHE_HOME="/dev/null/nowhere", HOME="/dev/null")
    assert outcome == {"results": [6.0], "compiled": ["total_value"], "cache": "None"}
    assert sorted(little.folder.rglob("*")) == before


def test_a_full_disk_while_saving_a_kernel_costs_no_result(little):
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n" + MAIN
    pytest.importorskip("resource")
    outcome = little.run(VALUE, script=limited)
    assert outcome["results"] == [6.0]
    assert [path for path in Path(outcome["cache"]).rglob("*") if path.is_file()] == []


def test_an_edit_between_import_and_first_call_is_not_mistaken_for_what_was_compiled(little):
    edit = """
        import pathlib
        losses = pathlib.Path(loops.__file__).with_name("losses.py")
        losses.write_text(losses.read_text().replace("return loss.scale if", "return 10 * loss.scale if"))
    """
    edited_meanwhile = MAIN.replace("compiled = []\n", textwrap.dedent(edit) + "compiled = []\n")
    assert little.run(VALUE, script=edited_meanwhile)["results"] == [6.0]
    assert little.entries() == []
    assert little.run(VALUE)["results"] == [60.0]


def test_the_users_own_tags_and_kernels_are_never_taken_from_the_cache(little):
    (little.folder / "mine.py").write_text(
        textwrap.dedent("""
        from typing import NamedTuple
        from little import _jit, losses, loops

        class Mine(NamedTuple):
            scale: float

        @losses.value.register(Mine)
        def _(loss, x):
            return loss.scale * FACTOR

        @_jit.compiled
        def doubled(loss, x):
            return loops.total_value(loss, x) * 2
        """)
    )
    script = """
        import json, sys
        import numpy as np
        import mine
        from little import loops, losses
        x = np.ones(3)
        mine.FACTOR = float(sys.argv[1])
        print(json.dumps([f(loss(2.0), x) for loss in (losses.Hinge, mine.Mine)
                          for f in (loops.total_value, mine.doubled)]))
    """
    assert little.run("5", script=script) == [6.0, 12.0, 30.0, 60.0]
    assert little.run("7", script=script) == [6.0, 12.0, 42.0, 84.0]
    assert [path.name.split("-")[0] for path in little.entries()] == ["little.loops.total_value"]


def test_plain_python_gives_what_compiled_code_gives(little):
    compiled, plain = little.run(VALUE, SLOPE), little.run(VALUE, SLOPE, NUMBA_DISABLE_JIT="1")
    assert plain["results"] == compiled["results"]
    assert plain["compiled"] == []
    kinds = "import json; from little import loops; print(json.dumps([type(loops.total_value).__name__]))"
    assert little.run(script=kinds, NUMBA_DISABLE_JIT="1") == ["function"]


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_an_unknown_tag_is_a_type_error_that_names_it(little, disabled):
    script = """
        import json
        import numpy as np
        from typing import NamedTuple
        from little import losses, loops
        class Unknown(NamedTuple):
            scale: float
        messages = []
        for function, argument in [(losses.value, 1.0), (loops.total_value, np.ones(2))]:
            try:
                function(Unknown(1.0), argument)
            except Exception as error:
                messages.append([type(error).__name__, str(error)])
        print(json.dumps(messages))
    """
    (direct, direct_text), (within, within_text) = little.run(script=script, NUMBA_DISABLE_JIT=disabled)
    assert direct == "TypeError"
    assert within == ("TypeError" if disabled == "1" else "TypingError")
    assert "Unknown" in direct_text
    assert "Unknown" in within_text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_processes_number_their_compilations_apart(little):
    script = """
        import json, os
        from little import _jit
        from numba.core.bytecode import FunctionIdentity
        numbers = []
        for child in range(2):
            read, write = os.pipe()
            if os.fork() == 0:
                os.write(write, str(next(FunctionIdentity._unique_ids)).encode())
                os._exit(0)
            numbers.append(int(os.read(read, 100)))
        print(json.dumps([*numbers, next(FunctionIdentity._unique_ids)]))
    """
    first, second, parent = little.run(script=script)
    assert len({first, second, parent}) == 3


def test_importing_the_package_imports_no_heavy_library():
    heavy = ["numba", "llvmlite", "scipy.sparse", "sklearn", "pandas"]
    script = f"import sys, maxmargin, maxmargin.models; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- the cache's directories


def test_only_the_most_recently_used_generations_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(_code_cache, "_cache_candidates", lambda: [tmp_path])
    now = time.time()
    for age in range(1, 7):
        (tmp_path / f"old{age}").mkdir()
        (tmp_path / f"old{age}" / "x.kernel").write_bytes(b"")
        os.utime(tmp_path / f"old{age}", (now - 1000 * age, now - 1000 * age))
    newest = _code_cache.cache_directory.__wrapped__()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {newest.name, "old1", "old2", "old3"}

    os.utime(newest, (now - 9000, now - 9000))
    assert _code_cache.cache_directory.__wrapped__() == newest
    assert newest.stat().st_mtime > now - 100  # use makes it young again


def test_a_filled_cache_that_is_read_only_is_still_read(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "read-only", str(dir))

    filled = tmp_path / "filled" / _code_cache.COMPILER_STAMP
    filled.mkdir(parents=True)
    monkeypatch.setattr(_code_cache, "_cache_candidates", lambda: [tmp_path / "absent", tmp_path / "filled"])
    monkeypatch.setattr(_code_cache.tempfile, "TemporaryFile", refuse)
    assert _code_cache.cache_directory.__wrapped__() == filled


def test_a_user_without_a_home_gets_no_directory_named_tilde(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where no home is known
    monkeypatch.setattr(_code_cache.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert all(path.is_absolute() and "~" not in str(path) for path in _code_cache._cache_candidates())


def test_numba_cache_dir_is_obeyed(tmp_path, monkeypatch):
    monkeypatch.setattr(_code_cache.config, "CACHE_DIR", str(tmp_path))
    assert [tmp_path in path.parents for path in _code_cache._cache_candidates()] == [True]


# ---------------------------------------------------------------- kernels


class Square(NamedTuple):
    side: float


class Circle(NamedTuple):
    radius: float


@generic
def area(shape, factor=1.0):
    raise TypeError(f"no area of {type(shape).__name__}")


@area.register(Square)
def _(shape, factor=1.0):
    return factor * shape.side * shape.side


@area.register(Circle)
def _(shape, factor=1.0):
    return factor * 3.0 * shape.radius * shape.radius


@compiled
def areas(shape):
    return area(shape), area(shape, 2.0), area(shape, factor=3.0)


@compiled
def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        prefetch(x, i)
        s += x[i]
    return s


def test_generic_functions_take_defaults_and_keywords_inside_kernels():
    assert areas(Square(2.0)) == (4.0, 8.0, 12.0)
    assert areas(Circle(1.0)) == (3.0, 6.0, 9.0)
    assert area(Circle(2.0)) == 12.0


def test_a_second_tag_of_the_same_name_is_refused():
    """Numba would take its instances for those of the first."""

    def another_square():
        class Square(NamedTuple):
            diagonal: float

        return Square

    with pytest.raises(ValueError, match="already knows a tag named Square"):
        area.register(another_square())


def test_read_only_arrays_are_welcome():
    x = np.arange(5.0)
    x.setflags(write=False)
    assert total(x) == 10.0
    assert total(np.arange(5.0)) == 10.0


@pytest.mark.parametrize("index_dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_prefetch_leaves_everything_as_it_was(index_dtype):
    @compiled
    def look_ahead(x, order):
        s = 0.0
        for k in range(order.shape[0]):
            prefetch(x, order[min(k + 2, order.shape[0] - 1)])
            s += x[order[k]]
        return s

    x, order = np.arange(6, dtype=np.float32), np.array([5, 0, 3], dtype=index_dtype)
    x_before, order_before = x.copy(), order.copy()
    assert look_ahead(x, order) == 8.0
    np.testing.assert_array_equal(x, x_before)
    np.testing.assert_array_equal(order, order_before)
    if not JIT_DISABLED:
        assert "llvm.prefetch" in next(iter(look_ahead.inspect_llvm().values()))


@pytest.mark.skipif(JIT_DISABLED, reason="about compiled code")
def test_prefetch_takes_a_large_unsigned_index_as_unsigned():
    """A sign-extended uint32 would ask for a line 16 GB below the array."""

    @compiled
    def ask(x, i):
        prefetch(x, i)

    ask(np.ones(1), np.uint32(0))
    assert "zext i32" in next(iter(ask.inspect_llvm().values()))


def test_kernels_respect_nan_and_infinity():
    @compiled(fastmath=DENSE_MATH)
    def classify(x):
        return np.isnan(x[0]), np.isinf(x[1]), x[2] / x[3]

    with np.errstate(divide="ignore"):  # plain Python warns
        is_nan, is_infinite, quotient = classify(np.array([np.nan, np.inf, 1.0, 0.0]))
    assert is_nan
    assert is_infinite
    assert quotient == np.inf


@pytest.mark.skipif(JIT_DISABLED, reason="about compiled code")
def test_kernels_are_compiled_at_their_first_call_without_the_gil():
    announced = []
    with on_compile(announced.append):

        @compiled
        def identity(x):
            return x

        assert announced == []
        assert identity(1.0) == 1.0
        assert identity(2.0) == 2.0
    assert len(announced) == 1
    assert announced[0].endswith("identity")
    assert identity(3) == 3
    assert len(announced) == 1  # the context has ended
    assert identity.targetoptions["nogil"]
    assert isinstance(identity, numba.core.dispatcher.Dispatcher)
