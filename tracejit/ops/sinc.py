"""The cardinal sine, whose derivatives of every order are right at 0."""

from __future__ import annotations

import math
from typing import Any

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, square
from tracejit.ops.complex_parts import absolute
from tracejit.ops.elementwise import add, constant, mul, select
from tracejit.ops.logic import less
from tracejit.ops.transcendental import sin

__all__ = ["sinc"]

_TERMS = 12


def sinc(x: Any) -> Atom:
    """Return ``sin(pi x)/(pi x)``: near 0 the Taylor polynomial, whose derivatives are the limits."""
    u = mul(math.pi, x)
    u_squared = square(u)
    near = less(absolute(u_squared), 1)
    series: Any = constant((-1) ** _TERMS / math.factorial(2 * _TERMS + 1), u)
    for k in reversed(range(_TERMS)):
        series = add(mul(series, u_squared), (-1) ** k / math.factorial(2 * k + 1))
    return select(near, series, divide(sin(u), u))
