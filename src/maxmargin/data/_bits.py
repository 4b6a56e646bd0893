"""Machine instructions that Numba does not offer by name, each beside its meaning in plain Python.

Compiled kernels get the instruction, ``NUMBA_DISABLE_JIT=1`` gets the Python.

Text is read and written at addresses, not through arrays: an array handed from one compiled function to the next
costs two atomic updates of its reference count, which made parsing twice as slow. Addresses are not checked; whoever
calls keeps the buffer alive and leaves room for a whole word behind its end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from maxmargin._jit import JIT_DISABLED

_I1, _I8, _I64, _I128 = (ir.IntType(width) for width in (1, 8, 64, 128))


def _instruction(meaning: Callable[..., Any], returns: Any, emit: Callable[..., Any]) -> Any:
    """The Python function `meaning`, or for compiled code what ``emit(context, builder, signature, args)`` builds."""
    if JIT_DISABLED:
        return meaning

    def one_argument(typingctx: Any, a: Any) -> Any:
        return returns(a), emit

    def two_arguments(typingctx: Any, a: Any, b: Any) -> Any:
        return returns(a, b), emit

    typed = one_argument if meaning.__code__.co_argcount == 1 else two_arguments
    typed.__name__ = typed.__qualname__ = meaning.__name__
    return intrinsic(typed)


# ---------------------------------------------------------------- memory


def _byte_at(address: Any) -> Any:
    """The byte at an address, as an int64."""
    return ctypes.c_ubyte.from_address(int(address)).value


def _word_at(address: Any) -> Any:
    """The eight bytes from an address on as a uint64, the first of them lowest."""
    return np.uint64(int.from_bytes(ctypes.string_at(int(address), 8), "little"))


def _put_byte(address: Any, byte: Any) -> None:
    """Store a byte, given as an int64."""
    ctypes.c_ubyte.from_address(int(address)).value = byte


def _emit_load(width: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], ir.IntType(width).as_pointer()), align=1)
        return loaded if width == 64 else builder.zext(loaded, _I64)

    return emit


def _emit_store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.store(builder.trunc(args[1], _I8), builder.inttoptr(args[0], _I8.as_pointer()))
    return context.get_dummy_value()


# ---------------------------------------------------------------- arithmetic


def _trailing_zeros(word: Any) -> Any:
    """Number of zero bits below the lowest one of a uint64; 64 for zero."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


def _leading_zeros(word: Any) -> Any:
    """Number of zero bits above the highest one of a uint64; 64 for zero."""
    return 64 - int(word).bit_length()


def _multiply_wide(a: Any, b: Any) -> Any:
    """The 128-bit product of two uint64, as (high, low)."""
    product = int(a) * int(b)
    return np.uint64(product >> 64), np.uint64(product & 0xFFFFFFFFFFFFFFFF)


def _emit_count(name: str) -> Callable[..., Any]:
    return lambda context, builder, signature, args: getattr(builder, name)(args[0], ir.Constant(_I1, 0))


def _emit_multiply(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    product = builder.mul(builder.zext(args[0], _I128), builder.zext(args[1], _I128))
    high = builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)
    return context.make_tuple(builder, signature.return_type, (high, builder.trunc(product, _I64)))


byte_at = _instruction(_byte_at, types.int64, _emit_load(8))
word_at = _instruction(_word_at, types.uint64, _emit_load(64))
put_byte = _instruction(_put_byte, types.void, _emit_store)
trailing_zeros = _instruction(_trailing_zeros, types.int64, _emit_count("cttz"))
leading_zeros = _instruction(_leading_zeros, types.int64, _emit_count("ctlz"))
multiply_wide = _instruction(_multiply_wide, types.UniTuple(types.uint64, 2), _emit_multiply)
