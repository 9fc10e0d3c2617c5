"""Ops between complex and real numbers that are not holomorphic: modulus, conjugate, parts, angle.

Cotangents pair with tangents by ``real(cotangent * tangent)``, without a conjugate, so a holomorphic rule
serves real and complex numbers alike.  A real-valued ``f`` of ``z = x + iy`` has the slope
``s = df/dx - i df/dy``: it pushes a tangent ``t`` to ``real(s*t)`` and pulls a cotangent ``c`` back to
``c*s``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, real_dtype
from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, sign
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import broadcast_to, convert
from tracejit.ops.elementwise import DType, Elementwise, common_dtype, constant, neg, scale, select
from tracejit.ops.logic import equal
from tracejit.ops.transcendental import arctan2

__all__ = ["absolute", "angle", "conjugate", "fabs", "from_parts", "imag", "real"]


class RealValued(Elementwise):
    """A function to the real numbers; of a complex operand its partial is the slope ``df/dx - i df/dy``."""

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        if self.loops is not None:
            return super().dtypes(avals)
        return (avals[0].dtype,), real_dtype(avals[0].dtype)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        if operands[0].dtype.kind != "c":
            return super().jvp(tangents, operands, results, absorb)
        slope = self.partials[0](results[0], *operands)  # type: ignore[misc]
        return (real(scale(tangents[0], slope, absorb or self.may_taint(operands))),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        wide = convert(cotangents[0], dtype=operands[0].dtype)
        return super().vjp((wide,), operands, results, wanted, absorb)


class Part(RealValued):
    """A function that on real numbers is another op."""

    def __init__(
        self, function: Callable[..., Any], slope: Any, on_real: Callable[[Atom], Atom], **options: Any
    ) -> None:
        self._on_real = on_real
        super().__init__(function.__name__, function, f"{function.__name__}({{0}})", slope, **options)

    def __call__(self, *operands: Any) -> Atom:
        x = as_atom(operands[0])
        return super().__call__(x) if x.dtype.kind == "c" else self._on_real(x)


def _zeros(x: Atom) -> Atom:
    return broadcast_to(constant(0, x), x.shape)


def _angle_of_real(x: Atom) -> Atom:
    return arctan2(0, x)


def _direction(y: Atom, z: Atom) -> Atom:
    """``conj(z)/abs(z)``, and 0 at 0."""
    if z.dtype.kind != "c":
        return sign(z)
    return select(equal(y, 0), constant(0, z), divide(conjugate(z), convert(y, dtype=z.dtype)))


def _turn(y: Atom, z: Atom) -> Atom:
    """``-1j/z``, and 0 at 0."""
    return select(equal(z, 0), constant(0, z), divide(-1j, z))


absolute = RealValued(
    "absolute",
    np.absolute,
    "absolute({0})",
    _direction,
    taints=lambda z: z.dtype.kind == "c",
    operator=True,
)
fabs = Elementwise("fabs", np.fabs, "fabs({0})", lambda y, x: sign(x))
real = Part(np.real, lambda y, z: 1, lambda x: x)
imag = Part(np.imag, lambda y, z: -1j, _zeros)
angle = Part(np.angle, _turn, _angle_of_real, taints=True, cost=30)


class Conjugate(Elementwise):
    """``conj(z)``; its own transpose."""

    def __call__(self, *operands: Any) -> Atom:
        x = as_atom(operands[0])
        if x.dtype.kind == "c":
            return super().__call__(x)
        return convert(x, dtype=np.int8) if x.dtype.kind == "b" else x  # NumPy has no loop for booleans

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        return (self(tangents[0]),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        return (self(cotangents[0]),)


conjugate = Conjugate("conjugate", np.conjugate, "conjugate({0})", lambda y, z: 1)


class FromParts(Elementwise):
    """``a + 1j*b`` of real numbers, infinite ones too, where a product with ``1j`` would give NaN."""

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        part = np.result_type(
            common_dtype(avals), np.float16 if any(a.inexact for a in avals) else np.float64
        )
        return (part, part), np.result_type(part, np.complex64)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        return (self(*(constant(0, x) if t is None else t for t, x in zip(tangents, operands, strict=True))),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        (c,) = cotangents
        return (real(c) if wanted[0] else None, neg(imag(c)) if wanted[1] else None)


def _joined(a: Any, b: Any) -> Any:
    result = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.result_type(a, b, np.complex64))
    result.real, result.imag = a, b
    return result[()]


from_parts = FromParts(
    "from_parts", _joined, "complex({0}, {1})", lambda y, a, b: 1, lambda y, a, b: 1j, real_only=True
)
