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


def _search_loop(table, values, places, outer, n, count, right):  # type: ignore[no-untyped-def]
    """NaN is larger than every number, as in a sorted array."""
    entries, wanted, found = (
        table.reshape((outer, n)),
        values.reshape((outer, count)),
        places.reshape((outer, count)),
    )
    for row in range(outer):
        for k in range(count):
            value = wanted[row, k]
            low, high = 0, n
            while low < high:
                middle = (low + high) // 2
                entry = entries[row, middle]
                before = entry < value or (np.isnan(value) and not np.isnan(entry))
                same = entry == value or (np.isnan(value) and np.isnan(entry))
                if before or (right and same):
                    low = middle + 1
                else:
                    high = middle
            found[row, k] = low


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
        return _search_loop, (dims.prod(table.shape[:-1]), table.shape[-1], count, right)


search = Search()
search._register()
