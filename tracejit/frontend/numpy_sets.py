"""NumPy's sets and orders: which entries there are depends on values, so a trace holds for the same pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.indexing import index
from tracejit.frontend.numpy_joining import join, rows_of
from tracejit.frontend.numpy_moving import plain_mask
from tracejit.frontend.numpy_ordering import sort
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import one_axis, real_only, strong
from tracejit.frontend.registry import implements, unsupported
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import expand_dims, full, squeeze
from tracejit.ops.indexing import INDEX, gather, scatter_set
from tracejit.ops.linear import reshape
from tracejit.ops.logic import equal, isnan, logical_and, logical_not, logical_or
from tracejit.ops.ordering import argsort, take_along
from tracejit.ops.reduction import reduce_any

__all__: list[str] = []

_RESULTS: Any = np.lib._arraysetops_impl


class _Unique:
    """The distinct entries of an array, in order, and where they were found."""

    def __init__(self, ar: Any, equal_nan: bool = True) -> None:
        self.x = strong(ar)
        flat = real_only(raveled(self.x), "unique")
        self.order: Atom = argsort(flat, axis=0)
        self.sorted: Atom = gather(flat, self.order, axes=(0,))
        self.is_first = self._first_of_each(equal_nan)
        self.values = index(self.sorted, self.is_first)

    def _first_of_each(self, equal_nan: bool) -> Any:
        count = current().pin(self.sorted.shape[0])
        if count == 0:
            return np.zeros(0, bool)
        later, earlier = index(self.sorted, slice(1, None)), index(self.sorted, slice(None, -1))
        same = equal(later, earlier)
        if equal_nan and later.aval.inexact:
            same = logical_or(same, logical_and(isnan(later), isnan(earlier)))
        return np.concatenate([[True], plain_mask(logical_not(same))])

    @property
    def places(self) -> Atom:
        """Where each distinct entry was found first."""
        return index(self.order, self.is_first)

    @property
    def inverse(self) -> Atom:
        """The number of the distinct entry that each entry is equal to."""
        numbers = np.cumsum(self.is_first) - 1
        nowhere = full(0, self.order.shape, INDEX)
        found = scatter_set(nowhere, current().const(numbers), self.order, axes=(0,), unique=True)
        return reshape(found, shape=self.x.shape)

    @property
    def counts(self) -> Any:
        """How often each distinct entry was found."""
        return np.diff(np.append(np.flatnonzero(self.is_first), self.is_first.size))


@implements(np.unique)
def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    if axis is not None:
        raise unsupported(
            "`np.unique` with `axis=`", "Compare the rows with each other: `(a[:, None] == a).all(-1)`."
        )
    found = _Unique(ar, equal_nan)
    results: list[Any] = [found.values]
    if return_index:
        results.append(found.places)
    if return_inverse:
        results.append(found.inverse)
    if return_counts:
        results.append(found.counts)
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.unique_values)
def _unique_values(x: Any) -> Atom:
    return _Unique(x, equal_nan=False).values


@implements(np.unique_counts)
def _unique_counts(x: Any) -> Any:
    found = _Unique(x, equal_nan=False)
    return _RESULTS.UniqueCountsResult(found.values, found.counts)


@implements(np.unique_inverse)
def _unique_inverse(x: Any) -> Any:
    found = _Unique(x, equal_nan=False)
    return _RESULTS.UniqueInverseResult(found.values, found.inverse)


@implements(np.unique_all)
def _unique_all(x: Any) -> Any:
    found = _Unique(x, equal_nan=False)
    return _RESULTS.UniqueAllResult(found.values, found.places, found.inverse, found.counts)


# --- sets ---------------------------------------------------------------------------------------------------


@implements(np.isin)
def _isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Atom:
    x, members = strong(element), raveled(strong(test_elements))
    same = equal(expand_dims(x, axes=(len(x.shape),)), members)
    found: Atom = reduce_any(same, axes=(len(x.shape),))
    return logical_not(found) if invert else found


def _distinct(ar: Any, assume_unique: bool) -> Atom:
    return raveled(strong(ar)) if assume_unique else _Unique(ar).values


@implements(np.union1d)
def _union1d(ar1: Any, ar2: Any) -> Atom:
    return _Unique(join([raveled(strong(ar1)), raveled(strong(ar2))], 0)).values


@implements(np.setdiff1d)
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Atom:
    x = _distinct(ar1, assume_unique)
    return index(x, plain_mask(_isin(x, ar2, invert=True)))


@implements(np.intersect1d)
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Atom:
    if return_indices:
        raise unsupported(
            "`np.intersect1d` with `return_indices=True`", "Use `np.isin` and `np.flatnonzero`."
        )
    x = _distinct(ar1, assume_unique)
    common = index(x, plain_mask(_isin(x, ar2)))
    return sort(common, 0) if assume_unique else common


@implements(np.setxor1d)
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Atom:
    return sort(join([_setdiff1d(ar1, ar2, assume_unique), _setdiff1d(ar2, ar1, assume_unique)], 0), 0)


# --- order by several keys ----------------------------------------------------------------------------------


@implements(np.lexsort)
def _lexsort(keys: Any, axis: Any = -1) -> Atom:
    rows = [real_only(k, "lexsort") for k in rows_of(keys)]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    scalar = not rows[0].shape
    rows = [raveled(k) for k in rows] if scalar else rows
    axis = one_axis(axis, len(rows[0].shape))
    order: Atom = argsort(rows[0], axis=axis)
    for key in rows[1:]:
        order = take_along(order, argsort(take_along(key, order, axis), axis=axis), axis)
    return squeeze(order, axes=(0,)) if scalar else order
