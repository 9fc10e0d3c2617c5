"""Broadcasting and its transpose, axes of length one, dtype conversion: what every other op is built on.

No derivative rule ever un-broadcasts: operands are broadcast by an explicit `broadcast` equation whose transpose is
`reduce_sum`, and axes of length one are dropped by `squeeze` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.errors import BroadcastError
from tracejit.ir import dims
from tracejit.ir.aval import Aval, Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit, Var, current
from tracejit.ops.base import Index, Linear, Op, Read, Reduction, as_atom

__all__ = [
    "broadcast",
    "broadcast_shapes",
    "broadcast_to",
    "convert",
    "expand_dims",
    "full",
    "lead",
    "operands_text",
    "reduce_sum",
    "shape_text",
    "squeeze",
]


class Broadcast(Linear):
    """``result[i] = x[i[axes]]``: axis ``k`` of ``x`` becomes axis ``axes[k]`` of a result of shape ``shape``."""

    name = "broadcast"

    def __call__(self, x: Any, *, shape: Shape, axes: tuple[int, ...]) -> Atom:
        atom = as_atom(x)
        if tuple(axes) == tuple(range(len(shape))) and atom.shape == tuple(shape):
            return atom
        result: Atom = self.bind(atom, shape=tuple(shape), axes=tuple(axes))
        return result

    def infer(self, aval: Aval, *, shape: Shape, axes: tuple[int, ...]) -> Aval:
        assert tuple(shape[a] for a in axes) == aval.shape, (aval, shape, axes)
        return Aval(shape, aval.dtype)

    def impl(self, x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        lifted = np.expand_dims(x, [a for a in range(len(shape)) if a not in axes])
        return np.broadcast_to(lifted, shape)

    def transpose(self, cotangent: Atom, aval: Aval, *, shape: Shape, axes: tuple[int, ...]) -> Atom:
        return reduce_sum(cotangent, axes=tuple(a for a in range(len(shape)) if a not in axes))

    def batch(self, size, operands, batched, *, shape, axes):  # type: ignore[no-untyped-def]
        return self(operands[0], shape=(size, *shape), axes=(0, *(a + 1 for a in axes)))

    def read(self, index: Index, aval: Aval, *, shape: Shape, axes: tuple[int, ...]) -> Read:
        return Read(0, tuple(index[a] for a in axes))


class ReduceSum(Reduction):
    """Sum over ``axes``; the transpose of `Broadcast`."""

    name = "reduce_sum"
    combine = "{0} + {1}"

    def __call__(self, x: Any, *, axes: tuple[int, ...]) -> Atom:
        atom = as_atom(x)
        result: Atom = self.bind(atom, axes=axes) if axes else atom
        return result

    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        return dtype.type(0)

    def impl(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.sum(x, axis=axes, dtype=x.dtype)

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (self(tangents[0], axes=axes),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        shape = operands[0].shape
        kept = tuple(a for a in range(len(shape)) if a not in axes)
        return (broadcast(cotangents[0], shape=shape, axes=kept),)


class Convert(Op):
    """``x.astype(dtype)`` (complex to real takes the real part)."""

    name = "convert"

    def __call__(self, x: Any, *, dtype: Any) -> Atom:
        atom, dtype = as_atom(x), np.dtype(dtype)
        if atom.dtype == dtype and not atom.aval.weak:
            return atom
        if isinstance(atom, Lit):
            return Lit(_cast(atom.value, dtype))
        result: Atom = self.bind(atom, dtype=dtype)
        return result

    def infer(self, aval: Aval, *, dtype: np.dtype[Any]) -> Aval:
        return aval.with_dtype(dtype)

    def impl(self, x: Any, *, dtype: np.dtype[Any]) -> Any:
        return _cast(np.asarray(x), dtype)

    def jvp(self, tangents, operands, results, absorb, *, dtype):  # type: ignore[no-untyped-def]
        return (self(tangents[0], dtype=dtype),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, dtype):  # type: ignore[no-untyped-def]
        return (self(cotangents[0], dtype=operands[0].dtype),)

    def batch(self, size, operands, batched, *, dtype):  # type: ignore[no-untyped-def]
        return self(operands[0], dtype=dtype)


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    return value.astype(dtype)


class Squeeze(Linear):
    """Drop axes of length one; the transpose of `ExpandDims`."""

    name = "squeeze"

    def __call__(self, x: Any, *, axes: tuple[int, ...]) -> Atom:
        result: Atom = self.bind(x, axes=axes) if axes else as_atom(x)
        return result

    def infer(self, aval: Aval, *, axes: tuple[int, ...]) -> Aval:
        assert all(aval.shape[a] == 1 for a in axes), (aval, axes)
        return aval.with_shape(tuple(d for i, d in enumerate(aval.shape) if i not in axes))

    def impl(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.squeeze(x, axis=axes)

    def transpose(self, cotangent: Atom, aval: Aval, *, axes: tuple[int, ...]) -> Atom:
        return expand_dims(cotangent, axes=axes)

    def batch(self, size, operands, batched, *, axes):  # type: ignore[no-untyped-def]
        return self(operands[0], axes=tuple(a + 1 for a in axes))

    def read(self, index: Index, aval: Aval, *, axes: tuple[int, ...]) -> Read:
        rest = iter(index)
        return Read(0, tuple(0 if i in axes else next(rest) for i in range(aval.ndim)))


class ExpandDims(Linear):
    """Add axes of length one, at ``axes`` of the result; the transpose of `Squeeze`."""

    name = "expand_dims"

    def __call__(self, x: Any, *, axes: tuple[int, ...]) -> Atom:
        result: Atom = self.bind(x, axes=axes) if axes else as_atom(x)
        return result

    def infer(self, aval: Aval, *, axes: tuple[int, ...]) -> Aval:
        rest = iter(aval.shape)
        return aval.with_shape(tuple(1 if i in axes else next(rest) for i in range(aval.ndim + len(axes))))

    def impl(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.expand_dims(x, axes)

    def transpose(self, cotangent: Atom, aval: Aval, *, axes: tuple[int, ...]) -> Atom:
        return squeeze(cotangent, axes=axes)

    def batch(self, size, operands, batched, *, axes):  # type: ignore[no-untyped-def]
        return self(operands[0], axes=tuple(a + 1 for a in axes))

    def read(self, index: Index, aval: Aval, *, axes: tuple[int, ...]) -> Read:
        return Read(0, tuple(v for i, v in enumerate(index) if i not in axes))


broadcast = Broadcast()
reduce_sum = ReduceSum()
convert = Convert()
squeeze = Squeeze()
expand_dims = ExpandDims()

for _op in (broadcast, reduce_sum, convert, squeeze, expand_dims):
    _op._register()


def full(value: Any, shape: Shape, dtype: Any) -> Atom:
    """Return an array of ``shape`` filled with a scalar."""
    return broadcast(convert(value, dtype=dtype), shape=shape, axes=())


def lead(x: Atom, size: Dim, batched: bool) -> Atom:
    """Return ``x`` with a leading axis of ``size``, by broadcasting unless it has it already."""
    if batched:
        return x
    return broadcast(x, shape=(size, *x.shape), axes=tuple(range(1, len(x.shape) + 1)))


def broadcast_shapes(*shapes: Shape, what: str = "", operands: Sequence[Atom] = ()) -> Shape:
    """Return the shape that NumPy broadcasts ``shapes`` to.

    Raises
    ------
    BroadcastError
        Where two extents differ and neither is one.
    """
    ndim = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for axis in range(-ndim, 0):
        extent: Dim = 1
        for shape in shapes:
            if -axis > len(shape) or shape[axis] == 1 or shape[axis] == extent:
                continue
            if extent != 1 and not current().decide("==", shape[axis] - extent):
                raise BroadcastError(
                    f"Shapes {' and '.join(map(shape_text, shapes))} cannot be broadcast together"
                    + (f" in `{what}`." if what else "."),
                    where=current().source(),
                    detail=operands_text(operands),
                    hint="Extents must be equal, or one of them 1: align axes with `x[:, None]` or `np.expand_dims`.",
                )
            extent = shape[axis]
        result.append(extent)
    return tuple(result)


def broadcast_to(x: Any, shape: Shape) -> Atom:
    """Return ``x`` in ``shape`` by NumPy's rules (which ``shape`` must satisfy)."""
    atom = as_atom(x)
    if atom.shape == tuple(shape):
        return atom
    offset = len(shape) - len(atom.shape)
    ones = tuple(a for a, d in enumerate(atom.shape) if d == 1 and shape[a + offset] != 1)
    kept = tuple(a + offset for a in range(len(atom.shape)) if a not in ones)
    return broadcast(squeeze(atom, axes=ones), shape=tuple(shape), axes=kept)


def operands_text(operands: Sequence[Atom]) -> str:
    """Return what is known of operands: the user's names, dtypes and shapes."""
    return ", ".join(
        (f"{a.name}: " if isinstance(a, Var) and a.name else "") + f"{a.dtype} {shape_text(a.shape)}"
        for a in operands
    )


def shape_text(shape: Shape) -> str:
    """Return the shape with the extents of the traced call, as NumPy prints it."""
    return str(tuple(dims.hint(d) for d in shape))
