"""What a traced mask selects: entries whose number is known only while the tape runs.

``x[mask]`` is a gather at the places where the mask holds, along an axis whose extent the tape computes itself.
Equal masks give the same extent, so that ``x[m] * y[m]`` fits together.  What needs to know the number itself (the
shape of a result, the largest of perhaps no entries) starts the trace again with masks as constants of it.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tracejit.frontend.concrete import concrete, guard, is_known
from tracejit.frontend.extents import must_be_known, same_computation
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Builder, Lit, Var, current
from tracejit.ops.arithmetic import floor_divide, remainder, subtract
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import broadcast, convert, reduce_sum
from tracejit.ops.elementwise import select
from tracejit.ops.indexing import scatter_set
from tracejit.ops.linear import iota, reshape, slice_
from tracejit.ops.logic import not_equal
from tracejit.ops.loop import bind_size, runtime_size
from tracejit.ops.reduction import size_of
from tracejit.ops.scan import cumsum

__all__ = ["constant_mask", "places_where"]

_INDEX = np.dtype(np.int64)

_EXPECTED_PART = 2
"""Of the entries, one in so many is expected to be selected where nobody knows."""


_SELECTED: weakref.WeakKeyDictionary[Builder, list[tuple[Var, tuple[Atom, ...]]]] = (
    weakref.WeakKeyDictionary()
)


def constant_mask(mask: Var) -> Any:
    """Return the value of a traced mask; the trace then holds for exactly this mask."""
    plain = np.asarray(concrete(mask))
    differing = convert(not_equal(mask, as_atom(plain)), dtype=_INDEX)
    guard(reduce_sum(differing, axes=tuple(range(plain.ndim))))
    return plain


def places_where(mask: Var) -> tuple[Atom, ...]:
    """Return the indices at which a mask holds, in C order: per axis an array of one and the same extent."""
    if must_be_known():
        return tuple(as_atom(p.astype(_INDEX)) for p in np.nonzero(constant_mask(mask)))
    builder = current()
    known = _SELECTED.setdefault(builder, [])
    for other, places in known:
        if same_computation(mask, other):
            return places
    places = _places(mask)
    known.append((mask, places))
    return places


def _places(mask: Var) -> tuple[Atom, ...]:
    size = dims.prod(mask.shape)
    flat = reshape(mask, shape=(size,))
    ones = convert(flat, dtype=_INDEX)
    count = reduce_sum(ones, axes=(0,))
    expected = int(concrete(count)) if is_known(count) else dims.hint(size) // _EXPECTED_PART
    symbol = runtime_size(expected, "c", most=size)
    bind_size(count, symbol=symbol)
    extent = dims.poly(symbol)
    # What is not selected goes to an entry behind the last one.
    order = subtract(cumsum(ones, axis=0, reverse=False), 1)
    behind = broadcast(size_of(extent, _INDEX), shape=(size,), axes=())
    room = broadcast(Lit(_INDEX.type(0)), shape=(extent + 1,), axes=())
    numbers = iota(shape=(size,), axis=0, dtype=_INDEX)
    filled = scatter_set(room, numbers, select(flat, order, behind), axes=(0,), unique=False)
    return _unravelled(slice_(filled, start=(0,), size=(extent,), step=(1,)), mask.shape, extent)


def _unravelled(places: Atom, shape: tuple[Dim, ...], extent: Dim) -> tuple[Atom, ...]:
    """Return flat places as an index for each axis."""
    found: list[Atom] = []
    for axis in reversed(range(len(shape))):
        length = broadcast(size_of(shape[axis], _INDEX), shape=(extent,), axes=())
        found.append(remainder(places, length) if axis else places)
        places = floor_divide(places, length)
    return tuple(reversed(found))
