"""NumPy on sampled functions: interpolation, differences quotients, phases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_joining import join, pick, span
from tracejit.frontend.numpy_shapes import same_size
from tracejit.frontend.reducing import given, one_axis, strong
from tracejit.frontend.registry import FUNCTIONS, implements, operand
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, floor_divide, remainder, subtract
from tracejit.ops.broadcasting import broadcast, convert
from tracejit.ops.complex_parts import absolute
from tracejit.ops.elementwise import absorb_mul, add, common_dtype, constant, mul, neg, select
from tracejit.ops.extrema import clip
from tracejit.ops.indexing import gather
from tracejit.ops.logic import equal, greater, isnan, less, logical_and
from tracejit.ops.ordering import argsort
from tracejit.ops.reduction import size_of
from tracejit.ops.scan import cumsum
from tracejit.ops.searching import search

__all__: list[str] = []


# --- interpolation ------------------------------------------------------------------------------------------


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Atom:
    points, knots = (convert(strong(v), dtype=np.float64) for v in (x, xp))
    values = strong(fp)
    values = convert(values, dtype=np.complex128 if values.dtype.kind == "c" else np.float64)
    if len(knots.shape) != 1 or len(values.shape) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if not same_size(knots.shape[0], values.shape[0]):
        raise ValueError("fp and xp are not of the same length.")
    if current().decide("==", knots.shape[0]):
        raise ValueError("array of sample points is empty")
    if period is not None:
        points, knots, values = _on_circle(points, knots, values, period)
        left = right = None
    inner = _between_knots(points, knots, values)
    below, above = less(points, pick(knots, 0, 0)), greater(points, pick(knots, 0, -1))
    low = pick(values, 0, 0) if left is None else convert(operand(left), dtype=values.dtype)
    high = pick(values, 0, -1) if right is None else convert(operand(right), dtype=values.dtype)
    result = select(below, low, select(above, high, inner))
    return select(isnan(points), convert(points, dtype=values.dtype), result)


def _on_circle(x: Atom, knots: Atom, values: Atom, period: Any) -> tuple[Atom, Atom, Atom]:
    """Bring points and sorted knots into one period, with one more knot at either end."""
    turn = absolute(convert(operand(period), dtype=np.float64))
    if guard(equal(turn, 0)):
        raise ValueError("period must be a non-zero value")
    x, knots = remainder(x, turn), remainder(knots, turn)
    order = argsort(knots, axis=0)
    knots, values = gather(knots, order, axes=(0,)), gather(values, order, axes=(0,))
    ends = [subtract(span(knots, 0, -1), turn), add(span(knots, 0, None, 1), turn)]
    return (
        x,
        join([ends[0], knots, ends[1]], 0),
        join([span(values, 0, -1), values, span(values, 0, None, 1)], 0),
    )


def _between_knots(x: Atom, knots: Atom, values: Atom) -> Atom:
    """The line through the knots on either side, in NumPy's operations; at a knot that to its right."""
    last = subtract(size_of(knots.shape[0]), 1)
    found = search(knots, x, right=True)
    place = clip(subtract(found, 1), 0, last)
    x0, y0 = gather(knots, place, axes=(0,)), gather(values, place, axes=(0,))
    after = clip(add(place, 1), 0, last)
    x1, y1 = gather(knots, after, axes=(0,)), gather(values, after, axes=(0,))
    at_end = equal(place, last)
    width = select(at_end, 1.0, subtract(x1, x0))
    slope = divide(subtract(y1, y0), width)
    line = add(absorb_mul(slope, subtract(x, x0)), y0)
    other = add(mul(slope, subtract(x, x1)), y1)  # finite where only the left value is infinite
    other = select(logical_and(isnan(other), equal(y0, y1)), y0, other)
    return select(isnan(line), other, line)


# --- difference quotients -----------------------------------------------------------------------------------


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = strong(f)
    x = x if x.aval.inexact else convert(x, dtype=np.float64)
    ndim = len(x.shape)
    chosen = range(ndim) if axis is None else (axis if isinstance(axis, tuple | list) else (axis,))
    axes = [one_axis(a, ndim) for a in chosen]
    if len(set(axes)) != len(axes):
        raise ValueError("repeated axis")
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    if len(varargs) <= 1 and len(axes) != 1:
        varargs = (varargs or (1.0,)) * len(axes)
    spacings = [_spacing(v, x, a) for v, a in zip(varargs or (1.0,), axes, strict=True)]
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    slopes = [_slopes(x, h, a, edge_order) for h, a in zip(spacings, axes, strict=True)]
    return slopes[0] if len(axes) == 1 else tuple(slopes)


