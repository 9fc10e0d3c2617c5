"""NumPy's ufuncs: which op, or function of ops, each one is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.registry import implements_ufunc, unsupported
from tracejit.ir.tape import Atom
from tracejit.ops import arithmetic, complex_parts, elementwise, extrema, logic, power, transcendental
from tracejit.ops.broadcasting import convert

__all__: list[str] = []

_OPS = {
    np.add: elementwise.add,
    np.multiply: elementwise.mul,
    np.negative: elementwise.neg,
    np.power: power.power,
    **{getattr(np, name): getattr(arithmetic, name) for name in arithmetic.__all__ if hasattr(np, name)},
    **{getattr(np, name): getattr(extrema, name) for name in ("maximum", "minimum", "fmax", "fmin")},
    **{getattr(np, name): getattr(logic, name) for name in logic.__all__},
    np.absolute: complex_parts.absolute,
    np.fabs: complex_parts.fabs,
    np.conjugate: complex_parts.conjugate,
    np.rad2deg: transcendental.degrees,
    np.deg2rad: transcendental.radians,
}
_OPS |= {
    getattr(np, name): getattr(transcendental, name)
    for name in transcendental.__all__
    if isinstance(getattr(np, name, None), np.ufunc)
}


def _positive(x: Atom) -> Atom:
    np.positive.resolve_dtypes((x.dtype, None))  # NumPy's TypeError for booleans
    return x


def _divmod(x: Atom, y: Atom) -> tuple[Atom, Atom]:
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


def _float_power(x: Atom, p: Atom) -> Atom:
    """``x ** p`` in at least double precision."""
    dtypes = np.float_power.resolve_dtypes((x.dtype, p.dtype, None))
    return power.power(convert(x, dtype=dtypes[0]), convert(p, dtype=dtypes[1]))


def _sign(x: Atom) -> Atom:
    """``sign(z)`` of a complex number is ``z/abs(z)``, which is not constant."""
    if x.dtype.kind != "c":
        return arithmetic.sign(x)
    size = complex_parts.absolute(x)
    direction = arithmetic.divide(x, convert(size, dtype=x.dtype))
    return elementwise.select(logic.equal(size, 0), elementwise.constant(0, x), direction)


def _frexp(x: Atom) -> tuple[Atom, Atom]:
    return arithmetic.frexp_mantissa(x), arithmetic.frexp_exponent(x)


def _modf(x: Atom) -> tuple[Atom, Atom]:
    fraction = arithmetic.modf_fraction(x)
    return fraction, arithmetic.trunc(convert(x, dtype=fraction.dtype))


def _refusal(ufunc: np.ufunc, hint: str) -> Any:
    def refuse(*operands: Atom) -> Atom:
        raise unsupported(f"`np.{ufunc.__name__}`", hint)

    return refuse


for _ufunc, _op in _OPS.items():
    implements_ufunc(_ufunc, _op)
implements_ufunc(np.positive, _positive)
implements_ufunc(np.divmod, _divmod)
implements_ufunc(np.float_power, _float_power)
implements_ufunc(np.sign, _sign)
implements_ufunc(np.frexp, _frexp)
implements_ufunc(np.modf, _modf)
implements_ufunc(
    np.isnat, _refusal(np.isnat, "Traced values are numbers; dates must stay outside of the function.")
)
implements_ufunc(
    np.bitwise_count, _refusal(np.bitwise_count, "Count with shifts: add up `(x >> k) & 1` over the bits k.")
)
