"""Fetch memory ahead of use.

Random rows of a large matrix are not in the cache; a loop that knows its next rows asks for them
early and computes meanwhile. A prefetch changes no result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from rankine.kernels.compile import jit

__all__ = ["prefetch", "prefetch_span"]

_LINE = 64  # bytes of a cache line


def prefetch(array: Any, i: int) -> None:
    """Hint that ``array[i]`` will be read soon; nothing happens with the JIT off."""


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    signature = types.void(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(view.data, [args[1]])
        raw = builder.bitcast(pointer, cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        name = "llvm.prefetch.p0" if not hasattr(raw.type, "pointee") else "llvm.prefetch.p0i8"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [raw, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@overload(prefetch, inline="always")  # type: ignore[untyped-decorator]
def _prefetch_overload(array: Any, i: Any) -> Any:
    def fetch(array: Any, i: Any) -> Any:
        _prefetch(array, np.intp(i))

    return fetch


@jit
def prefetch_span(array: Any, start: int, stop: int) -> None:
    """Hint that ``array[start:stop]`` will be read soon."""
    step = _LINE // array.itemsize
    for i in range(start, stop, step):
        prefetch(array, i)
