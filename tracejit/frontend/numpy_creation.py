"""Arrays made in traced code: functions that NumPy dispatches, and those it does not (`CREATORS`)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.frontend import symbolic
from tracejit.frontend.numpy_diagonals import on_diagonal, triangle
from tracejit.frontend.numpy_shapes import move_axis, raveled
from tracejit.frontend.reducing import one_axis, strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, size, sizes, unsupported
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, floor, sign, subtract
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, expand_dims, full
from tracejit.ops.elementwise import add, common_dtype, mul, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import iota
from tracejit.ops.logic import equal
from tracejit.ops.power import power
from tracejit.ops.reduction import size_of
from tracejit.ops.transcendental import log10

__all__ = ["CREATORS", "spaced"]

DType = np.dtype[Any]


# --- like another array -------------------------------------------------------------------------------------


def _filled_like(a: Any, value: Any, dtype: Any, shape: Any) -> Atom:
    x = strong(a)
    new = x.shape if shape is None else sizes(shape)
    filling = convert(strong(value), dtype=x.dtype if dtype is None else dtype)
    return broadcast_to(filling, new)


@implements(np.zeros_like)
def _zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Atom:
    return _filled_like(a, 0, dtype, shape)


@implements(np.empty_like)
def _empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Atom:
    return _filled_like(prototype, 0, dtype, shape)


@implements(np.ones_like)
def _ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Atom:
    return _filled_like(a, 1, dtype, shape)


@implements(np.full_like)
def _full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Atom:
    return _filled_like(a, fill_value, dtype, shape)


# --- ranges -------------------------------------------------------------------------------------------------


def spaced(start: Atom, stop: Atom, num: int, *, endpoint: bool, dtype: Any = None, axis: int = 0) -> Atom:
    """Return ``num`` numbers from ``start`` to ``stop`` along a new ``axis``, as `numpy.linspace`."""
    return _linspace(start, stop, num, endpoint, dtype=dtype, axis=axis)


@implements(np.linspace)
def _linspace(
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
def _logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Atom:
    exponents = _linspace(start, stop, num, endpoint)
    bottom = operand(base)
    if bottom.shape:
        raise unsupported("`np.logspace` with an array as base", "Write `base ** np.linspace(start, stop)`.")
    return _finished(power(bottom, exponents), dtype, axis)


@implements(np.geomspace)
def _geomspace(
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
    exponents = _linspace(*(log10(mul(signs, end)) for end in (first, last)), num, endpoint)
    values = mul(broadcast_to(signs, exponents.shape), power(10.0, exponents))
    place = iota(shape=exponents.shape, axis=0, dtype=INDEX)
    values = select(equal(place, 0), broadcast_to(first, exponents.shape), values)
    if endpoint and count not in (0, 1):
        values = select(equal(place, size_of(count - 1)), broadcast_to(last, exponents.shape), values)
    return _finished(values, dtype, axis)


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Atom, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [raveled(strong(x)) for x in xi]
    places = list(range(len(vectors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    open_grid = [_lifted(v, p, len(vectors)) for v, p in zip(vectors, places, strict=True)]
    if sparse:
        return tuple(open_grid)
    shape = broadcast_shapes(*(g.shape for g in open_grid))
    return tuple(broadcast_to(g, shape) for g in open_grid)


def _lifted(vector: Atom, place: int, ndim: int) -> Atom:
    """Return a vector as the axis ``place`` of ``ndim``, the others of length one."""
    return expand_dims(vector, axes=tuple(a for a in range(ndim) if a != place))


# --- functions that NumPy does not dispatch -----------------------------------------------------------------

CREATORS: dict[Any, Callable[..., Any]] = {}
"""NumPy's function -> its meaning in traced code: plain arrays of plain arguments, atoms of traced ones."""


