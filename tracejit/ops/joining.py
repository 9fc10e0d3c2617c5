"""Ops that take each entry of the result from one of several operands: concatenate, writing into a slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops.base import Index, Maybe, Op, Read, as_atom
from tracejit.ops.broadcasting import full, lead
from tracejit.ops.elementwise import add
from tracejit.ops.linear import inside, region, slice_

__all__ = ["Piecewise", "concatenate", "slice_add", "slice_update", "zeros_of"]


class Piecewise(Op):
    """Linear in all operands together; each entry of the result is an entry of one of them."""

    @abstractmethod
    def reads(self, index: Index, *avals: Aval, **params: Any) -> tuple[Read, ...]:
        """Return the alternatives for the entry at ``index``: the first one whose conditions hold is it."""

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        complete = [zeros_of(x) if t is None else t for t, x in zip(tangents, operands, strict=True)]
        return (self(*complete, **params),)


def zeros_of(x: Atom) -> Atom:
    """Return zeros of the shape and dtype of ``x``."""
    return full(0, x.shape, x.dtype)


class Concatenate(Piecewise):
    """The operands one after the other along ``axis``."""

    name = "concatenate"

    def __call__(self, *operands: Any, axis: int) -> Atom:
        result: Atom = self.bind(*operands, axis=axis) if len(operands) > 1 else as_atom(operands[0])
        return result

    def infer(self, *avals: Aval, axis: int) -> Aval:
        first = avals[0]
        assert all(_without(a.shape, axis) == _without(first.shape, axis) for a in avals), avals
        assert all(a.dtype == first.dtype for a in avals), avals
        total: Dim = 0
        for aval in avals:
            total = total + aval.shape[axis]
        return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))

    def impl(self, *arrays: Any, axis: int) -> Any:
        return np.concatenate(arrays, axis=axis)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis):  # type: ignore[no-untyped-def]
        inward: list[Maybe] = []
        offset: Dim = 0
        for x, want in zip(operands, wanted, strict=True):
            start = tuple(offset if a == axis else 0 for a in range(len(x.shape)))
            step = (1,) * len(x.shape)
            inward.append(slice_(cotangents[0], start=start, size=x.shape, step=step) if want else None)
            offset = offset + x.shape[axis]
        return tuple(inward)

    def batch(self, size, operands, batched, *, axis):  # type: ignore[no-untyped-def]
        return self(*(lead(x, size, b) for x, b in zip(operands, batched, strict=True)), axis=axis + 1)

    def reads(self, index: Index, *avals: Aval, axis: int) -> tuple[Read, ...]:
        found = []
        offset: Dim = 0
        for number, aval in enumerate(avals):
            along = index[axis] - offset
            place = (*index[:axis], along, *index[axis + 1 :])
            last = number == len(avals) - 1
            found.append(Read(number, place, () if last else ((0, along, aval.shape[axis]),)))
            offset = offset + aval.shape[axis]
        return tuple(found)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


class SliceUpdate(Piecewise):
    """``x`` with the region ``start + i*step`` replaced by ``v``: the op behind ``u[1:-1] = v``."""

    name = "slice_update"
    taints = True

    def __call__(self, x: Any, v: Any, *, start: Shape, step: tuple[int, ...]) -> Atom:
        old, new = as_atom(x), as_atom(v)
        whole = old.shape == new.shape and not any(start) and all(s == 1 for s in step)
        result: Atom = new if whole else self.bind(old, new, start=tuple(start), step=tuple(step))
        return result

    def infer(self, x: Aval, v: Aval, *, start: Shape, step: tuple[int, ...]) -> Aval:
        assert x.ndim == v.ndim == len(start) == len(step) and x.dtype == v.dtype, (x, v, start, step)
        return x

    def impl(self, x: Any, v: Any, *, start: tuple[int, ...], step: tuple[int, ...]) -> Any:
        result = np.array(x)
        result[region(start, v.shape, step)] = v
        return result

    def vjp(self, cotangents, operands, results, wanted, absorb, *, start, step):  # type: ignore[no-untyped-def]
        (cotangent,), (_, v) = cotangents, operands
        return (
            self(cotangent, zeros_of(v), start=start, step=step) if wanted[0] else None,
            slice_(cotangent, start=start, size=v.shape, step=step) if wanted[1] else None,
        )

    def batch(self, size: Dim, operands: Sequence[Atom], batched: Sequence[bool], *, start, step):  # type: ignore[no-untyped-def]
        x, v = (lead(a, size, b) for a, b in zip(operands, batched, strict=True))
        return self(x, v, start=(0, *start), step=(1, *step))

    def reads(self, index: Index, *avals: Aval, start: Shape, step: tuple[int, ...]) -> tuple[Read, ...]:
        x, v = avals
        inner, conditions = inside(index, start, v.shape, step, x.shape)
        return Read(1, inner, conditions), Read(0, index)


class SliceAdd(Op):
    """``x`` with ``v`` added to the region ``start + i*step``: how cotangents of slices add up in place."""

    name = "slice_add"
    taints = True

    def __call__(self, x: Any, v: Any, *, start: Shape, step: tuple[int, ...]) -> Atom:
        old, new = as_atom(x), as_atom(v)
        whole = old.shape == new.shape and not any(start) and all(s == 1 for s in step)
        result: Atom = add(old, new) if whole else self.bind(old, new, start=tuple(start), step=tuple(step))
        return result

    def infer(self, x: Aval, v: Aval, *, start: Shape, step: tuple[int, ...]) -> Aval:
        assert x.ndim == v.ndim == len(start) == len(step) and x.dtype == v.dtype, (x, v, start, step)
        return x

    def impl(self, x: Any, v: Any, *, start: tuple[int, ...], step: tuple[int, ...]) -> Any:
        result = np.array(x)
        result[region(start, v.shape, step)] += v
        return result

    def jvp(self, tangents, operands, results, absorb, *, start, step):  # type: ignore[no-untyped-def]
        tx, tv = tangents
        if tv is None:
            return (tx,)
        return (self(zeros_of(operands[0]) if tx is None else tx, tv, start=start, step=step),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, start, step):  # type: ignore[no-untyped-def]
        (cotangent,), (_, v) = cotangents, operands
        inward = slice_(cotangent, start=start, size=v.shape, step=step) if wanted[1] else None
        return (cotangent if wanted[0] else None, inward)

    def batch(self, size: Dim, operands: Sequence[Atom], batched: Sequence[bool], *, start, step):  # type: ignore[no-untyped-def]
        x, v = (lead(a, size, b) for a, b in zip(operands, batched, strict=True))
        return self(x, v, start=(0, *start), step=(1, *step))


concatenate = Concatenate()
slice_add = SliceAdd()
slice_update = SliceUpdate()

for _op in (concatenate, slice_add, slice_update):
    _op._register()
