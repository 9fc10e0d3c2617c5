"""QR factors, and eigenvalues of general matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops import spectral_kernels as kernels
from tracejit.ops.arithmetic import subtract
from tracejit.ops.base import Maybe, Opaque
from tracejit.ops.broadcasting import convert
from tracejit.ops.complex_parts import conjugate, imag, real
from tracejit.ops.elementwise import accumulate, add, mul
from tracejit.ops.joining import concatenate, zeros_of
from tracejit.ops.matrices import (
    diagonal_of,
    first_columns,
    hermitian,
    last_columns,
    matmul,
    on_diagonal,
    plain,
    stack_size,
    swap,
    triangle,
)
from tracejit.ops.singular import beside, folded
from tracejit.ops.solving import factor, lu_solve, triangular_solve
from tracejit.ops.spectral import reciprocal_gaps, rounding_error

__all__ = ["eig", "qr"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]


class QR(Opaque):
    """``a = q @ r`` for matrices with at least as many rows as columns; ``q`` has ``width`` columns."""

    name = "qr"

    def infer(self, a: Aval, *, width: Dim) -> tuple[Aval, Aval]:
        *stack, rows, columns = a.shape
        return a.with_shape((*stack, rows, width)), a.with_shape((*stack, width, columns))

    def impl(self, a: Any, *, width: int) -> Any:
        q, r = np.linalg.qr(plain(a), mode="reduced" if width == a.shape[-1] else "complete")
        return q.astype(a.dtype), r.astype(a.dtype)

    def jvp(self, tangents, operands, results, absorb, *, width):  # type: ignore[no-untyped-def]
        count = operands[0].shape[-1]
        q, r = _square(results[0], results[1], count)
        turned = triangular_solve(r, swap(tangents[0]), lower=False, transposed=True, unit=False)
        relative = swap(turned)
        inner = matmul(hermitian(q), relative)
        spin = _spin(inner)
        q_dot = add(matmul(q, spin), subtract(relative, matmul(q, inner)))
        r_dot = matmul(triangle(subtract(inner, spin), lower=False), r)
        if width != count:
            q_dot = beside(results[0], q_dot, count)
            rest = zeros_of(_rows(results[1], count))
            r_dot = concatenate(r_dot, rest, axis=len(r_dot.shape) - 2)
        return q_dot, r_dot

    def vjp(self, cotangents, operands, results, wanted, absorb, *, width):  # type: ignore[no-untyped-def]
        count = operands[0].shape[-1]
        (q_bar, r_bar), (q, r) = cotangents, _square(results[0], results[1], count)
        inner: Maybe = None
        outer: Maybe = None
        if q_bar is not None:
            outward = conjugate(q_bar)
            outward = outward if width == count else folded(results[0], outward, count)
            overlap = matmul(hermitian(q), outward)
            outer, inner = subtract(outward, matmul(q, overlap)), _spin_transposed(overlap)
        if r_bar is not None:
            outward = swap(first_columns(swap(conjugate(r_bar)), count))
            inner = accumulate(inner, _stretch_transposed(matmul(outward, hermitian(r))))
        assert inner is not None
        total = accumulate(outer, matmul(q, inner))
        assert total is not None
        solved = triangular_solve(conjugate(r), swap(total), lower=False, transposed=False, unit=False)
        return (conjugate(swap(solved)),)

    def batch(self, size, operands, batched, *, width):  # type: ignore[no-untyped-def]
        return self(operands[0], width=width)

    def kernel(self, a: Aval, *, width: Dim) -> Kernel:
        function = kernels.qr_kernel_complex if a.dtype.kind == "c" else kernels.qr_kernel
        return function, (stack_size(a.shape), *a.shape[-2:], width)


def _rows(r: Atom, start: Dim) -> Atom:
    return swap(last_columns(swap(r), start))


def _square(q: Atom, r: Atom, count: Dim) -> tuple[Atom, Atom]:
    """Return the first ``count`` columns of ``q`` and rows of ``r``."""
    return first_columns(q, count), swap(first_columns(swap(r), count))


def _imaginary_diagonal(x: Atom) -> Maybe:
    if x.dtype.kind != "c":
        return None
    return on_diagonal(mul(imag(diagonal_of(x)), 1j))


def _spin(x: Atom) -> Atom:
    """Return the anti-Hermitian part of ``x`` that leaves an upper triangle with a real diagonal."""
    below = triangle(x, lower=True, strict=True)
    total = accumulate(subtract(below, hermitian(below)), _imaginary_diagonal(x))
    assert total is not None
    return total


def _spin_transposed(x: Atom) -> Atom:
    """Return the gradient of `_spin`."""
    below = triangle(subtract(x, hermitian(x)), lower=True, strict=True)
    total = accumulate(below, _imaginary_diagonal(x))
    assert total is not None
    return total


def _stretch_transposed(x: Atom) -> Atom:
    """Return the gradient of what `_spin` leaves."""
    above = triangle(x, lower=False, strict=True)
    below = triangle(hermitian(x), lower=True, strict=True)
    return add(add(above, below), on_diagonal(convert(real(diagonal_of(x)), dtype=x.dtype)))


class Eig(Opaque):
    """Eigenvalues and eigenvectors of general matrices, complex.

    The derivative leaves out what changes the length or the phase of an eigenvector; whoever needs unit length
    divides by it.
    """

    name = "eig"

    def infer(self, a: Aval) -> tuple[Aval, Aval]:
        dtype = np.result_type(a.dtype, np.complex64)
        return Aval(a.shape[:-1], dtype), Aval(a.shape, dtype)

    def impl(self, a: Any) -> Any:
        dtype = np.result_type(a.dtype, np.complex64)
        w, v = np.linalg.eig(plain(a))
        return w.astype(dtype), v.astype(dtype)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        w, v = results
        pushed = matmul(convert(tangents[0], dtype=v.dtype), v)
        inner = lu_solve(v, pushed, *factor(v), transposed=False, checked=False)
        return diagonal_of(inner), matmul(v, mul(self._factors(w), inner))

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        (w_bar, v_bar), (w, v) = cotangents, results
        inner = None if w_bar is None else on_diagonal(w_bar)
        if v_bar is not None:
            inner = accumulate(inner, mul(self._factors(w), matmul(swap(v), v_bar)))
        assert inner is not None
        pulled = matmul(inner, swap(v))
        total = lu_solve(v, pulled, *factor(v), transposed=True, checked=False)
        return (convert(total, dtype=operands[0].dtype),)

    @staticmethod
    def _factors(w: Atom) -> Atom:
        return reciprocal_gaps(w, rounding_error(w, w.shape[-1]))

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        return self(operands[0])

    def kernel(self, a: Aval) -> Kernel:
        function = kernels.eig_kernel_complex if a.dtype.kind == "c" else kernels.eig_kernel
        return function, (stack_size(a.shape), a.shape[-1])


qr = QR()
eig = Eig()

for _op in (qr, eig):
    _op._register()
