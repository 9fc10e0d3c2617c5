"""Operations that a loop repeats on one accumulator, in the form that LLVM's vectoriser accepts.

A sum of floats vectorises only if its adds may be reordered.  The permission (``reassoc nsz``) is given to
the accumulating instruction alone; everything else in the loop rounds as written.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from . import complex as complex_
from . import integer
from .calls import constant, llvm_call
from .define import Kinds, binary, on_values

REORDER = ("reassoc", "nsz")


def _add(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return b.fadd(*values, flags=REORDER)


def _multiply(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return b.fmul(*values, flags=REORDER)


def _add_complex(context: Any, b: Any, signature: Any, values: Any) -> Any:
    kind = signature.args[0]
    (a, c), (d, e) = (complex_.parts(context, b, kind, value) for value in values)
    return complex_.build(context, b, kind, b.fadd(a, d, flags=REORDER), b.fadd(c, e, flags=REORDER))


def _multiply_complex(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return complex_.multiply(context, b, signature.args[0], *values)


add_reassoc = binary(Kinds(_add, on_values(lambda b, x, y: b.add(x, y)), _add_complex))
mul_reassoc = binary(Kinds(_multiply, on_values(lambda b, x, y: b.mul(x, y)), _multiply_complex))

# llvm.maximum keeps a NaN whichever side it is on, so the order does not matter and no permission is needed.
max_accumulate = binary(Kinds(on_values(lambda b, x, y: llvm_call(b, "maximum", x, y)), integer.maximum))
min_accumulate = binary(Kinds(on_values(lambda b, x, y: llvm_call(b, "minimum", x, y)), integer.minimum))


# llvm.maximumnum keeps the number, so NaN is a start that the first number replaces.
fmax_accumulate = binary(Kinds(on_values(lambda b, x, y: llvm_call(b, "maximumnum", x, y)), integer.maximum))
fmin_accumulate = binary(Kinds(on_values(lambda b, x, y: llvm_call(b, "minimumnum", x, y)), integer.minimum))


def _absorb(b: Any, x: Any, y: Any) -> Any:
    zero = constant(x, 0.0)
    absorbed = b.or_(b.fcmp_ordered("==", x, zero), b.fcmp_ordered("==", y, zero))
    return b.select(absorbed, zero, b.fmul(x, y))


def _absorb_complex(context: Any, b: Any, signature: Any, values: Any) -> Any:
    kind = signature.args[0]
    zeros = []
    for value in values:
        both = [
            b.fcmp_ordered("==", part, constant(part, 0.0))
            for part in complex_.parts(context, b, kind, value)
        ]
        zeros.append(b.and_(*both))
    absorbed = b.or_(*zeros)
    product = complex_.parts(context, b, kind, complex_.multiply(context, b, kind, *values))
    return complex_.build(context, b, kind, *(b.select(absorbed, constant(p, 0.0), p) for p in product))


# A product of the chain rule: an exact zero factor gives zero, also against an infinity or NaN.
absorb_mul = binary(Kinds(on_values(_absorb), on_values(lambda b, x, y: b.mul(x, y)), _absorb_complex))


@intrinsic
def where(typing, condition, x, y):  # type: ignore[no-untyped-def]
    """``y if not condition else x`` as an instruction: both are computed, nothing branches."""
    kind = typing.unify_types(types.unliteral(x), types.unliteral(y))
    if kind is None or not isinstance(kind, types.Number | types.Boolean):
        return None

    def lowering(context: Any, b: Any, signature: Any, values: Any) -> Any:
        chosen, x, y = values
        if not isinstance(kind, types.Complex):
            return b.select(chosen, x, y)
        pairs = zip(*(complex_.parts(context, b, kind, value) for value in (x, y)), strict=True)
        return complex_.build(context, b, kind, *(b.select(chosen, *pair) for pair in pairs))

    return kind(types.boolean, kind, kind), lowering


@intrinsic
def wide_vectors(typing):  # type: ignore[no-untyped-def]
    """Call once anywhere in a function: its loops use 512-bit registers where the CPU has them.

    LLVM prefers 256 bits on most CPUs because wide registers once lowered the clock.
    """

    def lowering(context: Any, b: Any, signature: Any, values: Any) -> Any:
        set.add(b.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), lowering
