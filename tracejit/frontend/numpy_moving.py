"""NumPy's functions that turn, shift, pad and pick entries."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracejit.frontend.masks import constant_mask, places_where
from tracejit.frontend.numpy_joining import pick
from tracejit.frontend.numpy_shapes import along, many_axes, raveled, same_size, shape_error
from tracejit.frontend.reducing import one_axis, refuse_out, strong
from tracejit.frontend.registry import implements, is_traced, operand
from tracejit.frontend.symbolic import wrapped
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Var, current
from tracejit.ops.arithmetic import remainder, subtract
from tracejit.ops.broadcasting import broadcast_to, convert, full, shape_text
from tracejit.ops.extrema import maximum, minimum
from tracejit.ops.indexing import INDEX, gather
from tracejit.ops.joining import concatenate
from tracejit.ops.linear import iota, reshape, slice_, transpose
from tracejit.ops.logic import not_equal
from tracejit.ops.reduction import size_of

__all__ = ["along_axis", "flipped", "places_of", "plain_mask"]


# --- turning and shifting -----------------------------------------------------------------------------------


def flipped(x: Atom, axes: tuple[int, ...]) -> Atom:
    """Return ``x`` with the order of entries reversed along axes."""
    step = tuple(-1 if a in axes else 1 for a in range(len(x.shape)))
    # The last entry of an axis without entries does not exist; any start will do.
    start = tuple(n - 1 if a in axes and n != 0 else 0 for a, n in enumerate(x.shape))
    return slice_(x, start=start, size=x.shape, step=step)


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Atom:
    x = strong(m)
    return flipped(x, tuple(range(len(x.shape))) if axis is None else many_axes(axis, len(x.shape)))


@implements(np.flipud)
def _flipud(m: Any) -> Atom:
    return _flip_axis(m, 0)


@implements(np.fliplr)
def _fliplr(m: Any) -> Atom:
    return _flip_axis(m, 1)


def _flip_axis(m: Any, axis: int) -> Atom:
    x = strong(m)
    if len(x.shape) <= axis:
        raise ValueError(f"Input must be >= {axis + 1}-d.")
    return flipped(x, (axis,))


@implements(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Atom:
    x = strong(m)
    if len(tuple(axes)) != 2:
        raise ValueError("len(axes) must be 2.")
    first, second = (one_axis(a, len(x.shape)) for a in axes)
    if first == second:
        raise ValueError("Axes must be different.")
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flipped(x, (first, second))
    order = list(range(len(x.shape)))
    order[first], order[second] = second, first
    if turns == 1:
        return transpose(flipped(x, (second,)), perm=tuple(order))
    return flipped(transpose(x, perm=tuple(order)), (second,))


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Atom:
    x = strong(a)
    if axis is None:
        return reshape(_rolled(raveled(x), operator.index(shift), 0), shape=x.shape)
    axes = [one_axis(int(k), len(x.shape)) for k in np.atleast_1d(axis)]
    for amount, place in np.broadcast(shift, axes):
        x = _rolled(x, int(amount), int(place))
    return x


def _rolled(x: Atom, shift: int, axis: int) -> Atom:
    extent = x.shape[axis]
    if shift == 0 or extent == 0:
        return x
    # The shift within [0, extent): the number of whole turns is that of the traced call.
    turns = shift // dims.hint(extent)
    first = extent * (turns + 1) - shift
    current().decide(">=", first - 1)
    current().decide(">=", extent - first)
    return concatenate(_part(x, axis, first, extent - first), _part(x, axis, 0, first), axis=axis)


def _part(x: Atom, axis: int, start: Dim, length: Dim) -> Atom:
    starts = tuple(start if a == axis else 0 for a in range(len(x.shape)))
    sizes = tuple(length if a == axis else n for a, n in enumerate(x.shape))
    return slice_(x, start=starts, size=sizes, step=(1,) * len(x.shape))


# --- picking ------------------------------------------------------------------------------------------------


@implements(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Atom:
    refuse_out(out, "take")
    x = strong(a)
    x, place = along(x, axis, lift=True)
    if mode == "raise":
        return pick(x, place, indices)
    if mode not in ("wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    last = subtract(size_of(x.shape[place]), 1)
    places = convert(operand(indices), dtype=INDEX)
    if mode == "clip":
        places = minimum(maximum(places, 0), last)
    else:
        places = remainder(places, size_of(x.shape[place]))
    return _gathered(x, place, places)


def _gathered(x: Atom, axis: int, places: Atom) -> Atom:
    """Return the entries at ``places`` along one axis, the axes of ``places`` in its stead."""
    rank = len(places.shape)
    front = gather(x, places, axes=(axis,))
    order = (*range(rank, rank + axis), *range(rank), *range(rank + axis, len(front.shape)))
    return transpose(front, perm=order)


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Atom:
    x = strong(arr)
    x, axis = (raveled(x), 0) if axis is None else (x, axis)
    return gather(x, *along_axis(x, operand(indices), axis), axes=tuple(range(len(x.shape))))


def along_axis(x: Atom, places: Atom, axis: Any) -> list[Atom]:
    """Return one index array per axis of ``x``: ``places`` on ``axis``, the own index on the others."""
    if places.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if len(x.shape) != len(places.shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = one_axis(axis, len(x.shape))
    shape = list(places.shape)
    for a, n in enumerate(x.shape):
        if a != axis and n != 1 and shape[a] == 1:
            shape[a] = n
        if a != axis and n != 1 and not same_size(n, shape[a]):
            raise shape_error(
                f"`take_along_axis` of an array of shape {shape_text(x.shape)} at indices of shape "
                f"{shape_text(places.shape)}.",
                "All extents except the one along the axis must be equal, or 1.",
            )
    target = tuple(shape)
    indices = [
        full(0, target, INDEX) if n == 1 else iota(shape=target, axis=a, dtype=INDEX)
        for a, n in enumerate(x.shape)
    ]
    indices[axis] = broadcast_to(convert(places, dtype=INDEX), target)
    return indices


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "compress")
    x = strong(a)
    x, place = along(x, axis, lift=True)
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    return pick(x, place, _flat_places(condition))


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Atom:
    return pick(raveled(strong(arr)), 0, _flat_places(condition))


def _flat_places(condition: Any) -> Any:
    """Return the indices in C order of the entries that are not zero."""
    traced = is_traced(condition) or isinstance(condition, Atom)
    return wrapped(places_of(raveled(strong(condition)))[0]) if traced else np.flatnonzero(condition)


def places_of(values: Any) -> tuple[Any, ...]:
    """Return, per axis, the indices of the entries that are not zero."""
    if not (is_traced(values) or isinstance(values, Atom)):
        return np.nonzero(values)
    mask = not_equal(strong(values), operand(0))
    return places_where(mask) if isinstance(mask, Var) else np.nonzero(np.asarray(mask.value))


def plain_mask(values: Any) -> Any:
    """Return which entries are not zero; of traced values, those of this call (then guarded)."""
    if not (is_traced(values) or isinstance(values, Atom)):
        return np.asarray(values) != 0
    mask = not_equal(strong(values), operand(0))
    return constant_mask(mask) if isinstance(mask, Var) else np.asarray(mask.value)
