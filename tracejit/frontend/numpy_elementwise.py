"""NumPy's functions that work entry by entry and are not ufuncs."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.registry import FUNCTIONS, implements, operand, unsupported
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops import arithmetic as ar
from tracejit.ops import complex_parts, extrema, logic
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import Elementwise, add, common_dtype, fits, mul, select
from tracejit.ops.reduction import reduce_all
from tracejit.ops.sinc import sinc

__all__: list[str] = []


# --- choosing -----------------------------------------------------------------------------------------------


@implements(np.where)
def _where(condition: Any, *branches: Any) -> Any:
    if not branches:
        return FUNCTIONS[np.nonzero](condition)
    if len(branches) != 2:
        raise ValueError("either both or neither of x and y should be given")
    return select(operand(condition), *map(operand, branches))


@implements(np.select)
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Atom:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [operand(c) for c in condlist]
    for number, condition in enumerate(conditions):
        if condition.dtype.kind != "b":
            raise TypeError(f"invalid entry {number} in condlist: should be boolean ndarray")
    *choices, result = [operand(v) for v in (*choicelist, default)]
    dtype = common_dtype([v.aval for v in (*choices, result)])
    result = convert(result, dtype=dtype)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = select(condition, convert(choice, dtype=dtype), result)
    return result


@implements(np.choose)
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Atom:
    _refuse_out("choose", out)
    rows = [operand(c) for c in choices]
    index = operand(a)
    dtype = common_dtype([r.aval for r in rows])
    if mode == "wrap":
        index = ar.remainder(index, len(rows))
    elif mode == "clip":
        index = extrema.clip(index, 0, len(rows) - 1)
    else:  # indexing raises beyond the end; negative numbers must raise too
        index = select(logic.less(index, 0), len(rows), index)
    result: Any = FUNCTIONS[np.broadcast_arrays](index, *(convert(r, dtype=dtype) for r in rows))
    index, *rows = result
    stacked = FUNCTIONS[np.stack](rows)
    chosen = FUNCTIONS[np.take_along_axis](stacked, FUNCTIONS[np.expand_dims](index, 0), 0)
    return FUNCTIONS[np.squeeze](chosen, 0)


@implements(np.clip)
def _clip(  # NumPy's signature
    a: Any,
    a_min: Any = np._NoValue,
    a_max: Any = np._NoValue,
    out: Any = None,
    *,
    min: Any = np._NoValue,
    max: Any = np._NoValue,
    dtype: Any = None,
) -> Atom:
    _refuse_out("clip", out)
    x = operand(a) if dtype is None else convert(operand(a), dtype=dtype)
    low, high = (_bound(x, *names) for names in ((a_min, min), (a_max, max)))
    if low is None:
        return x if high is None else extrema.clip(x, _limit(extrema.minimum, x, high, lowest=True), high)
    if high is None:
        high = _limit(extrema.maximum, x, low, lowest=False)
    return extrema.clip(x, low, high)


def _bound(x: Atom, positional: Any, keyword: Any) -> Atom | None:
    """Return a bound, or None where there is none: also a Python int that the dtype cannot reach."""
    value = keyword if positional is np._NoValue else positional
    if value is None or value is np._NoValue:
        return None
    atom = operand(value)
    return atom if fits(atom, x.dtype) else None


def _limit(op: Elementwise, x: Atom, bound: Atom, lowest: bool) -> Lit:
    """Return the bound that never binds, in the dtype that NumPy clips one-sidedly in."""
    _, dtype = op.dtypes([x.aval, bound.aval])
    if dtype.kind == "f":
        return Lit(dtype.type(-np.inf if lowest else np.inf))
    if dtype.kind == "b":
        return Lit(np.bool_(not lowest))
    limits = np.iinfo(dtype)
    return Lit(dtype.type(limits.min if lowest else limits.max))


@implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Atom:
    value = operand(x)
    if not copy:
        raise unsupported("`np.nan_to_num(copy=False)`", "Write `x[...] = np.nan_to_num(x)`.")
    if value.dtype.kind == "c":
        parts = (part(value) for part in (complex_parts.real, complex_parts.imag))
        return complex_parts.from_parts(*(_nan_to_num(p, True, nan, posinf, neginf) for p in parts))
    if value.dtype.kind != "f":
        return value
    limits = np.finfo(value.dtype)
    infinite = logic.isinf(value)
    for sign, given, default in ((logic.greater, posinf, limits.max), (logic.less, neginf, limits.min)):
        new = convert(operand(default if given is None else given), dtype=value.dtype)
        value = select(logic.logical_and(infinite, sign(value, 0)), new, value)
    return select(logic.isnan(value), convert(operand(nan), dtype=value.dtype), value)


# --- rounding and special functions -------------------------------------------------------------------------


@implements(np.round, np.around)
def _round(a: Any, decimals: Any = 0, out: Any = None) -> Atom:
    _refuse_out("round", out)
    x, digits = operand(a), operator.index(decimals)
    if digits == 0 or x.dtype.kind in "iu":
        return x if x.dtype.kind in "iu" and digits >= 0 else _round_integer(x, digits)
    factor = 10.0 ** abs(digits)
    if digits > 0:
        return ar.divide(ar.rint(mul(x, factor)), factor)
    return mul(ar.rint(ar.divide(x, factor)), factor)


def _round_integer(x: Atom, digits: int) -> Atom:
    """Round to an integer, or an integer to tens, hundreds, ..."""
    if digits == 0:
        return ar.rint(x)
    factor = 10.0**-digits
    return convert(mul(ar.rint(ar.divide(x, factor)), factor), dtype=x.dtype)


@implements(np.fix)
def _fix(x: Any, out: Any = None) -> Atom:
    _refuse_out("fix", out)
    return ar.trunc(operand(x))


@implements(np.sinc)
def _sinc(x: Any) -> Atom:
    return sinc(operand(x))


# --- complex numbers ----------------------------------------------------------------------------------------


@implements(np.real)
def _real(val: Any) -> Atom:
    return complex_parts.real(operand(val))


@implements(np.imag)
def _imag(val: Any) -> Atom:
    return complex_parts.imag(operand(val))


@implements(np.real_if_close)
def _real_if_close(a: Any, tol: Any = 100) -> Atom:
    z = operand(a)
    if z.dtype.kind != "c":
        return z
    limit = float(tol * np.finfo(z.dtype).eps if tol > 1 else tol)
    small = logic.less(complex_parts.absolute(complex_parts.imag(z)), limit)
    return complex_parts.real(z) if guard(reduce_all(small, axes=tuple(range(len(z.shape))))) else z


@implements(np.angle)
def _angle(z: Any, deg: bool = False) -> Atom:
    angle = complex_parts.angle(operand(z))
    return mul(angle, 180 / math.pi) if deg else angle


@implements(np.isreal)
def _isreal(x: Any) -> Atom:
    return logic.equal(_imag(x), 0)


@implements(np.iscomplex)
def _iscomplex(x: Any) -> Atom:
    return logic.not_equal(_imag(x), 0)


@implements(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return operand(x).dtype.kind != "c"


@implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return operand(x).dtype.kind == "c"


# --- questions ----------------------------------------------------------------------------------------------


@implements(np.isposinf)
def _isposinf(x: Any, out: Any = None) -> Atom:
    _refuse_out("isposinf", out)
    return logic.equal(operand(x), math.inf)


@implements(np.isneginf)
def _isneginf(x: Any, out: Any = None) -> Atom:
    _refuse_out("isneginf", out)
    return logic.equal(operand(x), -math.inf)


@implements(np.isclose)
def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Atom:
    x, y = operand(a), operand(b)
    y = convert(y, dtype=common_dtype([y.aval, operand(1.0).aval]))
    distance = complex_parts.absolute(ar.subtract(x, y))
    margin = add(operand(atol), mul(operand(rtol), complex_parts.absolute(y)))
    near = logic.logical_and(logic.less_equal(distance, margin), logic.isfinite(y))
    result = logic.logical_or(near, logic.equal(x, y))
    if equal_nan:
        result = logic.logical_or(result, logic.logical_and(logic.isnan(x), logic.isnan(y)))
    return result


@implements(np.allclose)
def _allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Atom:
    return FUNCTIONS[np.all](_isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    x, y = operand(a1), operand(a2)
    if len(x.shape) != len(y.shape):
        return False
    if not all(current().decide("==", m - n) for m, n in zip(x.shape, y.shape, strict=True)):
        return False
    same = logic.equal(x, y)
    if equal_nan and x.aval.inexact and y.aval.inexact:
        same = logic.logical_or(same, logic.logical_and(logic.isnan(x), logic.isnan(y)))
    return FUNCTIONS[np.all](same)


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise unsupported(f"`np.{name}` with `out=`", f"Write `out[...] = np.{name}(...)`.")