def _creator(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a meaning that is used when a traced value or a symbolic size is among the arguments."""

    def register(meaning: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            CREATORS[function] = _when_traced(function, meaning)
        return meaning

    return register


def _when_traced(plain: Any, meaning: Callable[..., Any]) -> Callable[..., Any]:
    def create(*args: Any, **kwargs: Any) -> Any:
        traced = any(map(_has_traced, args)) or any(map(_has_traced, kwargs.values()))
        return meaning(*args, **kwargs) if traced else plain(*args, **kwargs)

    return create


def _has_traced(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_traced, value))
    return is_traced(value)


@_creator(np.array)
def _array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Atom:
    x = strong(object)
    x = x if dtype is None else convert(x, dtype=dtype)
    return expand_dims(x, axes=tuple(range(max(operator.index(ndmin) - len(x.shape), 0))))


@_creator(np.asarray, np.asanyarray)
def _asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    if is_traced(a) and not hasattr(a, "_tracejit_dim") and dtype in (None, a.dtype) and not copy:
        return a  # the same array, so that writes are seen through both names
    return _array(a, dtype)


@_creator(np.ascontiguousarray, np.asfortranarray)
def _laid_out(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    return _asarray(a, dtype)


@_creator(np.zeros, np.empty)
def _zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Atom:
    return full(0, sizes(shape), np.dtype(float if dtype is None else dtype))


@_creator(np.ones)
def _ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Atom:
    return full(1, sizes(shape), np.dtype(float if dtype is None else dtype))


@_creator(np.full)
def _full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Atom:
    return _filled_like(fill_value, fill_value, dtype, shape)


@_creator(np.eye)
def _eye(
    N: Any,
    M: Any = None,
    k: int = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Atom:
    return convert(on_diagonal(_matrix(N, M), operator.index(k)), dtype=dtype)


@_creator(np.identity)
def _identity(n: Any, dtype: Any = None, *, like: Any = None) -> Atom:
    return _eye(n, dtype=float if dtype is None else dtype)


@_creator(np.tri)
def _tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Atom:
    return convert(triangle(_matrix(N, M), operator.index(k)), dtype=dtype)


def _matrix(rows: Any, columns: Any) -> Shape:
    return size(rows), size(rows if columns is None else columns)


@_creator(np.arange)
def _arange(*bounds: Any, dtype: Any = None, device: Any = None, like: Any = None, **named: Any) -> Any:
    ends = {**dict(zip(("start", "stop", "step"), bounds, strict=False)), **named}
    start, stop, step = ends.get("start", 0), ends.get("stop"), ends.get("step", 1)
    if stop is None:
        start, stop = 0, start
    if any(is_traced(v) and not hasattr(v, "_tracejit_dim") for v in (start, stop, step)):
        raise unsupported(
            "`np.arange` with traced bounds, whose length would depend on values,",
            "Use `np.linspace(a, b, num)` or `a + step * np.arange(count)` with a plain count.",
        )
    if not all(hasattr(v, "_tracejit_dim") or isinstance(v, int | np.integer) for v in (start, stop, step)):
        plain = [operator.index(v) if hasattr(v, "_tracejit_dim") else v for v in (start, stop, step)]
        return np.arange(*plain, dtype=dtype)
    return _integer_range(
        size(start), size(stop), operator.index(step), INDEX if dtype is None else np.dtype(dtype)
    )


def _integer_range(start: Dim, stop: Dim, step: int, dtype: DType) -> Atom:
    if step == 0:
        raise ZeroDivisionError("division by zero")
    length = stop - start if step > 0 else start - stop
    count = (length + abs(step) - 1) // abs(step) if current().decide(">=", length) else 0
    values = mul(iota(shape=(count,), axis=0, dtype=INDEX), step)
    return convert(add(values, size_of(start)), dtype=dtype)


@_creator(np.indices)
def _indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape, kind = sizes(dimensions), np.dtype(dtype)
    if sparse:
        vectors = [iota(shape=(n,), axis=0, dtype=kind) for n in shape]
        return tuple(_lifted(v, a, len(shape)) for a, v in enumerate(vectors))
    return FUNCTIONS[np.stack]([iota(shape=shape, axis=a, dtype=kind) for a in range(len(shape))])


@_creator(np.fromfunction)
def _fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    extents = sizes(shape)
    places = [iota(shape=extents, axis=a, dtype=np.dtype(dtype)) for a in range(len(extents))]
    return function(*map(symbolic.WRAP, places), **kwargs)
