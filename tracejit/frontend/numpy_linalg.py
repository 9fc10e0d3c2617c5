"""``np.linalg``: linear systems, inverses, determinants, and what is built on singular values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.linalg._linalg import SlogdetResult

from tracejit.errors import ShapeError
from tracejit.frontend.concrete import guard
from tracejit.frontend.indexing import index
from tracejit.frontend.matrices import matrix_error, operands, refuse_rectangles, stack_of_matrices
from tracejit.frontend.numpy_decompositions import singular_values
from tracejit.frontend.numpy_diagonals import smaller
from tracejit.frontend.numpy_shapes import raveled, same_size
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, implements, operand
from tracejit.ir import dims
from tracejit.ir.aval import real_dtype
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.broadcasting import (
    broadcast_shapes,
    broadcast_to,
    convert,
    expand_dims,
    full,
    reduce_sum,
    shape_text,
    squeeze,
)
from tracejit.ops.complex_parts import absolute
from tracejit.ops.determinants import determinant_of, frozen, pseudo_inverse, slogdet_of
from tracejit.ops.elementwise import add, constant, mul, select
from tracejit.ops.linear import reshape, slice_
from tracejit.ops.logic import greater, isnan, logical_and, logical_not, not_equal
from tracejit.ops.matrices import hermitian, matmul, scale_columns, symmetrized
from tracejit.ops.reduction import reduce_any, reduce_max, size_of
from tracejit.ops.singular import svd
from tracejit.ops.solving import inverse, solve

__all__: list[str] = []


# --- linear systems -----------------------------------------------------------------------------------------


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Atom:
    stack_of_matrices(a, square=True)
    (x, y), dtype = operands(a, b)
    vector = len(y.shape) == 1
    if vector:
        y = expand_dims(y, axes=(1,))
    if len(y.shape) < 2:
        raise ShapeError("solve: the right side has no dimensions.", where=current().source())
    if not same_size(x.shape[-1], y.shape[-2]):
        raise ShapeError(
            f"solve: a matrix of shape {shape_text(x.shape)} and a right side of shape {shape_text(operand(b).shape)}.",
            where=current().source(),
            hint="Only a 1-D right side is a vector; stacks of vectors need an axis: `b[..., None]`.",
        )
    stack = broadcast_shapes(x.shape[:-2], y.shape[:-2], what="solve")
    x, y = (broadcast_to(z, (*stack, *z.shape[-2:])) for z in (x, y))
    solution = solve(x, y)
    if vector:
        solution = squeeze(solution, axes=(len(stack) + 1,))
    return convert(solution, dtype=dtype)


@implements(np.linalg.inv)
def _inv(a: Any) -> Atom:
    x, dtype = stack_of_matrices(a, square=True)
    return convert(inverse(x), dtype=dtype)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Atom:
    x, y = strong(a), strong(b)
    order = list(range(len(x.shape)))
    for k in () if axes is None else axes:
        order.remove(operator.index(k))
        order.append(operator.index(k))
    x = FUNCTIONS[np.transpose](x, order)
    shape = x.shape[len(y.shape) :]
    extent = dims.prod(shape)
    if not same_size(x.aval.size, extent * extent):
        raise matrix_error(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim]); "
            f"the shapes are {shape_text(operand(a).shape)} and {shape_text(y.shape)}."
        )
    solution = _solve(reshape(x, shape=(extent, extent)), raveled(y))
    return reshape(solution, shape=shape)


@implements(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Atom:
    x, count = strong(a), operator.index(ind)
    if count <= 0:
        raise ValueError("Invalid ind argument.")
    rows, columns = x.shape[:count], x.shape[count:]
    square = reshape(x, shape=(dims.prod(rows), dims.prod(columns)))
    return reshape(_inv(square), shape=(*columns, *rows))


# --- determinants -------------------------------------------------------------------------------------------


@implements(np.linalg.det)
def _det(a: Any) -> Atom:
    x, dtype = stack_of_matrices(a, square=True)
    extent = x.shape[-1]
    formulas = {1: _det1, 2: _det2, 3: _det3}
    formula = formulas.get(extent, determinant_of) if isinstance(extent, int) else determinant_of
    return convert(formula(x), dtype=dtype)


def _entry(x: Atom, row: int, column: int) -> Atom:
    stack = len(x.shape) - 2
    start, size = (*(0,) * stack, row, column), (*x.shape[:stack], 1, 1)
    one = slice_(x, start=start, size=size, step=(1,) * (stack + 2))
    return squeeze(one, axes=(stack, stack + 1))


def _det1(x: Atom) -> Atom:
    return _entry(x, 0, 0)


def _minor(x: Atom, rows: tuple[int, int], columns: tuple[int, int]) -> Atom:
    (i, j), (k, m) = rows, columns
    return subtract(mul(_entry(x, i, k), _entry(x, j, m)), mul(_entry(x, i, m), _entry(x, j, k)))


def _det2(x: Atom) -> Atom:
    return _minor(x, (0, 1), (0, 1))


def _det3(x: Atom) -> Atom:
    first = mul(_entry(x, 0, 0), _minor(x, (1, 2), (1, 2)))
    second = mul(_entry(x, 0, 1), _minor(x, (1, 2), (2, 0)))
    return add(add(first, second), mul(_entry(x, 0, 2), _minor(x, (1, 2), (0, 1))))


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    x, dtype = stack_of_matrices(a, square=True)
    sign, value = slogdet_of(x)
    return SlogdetResult(convert(sign, dtype=dtype), convert(value, dtype=real_dtype(dtype)))


# --- pseudo-inverse, rank, least squares --------------------------------------------------------------------


def _larger(a: Dim, b: Dim) -> Dim:
    return a + b - smaller(a, b)


def _largest(s: Atom) -> Atom:
    """Return the largest singular values, with an axis of length one; 0 if there are none."""
    last = (len(s.shape) - 1,)
    if isinstance(s.shape[-1], int) and s.shape[-1] == 0:
        return full(0, (*s.shape[:-1], 1), s.dtype)
    return expand_dims(reduce_max(s, axes=last), axes=last)


def _default_tolerance(x: Atom, dtype: Any) -> Atom:
    """Return NumPy's: the larger extent times the rounding error of the dtype."""
    extent = size_of(_larger(x.shape[-2], x.shape[-1]), np.dtype(np.float64))
    return mul(extent, float(np.finfo(dtype).eps))


