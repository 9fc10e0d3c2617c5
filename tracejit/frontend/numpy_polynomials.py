"""NumPy's polynomials as arrays of coefficients, the highest power first."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_convolution import convolve
from tracejit.frontend.numpy_diagonals import on_diagonal
from tracejit.frontend.numpy_joining import join, pick, rows_of, span
from tracejit.frontend.numpy_moving import plain_mask
from tracejit.frontend.numpy_shapes import raveled, same_size
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, size, unsupported
from tracejit.ir import dims
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, sqrt, subtract
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, expand_dims, full, reduce_sum
from tracejit.ops.complex_parts import absolute
from tracejit.ops.elementwise import Elementwise, add, mul, neg
from tracejit.ops.joining import slice_update, zeros_of
from tracejit.ops.linear import reshape, transpose
from tracejit.ops.logic import less_equal
from tracejit.ops.scan import prefix_prod

__all__: list[str] = []


def _coefficients(p: Any) -> Atom:
    x = strong(p)
    return x if x.shape else raveled(x)


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Atom:
    point = strong(x)
    total = zeros_of(point)
    for coefficient in rows_of(p if is_traced(p) or isinstance(p, list | tuple) else np.atleast_1d(p)):
        total = add(mul(total, point), coefficient)
    return total


@implements(np.vander)
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Atom:
    value = strong(x)
    if len(value.shape) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    value = convert(value, dtype=np.promote_types(value.dtype, int))
    count = value.shape[0] if N is None else size(N)
    repeated = broadcast(value, shape=(value.shape[0], count), axes=(0,))
    result: Atom = prefix_prod(repeated, axis=1, reverse=not increasing)
    return result


# --- arithmetic ---------------------------------------------------------------------------------------------


def _aligned(op: Elementwise, a1: Any, a2: Any) -> Atom:
    x, y = _coefficients(a1), _coefficients(a2)
    extents = [current().pin(v.shape[0]) for v in (x, y)]
    padded = [
        join([full(0, (max(extents) - n,), v.dtype), v], 0) if n < max(extents) else v
        for v, n in zip((x, y), extents, strict=True)
    ]
    return op(*padded)


@implements(np.polyadd)
def _polyadd(a1: Any, a2: Any) -> Atom:
    return _aligned(add, a1, a2)


@implements(np.polysub)
def _polysub(a1: Any, a2: Any) -> Atom:
    return _aligned(subtract, a1, a2)


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Atom:
    return convolve(a1, a2, "full")


@implements(np.polydiv)
def _polydiv(u: Any, v: Any) -> tuple[Atom, Atom]:
    rest, divisor = (add(_coefficients(x), 0.0) for x in (u, v))
    dtype = np.result_type(rest.dtype, divisor.dtype)
    rest, divisor = convert(rest, dtype=dtype), convert(divisor, dtype=dtype)
    m, n = (current().pin(x.shape[0]) - 1 for x in (rest, divisor))
    scale = divide(1.0, pick(divisor, 0, 0))
    quotient = []
    for k in range(m - n + 1):
        factor = mul(scale, pick(rest, 0, k))
        quotient.append(factor)
        changed = subtract(span(rest, 0, k, k + n + 1), mul(factor, divisor))
        rest = slice_update(rest, changed, start=(k,), step=(1,))
    while current().pin(rest.shape[0]) > 1 and guard(less_equal(absolute(pick(rest, 0, 0)), 1e-14)):
        rest = span(rest, 0, 1)
    whole = FUNCTIONS[np.stack](quotient) if quotient else full(0, (1,), dtype)
    return whole, rest


@implements(np.polyder)
def _polyder(p: Any, m: Any = 1) -> Atom:
    times, x = operator.index(m), _coefficients(p)
    if times < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(times):
        degree = current().pin(x.shape[0]) - 1
        x = mul(span(x, 0, None, -1), operand(np.arange(degree, 0, -1)))
    return x


@implements(np.polyint)
def _polyint(p: Any, m: Any = 1, k: Any = None) -> Atom:
    times, x = operator.index(m), _coefficients(p)
    if times < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = full(0, (times,), np.float64) if k is None else _coefficients(k)
    count = current().pin(constants.shape[0])
    if count == 1 and times > 1:
        constants, count = broadcast_to(constants, (times,)), times
    if count < times:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for number in range(times):
        x = divide(x, operand(np.arange(current().pin(x.shape[0]), 0, -1)))
        x = join([x, span(constants, 0, number, number + 1)], 0)
    return x


# --- zeros and fits -----------------------------------------------------------------------------------------


@implements(np.poly)
def _poly(seq_of_zeros: Any) -> Atom:
    zeros = _coefficients(seq_of_zeros)
    if len(zeros.shape) == 2 and same_size(*zeros.shape) and zeros.shape[0] != 0:
        zeros = FUNCTIONS[np.linalg.eigvals](zeros)
    if len(zeros.shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if zeros.dtype.kind == "c":
        raise unsupported(
            "`np.poly` with complex zeros, which decides by their values whether the result is real,",
            "Multiply the factors with `np.convolve`.",
        )
    result: Atom = full(1, (1,), zeros.dtype)
    for zero in _entries(zeros):
        factor = join([full(1, (1,), zeros.dtype), reshape(neg(zero), shape=(1,))], 0)
        result = convolve(result, factor, "full")
    return result


def _entries(x: Atom) -> list[Atom]:
    return [pick(x, 0, i) for i in range(current().pin(x.shape[0]))]


@implements(np.roots)
def _roots(p: Any) -> Atom:
    x = _coefficients(p)
    if len(x.shape) != 1:
        raise ValueError("Input must be a rank-1 array.")
    places = np.flatnonzero(plain_mask(p))
    extent = current().pin(x.shape[0])
    if not places.size:
        return full(0, (0,), np.float64)
    x = span(x, 0, int(places[0]), int(places[-1]) + 1)
    x = x if x.aval.inexact else convert(x, dtype=np.float64)
    degree = int(places[-1] - places[0])
    found = full(0, (0,), x.dtype)
    if degree:
        first_row = reshape(divide(neg(span(x, 0, 1)), pick(x, 0, 0)), shape=(1, degree))
        below = span(convert(on_diagonal((degree, degree), -1), dtype=x.dtype), 0, 1)
        found = FUNCTIONS[np.linalg.eigvals](join([first_row, below], 0))
    return join([found, full(0, (extent - int(places[-1]) - 1,), found.dtype)], 0)


def _require_fitting(x: Atom, y: Atom, w: Atom | None, degree: int) -> None:
    """Raise NumPy's errors for a fit."""
    if degree < 0:
        raise ValueError("expected deg >= 0")
    if len(x.shape) != 1:
        raise TypeError("expected 1D vector for x")
    if current().decide("==", x.shape[0]):
        raise TypeError("expected non-empty vector for x")
    if len(y.shape) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if not same_size(x.shape[0], y.shape[0]):
        raise TypeError("expected x and y to have same length")
    if w is not None and (len(w.shape) != 1 or not same_size(w.shape[0], y.shape[0])):
        raise TypeError("expected a 1-d array for weights, as long as y")


