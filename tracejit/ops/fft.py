"""Discrete Fourier transforms along one axis, without normalisation.

With ``w = exp(-2j*pi/n)``, `fourier` sums ``w**(j*k) * x[j]`` over ``j`` (``w**(-j*k)`` where ``inverse``), a
symmetric matrix, so that it is its own transpose.  The spectrum of real numbers repeats itself, conjugated;
`half_spectrum` keeps the first ``n//2 + 1`` entries, and `from_half_spectrum` is the inverse transform of a
spectrum of which that half is given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, real_dtype
from tracejit.ir.dims import Dim, hint, prod
from tracejit.ir.tape import Atom
from tracejit.ops.base import Opaque
from tracejit.ops.complex_parts import conjugate, real
from tracejit.ops.elementwise import mul, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import iota
from tracejit.ops.logic import equal, logical_or
from tracejit.ops.reduction import size_of

__all__ = ["fourier", "from_half_spectrum", "half_spectrum"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]


# --- kernels; compiled ones find rocket-fft's functions under the names of these four -----------------------


def c2c(x, y, axes, forward, factor, threads):  # type: ignore[no-untyped-def]
    """Write the transform of complex numbers."""
    y[...] = np.fft.fft(x, axis=axes[0]) if forward else np.fft.ifft(x, axis=axes[0], norm="forward")


def c2c_sym(x, y, axes, forward, factor, threads):  # type: ignore[no-untyped-def]
    """Write all of the spectrum of real numbers."""
    c2c(x, y, axes, forward, factor, threads)


def r2c(x, y, axes, forward, factor, threads):  # type: ignore[no-untyped-def]
    """Write half of the spectrum of real numbers."""
    y[...] = np.fft.rfft(x, axis=axes[0])


def c2r(x, y, axes, forward, factor, threads):  # type: ignore[no-untyped-def]
    """Write the real numbers whose spectrum has the half ``x``."""
    y[...] = np.fft.irfft(x, y.shape[axes[0]], axis=axes[0], norm="forward")


def _complex_kernel(x, y, outer, n, inner, forward):  # type: ignore[no-untyped-def]
    if outer * inner > 0:
        shape = (outer, n, inner)
        c2c(x.reshape(shape), y.reshape(shape), np.ones(1, np.int64), forward, 1.0, 1)


def _real_kernel(x, y, outer, n, inner, forward):  # type: ignore[no-untyped-def]
    if outer * inner > 0:
        shape = (outer, n, inner)
        c2c_sym(x.reshape(shape), y.reshape(shape), np.ones(1, np.int64), forward, 1.0, 1)


def _half_kernel(x, y, outer, n, inner):  # type: ignore[no-untyped-def]
    if outer * inner > 0:
        half = y.reshape((outer, n // 2 + 1, inner))
        r2c(x.reshape((outer, n, inner)), half, np.ones(1, np.int64), True, 1.0, 1)


def _from_half_kernel(x, y, outer, n, inner):  # type: ignore[no-untyped-def]
    if outer * inner > 0:
        half = x.reshape((outer, n // 2 + 1, inner))
        c2r(half, y.reshape((outer, n, inner)), np.ones(1, np.int64), False, 1.0, 1)


# --- ops ----------------------------------------------------------------------------------------------------


class Transform(Opaque):
    """A linear map along ``axis``."""

    @abstractmethod
    def infer(self, x: Aval, **params: Any) -> Aval:
        """Return the aval of the result."""

    def impl(self, x: Any, **params: Any) -> Any:
        aval = Aval(x.shape, x.dtype)
        result, (kernel, parameters) = self.infer(aval, **params), self.kernel(aval, **params)
        y = np.empty([hint(d) for d in result.shape], result.dtype)
        kernel(x, y, *parameters)
        return y

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return (self(tangents[0], **params),)

    def batch(self, size, operands, batched, *, axis, **params):  # type: ignore[no-untyped-def]
        return self(operands[0], axis=axis + 1, **params)


def _replaced(shape: tuple[Dim, ...], axis: int, extent: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _blocks(shape: tuple[Dim, ...], axis: int, extent: Dim) -> tuple[Dim, Dim, Dim]:
    return prod(shape[:axis]), extent, prod(shape[axis + 1 :])


class Fourier(Transform):
    """The transform of real or complex numbers to complex ones."""

    name = "fourier"

    def infer(self, x: Aval, *, axis: int, inverse: bool) -> Aval:
        return x.with_dtype(np.result_type(x.dtype, np.complex64))

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, inverse):  # type: ignore[no-untyped-def]
        back = self(cotangents[0], axis=axis, inverse=inverse)
        return (back if operands[0].dtype.kind == "c" else real(back),)

    def kernel(self, x: Aval, *, axis: int, inverse: bool) -> Kernel:
        kernel = _complex_kernel if x.dtype.kind == "c" else _real_kernel
        return kernel, (*_blocks(x.shape, axis, x.shape[axis]), not inverse)


class HalfSpectrum(Transform):
    """The first ``n//2 + 1`` entries of the transform of real numbers."""

    name = "half_spectrum"

    def infer(self, x: Aval, *, axis: int) -> Aval:
        shape = _replaced(x.shape, axis, x.shape[axis] // 2 + 1)
        return Aval(shape, np.result_type(x.dtype, np.complex64))

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis):  # type: ignore[no-untyped-def]
        n = operands[0].shape[axis]
        share = _with_twins_times(0.5, conjugate(cotangents[0]), axis, n)
        return (from_half_spectrum(share, axis=axis, n=n),)

    def kernel(self, x: Aval, *, axis: int) -> Kernel:
        return _half_kernel, _blocks(x.shape, axis, x.shape[axis])


class FromHalfSpectrum(Transform):
    """The ``n`` real numbers of the inverse transform of a Hermitian spectrum, given its first half."""

    name = "from_half_spectrum"

    def infer(self, z: Aval, *, axis: int, n: Dim) -> Aval:
        assert z.shape[axis] == n // 2 + 1, (z, axis, n)
        return Aval(_replaced(z.shape, axis, n), real_dtype(z.dtype))

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, n):  # type: ignore[no-untyped-def]
        back = conjugate(half_spectrum(cotangents[0], axis=axis))
        return (_with_twins_times(2, back, axis, n),)

    def kernel(self, z: Aval, *, axis: int, n: Dim) -> Kernel:
        return _from_half_kernel, _blocks(z.shape, axis, n)


def _with_twins_times(number: float, half: Atom, axis: int, n: Dim) -> Atom:
    """Return half a spectrum with the entries scaled that stand for two: all but the first and the middle."""
    place = iota(shape=half.shape, axis=axis, dtype=INDEX)
    single = logical_or(equal(place, 0), equal(mul(place, 2), size_of(n)))
    return select(single, half, mul(half, number))


fourier = Fourier()
half_spectrum = HalfSpectrum()
from_half_spectrum = FromHalfSpectrum()

for _op in (fourier, half_spectrum, from_half_spectrum):
    _op._register()
