"""Calls of LAPACK and BLAS from compiled kernels; see `tracejit.ops.lapack`, which runs in plain Python."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype

from tracejit.ops.lapack import LETTERS, PREFIX, address

_BYTE, _INT = ir.IntType(8), ir.IntType(32)
_POINTER = _BYTE.as_pointer()


@functools.cache
def _bind(name: str) -> str:
    """Bind a routine to its private name, and return that."""
    llvm.add_symbol(PREFIX + name, address(name))
    return PREFIX + name


_LARGEST = 2**31 - 1


@intrinsic
def matmul(typingctx, a, b, y, size, rows, total, columns, turned_a, turned_b):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Multiply matrices by BLAS; `tracejit.ops.lapack.matmul` says what the arguments mean.

    Numba's own `dot` does the same, and takes 0.2 s to compile.
    """
    del typingctx
    symbol = _bind(LETTERS[as_dtype(y.dtype).char] + "gemm")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        arrays = [
            context.make_array(k)(context, builder, v).data
            for k, v in zip(kinds[:3], values[:3], strict=True)
        ]
        whole = [context.cast(builder, v, k, types.int64) for k, v in zip(kinds[3:], values[3:], strict=True)]
        count, *extents = whole[:4]
        for extent in extents:
            with builder.if_then(builder.icmp_signed(">", extent, extent.type(_LARGEST)), likely=False):
                context.call_conv.return_user_exc(
                    builder, ValueError, ("BLAS takes at most 2**31 - 1 rows and columns.",)
                )
        turns = [builder.icmp_signed("!=", flag, flag.type(0)) for flag in whole[4:]]
        gemm = _Gemm(context, builder, y.dtype, symbol)
        with cgutils.for_range(builder, count) as loop:
            gemm.call(arrays, loop.index, extents, turns)
        return context.get_dummy_value()

    return types.void(a, b, y, size, rows, total, columns, turned_a, turned_b), generate


class _Gemm:
    """Writes a call of ``gemm``, which takes everything by reference."""

    def __init__(self, context: Any, builder: Any, dtype: Any, symbol: str) -> None:
        self.context, self.builder, self.dtype, self.symbol = context, builder, dtype, symbol

    def call(self, arrays: list[Any], number: Any, extents: list[Any], turns: list[Any]) -> None:
        """Multiply pair ``number`` of the matrices; Fortran sees transposes, so the product is ``b.T @ a.T``."""
        (a, b, y), (rows, total, columns), (turned_a, turned_b) = arrays, extents, turns
        pointers = [
            *(self.letter(turned_b), self.letter(turned_a)),
            *(self.integer(columns), self.integer(rows), self.integer(total), self.constant(1)),
            *(self.matrix(b, number, total, columns), self.leading(turned_b, total, columns)),
            *(self.matrix(a, number, rows, total), self.leading(turned_a, rows, total), self.constant(0)),
            *(self.matrix(y, number, rows, columns), self.integer(self.at_least_one(columns))),
        ]
        kind = ir.FunctionType(ir.VoidType(), [_POINTER] * len(pointers))
        gemm = cgutils.get_or_insert_function(self.builder.module, kind, self.symbol)
        self.builder.call(gemm, pointers)

    def reference(self, value: Any) -> Any:
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return self.builder.bitcast(place, _POINTER)

    def integer(self, value: Any) -> Any:
        return self.reference(self.builder.trunc(value, _INT))

    def constant(self, value: float) -> Any:
        return self.reference(self.context.get_constant(self.dtype, value))

    def letter(self, turned: Any) -> Any:
        return self.reference(self.builder.select(turned, _BYTE(ord("T")), _BYTE(ord("N"))))

    def leading(self, turned: Any, height: Any, width: Any) -> Any:
        """The length of a row in memory."""
        return self.integer(self.at_least_one(self.builder.select(turned, height, width)))

    def at_least_one(self, extent: Any) -> Any:
        one = extent.type(1)
        return self.builder.select(self.builder.icmp_signed(">", extent, one), extent, one)

    def matrix(self, data: Any, number: Any, height: Any, width: Any) -> Any:
        offset = self.builder.mul(number, self.builder.mul(height, width))
        return self.builder.bitcast(self.builder.gep(data, [offset]), _POINTER)


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
