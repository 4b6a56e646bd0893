"""The disk cache of compiled code, and how long compiling took.

The cache is ours rather than Numba's, for three reasons that were all seen to bite:

* Numba stamps a cached function with the date of its own file only. After an edit of ``losses.py`` a function in
  ``dual_cd.py`` went on running the old loss. Here every entry carries a hash of all files that it is made of: its own
  module, those of its tags, and what these import at their top level, directly or not.
* Numba numbers the data files of a function through a shared index, so two processes that fill the cache at once
  can swap each other's machine code. Here an entry is one file named by the hash of its key, renamed into place.
* Numba tells inner functions of one name and type apart by a counter that starts at 1 in every process, so two
  functions compiled in two processes and loaded into a third can run each other's inner functions (Numba issue 10486).
  Here the counter starts at random.

What is not made of this package's own files alone (a function or a tag of the user's) is compiled anew in every
process, because nothing would tell when it has changed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import pickle
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy
from numba.core import config, sigutils, types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from maxmargin._on_compile import listeners

_PACKAGE = Path(__file__).parent
_WORTH_A_WORD = 1.0  # seconds of compiling before that is announced
_GENERATIONS_KEPT = 4  # versions of Python, Numba and NumPy whose code stays on disk
_VERSIONS_KEPT = 4  # of a function with the same argument types


class _File(NamedTuple):
    """A source file of the package as it was when the package was imported."""

    path: Path
    date: int
    size: int

    def is_unchanged(self) -> bool:
        try:
            status = self.path.stat()
        except OSError:  # an upgrade is under way
            return False
        return (status.st_mtime_ns, status.st_size) == (self.date, self.size)


def _source_files() -> dict[str, _File]:
    """Every module of the package with its file; none if they cannot be listed."""
    files = {}
    try:
        for path in _PACKAGE.rglob("*.py"):
            parts = path.relative_to(_PACKAGE).with_suffix("").parts
            module = ".".join([str(__package__), *(parts[:-1] if parts[-1] == "__init__" else parts)])
            status = path.stat()
            files[module] = _File(path, status.st_mtime_ns, status.st_size)
    except OSError:  # an upgrade is under way
        return {}
    return files


# Taken at import: the functions in memory are those of now, whatever happens to the files before they are compiled.
_SOURCES = _source_files()
_IMPORT = re.compile(
    rf"^(?:from ({__package__}[\w.]*) import (\([^)]*\)|.*)|import ({__package__}[\w.]*))", re.MULTILINE
)


@functools.cache
def _content(module: str) -> tuple[bytes, frozenset[str]]:
    """Hash of a module's file, and the modules of the package that it imports at its top level."""
    source = _SOURCES[module].path.read_bytes()
    imported = set()
    for home, names, whole in _IMPORT.findall(source.decode()):
        for name in re.findall(r"\w+", names) if home else [""]:
            member = f"{home}.{name}"
            imported.add(member if member in _SOURCES else home or whole)
    return hashlib.sha256(source).digest(), frozenset(imported & _SOURCES.keys())


@functools.cache
def _closure(module: str) -> frozenset[str]:
    """The modules that a module is made of: itself, and what it imports, directly or not."""
    found, ahead = {module}, [module]
    while ahead:
        new = _content(ahead.pop())[1] - found
        found |= new
        ahead.extend(new)
    return frozenset(found)


def _hash_of(modules: frozenset[str]) -> str | None:
    """Hash of the files that these modules are made of; None if a file is no longer what was imported."""
    if not modules <= _SOURCES.keys():
        return None
    files = sorted(frozenset().union(*map(_closure, modules)))
    if not all(_SOURCES[module].is_unchanged() for module in files):
        return None
    return hashlib.sha256(b"".join(name.encode() + b"\0" + _content(name)[0] for name in files)).hexdigest()[:24]


def _hash_of_compiler() -> str:
    """Hash of what turns source into machine code, and of the settings that change the code."""
    versions = sys.version, numba.__version__, llvmlite.__version__, numpy.__version__
    settings = config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT
    digest = hashlib.sha256(repr((versions, settings)).encode())
    for name in ("_jit.py", "_inner_code.py", "_code_cache.py"):
        digest.update((_PACKAGE / name).read_bytes())
    return digest.hexdigest()[:24]


COMPILER_STAMP = _hash_of_compiler()


def _cache_candidates() -> list[Path]:
    """Where compiled code may live, best first."""
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / "maxmargin"]
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # Where the user has no home directory, the path still begins with "~" and is no place to write to.
    users = [Path(base) / "maxmargin" / "kernels"] if os.path.isabs(base) else []
    return [*users, _PACKAGE / "__pycache__" / "kernels"]


