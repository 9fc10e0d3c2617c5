"""Bessel functions and their relatives: slopes are sums of functions of neighbouring orders.

No derivative with respect to the order is known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import reciprocal, sign, sqrt, square, subtract
from tracejit.ops.complex_parts import fabs
from tracejit.ops.elementwise import add, mul, neg, select
from tracejit.ops.logic import greater
from tracejit.ops.power import power
from tracejit.ops.special import OPEN, Special
from tracejit.ops.special_gamma import rgamma

__all__: list[str] = []

_LINE = ((-3.0, 3.0),)
_POSITIVE = ((0.4, 4.0),)
_ORDER = ((0.6, 2.5),)


def _neighbours(op: Callable[[Atom, Atom], Atom], v: Atom, x: Atom, lower: float, upper: float) -> Atom:
    """``(lower * op(v - 1, x) + upper * op(v + 1, x)) / 2``."""
    return add(mul(lower / 2, op(subtract(v, 1), x)), mul(upper / 2, op(add(v, 1), x)))


# --- oscillating ones ---------------------------------------------------------------------------------------

jv: Special = Special("jv", OPEN, lambda y, v, x: _neighbours(jv, v, x, 1, -1), domain=(*_ORDER, *_POSITIVE))
jve: Special = Special(
    "jve", OPEN, lambda y, v, x: _neighbours(jve, v, x, 1, -1), domain=(*_ORDER, *_POSITIVE)
)
yv: Special = Special("yv", OPEN, lambda y, v, x: _neighbours(yv, v, x, 1, -1), domain=(*_ORDER, *_POSITIVE))
yve: Special = Special(
    "yve", OPEN, lambda y, v, x: _neighbours(yve, v, x, 1, -1), domain=(*_ORDER, *_POSITIVE)
)
yn: Special = Special(
    "yn", None, lambda y, n, x: _neighbours(yv, mul(n, 1.0), x, 1, -1), domain=((1.0, 1.0), *_POSITIVE)
)
j0: Special = Special("j0", lambda y, x: neg(j1(x)), taints=False, domain=_LINE)
j1: Special = Special("j1", lambda y, x: mul(0.5, subtract(j0(x), jv(2, x))), taints=False, domain=_LINE)
y0: Special = Special("y0", lambda y, x: neg(y1(x)), domain=_POSITIVE)
y1: Special = Special("y1", lambda y, x: mul(0.5, subtract(y0(x), yv(2, x))), domain=_POSITIVE)

# --- growing and decaying ones ------------------------------------------------------------------------------

iv: Special = Special("iv", OPEN, lambda y, v, x: _neighbours(iv, v, x, 1, 1), domain=(*_ORDER, *_POSITIVE))
kv: Special = Special("kv", OPEN, lambda y, v, x: _neighbours(kv, v, x, -1, -1), domain=(*_ORDER, *_POSITIVE))
kn: Special = Special(
    "kn", None, lambda y, n, x: _neighbours(kv, mul(n, 1.0), x, -1, -1), domain=((1.0, 1.0), *_POSITIVE)
)
i0: Special = Special("i0", lambda y, x: i1(x), domain=_LINE)
i1: Special = Special("i1", lambda y, x: mul(0.5, add(i0(x), iv(2, x))), domain=_LINE)
k0: Special = Special("k0", lambda y, x: neg(k1(x)), domain=_POSITIVE)
k1: Special = Special("k1", lambda y, x: mul(-0.5, add(k0(x), kv(2, x))), domain=_POSITIVE)

# --- the same with the exponential taken out ----------------------------------------------------------------

_FAR = 30.0
_TERMS = 15


def _far_slope(v: Any, x: Atom, alternating: bool) -> Atom:
    """The slope of ``sum_k c_k / x**(k + 1/2)``, the asymptotic series of both kinds (without its factor).

    The differences of neighbours below lose the digits that large arguments cancel.
    """
    inverse = reciprocal(x)
    four_squares: Any = mul(4, square(v)) if isinstance(v, Atom) else 4.0 * v * v
    total: Any = 0.5
    term: Any = 1.0
    power_of_x: Any = 1.0
    for k in range(1, _TERMS):
        odd = (2.0 * k - 1) ** 2
        factor = subtract(four_squares, odd) if isinstance(v, Atom) else four_squares - odd
        weight = (-1.0 if alternating else 1.0) / (8.0 * k)
        term = mul(mul(term, factor), weight) if isinstance(v, Atom) else term * factor * weight
        power_of_x = mul(power_of_x, inverse)
        total = add(total, mul(mul(term, k + 0.5), power_of_x))
    return neg(mul(mul(total, inverse), sqrt(inverse)))


def _is_far(v: Any, x: Atom) -> Atom:
    return greater(x, add(_FAR, square(v)) if isinstance(v, Atom) else _FAR + v * v)


def _scaled_i(y: Atom, v: Any, x: Atom, slope: Atom) -> Atom:
    """The slope of ``exp(-abs(x)) * iv(v, x)`` from the other one's, ``slope``."""
    far = mul(1 / math.sqrt(2 * math.pi), _far_slope(v, x, alternating=True))
    return select(_is_far(v, x), far, subtract(slope, mul(sign(x), y)))


