"""Arrays made in traced code: functions that NumPy dispatches, and those it does not (`CREATORS`)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.frontend import symbolic
from tracejit.frontend.concrete import guard, pin_sizes
from tracejit.frontend.numpy_diagonals import on_diagonal, triangle
from tracejit.frontend.numpy_ranges import geomspace, linspace, logspace
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, size, sizes, unsupported
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, expand_dims, full
from tracejit.ops.elementwise import add, mul
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import iota
from tracejit.ops.reduction import size_of

__all__ = ["CREATORS", "lifted", "plain_bound"]

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


# --- grids --------------------------------------------------------------------------------------------------


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Atom, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [raveled(strong(x)) for x in xi]
    places = list(range(len(vectors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    open_grid = [lifted(v, p, len(vectors)) for v, p in zip(vectors, places, strict=True)]
    if sparse:
        return tuple(open_grid)
    shape = broadcast_shapes(*(g.shape for g in open_grid))
    return tuple(broadcast_to(g, shape) for g in open_grid)


def lifted(vector: Atom, place: int, ndim: int) -> Atom:
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
    start, stop, step = map(plain_bound, (start, stop, step))
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


def plain_bound(value: Any) -> Any:
    """Return a bound as a plain number if it is a traced integer, or computed from sizes alone."""
    if not is_traced(value) or hasattr(value, "_tracejit_dim") or value.atom.shape:
        return value
    if value.atom.dtype.kind in "iub":
        return operator.index(value)
    made = current().makers.get(value.atom)
    if made is not None and made.op is convert and made.operands[0].dtype.kind in "iub":  # float(n)
        return float(guard(made.operands[0]))
    pin_sizes(value.atom)
    return value


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
        return tuple(lifted(v, a, len(shape)) for a, v in enumerate(vectors))
    return FUNCTIONS[np.stack]([iota(shape=shape, axis=a, dtype=kind) for a in range(len(shape))])


@_creator(np.fromfunction)
def _fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    extents = sizes(shape)
    places = [iota(shape=extents, axis=a, dtype=np.dtype(dtype)) for a in range(len(extents))]
    return function(*map(symbolic.wrapped, places), **kwargs)


# NumPy looks at some arguments only when it dispatches these: not at fill values, ends of ranges and sizes.
for _function, _meaning in {
    np.zeros_like: _zeros_like,
    np.ones_like: _ones_like,
    np.empty_like: _empty_like,
    np.full_like: _full_like,
    np.linspace: linspace,
    np.logspace: logspace,
    np.geomspace: geomspace,
    np.broadcast_to: FUNCTIONS[np.broadcast_to],
    np.reshape: FUNCTIONS[np.reshape],
}.items():
    _creator(_function)(_meaning)
