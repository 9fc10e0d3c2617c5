"""Looking up sorted arrays: the place of each value, found by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ops.base import Opaque
from tracejit.ops.broadcasting import lead
from tracejit.ops.indexing import INDEX

__all__ = ["search"]


_BLOCK = 512
"""Values that are looked up side by side."""


def _search_loop(table, values, places, outer, n, count, right, block):  # type: ignore[no-untyped-def]
    """Bisection of many values at once: its steps are the same for all of them, and none is a branch.

    NaN is larger than every number, as in a sorted array.
    """
    entries, wanted, found = (
        table.reshape((outer, n)),
        values.reshape((outer, count)),
        places.reshape((outer, count)),
    )
    for row in range(outer):
        line = entries[row]
        numbers = n
        while numbers > 0 and np.isnan(line[numbers - 1]):
            numbers -= 1
        for start in range(0, count, block):
            value = wanted[row, start : min(start + block, count)]
            base = found[row, start : min(start + block, count)]
            for i in range(base.size):
                base[i] = 0
            size = numbers
            while size > 0:
                half = max(size // 2, 1)
                for i in range(base.size):
                    entry = line[base[i] + half - 1]
                    base[i] += half * int(entry <= value[i] if right else entry < value[i])
                size -= half
            for i in range(base.size):
                if np.isnan(value[i]):
                    base[i] = n if right else numbers


class Search(Opaque):
    """How many entries of a row of ``table`` come before each of the ``values`` (or up to it, if ``right``).

    Rows are sorted.  The leading axes of both are the same; each row has any number of axes of values.
    """

    name = "search"

    def infer(self, table: Aval, values: Aval, *, right: bool) -> Aval:
        rows = table.ndim - 1
        assert table.shape[:-1] == values.shape[:rows] and table.dtype == values.dtype, (table, values)
        return Aval(values.shape, INDEX)

    def impl(self, table: Any, values: Any, *, right: bool) -> Any:
        side: Any = "right" if right else "left"
        places = np.empty(values.shape, INDEX)
        for row in np.ndindex(table.shape[:-1]):
            places[row] = np.searchsorted(table[row], values[row], side)
        return places

    def jvp(self, tangents, operands, results, absorb, *, right):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, right):  # type: ignore[no-untyped-def]
        return (None, None)

    def batch(self, size, operands, batched, *, right):  # type: ignore[no-untyped-def]
        lifted = [lead(x, size, b) for x, b in zip(operands, batched, strict=True)]
        return self.bind(*lifted, right=right)

    def kernel(
        self, table: Aval, values: Aval, *, right: bool
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        rows = table.ndim - 1
        count = dims.prod(values.shape[rows:])
        return _search_loop, (dims.prod(table.shape[:-1]), table.shape[-1], count, right, _BLOCK)


search = Search()
search._register()