def _scaled_k(y: Atom, v: Any, x: Atom, slope: Atom) -> Atom:
    far = mul(math.sqrt(math.pi / 2), _far_slope(v, x, alternating=False))
    return select(_is_far(v, x), far, add(slope, y))


def _even(y: Atom, v: int, x: Atom, slope: Atom, parity: int) -> Atom:
    """`_scaled_i` for negative ``x`` too."""
    size = fabs(x)
    far = mul(1 / math.sqrt(2 * math.pi), _far_slope(v, size, alternating=True))
    far = mul(sign(x), far) if parity > 0 else far
    return select(_is_far(v, size), far, subtract(slope, mul(sign(x), y)))


ive: Special = Special(
    "ive",
    OPEN,
    lambda y, v, x: _scaled_i(y, v, x, _neighbours(ive, v, x, 1, 1)),
    domain=(*_ORDER, *_POSITIVE),
)
kve: Special = Special(
    "kve",
    OPEN,
    lambda y, v, x: _scaled_k(y, v, x, _neighbours(kve, v, x, -1, -1)),
    domain=(*_ORDER, *_POSITIVE),
)
i0e: Special = Special("i0e", lambda y, x: _even(y, 0, x, i1e(x), 1), domain=_POSITIVE)
i1e: Special = Special(
    "i1e", lambda y, x: _even(y, 1, x, mul(0.5, add(i0e(x), ive(2, x))), -1), domain=_POSITIVE
)
k0e: Special = Special("k0e", lambda y, x: _scaled_k(y, 0, x, neg(k1e(x))), domain=_POSITIVE)
k1e: Special = Special(
    "k1e", lambda y, x: _scaled_k(y, 1, x, mul(-0.5, add(k0e(x), kve(2, x)))), domain=_POSITIVE
)

# --- Struve and Airy functions ------------------------------------------------------------------------------


def _struve_term(v: Atom, x: Atom) -> Atom:
    half = mul(0.5, x)
    return mul(mul(power(half, v), rgamma(add(v, 1.5))), 0.5 / math.sqrt(math.pi))


struve: Special = Special(
    "struve",
    OPEN,
    lambda y, v, x: add(_neighbours(struve, v, x, 1, -1), _struve_term(v, x)),
    domain=(*_ORDER, *_POSITIVE),
)
modstruve: Special = Special(
    "modstruve",
    OPEN,
    lambda y, v, x: add(_neighbours(modstruve, v, x, 1, 1), _struve_term(v, x)),
    domain=(*_ORDER, *_POSITIVE),
)
airy_ai: Special = Special("airy_ai", lambda y, x: airy_aip(x), ufunc="airy", part=0, domain=_LINE)
airy_aip: Special = Special("airy_aip", lambda y, x: mul(x, airy_ai(x)), ufunc="airy", part=1, domain=_LINE)
airy_bi: Special = Special("airy_bi", lambda y, x: airy_bip(x), ufunc="airy", part=2, domain=_LINE)
airy_bip: Special = Special("airy_bip", lambda y, x: mul(x, airy_bi(x)), ufunc="airy", part=3, domain=_LINE)
