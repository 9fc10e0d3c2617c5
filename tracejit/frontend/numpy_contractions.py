"""NumPy's products that sum: ``@``, dot, inner, outer, tensordot, products of stacks, kron and cross."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracejit.errors import ContractionError
from tracejit.frontend.indexing import index
from tracejit.frontend.numpy_scans import along
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import one_axis, refuse_out, strong
from tracejit.frontend.registry import FUNCTIONS, implements, implements_ufunc, operand, unsupported
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import subtract
from tracejit.ops.broadcasting import broadcast_shapes, expand_dims, shape_text, squeeze
from tracejit.ops.complex_parts import conjugate
from tracejit.ops.contraction import contraction
from tracejit.ops.elementwise import mul
from tracejit.ops.linear import reshape

__all__ = ["matmul"]

Labels = tuple[int, ...]


def _paired(a: Atom, axis: int, b: Atom, other: int, what: str) -> None:
    """Raise unless the axes have equal sizes (and so may be summed together)."""
    if not current().decide("==", a.shape[axis] - b.shape[other]):
        raise ContractionError(
            f"`{what}` sums over sizes that differ: "
            f"{dims.hint(a.shape[axis])} and {dims.hint(b.shape[other])}.",
            where=current().source(),
            detail=f"Axis {axis % len(a.shape)} of shape {shape_text(a.shape)}, "
            f"axis {other % len(b.shape)} of shape {shape_text(b.shape)}.",
            hint="The two sizes must be equal: transpose an operand, or insert an axis with `x[:, None]`.",
        )


# --- stacks of matrices and vectors -----------------------------------------------------------------------


def _stacked(a: Atom, b: Atom, own: Labels, other: Labels, out: Labels, what: str) -> Atom:
    """Return a product of stacks: core axes with the labels given, stack axes in front that broadcast.

    Label 0 is the one that is summed.
    """
    for number, (x, core) in enumerate(((a, own), (b, other))):
        if len(x.shape) < len(core):
            raise ContractionError(
                f"`{what}`: operand {number}, of shape {shape_text(x.shape)}, needs at least {len(core)} "
                f"dimension{'s' if len(core) > 1 else ''}.",
                where=current().source(),
                hint="Multiply by scalars with `*`." if not x.shape else "",
            )
    _paired(a, own.index(0) - len(own), b, other.index(0) - len(other), what)
    depth = max(len(a.shape) - len(own), len(b.shape) - len(other))
    stack = broadcast_shapes(
        a.shape[: len(a.shape) - len(own)], b.shape[: len(b.shape) - len(other)], what=what
    )
    x, left = _spanning(a, own, stack)
    y, right = _spanning(b, other, stack)
    everywhere = tuple(range(-depth, 0))
    missing = tuple(i for i, label in enumerate(everywhere) if label not in left and label not in right)
    kept = tuple(i for i in everywhere if i in left or i in right)
    return expand_dims(contraction(x, y, (left, right, kept + out)), axes=missing)


def _spanning(x: Atom, core: Labels, stack: tuple[Dim, ...]) -> tuple[Atom, Labels]:
    """Return the operand without stack axes of length one, and its labels (-1, -2, ... for the stack)."""
    own = len(x.shape) - len(core)
    ones = tuple(axis for axis in range(own) if x.shape[axis] == 1)
    labels = tuple(axis - own for axis in range(own) if axis not in ones)
    return squeeze(x, axes=ones), labels + core


def matmul(a: Any, b: Any) -> Atom:
    """Return ``a @ b``."""
    x, y = operand(a), operand(b)
    own: Labels = (0,) if len(x.shape) < 2 else (1, 0)
    other: Labels = (0,) if len(y.shape) < 2 else (0, 2)
    return _stacked(x, y, own, other, own[:-1] + other[1:], "matmul")


def _conjugated(x: Atom) -> Atom:
    return conjugate(x) if x.dtype.kind == "c" else x


def _vecdot(a: Any, b: Any) -> Atom:
    return _stacked(_conjugated(operand(a)), operand(b), (0,), (0,), (), "vecdot")


def _matvec(a: Any, b: Any) -> Atom:
    return _stacked(operand(a), operand(b), (1, 0), (0,), (1,), "matvec")


def _vecmat(a: Any, b: Any) -> Atom:
    return _stacked(_conjugated(operand(a)), operand(b), (0,), (0, 1), (1,), "vecmat")


def _without_axes(meaning: Any, name: str) -> Any:
    """Return the meaning of a generalised ufunc, which may have been called with ``axes=``."""

    def called(a: Any, b: Any, **keywords: Any) -> Atom:
        if keywords.pop("axis", -1) != -1 or any(v not in (None, False) for v in keywords.values()):
            raise unsupported(f"`np.{name}` with `axes=`", "Move the axes first: `np.moveaxis`.")
        result: Atom = meaning(a, b)
        return result

    return called


for _ufunc, _meaning in (
    (np.matmul, matmul),
    (np.vecdot, _vecdot),
    (np.matvec, _matvec),
    (np.vecmat, _vecmat),
):
    implements_ufunc(_ufunc, _without_axes(_meaning, _ufunc.__name__))


@implements(np.linalg.matmul)
def _linalg_matmul(x1: Any, x2: Any, /) -> Atom:
    return matmul(x1, x2)


@implements(np.linalg.vecdot)
def _linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Atom:
    a, b = (FUNCTIONS[np.moveaxis](operand(x), axis, -1) for x in (x1, x2))
    return _vecdot(a, b)


# --- dot and its kin --------------------------------------------------------------------------------------


def _tensor(a: Atom, b: Atom, a_axes: tuple[int, ...], b_axes: tuple[int, ...], what: str) -> Atom:
    """Return the contraction of pairs of axes: the other axes of ``a``, then those of ``b``."""
    for axis, other in zip(a_axes, b_axes, strict=True):
        _paired(a, axis, b, other, what)
    left = tuple(range(len(a.shape)))
    rest = iter(range(len(a.shape), len(a.shape) + len(b.shape)))
    right = tuple(a_axes[b_axes.index(k)] if k in b_axes else next(rest) for k in range(len(b.shape)))
    out = tuple(i for i in left if i not in a_axes) + tuple(i for i in right if i not in left)
    return contraction(a, b, (left, right, out))


@implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Atom:
    refuse_out(out, "dot")
    x, y = strong(a), strong(b)
    if not x.shape or not y.shape:
        return mul(x, y)
    return _tensor(x, y, (len(x.shape) - 1,), (max(len(y.shape) - 2, 0),), "np.dot")


@implements(np.inner)
def _inner(a: Any, b: Any, /) -> Atom:
    x, y = strong(a), strong(b)
    if not x.shape or not y.shape:
        return mul(x, y)
    return _tensor(x, y, (len(x.shape) - 1,), (len(y.shape) - 1,), "np.inner")


@implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Atom:
    return _tensor(_conjugated(raveled(strong(a))), raveled(strong(b)), (0,), (0,), "np.vdot")


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Atom:
    refuse_out(out, "outer")
    return contraction(raveled(strong(a)), raveled(strong(b)), ((0,), (1,), (0, 1)))


@implements(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any, /) -> Atom:
    x, y = strong(x1), strong(x2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(x.shape)} and x2.ndim={len(y.shape)}."
        )
    return _outer(x, y)


@implements(np.tensordot, np.linalg.tensordot)
def _tensordot(a: Any, b: Any, /, axes: Any = 2) -> Atom:
    x, y = strong(a), strong(b)
    if np.ndim(axes) == 0 and not isinstance(axes, tuple | list):
        count = operator.index(axes)
        pairs: tuple[Any, Any] = (range(len(x.shape) - count, len(x.shape)), range(count))
        if count > min(len(x.shape), len(y.shape)):
            raise ValueError("shape-mismatch for sum")
    else:
        pairs = tuple(a if isinstance(a, tuple | list) else (a,) for a in axes)  # type: ignore[assignment]
    a_axes, b_axes = (
        tuple(one_axis(k, len(z.shape)) for k in chosen) for z, chosen in zip((x, y), pairs, strict=True)
    )
    if len(a_axes) != len(b_axes):
        raise ValueError("shape-mismatch for sum")
    return _tensor(x, y, a_axes, b_axes, "np.tensordot")


# --- kron, cross, trace -----------------------------------------------------------------------------------


@implements(np.kron)
def _kron(a: Any, b: Any) -> Atom:
    x, y = strong(a), strong(b)
    ndim = max(len(x.shape), len(y.shape))
    x, y = (reshape(z, shape=(1,) * (ndim - len(z.shape)) + z.shape) for z in (x, y))
    left, right = tuple(range(0, 2 * ndim, 2)), tuple(range(1, 2 * ndim, 2))
    product = contraction(x, y, (left, right, tuple(range(2 * ndim))))
    return reshape(product, shape=tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def _component(x: Atom, number: int) -> Atom:
    """Return one component of the vectors along the last axis."""
    part = index(x, along(len(x.shape) - 1, len(x.shape), slice(number, number + 1)))
    return squeeze(part, axes=(len(x.shape) - 1,))


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Atom:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = strong(a), strong(b)
    x = FUNCTIONS[np.moveaxis](x, one_axis(axisa, len(x.shape)), -1)
    y = FUNCTIONS[np.moveaxis](y, one_axis(axisb, len(y.shape)), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    (x0, x1, x2), (y0, y1, y2) = (
        [_component(v, k) if v.shape[-1] > k else None for k in range(3)] for v in (x, y)
    )
    planar = subtract(mul(x0, y1), mul(x1, y0))
    if x2 is None and y2 is None:
        return planar
    first, second = _minus(_times(x1, y2), _times(x2, y1)), _minus(_times(x2, y0), _times(x0, y2))
    stacked = FUNCTIONS[np.stack]([first, second, planar], axis=-1)
    result: Atom = FUNCTIONS[np.moveaxis](stacked, -1, one_axis(axisc, len(stacked.shape)))
    return result


def _times(a: Atom | None, b: Atom | None) -> Atom | None:
    return None if a is None or b is None else mul(a, b)


def _minus(a: Atom | None, b: Atom | None) -> Atom | None:
    """Return the difference; the third component of a plane vector is absent."""
    if a is None or b is None:
        return a if b is None else mul(b, -1)
    return subtract(a, b)


@implements(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Atom:
    x, y = strong(x1), strong(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have shapes "
            f"{shape_text(x.shape)} and {shape_text(y.shape)}."
        )
    return _cross(x, y, axis=axis)


@implements(np.linalg.trace)
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Atom:
    result: Atom = FUNCTIONS[np.trace](strong(x), offset, -2, -1, dtype)
    return result


@implements(np.linalg.diagonal)
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Atom:
    result: Atom = FUNCTIONS[np.diagonal](strong(x), offset, -2, -1)
    return result
