"""Elementwise ops without derivative: comparisons, predicates, logic, and arithmetic on bits and integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.base import as_atom
from tracejit.ops.elementwise import DType, Elementwise, fits

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "equal",
    "gcd",
    "greater",
    "greater_equal",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
    "signbit",
]


class Comparison(Elementwise):
    """A comparison; unlike arithmetic it accepts Python ints that the array's dtype cannot hold."""

    def __call__(self, *operands: Any) -> Atom:
        a, b = map(as_atom, operands)
        return super().__call__(_strong_unless_fits(a, b.dtype), _strong_unless_fits(b, a.dtype))


class Ordering(Comparison):
    """A comparison that orders complex numbers by their real parts, equal ones by their imaginary parts."""

    def expression(self, names: Sequence[str], operands: Sequence[Atom]) -> str:
        text = super().expression(names, operands)
        if operands[0].dtype.kind != "c":
            return text
        (a, b), (_, sign, _) = names, text.split()
        real = f"real({a}) {sign[0]} real({b}) and not isnan(imag({a})) and not isnan(imag({b}))"
        return f"({real}) or (real({a}) == real({b}) and imag({a}) {sign} imag({b}))"


def _strong_unless_fits(atom: Atom, other: DType) -> Atom:
    return atom if fits(atom, other) or not isinstance(atom, Lit) else Lit(atom.value)


class Logical(Elementwise):
    """Logic on truth values: operands become bool first, NaN being true."""

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        boolean = np.dtype(bool)
        return (boolean,) * len(avals), boolean


def _comparison(ufunc: np.ufunc, sign: str) -> Comparison:
    family = Comparison if sign in ("==", "!=") else Ordering
    return family(ufunc.__name__, ufunc, f"{{0}} {sign} {{1}}", None, None)


equal = _comparison(np.equal, "==")
not_equal = _comparison(np.not_equal, "!=")
less = _comparison(np.less, "<")
less_equal = _comparison(np.less_equal, "<=")
greater = _comparison(np.greater, ">")
greater_equal = _comparison(np.greater_equal, ">=")

isnan = Elementwise("isnan", np.isnan, "isnan({0})", None)
isinf = Elementwise("isinf", np.isinf, "isinf({0})", None)
isfinite = Elementwise("isfinite", np.isfinite, "isfinite({0})", None)
signbit = Elementwise("signbit", np.signbit, "signbit({0})", None)

logical_and = Logical("logical_and", np.logical_and, "{0} & {1}", None, None)
logical_or = Logical("logical_or", np.logical_or, "{0} | {1}", None, None)
logical_xor = Logical("logical_xor", np.logical_xor, "{0} ^ {1}", None, None)
logical_not = Logical("logical_not", np.logical_not, "not {0}", None)

bitwise_and = Elementwise("bitwise_and", np.bitwise_and, "{0} & {1}", None, None, operator=True)
bitwise_or = Elementwise("bitwise_or", np.bitwise_or, "{0} | {1}", None, None, operator=True)
bitwise_xor = Elementwise("bitwise_xor", np.bitwise_xor, "{0} ^ {1}", None, None, operator=True)


class Invert(Elementwise):
    """``~x``, which for booleans is ``not x``."""

    def expression(self, names: Sequence[str], operands: Sequence[Atom]) -> str:
        return f"not {names[0]}" if operands[0].dtype.kind == "b" else f"~{names[0]}"


invert = Invert("invert", np.invert, "~{0}", None, operator=True)

# NumPy's shifts by more than the width give 0 (or -1), where the machine's are undefined.
left_shift = Elementwise("left_shift", np.left_shift, "left_shift({0}, {1})", None, None, operator=True)
right_shift = Elementwise("right_shift", np.right_shift, "right_shift({0}, {1})", None, None, operator=True)
gcd = Elementwise("gcd", np.gcd, "gcd({0}, {1})", None, None, cost=50)
lcm = Elementwise("lcm", np.lcm, "lcm({0}, {1})", None, None, cost=50)
