"""Linear ops that move entries: reshape, transpose, slice, diagonal, each beside its transpose.

Slices and diagonals put exact zeros into cotangents (`Embed`), so they taint: see `tracejit.ops.base`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval, Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops.base import Index, Linear, Op, Read, as_atom
from tracejit.ops.broadcasting import expand_dims, squeeze

__all__ = ["diagonal", "embed", "embed_diagonal", "iota", "reshape", "slice_", "transpose"]

Steps = tuple[int, ...]


class Reshape(Linear):
    """The entries of ``x`` in C order, in ``shape``."""

    name = "reshape"

    def __call__(self, x: Any, *, shape: Shape) -> Atom:
        atom, shape = as_atom(x), tuple(shape)
        if atom.shape == shape:
            return atom
        if [d for d in atom.shape if d != 1] == [d for d in shape if d != 1]:
            flat = squeeze(atom, axes=tuple(i for i, d in enumerate(atom.shape) if d == 1))
            return expand_dims(flat, axes=tuple(i for i, d in enumerate(shape) if d == 1))
        result: Atom = self.bind(atom, shape=shape)
        return result

    def infer(self, aval: Aval, *, shape: Shape) -> Aval:
        # Two polynomials may be equal only under a guard: n and 2*(n//2) for even n.
        assert dims.hint(aval.size) == dims.hint(dims.prod(shape)), (aval, shape)
        return aval.with_shape(shape)

    def impl(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return np.reshape(x, shape)

    def transpose(self, cotangent: Atom, aval: Aval, *, shape: Shape) -> Atom:
        return self(cotangent, shape=aval.shape)

    def batch(self, size, operands, batched, *, shape):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], shape=(size, *shape))


class Transpose(Linear):
    """Axis ``k`` of the result is axis ``perm[k]`` of ``x``."""

    name = "transpose"

    def __call__(self, x: Any, *, perm: tuple[int, ...]) -> Atom:
        identity = tuple(perm) == tuple(range(len(perm)))
        result: Atom = as_atom(x) if identity else self.bind(x, perm=tuple(perm))
        return result

    def infer(self, aval: Aval, *, perm: tuple[int, ...]) -> Aval:
        assert sorted(perm) == list(range(aval.ndim)), (aval, perm)
        return aval.with_shape(tuple(aval.shape[p] for p in perm))

    def impl(self, x: Any, *, perm: tuple[int, ...]) -> Any:
        return np.transpose(x, perm)

    def transpose(self, cotangent: Atom, aval: Aval, *, perm: tuple[int, ...]) -> Atom:
        return self(cotangent, perm=_inverse(perm))

    def batch(self, size, operands, batched, *, perm):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], perm=(0, *(p + 1 for p in perm)))

    def read(self, index: Index, aval: Aval, *, perm: tuple[int, ...]) -> Read:
        return Read(0, tuple(index[k] for k in _inverse(perm)))


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


class Slice(Linear):
    """``result[i] = x[start + i*step]`` on every axis; steps may be negative, never zero."""

    name = "slice"
    taints = True

    def __call__(self, x: Any, *, start: Shape, size: Shape, step: Steps) -> Atom:
        atom = as_atom(x)
        if tuple(size) == atom.shape and not any(start) and all(s == 1 for s in step):
            return atom
        result: Atom = self.bind(atom, start=tuple(start), size=tuple(size), step=tuple(step))
        return result

    def infer(self, aval: Aval, *, start: Shape, size: Shape, step: Steps) -> Aval:
        assert len(start) == len(size) == len(step) == aval.ndim and all(step), (aval, start, size, step)
        return aval.with_shape(size)

    def impl(self, x: Any, *, start: tuple[int, ...], size: tuple[int, ...], step: Steps) -> Any:
        return x[region(start, size, step)]

    def transpose(self, cotangent: Atom, aval: Aval, *, start: Shape, size: Shape, step: Steps) -> Atom:
        return embed(cotangent, start=start, step=step, shape=aval.shape)

    def batch(self, length, operands, batched, *, start, size, step):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], start=(0, *start), size=(length, *size), step=(1, *step))

    def read(self, index: Index, aval: Aval, *, start: Shape, size: Shape, step: Steps) -> Read:
        return Read(0, tuple(s + i * d for s, i, d in zip(start, index, step, strict=True)))


class Embed(Linear):
    """``x`` at ``start + i*step`` of an array of zeros; the transpose of `Slice`."""

    name = "embed"
    taints = True

    def __call__(self, x: Any, *, start: Shape, step: Steps, shape: Shape) -> Atom:
        atom = as_atom(x)
        if tuple(shape) == atom.shape and not any(start) and all(s == 1 for s in step):
            return atom
        result: Atom = self.bind(atom, start=tuple(start), step=tuple(step), shape=tuple(shape))
        return result

    def infer(self, aval: Aval, *, start: Shape, step: Steps, shape: Shape) -> Aval:
        assert len(start) == len(shape) == len(step) == aval.ndim and all(step), (aval, start, shape, step)
        return aval.with_shape(shape)

    def impl(self, x: Any, *, start: tuple[int, ...], step: Steps, shape: tuple[int, ...]) -> Any:
        result = np.zeros(shape, x.dtype)
        result[region(start, x.shape, step)] = x
        return result

    def transpose(self, cotangent: Atom, aval: Aval, *, start: Shape, step: Steps, shape: Shape) -> Atom:
        return slice_(cotangent, start=start, size=aval.shape, step=step)

    def batch(self, size, operands, batched, *, start, step, shape):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], start=(0, *start), step=(1, *step), shape=(size, *shape))

    def read(self, index: Index, aval: Aval, *, start: Shape, step: Steps, shape: Shape) -> Read:
        inner, conditions = inside(index, start, aval.shape, step, shape)
        return Read(0, inner, conditions)


def region(start: tuple[int, ...], size: tuple[int, ...], step: Steps) -> tuple[slice, ...]:
    """Return the slices that select ``start + i*step`` for ``i < size``."""

    def axis(s: int, n: int, d: int) -> slice:
        stop = s + n * d
        return slice(s, None if stop < 0 else stop, d) if n else slice(0, 0)

    return tuple(map(axis, start, size, step))


def inside(
    index: Index, start: Shape, size: Shape, step: Steps, shape: Shape
) -> tuple[Index, tuple[tuple[Any, ...], ...]]:
    """Return the place within the region of ``start``, ``size``, ``step`` of an index into ``shape``.

    The conditions (see `Read`) say when the index lies in the region at all.
    """
    inner: list[Dim] = []
    conditions: list[tuple[Any, ...]] = []
    for i, s, n, d, extent in zip(index, start, size, step, shape, strict=True):
        distance = i - s if d > 0 else s - i
        inner.append(distance // abs(d))
        if (s, n, d) != (0, extent, 1):
            conditions.append((0, distance, n * abs(d)))
        if abs(d) != 1:
            conditions.append((abs(d), distance))
    return tuple(inner), tuple(conditions)


class Diagonal(Linear):
    """``result[..., i] = x[..., start[0] + i, start[1] + i]``; the two ``axes`` are taken out."""

    name = "diagonal"
    taints = True

    def infer(self, aval: Aval, *, axes: tuple[int, int], start: Shape, size: Dim) -> Aval:
        return aval.with_shape((*(d for i, d in enumerate(aval.shape) if i not in axes), size))

    def impl(self, x: Any, *, axes: tuple[int, int], start: tuple[int, ...], size: int) -> Any:
        return np.moveaxis(x, axes, (-2, -1))[(..., *_diagonal_index(start, size))]

    def transpose(
        self, cotangent: Atom, aval: Aval, *, axes: tuple[int, int], start: Shape, size: Dim
    ) -> Atom:
        result: Atom = embed_diagonal(cotangent, axes=axes, start=start, shape=aval.shape)
        return result

    def batch(self, length, operands, batched, *, axes, start, size):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], axes=(axes[0] + 1, axes[1] + 1), start=start, size=size)

    def read(self, index: Index, aval: Aval, *, axes: tuple[int, int], start: Shape, size: Dim) -> Read:
        rest = iter(index[:-1])
        place = {axes[0]: start[0] + index[-1], axes[1]: start[1] + index[-1]}
        return Read(0, tuple(place[a] if a in place else next(rest) for a in range(aval.ndim)))


class EmbedDiagonal(Linear):
    """The last axis of ``x`` on a diagonal of zeros; the transpose of `Diagonal`."""

    name = "embed_diagonal"
    taints = True

    def infer(self, aval: Aval, *, axes: tuple[int, int], start: Shape, shape: Shape) -> Aval:
        assert tuple(d for i, d in enumerate(shape) if i not in axes) == aval.shape[:-1], (aval, shape)
        return aval.with_shape(shape)

    def impl(self, x: Any, *, axes: tuple[int, int], start: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        result = np.zeros(shape, x.dtype)
        np.moveaxis(result, axes, (-2, -1))[(..., *_diagonal_index(start, x.shape[-1]))] = x
        return result

    def transpose(
        self, cotangent: Atom, aval: Aval, *, axes: tuple[int, int], start: Shape, shape: Shape
    ) -> Atom:
        result: Atom = diagonal(cotangent, axes=axes, start=start, size=aval.shape[-1])
        return result

    def batch(self, size, operands, batched, *, axes, start, shape):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], axes=(axes[0] + 1, axes[1] + 1), start=start, shape=(size, *shape))

    def read(self, index: Index, aval: Aval, *, axes: tuple[int, int], start: Shape, shape: Shape) -> Read:
        row, column = index[axes[0]] - start[0], index[axes[1]] - start[1]
        rest = tuple(v for a, v in enumerate(index) if a not in axes)
        return Read(0, (*rest, row), ((0, row, aval.shape[-1]), (0, row - column, 1)))


def _diagonal_index(start: tuple[int, ...], size: int) -> tuple[Any, Any]:
    along = np.arange(size)
    return start[0] + along, start[1] + along


class Iota(Op):
    """The index along ``axis`` at every place of ``shape``; no operands."""

    name = "iota"

    def infer(self, *, shape: Shape, axis: int, dtype: np.dtype[Any]) -> Aval:
        return Aval(shape, dtype)

    def impl(self, *, shape: tuple[int, ...], axis: int, dtype: np.dtype[Any]) -> Any:
        along = np.arange(shape[axis]).astype(dtype)
        return np.broadcast_to(along.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)

    def entry(self, index: Index, *, axis: int) -> Dim:
        """Return the value at ``index``, for loops."""
        return index[axis]

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        return ()

    def batch(self, size, operands, batched, *, shape, axis, dtype):  # type: ignore[no-untyped-def]
        return self.bind(shape=(size, *shape), axis=axis + 1, dtype=dtype)


reshape = Reshape()
transpose = Transpose()
slice_ = Slice()
embed = Embed()
diagonal = Diagonal()
embed_diagonal = EmbedDiagonal()
iota = Iota()

for _op in (reshape, transpose, slice_, embed, diagonal, embed_diagonal, iota):
    _op._register()
