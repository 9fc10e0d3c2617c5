"""The parts of floats, shifts, divisors and the logistic function: what neither LLVM nor libm has as such.

All but `ldexp` and the divisors are without branches, so that the loops around them vectorise.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from . import integer, real
from .calls import BITS, c_call, constant, llvm_call
from .define import Kinds, binary, on_values, unary

# Bits of the mantissa, and the exponent field of numbers in [0.5, 1).
_FORMAT = {32: (23, 126), 64: (52, 1022)}


def _split(b: Any, x: Any) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent; zeros, infinities and NaN are their own mantissa."""
    width = BITS[type(x.type)]
    mantissa_bits, half = _FORMAT[width]
    whole = ir.IntType(width)
    number = functools.partial(ir.Constant, whole)
    size = llvm_call(b, "fabs", x)
    subnormal = b.fcmp_ordered("<", size, constant(x, 2.0 ** (1 - half)))
    shift = mantissa_bits + 2
    bits = b.bitcast(b.select(subnormal, b.fmul(x, constant(x, 2.0**shift)), x), whole)
    field = number((2 * half + 3) << mantissa_bits)
    exponent = b.lshr(b.and_(bits, field), number(mantissa_bits))
    exponent = b.sub(exponent, b.select(subnormal, number(half + shift), number(half)))
    mantissa = b.bitcast(b.or_(b.and_(bits, b.not_(field)), number(half << mantissa_bits)), x.type)
    ordinary = b.and_(b.fcmp_ordered(">", size, constant(x, 0.0)), real.is_finite(b, x))
    return b.select(ordinary, mantissa, x), b.select(ordinary, exponent, number(0))


def _mantissa(b: Any, x: Any) -> Any:
    return _split(b, x)[0]


def _exponent(b: Any, x: Any) -> Any:
    exponent = _split(b, x)[1]
    narrow = ir.IntType(32)
    return exponent if exponent.type == narrow else b.trunc(exponent, narrow)


def _fraction(b: Any, x: Any) -> Any:
    rest = b.select(real.is_inf(b, x), constant(x, 0.0), b.fsub(x, llvm_call(b, "trunc", x)))
    return llvm_call(b, "copysign", rest, x)


def _expit(context: Any, b: Any, signature: Any, values: Any) -> Any:
    """Of ``exp(x)`` and ``exp(-x)`` the small one, which does not overflow."""
    (x,) = values
    one = constant(x, 1.0)
    small = c_call(b, context, "exp", b.fneg(llvm_call(b, "fabs", x)))
    numerator = b.select(b.fcmp_ordered("<", x, constant(x, 0.0)), small, one)
    return b.fdiv(numerator, b.fadd(one, small))


def _sech_squared(context: Any, b: Any, signature: Any, values: Any) -> Any:
    """``4*e/(1 + e)**2`` with ``e = exp(-2*abs(x))``: no overflow, and all digits in the tails."""
    (x,) = values
    half = b.fneg(llvm_call(b, "fabs", x))
    small = c_call(b, context, "exp", b.fadd(half, half))
    root = b.fadd(constant(x, 1.0), small)
    return b.fdiv(b.fmul(constant(x, 4.0), small), b.fmul(root, root))


@intrinsic
def ldexp(typing, x, n):  # type: ignore[no-untyped-def]
    """``x * 2**n``, rounded once."""
    if not isinstance(x, types.Float) or not isinstance(types.unliteral(n), types.Integer):
        return None
    exponent = types.int64

    def lowering(context: Any, b: Any, signature: Any, values: Any) -> Any:
        x, n = values
        limit = ir.Constant(n.type, 10_000)  # far beyond every exponent
        n = llvm_call(b, "smax", llvm_call(b, "smin", n, limit), b.neg(limit))
        narrow = ir.IntType(32)
        kind = ir.FunctionType(x.type, [x.type, narrow])
        function = b.module.declare_intrinsic("llvm.ldexp", [x.type, narrow], kind)
        return b.call(function, [x, b.trunc(n, narrow)])

    return x(x, exponent), lowering


def _left_shift(b: Any, x: Any, y: Any) -> Any:
    """NumPy shifts everything out where the machine's result is undefined."""
    inside = b.icmp_unsigned("<", y, constant(y, x.type.width))
    return b.select(inside, b.shl(x, b.select(inside, y, constant(y, 0))), constant(x, 0))


def _right_shift(context: Any, b: Any, signature: Any, values: Any) -> Any:
    x, y = values
    most = constant(y, x.type.width - 1)
    inside = b.icmp_unsigned("<=", y, most)
    if signature.args[0].signed:
        return b.ashr(x, b.select(inside, y, most))
    return b.select(inside, b.lshr(x, b.select(inside, y, constant(y, 0))), constant(x, 0))


def _divisor(x, y):  # type: ignore[no-untyped-def]
    while y != 0:
        x, y = y, x % y
    return x


def _common(context: Any, b: Any, signature: Any, values: Any) -> tuple[Any, list[Any]]:
    """Greatest common divisor of the absolute values, and these, as uint64."""
    kind, wide = signature.args[0], types.uint64
    sizes = [integer.absolute(context, b, kind(kind), (v,)) for v in values]
    sizes = [b.zext(v, ir.IntType(64)) if v.type.width < 64 else v for v in sizes]
    return context.compile_internal(b, _divisor, wide(wide, wide), sizes), sizes


def _gcd(context: Any, b: Any, signature: Any, values: Any) -> Any:
    divisor, _ = _common(context, b, signature, values)
    return context.cast(b, divisor, types.uint64, signature.return_type)


def _lcm(context: Any, b: Any, signature: Any, values: Any) -> Any:
    divisor, (x, y) = _common(context, b, signature, values)
    nothing = b.icmp_unsigned("==", divisor, constant(divisor, 0))
    multiple = b.mul(b.udiv(x, b.select(nothing, constant(divisor, 1), divisor)), y)
    return context.cast(b, multiple, types.uint64, signature.return_type)


NAMES: dict[str, Any] = {
    "frexp_mantissa": unary(Kinds(on_values(_mantissa))),
    "frexp_exponent": unary(Kinds(on_values(_exponent), returns=lambda kind: types.int32)),
    "modf_fraction": unary(Kinds(on_values(_fraction))),
    "expit": unary(Kinds(_expit)),
    "sech_squared": unary(Kinds(_sech_squared)),
    "ldexp": ldexp,
    "left_shift": binary(Kinds(on_values(_left_shift), on_values(_left_shift))),
    "right_shift": binary(Kinds(_right_shift, _right_shift)),
    "gcd": binary(Kinds(_gcd, _gcd)),
    "lcm": binary(Kinds(_lcm, _lcm)),
}
"""Shifts and divisors have no real form; NumPy refuses floats before a tape is made."""