def _pseudo_inverse(x: Atom, tolerance: Atom) -> Atom:
    """Return the pseudo-inverses; ``tolerance``, relative, has the shape of the stack or broadcasts to it."""
    u, s, vh = svd(frozen(x), full=False, count=smaller(x.shape[-2], x.shape[-1]))
    tolerance = expand_dims(tolerance, axes=(len(tolerance.shape),))
    usable = greater(s, mul(tolerance, _largest(s)))
    reciprocal = select(usable, divide(1.0, select(usable, s, constant(1, s))), constant(0, s))
    value = matmul(scale_columns(hermitian(vh), reciprocal), hermitian(u))
    result: Atom = pseudo_inverse(x, value)
    return result


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Atom:
    x, dtype = stack_of_matrices(a)
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else rtol
    tolerance = _default_tolerance(x, dtype) if rcond is None else frozen(strong(rcond))
    if any(isinstance(d, int) and d == 0 for d in x.shape[-2:]):
        return full(0, (*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype)
    return convert(_pseudo_inverse(symmetrized(x) if hermitian else x, tolerance), dtype=dtype)


def _singular_values(x: Atom, hermitian: bool) -> Atom:
    result: Atom = (
        FUNCTIONS[np.linalg.svd](x, compute_uv=False, hermitian=True) if hermitian else singular_values(x)
    )
    return result


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if len(strong(A).shape) < 2:
        return convert(FUNCTIONS[np.any](not_equal(strong(A), 0)), dtype=np.int64)
    x, dtype = stack_of_matrices(A)
    s = _singular_values(x, hermitian)
    if tol is None:
        relative = _default_tolerance(x, real_dtype(dtype)) if rtol is None else _behind(rtol)
        tolerance = mul(relative, _largest(s))
    else:
        tolerance = _behind(tol)
    return reduce_sum(convert(greater(s, tolerance), dtype=np.int64), axes=(len(s.shape) - 1,))


def _behind(value: Any) -> Atom:
    atom = strong(value)
    return expand_dims(atom, axes=(len(atom.shape),))


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    (x, y), dtype = operands(a, b)
    vector = len(y.shape) == 1
    if vector:
        y = expand_dims(y, axes=(1,))
    for z in (x, y):
        if len(z.shape) != 2:
            raise matrix_error(f"{len(z.shape)}-dimensional array given. Array must be two-dimensional")
    if not same_size(x.shape[0], y.shape[0]):
        raise matrix_error(
            f"Incompatible dimensions: {shape_text(x.shape)} and {shape_text(operand(b).shape)}."
        )
    tolerance = _default_tolerance(x, np.float64) if rcond is None else strong(rcond)
    solution = matmul(_pinv(x, tolerance), y)
    s = singular_values(x)
    rank = reduce_sum(convert(greater(s, mul(tolerance, _largest(s))), dtype=np.int32), axes=(0,))
    residuals = convert(_residuals(x, y, solution, rank), dtype=real_dtype(dtype))
    if vector:
        solution = squeeze(solution, axes=(1,))
    return convert(solution, dtype=dtype), residuals, rank, convert(s, dtype=real_dtype(dtype))


def _residuals(x: Atom, y: Atom, solution: Atom, rank: Atom) -> Atom:
    """Return the sums of squares that are left; none unless ``x`` is tall and of full rank."""
    rows, columns = x.shape
    tall = not current().decide(">=", columns - rows)
    if not tall or guard(rank) != current().pin(columns):
        return full(0, (0,), real_dtype(x.dtype))
    left = absolute(subtract(y, matmul(x, solution)))
    return reduce_sum(mul(left, left), axes=(0,))


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Atom:
    value, dtype = stack_of_matrices(x)
    if any(isinstance(d, int) and d == 0 for d in value.shape[-2:]):
        raise matrix_error("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = singular_values(value)
        first, last = (index(s, (..., k)) for k in (0, -1))
        ratio = divide(last, first) if p == -2 else divide(first, last)
    else:
        refuse_rectangles(value)
        norm = FUNCTIONS[np.linalg.norm]
        ratio = mul(norm(value, p, (-2, -1)), norm(inverse(value, checked=False), p, (-2, -1)))
    ndim = len(value.shape)
    undefined = logical_and(isnan(ratio), logical_not(reduce_any(isnan(value), axes=(ndim - 2, ndim - 1))))
    return convert(select(undefined, constant(np.inf, ratio), ratio), dtype=real_dtype(dtype))
