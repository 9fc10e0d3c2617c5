"""Special functions: scipy's value, and a derivative in closed form for each operand that has one.

scipy is imported when one of them is first used.  Compiled loops call scipy's own scalar functions
(``codegen/intrinsics/special.py``), so that values are those of scipy to the last bit or nearly so.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.errors import UnsupportedError
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, reciprocal, square, subtract
from tracejit.ops.elementwise import DType, Elementwise, Partial, add, mul, neg, select
from tracejit.ops.logic import equal, greater, logical_and
from tracejit.ops.transcendental import exp, expit, log, log1p

__all__ = ["OPEN", "PREFIX", "Special", "horner", "scipy_ufunc"]

PREFIX = "special_"
"""What the loop's functions are called: ``special_j0``."""

COST = 60
REAL_LINE = ((-3.0, 3.0),)
POSITIVE = ((0.3, 3.0),)
PROBABILITY = ((0.1, 0.9),)


def OPEN(*atoms: Atom) -> Atom:
    """The partial derivative that no closed form is known for; `Special` puts an error in its place."""
    raise AssertionError


def scipy_ufunc(name: str) -> np.ufunc:
    """Return a ufunc of ``scipy.special``; also the ones that scipy's own Python functions call."""
    module = importlib.import_module("scipy.special._ufuncs" if name.startswith("_") else "scipy.special")
    found: np.ufunc = getattr(module, name)
    return found


class Special(Elementwise):
    """A real function of scipy.

    Parameters
    ----------
    name : str
        The name of the op, and scipy's unless ``ufunc`` is given.
    *partials : callable or None
        As in `Elementwise`; `OPEN` raises an error when it is needed.
    ufunc : str, optional
        scipy's name.
    part : int, optional
        Which result it is, of a ufunc that has several.

    Attributes
    ----------
    open : tuple of bool
        Per operand: whether its derivative raises.
    """

    def __init__(
        self,
        name: str,
        *partials: Partial,
        domain: tuple[tuple[float, float], ...] = (),
        taints: bool = True,
        cost: int = COST,
        ufunc: str | None = None,
        part: int | None = None,
    ) -> None:
        self.ufunc, self.part = ufunc or name, part
        self.open = tuple(p is OPEN for p in partials)
        operands = ", ".join(f"{{{k}}}" for k in range(len(partials)))
        known = [_refusal(self.ufunc, k) if p is OPEN else p for k, p in enumerate(partials)]
        text = f"{PREFIX}{name}({operands})"
        super().__init__(
            name, self._value, text, *known, taints=taints, cost=cost, domain=domain, real_only=True
        )

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        if self.loops is None:
            self.loops = scipy_ufunc(self.ufunc)
        return super().dtypes(avals)

    def _value(self, *arrays: Any) -> Any:
        results = scipy_ufunc(self.ufunc)(*arrays)
        return results if self.part is None else results[self.part]


def _refusal(name: str, number: int) -> Callable[..., Atom]:
    def partial(*atoms: Atom) -> Atom:
        raise UnsupportedError(
            f"`scipy.special.{name.lstrip('_')}` has no derivative in closed form in argument {number}.",
            where=current().source(),
            hint="Keep that argument constant, or write a central difference in it.",
        )

    return partial


def horner(x: Atom, coefficients: Sequence[float]) -> Atom:
    """Return the polynomial with these coefficients, the constant first."""
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = add(mul(total, x), c)
    return total


# --- the error function and the normal distribution ---------------------------------------------------------

_ROOT_PI = math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
_FAR = 12.0
"""Beyond it the asymptotic series below has all digits, which ``1 - 2*x*dawsn(x)`` loses."""


def _gaussian(factor: float, x: Atom) -> Atom:
    return mul(factor, exp(neg(square(x))))


def _far_slope(x: Atom, sign: float) -> Atom:
    """The sum of ``(2k + 1)!! * (sign/(2*x*x))**k``, over ``x*x``."""
    odd = np.cumprod(np.arange(1.0, 25.0, 2.0))
    inverse = square(reciprocal(x))
    series = horner(inverse, [float(c) * (sign / 2) ** k for k, c in enumerate(odd)])
    return mul(inverse, series)


def _erfcx_slope(y: Atom, x: Atom) -> Atom:
    near = subtract(mul(mul(2, x), y), 2 / _ROOT_PI)
    return select(greater(x, _FAR), mul(-1 / _ROOT_PI, _far_slope(x, -1.0)), near)


def _dawson_slope(y: Atom, x: Atom) -> Atom:
    near = subtract(1, mul(mul(2, x), y))
    return select(greater(square(x), _FAR**2), mul(-0.5, _far_slope(x, 1.0)), near)


erf = Special("erf", lambda y, x: _gaussian(2 / _ROOT_PI, x), taints=False, cost=25)
erfc = Special("erfc", lambda y, x: _gaussian(-2 / _ROOT_PI, x), taints=False, cost=25)
erfcx = Special("erfcx", _erfcx_slope, domain=REAL_LINE)
erfi = Special("erfi", lambda y, x: mul(2 / _ROOT_PI, exp(square(x))), domain=REAL_LINE)
dawsn = Special("dawsn", _dawson_slope, domain=REAL_LINE)
erfinv = Special("erfinv", lambda y, x: mul(_ROOT_PI / 2, exp(square(y))), domain=((-0.8, 0.8),))
erfcinv = Special("erfcinv", lambda y, x: mul(-_ROOT_PI / 2, exp(square(y))), domain=((0.2, 1.8),))

_DENSITY = _ROOT_HALF / _ROOT_PI


def _log_ndtr_slope(y: Atom, x: Atom) -> Atom:
    """Density over distribution, both without their common factor ``exp(-x*x/2)``."""
    return divide(2 * _DENSITY, erfcx(mul(-_ROOT_HALF, x)))


ndtr = Special("ndtr", lambda y, x: _gaussian(_DENSITY, mul(_ROOT_HALF, x)), taints=False, cost=25)
log_ndtr = Special("log_ndtr", _log_ndtr_slope, domain=REAL_LINE)
ndtri = Special("ndtri", lambda y, p: mul(1 / _DENSITY, exp(square(mul(_ROOT_HALF, y)))), domain=PROBABILITY)
ndtri_exp = Special(
    "ndtri_exp", lambda y, p: mul(0.5 / _DENSITY, erfcx(mul(-_ROOT_HALF, y))), domain=((-3.0, -0.2),)
)


# --- logarithms and entropies -------------------------------------------------------------------------------


def _ratio(x: Atom, y: Atom) -> Atom:
    """``x / y``, and 0 where both vanish."""
    nowhere = logical_and(equal(x, 0), equal(y, 0))
    return select(nowhere, 0.0, divide(x, y))


logit = Special("logit", lambda y, p: reciprocal(mul(p, subtract(1, p))), domain=PROBABILITY)
log_expit = Special("log_expit", lambda y, x: expit(neg(x)), taints=False, cost=40)
xlogy = Special(
    "xlogy", lambda r, x, y: log(y), lambda r, x, y: _ratio(x, y), cost=25, domain=(*REAL_LINE, *POSITIVE)
)
xlog1py = Special(
    "xlog1py",
    lambda r, x, y: log1p(y),
    lambda r, x, y: _ratio(x, add(1, y)),
    cost=25,
    domain=(*REAL_LINE, (-0.7, 2.0)),
)
entr = Special("entr", lambda y, x: subtract(-1, log(x)), cost=25, domain=POSITIVE)
rel_entr = Special(
    "rel_entr",
    lambda r, x, y: add(log(divide(x, y)), 1),
    lambda r, x, y: neg(_ratio(x, y)),
    cost=30,
    domain=POSITIVE * 2,
)
kl_div = Special(
    "kl_div",
    lambda r, x, y: log(divide(x, y)),
    lambda r, x, y: subtract(1, _ratio(x, y)),
    cost=30,
    domain=POSITIVE * 2,
)

exp10: Special = Special("exp10", lambda y, x: mul(math.log(10.0), y), cost=25, domain=REAL_LINE)
