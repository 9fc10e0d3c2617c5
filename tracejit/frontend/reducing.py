"""What all reductions share: axes, masks, dtypes, ``keepdims`` and the forms that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tracejit.errors import AxisError, BroadcastError, EmptyReductionError
from tracejit.frontend.registry import operand, unsupported
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.broadcasting import (
    broadcast_shapes,
    broadcast_to,
    convert,
    expand_dims,
    reduce_sum,
    shape_text,
)
from tracejit.ops.elementwise import select
from tracejit.ops.reduction import size_of

__all__ = [
    "Axes",
    "counted",
    "given",
    "kept",
    "mask_for",
    "masked",
    "one_axis",
    "real_only",
    "reduced_axes",
    "refuse_empty",
    "refuse_out",
    "strong",
    "sum_dtype",
]

Axes = tuple[int, ...]
DType = np.dtype[Any]


def given(value: Any) -> bool:
    """Return whether an optional argument was passed."""
    return value is not None and value is not np._NoValue


def strong(value: Any) -> Atom:
    """Return ``value`` as an operand; reductions make NumPy scalars of Python's."""
    atom = operand(value)
    return convert(atom, dtype=atom.dtype)


def one_axis(axis: Any, ndim: int) -> int:
    """Return ``axis`` as a non-negative int.

    Raises
    ------
    AxisError
    """
    try:
        return normalize_axis_index(axis, ndim)
    except np.exceptions.AxisError as error:
        raise _axis_error(error, ndim) from None


def reduced_axes(axis: Any, ndim: int) -> Axes:
    """Return the axes of a reduction, sorted and non-negative.

    None means all.  A scalar may have an axis 0, as in most of NumPy's reductions.
    """
    if axis is None or (ndim == 0 and not isinstance(axis, tuple) and axis in (0, -1)):
        return tuple(range(ndim))
    try:
        return tuple(sorted(normalize_axis_tuple(axis, ndim, "axis")))
    except np.exceptions.AxisError as error:
        raise _axis_error(error, ndim) from None


def _axis_error(error: np.exceptions.AxisError, ndim: int) -> AxisError:
    valid = f"Valid are {-ndim} to {ndim - 1}." if ndim else "A scalar has no axes."
    return AxisError(str(error).removeprefix("axis: "), where=current().source(), hint=valid)


def kept(y: Atom, axes: Axes, keepdims: Any) -> Atom:
    """Return the reduced ``y``, with axes of length one where ``keepdims`` asks for them."""
    return expand_dims(y, axes=axes) if given(keepdims) and keepdims else y


def refuse_out(out: Any, name: str) -> None:
    """Raise if there is an output array."""
    if given(out):
        raise unsupported(f"`np.{name}` with `out=`", "Assign the result instead: `out[...] = result`.")


def real_only(x: Atom, name: str) -> Atom:
    """Return ``x``; raise if it is complex, which NumPy orders by real, then imaginary part."""
    if x.dtype.kind == "c":
        raise unsupported(
            f"`np.{name}` of complex numbers", "Order them by a real quantity such as `np.abs(z)`."
        )
    return x


def refuse_empty(x: Atom, axes: Axes, message: str) -> None:
    """Raise ``ValueError(message)``, as NumPy does, if nothing would be left to choose from."""
    if any(current().decide("==", x.shape[a]) for a in axes):
        raise EmptyReductionError(
            message,
            where=current().source(),
            detail=f"The array has shape {shape_text(x.shape)}.",
            hint="Check that the axes are not empty, or pass `initial=` where the function takes it.",
        )


def masked(x: Atom, where: Any, otherwise: Any) -> Atom:
    """Return ``x`` with entries replaced by ``otherwise`` where the mask ``where`` does not hold."""
    if where is True or not given(where):
        return x
    mask = mask_for(where, x.shape)
    return select(mask, x, Lit(x.dtype.type(otherwise)))


def mask_for(where: Any, shape: Shape) -> Atom:
    """Return a mask in ``shape``."""
    mask = convert(operand(where), dtype=bool)
    if broadcast_shapes(mask.shape, shape, what="where") != shape:
        raise BroadcastError(
            f"A mask of shape {shape_text(mask.shape)} does not fit an array of shape {shape_text(shape)}.",
            where=current().source(),
            hint="`where=` must broadcast to the shape of the array.",
        )
    return broadcast_to(mask, shape)


def counted(x: Atom, axes: Axes, where: Any, dtype: DType) -> Atom:
    """Return how many entries a reduction over ``axes`` takes, in ``dtype``."""
    if where is True or not given(where):
        return size_of(dims.prod(tuple(x.shape[a] for a in axes)), dtype)
    return reduce_sum(convert(mask_for(where, x.shape), dtype=dtype), axes=axes)


def sum_dtype(dtype: DType, asked: Any) -> DType:
    """Return the dtype that NumPy adds up in: small integers and booleans in the platform's integer."""
    if given(asked):
        return np.dtype(asked)
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype
