"""Code that exists only inside other code: compiled as far as a linker needs it, no further.

Numba makes machine code of every function that another one calls, with two wrappers for calls from Python and from C,
although it then links the function's LLVM code into its caller and makes machine code of that anew. Here a function
that is called from compiled code is compiled by `Inner`: no wrappers, no machine code, nothing in the disk cache (it is
in its callers' files). A first `BudgetSVC.fit`, some 140 functions, takes half of the time.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.registry import CPUDispatcher


class _Linkable(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code that is never made into machine code by itself: its caller's optimization is the only one."""

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class QuicklyCompared(Flags):  # type: ignore[misc]
    """Numba's flags, which are part of a key whenever the type of a call is looked up.

    Numba compares two of them by making dictionaries of all their values, which was a tenth of all compiling.
    """

    __slots__ = ()
    _hash = hash(Flags())  # Numba's hash is that of the names of the flags: the same for all

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Flags) and self._values == other._values:
            return True
        return super().__eq__(other)


class Outer(Compiler):  # type: ignore[misc]
    """Numba's compiler for a function that is called from Python."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, return_type: Any, flags: Any, names: Any):
        super().__init__(typing, target, library, args, return_type, QuicklyCompared(flags), names)


class Inner(Outer):
    """Numba's compiler for a function that only compiled code will call."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, return_type: Any, flags: Any, names: Any):
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = _Linkable(target.codegen(), "inner")
        super().__init__(typing, target, library, args, return_type, flags, names)

    def compile_extra(self, func: Any) -> Any:
        """As Numba's, but callable from compiled code alone."""
        result = super().compile_extra(func)
        key: Any = [].append  # for Numba's tables: callable, a builtin, and equal to no other
        result.target_context.insert_user_function(key, result.fndesc, [result.library])
        return result._replace(entry_point=key)


class OuterDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function for callers in Python; compiled code that calls it gets another one, by `Inner`."""

    def __init__(self, function: Any, options: dict[str, Any]):
        super().__init__(function, {}, options, Outer)

    @cached_property
    def _inner(self) -> CPUDispatcher:
        return CPUDispatcher(self.py_func, self.locals, self.targetoptions, Inner)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self._inner)
