"""NumPy's reductions: sums, products, extremes, means and spreads, truth and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.errors import BroadcastError
from tracejit.frontend.reducing import (
    Axes,
    DType,
    counted,
    given,
    kept,
    masked,
    one_axis,
    real_only,
    reduced_axes,
    refuse_empty,
    refuse_out,
    strong,
    sum_dtype,
)
from tracejit.frontend.registry import implements, operand
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.arithmetic import divide, sqrt, subtract
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, reduce_sum, shape_text
from tracejit.ops.complex_parts import conjugate, real
from tracejit.ops.elementwise import Elementwise, add, mul
from tracejit.ops.extrema import fmax, fmin, maximum, minimum
from tracejit.ops.linear import transpose
from tracejit.ops.logic import logical_and, logical_or, not_equal
from tracejit.ops.reduction import (
    ArgReduction,
    Extreme,
    argmax,
    argmin,
    reduce_all,
    reduce_any,
    reduce_fmax,
    reduce_fmin,
    reduce_max,
    reduce_min,
    reduce_prod,
)

__all__ = ["ddof_of", "deviation", "extreme", "mean_of", "place", "total"]


def total(
    x: Atom, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any, product: bool = False
) -> Atom:
    """Return the sum, or product, that NumPy gives for these arguments."""
    x = convert(x, dtype=sum_dtype(x.dtype, dtype))
    axes = reduced_axes(axis, len(x.shape))
    x = masked(x, where, 1 if product else 0)
    y = reduce_prod(x, axes=axes) if product else reduce_sum(x, axes=axes)
    if given(initial):
        y = (mul if product else add)(y, convert(operand(initial), dtype=x.dtype))
    return kept(y, axes, keepdims)


@implements(np.sum)
def _sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Atom:  # fmt: skip
    refuse_out(out, "sum")
    return total(strong(a), axis, dtype, keepdims, initial, where)


@implements(np.prod)
def _prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Atom:  # fmt: skip
    refuse_out(out, "prod")
    return total(strong(a), axis, dtype, keepdims, initial, where, product=True)


# --- extremes ---------------------------------------------------------------------------------------------


_EXTREMES: dict[str, tuple[Extreme, Elementwise]] = {
    "maximum": (reduce_max, maximum),
    "minimum": (reduce_min, minimum),
    "fmax": (reduce_fmax, fmax),
    "fmin": (reduce_fmin, fmin),
}
_OF_BOOLEANS: dict[str, tuple[Any, Elementwise]] = {
    "maximum": (reduce_any, logical_or),
    "minimum": (reduce_all, logical_and),
}


def extreme(x: Atom, name: str, axis: Any, keepdims: Any, initial: Any, where: Any) -> Atom:
    """Return the fold of ``x`` by the ufunc ``name`` (an extreme) with NumPy's rules on empty ones."""
    op, pair = (_OF_BOOLEANS if x.dtype.kind == "b" else _EXTREMES)[name]
    axes = reduced_axes(axis, len(x.shape))
    if not given(initial):
        refuse_empty(x, axes, f"zero-size array to reduction operation {name} which has no identity")
        if where is not True and given(where):
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, "
                "so to use a where mask one has to specify 'initial'"
            )
    y = op(masked(real_only(x, name), where, op.identity(x.dtype)), axes=axes)
    if given(initial):
        y = pair(y, convert(operand(initial), dtype=x.dtype))
    return kept(y, axes, keepdims)


@implements(np.max, np.amax)
def _max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Atom:
    refuse_out(out, "max")
    return extreme(strong(a), "maximum", axis, keepdims, initial, where)


@implements(np.min, np.amin)
def _min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Atom:
    refuse_out(out, "min")
    return extreme(strong(a), "minimum", axis, keepdims, initial, where)


