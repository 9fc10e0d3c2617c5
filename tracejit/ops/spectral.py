"""Eigenvalues and eigenvectors of Hermitian matrices.

Terms between equal eigenvalues drop out of the derivatives: eigenvectors are not unique
there, and what depends on the space that they span alone does not need these terms.  Equal means: nearer than
the rounding of the largest one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, compute_dtype, real_dtype
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops import spectral_kernels as kernels
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.base import Opaque
from tracejit.ops.broadcasting import broadcast, convert
from tracejit.ops.complex_parts import absolute, conjugate, real
from tracejit.ops.elementwise import accumulate, constant, mul, select
from tracejit.ops.logic import greater
from tracejit.ops.matrices import diagonal_of, hermitian, matmul, on_diagonal, plain, stack_size, symmetrized
from tracejit.ops.reduction import reduce_max, size_of

__all__ = ["eigh", "eigvalsh", "reciprocal_gaps", "rounding_error"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]


def reciprocal_gaps(w: Atom, noise: Atom) -> Atom:
    """Return ``1/(w[j] - w[i])`` at ``[i, j]``, and 0 where that is not more than ``noise`` (one per stack)."""
    ndim = len(w.shape) + 1
    shape = (*w.shape, w.shape[-1])
    stack = tuple(range(ndim - 2))
    row = broadcast(w, shape=shape, axes=(*stack, ndim - 2))
    column = broadcast(w, shape=shape, axes=(*stack, ndim - 1))
    gap = subtract(column, row)
    apart = greater(absolute(gap), broadcast(noise, shape=shape, axes=stack))
    return select(apart, divide(1.0, select(apart, gap, constant(1, gap))), constant(0, gap))


def rounding_error(w: Atom, extent: Dim) -> Atom:
    """Return the rounding error of eigenvalues or singular values: one number per stack."""
    largest = reduce_max(absolute(w), axes=(len(w.shape) - 1,))
    size = size_of(extent, largest.dtype)
    return mul(largest, mul(size, 4 * float(np.finfo(compute_dtype(w.dtype).char).eps)))


class Eigh(Opaque):
    """Eigenvalues, in ascending order, and eigenvectors of Hermitian matrices, of which one triangle is read."""

    name = "eigh"

    def infer(self, a: Aval, *, lower: bool) -> tuple[Aval, Aval]:
        return Aval(a.shape[:-1], real_dtype(a.dtype)), a

    def impl(self, a: Any, *, lower: bool) -> Any:
        w, v = np.linalg.eigh(plain(a), UPLO="L" if lower else "U")
        return w.astype(real_dtype(a.dtype)), v.astype(a.dtype)

    def jvp(self, tangents, operands, results, absorb, *, lower):  # type: ignore[no-untyped-def]
        w, v = results
        inner = matmul(hermitian(v), symmetrized(tangents[0]), v)
        return real(diagonal_of(inner)), matmul(v, mul(self._factors(w), inner))

    def vjp(self, cotangents, operands, results, wanted, absorb, *, lower):  # type: ignore[no-untyped-def]
        (w_bar, v_bar), (w, v) = cotangents, results
        inner = None if w_bar is None else on_diagonal(convert(w_bar, dtype=v.dtype))
        if v_bar is not None:
            inner = accumulate(inner, mul(self._factors(w), matmul(hermitian(v), conjugate(v_bar))))
        assert inner is not None
        return (conjugate(symmetrized(matmul(v, inner, hermitian(v)))),)

    @staticmethod
    def _factors(w: Atom) -> Atom:
        return reciprocal_gaps(w, rounding_error(w, w.shape[-1]))

    def batch(self, size, operands, batched, *, lower):  # type: ignore[no-untyped-def]
        return self(operands[0], lower=lower)

    def kernel(self, a: Aval, *, lower: bool) -> Kernel:
        function = kernels.eigh_kernel_complex if a.dtype.kind == "c" else kernels.eigh_kernel
        return function, (stack_size(a.shape), a.shape[-1], lower)


class EigvalsH(Opaque):
    """The eigenvalues alone; only the derivative needs eigenvectors."""

    name = "eigvalsh"

    def infer(self, a: Aval, *, lower: bool) -> Aval:
        return Aval(a.shape[:-1], real_dtype(a.dtype))

    def impl(self, a: Any, *, lower: bool) -> Any:
        w = np.linalg.eigvalsh(plain(a), UPLO="L" if lower else "U")
        return w.astype(real_dtype(a.dtype))

    def jvp(self, tangents, operands, results, absorb, *, lower):  # type: ignore[no-untyped-def]
        pair = eigh(operands[0], lower=lower)
        return eigh.jvp(tangents, operands, pair, absorb, lower=lower)[:1]

    def vjp(self, cotangents, operands, results, wanted, absorb, *, lower):  # type: ignore[no-untyped-def]
        pair = eigh(operands[0], lower=lower)
        return eigh.vjp((cotangents[0], None), operands, pair, wanted, absorb, lower=lower)

    def batch(self, size, operands, batched, *, lower):  # type: ignore[no-untyped-def]
        return self(operands[0], lower=lower)

    def kernel(self, a: Aval, *, lower: bool) -> Kernel:
        function = kernels.eigvalsh_kernel_complex if a.dtype.kind == "c" else kernels.eigvalsh_kernel
        return function, (stack_size(a.shape), a.shape[-1], lower)


eigh = Eigh()
eigvalsh = EigvalsH()

for _op in (eigh, eigvalsh):
    _op._register()
