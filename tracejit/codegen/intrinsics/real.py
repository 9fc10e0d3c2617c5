"""NumPy's real functions that are a few instructions: no branches, so that the loops around them vectorise.

Each takes the builder and LLVM values of one float type and returns one value (an i1 for predicates).
Each follows NumPy on NaN, infinities and signed zeros; the tests compare them bit for bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from .calls import BITS, c_call, constant, llvm_call


def is_nan(b: Any, x: Any) -> Any:
    return b.fcmp_unordered("uno", x, x)


def is_inf(b: Any, x: Any) -> Any:
    return b.fcmp_ordered("==", llvm_call(b, "fabs", x), constant(x, math.inf))


def is_finite(b: Any, x: Any) -> Any:
    return b.fcmp_ordered("<", llvm_call(b, "fabs", x), constant(x, math.inf))


def sign_bit(b: Any, x: Any) -> Any:
    integer = ir.IntType(BITS[type(x.type)])
    return b.icmp_signed("<", b.bitcast(x, integer), ir.Constant(integer, 0))


def maximum(b: Any, x: Any, y: Any) -> Any:
    """A NaN wins, the first one if both are; of two zeros the second, as in the CPU's own instruction."""
    return b.select(b.or_(b.fcmp_ordered(">", x, y), is_nan(b, x)), x, y)


def minimum(b: Any, x: Any, y: Any) -> Any:
    return b.select(b.or_(b.fcmp_ordered("<", x, y), is_nan(b, x)), x, y)


def fmax(b: Any, x: Any, y: Any) -> Any:
    """A NaN loses."""
    return b.select(b.or_(b.fcmp_ordered(">", x, y), is_nan(b, y)), x, y)


def fmin(b: Any, x: Any, y: Any) -> Any:
    return b.select(b.or_(b.fcmp_ordered("<", x, y), is_nan(b, y)), x, y)


def sign(b: Any, x: Any) -> Any:
    zero = constant(x, 0.0)
    negative = b.select(b.fcmp_ordered("<", x, zero), constant(x, -1.0), zero)
    result = b.select(b.fcmp_ordered(">", x, zero), constant(x, 1.0), negative)
    return b.select(is_nan(b, x), x, result)


def heaviside(b: Any, x: Any, at_zero: Any) -> Any:
    zero, one = constant(x, 0.0), constant(x, 1.0)
    result = b.select(b.fcmp_ordered("<", x, zero), zero, one)
    result = b.select(b.fcmp_ordered("==", x, zero), at_zero, result)
    return b.select(is_nan(b, x), x, result)


def _division(b: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """C remainder, whether the rounding towards minus infinity moves it, and whether ``y`` is zero."""
    zero = constant(x, 0.0)
    rest = b.frem(x, y)
    opposite = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    moves = b.and_(b.fcmp_unordered("!=", rest, zero), opposite)
    return rest, moves, b.fcmp_ordered("==", y, zero)


def remainder(b: Any, x: Any, y: Any) -> Any:
    """Python's ``%``: the sign of the divisor, also of a zero."""
    rest, moves, by_zero = _division(b, x, y)
    result = b.select(moves, b.fadd(rest, y), rest)
    signed_zero = llvm_call(b, "copysign", constant(x, 0.0), y)
    result = b.select(b.fcmp_ordered("==", rest, constant(x, 0.0)), signed_zero, result)
    return b.select(by_zero, rest, result)


def floor_divide(b: Any, x: Any, y: Any) -> Any:
    """Python's ``//``, which is not ``floor(x / y)`` where the quotient rounds up to an integer."""
    zero, one = constant(x, 0.0), constant(x, 1.0)
    rest, moves, by_zero = _division(b, x, y)
    quotient = b.fdiv(b.fsub(x, rest), y)
    quotient = b.select(moves, b.fsub(quotient, one), quotient)
    whole = llvm_call(b, "floor", quotient)
    rounded_down = b.fcmp_ordered(">", b.fsub(quotient, whole), constant(x, 0.5))
    whole = b.select(rounded_down, b.fadd(whole, one), whole)
    ratio = b.fdiv(x, y)
    whole = b.select(b.fcmp_ordered("==", quotient, zero), llvm_call(b, "copysign", zero, ratio), whole)
    return b.select(by_zero, ratio, whole)


def square(b: Any, x: Any) -> Any:
    return b.fmul(x, x)


def reciprocal(b: Any, x: Any) -> Any:
    return b.fdiv(constant(x, 1.0), x)


def radians(b: Any, x: Any) -> Any:
    return b.fmul(x, _single(x, math.pi, 180.0))


def degrees(b: Any, x: Any) -> Any:
    return b.fmul(x, _single(x, 180.0, math.pi))


def _single(like: Any, numerator: float, denominator: float) -> Any:
    """The quotient of two constants, rounded as C rounds it in the type of ``like``."""
    if BITS[type(like.type)] == 64:
        return constant(like, numerator / denominator)
    rounded = np.float32(numerator) / np.float32(denominator)
    return constant(like, float(rounded))


def spacing(context: Any, b: Any, x: Any) -> Any:
    """Distance to the next number away from zero."""
    negative = b.fcmp_ordered("<", x, constant(x, 0.0))
    infinity = b.select(negative, constant(x, -math.inf), constant(x, math.inf))
    return b.fsub(c_call(b, context, "nextafter", x, infinity), x)


def logaddexp(context: Any, b: Any, x: Any, y: Any) -> Any:
    return _log_of_sum(context, b, x, y, ("exp", "log1p"), 1.0)


def logaddexp2(context: Any, b: Any, x: Any, y: Any) -> Any:
    return _log_of_sum(context, b, x, y, ("exp2", "log1p"), 1.0 / math.log(2.0))


def _log_of_sum(context: Any, b: Any, x: Any, y: Any, names: tuple[str, str], scale: float) -> Any:
    """``larger + log(1 + exp(-distance))``; equal operands, infinities too, have the distance 0."""
    power, logarithm = names
    distance = b.fneg(llvm_call(b, "fabs", b.fsub(x, y)))
    distance = b.select(b.fcmp_ordered("==", x, y), constant(x, 0.0), distance)
    tail = c_call(b, context, logarithm, c_call(b, context, power, distance))
    return b.fadd(maximum(b, x, y), b.fmul(constant(x, scale), tail))
