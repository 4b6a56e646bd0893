"""How Python becomes machine code here: `kernel`, `generic` and `prefetch`.

Every hot loop is a `@kernel`: a serial, GIL-free Numba function. What a kernel is generic over (the row
storage, the loss) is a NamedTuple tag, and functions of a tag are `@generic`: one text serves compiled and
plain Python, and compiled code finds its way back from the disk cache.

The disk cache is ours rather than Numba's, for two reasons that were both seen to bite:

* Numba stamps a cached function with the date of its own file only. After an edit of ``losses.py`` a kernel in
  ``dual_cd.py`` went on running the old loss. Here every entry carries a hash of the whole package.
* Numba numbers the data files of a function through a shared index, so two processes that fill the cache at once
  can swap each other's machine code. Here an entry is one file named by the hash of its key, renamed into place.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import cgutils, config, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])

# Sums over sparse rows must not be reassociated: LLVM would turn them into gathers, 2.5 times slower.
# NaN and infinity are always respected, so that checks for them survive.
SPARSE_MATH = frozenset({"nsz", "arcp", "contract", "afn"})
DENSE_MATH = SPARSE_MATH | {"reassoc"}

JIT_DISABLED = bool(config.DISABLE_JIT)

_PACKAGE = Path(__file__).parent
_GENERATIONS_KEPT = 4  # versions of the package whose kernels stay on disk


# ---------------------------------------------------------------- the disk cache


@functools.cache
def package_stamp() -> str:
    """Hash of every source file of the package, and of what compiles it."""
    digest = hashlib.sha256(f"{sys.version}|{numba.__version__}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _cache_candidates() -> list[Path]:
    """Where compiled kernels may live, best first."""
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / "maxmargin"]
    home = Path("~").expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return [Path(base) / "maxmargin" / "kernels", _PACKAGE / "__pycache__" / "kernels"]


@functools.cache
def cache_directory() -> Path | None:
    """The writable directory of this version's kernels, or None where there is none."""
    for root in _cache_candidates():
        path = root / package_stamp()
        try:
            if not path.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                _forget_old_generations(root)
            with tempfile.TemporaryFile(dir=path):
                return path
        except OSError:
            continue
    return None


def _forget_old_generations(root: Path) -> None:
    """Remove the kernels of all but the newest few versions of the package."""
    generations = sorted(root.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in generations[_GENERATIONS_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


class _KernelCache(_Cache):
    """One file per (package, function, argument types, processor); see the module's docstring."""

    def __init__(self, py_func: Callable[..., Any]):
        self._py_func = py_func

    @property
    def cache_path(self) -> str | None:
        directory = cache_directory()
        return None if directory is None else str(directory)

    def _file(self, signature: Any, codegen: Any) -> Path | None:
        directory = cache_directory()
        if directory is None:
            return None
        name = f"{self._py_func.__module__}.{self._py_func.__qualname__}"
        key = f"{name}|{signature!r}|{codegen.magic_tuple()!r}"
        return directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.kernel"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        path = self._file(sig, target_context.codegen())
        if path is not None:
            # Whatever is wrong with a cached file (absent, truncated, another numba's), compiling anew mends it.
            with contextlib.suppress(Exception):
                return CompileResult._rebuild(target_context, *pickle.loads(path.read_bytes()))
        _announce_compilation(self._py_func)
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        path = self._file(sig, cres.codegen)
        if path is None or cres.library.has_dynamic_globals:
            return
        with contextlib.suppress(OSError):  # a full disk costs speed, never a result
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(dumps(cres._reduce()))
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise

    def enable(self) -> None: ...
    def disable(self) -> None: ...
    def flush(self) -> None: ...


_compile_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def on_compile(listener: Callable[[str], None]):
    """While the context lasts, call `listener(kernel_name)` before a kernel is compiled."""
    _compile_listeners.append(listener)
    try:
        yield
    finally:
        _compile_listeners.remove(listener)


def _announce_compilation(py_func: Callable[..., Any]) -> None:
    for listener in list(_compile_listeners):
        listener(py_func.__qualname__)


# ---------------------------------------------------------------- decorators


def kernel(function: F | None = None, *, fastmath: frozenset[str] = SPARSE_MATH) -> Any:
    """Compile a hot loop: GIL released, disk cached, plain Python under ``NUMBA_DISABLE_JIT=1``.

    Compilation happens at the first call, never at import.

    Parameters
    ----------
    function : callable
        The loop. Its arguments are arrays, numbers and NamedTuple tags.
    fastmath : set of str
        `SPARSE_MATH` (the default) or, for loops over dense rows, `DENSE_MATH`.
    """
    if function is None:
        return functools.partial(kernel, fastmath=fastmath)
    dispatcher = numba.njit(nogil=True, boundscheck=False, error_model="numpy", fastmath=set(fastmath))(function)
    if not JIT_DISABLED:
        dispatcher._cache = _KernelCache(function)
    return dispatcher


def generic(function: F) -> Any:
    """`functools.singledispatch` on a NamedTuple tag that works inside kernels, too.

    The decorated function is the fallback for unknown tags (it should raise); ``register(Tag, ...)`` adds the
    implementation for one tag.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Square(NamedTuple):
    ...     side: float
    >>> @generic
    ... def area(shape):
    ...     raise TypeError(shape)
    >>> @area.register(Square)
    ... def _(shape):
    ...     return shape.side * shape.side
    >>> area(Square(3.0))
    9.0
    """
    dispatch = functools.singledispatch(function)
    register_python = dispatch.register

    def register(*tags: type, fastmath: frozenset[str] = SPARSE_MATH) -> Callable[[F], F]:
        def decorate(implementation: F) -> F:
            for tag in tags:
                register_python(tag)(implementation)
            if not JIT_DISABLED:
                _overload(dispatch, tags, implementation, fastmath)
            return implementation

        return decorate

    dispatch.register = register  # type: ignore[method-assign, assignment]
    return dispatch


def _overload(
    function: Callable[..., Any], tags: tuple[type, ...], implementation: Callable[..., Any], fastmath: frozenset[str]
) -> None:
    """Tell Numba that `function(tag, ...)` with one of these tags means `implementation`."""

    def choose(*args: Any) -> Callable[..., Any] | None:
        matches = isinstance(args[0], types.BaseNamedTuple) and args[0].instance_class in tags
        return implementation if matches else None

    choose.__signature__ = inspect.signature(implementation)  # type: ignore[attr-defined]
    options = {"boundscheck": False, "error_model": "numpy", "fastmath": set(fastmath)}
    overload(function, jit_options=options)(choose)


# ---------------------------------------------------------------- intrinsics


def _prefetch_python(array: Any, i: Any) -> None:
    """Plain Python has no cache to warm."""


@intrinsic
def _prefetch_intrinsic(typingctx: Any, array: Any, i: Any) -> Any:
    """Ask for the cache line of ``array[i]`` (one-dimensional, contiguous) without waiting for it."""
    from llvmlite import ir

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte_pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        view = context.make_array(signature.args[0])(context, builder, args[0])
        address = builder.bitcast(builder.gep(view.data, [args[1]]), byte_pointer)
        signature_ll = ir.FunctionType(ir.VoidType(), [byte_pointer, i32, i32, i32])
        instruction = cgutils.get_or_insert_function(builder.module, signature_ll, "llvm.prefetch.p0")
        builder.call(instruction, [address, i32(0), i32(3), i32(1)])  # read, keep, data cache
        return context.get_dummy_value()

    return types.void(array, i), codegen


prefetch = _prefetch_python if JIT_DISABLED else _prefetch_intrinsic
