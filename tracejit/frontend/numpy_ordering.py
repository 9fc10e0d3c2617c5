"""NumPy's sorting and order statistics: medians, quantiles and percentiles by every method.

Everything is a choice of sorted entries by position, so derivatives go to the chosen entries (in stable order
where entries tie) and, through the interpolation weight, to the quantile itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import (
    Axes,
    given,
    kept,
    one_axis,
    real_only,
    reduced_axes,
    refuse_out,
    strong,
)
from tracejit.frontend.registry import implements, is_traced, operand, unsupported
from tracejit.ir import dims
from tracejit.ir.tape import Atom, Lit, Var
from tracejit.ops.arithmetic import ceil as ceiling
from tracejit.ops.arithmetic import divide, floor, rint, subtract
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, reduce_sum
from tracejit.ops.elementwise import add, mul, select
from tracejit.ops.extrema import maximum, minimum
from tracejit.ops.indexing import INDEX, gather
from tracejit.ops.linear import iota, reshape, transpose
from tracejit.ops.logic import equal, greater_equal, isnan, less_equal, logical_and, logical_not
from tracejit.ops.ordering import argsort, take_along
from tracejit.ops.reduction import reduce_all, reduce_any, size_of

__all__ = ["sort"]

Rule = Callable[[Atom, Atom], Atom]


# --- sorting ----------------------------------------------------------------------------------------------


def _sortable(a: Any, axis: Any, order: Any, name: str) -> tuple[Atom, int]:
    if given(order):
        raise unsupported(f"`np.{name}` with `order=`", "Fields of structured arrays cannot be traced.")
    x = real_only(strong(a), name)
    if axis is None:
        return raveled(x), 0
    return x, one_axis(axis, len(x.shape))


def sort(x: Atom, axis: int) -> Atom:
    """Return ``x`` sorted along ``axis``."""
    return take_along(x, argsort(x, axis=axis), axis)


@implements(np.sort)
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Atom:
    return sort(*_sortable(a, axis, order, "sort"))


@implements(np.argsort)
def _argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Atom:
    x, axis = _sortable(a, axis if strong(a).shape else None, order, "argsort")
    result: Atom = argsort(x, axis=axis)
    return result


# A full sort is a partition around every position.
@implements(np.partition)
def _partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Atom:
    return sort(*_sortable(a, axis, order, "partition"))


@implements(np.argpartition)
def _argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Atom:
    return _argsort(a, axis, None, order)


# --- positions --------------------------------------------------------------------------------------------


def _discrete(position: Atom, keep: Callable[[Atom, Atom], Atom]) -> Atom:
    below = floor(position)
    return maximum(select(keep(subtract(position, below), below), below, add(below, 1.0)), 0.0)


def _hyndman_fan(alpha: float, beta: float) -> Rule:
    return lambda n, q: subtract(add(mul(n, q), add(mul(q, 1 - alpha - beta), alpha)), 1.0)


def _spread(n: Atom, q: Atom) -> Atom:
    return mul(subtract(n, 1.0), q)


def _is_odd(x: Atom) -> Atom:
    half = mul(x, 0.5)
    return logical_not(equal(floor(half), half))


_DISCRETE: dict[str, Rule] = {
    "inverted_cdf": lambda n, q: _discrete(subtract(mul(n, q), 1.0), lambda gamma, _: equal(gamma, 0.0)),
    "closest_observation": lambda n, q: _discrete(
        subtract(mul(n, q), 1.5), lambda gamma, below: logical_and(equal(gamma, 0.0), _is_odd(below))
    ),
    "lower": lambda n, q: floor(_spread(n, q)),
    "higher": lambda n, q: ceiling(_spread(n, q)),
    "nearest": lambda n, q: rint(_spread(n, q)),
}
_CONTINUOUS: dict[str, Rule] = {
    "averaged_inverted_cdf": lambda n, q: subtract(mul(n, q), 1.0),
    "interpolated_inverted_cdf": _hyndman_fan(0, 1),
    "hazen": _hyndman_fan(0.5, 0.5),
    "weibull": _hyndman_fan(0, 0),
    "linear": _spread,
    "median_unbiased": _hyndman_fan(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _hyndman_fan(3 / 8.0, 3 / 8.0),
    "midpoint": lambda n, q: mul(add(floor(_spread(n, q)), ceiling(_spread(n, q))), 0.5),
}
"""Positions in the sorted sample of ``n`` entries, counted from 0, as NumPy defines them."""


def _weight(method: str, gamma: Atom) -> Atom:
    """Return the weight of the upper neighbour."""
    whole = equal(gamma, 0.0)
    if method == "averaged_inverted_cdf":
        return select(whole, Lit(gamma.dtype.type(0.5)), Lit(gamma.dtype.type(1)))
    if method == "midpoint":
        return select(whole, Lit(gamma.dtype.type(0)), Lit(gamma.dtype.type(0.5)))
    return gamma


# --- quantiles --------------------------------------------------------------------------------------------


class _Sample:
    """Entries sorted along one last axis, and how many of them count (all, or those that are not NaN)."""

    def __init__(self, x: Atom, axes: Axes, skip_nan: bool, dtype: Any) -> None:
        rest = tuple(a for a in range(len(x.shape)) if a not in axes)
        self.shape = tuple(x.shape[a] for a in rest)
        count = dims.prod(tuple(x.shape[a] for a in axes))
        x = reshape(transpose(x, perm=rest + axes), shape=(*self.shape, count))
        self.last = len(self.shape)
        self.sorted = sort(x, self.last)
        self.missing = isnan(x) if x.aval.inexact else None
        self.skip_nan = skip_nan and self.missing is not None
        self.count = size_of(count, dtype)
        if self.skip_nan:
            valid = convert(logical_not(self.missing), dtype=dtype)
            self.count = reduce_sum(valid, axes=(self.last,))

    def at(self, position: Atom) -> Atom:
        """Return the entries at whole positions; these end with ``self.shape`` if NaN entries are skipped."""
        top = maximum(subtract(self.count, 1.0), 0.0)
        place = convert(minimum(maximum(position, 0.0), top), dtype=INDEX)
        lead = len(place.shape) - self.last
        if not self.skip_nan:
            return gather(self.sorted, place, axes=(self.last,))
        others = [iota.bind(shape=place.shape, axis=lead + a, dtype=INDEX) for a in range(self.last)]
        return gather(self.sorted, *others, place, axes=tuple(range(self.last + 1)))

    def undefined(self, y: Atom) -> Atom:
        """Return ``y`` with NaN for samples that have no quantile: with a NaN entry, or nothing but NaN."""
        if self.missing is None:
            return y
        no_value = (reduce_all if self.skip_nan else reduce_any)(self.missing, axes=(self.last,))
        return select(broadcast_to(no_value, y.shape), Lit(y.dtype.type(np.nan)), y)


def _quantile(
    a: Any, q: Any, top: int, axis: Any, method: str, keepdims: Any, weights: Any, skip_nan: bool = False
) -> Atom:
    x = real_only(strong(a), "quantile")
    if given(weights):
        raise unsupported(
            "A quantile with `weights=`", "Sort and add up the weights: `np.argsort`, `np.cumsum`."
        )
    if method not in _DISCRETE and method not in _CONTINUOUS:
        valid = ", ".join((*_DISCRETE, *_CONTINUOUS))
        raise ValueError(f"{method!r} is not a valid method. Use one of: {valid}")
    axes = reduced_axes(axis, len(x.shape))
    fraction = _fraction(q, top, x)
    y = _pick(_Sample(x, axes, skip_nan, fraction.dtype), fraction, method)
    lead = len(fraction.shape)
    return kept(y, tuple(lead + axis for axis in axes), keepdims)


def _fraction(q: Any, top: int, x: Atom) -> Atom:
    """Return the quantile as a fraction of one, in NumPy's dtype for it; raise if it is out of range."""
    fraction = operand(q)
    if _is_traced(q):
        inside = logical_and(greater_equal(fraction, 0.0), less_equal(fraction, float(top)))
        valid = guard(reduce_all(inside, axes=tuple(range(len(fraction.shape)))))
    else:
        valid = np.all((np.asarray(q) >= 0) & (np.asarray(q) <= top))
    if not valid:
        raise ValueError(f"{'Quantiles' if top == 1 else 'Percentiles'} must be in the range [0, {top}]")
    weak = fraction.aval.weak and x.dtype.kind == "f"
    dtype = (
        x.dtype
        if weak
        else np.result_type(fraction.dtype, *(("f8",) if fraction.dtype.kind in "biu" else ()))
    )
    fraction = convert(fraction, dtype=dtype)
    return fraction if top == 1 else divide(fraction, Lit(dtype.type(top)))


