"""NumPy's functions that call a function of the user's on parts of an array.

Where the parts are rows or entries, each call adds to the trace, so their number is tied to this call's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracejit.frontend.indexing import index, update
from tracejit.frontend.masks import constant_mask
from tracejit.frontend.numpy_creation import CREATORS
from tracejit.frontend.numpy_joining import rows_of
from tracejit.frontend.numpy_shapes import move_axis, raveled
from tracejit.frontend.reducing import one_axis, strong
from tracejit.frontend.refusals import refuse_truncation
from tracejit.frontend.registry import FUNCTIONS, contains_traced, implements, operand, unsupported
from tracejit.frontend.symbolic import wrapped
from tracejit.ir.tape import Atom, Var, current
from tracejit.ops.broadcasting import Convert, broadcast_shapes, broadcast_to, convert, expand_dims
from tracejit.ops.elementwise import Elementwise, select
from tracejit.ops.joining import zeros_of
from tracejit.ops.linear import reshape
from tracejit.ops.logic import logical_not, logical_or

__all__ = ["vectorized"]

_MOST = 4096
"""Calls that one trace may consist of."""


def _refuse_many(name: str, count: int) -> None:
    if count > _MOST:
        raise unsupported(
            f"`np.{name}` with {count} calls (more than {_MOST})",
            "Use `tj.vmap`, or write the function with NumPy functions of whole arrays.",
        )


# --- piecewise ----------------------------------------------------------------------------------------------


def _conditions(condlist: Any, x: Atom) -> list[Atom]:
    """Return the masks; one that is not in a list counts as a list of one."""
    first = condlist[0] if isinstance(condlist, list | tuple) else condlist
    if isinstance(condlist, list | tuple) and (operand(first).shape or not x.shape):
        masks = [operand(c) for c in condlist]
    else:
        mask = operand(condlist)
        single = len(mask.shape) <= min(1, len(x.shape))
        masks = [mask] if single else rows_of(wrapped(mask))
    return [convert(m, dtype=bool) for m in masks]


@implements(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Atom:
    value = strong(x)
    conditions = _conditions(condlist, value)
    if len(funclist) == len(conditions) + 1:
        covered = conditions[0]
        for condition in conditions[1:]:
            covered = logical_or(covered, condition)
        conditions.append(logical_not(covered))
    elif len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    result = zeros_of(value)
    for condition, function in zip(conditions, funclist, strict=True):
        mask = broadcast_to(condition, value.shape)
        result = _piece(result, value, mask, function, args, kw)
    return result


def _piece(result: Atom, x: Atom, mask: Atom, function: Any, args: Any, kw: Any) -> Atom:
    """Return ``result`` with ``function(x)`` where the mask holds."""
    if not callable(function):
        return _store(result, mask, operand(function))
    start = len(current().eqns)
    everywhere = operand(function(wrapped(x), *args, **kw))
    if everywhere.shape in ((), x.shape) and all(_is_pointwise(e.op) for e in current().eqns[start:]):
        return _store(result, mask, everywhere)
    plain = constant_mask(mask) if isinstance(mask, Var) else np.asarray(mask.value)
    if not plain.any():
        return result
    return update(result, plain, operand(function(wrapped(index(x, plain)), *args, **kw)))


def _is_pointwise(op: Any) -> bool:
    return isinstance(op, Elementwise | Convert)


def _store(result: Atom, mask: Atom, value: Atom) -> Atom:
    refuse_truncation(value, result)
    return select(mask, convert(value, dtype=result.dtype), result)


# --- rows ---------------------------------------------------------------------------------------------------


@implements(np.apply_along_axis)
def _apply_along_axis(func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Atom:
    x = strong(arr)
    axis = one_axis(axis, len(x.shape))
    x = move_axis(x, axis, len(x.shape) - 1)
    outer = tuple(map(current().pin, x.shape[:-1]))
    _refuse_many("apply_along_axis", math.prod(outer))
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    rows = [operand(func1d(wrapped(index(x, place)), *args, **kwargs)) for place in np.ndindex(*outer)]
    stacked = FUNCTIONS[np.stack](rows)
    result = reshape(stacked, shape=(*outer, *stacked.shape[1:]))
    inner = len(result.shape) - len(outer)
    for k in range(inner):
        result = move_axis(result, len(outer) + k, axis + k)
    return result


@implements(np.apply_over_axes)
def _apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Atom:
    value = strong(a)
    ndim = len(value.shape)
    for axis in axes if isinstance(axes, Iterable) else (axes,):
        place = axis + ndim if axis < 0 else axis
        result = operand(func(wrapped(value), place))
        if len(result.shape) != ndim:
            result = expand_dims(result, axes=(place,))
        if len(result.shape) != ndim:
            raise ValueError("function is not returning an array of the correct shape")
        value = result
    return value


# --- entries ------------------------------------------------------------------------------------------------


def vectorized(
    pyfunc: Any = np._NoValue, otypes: Any = None, doc: Any = None, excluded: Any = None, cache: bool = False,
    signature: Any = None,
) -> Any:  # fmt: skip
    """Return what ``np.vectorize`` returns, for traced arguments too."""
    if pyfunc is np._NoValue:
        return lambda function: vectorized(function, otypes, doc, excluded, cache, signature)
    original = np.vectorize(pyfunc, otypes, doc, excluded, cache, signature)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not contains_traced([*args, *kwargs.values()]):
            return original(*args, **kwargs)
        if excluded or signature or kwargs:
            raise unsupported(
                "`np.vectorize` with `excluded=`, `signature=` or keyword arguments",
                "Use `tj.vmap`, or a loop.",
            )
        return _each_entry(pyfunc, otypes, args)

    return call


def _each_entry(function: Callable[..., Any], otypes: Any, args: tuple[Any, ...]) -> Any:
    atoms = [strong(a) for a in args]
    shape = tuple(map(current().pin, broadcast_shapes(*(a.shape for a in atoms))))
    _refuse_many("vectorize", math.prod(shape))
    if 0 in shape:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    flat = [raveled(broadcast_to(a, shape)) for a in atoms]
    results = [function(*(wrapped(index(a, i)) for a in flat)) for i in range(math.prod(shape))]
    if isinstance(results[0], tuple):
        return tuple(
            _gathered(column, shape, otypes, k) for k, column in enumerate(zip(*results, strict=True))
        )
    return _gathered(results, shape, otypes, 0)


def _gathered(entries: Sequence[Any], shape: tuple[int, ...], otypes: Any, number: int) -> Any:
    result = reshape(FUNCTIONS[np.stack]([strong(e) for e in entries]), shape=shape)
    dtype = result.dtype if otypes is None else np.dtype(list(otypes)[number])
    return wrapped(convert(result, dtype=dtype))


CREATORS[np.vectorize] = vectorized