@implements(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Atom:
    refuse_out(out, "ptp")
    largest, smallest = (
        extreme(strong(a), name, axis, keepdims, None, True) for name in ("maximum", "minimum")
    )
    return subtract(largest, smallest)


def place(x: Atom, op: ArgReduction, axis: Any, keepdims: Any) -> Atom:
    """Return the index of the first extreme along ``axis`` (None: in C order)."""
    whole = axis is None or not x.shape
    axes = reduced_axes(axis, len(x.shape)) if whole else (one_axis(axis, len(x.shape)),)
    refuse_empty(x, axes, f"attempt to get {op.name} of an empty sequence")
    return kept(op(real_only(x, op.name), axes=axes), axes, keepdims)


@implements(np.argmax)
def _argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Atom:
    refuse_out(out, "argmax")
    return place(strong(a), argmax, axis, keepdims)


@implements(np.argmin)
def _argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Atom:
    refuse_out(out, "argmin")
    return place(strong(a), argmin, axis, keepdims)


# --- means and spreads ------------------------------------------------------------------------------------


def _working_dtype(dtype: DType, asked: Any) -> DType:
    """Return what NumPy adds up in for a mean: floating, float16 in float32."""
    if given(asked):
        return np.dtype(asked)
    return {"e": np.dtype(np.float32)}.get(dtype.char, dtype if dtype.kind in "fc" else np.dtype(np.float64))


def _result_dtype(dtype: DType, asked: Any, working: DType) -> DType:
    return dtype if dtype.char == "e" and not given(asked) else working


@implements(np.mean)
def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Atom:
    refuse_out(out, "mean")
    return mean_of(strong(a), axis, dtype, keepdims, where)


def mean_of(x: Atom, axis: Any, dtype: Any, keepdims: Any, where: Any) -> Atom:
    """Return the mean over ``axis`` of the entries where the mask ``where`` holds."""
    working = _working_dtype(x.dtype, dtype)
    axes = reduced_axes(axis, len(x.shape))
    y = reduce_sum(masked(convert(x, dtype=working), where, 0), axes=axes)
    y = divide(y, counted(x, axes, where, _count_dtype(working)))
    return convert(kept(y, axes, keepdims), dtype=_result_dtype(x.dtype, dtype, working))


def _count_dtype(working: DType) -> DType:
    """Return a real dtype that does not widen ``working`` when it divides."""
    return np.empty(0, working).real.dtype if working.kind in "fc" else np.dtype(np.float64)


def deviation(
    x: Atom, axes: Axes, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any = None
) -> tuple[Atom, DType]:
    """Return the variance, and the dtype that NumPy gives it."""
    working = _working_dtype(x.dtype, dtype)
    value = convert(x, dtype=working)
    count = counted(x, axes, where, _count_dtype(working))
    if not given(mean):
        mean = kept(divide(reduce_sum(masked(value, where, 0), axes=axes), count), axes, True)
    distance = subtract(value, broadcast_to(convert(operand(mean), dtype=working), x.shape))
    squares = real(mul(distance, conjugate(distance))) if working.kind == "c" else mul(distance, distance)
    y = reduce_sum(masked(squares, where, 0), axes=axes)
    degrees = _degrees(count, ddof)
    result = _result_dtype(x.dtype, dtype, squares.dtype)
    return kept(divide(y, degrees), axes, keepdims), result


def _degrees(count: Atom, ddof: Any) -> Atom:
    """Return ``max(count - ddof, 0)``."""
    less = operand(ddof)
    if isinstance(count, Lit) and isinstance(less, Lit):
        return Lit(count.dtype.type(max(count.value.item() - less.value.item(), 0)))
    return maximum(subtract(count, less), 0)


def ddof_of(ddof: Any, correction: Any) -> Any:
    """Return the degrees of freedom that two arguments of one meaning ask for."""
    if not given(correction):
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@implements(np.var)
def _var(  # noqa: PLR0913
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "var")
    x = strong(a)
    axes = reduced_axes(axis, len(x.shape))
    y, result = deviation(x, axes, dtype, ddof_of(ddof, correction), keepdims, where, mean)
    return convert(y, dtype=result)


@implements(np.std)
def _std(  # noqa: PLR0913
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Atom:  # fmt: skip
    refuse_out(out, "std")
    x = strong(a)
    axes = reduced_axes(axis, len(x.shape))
    y, result = deviation(x, axes, dtype, ddof_of(ddof, correction), keepdims, where, mean)
    return convert(sqrt(y), dtype=result)


@implements(np.average)
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    x = strong(a)
    axes = reduced_axes(axis, len(x.shape))
    if not given(weights):
        mean = mean_of(x, axis, None, keepdims, True)
        scale = convert(counted(x, axes, True, np.dtype(np.float64)), dtype=mean.dtype)
    else:
        weight = _aligned_weights(strong(weights), x, axes, axis)
        dtype = np.result_type(x.dtype, weight.dtype, *(("f8",) if x.dtype.kind in "biu" else ()))
        weight = convert(weight, dtype=dtype)
        weighted = mul(convert(x, dtype=dtype), weight)
        scale = kept(reduce_sum(weight, axes=axes), axes, keepdims)
        mean = divide(kept(reduce_sum(weighted, axes=axes), axes, keepdims), scale)
    return (mean, broadcast_to(scale, mean.shape)) if returned else mean


def _aligned_weights(weight: Atom, x: Atom, axes: Axes, axis: Any) -> Atom:
    """Return weights in the shape of ``x``: given in that shape, or for the averaged axes only."""
    if len(weight.shape) == len(x.shape) and weight.shape == x.shape:
        return weight
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    order = axes if not isinstance(axis, tuple) else tuple(one_axis(a, len(x.shape)) for a in axis)
    wanted = tuple(x.shape[a] for a in order)
    if len(weight.shape) != len(wanted) or any(
        current().decide("==", d - w) is False for d, w in zip(weight.shape, wanted, strict=True)
    ):
        raise BroadcastError(
            f"Weights of shape {shape_text(weight.shape)} do not fit axes of shape {shape_text(wanted)}.",
            where=current().source(),
            hint="Give one weight per entry along `axis`, or weights in the shape of the array.",
        )
    if order != axes:
        weight = transpose(weight, perm=tuple(order.index(a) for a in axes))
    return broadcast(weight, shape=x.shape, axes=axes)


# --- truth and counts -------------------------------------------------------------------------------------


@implements(np.any)
def _any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Atom:
    refuse_out(out, "any")
    x = masked(convert(strong(a), dtype=bool), where, False)
    axes = reduced_axes(axis, len(x.shape))
    return kept(reduce_any(x, axes=axes), axes, keepdims)


@implements(np.all)
def _all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Atom:
    refuse_out(out, "all")
    x = masked(convert(strong(a), dtype=bool), where, True)
    axes = reduced_axes(axis, len(x.shape))
    return kept(reduce_all(x, axes=axes), axes, keepdims)


@implements(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Atom:
    x = strong(a)
    axes = reduced_axes(axis, len(x.shape))
    hits = not_equal(x, Lit(x.dtype.type(0)))
    return kept(reduce_sum(convert(hits, dtype=np.int64), axes=axes), axes, keepdims)