def _spacing(value: Any, x: Atom, axis: int) -> Atom:
    """Return the distances of neighbouring samples; one number where they are given as one."""
    positions = operand(value)
    if not positions.shape:
        return positions
    if len(positions.shape) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if not same_size(positions.shape[0], x.shape[axis]):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    distances = FUNCTIONS[np.diff](convert(positions, dtype=np.result_type(positions.dtype, np.float16)))
    shape = tuple(distances.shape[0] if a == axis else 1 for a in range(len(x.shape)))
    return broadcast(distances, shape=shape, axes=(axis,))


def _slopes(x: Atom, h: Atom, axis: int, edge_order: int) -> Atom:
    if not current().decide(">=", x.shape[axis] - edge_order - 1):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    ends = _first_order_ends if edge_order == 1 else _second_order_ends
    first, last = ends(x, h, axis)
    return join([first, _inside(x, h, axis), last], axis, dtype=x.dtype)


def _weighted(x: Atom, axis: int, weights: tuple[Atom, Atom, Atom], *bounds: tuple[Any, Any]) -> Atom:
    """The sum of three slices of ``x``, weighted."""
    a, b, c = (mul(w, span(x, axis, *bound)) for w, bound in zip(weights, bounds, strict=True))
    return add(add(a, b), c)


def _inside(x: Atom, h: Atom, axis: int) -> Atom:
    if not h.shape:
        return divide(subtract(span(x, axis, 2), span(x, axis, None, -2)), mul(2.0, h))
    h1, h2 = span(h, axis, None, -1), span(h, axis, 1)
    both = add(h1, h2)
    weights = (
        divide(neg(h2), mul(h1, both)),
        divide(subtract(h2, h1), mul(h1, h2)),
        divide(h1, mul(h2, both)),
    )
    return _weighted(x, axis, weights, (None, -2), (1, -1), (2, None))


def _first_order_ends(x: Atom, h: Atom, axis: int) -> tuple[Atom, Atom]:
    first, last = (h, h) if not h.shape else (span(h, axis, None, 1), span(h, axis, -1))
    return (
        divide(subtract(span(x, axis, 1, 2), span(x, axis, None, 1)), first),
        divide(subtract(span(x, axis, -1), span(x, axis, -2, -1)), last),
    )


def _second_order_ends(x: Atom, h: Atom, axis: int) -> tuple[Atom, Atom]:
    if not h.shape:
        first = divide(-1.5, h), divide(2.0, h), divide(-0.5, h)
        last = divide(0.5, h), divide(-2.0, h), divide(1.5, h)
    else:
        a, b, c = _end_weights(span(h, axis, None, 1), span(h, axis, 1, 2))
        first = neg(a), b, neg(c)
        c, b, a = _end_weights(span(h, axis, -1), span(h, axis, -2, -1))
        last = a, neg(b), c
    return (
        _weighted(x, axis, first, (None, 1), (1, 2), (2, 3)),
        _weighted(x, axis, last, (-3, -2), (-2, -1), (-1, None)),
    )


def _end_weights(near: Atom, far: Atom) -> tuple[Atom, Atom, Atom]:
    both = add(near, far)
    return (
        divide(add(mul(2.0, near), far), mul(near, both)),
        divide(both, mul(near, far)),
        divide(near, mul(far, both)),
    )


# --- phases -------------------------------------------------------------------------------------------------


@implements(np.unwrap)
def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Atom:
    x, turn = strong(p), operand(period)
    axis = one_axis(axis, len(x.shape))
    steps = FUNCTIONS[np.diff](x, axis=axis)
    dtype = common_dtype([steps.aval, turn.aval])
    high = (floor_divide if dtype.kind in "iu" else divide)(turn, 2)
    least, low = operand(discont) if given(discont) else divide(turn, 2), neg(high)
    wrapped = add(remainder(subtract(steps, low), turn), low)
    ambiguous = logical_and(equal(wrapped, low), greater(steps, 0))
    if dtype.kind in "iu":
        ambiguous = logical_and(ambiguous, equal(strong(remainder(turn, 2)), 0))
    wrapped = select(ambiguous, high, wrapped)
    correction = subtract(wrapped, steps)
    correction = select(less(absolute(steps), least), constant(0, correction), correction)
    rest = add(span(x, axis, 1), cumsum(correction, axis=axis, reverse=False))
    return join([span(x, axis, None, 1), rest], axis, dtype=dtype, casting="unsafe")
