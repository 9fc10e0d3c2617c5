"""Norms, powers of matrices, and chains of matrix products (``np.linalg`` without factorisations)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.errors import ContractionError
from tracejit.frontend.numpy_contractions import matmul
from tracejit.frontend.reducing import (
    Axes,
    kept,
    one_axis,
    reduced_axes,
    refuse_empty,
    refuse_out,
    strong,
)
from tracejit.frontend.registry import FUNCTIONS, implements, operand, unsupported
from tracejit.ir import dims
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.arithmetic import divide, sqrt
from tracejit.ops.broadcasting import broadcast_to, convert, full, reduce_sum, shape_text
from tracejit.ops.complex_parts import absolute, imag, real
from tracejit.ops.elementwise import add, mul
from tracejit.ops.linear import embed_diagonal
from tracejit.ops.logic import not_equal
from tracejit.ops.power import power
from tracejit.ops.reduction import reduce_max, reduce_min

__all__: list[str] = []


# --- norms ------------------------------------------------------------------------------------------------


def _euclidean(x: Atom, axes: Axes) -> Atom:
    squares = add(mul(real(x), real(x)), mul(imag(x), imag(x))) if x.dtype.kind == "c" else mul(x, x)
    return sqrt(reduce_sum(squares, axes=axes))


def _extreme(x: Atom, axes: Axes, largest: bool) -> Atom:
    """Return an extreme of lengths; the largest of none is 0."""
    if not largest:
        refuse_empty(x, axes, "zero-size array to reduction operation minimum which has no identity")
        return reduce_min(x, axes=axes)
    if any(current().decide("==", x.shape[a]) for a in axes):
        return reduce_sum(x, axes=axes)
    return reduce_max(x, axes=axes)


def _vector_norm(x: Atom, order: Any, axes: Axes) -> Atom:
    """Return the norm of the vectors along ``axes`` (all entries of which count alike)."""
    if order is None or (_is_number(order) and order == 2):
        return _euclidean(x, axes)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    if _is_number(order) and np.isinf(order):
        return _extreme(absolute(x), axes, order > 0)
    if _is_number(order) and order == 0:
        nonzero = not_equal(x, Lit(x.dtype.type(0)))
        return reduce_sum(convert(nonzero, dtype=absolute(x).dtype), axes=axes)
    if _is_number(order) and order == 1:
        return reduce_sum(absolute(x), axes=axes)
    exponent = convert(operand(order), dtype=absolute(x).dtype)
    total = reduce_sum(power(absolute(x), exponent), axes=axes)
    return power(total, divide(Lit(exponent.dtype.type(1)), exponent))


def _is_number(order: Any) -> bool:
    return isinstance(order, int | float | np.number)


def _matrix_norm(x: Atom, order: Any, rows: int, columns: int) -> Atom:
    """Return the norm of the matrices whose axes are ``rows`` and ``columns``."""
    if order in (None, "fro", "f"):
        return _euclidean(x, tuple(sorted((rows, columns))))
    if order in (2, -2, "nuc"):
        return _spectral_norm(x, order, rows, columns)
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    summed, other = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = reduce_sum(absolute(x), axes=(summed,))
    return _extreme(sums, (other - (other > summed),), order > 0)


def _spectral_norm(x: Atom, order: Any, rows: int, columns: int) -> Atom:
    """Return the largest, the smallest, or the sum of the singular values."""
    values = FUNCTIONS[np.linalg.svdvals](FUNCTIONS[np.moveaxis](x, (rows, columns), (-2, -1)))
    last = (len(values.shape) - 1,)
    return reduce_sum(values, axes=last) if order == "nuc" else _extreme(values, last, order > 0)


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Atom:
    value = _inexact(strong(x))
    ndim = len(value.shape)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1):
            axes = tuple(range(ndim))
            return kept(_euclidean(value, axes), axes, keepdims)
        axes = tuple(range(ndim))
    else:
        axes = axis if isinstance(axis, tuple) else (operator.index(axis),)
    if len(axes) not in (1, 2):
        raise ValueError("Improper number of dimensions to norm.")
    axes = tuple(one_axis(a, ndim) for a in axes)
    if len(set(axes)) < len(axes):
        raise ValueError("Duplicate axes given.")
    y = _vector_norm(value, ord, axes) if len(axes) == 1 else _matrix_norm(value, ord, *axes)
    return kept(y, tuple(sorted(axes)), keepdims)


def _inexact(x: Atom) -> Atom:
    return x if x.aval.inexact else convert(x, dtype=np.float64)


@implements(np.linalg.vector_norm)
def _np_vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Atom:
    value = _inexact(strong(x))
    axes = reduced_axes(axis, len(value.shape))
    return kept(_vector_norm(value, ord, axes), axes, keepdims)


@implements(np.linalg.matrix_norm)
def _np_matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Atom:
    return _norm(x, ord, (-2, -1), keepdims)


# --- powers and chains ------------------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: Any) -> Atom:
    x = strong(a)
    if len(x.shape) < 2 or not current().decide("==", x.shape[-1] - x.shape[-2]):
        raise ContractionError(
            f"`np.linalg.matrix_power` needs square matrices, not shape {shape_text(x.shape)}.",
            where=current().source(),
        )
    exponent = operator.index(n)
    if exponent < 0:
        if np.linalg.inv not in FUNCTIONS:
            raise unsupported(
                "`np.linalg.matrix_power` with a negative power", "Invert outside of the traced function."
            )
        x, exponent = FUNCTIONS[np.linalg.inv](x), -exponent
    if exponent == 0:
        ones = full(1, x.shape[-1:], x.dtype)
        identity = embed_diagonal(ones, axes=(0, 1), start=(0, 0), shape=x.shape[-1:] * 2)
        return broadcast_to(identity, x.shape)
    result: Atom | None = None
    while True:
        if exponent & 1:
            result = x if result is None else matmul(result, x)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        x = matmul(x, x)


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Atom:
    refuse_out(out, "linalg.multi_dot")
    factors = [strong(a) for a in arrays]
    if len(factors) < 2:
        raise ValueError("Expecting at least two arrays.")
    for number, x in enumerate(factors):
        at_end = number in (0, len(factors) - 1)
        if len(x.shape) != 2 and not (at_end and len(x.shape) == 1):
            raise ValueError(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    sizes = [1 if len(factors[0].shape) == 1 else dims.hint(factors[0].shape[0])]
    sizes += [dims.hint(x.shape[-1]) if len(x.shape) == 2 else 1 for x in factors[1:]]
    inner = [dims.hint(x.shape[-1]) for x in factors[:-1]]
    return _chain(factors, (sizes[0], *inner, sizes[-1]))


def _chain(factors: Sequence[Atom], sizes: tuple[int, ...]) -> Atom:
    """Return the product in the order that costs least; ``sizes`` are the extents along the chain."""

    @functools.cache
    def best(first: int, last: int) -> tuple[int, int]:
        """Return (multiplications, where to split) for the factors from ``first`` up to ``last``."""
        if first == last:
            return 0, first
        ends = sizes[first] * sizes[last + 1]
        return min(
            (best(first, k)[0] + best(k + 1, last)[0] + ends * sizes[k + 1], k) for k in range(first, last)
        )

    def multiplied(first: int, last: int) -> Atom:
        if first == last:
            return factors[first]
        split = best(first, last)[1]
        return matmul(multiplied(first, split), multiplied(split + 1, last))

    return multiplied(0, len(factors) - 1)
