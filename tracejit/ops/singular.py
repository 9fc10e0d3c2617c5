"""Singular values and singular vectors; equal ones as in `tracejit.ops.spectral`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, real_dtype
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops import spectral_kernels as kernels
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.base import Maybe, Opaque
from tracejit.ops.broadcasting import broadcast, convert
from tracejit.ops.complex_parts import conjugate, imag, real
from tracejit.ops.elementwise import accumulate, add, constant, mul, neg, select
from tracejit.ops.joining import concatenate
from tracejit.ops.logic import greater
from tracejit.ops.matrices import (
    diagonal_of,
    first_columns,
    hermitian,
    last_columns,
    matmul,
    on_diagonal,
    plain,
    scale_columns,
    scale_rows,
    stack_size,
    swap,
)
from tracejit.ops.spectral import reciprocal_gaps, rounding_error

__all__ = ["beside", "folded", "svd", "svdvals"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]


def beside(q: Atom, moved: Atom, count: Dim) -> Atom:
    """Return the tangent of all columns of unitary ``q`` from that of the first ``count``.

    The others span what is orthogonal, and turn within that space as little as possible.
    """
    first, others = first_columns(q, count), last_columns(q, count)
    turned = neg(matmul(first, hermitian(moved), others))
    result: Atom = concatenate(moved, turned, axis=len(q.shape) - 1)
    return result


def folded(q: Atom, outward: Atom, count: Dim) -> Atom:
    """Return the gradient with respect to the first columns from that of all; the transpose of `beside`."""
    first, others = first_columns(q, count), last_columns(q, count)
    turned = matmul(others, hermitian(last_columns(outward, count)), first)
    return subtract(first_columns(outward, count), turned)


class _Frame:
    """The singular vectors and the factors that all derivatives need."""

    def __init__(self, u: Atom, s: Atom, vh: Atom) -> None:
        self.count = s.shape[-1]
        self.u, self.s, self.v = first_columns(u, self.count), s, first_columns(hermitian(vh), self.count)
        self.rows, self.columns = u.shape[-2], vh.shape[-1]
        self.extent = self.rows + self.columns  # what rounding errors grow with

    def gaps(self) -> Atom:
        """Return ``1/(s[j]**2 - s[i]**2)``, and 0 for equal ones."""
        ndim = len(self.s.shape) + 1
        shape, stack = (*self.s.shape, self.count), tuple(range(ndim - 2))
        row = broadcast(self.s, shape=shape, axes=(*stack, ndim - 2))
        column = broadcast(self.s, shape=shape, axes=(*stack, ndim - 1))
        gaps = reciprocal_gaps(self.s, rounding_error(self.s, self.extent))
        return mul(gaps, _reciprocal(add(row, column)))

    def inverse(self) -> Atom:
        """Return ``1/s``, and 0 where ``s`` is zero up to rounding."""
        noise = rounding_error(self.s, self.extent)
        stack = tuple(range(len(self.s.shape) - 1))
        usable = greater(self.s, broadcast(noise, shape=self.s.shape, axes=stack))
        return select(usable, _reciprocal(self.s), constant(0, self.s))

    def slope(self, change: Atom) -> Atom:
        """Return a tangent or cotangent of ``s`` without what belongs to singular values 0 (as for ``abs``)."""
        return select(greater(self.s, 0), change, constant(0, change))

    def outside(self, q: Atom, x: Atom) -> Atom:
        """Return the part of the columns of ``x`` that is orthogonal to those of ``q``."""
        return subtract(x, matmul(q, hermitian(q), x))


def _reciprocal(x: Atom) -> Atom:
    """Return ``1/x``, and 0 at 0."""
    usable = greater(x, 0)
    return select(usable, divide(1.0, select(usable, x, constant(1, x))), constant(0, x))


class SVD(Opaque):
    """``a = u @ diag(s) @ vh`` with ``count`` singular values; ``full`` makes ``u`` and ``vh`` square."""

    name = "svd"

    def infer(self, a: Aval, *, full: bool, count: Dim) -> tuple[Aval, Aval, Aval]:
        (*stack, rows, columns), dtype = a.shape, a.dtype
        left, right = (rows, columns) if full else (count, count)
        return (
            Aval((*stack, rows, left), dtype),
            Aval((*stack, count), real_dtype(dtype)),
            Aval((*stack, right, columns), dtype),
        )

    def impl(self, a: Any, *, full: bool, count: int) -> Any:
        u, s, vh = np.linalg.svd(plain(a), full_matrices=full)
        return u.astype(a.dtype), s.astype(real_dtype(a.dtype)), vh.astype(a.dtype)

    def jvp(self, tangents, operands, results, absorb, *, full, count):  # type: ignore[no-untyped-def]
        frame, change = _Frame(*results), tangents[0]
        u, s, v = frame.u, frame.s, frame.v
        inner = matmul(hermitian(u), change, v)
        gaps = frame.gaps()
        left = mul(gaps, add(scale_columns(inner, s), scale_rows(hermitian(inner), s)))
        right = mul(gaps, add(scale_rows(inner, s), scale_columns(hermitian(inner), s)))
        if u.dtype.kind == "c":
            phase = on_diagonal(mul(mul(imag(diagonal_of(inner)), frame.inverse()), 0.5j))
            left, right = add(left, phase), subtract(right, phase)
        u_dot, v_dot = matmul(u, left), matmul(v, right)
        if frame.rows != count:
            u_dot = add(u_dot, frame.outside(u, scale_columns(matmul(change, v), frame.inverse())))
        if frame.columns != count:
            backward = matmul(hermitian(change), u)
            v_dot = add(v_dot, frame.outside(v, scale_columns(backward, frame.inverse())))
        if full:
            u_dot = beside(results[0], u_dot, count)
            v_dot = beside(hermitian(results[2]), v_dot, count)
        return u_dot, frame.slope(real(diagonal_of(inner))), hermitian(v_dot)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, full, count):  # type: ignore[no-untyped-def]
        frame, (u_bar, s_bar, vh_bar) = _Frame(*results), cotangents
        u, v = frame.u, frame.v
        inner: Maybe = None
        outer: Maybe = None
        if s_bar is not None:
            inner = on_diagonal(convert(frame.slope(s_bar), dtype=u.dtype))
        if u_bar is not None:
            outward = _unfolded(results[0], conjugate(u_bar), count, full)
            inner = accumulate(inner, _left_part(frame, outward))
            if frame.rows != count:
                beyond = scale_columns(frame.outside(u, outward), frame.inverse())
                outer = accumulate(outer, matmul(beyond, hermitian(v)))
        if vh_bar is not None:
            outward = _unfolded(hermitian(results[2]), swap(vh_bar), count, full)
            inner = accumulate(inner, hermitian(_left_part(_mirrored(frame), outward)))
            if frame.columns != count:
                beyond = scale_columns(frame.outside(v, outward), frame.inverse())
                outer = accumulate(outer, matmul(u, hermitian(beyond)))
        if inner is not None:
            outer = accumulate(outer, matmul(u, inner, hermitian(v)))
        return (None if outer is None else conjugate(outer),)

    def batch(self, size, operands, batched, **params):  # type: ignore[no-untyped-def]
        return self(operands[0], **params)

    def kernel(self, a: Aval, *, full: bool, count: Dim) -> Kernel:
        function = kernels.svd_kernel_complex if a.dtype.kind == "c" else kernels.svd_kernel
        rows, columns = a.shape[-2:]
        left, right = (rows, columns) if full else (count, count)
        return function, (stack_size(a.shape), rows, columns, left, right, full)


def _unfolded(q: Atom, outward: Atom, count: Dim, full: bool) -> Atom:
    return folded(q, outward, count) if full else outward


def _mirrored(frame: _Frame) -> _Frame:
    """Return the frame of the Hermitian transpose."""
    return _Frame(frame.v, frame.s, hermitian(frame.u))


def _left_part(frame: _Frame, outward: Atom) -> Atom:
    """Return the gradient of ``hermitian(u) @ a @ v`` that comes through the singular vectors ``u``."""
    overlap = matmul(hermitian(frame.u), outward)
    scaled = mul(frame.gaps(), overlap)
    inner = scale_columns(add(scaled, hermitian(scaled)), frame.s)
    if overlap.dtype.kind == "c":
        phase = mul(mul(imag(diagonal_of(overlap)), frame.inverse()), 0.5j)
        inner = add(inner, on_diagonal(phase))
    return inner


class SVDVals(Opaque):
    """The singular values alone; only the derivative needs singular vectors."""

    name = "svdvals"

    def infer(self, a: Aval, *, count: Dim) -> Aval:
        return Aval((*a.shape[:-2], count), real_dtype(a.dtype))

    def impl(self, a: Any, *, count: int) -> Any:
        return np.linalg.svd(plain(a), compute_uv=False).astype(real_dtype(a.dtype))

    def jvp(self, tangents, operands, results, absorb, *, count):  # type: ignore[no-untyped-def]
        three = svd(operands[0], full=False, count=count)
        return svd.jvp(tangents, operands, three, absorb, full=False, count=count)[1:2]

    def vjp(self, cotangents, operands, results, wanted, absorb, *, count):  # type: ignore[no-untyped-def]
        three = svd(operands[0], full=False, count=count)
        outward = (None, cotangents[0], None)
        return svd.vjp(outward, operands, three, wanted, absorb, full=False, count=count)

    def batch(self, size, operands, batched, *, count):  # type: ignore[no-untyped-def]
        return self(operands[0], count=count)

    def kernel(self, a: Aval, *, count: Dim) -> Kernel:
        function = kernels.svdvals_kernel_complex if a.dtype.kind == "c" else kernels.svdvals_kernel
        return function, (stack_size(a.shape), *a.shape[-2:])


svd = SVD()
svdvals = SVDVals()

for _op in (svd, svdvals):
    _op._register()