@functools.cache
def cache_directory() -> Path | None:
    """The directory of this compiler's code, writable if any can be, or None where there is none."""
    read_only = None
    for root in _cache_candidates():
        path = root / COMPILER_STAMP
        is_old = os.path.isdir(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                os.utime(path)  # in use: the last to be forgotten
        except OSError:
            read_only = path if is_old and read_only is None else read_only
            continue
        if not is_old:
            _forget_old_generations(root)
        return path
    return read_only


def _forget_old_generations(root: Path) -> None:
    """Remove the code of all but the most recently used compilers."""
    with contextlib.suppress(OSError):  # another process may be doing the same
        generations = sorted(root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in generations[_GENERATIONS_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def is_ours(thing: Any) -> bool:
    """Whether a function or class is defined at the top level of one of the package's modules."""
    return thing.__module__.startswith(f"{__package__}.") and "<locals>" not in thing.__qualname__


def _type_name(numba_type: Any, modules: set[str]) -> str | None:
    """A name of an argument's type that means the same in every process, or None if it has no such name.

    The modules of its tags are added to `modules`.
    """
    if isinstance(numba_type, types.BaseTuple):
        tag = getattr(numba_type, "instance_class", tuple)
        parts = [_type_name(part, modules) for part in numba_type]
        if None in parts or not (tag is tuple or is_ours(tag)):
            return None
        if tag is not tuple:
            modules.add(tag.__module__)
        return f"{tag.__module__}.{tag.__qualname__}{parts}"
    plain = types.Array, types.Number, types.Boolean, types.Literal, types.Omitted, types.NoneType, types.UnicodeType
    return repr(numba_type) if isinstance(numba_type, plain) else None


class CodeCache(_Cache):
    """One file per (sources, function, argument types, processor); see the module's docstring."""

    def __init__(self, py_func: Callable[..., Any]):
        self._py_func = py_func

    @property
    def cache_path(self) -> str | None:
        directory = cache_directory()
        return None if directory is None else str(directory)

    def _file(self, signature: Any, codegen: Any) -> Path | None:
        """Where the code for these argument types is kept, or None if it must not be."""
        if not is_ours(self._py_func):
            return None
        modules = {self._py_func.__module__}
        type_names = [_type_name(argument, modules) for argument in sigutils.normalize_signature(signature)[0]]
        if None in type_names:
            return None
        sources, directory = _hash_of(frozenset(modules)), cache_directory()
        if sources is None or directory is None:
            return None
        name = f"{self._py_func.__module__}.{self._py_func.__qualname__}"
        key = repr((name, type_names, codegen.magic_tuple()))
        return directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}-{sources}.kernel"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        begun = time.perf_counter()
        code = self._loaded(sig, target_context)
        _clock.began(begun) if code is None else _clock.spent(begun)
        return code

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        path = self._file(sig, target_context.codegen())
        if path is not None:
            # Whatever is wrong with a cached file (absent, truncated, another numba's), compiling anew mends it.
            with contextlib.suppress(Exception):
                code = CompileResult._rebuild(target_context, *pickle.loads(_read_checked(path)))
                with contextlib.suppress(OSError):
                    os.utime(path)  # in use: the last to be forgotten
                return code
        _announce_compilation(self._py_func)
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        self._save(sig, cres)
        _clock.ended()

    def _save(self, sig: Any, cres: Any) -> None:
        path = self._file(sig, cres.codegen)
        if path is None or cres.library.has_dynamic_globals:
            return
        content = dumps(cres._reduce())
        with contextlib.suppress(OSError):  # a full disk costs speed, never a result
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(temporary, path)
                _forget_old_versions(path)
            except BaseException:
                os.unlink(temporary)
                raise

    def enable(self) -> None: ...
    def disable(self) -> None: ...
    def flush(self) -> None: ...


def _forget_old_versions(path: Path) -> None:
    """Remove all but the most recently used code of this function and these argument types."""
    versions = path.parent.glob(f"{path.name.rsplit('-', 1)[0]}-*.kernel")
    for old in sorted(versions, key=lambda version: version.stat().st_mtime, reverse=True)[_VERSIONS_KEPT:]:
        old.unlink(missing_ok=True)


def _read_checked(path: Path) -> bytes:
    """The content of a cache entry; machine code with a flipped bit would bring the process down."""
    stored = path.read_bytes()
    if hashlib.sha256(stored[32:]).digest() != stored[:32]:
        raise OSError(f"{path} is damaged")
    return stored[32:]


def _number_compilations_apart() -> None:
    """Let Numba's counter of compilations start where no other process has been; see the module's docstring."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


_number_compilations_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_compilations_apart)


class _Clock:
    """Time that was spent on making functions ready, outermost ones only.

    It is that of all threads: Numba compiles in one of them at a time, and others that work for the same fit wait.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.open: list[float] = []  # when the functions that are being compiled were begun

    def began(self, when: float) -> None:
        self.open.append(when)

    def ended(self) -> None:
        if self.open:
            self.spent(self.open.pop())

    def spent(self, since: float) -> None:
        if not self.open:
            self.seconds += time.perf_counter() - since


_clock = _Clock()


def working_time() -> float:
    """`time.perf_counter()`, but for the time in which functions were compiled: limits on seconds do not count it."""
    return time.perf_counter() - _clock.seconds


def compile_seconds() -> float:
    """Seconds that were spent on compiling and on loading what was compiled."""
    return _clock.seconds


_is_announced = False


def _announce_compilation(py_func: Callable[..., Any]) -> None:
    global _is_announced
    if not listeners and not _is_announced and _clock.seconds > _WORTH_A_WORD:
        _is_announced = True
        logging.getLogger("maxmargin").warning(
            "maxmargin is compiling for this processor and kind of data; later runs start at once. "
            '(maxmargin.warmup() does it beforehand; logging.getLogger("maxmargin").setLevel("ERROR") hides this.)'
        )
    for listener in list(listeners):
        listener(py_func.__qualname__)