def _is_traced(q: Any) -> bool:
    if isinstance(q, list | tuple):
        return any(map(_is_traced, q))
    return is_traced(q) or isinstance(q, Var)


def _pick(sample: _Sample, q: Atom, method: str) -> Atom:
    """Return the quantiles, in the shape of ``q`` followed by that of the samples."""
    shape = (*q.shape, *sample.shape)
    if sample.skip_nan:
        q = broadcast(q, shape=shape, axes=tuple(range(len(q.shape))))
    if method in _DISCRETE:
        return sample.undefined(sample.at(_DISCRETE[method](sample.count, q)))
    position = _CONTINUOUS[method](sample.count, q)
    below = floor(position)
    low, high = (sample.at(p) for p in (below, add(below, 1.0)))
    weight = _weight(method, subtract(position, below))
    weight = broadcast(weight, shape=shape, axes=tuple(range(len(weight.shape))))
    return sample.undefined(_between(low, high, weight))


def _between(low: Atom, high: Atom, weight: Atom) -> Atom:
    """Return NumPy's interpolation, which meets either end exactly."""
    gap = subtract(high, low)
    from_high = subtract(high, mul(gap, subtract(1.0, weight)))
    return select(greater_equal(weight, 0.5), from_high, add(low, mul(gap, weight)))


