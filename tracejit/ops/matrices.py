"""Stacks of matrices, for the rules of linear algebra: products, transposes, diagonals, masks of triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, prod
from tracejit.ir.tape import Atom
from tracejit.ops.broadcasting import broadcast, broadcast_to, expand_dims, full, lead, reduce_sum
from tracejit.ops.complex_parts import conjugate
from tracejit.ops.contraction import contraction
from tracejit.ops.elementwise import add, constant, mul, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import diagonal, embed_diagonal, iota, slice_, transpose
from tracejit.ops.logic import greater, greater_equal

__all__ = [
    "diagonal_of",
    "first_columns",
    "hermitian",
    "identity",
    "last_columns",
    "lifted",
    "matmul",
    "on_diagonal",
    "plain",
    "scale_columns",
    "scale_rows",
    "stack_size",
    "swap",
    "symmetrized",
    "trace_of",
    "triangle",
]


def stack_size(shape: Shape, core: int = 2) -> Dim:
    """Return how many matrices (or arrays of ``core`` axes) there are."""
    return prod(shape[: len(shape) - core])


def plain(array: Any) -> Any:
    """Return an array in a dtype that LAPACK has: long double (of tests only) in double."""
    return np.asarray(array, {"g": np.float64, "G": np.complex128}.get(array.dtype.char), order="C")


def lifted(size: Dim, operands: Sequence[Atom], batched: Sequence[bool]) -> list[Atom]:
    """Return the operands of a batching rule, all with the leading axis."""
    return [lead(x, size, b) for x, b in zip(operands, batched, strict=True)]


def swap(x: Atom) -> Atom:
    """Return the transposed matrices."""
    ndim = len(x.shape)
    return transpose(x, perm=(*range(ndim - 2), ndim - 1, ndim - 2))


def hermitian(x: Atom) -> Atom:
    """Return the transposed, conjugated matrices."""
    return conjugate(swap(x))


def symmetrized(x: Atom) -> Atom:
    """Return the mean of the matrices and their Hermitian transposes."""
    return mul(add(x, hermitian(x)), 0.5)


def matmul(a: Atom, b: Atom, *rest: Atom, absorb: bool = False) -> Atom:
    """Return the product of stacks of equal length, from left to right."""
    stack = tuple(range(len(a.shape) - 2))
    row, inner, column = (len(stack) + i for i in range(3))
    labels = ((*stack, row, inner), (*stack, inner, column), (*stack, row, column))
    product = contraction(a, b, labels, absorb)
    return matmul(product, *rest, absorb=absorb) if rest else product


def identity(shape: Shape, dtype: Any) -> Atom:
    """Return unit matrices: ``shape`` ends with two equal extents."""
    one: Atom = embed_diagonal(full(1, shape[-1:], dtype), axes=(0, 1), start=(0, 0), shape=shape[-2:])
    return broadcast_to(one, shape)


def diagonal_of(x: Atom) -> Atom:
    """Return the diagonals of square matrices, as rows."""
    ndim = len(x.shape)
    result: Atom = diagonal(x, axes=(ndim - 2, ndim - 1), start=(0, 0), size=x.shape[-1])
    return result


def on_diagonal(x: Atom) -> Atom:
    """Return diagonal matrices."""
    ndim = len(x.shape) + 1
    result: Atom = embed_diagonal(x, axes=(ndim - 2, ndim - 1), start=(0, 0), shape=(*x.shape, x.shape[-1]))
    return result


def trace_of(x: Atom) -> Atom:
    """Return the traces, with two axes of length one in the place of the matrices."""
    ndim = len(x.shape)
    return expand_dims(reduce_sum(diagonal_of(x), axes=(ndim - 2,)), axes=(ndim - 2, ndim - 1))


def scale_columns(x: Atom, factors: Atom) -> Atom:
    """Return ``x * factors[..., None, :]``."""
    return mul(x, expand_dims(factors, axes=(len(x.shape) - 2,)))


def scale_rows(x: Atom, factors: Atom) -> Atom:
    """Return ``x * factors[..., :, None]``."""
    return mul(x, expand_dims(factors, axes=(len(x.shape) - 1,)))


def triangle(x: Atom, lower: bool, strict: bool = False) -> Atom:
    """Return the triangles of square matrices, zeros elsewhere."""
    ndim = len(x.shape)
    row, column = (iota(shape=x.shape[-2:], axis=a, dtype=INDEX) for a in ((0, 1) if lower else (1, 0)))
    inside = greater(row, column) if strict else greater_equal(row, column)
    mask = broadcast(inside, shape=x.shape, axes=(ndim - 2, ndim - 1))
    return select(mask, x, constant(0, x))


def first_columns(x: Atom, count: Dim) -> Atom:
    """Return ``x[..., :count]``."""
    return _columns(x, 0, count)


def last_columns(x: Atom, start: Dim) -> Atom:
    """Return ``x[..., start:]``."""
    return _columns(x, start, x.shape[-1] - start)


def _columns(x: Atom, start: Dim, count: Dim) -> Atom:
    other = len(x.shape) - 1
    step = (1,) * (other + 1)
    return slice_(x, start=(*(0,) * other, start), size=(*x.shape[:-1], count), step=step)
