"""NumPy's running sums and products, differences, and the trapezoidal rule."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracejit.frontend.indexing import index
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import given, one_axis, real_only, refuse_out, strong, sum_dtype
from tracejit.frontend.registry import FUNCTIONS, implements, operand, unsupported
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.arithmetic import subtract
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, full, reduce_sum
from tracejit.ops.elementwise import add, mul, select
from tracejit.ops.joining import concatenate
from tracejit.ops.logic import isnan, not_equal
from tracejit.ops.scan import PrefixExtreme, cumsum, prefix_max, prefix_min, prefix_prod

__all__ = ["along"]


def along(axis: int, ndim: int, part: slice) -> tuple[slice, ...]:
    """Return the index that takes ``part`` of one axis."""
    return (*(slice(None),) * axis, part, *(slice(None),) * (ndim - axis - 1))


def _running(x: Atom, axis: Any, dtype: Any, product: bool) -> Atom:
    """Return the inclusive running sum or product."""
    x = convert(x, dtype=sum_dtype(x.dtype, dtype))
    if axis is None or not x.shape:
        x = raveled(x)
    axis = one_axis(0 if axis is None else axis, len(x.shape))
    if product:
        return mul(prefix_prod(x, axis=axis, reverse=False), x)
    result: Atom = cumsum(x, axis=axis, reverse=False)
    return result


@implements(np.cumsum)
def _cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "cumsum")
    return _running(strong(a), axis, dtype, product=False)


@implements(np.cumprod)
def _cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "cumprod")
    return _running(strong(a), axis, dtype, product=True)


def _running_extreme(x: Atom, axis: Any, dtype: Any, op: PrefixExtreme) -> Atom:
    x = real_only(convert(x, dtype=x.dtype if dtype is None else dtype), op.pair.name)
    if x.dtype.kind == "b":
        raise unsupported(f"`np.{op.pair.name}.accumulate` of booleans", "Use integers: `x.astype(int)`.")
    if not x.shape:
        raise TypeError("cannot accumulate on a scalar")
    return op.pair(op(x, axis=one_axis(axis, len(x.shape)), reverse=False), x)


@implements(np.maximum.accumulate)
def _maximum_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Atom:
    return _running_extreme(strong(array), axis, dtype, prefix_max)


@implements(np.minimum.accumulate)
def _minimum_accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Atom:
    return _running_extreme(strong(array), axis, dtype, prefix_min)


def _without_nan(x: Atom, otherwise: float) -> Atom:
    return select(isnan(x), Lit(x.dtype.type(otherwise)), x) if x.aval.inexact else x


@implements(np.nancumsum)
def _nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "nancumsum")
    return _running(_without_nan(strong(a), 0), axis, dtype, product=False)


@implements(np.nancumprod)
def _nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "nancumprod")
    return _running(_without_nan(strong(a), 1), axis, dtype, product=True)


def _cumulative(x: Atom, axis: Any, dtype: Any, include_initial: bool, product: bool) -> Atom:
    if axis is None:
        if len(x.shape) > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    result = _running(x, axis, dtype, product)
    if not include_initial:
        return result
    axis = one_axis(axis, len(result.shape))
    start = full(int(product), tuple(1 if a == axis else d for a, d in enumerate(result.shape)), result.dtype)
    joined: Atom = concatenate(start, result, axis=axis)
    return joined


@implements(np.cumulative_sum)
def _cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Atom:
    refuse_out(out, "cumulative_sum")
    return _cumulative(strong(x), axis, dtype, include_initial, product=False)


@implements(np.cumulative_prod)
def _cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Atom:
    refuse_out(out, "cumulative_prod")
    return _cumulative(strong(x), axis, dtype, include_initial, product=True)


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Atom:
    times = operator.index(n)
    if times < 0:
        raise ValueError(f"order must be non-negative but got {times}")
    x = strong(a)
    if not x.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = one_axis(axis, len(x.shape))
    parts = [_edge(prepend, x, axis), x, _edge(append, x, axis)]
    x = FUNCTIONS[np.concatenate]([p for p in parts if p is not None], axis=axis)
    step = not_equal if x.dtype.kind == "b" else subtract
    for _ in range(times):
        later = index(x, along(axis, len(x.shape), slice(1, None)))
        x = step(later, index(x, along(axis, len(x.shape), slice(None, -1))))
    return x


def _edge(value: Any, x: Atom, axis: int) -> Atom | None:
    """Return ``prepend`` or ``append`` as an array that joins ``x``; scalars are one entry thick."""
    if not given(value):
        return None
    edge = strong(value)
    if edge.shape:
        return edge
    return broadcast_to(edge, tuple(1 if a == axis else d for a, d in enumerate(x.shape)))


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Atom:
    x = raveled(strong(ary))
    parts = [index(x, slice(1, None)), index(x, slice(None, -1))]
    inner = subtract(*parts)
    edges = [None if v is None else convert(raveled(strong(v)), dtype=x.dtype) for v in (to_begin, to_end)]
    joined: Atom = concatenate(*(p for p in (edges[0], inner, edges[1]) if p is not None), axis=0)
    return joined


@implements(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Atom:
    value = strong(y)
    ndim = len(value.shape)
    axis = one_axis(axis, ndim)
    width = operand(dx) if x is None else _diff(x, axis=-1 if len(strong(x).shape) == 1 else axis)
    if x is not None and len(width.shape) == 1:
        width = broadcast(
            width, shape=tuple(width.shape[0] if a == axis else 1 for a in range(ndim)), axes=(axis,)
        )
    left = index(value, along(axis, ndim, slice(None, -1)))
    right = index(value, along(axis, ndim, slice(1, None)))
    return reduce_sum(mul(width, mul(add(right, left), 0.5)), axes=(axis,))
