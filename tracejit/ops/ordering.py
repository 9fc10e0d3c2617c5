"""Sorting along an axis: the permutation that sorts (stable, NaN last) is the op, a gather does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom
from tracejit.ops.base import Opaque
from tracejit.ops.indexing import INDEX, gather
from tracejit.ops.linear import iota

__all__ = ["argsort", "take_along"]


def _argsort_loop(x, y, outer, n, inner):  # type: ignore[no-untyped-def]
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    for block in range(outer):
        for j in range(inner):
            order = np.argsort(np.ascontiguousarray(source[block, :, j]), kind="mergesort")
            for i in range(n):
                target[block, i, j] = order[i]


class ArgSort(Opaque):
    """The indices that sort along ``axis``; equal entries keep their order, NaN entries come last."""

    name = "argsort"

    def infer(self, aval: Aval, *, axis: int) -> Aval:
        return Aval(aval.shape, INDEX)

    def impl(self, x: Any, *, axis: int) -> Any:
        return np.argsort(x, axis=axis, kind="stable")

    def jvp(self, tangents, operands, results, absorb, *, axis):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis):  # type: ignore[no-untyped-def]
        return (None,)

    def batch(self, size, operands, batched, *, axis):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], axis=axis + 1)

    def kernel(self, aval: Aval, *, axis: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        shape = aval.shape
        return _argsort_loop, (dims.prod(shape[:axis]), shape[axis], dims.prod(shape[axis + 1 :]))


argsort = ArgSort()
argsort._register()


def take_along(x: Atom, indices: Atom, axis: int) -> Atom:
    """Return ``np.take_along_axis(x, indices, axis)``; the shapes differ along ``axis`` only."""
    places = [
        indices if a == axis else iota.bind(shape=indices.shape, axis=a, dtype=INDEX)
        for a in range(len(x.shape))
    ]
    result: Atom = gather(x, *places, axes=tuple(range(len(x.shape))))
    return result
