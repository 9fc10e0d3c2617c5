"""NumPy's functions that write into an array, and those whose result has a size that depends on values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.numpy_joining import pick
from tracejit.frontend.numpy_moving import along_axis, places_of, plain_mask
from tracejit.frontend.numpy_shapes import raveled, shape_error
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, unsupported
from tracejit.ir import dims
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import broadcast_to, convert, shape_text
from tracejit.ops.indexing import scatter_set
from tracejit.ops.linear import reshape

__all__: list[str] = []


# --- stores: ``a`` is the user's handle; assigning to its entries binds it to the new contents --------------


def _target(name: str, a: Any) -> Atom:
    if not is_traced(a):
        raise unsupported(
            f"`np.{name}` of traced values into a plain ndarray", "Make the array in the function."
        )
    return operand(a)


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    old, new = _target("copyto", dst), operand(src)
    if not np.can_cast(new.dtype, old.dtype, casting):
        raise TypeError(f"Cannot cast array data from {new.dtype!r} to {old.dtype!r} by the rule {casting!r}")
    if where is True:
        dst[...] = new
    else:
        dst[...] = FUNCTIONS[np.where](operand(where), convert(new, dtype=old.dtype), old)


@implements(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    old, new = _target("putmask", a), raveled(strong(values))
    fitted = reshape(FUNCTIONS[np.resize](new, _pinned_size(old)), shape=old.shape)
    a[...] = FUNCTIONS[np.where](operand(mask), convert(fitted, dtype=old.dtype), old)


@implements(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    old = _target("place", arr)
    places = np.flatnonzero(plain_mask(mask))
    if places.size:
        _write_flat(arr, old, places, vals)


@implements(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    old = _target("put", a)
    if is_traced(ind):
        raise unsupported("`np.put` at traced places", "Write `a.reshape(-1)[places] = values`.")
    places = np.asarray(ind, dtype=np.intp).ravel()
    extent = _pinned_size(old)
    if mode == "raise" and places.size and (places.min() < -extent or places.max() >= extent):
        raise IndexError(f"`np.put` at places out of bounds for size {extent}")
    places = np.clip(places, 0, extent - 1) if mode == "clip" else places % max(extent, 1)
    if places.size:
        _write_flat(a, old, places, v)


def _pinned_size(x: Atom) -> int:
    return current().pin(x.aval.size)


def _write_flat(a: Any, old: Atom, places: Any, values: Any) -> None:
    """Write values, repeated as often as needed, at places of the flat array."""
    new = FUNCTIONS[np.resize](strong(values), len(places))
    a[np.unravel_index(places, tuple(map(current().pin, old.shape)))] = new


@implements(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    old = _target("put_along_axis", arr)
    flat = axis is None
    x = raveled(old) if flat else old
    places = along_axis(x, operand(indices), 0 if flat else axis)
    new = broadcast_to(convert(strong(values), dtype=x.dtype), places[0].shape)
    written = scatter_set(x, new, *places, axes=tuple(range(len(x.shape))), unique=False)
    arr[...] = reshape(written, shape=old.shape)


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    shape = operand(a).shape
    extents = [current().pin(n) for n in shape]
    if len(shape) < 2 or (len(shape) > 2 and len(set(extents)) > 1):
        raise shape_error(
            f"`np.fill_diagonal` of an array of shape {shape_text(shape)}.",
            "It needs two axes, or more of equal length.",
        )
    count = dims.prod(tuple(extents))
    step = extents[1] + 1 if len(shape) == 2 else 1 + int(sum(np.cumprod(extents[:-1])))
    end = None if wrap or len(shape) > 2 else extents[1] * extents[1]
    places = np.unravel_index(np.arange(dims.hint(count))[:end:step], tuple(extents))
    new = raveled(strong(val))
    if new.shape[0] != 1:
        new = FUNCTIONS[np.resize](new, len(places[0]))
    a[places] = new


# --- results whose size depends on values ---------------------------------


@implements(np.nonzero)
def _nonzero(a: Any) -> Any:
    return places_of(a)


@implements(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return places_of(raveled(strong(a)))[0]


@implements(np.argwhere)
def _argwhere(a: Any) -> Any:
    places = places_of(a)
    return FUNCTIONS[np.stack](places, axis=1) if places else np.argwhere(plain_mask(a))


@implements(np.trim_zeros)
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Atom:
    x = strong(filt)
    if len(x.shape) != 1:
        raise unsupported("`np.trim_zeros` of several axes", "Use slices.")
    places = np.flatnonzero(plain_mask(x))
    extent = current().pin(x.shape[0])
    first = places[0] if "f" in trim.lower() and places.size else 0
    last = places[-1] + 1 if "b" in trim.lower() and places.size else extent
    return pick(x, 0, slice(0, 0) if not places.size else slice(int(first), int(last)))
