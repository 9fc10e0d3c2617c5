"""NumPy's integer functions: division by zero gives 0, the smallest integer overflows into itself."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from .calls import constant, llvm_call


def _safe_divisor(b: Any, x: Any, y: Any, signed: bool) -> tuple[Any, Any]:
    """A divisor that the CPU accepts, and whether the division was by zero."""
    zero, one = constant(x, 0), constant(x, 1)
    by_zero = b.icmp_unsigned("==", y, zero)
    unsafe = by_zero
    if signed:
        smallest = b.icmp_signed("==", x, constant(x, -(1 << (x.type.width - 1))))
        unsafe = b.or_(by_zero, b.and_(smallest, b.icmp_signed("==", y, constant(y, -1))))
    return b.select(unsafe, one, y), by_zero


def floor_divide(context: Any, b: Any, signature: Any, values: Any) -> Any:
    x, y = values
    signed = signature.args[0].signed
    divisor, by_zero = _safe_divisor(b, x, y, signed)
    quotient = b.sdiv(x, divisor) if signed else b.udiv(x, divisor)
    if signed:
        quotient = b.select(_moves(b, b.srem(x, divisor), divisor), b.sub(quotient, constant(x, 1)), quotient)
    return b.select(by_zero, constant(x, 0), quotient)


def remainder(context: Any, b: Any, signature: Any, values: Any) -> Any:
    x, y = values
    signed = signature.args[0].signed
    divisor, by_zero = _safe_divisor(b, x, y, signed)
    rest = b.srem(x, divisor) if signed else b.urem(x, divisor)
    if signed:
        rest = b.select(_moves(b, rest, divisor), b.add(rest, divisor), rest)
    return b.select(by_zero, constant(x, 0), rest)


def fmod(context: Any, b: Any, signature: Any, values: Any) -> Any:
    """Remainder with the sign of the dividend."""
    x, y = values
    signed = signature.args[0].signed
    divisor, by_zero = _safe_divisor(b, x, y, signed)
    rest = b.srem(x, divisor) if signed else b.urem(x, divisor)
    return b.select(by_zero, constant(x, 0), rest)


def _moves(b: Any, rest: Any, divisor: Any) -> Any:
    """Whether rounding down instead of towards zero changes the quotient."""
    zero = constant(rest, 0)
    opposite = b.icmp_signed("<", b.xor(rest, divisor), zero)
    return b.and_(b.icmp_signed("!=", rest, zero), opposite)


def maximum(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return llvm_call(b, "smax" if signature.args[0].signed else "umax", *values)


def minimum(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return llvm_call(b, "smin" if signature.args[0].signed else "umin", *values)


def absolute(context: Any, b: Any, signature: Any, values: Any) -> Any:
    (x,) = values
    if not signature.args[0].signed:
        return x
    return b.select(b.icmp_signed("<", x, constant(x, 0)), b.neg(x), x)


def sign(context: Any, b: Any, signature: Any, values: Any) -> Any:
    (x,) = values
    positive = b.zext(b.icmp_unsigned("!=", x, constant(x, 0)), x.type)
    if not signature.args[0].signed:
        return positive
    return b.select(b.icmp_signed("<", x, constant(x, 0)), constant(x, -1), positive)


def reciprocal(context: Any, b: Any, signature: Any, values: Any) -> Any:
    """1, -1, or 0; of zero what C makes of an infinity: the smallest integer, 0 in narrow types."""
    (x,) = values
    signed = signature.args[0].signed
    divisor, by_zero = _safe_divisor(b, x, x, signed)
    quotient = b.sdiv(constant(x, 1), divisor) if signed else b.udiv(constant(x, 1), divisor)
    width = x.type.width
    at_zero = -(1 << (width - 1)) if signed and width >= 32 else 0
    return b.select(by_zero, constant(x, at_zero), quotient)


def square(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return b.mul(values[0], values[0])


def unchanged(context: Any, b: Any, signature: Any, values: Any) -> Any:
    """Rounding functions leave an integer alone."""
    return values[0]


def false(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return ir.Constant(ir.IntType(1), 0)


def true(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return ir.Constant(ir.IntType(1), 1)


def sign_bit(context: Any, b: Any, signature: Any, values: Any) -> Any:
    (x,) = values
    return (
        b.icmp_signed("<", x, constant(x, 0))
        if signature.args[0].signed
        else false(context, b, signature, values)
    )


def _integer_power(base, exponent, signed):  # type: ignore[no-untyped-def]
    """Square and multiply, wrapping round as NumPy's integers do."""
    if signed and exponent < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    result = 1
    while exponent != 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent = (exponent >> 1) & 0x7FFFFFFFFFFFFFFF
    return result


def power(context: Any, b: Any, signature: Any, values: Any) -> Any:
    kind = signature.args[0]
    widened = [context.cast(b, value, kind, types.int64) for value in values]
    arguments = [*widened, context.get_constant(types.boolean, kind.signed)]
    callee = types.int64(types.int64, types.int64, types.boolean)
    result = context.compile_internal(b, _integer_power, callee, arguments)
    return context.cast(b, result, types.int64, kind)