@implements(np.polyfit)
def _polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    degree = operator.index(deg)
    points, values = (add(strong(v), 0.0) for v in (x, y))
    weights = None if w is None else add(strong(w), 0.0)
    _require_fitting(points, values, weights, degree)
    powers = _vander(points, degree + 1)
    if weights is not None:
        powers = mul(powers, expand_dims(weights, axes=(1,)))
        values = mul(values, weights if len(values.shape) == 1 else expand_dims(weights, axes=(1,)))
    scale = sqrt(reduce_sum(mul(powers, powers), axes=(0,)))
    powers = divide(powers, scale)
    tolerance = dims.hint(points.shape[0]) * np.finfo(points.dtype).eps if rcond is None else rcond
    fit, residuals, rank, singular = FUNCTIONS[np.linalg.lstsq](powers, values, tolerance)
    fit = divide(fit, scale if len(fit.shape) == 1 else expand_dims(scale, axes=(1,)))
    if full:
        return fit, residuals, rank, singular, tolerance
    if cov:
        return fit, _covariance_of_fit(powers, scale, residuals, values, degree + 1, cov)
    return fit


def _covariance_of_fit(
    powers: Atom, scale: Atom, residuals: Atom, values: Atom, order: int, cov: Any
) -> Atom:
    base = FUNCTIONS[np.linalg.inv](FUNCTIONS[np.dot](transpose(powers, perm=(1, 0)), powers))
    base = divide(base, FUNCTIONS[np.outer](scale, scale))
    if cov != "unscaled":
        spare = current().pin(values.shape[0]) - order
        if spare <= 0:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = divide(residuals, spare)
    else:
        factor = operand(1.0)
    if len(values.shape) == 1:
        return mul(base, factor)
    return mul(expand_dims(base, axes=(2,)), factor)
