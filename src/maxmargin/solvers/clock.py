"""The processor's time-stamp counter inside kernels: how long a part of one takes, at hardly any cost."""

from __future__ import annotations

import platform
import time
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

from maxmargin._jit import JIT_DISABLED

# Elsewhere the counter may be closed to programs, and reading it would end them.
_IS_READABLE = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")


@intrinsic
def _ticks_intrinsic(typingctx: Any) -> Any:
    """The counter's present value, or 0 where it cannot be read."""
    from llvmlite import ir

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        if not _IS_READABLE:
            return i64(0)
        read = cgutils.get_or_insert_function(builder.module, ir.FunctionType(i64, []), "llvm.readcyclecounter")
        return builder.call(read, [])

    return types.int64(), codegen


def _ticks_python() -> int:
    return time.perf_counter_ns()


ticks: Any = _ticks_python if JIT_DISABLED else _ticks_intrinsic
