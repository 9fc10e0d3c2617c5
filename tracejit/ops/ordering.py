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


_RUN = 16
"""Length of the runs that are sorted by insertion before merging."""


def _argsort_loop(x, y, outer, n, inner, run):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912
    """Merge sort from the bottom; Numba's own takes three times as long to compile."""
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    values, order, merged = np.empty(n, x.dtype), np.empty(n, np.int64), np.empty(n, np.int64)
    for block in range(outer):
        for j in range(inner):
            for i in range(n):
                values[i] = source[block, i, j]
                order[i] = i
            for start in range(0, n, run):
                for i in range(start + 1, min(start + run, n)):
                    moving, place = order[i], i
                    entry = values[moving]
                    while place > start:
                        other = values[order[place - 1]]
                        if not (entry < other or (np.isnan(other) and not np.isnan(entry))):
                            break
                        order[place] = order[place - 1]
                        place -= 1
                    order[place] = moving
            width = run
            while width < n:
                for start in range(0, n, 2 * width):
                    left, middle, stop = start, min(start + width, n), min(start + 2 * width, n)
                    right = middle
                    for place in range(start, stop):
                        from_left = right >= stop
                        if left < middle and not from_left:
                            entry, other = values[order[left]], values[order[right]]
                            from_left = not (other < entry or (np.isnan(entry) and not np.isnan(other)))
                        if from_left:
                            merged[place] = order[left]
                            left += 1
                        else:
                            merged[place] = order[right]
                            right += 1
                order, merged = merged, order
                width *= 2
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
        return _argsort_loop, (dims.prod(shape[:axis]), shape[axis], dims.prod(shape[axis + 1 :]), _RUN)


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
