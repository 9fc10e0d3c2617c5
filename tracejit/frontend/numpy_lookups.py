"""Places in sorted arrays, histograms and numbers of entries: integer results without derivatives.

The weights of a histogram have one: each goes to its bin.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_joining import pick, span
from tracejit.frontend.numpy_moving import flipped
from tracejit.frontend.numpy_ranges import linspace
from tracejit.frontend.numpy_shapes import raveled, same_size
from tracejit.frontend.reducing import real_only, strong
from tracejit.frontend.registry import FUNCTIONS, contains_traced, implements, operand, unsupported
from tracejit.ir.tape import Atom, Var, current
from tracejit.ops.arithmetic import divide, floor_divide, remainder, subtract
from tracejit.ops.broadcasting import broadcast_to, convert, full, reduce_sum
from tracejit.ops.elementwise import add, mul, select
from tracejit.ops.extrema import clip
from tracejit.ops.indexing import INDEX, gather, scatter_add
from tracejit.ops.linear import reshape
from tracejit.ops.logic import equal, greater_equal, less, less_equal, logical_and
from tracejit.ops.reduction import reduce_all, reduce_max, reduce_min, size_of
from tracejit.ops.searching import search

__all__ = ["searched"]


def _is_plain(value: Any) -> bool:
    return not (contains_traced(value) or isinstance(value, Var))


def _all(condition: Atom) -> Atom:
    result: Atom = reduce_all(condition, axes=tuple(range(len(condition.shape))))
    return result


# --- places -------------------------------------------------------------------------------------------------


def searched(table: Atom, values: Atom, right: bool) -> Atom:
    """Return ``np.searchsorted(table, values)``."""
    dtype = np.result_type(real_only(table, "searchsorted").dtype, real_only(values, "searchsorted").dtype)
    found: Atom = search(convert(table, dtype=dtype), convert(values, dtype=dtype), right=right)
    return found


def _right(side: str) -> bool:
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    return side == "right"


@implements(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Atom:
    table = strong(a)
    if len(table.shape) != 1:
        raise ValueError("object too deep for desired array")
    if sorter is not None:
        table = gather(table, convert(operand(sorter), dtype=INDEX), axes=(0,))
    return searched(table, strong(v), _right(side))


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: Any = False) -> Atom:
    values, edges = strong(x), strong(bins)
    if values.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if len(edges.shape) != 1:
        raise ValueError("object too deep for desired array")
    if _grows(bins, edges):
        return searched(edges, values, not right)
    if not _grows(bins, flipped(edges, (0,)), -1):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return subtract(size_of(edges.shape[0]), searched(flipped(edges, (0,)), values, not right))


def _grows(given: Any, edges: Atom, step: int = 1) -> bool:
    """Return whether ``edges``, which are ``given[::step]``, never decrease."""
    if _is_plain(given):
        return bool(np.all(np.diff(np.asarray(given)[::step]) >= 0))
    return bool(guard(_all(greater_equal(FUNCTIONS[np.diff](edges), 0))))


@implements(np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Atom, ...]:
    extents = [operator.index(n) for n in (shape if isinstance(shape, Sequence) else (shape,))]
    rest = convert(operand(indices), dtype=INDEX)
    total = int(np.prod(extents))
    if not guard(_all(logical_and(greater_equal(rest, 0), less(rest, total)))):
        raise ValueError(f"index is out of bounds for array with size {total}")
    places = []
    for extent in extents if order == "F" else reversed(extents):
        places.append(remainder(rest, extent))
        rest = floor_divide(rest, extent)
    return tuple(places if order == "F" else reversed(places))


@implements(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Atom:
    extents = [operator.index(n) for n in (dims if isinstance(dims, Sequence) else (dims,))]
    modes = (mode,) * len(extents) if isinstance(mode, str) else tuple(mode)
    places = [
        _in_range(convert(operand(i), dtype=INDEX), n, m)
        for i, n, m in zip(multi_index, extents, modes, strict=True)
    ]
    pairs = list(zip(places, extents, strict=True))
    total, _ = pairs[-1] if order == "F" else pairs[0]
    for place, extent in reversed(pairs[:-1]) if order == "F" else pairs[1:]:
        total = add(mul(total, extent), place)
    return total


def _in_range(place: Atom, extent: int, mode: str) -> Atom:
    if mode == "wrap":
        return remainder(place, extent)
    if mode == "clip":
        return clip(place, 0, extent - 1)
    if not guard(_all(logical_and(greater_equal(place, 0), less(place, extent)))):
        raise ValueError("invalid entry in coordinates array")
    return place


# --- counting -----------------------------------------------------------------------------------------------


def _totals(places: Atom, weights: Atom, count: int) -> Atom:
    """Return the sums of the weights at each place."""
    zeros = full(0, (count,), weights.dtype)
    result: Atom = scatter_add(zeros, broadcast_to(weights, places.shape), places, axes=(0,))
    return result


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Atom:
    places = strong(x)
    if len(places.shape) != 1:
        raise ValueError("object of too small depth for desired array")
    if places.dtype.kind not in "iub":
        raise TypeError(f"Cannot cast array data from {places.dtype!r} to dtype('int64') according to 'safe'")
    least = operator.index(minlength)
    if least < 0:
        raise ValueError("'minlength' must not be negative")
    if current().decide("==", places.shape[0]):
        return full(0, (least,), INDEX)
    places = convert(places, dtype=INDEX)
    if guard(less(reduce_min(places, axes=(0,)), 0)):
        raise ValueError("'list' argument must have no negative elements")
    count = max(least, int(guard(reduce_max(places, axes=(0,)))) + 1)
    if weights is None:
        return _totals(places, full(1, (), INDEX), count)
    given = convert(strong(weights), dtype=np.float64)
    if not same_size(given.shape[0], places.shape[0]):
        raise ValueError("The weights and list don't have the same length.")
    return _totals(places, given, count)


# --- histograms ---------------------------------------------------------------------------------------------


def _edges(values: Any, bins: Any, limits: Any) -> Any:
    """Return the edges of the bins: plain ones where they do not depend on traced values."""
    if _is_plain(bins) and (limits is not None or np.ndim(bins) == 1 or _is_plain(values)):
        return np.histogram_bin_edges(np.zeros(1) if not _is_plain(values) else values, bins, limits)
    if not _is_plain(bins) and len(operand(bins).shape) == 1:
        edges = operand(bins)
        if not _grows(bins, edges):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    if isinstance(bins, str):
        raise unsupported(
            f"A histogram of traced values with bins={bins!r}", "Give the number of bins, or edges."
        )
    return _even_edges(strong(values), operator.index(bins))


def _even_edges(x: Atom, count: int) -> Atom:
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    dtype = np.result_type(x.dtype, *(("f8",) if x.dtype.kind in "biu" else ()))
    axes = tuple(range(len(x.shape)))
    low, high = (convert(f(x, axes=axes), dtype=dtype) for f in (reduce_min, reduce_max))
    if guard(equal(low, high)):
        low, high = subtract(low, 0.5), add(high, 0.5)
    return linspace(low, high, count + 1, dtype=dtype)


def _bins_of(x: Atom, edges: Atom) -> Atom:
    """Return the bin of each value; one more than there are where it lies outside."""
    dtype = np.result_type(x.dtype, edges.dtype)
    x, edges = convert(x, dtype=dtype), convert(edges, dtype=dtype)
    last = current().pin(edges.shape[0]) - 1
    place = subtract(searched(edges, x, right=True), 1)
    place = select(equal(x, pick(edges, 0, -1)), last - 1, place)
    inside = logical_and(greater_equal(x, pick(edges, 0, 0)), less_equal(x, pick(edges, 0, -1)))
    return select(inside, place, last)


@implements(np.histogram)
def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    x = real_only(strong(a), "histogram")
    edges = _edges(a, bins, range)
    bounds = operand(edges)
    if weights is None:
        given = full(1, (), INDEX)
    else:
        given = strong(weights)
        if len(given.shape) != len(x.shape) or not all(map(same_size, given.shape, x.shape)):
            raise ValueError("weights should have the same shape as a.")
        given = raveled(given)
    count = current().pin(bounds.shape[0]) - 1
    totals = span(_totals(_bins_of(raveled(x), bounds), given, count + 1), 0, None, count)
    if density:
        widths = convert(FUNCTIONS[np.diff](bounds), dtype=np.float64)
        totals = divide(divide(totals, widths), reduce_sum(totals, axes=(0,)))
    return totals, edges


@implements(np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    return _edges(a, bins, range)


@implements(np.histogramdd)
def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    columns = _columns(sample)
    counts = bins if isinstance(bins, list | tuple) else (bins,) * len(columns)
    if len(counts) != len(columns):
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    limits = (None,) * len(columns) if range is None else range
    edges = [_edges(c, b, r) for c, b, r in zip(columns, counts, limits, strict=True)]
    bounds = [operand(e) for e in edges]
    extents = [
        current().pin(b.shape[0]) for b in bounds
    ]  # one bin more than there are, for what lies outside
    place: Atom = full(0, columns[0].shape, INDEX)
    for column, bound, extent in zip(columns, bounds, extents, strict=True):
        place = add(mul(place, extent), _bins_of(column, bound))
    given = full(1, (), np.float64) if weights is None else convert(strong(weights), dtype=np.float64)
    totals = reshape(_totals(place, given, int(np.prod(extents))), shape=tuple(extents))
    for axis, extent in enumerate(extents):
        totals = span(totals, axis, None, extent - 1)
    return (_as_density(totals, bounds) if density else totals), edges


def _columns(sample: Any) -> list[Atom]:
    """Return the coordinates of the points, one after the other."""
    if isinstance(sample, list | tuple):
        return [raveled(strong(c)) for c in sample]
    points = strong(sample)
    if len(points.shape) == 1:
        return [points]
    return [pick(points, 1, k) for k in range(current().pin(points.shape[1]))]


def _as_density(totals: Atom, bounds: Sequence[Atom]) -> Atom:
    whole = reduce_sum(totals, axes=tuple(range(len(totals.shape))))
    for axis, bound in enumerate(bounds):
        width = convert(FUNCTIONS[np.diff](bound), dtype=np.float64)
        shape = tuple(width.shape[0] if a == axis else 1 for a in range(len(totals.shape)))
        totals = divide(totals, reshape(width, shape=shape))
    return divide(totals, whole)


@implements(np.histogram2d)
def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    if not same_size(strong(x).shape[0], strong(y).shape[0]):
        raise ValueError("x and y must have the same length.")
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        bins = [bins, bins]
    totals, edges = _histogramdd([x, y], bins, range, density, weights)
    return totals, edges[0], edges[1]
