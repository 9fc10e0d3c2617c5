"""What stands between the brackets of ``x[...]``: NumPy's rules, with sizes that may be symbols."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from tracejit.errors import BroadcastError, IndexingError
from tracejit.frontend.concrete import guard
from tracejit.frontend.extents import must_be_known, stretch, varies
from tracejit.frontend.masks import places_where
from tracejit.frontend.registry import is_traced, operand, size
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Undecided
from tracejit.ir.tape import Atom, Lit, Var, current
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, shape_text
from tracejit.ops.indexing import INDEX

__all__ = [
    "Array",
    "Flag",
    "Item",
    "Span",
    "broadcast_indices",
    "mask_axes",
    "parse",
    "read_part",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A slice along one axis."""

    start: Dim
    size: Dim
    step: int


@dataclass(frozen=True, slots=True)
class Array:
    """Computed places along one axis.

    ``plain`` is their value where it is known for every call; ``distinct`` says that all such arrays of a key together
    name no place twice.
    """

    atom: Atom
    plain: Any = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """``x[True]``: a new axis of length one, or zero; takes part in broadcasting with the arrays."""

    on: bool


Item = Span | Array | Flag | Dim | None | EllipsisType
"""One axis of a key; a size is an integer index, ``None`` a new axis, ``...`` a mark where that stood."""


def parse(key: Any, shape: Shape) -> list[Item]:
    """Return the items of ``key`` for an array of ``shape``: one per axis, flags and new axes beside them."""
    parts = [read_part(p) for p in (key if isinstance(key, tuple) else (key,))]
    used = sum(_consumes(p) for p in parts)
    if used > len(shape):
        raise _error(
            f"Too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed.",
            "Leave indices out, or add axes first, for example with `x[:, None]`.",
        )
    filling = [slice(None)] * (len(shape) - used)
    places = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(places) > 1:
        raise _error("An index can only have a single ellipsis ('...').", "Write the other axes out as `:`.")
    at = places[0] if places else len(parts)
    items: list[Item] = []
    axis = 0
    for part in (*parts[:at], *filling, *parts[at:]):
        items += _items(part, shape, axis)
        axis += _consumes(part)
    return items


def read_part(part: Any) -> Any:
    """Return one part of a key as None, ``...``, a slice, a bool, a size, or a variable or ndarray."""
    if part is None or part is Ellipsis or isinstance(part, slice | bool):
        return part
    if hasattr(part, "_tracejit_dim"):
        return size(part)
    found = operand(part) if _traced_inside(part) else _plain(part)
    if found.dtype.kind not in "iub":
        raise _error(
            f"Arrays used as indices must be of integer (or boolean) type, not {found.dtype}.",
            "Convert with `.astype(int)`; only integers, slices (`:`), `...`, `None` and integer or boolean "
            "arrays are valid indices.",
        )
    if isinstance(found, Lit):
        found = np.asarray(found.value)
    if isinstance(found, Var):
        return bool(guard(found)) if found.dtype.kind == "b" and not found.shape else found
    return found if found.ndim else found.item()


def _traced_inside(part: Any) -> bool:
    if isinstance(part, list | tuple):
        return any(map(_traced_inside, part))
    return is_traced(part) or isinstance(part, Atom)


def _plain(part: Any) -> Any:
    array = np.asarray(part)
    if not isinstance(part, np.ndarray) and not array.size:
        return array.astype(INDEX)  # NumPy reads an empty list as integers
    return array


