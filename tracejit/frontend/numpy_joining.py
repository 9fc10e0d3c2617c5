"""NumPy's functions that join, cut and repeat arrays."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.frontend.indexing import index
from tracejit.frontend.numpy_shapes import along, move_axis, raveled, same_size, shape_error
from tracejit.frontend.reducing import one_axis, refuse_out, strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, size, sizes, unsupported
from tracejit.frontend.symbolic import user_size
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, expand_dims, full, shape_text
from tracejit.ops.joining import concatenate
from tracejit.ops.linear import reshape

__all__ = ["join", "pick", "rows_of", "span"]


def rows_of(arrays: Any) -> list[Atom]:
    """Return the arrays of a sequence, which may itself be one traced array: its rows."""
    if is_traced(arrays):
        atom = operand(arrays)
        return [index(atom, i) for i in range(current().pin(atom.shape[0]))]
    return [strong(a) for a in arrays]


def span(x: Atom, axis: int, start: Any = None, stop: Any = None, step: Any = None) -> Atom:
    """Return ``x[start:stop:step]`` along one axis; bounds may be sizes."""
    return index(x, (slice(None),) * axis + (slice(start, stop, step),))


def pick(x: Atom, axis: int, places: Any) -> Atom:
    """Return the entries at ``places`` along one axis."""
    return index(x, (slice(None),) * axis + (places,))


# --- joining ------------------------------------------------------------------------------------------------


def join(atoms: Sequence[Atom], axis: int, dtype: Any = None, casting: Any = "same_kind") -> Atom:
    """Return the arrays one after the other, in their common dtype."""
    if not atoms:
        raise ValueError("need at least one array to concatenate")
    first = atoms[0]
    if not first.shape:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = one_axis(axis, len(first.shape))
    for atom in atoms[1:]:
        _require_joinable(first, atom, axis)
    if dtype is None:
        dtype = np.result_type(*(a.dtype for a in atoms))
    for atom in atoms:
        if not np.can_cast(atom.dtype, dtype, casting):
            raise TypeError(
                f"Cannot cast array data from {atom.dtype!r} to {dtype!r} by the rule {casting!r}"
            )
    return concatenate(*(convert(a, dtype=dtype) for a in atoms), axis=axis)


def _require_joinable(first: Atom, other: Atom, axis: int) -> None:
    fits = len(first.shape) == len(other.shape) and all(
        a == axis or same_size(m, n) for a, (m, n) in enumerate(zip(first.shape, other.shape, strict=True))
    )
    if not fits:
        raise shape_error(
            f"Arrays of shapes {shape_text(first.shape)} and {shape_text(other.shape)} cannot be joined "
            f"along axis {axis}.",
            "All extents except the one along that axis must be equal.",
        )


@implements(np.concatenate, np.concat)
def _concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Atom:
    refuse_out(out, "concatenate")
    atoms = rows_of(arrays)
    if axis is None:
        return join([raveled(a) for a in atoms], 0, dtype, casting)
    return join(atoms, axis, dtype, casting)


@implements(np.stack)
def _stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Atom:
    refuse_out(out, "stack")
    atoms = rows_of(arrays)
    if not atoms:
        raise ValueError("need at least one array to stack")
    for atom in atoms[1:]:
        _require_joinable(atoms[0], atom, -1)
    place = one_axis(axis, len(atoms[0].shape) + 1)
    return join([expand_dims(a, axes=(place,)) for a in atoms], place, dtype, casting)


def _lifted(arrays: Any, ndim: Callable[..., Any]) -> list[Atom]:
    return [FUNCTIONS[ndim](a) for a in rows_of(arrays)]


@implements(np.vstack)
def _vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Atom:
    return join(_lifted(tup, np.atleast_2d), 0, dtype, casting)


@implements(np.hstack)
def _hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Atom:
    atoms = _lifted(tup, np.atleast_1d)
    return join(atoms, 0 if atoms and len(atoms[0].shape) == 1 else 1, dtype, casting)


@implements(np.dstack)
def _dstack(tup: Any) -> Atom:
    return join(_lifted(tup, np.atleast_3d), 2)


@implements(np.column_stack)
def _column_stack(tup: Any) -> Atom:
    columns = [
        expand_dims(FUNCTIONS[np.atleast_1d](a), axes=(1,)) if len(a.shape) < 2 else a for a in rows_of(tup)
    ]
    return join(columns, 1)


@implements(np.block)
def _block(arrays: Any) -> Atom:
    depth = _depth(arrays)
    ndim = max(depth, _deepest(arrays))
    return _blocks(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    return 1 + max(map(_depth, arrays), default=0) if isinstance(arrays, list) else 0


def _deepest(arrays: Any) -> int:
    return max(map(_deepest, arrays)) if isinstance(arrays, list) else len(operand(arrays).shape)


def _blocks(arrays: Any, depth: int, ndim: int) -> Atom:
    if isinstance(arrays, list):
        return join([_blocks(a, depth - 1, ndim) for a in arrays], ndim - depth)
    atom = strong(arrays)
    return expand_dims(atom, axes=tuple(range(ndim - len(atom.shape))))


@implements(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Atom:
    first, second = strong(arr), strong(values)
    if axis is None:
        return join([raveled(first), raveled(second)], 0)
    return join([first, second], axis)


# --- cutting ------------------------------------------------------------------------------------------------


def _cut(x: Atom, cuts: Any, axis: int, even: bool) -> list[Atom]:
    if np.ndim(cuts) == 0 and not isinstance(cuts, list | tuple):
        bounds: list[Any] = _section_bounds(x.shape[axis], operator.index(cuts), even)
    else:
        bounds = [0, *cuts, None]
    return [span(x, axis, a, b) for a, b in itertools.pairwise(bounds)]


def _section_bounds(extent: Dim, count: int, even: bool) -> list[Any]:
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    if not even:
        whole, extra = divmod(current().pin(extent), count)
        return np.cumsum([0] + extra * [whole + 1] + (count - extra) * [whole]).tolist()
    whole_size = extent // count
    if not current().decide(">=", whole_size * count - extent):
        raise shape_error(
            "Array split does not result in an equal division.",
            f"The extent {dims.hint(extent)} is no multiple of {count}; `np.array_split` allows that.",
        )
    return [user_size(whole_size * i) for i in range(count + 1)]


@implements(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Atom]:
    x = strong(ary)
    return _cut(x, indices_or_sections, one_axis(axis, len(x.shape)), even=True)


@implements(np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Atom]:
    x = strong(ary)
    return _cut(x, indices_or_sections, one_axis(axis, len(x.shape)), even=False)


def _split_along(axis: int, least: int, name: str) -> Callable[..., list[Atom]]:
    def split(ary: Any, indices_or_sections: Any) -> list[Atom]:
        x = strong(ary)
        if len(x.shape) < least:
            raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
        return _cut(x, indices_or_sections, min(axis, len(x.shape) - 1), even=True)

    return split


implements(np.vsplit)(_split_along(0, 2, "vsplit"))
implements(np.hsplit)(_split_along(1, 1, "hsplit"))
implements(np.dsplit)(_split_along(2, 3, "dsplit"))


@implements(np.unstack)
def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Atom, ...]:
    atom = strong(x)
    if not atom.shape:
        raise ValueError("Input array must be at least 1-d.")
    place = one_axis(axis, len(atom.shape))
    return tuple(pick(atom, place, i) for i in range(current().pin(atom.shape[place])))


# --- repeating ----------------------------------------------------------------------------------------------


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Atom:
    x, counts = strong(A), sizes(reps)
    ndim = max(len(x.shape), len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    x = expand_dims(x, axes=tuple(range(ndim - len(x.shape))))
    grid = tuple(d for pair in zip(counts, x.shape, strict=True) for d in pair)
    spread = broadcast(x, shape=grid, axes=tuple(range(1, 2 * ndim, 2)))
    return reshape(spread, shape=tuple(c * n for c, n in zip(counts, x.shape, strict=True)))


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Atom:
    x = strong(a)
    x, place = along(x, axis, lift=True)
    if is_traced(repeats) and not hasattr(repeats, "_tracejit_dim"):
        raise unsupported("`np.repeat` with traced counts", "The shape would depend on values.")
    counts = size(repeats) if np.ndim(repeats) == 0 else np.asarray(repeats)
    if isinstance(counts, np.ndarray) and counts.size != 1:
        return pick(x, place, np.repeat(np.arange(current().pin(x.shape[place])), counts))
    count = counts if not isinstance(counts, np.ndarray) else int(counts[0])
    spread = expand_dims(x, axes=(place + 1,))
    shape = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
    merged = (*x.shape[:place], x.shape[place] * count, *x.shape[place + 1 :])
    return reshape(broadcast_to(spread, shape), shape=merged)


@implements(np.resize)
def _resize(a: Any, new_shape: Any) -> Atom:
    x, shape = raveled(strong(a)), sizes(new_shape)
    total = current().pin(dims.prod(shape))
    extent = current().pin(x.shape[0])
    if extent == 0:
        return full(0, shape, x.dtype)
    return reshape(pick(x, 0, np.resize(np.arange(extent), total)), shape=shape)


# --- inserting and deleting ---------------------------------------------------------------------------------


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: Any = None) -> Atom:
    x = strong(arr)
    x, place = along(x, axis)
    _require_plain("np.delete", obj)
    return pick(x, place, np.delete(np.arange(current().pin(x.shape[place])), obj))


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Atom:
    x, new = strong(arr), strong(values)
    x, place = along(x, axis)
    _require_plain("np.insert", obj)
    extent = current().pin(x.shape[place])
    new = expand_dims(new, axes=tuple(range(len(x.shape) - len(new.shape))))
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        new = move_axis(new, 0, place)  # so that np.insert(x, 1, [1, 2, 3], axis=1) fills a column
    count = _insertions(obj, extent)
    if count == 1:
        count = current().pin(new.shape[place])
    block = (*x.shape[:place], count, *x.shape[place + 1 :])
    order = np.insert(np.arange(extent), obj, np.arange(extent, extent + count))
    joined = concatenate(x, FUNCTIONS[np.broadcast_to](convert(new, dtype=x.dtype), block), axis=place)
    return pick(joined, place, order)


def _insertions(obj: Any, extent: int) -> int:
    if isinstance(obj, slice):
        return len(range(*obj.indices(extent)))
    places = np.asarray(obj)
    return int(np.count_nonzero(places)) if places.dtype == bool else places.size


def _require_plain(name: str, obj: Any) -> None:
    if is_traced(obj):
        raise unsupported(f"`{name}` at traced places", "Use plain integers; for stores `x[i] = v`.")
