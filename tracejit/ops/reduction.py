"""Reductions besides the sum, places of extremes, and a size as a value (what a mean divides by)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.arithmetic import divide
from tracejit.ops.base import Op, Reduction, as_atom
from tracejit.ops.broadcasting import broadcast, convert, full, reduce_sum
from tracejit.ops.elementwise import Elementwise, absorb_mul, mul, select
from tracejit.ops.extrema import maximum
from tracejit.ops.logic import equal
from tracejit.ops.scan import prefix_prod

__all__ = [
    "ArgReduction",
    "SizeOf",
    "argmax",
    "argmin",
    "reduce_all",
    "reduce_any",
    "reduce_fmax",
    "reduce_fmin",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "size_of",
]

Axes = tuple[int, ...]


def spread(x: Atom, shape: tuple[Dim, ...], axes: Axes) -> Atom:
    """Return the reduced ``x`` broadcast back over the reduced ``axes``."""
    return broadcast(x, shape=shape, axes=tuple(a for a in range(len(shape)) if a not in axes))


class Fold(Reduction):
    """A reduction that leaves its operand alone when there are no axes to fold."""

    def __call__(self, x: Any, *, axes: Axes) -> Atom:
        result: Atom = self.bind(x, axes=axes) if axes else as_atom(x)
        return result


class ReduceProd(Fold):
    """Product over ``axes``; the derivative is the product of the others, exact where entries are zero."""

    name = "reduce_prod"
    combine = "{0} * {1}"

    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        return dtype.type(1)

    def impl(self, x: Any, *, axes: Axes) -> Any:
        return np.prod(x, axis=axes, dtype=x.dtype)

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (reduce_sum(absorb_mul(tangents[0], product_of_others(operands[0], axes)), axes=axes),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        others = product_of_others(operands[0], axes)
        return (absorb_mul(spread(cotangents[0], operands[0].shape, axes), others),)


def product_of_others(x: Atom, axes: Axes) -> Atom:
    """Return, at each entry, the product over ``axes`` of all entries but that one, without division."""
    *outer, axis = axes
    others = mul(prefix_prod(x, axis=axis, reverse=False), prefix_prod(x, axis=axis, reverse=True))
    if not outer:
        return others
    rows = product_of_others(reduce_prod(x, axes=(axis,)), tuple(outer))
    return mul(others, spread(rows, x.shape, (axis,)))


_attains = Elementwise(
    "attains",
    lambda x, y: (x == y) | np.isnan(x),
    "({0} == {1}) | isnan({0})",
    None,
    None,
    result=bool,
)


class Extreme(Fold):
    """Largest or smallest entry; the entries that attain it share the derivative equally.

    Parameters
    ----------
    name : str
    function : callable
        NumPy's meaning.
    combine : str
    empty : float
        The fold of no floats at all; NaN for those that pass over NaN entries.  The others return NaN where
        there is one, and all NaN entries attain it.
    """

    taints = True

    def __init__(self, name: str, function: Callable[..., Any], combine: str, empty: float) -> None:
        self.name, self.function, self.combine, self.empty = name, function, combine, empty
        self.attains = equal if np.isnan(empty) else _attains
        self._register()

    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        if dtype.kind == "f":
            return dtype.type(self.empty)
        return dtype.type(np.iinfo(dtype).min if self.empty < 0 else np.iinfo(dtype).max)

    def impl(self, x: Any, *, axes: Axes) -> Any:
        return self.function(x, axis=axes, initial=self.identity(x.dtype))

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        (tangent,) = tangents
        mask, count = self._ties(operands[0], results[0], axes)
        total = reduce_sum(select(mask, tangent, Lit(tangent.dtype.type(0))), axes=axes)
        return (divide(total, count),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        (cotangent,) = cotangents
        mask, count = self._ties(operands[0], results[0], axes)
        share = spread(divide(cotangent, count), operands[0].shape, axes)
        return (select(mask, share, Lit(cotangent.dtype.type(0))),)

    def _ties(self, x: Atom, y: Atom, axes: Axes) -> tuple[Atom, Atom]:
        """Return which entries attain the extreme, and how many of them there are."""
        mask = self.attains(x, spread(y, x.shape, axes))
        count = reduce_sum(convert(mask, dtype=y.dtype), axes=axes)
        return mask, maximum(count, 1.0) if np.isnan(self.empty) else count


class LogicalFold(Fold):
    """``any`` or ``all`` of booleans."""

    def __init__(self, name: str, function: Callable[..., Any], combine: str, empty: bool) -> None:
        self.name, self.function, self.combine, self.empty = name, function, combine, empty
        self._register()

    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        return np.bool_(self.empty)

    def impl(self, x: Any, *, axes: Axes) -> Any:
        return self.function(x, axis=axes)

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (None,)


class ArgReduction(Op):
    """Index, in C order over ``axes``, of the first entry that no other is better than.

    Attributes
    ----------
    better : str
        Loop text: whether entry ``{1}`` is better than ``{0}``, the best so far (the first one).
    """

    def __init__(self, name: str, function: Callable[..., Any], better: str) -> None:
        self.name, self.function, self.better = name, function, better
        self._register()

    def __call__(self, x: Any, *, axes: Axes) -> Atom:
        if not axes:  # each entry is the only one
            return full(0, as_atom(x).shape, np.dtype(np.int64))
        result: Atom = self.bind(x, axes=axes)
        return result

    def infer(self, aval: Aval, *, axes: Axes) -> Aval:
        return Aval(tuple(d for i, d in enumerate(aval.shape) if i not in axes), np.dtype(np.int64))

    def impl(self, x: Any, *, axes: Axes) -> Any:
        shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        last = np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x
        return self.function(last.reshape(*shape, math.prod(x.shape[a] for a in axes)), axis=-1)

    def jvp(self, tangents, operands, results, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axes):  # type: ignore[no-untyped-def]
        return (None,)

    def batch(self, size, operands, batched, *, axes):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], axes=tuple(a + 1 for a in axes))


class SizeOf(Op):
    """The extent ``size`` as a scalar of ``dtype``; it has no operands, loops write the size itself.

    It is ``weak`` where user code holds it as a Python int.
    """

    name = "size_of"

    def __call__(self, size: Dim, dtype: Any = np.int64, weak: bool = False) -> Atom:
        dtype = np.dtype(dtype)
        if isinstance(size, int):
            return Lit(dtype.type(size), weak=weak)
        result: Atom = self.bind(size=size, dtype=dtype, weak=weak)
        return result

    def infer(self, *, size: Dim, dtype: np.dtype[Any], weak: bool) -> Aval:
        return Aval((), dtype, weak)

    def impl(self, *, size: int, dtype: np.dtype[Any], weak: bool) -> Any:
        return dtype.type(size)

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        return ()

    def batch(self, size, operands, batched, **params):  # type: ignore[no-untyped-def]
        return self.bind(**params)


reduce_prod = ReduceProd()
reduce_prod._register()
reduce_max = Extreme("reduce_max", np.max, "max_accumulate({0}, {1})", -np.inf)
reduce_min = Extreme("reduce_min", np.min, "min_accumulate({0}, {1})", np.inf)
reduce_fmax = Extreme("reduce_fmax", np.fmax.reduce, "fmax_accumulate({0}, {1})", np.nan)
reduce_fmin = Extreme("reduce_fmin", np.fmin.reduce, "fmin_accumulate({0}, {1})", np.nan)
reduce_any = LogicalFold("reduce_any", np.any, "{0} | {1}", False)
reduce_all = LogicalFold("reduce_all", np.all, "{0} & {1}", True)
argmax = ArgReduction("argmax", np.argmax, "not ({1} <= {0}) and {0} == {0}")
argmin = ArgReduction("argmin", np.argmin, "not ({1} >= {0}) and {0} == {0}")
size_of = SizeOf()
size_of._register()
