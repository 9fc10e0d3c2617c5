"""Proved bounds of values: ``1 + x*x`` is at least 1, so its root and its reciprocal have finite slopes.

Source of the method: interval arithmetic over the equations behind a value.  Bounds hold for every input that
is not NaN, and are closed: a lower bound of 0 does not exclude 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tracejit.ir.tape import Atom, Eqn, Lit, current

__all__ = ["bounds", "growth", "never_zero"]

Interval = tuple[float, float]

_ANY: Interval = (-math.inf, math.inf)
_DEPTH = 8

_FIXED: dict[str, Interval] = {
    "absolute": (0.0, math.inf),
    "arctan": (-1.6, 1.6),
    "cos": (-1.0, 1.0),
    "cosh": (1.0, math.inf),
    "exp": (0.0, math.inf),
    "exp2": (0.0, math.inf),
    "expit": (0.0, 1.0),
    "fabs": (0.0, math.inf),
    "hypot": (0.0, math.inf),
    "sin": (-1.0, 1.0),
    "sqrt": (0.0, math.inf),
    "square": (0.0, math.inf),
    "tanh": (-1.0, 1.0),
}
_PASSING = ("broadcast", "convert", "expand_dims", "reshape", "slice", "squeeze", "transpose")


def never_zero(atom: Atom) -> bool:
    """Return whether ``atom`` is proved to be different from zero."""
    low, high = bounds(atom)
    return low > 0 or high < 0


def bounds(atom: Atom, depth: int = _DEPTH) -> Interval:
    """Return an interval that contains every entry of ``atom``."""
    if atom.dtype.kind == "c":
        return _ANY
    if isinstance(atom, Lit):
        value = float(atom.value)
        return _ANY if math.isnan(value) else (value, value)
    eqn = current().makers.get(atom)
    if eqn is None or not depth:
        return _ANY
    name = eqn.op.name
    if name in _FIXED:
        return _FIXED[name]
    if name in _PASSING:
        return bounds(eqn.operands[0], depth - 1)
    rule = _RULES.get(name)
    return _ANY if rule is None else _clean(rule(eqn, depth - 1))


def growth(atom: Atom, depth: int = _DEPTH) -> float:
    """Return a power of the inputs that ``atom`` does not outgrow; infinite for `exp` and what is not known.

    What grows faster than a square overflows together with its own slope: ``1/(1 + exp(-x))`` far below zero
    has the slope ``0 * inf``.
    """
    if isinstance(atom, Lit) or not any(map(math.isinf, bounds(atom, depth))):
        return 0.0
    eqn = current().makers.get(atom)
    if eqn is None:
        return 1.0
    name = eqn.op.name
    exponent = 1.0 if name in _LINEAR else 2.0 if name == "square" else _exponent(eqn)
    if not depth or (name != "mul" and math.isinf(exponent)):
        return math.inf
    degrees = [growth(x, depth - 1) for x in eqn.operands]
    return sum(degrees) if name == "mul" else exponent * max(degrees)


_LINEAR = {
    *("add", "subtract", "neg", "maximum", "minimum", "hypot", "absolute", "fabs", "sqrt", "reduce_sum"),
    *_PASSING,
}


def _exponent(eqn: Eqn) -> float:
    """Return the exponent of a power, infinite if ``eqn`` is anything else than a power of at least 1."""
    number = eqn.operands[1] if eqn.op.name == "power" else None
    if not isinstance(number, Lit) or number.dtype.kind == "c":
        return math.inf
    exponent = float(number.value)
    return exponent if exponent >= 1 else math.inf


def _clean(interval: Interval) -> Interval:
    low, high = interval
    return (-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _add(eqn: Eqn, depth: int) -> Interval:
    (a, b), (c, d) = (bounds(x, depth) for x in eqn.operands)
    return a + c, b + d


def _subtract(eqn: Eqn, depth: int) -> Interval:
    (a, b), (c, d) = (bounds(x, depth) for x in eqn.operands)
    return a - d, b - c


def _neg(eqn: Eqn, depth: int) -> Interval:
    low, high = bounds(eqn.operands[0], depth)
    return -high, -low


def _mul(eqn: Eqn, depth: int) -> Interval:
    left, right = eqn.operands
    if left is right:
        return 0.0, math.inf
    (a, b), (c, d) = bounds(left, depth), bounds(right, depth)
    products = [_times(x, y) for x in (a, b) for y in (c, d)]
    return min(products), max(products)


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _power(eqn: Eqn, depth: int) -> Interval:
    exponent = eqn.operands[1]
    even = isinstance(exponent, Lit) and exponent.dtype.kind != "c" and float(exponent.value) % 2 == 0
    return (0.0, math.inf) if even and float(exponent.value) > 0 else _ANY  # type: ignore[union-attr]


def _maximum(eqn: Eqn, depth: int) -> Interval:
    (a, b), (c, d) = (bounds(x, depth) for x in eqn.operands)
    return max(a, c), max(b, d)


def _minimum(eqn: Eqn, depth: int) -> Interval:
    (a, b), (c, d) = (bounds(x, depth) for x in eqn.operands)
    return min(a, c), min(b, d)


def _reduce_sum(eqn: Eqn, depth: int) -> Interval:
    low, high = bounds(eqn.operands[0], depth)
    return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)


_RULES: dict[str, Callable[[Eqn, int], Interval]] = {
    "add": _add,
    "maximum": _maximum,
    "minimum": _minimum,
    "mul": _mul,
    "neg": _neg,
    "power": _power,
    "reduce_sum": _reduce_sum,
    "subtract": _subtract,
}
