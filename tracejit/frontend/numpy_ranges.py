"""Ranges of numbers between two ends, which may be traced: `numpy.linspace`, `logspace`, `geomspace`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.numpy_shapes import move_axis
from tracejit.frontend.reducing import one_axis, strong
from tracejit.frontend.registry import implements, operand, size, unsupported
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, floor, sign, subtract
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert
from tracejit.ops.elementwise import add, common_dtype, mul, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import iota
from tracejit.ops.logic import equal
from tracejit.ops.power import power
from tracejit.ops.reduction import size_of
from tracejit.ops.transcendental import log10

__all__ = ["geomspace", "linspace", "logspace", "spaced"]


def spaced(start: Atom, stop: Atom, num: int, *, endpoint: bool, dtype: Any = None, axis: int = 0) -> Atom:
    """Return ``num`` numbers from ``start`` to ``stop`` along a new ``axis``, as `numpy.linspace`."""
    return linspace(start, stop, num, endpoint, dtype=dtype, axis=axis)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """As `numpy.linspace`."""
    count = size(num)
    if not current().decide(">=", count):
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    first, last = _ends(start, stop)
    working = first.dtype
    intervals, delta = count - 1 if endpoint else count, subtract(last, first)
    shape = (count, *first.shape)
    values = iota(shape=shape, axis=0, dtype=working)
    if intervals in (0, -1):
        step: Any = np.nan  # nothing lies between
        values = mul(values, broadcast_to(delta, shape))
    else:
        step = divide(delta, size_of(intervals, working))
        values = mul(values, broadcast_to(step, shape))
    values = add(values, broadcast_to(first, shape))
    if endpoint and count not in (0, 1):
        is_last = equal(iota(shape=shape, axis=0, dtype=INDEX), size_of(count - 1))
        values = select(is_last, broadcast_to(last, shape), values)  # free of rounding
    result = _finished(values if dtype is None or not _whole(dtype) else floor(values), dtype, axis)
    return (result, step) if retstep else result


def _whole(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu"


def _ends(start: Any, stop: Any) -> tuple[Atom, Atom]:
    """Return the ends of a range in their common floating dtype, broadcast to each other."""
    ends = [operand(start), operand(stop)]
    working = np.result_type(common_dtype([e.aval for e in ends]), 0.0)
    shape = broadcast_shapes(*(e.shape for e in ends), what="linspace")
    first, last = (broadcast_to(convert(e, dtype=working), shape) for e in ends)
    return first, last


def _finished(values: Atom, dtype: Any, axis: int) -> Atom:
    values = convert(values, dtype=values.dtype if dtype is None else dtype)
    return move_axis(values, 0, one_axis(axis, len(values.shape)))


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Atom:
    exponents = linspace(start, stop, num, endpoint)
    bottom = operand(base)
    if bottom.shape:
        raise unsupported("`np.logspace` with an array as base", "Write `base ** np.linspace(start, stop)`.")
    return _finished(power(bottom, exponents), dtype, axis)


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Atom:
    first, last = _ends(strong(start), strong(stop))
    working = np.result_type(first.dtype, float if dtype is None else np.dtype(dtype))
    if working.kind == "c":
        raise unsupported(
            "`np.geomspace` with complex ends", "Use `np.exp(np.linspace(np.log(a), np.log(b)))`."
        )
    first, last = convert(first, dtype=working), convert(last, dtype=working)
    count = size(num)
    signs = sign(first)
    exponents = linspace(*(log10(mul(signs, end)) for end in (first, last)), num, endpoint)
    values = mul(broadcast_to(signs, exponents.shape), power(10.0, exponents))
    place = iota(shape=exponents.shape, axis=0, dtype=INDEX)
    values = select(equal(place, 0), broadcast_to(first, exponents.shape), values)
    if endpoint and count not in (0, 1):
        values = select(equal(place, size_of(count - 1)), broadcast_to(last, exponents.shape), values)
    return _finished(values, dtype, axis)
