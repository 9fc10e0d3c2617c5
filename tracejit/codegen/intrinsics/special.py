"""scipy's special functions in loops: the C functions that scipy carries for Cython.

They are bound under private names when the first loop that calls them is compiled, and take doubles:
float32 is widened, and the result rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tracejit.errors import InternalError
from tracejit.ops import special_bessel, special_gamma, special_integrals, special_values
from tracejit.ops.base import REGISTRY
from tracejit.ops.special import PREFIX, Special

from . import scipy_functions
from .calls import add_attributes, c_call, constant
from .define import Deferred, Kinds, Lowering, binary, unary

_DOUBLE, _LONG, _FLAG = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_MODULES = special_bessel, special_gamma, special_integrals, special_values
"""Importing these files makes the ops that `_names` lists."""


# --- the C functions ----------------------------------------------------------------------------------------


@functools.cache
def _bind(name: str, integers: tuple[bool, ...], results: int) -> str:
    """Bind a function to its symbol, and return that."""
    symbol = scipy_functions.symbol(name, integers, results)
    address = scipy_functions.address(symbol)
    if address is None:
        raise InternalError(f"scipy has no function {symbol!r}.")
    llvm.add_symbol(symbol, address)
    return symbol


def _call(builder: Any, symbol: str, values: list[Any]) -> Any:
    kind = ir.FunctionType(_DOUBLE, [*(v.type for v in values), _FLAG])
    function = cgutils.get_or_insert_function(builder.module, kind, symbol)
    call = builder.call(function, [*values, ir.Constant(_FLAG, 0)])
    add_attributes(call.attributes, "nounwind", "willreturn", "memory(none)")
    return call


def _call_part(builder: Any, symbol: str, values: list[Any], part: int, results: int) -> Any:
    """Call a function with several results, and return one of them."""
    places = [cgutils.alloca_once(builder, _DOUBLE) for _ in range(results)]
    arguments = [*values, *places]
    kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), arguments)
    return builder.load(places[part])


# --- intrinsics ---------------------------------------------------------------------------------------------


def _resolver(op: Special) -> Callable[..., Any]:
    name, results = op.ufunc, 1 if op.part is None else _results(op)

    def resolve(*arguments: Any) -> Any:
        kinds = [types.unliteral(a) for a in arguments]
        if not all(isinstance(k, types.Number | types.Boolean) for k in kinds):
            return None
        narrow = all(k == types.float32 for k in kinds)
        integers = tuple(isinstance(k, types.Integer) for k in kinds)
        if not scipy_functions.has_integers(name):
            integers = (False,) * len(kinds)
        taken = [types.int64 if i else types.float64 for i in integers]
        symbol = _bind(name, integers, results)

        def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            wide = [
                context.cast(builder, v, k, t) for v, k, t in zip(values, signature.args, taken, strict=True)
            ]
            if op.part is None:
                found = _call(builder, symbol, wide)
            else:
                found = _call_part(builder, symbol, wide, op.part, results)
            return context.cast(builder, found, types.float64, signature.return_type)

        return (types.float32 if narrow else types.float64)(*kinds), lowering

    return resolve


def _results(op: Special) -> int:
    return 1 + max(o.part or 0 for o in _specials() if o.ufunc == op.ufunc)


def _specials() -> list[Special]:
    return [op for op in REGISTRY.values() if isinstance(op, Special)]


def _scipy_call(op: Special) -> Any:
    resolve = _resolver(op)

    def one(typing, a):  # type: ignore[no-untyped-def]
        return resolve(a)

    def two(typing, a, b):  # type: ignore[no-untyped-def]
        return resolve(a, b)

    def three(typing, a, b, c):  # type: ignore[no-untyped-def]
        return resolve(a, b, c)

    def four(typing, a, b, c, d):  # type: ignore[no-untyped-def]
        return resolve(a, b, c, d)

    return intrinsic((one, two, three, four)[op.arity - 1])


# --- what libm has, in vectors ------------------------------------------------------------------------------


def _c(name: str) -> Lowering:
    return lambda context, b, signature, values: c_call(b, context, name, *values)


def _ndtr(context: Any, b: Any, signature: Any, values: Any) -> Any:
    (x,) = values
    tail = c_call(b, context, "erfc", b.fmul(x, constant(x, -(0.5**0.5))))
    return b.fmul(constant(x, 0.5), tail)


def _unless(b: Any, x: Any, vanishes: Any, y: Any, product: Any) -> Any:
    """0 where ``vanishes`` and ``y`` is a number, else ``product``."""
    number = b.fcmp_ordered("ord", y, y)
    return b.select(b.and_(vanishes, number), constant(x, 0.0), product)


def _product_with(name: str) -> Lowering:
    """``x * f(y)``, and 0 where ``x`` is 0."""

    def lowering(context: Any, b: Any, signature: Any, values: Any) -> Any:
        x, y = values
        vanishes = b.fcmp_ordered("==", x, constant(x, 0.0))
        return _unless(b, x, vanishes, y, b.fmul(x, c_call(b, context, name, y)))

    return lowering


# --- Hurwitz' zeta function, which scipy has no C function for ----------------------------------------------

_EPSILON = 1.11e-16

# (2k)! / B_2k of the Euler-Maclaurin formula.
_FACTORS = (
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.8924375803183791606e9,
    7.47242496e10,
    -2.950130727918164224e12,
    1.1646782814350067249e14,
    -4.5979787224074726105e15,
    1.8152105401943546773e17,
    -7.1661652561756670113e18,
)


def _hurwitz(s, q):  # type: ignore[no-untyped-def]
    """The sum of ``(q + k)**-s``: ten terms or so, then the Euler-Maclaurin formula (after Cephes)."""
    if s < 1.0:
        return math.nan
    if s == 1.0 or (q <= 0.0 and q == math.floor(q)):
        return math.inf
    if q <= 0.0 and s != math.floor(s):
        return math.nan
    if q > 1e8:
        return (1.0 / (s - 1.0) + 0.5 / q) * q ** (1.0 - s)
    total, place, count, term = q**-s, q, 0, 0.0
    while count < 9 or place <= 9.0:
        count += 1
        place += 1.0
        term = place**-s
        total += term
        if abs(term) < _EPSILON * abs(total):
            return total
    total += term * place / (s - 1.0) - 0.5 * term
    rising, k = 1.0, 0.0
    for factor in _FACTORS:
        rising *= s + k
        term /= place
        added = rising * term / factor
        total += added
        if abs(added) < _EPSILON * abs(total):
            return total
        rising *= s + k + 1.0
        term /= place
        k += 2.0
    return total


def _zeta(context: Any, b: Any, signature: Any, values: Any) -> Any:
    wide, kind = types.float64, signature.args[0]
    arguments = [context.cast(b, v, kind, wide) for v in values]
    result = context.compile_internal(b, _hurwitz, wide(wide, wide), arguments)
    return context.cast(b, result, wide, kind)


_OWN: dict[str, Any] = {
    "erf": unary(Kinds(_c("erf"))),
    "erfc": unary(Kinds(_c("erfc"))),
    "ndtr": unary(Kinds(_ndtr)),
    "xlogy": binary(Kinds(_product_with("log"))),
    "xlog1py": binary(Kinds(_product_with("log1p"))),
    "zeta": binary(Kinds(_zeta)),
}

NAMES: dict[str, Any] = {
    PREFIX + op.name: _OWN.get(op.name) or Deferred(functools.partial(_scipy_call, op)) for op in _specials()
}
