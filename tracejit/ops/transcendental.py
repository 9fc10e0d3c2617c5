"""Exponential, logarithmic, trigonometric and hyperbolic ops with their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, hypot, may_vanish, reciprocal, sqrt, square, subtract
from tracejit.ops.bounds import bounds, growth
from tracejit.ops.elementwise import Elementwise, add, constant, mul, neg, select
from tracejit.ops.logic import equal, greater, isinf, logical_and

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cos",
    "cosh",
    "degrees",
    "exp",
    "exp2",
    "expit",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "radians",
    "sech_squared",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

POSITIVE = ((0.2, 3.0),)
INSIDE_ONE = ((-0.8, 0.8),)
COST = 20
LOG_2, LOG_10 = math.log(2.0), math.log(10.0)


def _unary(
    ufunc: np.ufunc, partial: Any, *, domain: Any = (), taints: Any = False, cost: int = COST
) -> Elementwise:
    name = ufunc.__name__
    return Elementwise(name, ufunc, f"{name}({{0}})", partial, taints=taints, cost=cost, domain=domain)


exp = _unary(np.exp, lambda y, x: y)
exp2 = _unary(np.exp2, lambda y, x: mul(LOG_2, y))
expm1 = _unary(np.expm1, lambda y, x: exp(x))  # y + 1 would lose all digits far below zero
log = _unary(np.log, lambda y, x: reciprocal(x), domain=POSITIVE, taints=may_vanish)
log2 = _unary(np.log2, lambda y, x: divide(1 / LOG_2, x), domain=POSITIVE, taints=may_vanish)
log10 = _unary(np.log10, lambda y, x: divide(1 / LOG_10, x), domain=POSITIVE, taints=may_vanish)
log1p = _unary(
    np.log1p,
    lambda y, x: reciprocal(add(1, x)),
    domain=((-0.7, 2.0),),
    taints=lambda x: bounds(x)[0] <= -1 or growth(x) > 2,
)


def _slope_of_tan(y: Atom, x: Atom) -> Atom:
    """``1 + tan(x)**2``, which cancels where ``x`` is complex."""
    return reciprocal(square(cos(x))) if x.dtype.kind == "c" else add(1, square(y))


sin = _unary(np.sin, lambda y, x: cos(x))
cos: Elementwise = _unary(np.cos, lambda y, x: neg(sin(x)))
tan = _unary(np.tan, _slope_of_tan, domain=((-1.2, 1.2),))
arcsin = _unary(
    np.arcsin, lambda y, x: reciprocal(_root_of_one_minus_square(x)), domain=INSIDE_ONE, taints=True
)
arccos = _unary(
    np.arccos, lambda y, x: divide(-1, _root_of_one_minus_square(x)), domain=INSIDE_ONE, taints=True
)
arctan = _unary(np.arctan, lambda y, x: reciprocal(add(1, square(x))))


def _root_of_one_minus_square(x: Atom) -> Atom:
    """``sqrt(1 - x*x)`` without cancellation; on the principal branch where ``x`` is complex."""
    low, high = subtract(1, x), add(1, x)
    return mul(sqrt(low), sqrt(high)) if x.dtype.kind == "c" else sqrt(mul(low, high))


def _over_square(part: Atom, y: Atom, a: Atom, b: Atom) -> Atom:
    """``part / (a**2 + b**2)``, and 0 at the origin; the squares themselves would over- and underflow."""
    radius = hypot(a, b)
    return select(equal(radius, 0), constant(0, y), divide(divide(part, radius), radius))


arctan2 = Elementwise(
    "arctan2",
    np.arctan2,
    "arctan2({0}, {1})",
    lambda y, a, b: _over_square(b, y, a, b),
    lambda y, a, b: neg(_over_square(a, y, a, b)),
    taints=True,
    cost=30,
    domain=((-2.0, 2.0), (0.3, 2.0)),
)

sinh = _unary(np.sinh, lambda y, x: cosh(x))
cosh: Elementwise = _unary(np.cosh, lambda y, x: sinh(x))
tanh = _unary(np.tanh, lambda y, x: sech_squared(x))
arcsinh = _unary(np.arcsinh, lambda y, x: reciprocal(_root_of_one_plus_square(x)))
arccosh = _unary(
    np.arccosh,
    lambda y, x: reciprocal(mul(sqrt(subtract(x, 1)), sqrt(add(x, 1)))),
    domain=((1.3, 3.0),),
    taints=True,
)
arctanh = _unary(
    np.arctanh, lambda y, x: reciprocal(mul(subtract(1, x), add(1, x))), domain=INSIDE_ONE, taints=True
)


def _root_of_one_plus_square(x: Atom) -> Atom:
    return sqrt(add(1, square(x))) if x.dtype.kind == "c" else hypot(constant(1, x), x)


class SechSquared(Elementwise):
    """``1 - tanh(x)**2``, written so that there are digits left in the tails."""

    def expression(self, names: Sequence[str], operands: Sequence[Atom]) -> str:
        text = "reciprocal(square(cosh({0})))" if operands[0].dtype.kind == "c" else self.text
        return text.format(*names)


sech_squared: Elementwise = SechSquared(
    "sech_squared",
    lambda x: np.reciprocal(np.square(np.cosh(x))),
    "sech_squared({0})",
    lambda y, x: mul(-2, mul(tanh(x), y)),
    loops=np.cosh,
    cost=COST + 5,
)


def _logistic(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, np.ones_like(small)) / (1 + small)


# The logistic function; 1 - y would lose the digits of its upper tail.
expit: Elementwise = Elementwise(
    "expit",
    _logistic,
    "expit({0})",
    lambda y, x: mul(y, expit(neg(x))),
    loops=np.exp,
    real_only=True,
    cost=COST + 5,
)


def _weight(y: Atom, a: Atom, b: Atom, base: float) -> Atom:
    """Share of ``a`` in the sum of powers: 0 if both are zero (``-inf``), half each if both are ``inf``."""
    difference = subtract(a, b)
    share = expit(difference if base == 1 else mul(base, difference))
    at_infinity = select(greater(y, 0), constant(0.5, y), constant(0, y))
    return select(logical_and(equal(a, b), isinf(a)), at_infinity, share)


def _log_of_sum(ufunc: np.ufunc, base: float) -> Elementwise:
    partials = lambda y, a, b: _weight(y, a, b, base), lambda y, a, b: _weight(y, b, a, base)
    return Elementwise(
        ufunc.__name__, ufunc, f"{ufunc.__name__}({{0}}, {{1}})", *partials, taints=True, cost=2 * COST
    )


logaddexp = _log_of_sum(np.logaddexp, 1.0)
logaddexp2 = _log_of_sum(np.logaddexp2, LOG_2)

degrees = _unary(np.degrees, lambda y, x: 180 / math.pi, cost=1)
radians = _unary(np.radians, lambda y, x: math.pi / 180, cost=1)
