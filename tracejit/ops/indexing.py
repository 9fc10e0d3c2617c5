"""Reading and writing at computed places: gather and the two scatters.

The index operands are int64 arrays of one common shape ``B``, one for each of the ``axes`` of ``x``.
The indexed values have shape ``B + (the other axes of x)``.  Negative indices wrap; others out of range raise
IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval, Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.base import Index, Op
from tracejit.ops.broadcasting import broadcast, full, lead
from tracejit.ops.elementwise import select
from tracejit.ops.joining import zeros_of
from tracejit.ops.linear import iota, reshape
from tracejit.ops.logic import equal

__all__ = ["INDEX", "Indirect", "gather", "scatter_add", "scatter_set"]

INDEX = np.dtype(np.int64)
"""The dtype of index operands."""

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Indirect:
    """Loop text for one axis: the entry ``index`` of operand number ``operand``, wrapped once if negative."""

    operand: int
    index: Index


def _address(index: Index, ndim: int, axes: Axes, rank: int, first: int) -> tuple[Dim | Indirect, ...]:
    """Return the place in ``x`` of the value at ``index``; index operands begin at number ``first``."""
    rest = iter(index[rank:])
    indirect = {axis: Indirect(first + k, index[:rank]) for k, axis in enumerate(axes)}
    return tuple(indirect[a] if a in indirect else next(rest) for a in range(ndim))


def _indexed_shape(x: Aval, indices: Sequence[Aval], axes: Axes) -> Shape:
    assert len(indices) == len(axes) >= 1 and all(i.dtype == INDEX for i in indices), (x, indices, axes)
    assert all(i.shape == indices[0].shape for i in indices), indices
    return (*indices[0].shape, *(d for a, d in enumerate(x.shape) if a not in axes))


def _front(x: Any, axes: Axes) -> Any:
    return np.moveaxis(x, axes, range(len(axes)))


def _batch_indices(size: Dim, indices: Sequence[Atom], batched: Sequence[bool]) -> list[Atom]:
    """Return index operands with a leading axis, preceded by the index along that axis itself."""
    lifted = [lead(i, size, b) for i, b in zip(indices, batched, strict=True)]
    return [iota(shape=lifted[0].shape, axis=0, dtype=INDEX), *lifted]


class Gather(Op):
    """``x`` at the indices: NumPy's advanced indexing, with the dimensions of the indices first."""

    name = "gather"
    taints = True

    def infer(self, x: Aval, *indices: Aval, axes: Axes) -> Aval:
        return x.with_shape(_indexed_shape(x, indices, axes))

    def impl(self, x: Any, *indices: Any, axes: Axes) -> Any:
        return _front(x, axes)[indices]

    def address(self, index: Index, x: Aval, *indices: Aval, axes: Axes) -> tuple[Dim | Indirect, ...]:
        """Return the place in ``x`` that the entry at ``index`` of the result comes from."""
        return _address(index, x.ndim, axes, indices[0].ndim, 1)

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (self(tangents[0], *operands[1:], axes=axes),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        x, *indices = operands
        inward = scatter_add(zeros_of(x), cotangents[0], *indices, axes=axes)
        return (inward, *(None for _ in indices))

    def batch(self, size, operands, batched, *, axes):  # type: ignore[no-untyped-def]
        x, *indices = operands
        if not batched[0]:
            lifted = [lead(i, size, b) for i, b in zip(indices, batched[1:], strict=True)]
            return self(x, *lifted, axes=axes)
        return self(x, *_batch_indices(size, indices, batched[1:]), axes=(0, *(a + 1 for a in axes)))


class Scatter(Op):
    """``x`` after writing ``v`` at the indices, in C order of the indices."""

    taints = True

    def infer(self, x: Aval, v: Aval, *indices: Aval, axes: Axes, **params: Any) -> Aval:
        assert v.shape == _indexed_shape(x, indices, axes) and v.dtype == x.dtype, (x, v, indices, axes)
        return x

    def address(
        self, index: Index, x: Aval, v: Aval, *indices: Aval, axes: Axes, **params: Any
    ) -> tuple[Dim | Indirect, ...]:
        """Return the place in ``x`` that the entry at ``index`` of ``v`` goes to."""
        return _address(index, x.ndim, axes, indices[0].ndim, 2)

    def batch(self, size, operands, batched, *, axes, **params):  # type: ignore[no-untyped-def]
        x, v = (lead(a, size, b) for a, b in zip(operands[:2], batched[:2], strict=True))
        indices = _batch_indices(size, operands[2:], batched[2:])
        return self(x, v, *indices, axes=(0, *(a + 1 for a in axes)), **params)


class ScatterAdd(Scatter):
    """``x`` with ``v`` added at the indices, repeated ones adding up; the transpose of `Gather`."""

    name = "scatter_add"

    def impl(self, x: Any, v: Any, *indices: Any, axes: Axes) -> Any:
        result = np.array(x)
        np.add.at(_front(result, axes), indices, v)
        return result

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        tx, tv, *_ = tangents
        if tv is None:
            return (tx,)
        return (self(zeros_of(operands[0]) if tx is None else tx, tv, *operands[2:], axes=axes),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        (cotangent,), (_, _, *indices) = cotangents, operands
        inward = gather(cotangent, *indices, axes=axes) if wanted[1] else None
        return (cotangent if wanted[0] else None, inward, *(None for _ in indices))


class ScatterSet(Scatter):
    """``x`` with the entries at the indices replaced by ``v``; of repeated indices the last one wins.

    ``unique`` says that no index is repeated, so that the derivative needs no look for the winners.
    """

    name = "scatter_set"

    def impl(self, x: Any, v: Any, *indices: Any, axes: Axes, unique: bool) -> Any:
        result = np.array(x)
        _front(result, axes)[tuple(np.array(i, order="C") for i in indices)] = v
        return result

    def jvp(self, tangents, operands, results, absorb, *, axes, unique):  # type: ignore[no-untyped-def]
        tx, tv = (zeros_of(a) if t is None else t for t, a in zip(tangents[:2], operands[:2], strict=True))
        return (self(tx, tv, *operands[2:], axes=axes, unique=unique),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes, unique):  # type: ignore[no-untyped-def]
        (cotangent,), (x, v, *indices) = cotangents, operands
        kept = self(cotangent, zeros_of(v), *indices, axes=axes, unique=unique) if wanted[0] else None
        written = gather(cotangent, *indices, axes=axes) if wanted[1] else None
        if written is not None and not unique and indices[0].shape:
            written = select(_winners(x, v, indices, axes), written, Lit(written.dtype.type(0)))
        return (kept, written, *(None for _ in indices))


def _winners(x: Atom, v: Atom, indices: Sequence[Atom], axes: Axes) -> Atom:
    """Return a mask in the shape of ``v``: which of its entries are still there after all were written."""
    shape = indices[0].shape
    number = reshape(iota(shape=(dims.prod(shape),), axis=0, dtype=INDEX), shape=shape)
    nobody = full(-1, tuple(x.shape[a] for a in axes), INDEX)
    along = tuple(range(len(axes)))
    winner = gather(scatter_set(nobody, number, *indices, axes=along, unique=False), *indices, axes=along)
    return broadcast(equal(winner, number), shape=v.shape, axes=tuple(range(len(shape))))


gather = Gather()
scatter_add = ScatterAdd()
scatter_set = ScatterSet()

for _op in (gather, scatter_add, scatter_set):
    _op._register()
