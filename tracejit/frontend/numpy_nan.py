"""NumPy's reductions that leave NaN entries out; their derivative there is zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_reductions import ddof_of, deviation, extreme, mean_of, place, total
from tracejit.frontend.reducing import (
    counted,
    given,
    kept,
    mask_for,
    reduced_axes,
    refuse_out,
    strong,
)
from tracejit.frontend.registry import implements, operand
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.arithmetic import sqrt, subtract
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import select
from tracejit.ops.logic import isnan, less_equal, logical_and, logical_not
from tracejit.ops.reduction import argmax, argmin, reduce_all, reduce_any

__all__: list[str] = []


def _filled(a: Any, otherwise: float) -> Atom:
    """Return the array with NaN entries replaced."""
    x = strong(a)
    return select(isnan(x), Lit(x.dtype.type(otherwise)), x) if x.aval.inexact else x


def _present(x: Atom, where: Any) -> Any:
    """Return ``where`` without the NaN entries of ``x``."""
    if not x.aval.inexact:
        return where
    numbers = logical_not(isnan(x))
    return numbers if where is True or not given(where) else logical_and(numbers, mask_for(where, x.shape))


@implements(np.nansum)
def _nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Atom:  # fmt: skip
    refuse_out(out, "nansum")
    return total(_filled(a, 0), axis, dtype, keepdims, initial, where)


@implements(np.nanprod)
def _nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Atom:  # fmt: skip
    refuse_out(out, "nanprod")
    return total(_filled(a, 1), axis, dtype, keepdims, initial, where, product=True)


@implements(np.nanmax)
def _nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Atom:
    refuse_out(out, "nanmax")
    x = strong(a)
    return extreme(x, "fmax" if x.aval.inexact else "maximum", axis, keepdims, initial, where)


@implements(np.nanmin)
def _nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Atom:
    refuse_out(out, "nanmin")
    x = strong(a)
    return extreme(x, "fmin" if x.aval.inexact else "minimum", axis, keepdims, initial, where)


@implements(np.nanargmax)
def _nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Atom:
    refuse_out(out, "nanargmax")
    _refuse_all_nan(strong(a), axis)
    return place(_filled(a, -np.inf), argmax, axis, keepdims)


@implements(np.nanargmin)
def _nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Atom:
    refuse_out(out, "nanargmin")
    _refuse_all_nan(strong(a), axis)
    return place(_filled(a, np.inf), argmin, axis, keepdims)


def _refuse_all_nan(x: Atom, axis: Any) -> None:
    """Raise, as NumPy does, if a slice holds nothing but NaN; otherwise the trace holds while none does."""
    if not x.aval.inexact or x.aval.size == 0:
        return
    empty = reduce_all(isnan(x), axes=reduced_axes(axis, len(x.shape)))
    if guard(reduce_any(empty, axes=tuple(range(len(empty.shape))))):
        raise ValueError("All-NaN slice encountered")


@implements(np.nanmean)
def _nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Atom:
    refuse_out(out, "nanmean")
    x = strong(a)
    return mean_of(_filled(x, 0), axis, dtype, keepdims, _present(x, where))


def _nandeviation(
    a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any
) -> tuple[Atom, Any]:
    """Return the variance without NaN entries, NaN itself where too few are left; and its dtype."""
    x = strong(a)
    axes = reduced_axes(axis, len(x.shape))
    where = _present(x, where)
    y, result = deviation(_filled(x, 0), axes, dtype, ddof, keepdims, where, mean)
    if not x.aval.inexact:
        return y, result
    degrees = subtract(kept(counted(x, axes, where, y.dtype), axes, keepdims), operand(ddof))
    return select(less_equal(degrees, 0), Lit(y.dtype.type(np.nan)), y), result


@implements(np.nanvar)
def _nanvar(  # noqa: PLR0913
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "nanvar")
    y, result = _nandeviation(a, axis, dtype, ddof_of(ddof, correction), keepdims, where, mean)
    return convert(y, dtype=result)


@implements(np.nanstd)
def _nanstd(  # noqa: PLR0913
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "nanstd")
    y, result = _nandeviation(a, axis, dtype, ddof_of(ddof, correction), keepdims, where, mean)
    return convert(sqrt(y), dtype=result)
