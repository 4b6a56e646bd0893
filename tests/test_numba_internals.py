"""What `_jit.py` takes from Numba beyond its public interface, by name.

A Numba without one of these fails here first, and says which. Before the upper bound in pyproject.toml is raised, this
file and `test_jit.py` must pass with the new version.
"""

import inspect
import itertools
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import cgutils, config, event, serialize, sigutils, types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, Flags
from numba.core.targetconfig import ConfigStack

from maxmargin._inner_code import QuicklyCompared
from maxmargin._jit import JIT_DISABLED, compiled, compiled_lean, generic, wide_vectors

needs_jit = pytest.mark.skipif(JIT_DISABLED, reason="dispatchers exist only where code is compiled")


@compiled
def total(x):
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


@compiled_lean
def lean_total(x):
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


@compiled
def wide_total(x):
    wide_vectors()
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i]
    return result


class Shift(NamedTuple):
    by: float


@generic
def shifted(tag, x):
    raise TypeError


@shifted.register(Shift)
def _(tag, x):
    return twice(x) + tag.by


@compiled
def twice(x):
    return 2.0 * x


@compiled
def shifted_total(tag, x):
    return shifted(tag, x[0]) + twice(total(x))


def changed(what):
    return f"numba {numba.__version__} has changed {what}, which maxmargin._jit uses: see tests/test_numba_internals.py"


def test_compilations_are_numbered_by_one_counter(monkeypatch):
    assert isinstance(getattr(FunctionIdentity, "_unique_ids", None), itertools.count), changed(
        "FunctionIdentity._unique_ids"
    )
    monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(12345))
    identity = FunctionIdentity.from_function(lambda: None)
    assert identity.unique_id == 12345, changed("the use of FunctionIdentity._unique_ids")


def test_a_cache_has_the_methods_that_ours_implements():
    assert _Cache.__abstractmethods__ == {
        "cache_path", "load_overload", "save_overload", "enable", "disable", "flush"
    }, changed("the methods of caching._Cache")  # fmt: skip


@needs_jit
def test_a_compiled_function_can_be_taken_apart_and_put_together():
    total(np.ones(3))
    (code,) = total.overloads.values()
    assert next(iter(inspect.signature(CompileResult._rebuild).parameters)) == "target_context", changed(
        "CompileResult._rebuild"
    )
    assert code.library.has_dynamic_globals is False, changed("CodeLibrary.has_dynamic_globals")
    again = CompileResult._rebuild(code.target_context, *code._reduce())
    assert again.entry_point(np.ones(5)) == 5.0, changed("CompileResult._reduce")
    assert serialize.dumps(code._reduce()), changed("serialize.dumps")
    assert isinstance(repr(code.codegen.magic_tuple()), str), changed("Codegen.magic_tuple")


@needs_jit
def test_a_dispatcher_asks_its_cache():
    calls = []

    class Recorder(_Cache):
        cache_path = None

        def load_overload(self, sig, target_context):
            calls.append(("load", sigutils.normalize_signature(sig)[0]))

        def save_overload(self, sig, cres):
            calls.append(("save", sigutils.normalize_signature(sig)[0]))

        def enable(self): ...
        def disable(self): ...
        def flush(self): ...

    dispatcher = numba.njit(lambda x: x + 1.0)
    assert hasattr(dispatcher, "_cache"), changed("Dispatcher._cache")
    dispatcher._cache = Recorder()
    assert dispatcher(1.0) == 2.0
    assert calls == [("load", (types.float64,)), ("save", (types.float64,))], changed("the use of Dispatcher._cache")


@needs_jit
def test_reference_counts_can_be_left_out():
    """Without `_nrt` the option would do nothing, and loops over rows would be several times slower."""
    x = np.ones(4)
    assert lean_total(x) == total(x) == 4.0
    with_counts, without = ("NRT_decref" in next(iter(f.inspect_llvm().values())) for f in (total, lean_total))
    assert with_counts, changed("the name of the function that counts references")
    assert not without, changed('the option "_nrt"')


@needs_jit
def test_functions_inside_others_have_no_machine_code_of_their_own(monkeypatch):
    """They would have it, and wrappers, twice: half of the time to compile would be for nothing."""
    made, emit = [], JITCodeLibrary._finalize_specific
    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", lambda self: (made.append(self.name), emit(self))[1])
    assert shifted_total(Shift(0.5), np.ones(3)) == 2.5 + 6.0
    assert made == ["shifted_total"], changed("CodeLibrary.finalize")
    inside = [code for function in (twice, total) for code in function._inner.overloads.values()]
    assert not any("cpython" in code.library.get_llvm_str() for code in inside), changed("Flags.no_cpython_wrapper")
    assert len({code.entry_point for code in inside}) == 2, changed("what functions are told apart by")


@needs_jit
@needs_jit
def test_flags_are_compared_as_numba_compares_them():
    """Whichever of the two classes they are of, and whether a value is set or left at its default."""
    few, same, more = Flags(), Flags(), Flags()
    few.forceinline = same.forceinline = more.forceinline = True
    same.nrt, more.nrt = few.nrt, not few.nrt
    for a, b, c in itertools.product(*((flags, QuicklyCompared(flags)) for flags in (few, same, more))):
        assert a == b
        assert hash(a) == hash(b) == hash(c)
        assert a != c
    assert type(QuicklyCompared(few).copy()) is QuicklyCompared
    seen = []
    with event.install_listener("numba:run_pass", Seen(seen)):
        compiled(lambda x: twice(x) + 1.0)(3)
    assert set(seen) == {QuicklyCompared}  # of what is called from Python, and of what is inside


class Seen(event.Listener):
    """Notes of what class the flags are with which functions are compiled."""

    def __init__(self, seen):
        self.seen = seen

    def on_start(self, event):
        self.seen.append(type(ConfigStack().top()))

    def on_end(self, event): ...


def test_a_function_can_be_called_from_python_before_and_after_it_is_inside_another():
    @compiled
    def first(x):
        return x + 1.0

    @compiled
    def outer(x):
        return first(x) * 2.0

    assert first(1.0) == 2.0
    assert outer(1.0) == 4.0
    assert first(1) == 2.0
    assert outer(1) == 4.0
    assert first(2) == 3.0


def test_tags_and_settings_are_where_they_were():
    assert issubclass(types.NamedTuple, types.BaseNamedTuple), changed("types.BaseNamedTuple")
    assert issubclass(types.BaseNamedTuple, types.BaseTuple), changed("types.BaseTuple")
    assert hasattr(types.NamedTuple([types.float64], type("Tag", (tuple,), {"_fields": ("x",)})), "instance_class"), (
        changed("NamedTuple.instance_class")
    )
    for name in ("DISABLE_JIT", "CACHE_DIR", "OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"):
        assert hasattr(config, name), changed(f"config.{name}")
    assert callable(cgutils.get_or_insert_function), changed("cgutils.get_or_insert_function")


@needs_jit
def test_functions_take_attributes_by_which_llvm_chooses_the_width_of_vectors():
    x = np.arange(100.0)
    assert wide_total(x) == total(x) == 4950.0
    for function, is_wide in ((wide_total, True), (total, False)):
        (code,) = function.inspect_llvm().values()
        assert ('"prefer-vector-width"="512"' in code) == is_wide, changed("attributes of functions")
