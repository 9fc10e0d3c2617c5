"""Calls of LAPACK and BLAS from compiled kernels; see `tracejit.ops.lapack`, which runs in plain Python."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype

from tracejit.ops.lapack import LETTERS, PREFIX, address

_POINTER = ir.IntType(8).as_pointer()


@functools.cache
def _bind(name: str) -> str:
    """Bind a routine to its private name, and return that."""
    llvm.add_symbol(PREFIX + name, address(name))
    return PREFIX + name


@intrinsic
def fortran(typingctx: Any, routine: Any, arguments: Any) -> Any:
    """Call ``routine`` (a literal name without its first letter) on the memory of a tuple of arrays."""
    del typingctx
    if not isinstance(routine, types.StringLiteral) or not isinstance(arguments, types.BaseTuple):
        return None
    letters = [LETTERS.get(as_dtype(a.dtype).char) for a in arguments]
    symbol = _bind(next(x for x in letters if x) + routine.literal_value)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = []
        for number, kind in enumerate(signature.args[1]):
            array = context.make_array(kind)(context, builder, builder.extract_value(values[1], number))
            pointers.append(builder.bitcast(array.data, _POINTER))
        kind = ir.FunctionType(ir.VoidType(), [_POINTER] * len(pointers))
        known = builder.module.globals.get(symbol)
        builder.call(known or ir.Function(builder.module, kind, symbol), pointers)
        return context.get_dummy_value()

    return types.void(routine, arguments), generate