@implements(np.quantile)
def _np_quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "quantile")
    return _quantile(a, q, 1, axis, method, keepdims, weights)


@implements(np.percentile)
def _np_percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "percentile")
    return _quantile(a, q, 100, axis, method, keepdims, weights)


@implements(np.nanquantile)
def _np_nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "nanquantile")
    return _quantile(a, q, 1, axis, method, keepdims, weights, skip_nan=True)


@implements(np.nanpercentile)
def _np_nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "nanpercentile")
    return _quantile(a, q, 100, axis, method, keepdims, weights, skip_nan=True)


def _middle(a: Any, axis: Any, keepdims: Any, skip_nan: bool) -> Atom:
    """Return the median: the mean of the two middle entries (which are the same one in an odd sample)."""
    x = real_only(strong(a), "median")
    axes = reduced_axes(axis, len(x.shape))
    sample = _Sample(x, axes, skip_nan, np.float64)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    ends = floor(mul(subtract(sample.count, 1.0), 0.5)), floor(mul(sample.count, 0.5))
    low, high = (mul(convert(sample.at(p), dtype=dtype), 0.5) for p in ends)
    return kept(sample.undefined(add(low, high)), axes, keepdims)


@implements(np.median)
def _median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Atom:
    refuse_out(out, "median")
    return _middle(a, axis, keepdims, skip_nan=False)


@implements(np.nanmedian)
def _nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Atom:
    refuse_out(out, "nanmedian")
    return _middle(a, axis, keepdims, skip_nan=True)
