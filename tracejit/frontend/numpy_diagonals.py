"""NumPy's functions on diagonals and triangles."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracejit.frontend.numpy_shapes import raveled, shape_error
from tracejit.frontend.reducing import one_axis, refuse_out, strong
from tracejit.frontend.registry import FUNCTIONS, implements, operand
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.broadcasting import broadcast, shape_text
from tracejit.ops.elementwise import add, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import diagonal, embed_diagonal, iota
from tracejit.ops.logic import equal, greater_equal

__all__ = ["on_diagonal", "smaller", "triangle"]


def smaller(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two extents."""
    return a if current().decide(">=", b - a) else b


def _start(offset: int) -> tuple[int, int]:
    return max(-offset, 0), max(offset, 0)


def _diagonal_of(x: Atom, offset: int, axis1: int, axis2: int) -> Atom:
    rows, columns = (one_axis(a, len(x.shape)) for a in (axis1, axis2))
    if rows == columns:
        raise ValueError("axis1 and axis2 cannot be the same")
    start = _start(offset)
    length = smaller(x.shape[rows] - start[0], x.shape[columns] - start[1])
    length = length if current().decide(">=", length) else 0
    result: Atom = diagonal(x, axes=(rows, columns), start=start if length != 0 else (0, 0), size=length)
    return result


@implements(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Atom:
    x = strong(a)
    if len(x.shape) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    return _diagonal_of(x, operator.index(offset), axis1, axis2)


@implements(np.trace)
def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Atom:
    refuse_out(out, "trace")
    along = _diagonal(a, offset, axis1, axis2)
    total: Atom = FUNCTIONS[np.sum](along, axis=-1, dtype=dtype)
    return total


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Atom:
    x, offset = strong(v), operator.index(k)
    if len(x.shape) == 1:
        extent = x.shape[0] + abs(offset)
        result: Atom = embed_diagonal(x, axes=(0, 1), start=_start(offset), shape=(extent, extent))
        return result
    if len(x.shape) != 2:
        raise shape_error(
            f"Input must be 1- or 2-d, not of shape {shape_text(x.shape)}.",
            "Use `np.diagonal` for diagonals of stacked matrices.",
        )
    return _diagonal_of(x, offset, 0, 1)


@implements(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Atom:
    return _diag(raveled(strong(v)), k)


def on_diagonal(shape: Shape, offset: int) -> Atom:
    """Return a mask of the two axes ``shape``: which entries lie on a diagonal."""
    row, column = (iota(shape=shape, axis=a, dtype=INDEX) for a in (0, 1))
    return equal(add(row, offset), column)


def triangle(shape: Shape, offset: int) -> Atom:
    """Return a mask of the two axes ``shape``: which entries lie on a diagonal or below it."""
    row, column = (iota(shape=shape, axis=a, dtype=INDEX) for a in (0, 1))
    return greater_equal(add(row, offset), column)


def _triangle_of(m: Any, k: int, lower: bool) -> Atom:
    x = strong(m)
    if len(x.shape) == 1:  # NumPy repeats a vector to a square matrix
        x = broadcast(x, shape=(x.shape[0], x.shape[0]), axes=(1,))
    if not x.shape:
        raise shape_error("Input must be at least 1-dimensional.", "A scalar has no triangle.")
    ndim = len(x.shape)
    mask = triangle(x.shape[-2:], operator.index(k) - (not lower))
    mask = broadcast(mask, shape=x.shape, axes=(ndim - 2, ndim - 1))
    zero = Lit(x.dtype.type(0))
    return select(mask, x, zero) if lower else select(mask, zero, x)


@implements(np.tril)
def _tril(m: Any, k: int = 0) -> Atom:
    return _triangle_of(m, k, lower=True)


@implements(np.triu)
def _triu(m: Any, k: int = 0) -> Atom:
    return _triangle_of(m, k, lower=False)


# --- indices: plain arrays ----------------------------------------------------------------------------------


def _pinned_matrix(arr: Any) -> tuple[int, int]:
    shape = operand(arr).shape
    if len(shape) != 2:
        raise ValueError("input array must be 2-d")
    rows, columns = map(current().pin, shape)
    return rows, columns


@implements(np.tril_indices_from)
def _tril_indices_from(arr: Any, k: int = 0) -> Any:
    rows, columns = _pinned_matrix(arr)
    return np.tril_indices(rows, k, columns)


@implements(np.triu_indices_from)
def _triu_indices_from(arr: Any, k: int = 0) -> Any:
    rows, columns = _pinned_matrix(arr)
    return np.triu_indices(rows, k, columns)


@implements(np.diag_indices_from)
def _diag_indices_from(arr: Any) -> Any:
    shape = operand(arr).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    extents = {current().pin(n) for n in shape}
    if len(extents) != 1:
        raise shape_error(
            f"All dimensions of input must be of equal length, but the shape is {shape_text(shape)}.",
            "Use `np.arange(n)` on each axis for a diagonal of a rectangle.",
        )
    return np.diag_indices(extents.pop(), len(shape))
