"""NumPy's functions that change shapes and the order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tracejit.errors import AxisError, BroadcastError, ShapeError
from tracejit.frontend.reducing import one_axis, strong
from tracejit.frontend.registry import implements, operand, sizes, unsupported
from tracejit.frontend.symbolic import user_shape, user_size
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Poly
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import (
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    shape_text,
    squeeze,
)
from tracejit.ops.linear import reshape, transpose

__all__ = ["along", "many_axes", "move_axis", "raveled", "same_size", "shape_error"]


def shape_error(what: str, hint: str) -> ShapeError:
    """Return the error for shapes that do not fit, at the user's line."""
    return ShapeError(what, where=current().source(), hint=hint)


def same_size(a: Dim, b: Dim) -> bool:
    """Return whether two extents are equal; ties them if they are."""
    return current().decide("==", a - b)


# --- reshape ------------------------------------------------------------------------------------------------


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Atom:
    x = strong(a)
    new = _resolved(x.shape, sizes(shape))
    return reshape(x, shape=new) if _in_c_order(order, len(x.shape), len(new)) else _fortran(x, new)


@implements(np.ravel)
def _ravel(a: Any, order: str = "C") -> Atom:
    x = strong(a)
    return raveled(x) if _in_c_order(order, len(x.shape), 1) else _fortran(x, (x.aval.size,))


def raveled(x: Atom) -> Atom:
    """Return ``x`` as one axis, in C order."""
    return reshape(x, shape=(x.aval.size,))


def _in_c_order(order: str, old: int, new: int) -> bool:
    """Return whether C order gives the result, for arrays of ``old`` and ``new`` axes."""
    if order in ("C", "F"):
        return order == "C" or (old < 2 and new < 2)
    if order in ("A", "K"):
        if old < 2:
            return True
        raise unsupported(
            f"`order={order!r}`, which depends on the memory layout,", "Use order='C' or order='F'."
        )
    raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")


def _fortran(x: Atom, shape: Shape) -> Atom:
    return _reversed_axes(reshape(_reversed_axes(x), shape=shape[::-1]))


def _reversed_axes(x: Atom) -> Atom:
    return transpose(x, perm=tuple(reversed(range(len(x.shape)))))


def _resolved(old: Shape, new: Shape) -> Shape:
    """Return the new shape with a -1 in it computed; the number of entries must agree."""
    unknown = [i for i, d in enumerate(new) if d == -1]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    if not unknown:
        if not same_size(dims.prod(old), dims.prod(new)):
            raise _reshape_error(old, new)
        return new
    (place,) = unknown
    rest = _quotient(old, (*new[:place], *new[place + 1 :]))
    if rest is None:
        raise _reshape_error(old, new)
    return (*new[:place], rest, *new[place + 1 :])


def _reshape_error(old: Shape, new: Shape) -> ShapeError:
    count = dims.hint(dims.prod(old))
    return shape_error(
        f"Cannot reshape array of size {count} into shape {shape_text(new)}.",
        f"The array has shape {shape_text(old)}; the product of the new extents must be {count}.",
    )


def _quotient(whole: Sequence[Dim], parts: Sequence[Dim]) -> Dim | None:
    """Return ``prod(whole) / prod(parts)``, or None if that is no whole number."""
    left = list(whole)
    factors = [f for f in parts if not _take(left, f)]
    a, b = dims.prod(tuple(left)), dims.prod(tuple(factors))
    if isinstance(b, Poly):
        exact = _divide(a, b)
        if exact is not None:
            return exact
        a, b = current().pin(a), current().pin(b)
    if b == 0:
        return None
    quotient = a // b
    # Asked as an inequality: an equality would tie the trace to this very extent.
    return quotient if current().decide(">=", quotient * b - a) else None


def _take(pool: list[Dim], item: Dim) -> bool:
    """Remove ``item`` from the pool if it is there; zero cannot be cancelled.

    A number that is the extent of a symbolic axis in this call is taken to mean that axis: they are tied.
    """
    if item == 0:
        return False
    found = next((d for d in pool if d == item), None)
    if found is None and isinstance(item, int):
        found = next((d for d in pool if isinstance(d, Poly) and _same_extent(d, item)), None)
    if found is not None:
        pool.remove(found)
    return found is not None


def _divide(a: Dim, b: Poly) -> Dim | None:
    """Return the exact quotient of two sizes, by long division of polynomials, or None if there is none."""
    quotient: Dim = 0
    lead, factor = next(iter(b.terms.items()))
    while isinstance(a, Poly):
        monomial, coefficient = next(iter(a.terms.items()))
        rest = list(monomial)
        if coefficient % factor or any(rest.count(atom) < lead.count(atom) for atom in lead):
            return None
        for atom in lead:
            rest.remove(atom)
        term = dims.prod(tuple(dims.poly(atom) for atom in rest)) * (coefficient // factor)
        quotient, a = quotient + term, a - term * b
    return quotient if a == 0 else None


def _same_extent(a: Dim, b: Dim) -> bool:
    """Return whether two extents are equal in this call; if so, ties them."""
    return dims.hint(a) == dims.hint(b) and same_size(a, b)


# --- axes ---------------------------------------------------------------------------------------------------


def many_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as non-negative ints in the given order.

    Raises
    ------
    AxisError
    """
    try:
        return normalize_axis_tuple(axis, ndim)
    except np.exceptions.AxisError as error:
        raise AxisError(
            f"Axis {axis} is out of bounds for an array of dimension {ndim}.",
            where=current().source(),
            hint=f"Axes go from {-ndim} to {ndim - 1}." if ndim else "A scalar has no axes.",
        ) from error


def move_axis(x: Atom, source: int, destination: int) -> Atom:
    """Return ``x`` with one axis moved (both places non-negative)."""
    order = [a for a in range(len(x.shape)) if a != source]
    order.insert(destination, source)
    return transpose(x, perm=tuple(order))


def along(x: Atom, axis: Any, lift: bool = False) -> tuple[Atom, int]:
    """Return the array and the axis that a function works along: None means the flat array.

    Some functions ``lift`` scalars to one axis.
    """
    if axis is None:
        return raveled(x), 0
    if lift and not x.shape:
        x = expand_dims(x, axes=(0,))
    return x, one_axis(axis, len(x.shape))


@implements(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Atom:
    x = strong(a)
    if axes is None:
        return _reversed_axes(x)
    if len(tuple(np.atleast_1d(axes))) != len(x.shape):
        raise shape_error("Axes do not match the array.", f"Name all {len(x.shape)} axes, each of them once.")
    return transpose(x, perm=many_axes(axes, len(x.shape)))


@implements(np.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Atom:
    atom = strong(x)
    if len(atom.shape) < 2:
        raise shape_error(
            f"Input array must be at least 2-dimensional, but it is {len(atom.shape)}.", "Add an axis first."
        )
    return _swapaxes(atom, -1, -2)


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Atom:
    x = strong(a)
    first, second = one_axis(axis1, len(x.shape)), one_axis(axis2, len(x.shape))
    order = list(range(len(x.shape)))
    order[first], order[second] = second, first
    return transpose(x, perm=tuple(order))


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Atom:
    x = strong(a)
    old, new = many_axes(source, len(x.shape)), many_axes(destination, len(x.shape))
    if len(old) != len(new):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [a for a in range(len(x.shape)) if a not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return transpose(x, perm=tuple(order))


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Atom:
    x = strong(a)
    source, ndim = one_axis(axis, len(x.shape)), len(x.shape)
    place = start + ndim if start < 0 else start
    if not 0 <= place <= ndim:
        raise AxisError(
            f"'start' arg requires {-ndim} <= start < {ndim + 1}, but {start} was passed in.",
            where=current().source(),
            hint="The axis is rolled until it lies before `start`; `np.moveaxis` is easier to read.",
        )
    return move_axis(x, source, place - (source < place))


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Atom:
    x = strong(a)
    if axis is None:
        return squeeze(x, axes=tuple(i for i, d in enumerate(x.shape) if d == 1))
    if not x.shape and not isinstance(axis, tuple) and axis in (0, -1):
        return x  # NumPy lets scalars have this axis here
    axes = many_axes(axis, len(x.shape))
    if any(x.shape[i] != 1 for i in axes):
        raise shape_error(
            "Cannot select an axis to squeeze out which has size not equal to one.",
            f"The array has shape {shape_text(x.shape)}; an index like `x[0]` drops an axis of any size.",
        )
    return squeeze(x, axes=tuple(sorted(axes)))


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Atom:
    x = strong(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    return expand_dims(x, axes=tuple(sorted(many_axes(axis, len(x.shape) + count))))


def _at_least(x: Atom, ndim: int) -> Atom:
    missing = ndim - len(x.shape)
    if missing <= 0:
        return x
    # A vector becomes (1, n, 1) and a matrix (m, n, 1) in three dimensions.
    trailing = 1 if ndim == 3 and x.shape else 0
    return expand_dims(x, axes=(*range(missing - trailing), *range(ndim - trailing, ndim)))


def _several(ndim: int, arrays: Sequence[Any]) -> Any:
    lifted = tuple(_at_least(strong(a), ndim) for a in arrays)
    return lifted[0] if len(lifted) == 1 else lifted


@implements(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    return _several(1, arys)


@implements(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    return _several(2, arys)


@implements(np.atleast_3d)
def _atleast_3d(*arys: Any) -> Any:
    return _several(3, arys)


# --- broadcasting and questions -----------------------------------------------------------------------------


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Atom:
    x, new = strong(array), sizes(shape)
    if len(x.shape) > len(new) or broadcast_shapes(x.shape, new, what="broadcast_to") != new:
        raise BroadcastError(
            f"An array of shape {shape_text(x.shape)} cannot be broadcast to shape {shape_text(new)}.",
            where=current().source(),
            hint="Only axes of length one stretch, and new axes come in front.",
        )
    return broadcast_to(x, new)


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Atom, ...]:
    atoms = [strong(a) for a in args]
    shape = broadcast_shapes(*(a.shape for a in atoms), what="broadcast_arrays")
    return tuple(broadcast_to(a, shape) for a in atoms)


@implements(np.shape)
def _shape(a: Any) -> Any:
    return user_shape(operand(a).shape)


@implements(np.size)
def _size(a: Any, axis: Any = None) -> Any:
    x = operand(a)
    axes = range(len(x.shape)) if axis is None else many_axes(axis, len(x.shape))
    return user_size(dims.prod(tuple(x.shape[i] for i in axes)))


@implements(np.ndim)
def _ndim(a: Any) -> int:
    return len(operand(a).shape)


@implements(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> Atom:
    return strong(a)
