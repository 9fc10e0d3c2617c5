"""The larger and the smaller of two, and clipping: the derivative follows the operand that NumPy returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.tape import Atom
from tracejit.ops.elementwise import Elementwise, constant, select
from tracejit.ops.logic import equal, greater, greater_equal, isnan, less, less_equal, logical_and, logical_or

__all__ = ["clip", "fmax", "fmin", "maximum", "minimum"]


def _share(first_wins: Callable[[Atom, Atom], Atom], first: bool) -> Callable[..., Atom]:
    """Return the partial of one operand: 1 where it is the result, 0 where the other is, half at a tie."""

    def partial(y: Atom, a: Atom, b: Atom) -> Atom:
        whole, nothing, half = (constant(number, y) for number in (1, 0, 0.5))
        won = (whole, nothing) if first else (nothing, whole)
        return select(equal(a, b), half, select(first_wins(a, b), *won))

    return partial


def _extremum(
    ufunc: np.ufunc, better: Elementwise, nan_side: Callable[[Atom, Atom], Atom], domain: Any = ()
) -> Elementwise:
    def first_wins(a: Atom, b: Atom) -> Atom:
        return logical_or(better(a, b), isnan(nan_side(a, b)))

    name = ufunc.__name__
    partials = _share(first_wins, True), _share(first_wins, False)
    return Elementwise(name, ufunc, f"{name}({{0}}, {{1}})", *partials, taints=True, cost=2, real_only=True)


# `maximum` returns a NaN if there is one, `fmax` the other operand; of two NaNs both return the first.
maximum = _extremum(np.maximum, greater_equal, lambda a, b: a)
minimum = _extremum(np.minimum, less_equal, lambda a, b: a)
fmax = _extremum(np.fmax, greater_equal, lambda a, b: b)
fmin = _extremum(np.fmin, less_equal, lambda a, b: b)


def _inside(y: Atom, x: Atom, low: Atom, high: Atom) -> Atom:
    """1 unless ``x`` lies strictly outside of the bounds."""
    return select(logical_or(less(x, low), greater(x, high)), constant(0, y), constant(1, y))


def _below(y: Atom, x: Atom, low: Atom, high: Atom) -> Atom:
    return select(logical_and(less(x, low), less_equal(low, high)), constant(1, y), constant(0, y))


def _above(y: Atom, x: Atom, low: Atom, high: Atom) -> Atom:
    """1 where ``high`` is the result: also where the bounds are the wrong way round."""
    return select(logical_or(greater(x, high), greater(low, high)), constant(1, y), constant(0, y))


clip = Elementwise(
    "clip",
    np._core.umath.clip,  # type: ignore[attr-defined]
    "minimum(maximum({0}, {1}), {2})",
    _inside,
    _below,
    _above,
    taints=True,
    cost=3,
    domain=((-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)),
    real_only=True,
)