def _consumes(part: Any) -> int:
    """Return how many axes a part of a key uses up."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return len(part.shape) if isinstance(part, Var | np.ndarray) and part.dtype.kind == "b" else 1


def _items(part: Any, shape: Shape, axis: int) -> Sequence[Item]:
    if part is None or part is Ellipsis:
        return (part,)
    if isinstance(part, bool):
        return (Flag(part),)
    if isinstance(part, slice):
        return (_span(part, shape[axis]),)
    if isinstance(part, Var | np.ndarray):
        if part.dtype.kind == "b":
            return _mask_items(part, shape, axis)
        return (_array(part, shape[axis], axis),)
    return (_integer(part, shape[axis], axis),)


def _integer(index: Dim, extent: Dim, axis: int) -> Dim:
    negative = not current().decide(">=", index)
    place = index + extent if negative else index
    if not (current().decide(">=", place) and current().decide(">=", extent - place - 1)):
        raise _out_of_bounds(dims.hint(index), extent, axis)
    return place


def _out_of_bounds(index: int, extent: Dim, axis: int) -> IndexingError:
    return _error(
        f"Index {index} is out of bounds for axis {axis} with size {dims.hint(extent)}.",
        "Valid indices go from -size to size - 1.",
    )


def _span(part: slice, extent: Dim) -> Span:
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if must_be_known():
        return _settled_span(part, extent, step)
    if not (varies(part.start) or varies(part.stop)):
        with suppress(Undecided):
            return _settled_span(part, extent, step)
    return Span(*stretch(part, extent, step), step)


def _settled_span(part: slice, extent: Dim, step: int) -> Span:
    """Return a slice whose ends lie on the same side of the axis's ends, and of each other, in all iterations."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (low, high) if step > 0 else (high, low)
    start = first if part.start is None else _bound(size(part.start), extent, low, high)
    stop = last if part.stop is None else _bound(size(part.stop), extent, low, high)
    length = stop - start if step > 0 else start - stop
    if not _has_entries(length):
        return Span(0, 0, 1)
    return Span(start, (length + abs(step) - 1) // abs(step), step)


def _has_entries(length: Dim) -> bool:
    """Return whether a slice has entries; if only in some iterations of a loop, its extent says so by itself."""
    try:
        return current().decide(">=", length - 1)
    except Undecided:
        return current().decide(">=", length)


def _bound(value: Dim, extent: Dim, low: Dim, high: Dim) -> Dim:
    """Return one end of a slice, counted from the start and clipped as Python does."""
    if not current().decide(">=", value):
        value = value + extent
        return value if current().decide(">=", value - low) else low
    return value if current().decide(">=", high - value) else high


def _array(part: Any, extent: Dim, axis: int) -> Array:
    if isinstance(part, Var):
        return Array(convert(part, dtype=INDEX))
    plain = part.astype(INDEX)
    size_now = dims.hint(extent)
    wrong = plain[(plain < -size_now) | (plain >= size_now)]
    if wrong.size:
        raise _out_of_bounds(int(wrong[0]), extent, axis)
    return Array(as_atom(plain), plain)


def _mask_items(mask: Any, shape: Shape, axis: int) -> Sequence[Item]:
    mask_axes(mask, shape, axis)
    if isinstance(mask, Var):
        return [Array(atom, getattr(atom, "value", None), distinct=True) for atom in places_where(mask)]
    return [Array(as_atom(p.astype(INDEX)), p.astype(INDEX)) for p in np.nonzero(mask)]


def mask_axes(mask: Any, shape: Shape, axis: int) -> None:
    """Check that a boolean mask has the extents of the axes that it stands on, from ``axis`` on."""
    for k, extent in enumerate(mask.shape):
        if not current().decide("==", shape[axis + k] - extent):
            raise _error(
                f"Boolean index did not match indexed array along axis {axis + k}; size of axis "
                f"is {dims.hint(shape[axis + k])} but that of the mask is {dims.hint(extent)}.",
                f"The mask has shape {shape_text(mask.shape)}, the array {shape_text(shape)}.",
            )


def broadcast_indices(items: Sequence[Array | Flag]) -> tuple[Shape, list[Atom]]:
    """Return the common shape of the arrays and flags, and the arrays in it."""
    arrays = [i.atom for i in items if isinstance(i, Array)]
    flags: list[Shape] = [(int(i.on),) for i in items if isinstance(i, Flag)]
    try:
        shape = broadcast_shapes(*(a.shape for a in arrays), *flags)
    except BroadcastError:
        shapes = " ".join(shape_text(a.shape) for a in arrays)
        raise _error(
            f"Shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}.",
            "Use `np.ix_` to combine index lists of different lengths.",
        ) from None
    return shape, [broadcast_to(a, shape) for a in arrays]


def _error(what: str, hint: str) -> IndexingError:
    return IndexingError(what, where=current().source(), hint=hint)
