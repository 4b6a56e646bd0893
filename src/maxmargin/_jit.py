"""How Python becomes machine code here: `compiled`, `generic` and `prefetch`.

Every hot loop is `@compiled`: a serial, GIL-free Numba function. What it is generic over (the row storage, the loss) is
a NamedTuple tag, and functions of a tag are `@generic`: one text serves compiled and plain Python, and compiled code
finds its way back from the disk cache (`_code_cache.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from numba.core import cgutils, config, types
from numba.extending import intrinsic, overload

from maxmargin._code_cache import CodeCache, is_ours
from maxmargin._inner_code import Inner, OuterDispatcher

F = TypeVar("F", bound=Callable[..., Any])

# Sums over sparse rows must not be reassociated: LLVM would turn them into gathers, 2.5 times slower.
# NaN and infinity are always respected, so that checks for them survive.
SPARSE_MATH = frozenset({"nsz", "arcp", "contract", "afn"})
DENSE_MATH = SPARSE_MATH | {"reassoc"}

JIT_DISABLED = bool(config.DISABLE_JIT)
_OPTIONS = {"boundscheck": False, "error_model": "numpy"}


# ---------------------------------------------------------------- decorators


def compiled(function: F | None = None, *, fastmath: frozenset[str] = SPARSE_MATH) -> Any:
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
        return functools.partial(compiled, fastmath=fastmath)
    if JIT_DISABLED:
        return function
    options = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True, **_OPTIONS, "fastmath": set(fastmath)}
    dispatcher = OuterDispatcher(function, options)
    dispatcher._cache = CodeCache(function)
    return dispatcher


def compiled_lean(function: Any = None, **options: Any) -> Any:
    """As `compiled`, for a loop that allocates nothing and returns no array: without reference counts.

    Numba counts references to the arrays of a tag, and cannot prune that where generic functions are called in a loop:
    with a dozen values a row, counting took four times as long as computing.
    """
    if function is None:
        return lambda function: compiled_lean(function, **options)
    dispatcher = compiled(function, **options)
    if not JIT_DISABLED:
        dispatcher.targetoptions["_nrt"] = False
    return dispatcher


def generic(function: F) -> Any:
    """`functools.singledispatch` on a NamedTuple tag that works inside compiled code, too.

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
        for tag in tags:
            _refuse_namesake(dispatch, tag)

        def decorate(implementation: F) -> F:
            for tag in tags:
                _refuse_stranger(function, tag, implementation)
                register_python(tag)(implementation)
            if not JIT_DISABLED:
                _overload(dispatch, tags, implementation, fastmath)
            return implementation

        return decorate

    dispatch.register = register  # type: ignore[method-assign, assignment]
    return dispatch


def _refuse_namesake(dispatch: Any, tag: type) -> None:
    """Numba takes two NamedTuples of one name and equal field types for the same: the first seen would serve both."""
    for known in dispatch.registry:
        if known.__name__ == tag.__name__ and known is not tag:
            raise ValueError(
                f"{dispatch.__name__} already knows a tag named {tag.__name__}, from {known.__module__}, and compiled "
                "code tells tags apart by name: give the new one another name (or restart Python if it is the same one)"
            )


def _refuse_stranger(function: Any, tag: type, implementation: Any) -> None:
    """The disk cache looks for what a call is made of in the modules of the function and of the tag, nowhere else."""
    homes = function.__module__, tag.__module__
    if is_ours(implementation) and implementation.__module__ not in homes:
        raise ValueError(f"{function.__name__} of {tag.__name__} must be registered in {' or '.join(homes)}")


def _overload(
    function: Callable[..., Any], tags: tuple[type, ...], implementation: Callable[..., Any], fastmath: frozenset[str]
) -> None:
    """Tell Numba that `function(tag, ...)` with one of these tags means `implementation`."""

    def choose(*args: Any, **keywords: Any) -> Callable[..., Any] | None:
        matches = isinstance(args[0], types.BaseNamedTuple) and args[0].instance_class in tags
        return implementation if matches else None

    choose.__signature__ = inspect.signature(implementation)  # type: ignore[attr-defined]
    options = {**_OPTIONS, "fastmath": set(fastmath), "forceinline": True, "pipeline_class": Inner}
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
        index = context.cast(builder, args[1], signature.args[1], types.intp)  # unsigned stays unsigned
        address = builder.bitcast(builder.gep(view.data, [index]), byte_pointer)
        signature_ll = ir.FunctionType(ir.VoidType(), [byte_pointer, i32, i32, i32])
        instruction = cgutils.get_or_insert_function(builder.module, signature_ll, "llvm.prefetch.p0")
        builder.call(instruction, [address, i32(0), i32(3), i32(1)])  # read, keep, data cache
        return context.get_dummy_value()

    return types.void(array, i), codegen


prefetch: Callable[[Any, Any], None] = _prefetch_python if JIT_DISABLED else _prefetch_intrinsic


def _wide_vectors_python() -> None:
    """Plain Python has no vectors."""


@intrinsic
def _wide_vectors_intrinsic(typingctx: Any) -> Any:
    """Let the loops of the calling function use the widest vectors there are; LLVM halves them on many processors."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


wide_vectors: Callable[[], None] = _wide_vectors_python if JIT_DISABLED else _wide_vectors_intrinsic
