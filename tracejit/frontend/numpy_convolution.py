"""Convolution, correlation and covariance of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.numpy_joining import join
from tracejit.frontend.numpy_shapes import raveled, same_size
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, contains_traced, implements
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, sqrt, subtract
from tracejit.ops.broadcasting import broadcast_to, convert, expand_dims, reduce_sum
from tracejit.ops.complex_parts import conjugate, from_parts, imag, real
from tracejit.ops.convolving import padded, reversed_rows, sliding
from tracejit.ops.elementwise import constant, mul, select
from tracejit.ops.extrema import clip
from tracejit.ops.linear import transpose
from tracejit.ops.logic import greater
from tracejit.ops.reduction import size_of
from tracejit.tracebacks import warn_user

__all__ = ["convolve"]


def _row(a: Any, name: str) -> Atom:
    x = strong(a)
    x = x if x.shape else raveled(x)
    if len(x.shape) != 1:
        raise ValueError("object too deep for desired array")
    if current().decide("==", x.shape[0]):
        raise ValueError(f"{name} cannot be empty")
    return x


def _pair(a: Any, v: Any) -> tuple[Atom, Atom, bool]:
    """Return both in their common dtype, the longer one first, and whether they were exchanged."""
    x, w = _row(a, "a"), _row(v, "v")
    dtype = np.result_type(x.dtype, w.dtype)
    x, w = convert(x, dtype=dtype), convert(w, dtype=dtype)
    return (x, w, False) if current().decide(">=", x.shape[0] - w.shape[0]) else (w, x, True)


def _slide(x: Atom, w: Atom, mode: Any) -> Atom:
    """Slide the shorter ``w`` along ``x`` as far as ``mode`` says."""
    names: dict[Any, str] = {0: "valid", 1: "same", 2: "full"}
    mode = names.get(mode, mode)
    if mode not in names.values():
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    overlap: Dim = w.shape[0] - 1
    margins: dict[str, tuple[Dim, Dim]] = {
        "valid": (0, 0),
        "same": (w.shape[0] // 2, overlap - w.shape[0] // 2),
        "full": (overlap, overlap),
    }
    if x.dtype.kind == "b":
        counts = sliding(*(convert(v, dtype=np.int64) for v in (padded(x, *margins[mode]), w)))
        return convert(counts, dtype=bool)
    result: Atom = sliding(padded(x, *margins[mode]), w)
    return result


def convolve(a: Any, v: Any, mode: Any) -> Atom:
    """Return ``np.convolve(a, v, mode)``."""
    x, w, _ = _pair(a, v)
    return _slide(x, reversed_rows(w), mode)


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: Any = "full") -> Atom:
    return convolve(a, v, mode)


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Atom:
    x, w, exchanged = _pair(a, v)
    if not exchanged:
        return _slide(x, conjugate(w), mode)
    return reversed_rows(_slide(conjugate(x), w, mode))


# --- covariance ---------------------------------------------------------------------------------------------


def _variables(m: Any, name: str, rowvar: Any, dtype: Any) -> Atom:
    """Return one variable per row."""
    x = strong(m)
    if len(x.shape) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    single = len(x.shape) < 2
    x = convert(x, dtype=dtype)
    for _ in range(2 - len(x.shape)):
        x = expand_dims(x, axes=(0,))
    return x if rowvar or single else transpose(x, perm=(1, 0))


def _weights(weights: Any, name: str, count: Dim, whole: bool) -> Atom:
    if whole and not contains_traced(weights) and np.any(np.asarray(weights) != np.around(weights)):
        raise TypeError(f"{name} must be integer")
    w = convert(strong(weights), dtype=np.float64)
    if len(w.shape) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if not same_size(w.shape[0], count):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if not contains_traced(weights) and np.any(np.asarray(weights) < 0):
        raise ValueError(f"{name} cannot be negative")
    return w


@implements(np.cov)
def _cov(
    m: Any, y: Any = None, rowvar: Any = True, bias: Any = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Atom:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    parts = [strong(v) for v in (m, y) if v is not None]
    dtype = np.result_type(*(p.dtype for p in parts), np.float64) if dtype is None else np.dtype(dtype)
    x = _variables(m, "m", rowvar, dtype)
    if y is not None:
        x = join([x, _variables(y, "y", rowvar, dtype)], 0)
    fewer = (0 if bias else 1) if ddof is None else int(ddof)
    count = x.shape[1]
    f, a = (
        None if w is None else _weights(w, name, count, name == "fweights")
        for w, name in ((fweights, "fweights"), (aweights, "aweights"))
    )
    w = f if a is None else (a if f is None else mul(f, a))
    mean = FUNCTIONS[np.average](x, axis=1, weights=w, keepdims=True)
    x = subtract(x, mean)
    weighted = x if w is None else mul(x, w)
    product = FUNCTIONS[np.dot](x, conjugate(transpose(weighted, perm=(1, 0))))
    factor = _reciprocal_of(_degrees(w, a, fewer, count))
    return FUNCTIONS[np.squeeze](mul(product, convert(factor, dtype=product.dtype)))


def _degrees(w: Atom | None, a: Atom | None, fewer: int, count: Dim) -> Atom:
    """What the sums of products are divided by."""
    if w is None:
        if not current().decide(">=", count - fewer - 1):
            warn_user("Degrees of freedom <= 0 for slice", RuntimeWarning)
        return convert(size_of(count - fewer), dtype=np.float64)
    total = reduce_sum(w, axes=(0,))
    if fewer == 0 or a is None:
        return subtract(total, fewer) if fewer else total
    return subtract(total, mul(fewer, divide(reduce_sum(mul(w, a), axes=(0,)), total)))


def _reciprocal_of(degrees: Atom) -> Atom:
    return divide(1.0, select(greater(degrees, 0), degrees, constant(0, degrees)))


@implements(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Atom:
    c = _cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return divide(c, c)
    deviation = sqrt(real(FUNCTIONS[np.diag](c)))
    for axis in (1, 0):
        c = divide(c, broadcast_to(expand_dims(deviation, axes=(axis,)), c.shape))
    if c.dtype.kind != "c":
        return clip(c, -1, 1)
    return from_parts(clip(real(c), -1, 1), clip(imag(c), -1, 1))
