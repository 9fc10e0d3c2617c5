"""Linear systems: LU factors, solutions with them, triangular systems, Cholesky factors.

Right sides are matrices; all operands have the same leading axes.  Derivative rules solve again with the
factors that are there; a singular matrix, which the value complains about, gives them NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom
from tracejit.ops.base import Opaque
from tracejit.ops.complex_parts import conjugate, real
from tracejit.ops.elementwise import accumulate, add, mul, neg
from tracejit.ops.matrices import (
    diagonal_of,
    hermitian,
    identity,
    lifted,
    matmul,
    on_diagonal,
    plain,
    stack_size,
    swap,
    symmetrized,
    triangle,
)
from tracejit.ops.solve_kernels import cholesky_kernel, lu_kernel, lu_solve_kernel, triangular_kernel

__all__ = ["cholesky", "factor", "inverse", "lu_solve", "solve", "triangular_solve"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]
PIVOT = np.dtype(np.int32)


class LU(Opaque):
    """LU factors with row exchanges of the transposed matrix, as getrf leaves them.

    They carry no derivative: every op that takes them also takes the matrix, and states its derivative there.
    """

    name = "lu"

    def infer(self, a: Aval) -> tuple[Aval, Aval]:
        return a, Aval(a.shape[:-1], PIVOT)

    def impl(self, a: Any) -> Any:
        source = plain(a)
        factors, pivots = np.empty_like(source), np.empty(a.shape[:-1], PIVOT)
        lu_kernel(source, factors, pivots, stack_size(a.shape), a.shape[-1])
        return factors.astype(a.dtype), pivots

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        return (None, None)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        return (None,)

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        return self(operands[0])

    def kernel(self, a: Aval) -> Kernel:
        return lu_kernel, (stack_size(a.shape), a.shape[-1])


class LUSolve(Opaque):
    """The solution of ``a @ x = b``, or of ``a.T @ x = b``, with the factors `lu` of ``a``.

    Where ``a`` is singular, ``checked`` raises `numpy.linalg.LinAlgError`; else the solution is NaN.
    """

    name = "lu_solve"

    def infer(self, a: Aval, b: Aval, lu: Aval, pivots: Aval, *, transposed: bool, checked: bool) -> Aval:
        assert a.dtype == b.dtype == lu.dtype and a.shape == lu.shape and a.shape[:-1] == b.shape[:-1], (a, b)
        return b

    def impl(self, a: Any, b: Any, lu: Any, pivots: Any, *, transposed: bool, checked: bool) -> Any:
        matrix = plain(a.swapaxes(-1, -2) if transposed else a)
        if checked:
            return np.linalg.solve(matrix, plain(b)).astype(b.dtype)
        singular = (np.diagonal(lu, axis1=-2, axis2=-1) == 0).any(-1)[..., None, None]
        usable = np.where(singular, np.eye(a.shape[-1], dtype=matrix.dtype), matrix)
        return np.where(singular, np.nan, np.linalg.solve(usable, plain(b))).astype(b.dtype)

    def jvp(self, tangents, operands, results, absorb, *, transposed, checked):  # type: ignore[no-untyped-def]
        (a_dot, b_dot, _, _), (a, _, lu, pivots), (x,) = tangents, operands, results
        moved = None if a_dot is None else neg(matmul(swap(a_dot) if transposed else a_dot, x, absorb=absorb))
        return (self(a, accumulate(moved, b_dot), lu, pivots, transposed=transposed, checked=False),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, transposed, checked):  # type: ignore[no-untyped-def]
        (a, _, lu, pivots), (x,) = operands, results
        y = self(a, cotangents[0], lu, pivots, transposed=not transposed, checked=False)
        outer = None
        if wanted[0]:
            one, other = (x, y) if transposed else (y, x)
            outer = neg(matmul(one, swap(other), absorb=absorb))
        return (outer, y if wanted[1] else None, None, None)

    def batch(self, size, operands, batched, **params):  # type: ignore[no-untyped-def]
        return self(*lifted(size, operands, batched), **params)

    def kernel(self, a: Aval, b: Aval, *factors: Aval, transposed: bool, checked: bool) -> Kernel:
        return lu_solve_kernel, (stack_size(a.shape), *b.shape[-2:], transposed, checked)


class TriangularSolve(Opaque):
    """The solution of ``t @ x = b``, or of ``t.T @ x = b``; the other triangle of ``t`` counts as zero.

    ``unit`` says that the diagonal counts as ones.
    """

    name = "triangular_solve"

    def infer(self, t: Aval, b: Aval, *, lower: bool, transposed: bool, unit: bool) -> Aval:
        assert t.dtype == b.dtype and t.shape[:-1] == b.shape[:-1] and t.shape[-1] == t.shape[-2], (t, b)
        return b

    def impl(self, t: Any, b: Any, *, lower: bool, transposed: bool, unit: bool) -> Any:
        x, factors = np.empty_like(plain(b)), plain(t)
        n, k = b.shape[-2:]
        triangular_kernel(factors, plain(b), x, stack_size(b.shape), n, k, lower, transposed, unit)
        return x.astype(b.dtype)

    def jvp(self, tangents, operands, results, absorb, *, lower, transposed, unit):  # type: ignore[no-untyped-def]
        (t_dot, b_dot), (t, _), (x,) = tangents, operands, results
        moved = None
        if t_dot is not None:
            part = triangle(t_dot, lower, strict=unit)
            moved = neg(matmul(swap(part) if transposed else part, x, absorb=absorb))
        return (self(t, accumulate(moved, b_dot), lower=lower, transposed=transposed, unit=unit),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, lower, transposed, unit):  # type: ignore[no-untyped-def]
        y = self(operands[0], cotangents[0], lower=lower, transposed=not transposed, unit=unit)
        outer = None
        if wanted[0]:
            one, other = (results[0], y) if transposed else (y, results[0])
            outer = neg(triangle(matmul(one, swap(other), absorb=absorb), lower, strict=unit))
        return (outer, y if wanted[1] else None)

    def batch(self, size, operands, batched, **params):  # type: ignore[no-untyped-def]
        return self(*lifted(size, operands, batched), **params)

    def kernel(self, t: Aval, b: Aval, *, lower: bool, transposed: bool, unit: bool) -> Kernel:
        return triangular_kernel, (stack_size(b.shape), *b.shape[-2:], lower, transposed, unit)


class Cholesky(Opaque):
    """The triangular factor of Hermitian matrices, of which one triangle is read; the gradient is Hermitian."""

    name = "cholesky"

    def infer(self, a: Aval, *, upper: bool) -> Aval:
        return a

    def impl(self, a: Any, *, upper: bool) -> Any:
        return np.linalg.cholesky(plain(a), upper=upper).astype(a.dtype)

    def jvp(self, tangents, operands, results, absorb, *, upper):  # type: ignore[no-untyped-def]
        factor = hermitian(results[0]) if upper else results[0]
        half = _solved(factor, symmetrized(tangents[0]))
        inner = _half_triangle(_solved(factor, hermitian(half)))
        moved = matmul(factor, inner)
        return (hermitian(moved) if upper else moved,)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, upper):  # type: ignore[no-untyped-def]
        factor, outward = results[0], conjugate(cotangents[0])
        if upper:
            factor, outward = hermitian(factor), hermitian(outward)
        inner = symmetrized(_half_triangle(matmul(hermitian(factor), outward)))
        half = _solved(factor, inner, adjoint=True)
        return (conjugate(_solved(factor, hermitian(half), adjoint=True)),)

    def batch(self, size, operands, batched, *, upper):  # type: ignore[no-untyped-def]
        return self(operands[0], upper=upper)

    def kernel(self, a: Aval, *, upper: bool) -> Kernel:
        return cholesky_kernel, (stack_size(a.shape), a.shape[-1], upper)


def _solved(factor: Atom, b: Atom, adjoint: bool = False) -> Atom:
    """Return the solution of ``factor @ x = b``, or of ``hermitian(factor) @ x = b``; ``factor`` is lower."""
    t = conjugate(factor) if adjoint else factor
    result: Atom = triangular_solve(t, b, lower=True, transposed=adjoint, unit=False)
    return result


def _half_triangle(x: Atom) -> Atom:
    """Return the lower triangle with half of the (real part of the) diagonal."""
    below = triangle(x, lower=True, strict=True)
    half = on_diagonal(mul(real(diagonal_of(x)), 0.5))
    return add(below, half)


factor = LU()
lu_solve = LUSolve()
triangular_solve = TriangularSolve()
cholesky = Cholesky()

for _op in (factor, lu_solve, triangular_solve, cholesky):
    _op._register()


def solve(a: Atom, b: Atom) -> Atom:
    """Return the solution of ``a @ x = b`` for matrices on the right."""
    result: Atom = lu_solve(a, b, *factor(a), transposed=False, checked=True)
    return result


def inverse(a: Atom, transposed: bool = False, checked: bool = True) -> Atom:
    """Return the inverse, or its transpose."""
    one = identity(a.shape, a.dtype)
    result: Atom = lu_solve(a, one, *factor(a), transposed=transposed, checked=checked)
    return result
