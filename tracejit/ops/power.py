"""``x ** p``: exact at 0 for every order of derivative, and short loops for literal exponents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.tape import Atom, Lit
from tracejit.ops.arithmetic import AWAY_FROM_ZERO, sqrt, subtract
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import Elementwise, absorb_mul, constant, mul, select
from tracejit.ops.logic import equal, greater_equal, logical_and
from tracejit.ops.transcendental import log

__all__ = ["power"]

# Same values (to 2 ulp) as the general function, which takes twenty times longer.
_SHORT = {-1: "reciprocal({0})", 2: "square({0})", 3: "square({0}) * {0}", 4: "square(square({0}))"}

# Halves, of doubles; the general function knows that a power of minus infinity is not invalid.
_HALVES = {
    -1.5: "where({0} == -np.inf, 0.0, divide(reciprocal({0}), sqrt({0})))",
    -0.5: "where({0} == -np.inf, 0.0, reciprocal(sqrt({0} + 0.0)))",
    1.5: "where({0} == -np.inf, np.inf, {0} * sqrt({0}))",
    2.5: "where({0} == -np.inf, np.inf, square({0}) * sqrt({0}))",
}


class Power(Elementwise):
    """A literal exponent is known to the derivative and to the loop."""

    def __call__(self, *operands: Any) -> Atom:
        x, p = map(as_atom, operands)
        number = exponent_of(p)
        if number is not None and number < 0 and x.dtype.kind in "biu" and p.dtype.kind == "i":
            if not x.aval.weak:
                raise ValueError("Integers to negative integer powers are not allowed.")
            x = convert(x, dtype=float)  # a Python int, whose power is a float
        if number == 0.5 and x.aval.inexact:
            return sqrt(x)  # as the operator of ndarrays does
        return super().__call__(x, p)

    def expression(self, names: Sequence[str], operands: Sequence[Atom]) -> str:
        number = exponent_of(operands[1])
        short = _SHORT.get(number)
        if short is None and operands[0].dtype == np.float64:
            short = _HALVES.get(number)
        return super().expression(names, operands) if short is None else short.format(*names)


def exponent_of(p: Atom) -> Any:
    """Return the exponent as a number if it is a real literal, else None."""
    return p.value.item() if isinstance(p, Lit) and p.dtype.kind != "c" else None


def _in_base(y: Atom, x: Atom, p: Atom) -> Any:
    """``p * x**(p - 1)``, where a factor 0 absorbs: integer exponents are exact at 0 in every order."""
    number = exponent_of(p)
    if number is None:
        return absorb_mul(p, power(x, subtract(p, 1)))
    if number in (0, 1, 2):
        return (None, 1, mul(2, x))[int(number)]
    return mul(number, power(x, number - 1))


def _in_exponent(y: Atom, x: Atom, p: Atom) -> Atom:
    """``y * log(x)``, which is 0 at ``x = 0`` for ``p >= 0``."""
    if _is_positive_number(x):
        return mul(y, constant(np.log(x.value), y))  # type: ignore[union-attr]
    at_zero = equal(x, 0)
    if p.dtype.kind != "c":
        at_zero = logical_and(at_zero, greater_equal(p, 0))
    return absorb_mul(y, select(at_zero, constant(0, y), log(x)))


def _is_positive_number(x: Atom) -> bool:
    return isinstance(x, Lit) and x.dtype.kind != "c" and 0 < x.value.item() < np.inf


def _may_taint(x: Atom, p: Atom) -> bool:
    number = exponent_of(p)
    return not _is_positive_number(x) if number is None else number < 0 or not float(number).is_integer()


power = Power(
    "power",
    np.power,
    "power({0}, {1})",
    _in_base,
    _in_exponent,
    taints=_may_taint,
    operator=True,
    cost=40,
    domain=(AWAY_FROM_ZERO, (-2.0, 2.0)),
)
