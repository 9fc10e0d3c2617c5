"""Sums of blocks, added in pairs of equal size: the error grows with the logarithm of the number of blocks.

A binary counter: bit k of ``count`` says that ``stack[k]`` holds the sum of 2**k blocks.  A loop does

    stack = pairwise_stack(0.0)
    count = 0
    for start in range(0, n, 128):
        acc = 0.0
        for i in range(start, min(start + 128, n)):
            acc = add_reassoc(acc, ...)
        count = pairwise_push(stack, count, acc)
    total = pairwise_total(stack, count)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from . import complex as complex_

LEVELS = 64


@intrinsic
def pairwise_stack(typing, zero):  # type: ignore[no-untyped-def]
    """Room for the partial sums of numbers of the type of ``zero``, on the stack of this function call."""
    kind = types.unliteral(zero)
    if not isinstance(kind, types.Number):
        return None

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = ir.Constant(ir.IntType(32), LEVELS)
        return cgutils.alloca_once(builder, context.get_data_type(kind), size=size)

    return types.CPointer(kind)(zero), lowering


@intrinsic
def pairwise_push(typing, stack, count, value):  # type: ignore[no-untyped-def]
    """Add the sum of one more block; the new count."""
    if not isinstance(stack, types.CPointer):
        return None
    kind = stack.dtype

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        stack, count, value = values
        total = cgutils.alloca_once_value(builder, value)
        trailing_ones = _count_bits(builder, "cttz", builder.not_(count))
        with cgutils.for_range(builder, trailing_ones) as loop:
            entry = builder.load(builder.gep(stack, [loop.index]))
            builder.store(_add(context, builder, kind, entry, builder.load(total)), total)
        builder.store(builder.load(total), builder.gep(stack, [trailing_ones]))
        return builder.add(count, ir.Constant(count.type, 1))

    return types.intp(stack, types.intp, kind), lowering


@intrinsic
def pairwise_total(typing, stack, count):  # type: ignore[no-untyped-def]
    """The sum of all blocks; 0 if there were none."""
    if not isinstance(stack, types.CPointer):
        return None
    kind = stack.dtype

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        stack, count = values
        total = cgutils.alloca_once_value(
            builder, context.get_constant_generic(builder, kind, kind.cast_python_value(0))
        )
        width = ir.Constant(count.type, count.type.width)
        levels = builder.sub(width, _count_bits(builder, "ctlz", count))
        with cgutils.for_range(builder, levels) as loop:
            bit = builder.and_(builder.lshr(count, loop.index), ir.Constant(count.type, 1))
            with builder.if_then(builder.icmp_unsigned("!=", bit, ir.Constant(bit.type, 0))):
                entry = builder.load(builder.gep(stack, [loop.index]))
                builder.store(_add(context, builder, kind, entry, builder.load(total)), total)
        return builder.load(total)

    return kind(stack, types.intp), lowering


def _count_bits(builder: Any, name: str, value: Any) -> Any:
    """Number of leading or trailing zeros; the width of the integer if it is zero."""
    flag = ir.IntType(1)
    signature = ir.FunctionType(value.type, [value.type, flag])
    function = builder.module.declare_intrinsic(f"llvm.{name}", [value.type], signature)
    return builder.call(function, [value, ir.Constant(flag, 0)])


def _add(context: Any, builder: Any, kind: Any, x: Any, y: Any) -> Any:
    if isinstance(kind, types.Complex):
        pairs = zip(*(complex_.parts(context, builder, kind, value) for value in (x, y)), strict=True)
        return complex_.build(context, builder, kind, *(builder.fadd(*pair) for pair in pairs))
    return builder.fadd(x, y) if isinstance(kind, types.Float) else builder.add(x, y)
