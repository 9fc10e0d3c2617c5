"""Elementwise arithmetic with its derivatives: quotients, roots, rounding, parts of a float."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.errors import UnsupportedError
from tracejit.ir.aval import compute_dtype
from tracejit.ir.tape import Atom, current
from tracejit.ops.base import as_atom
from tracejit.ops.bounds import growth, never_zero
from tracejit.ops.elementwise import Elementwise, constant, mul, neg, select
from tracejit.ops.logic import equal

__all__ = [
    "cbrt",
    "ceil",
    "copysign",
    "divide",
    "floor",
    "floor_divide",
    "fmod",
    "frexp_exponent",
    "frexp_mantissa",
    "heaviside",
    "hypot",
    "ldexp",
    "modf_fraction",
    "nextafter",
    "reciprocal",
    "remainder",
    "rint",
    "sign",
    "spacing",
    "sqrt",
    "square",
    "subtract",
    "trunc",
]

AWAY_FROM_ZERO = (0.3, 2.0)


def _divisor_may_vanish(a: Atom, b: Atom) -> bool:
    return may_vanish(b)


def may_vanish(x: Atom) -> bool:
    """Return whether ``x`` may be 0, or overflow with its slope: a zero then meets an infinity."""
    return not never_zero(x) or growth(x) > 2


subtract = Elementwise(
    "subtract", np.subtract, "{0} - {1}", lambda y, a, b: 1, lambda y, a, b: -1, operator=True
)
divide: Elementwise = Elementwise(
    "divide",
    np.divide,
    "divide({0}, {1})",
    lambda y, a, b: divide(1, b),
    lambda y, a, b: neg(divide(y, b)),  # -a/b**2 would overflow sooner
    taints=_divisor_may_vanish,
    operator=True,
    cost=5,
    domain=((-2.0, 2.0), AWAY_FROM_ZERO),
)
reciprocal = Elementwise(
    "reciprocal",
    np.reciprocal,
    "reciprocal({0})",
    lambda y, x: neg(square(y)),
    taints=may_vanish,
    cost=5,
    domain=(AWAY_FROM_ZERO,),
)
floor_divide = Elementwise(
    "floor_divide",
    np.floor_divide,
    "floor_divide({0}, {1})",
    None,
    None,
    operator=True,
    cost=20,
    domain=((-2.0, 2.0), AWAY_FROM_ZERO),
)
remainder = Elementwise(
    "remainder",
    np.remainder,
    "remainder({0}, {1})",
    lambda y, a, b: 1,
    lambda y, a, b: neg(floor_divide(a, b)),
    taints=_divisor_may_vanish,
    operator=True,
    cost=20,
    domain=((-2.0, 2.0), AWAY_FROM_ZERO),
)
fmod = Elementwise(
    "fmod",
    np.fmod,
    "fmod({0}, {1})",
    lambda y, a, b: 1,
    lambda y, a, b: neg(rint(divide(subtract(a, y), b))),  # -trunc(a/b), also where a/b rounds to an integer
    taints=_divisor_may_vanish,
    cost=20,
    domain=((-2.0, 2.0), AWAY_FROM_ZERO),
)

sqrt = Elementwise(
    "sqrt", np.sqrt, "sqrt({0})", lambda y, x: divide(0.5, y), taints=may_vanish, cost=5, domain=((0.2, 3.0),)
)
cbrt = Elementwise(
    "cbrt",
    np.cbrt,
    "cbrt({0})",
    lambda y, x: divide(1 / 3, square(y)),
    taints=True,
    cost=30,
    domain=(AWAY_FROM_ZERO,),
)
square: Elementwise = Elementwise("square", np.square, "square({0})", lambda y, x: mul(2, x))
hypot = Elementwise(
    "hypot",
    np.hypot,
    "hypot({0}, {1})",
    lambda y, a, b: _unless_zero(y, divide(a, y)),
    lambda y, a, b: _unless_zero(y, divide(b, y)),
    taints=True,
    cost=20,
    domain=((-2.0, 2.0), AWAY_FROM_ZERO),
)


def _unless_zero(size: Atom, value: Atom) -> Atom:
    """Return ``value``, and 0 where ``size`` is 0."""
    return select(equal(size, 0), constant(0, value), value)


sign = Elementwise("sign", np.sign, "sign({0})", None, real_only=True)
floor = Elementwise("floor", np.floor, "floor({0})", None)
ceil = Elementwise("ceil", np.ceil, "ceil({0})", None)
trunc = Elementwise("trunc", np.trunc, "trunc({0})", None)
rint: Elementwise = Elementwise("rint", np.rint, "rint({0})", None)


class Grid(Elementwise):
    """Steps between neighbouring floats, which have no meaning in the wider dtype that loops compute in."""

    def __call__(self, *operands: Any) -> Atom:
        atoms = [as_atom(x) for x in operands]
        dtype = self.dtypes([a.aval for a in atoms])[1]
        if compute_dtype(dtype) != dtype:
            raise UnsupportedError(
                f"`{self.name}` of {dtype} is not supported on traced values.",
                where=current().source(),
                hint="Convert the operands first: `x.astype(np.float64)`.",
            )
        return super().__call__(*atoms)


spacing = Grid("spacing", np.spacing, "spacing({0})", None, cost=20)
nextafter = Grid("nextafter", np.nextafter, "nextafter({0}, {1})", lambda y, a, b: 1, None, cost=20)
heaviside = Elementwise(
    "heaviside",
    np.heaviside,
    "heaviside({0}, {1})",
    None,
    lambda y, x, at_zero: select(equal(x, 0), constant(1, y), constant(0, y)),
    taints=True,
)
# |a| with the sign of b, so the slope in `a` is that of `abs`: 0 at 0.
copysign: Elementwise = Elementwise(
    "copysign",
    np.copysign,
    "copysign({0}, {1})",
    lambda y, a, b: mul(sign(a), copysign(constant(1, y), b)),
    None,
)
ldexp: Elementwise = Elementwise(
    "ldexp", np.ldexp, "ldexp({0}, {1})", lambda y, x, n: ldexp(constant(1, y), n), None, cost=10
)


def _mantissa(x: object) -> object:
    return np.frexp(x)[0]  # type: ignore[call-overload]


def _exponent(x: object) -> object:
    return np.frexp(x)[1]  # type: ignore[call-overload]


def _fraction(x: object) -> object:
    return np.modf(x)[0]  # type: ignore[call-overload]


frexp_mantissa = Elementwise(
    "frexp_mantissa",
    _mantissa,
    "frexp_mantissa({0})",
    lambda y, x: ldexp(constant(1, y), neg(frexp_exponent(x))),
    loops=np.frexp,
    cost=10,
    domain=(AWAY_FROM_ZERO,),
)
frexp_exponent: Elementwise = Elementwise(
    "frexp_exponent", _exponent, "frexp_exponent({0})", None, loops=np.frexp, result=np.int32, cost=10
)
modf_fraction = Elementwise("modf_fraction", _fraction, "modf_fraction({0})", lambda y, x: 1, loops=np.modf)
