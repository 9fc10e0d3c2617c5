"""``np.linalg``: Cholesky, QR, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg._linalg import EighResult, EigResult, QRResult, SVDResult

from tracejit.frontend.concrete import guard
from tracejit.frontend.matrices import DType, stack_of_matrices
from tracejit.frontend.numpy_diagonals import smaller
from tracejit.frontend.numpy_moving import flipped
from tracejit.frontend.registry import FUNCTIONS, implements, unsupported
from tracejit.ir.aval import real_dtype
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import copysign, divide, sqrt
from tracejit.ops.broadcasting import broadcast, convert, full, reduce_sum
from tracejit.ops.complex_parts import absolute, imag, real
from tracejit.ops.decompositions import eig, qr
from tracejit.ops.elementwise import add, constant, mul
from tracejit.ops.joining import concatenate
from tracejit.ops.logic import equal
from tracejit.ops.matrices import first_columns, hermitian, identity, last_columns, matmul, scale_columns
from tracejit.ops.ordering import argsort, take_along
from tracejit.ops.reduction import reduce_all
from tracejit.ops.singular import svd, svdvals
from tracejit.ops.solving import cholesky
from tracejit.ops.spectral import eigh, eigvalsh

__all__ = ["singular_values"]


def _named(kind: Any, *atoms: Atom) -> Any:
    """Return NumPy's named tuple of atoms."""
    return kind(*atoms)


def _empty(x: Atom) -> bool:
    """Return whether the matrices have no entries."""
    return any(isinstance(d, int) and d == 0 for d in x.shape[-2:])


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Atom:
    x, dtype = stack_of_matrices(a, square=True)
    return convert(cholesky(x, upper=bool(upper)), dtype=dtype)


# --- Hermitian matrices -------------------------------------------------------------------------------------


def _lower(triangle: Any) -> bool:
    if triangle.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return bool(triangle.upper() == "L")


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    lower = _lower(UPLO)
    x, dtype = stack_of_matrices(a, square=True)
    w, v = eigh(x, lower=lower)
    return _named(EighResult, convert(w, dtype=real_dtype(dtype)), convert(v, dtype=dtype))


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Atom:
    lower = _lower(UPLO)
    x, dtype = stack_of_matrices(a, square=True)
    return convert(eigvalsh(x, lower=lower), dtype=real_dtype(dtype))


# --- singular values ----------------------------------------------------------------------------------------


def _count(x: Atom) -> Dim:
    return smaller(x.shape[-2], x.shape[-1])


def singular_values(x: Atom) -> Atom:
    """Return the singular values of matrices in double precision."""
    if _empty(x):
        return full(0, (*x.shape[:-2], 0), real_dtype(x.dtype))
    result: Atom = svdvals(x, count=_count(x))
    return result


@implements(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Atom:
    a, dtype = stack_of_matrices(x)
    return convert(singular_values(a), dtype=real_dtype(dtype))


@implements(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if hermitian:
        return _svd_of_hermitian(a, compute_uv)
    if not compute_uv:
        return _svdvals(a)
    x, dtype = stack_of_matrices(a)
    if _empty(x):
        return _svd_of_nothing(x, dtype, full_matrices)
    square = x.shape[-2] == x.shape[-1]
    u, s, vh = svd(x, full=bool(full_matrices) and not square, count=_count(x))
    return _named(
        SVDResult, convert(u, dtype=dtype), convert(s, dtype=real_dtype(dtype)), convert(vh, dtype=dtype)
    )


def _svd_of_nothing(x: Atom, dtype: DType, full_matrices: bool) -> Any:
    *stack, rows, columns = x.shape
    left, right = (rows, columns) if full_matrices else (0, 0)
    u = identity((*stack, rows, rows), dtype) if left else full(0, (*stack, rows, left), dtype)
    vh = identity((*stack, columns, columns), dtype) if right else full(0, (*stack, right, columns), dtype)
    return _named(SVDResult, u, full(0, (*stack, 0), real_dtype(dtype)), vh)


def _svd_of_hermitian(a: Any, compute_uv: bool) -> Any:
    """Return singular values from eigenvalues, in descending order; the signs go into ``vh``."""
    if not compute_uv:
        sizes = absolute(_eigvalsh(a))
        last = len(sizes.shape) - 1
        return flipped(FUNCTIONS[np.sort](sizes), (last,))
    w, u = _eigh(a)
    last = len(w.shape) - 1
    order = flipped(argsort(absolute(w), axis=last), (last,))
    w = take_along(w, order, last)
    along = broadcast(order, shape=u.shape, axes=(*range(last), last + 1))
    u = take_along(u, along, last + 1)
    sign = convert(copysign(constant(1, w), w), dtype=u.dtype)
    return _named(SVDResult, u, absolute(w), hermitian(scale_columns(u, sign)))


# --- QR -----------------------------------------------------------------------------------------------------


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    if mode == "raw":
        raise unsupported("`np.linalg.qr` with mode='raw'", "Use mode='reduced' or mode='complete'.")
    x, dtype = stack_of_matrices(a)
    q, r = _factors(x, mode == "complete")
    if mode == "r":
        return convert(r, dtype=dtype)
    return _named(QRResult, convert(q, dtype=dtype), convert(r, dtype=dtype))


def _factors(x: Atom, complete: bool) -> tuple[Atom, Atom]:
    """Return ``q`` and ``r``; what stands right of a square is only multiplied."""
    *stack, rows, columns = x.shape
    count = _count(x)
    width = rows if complete else count
    if isinstance(count, int) and count == 0:
        q = identity((*stack, rows, rows), x.dtype) if width else full(0, (*stack, rows, 0), x.dtype)
        return q, full(0, (*stack, width, columns), x.dtype)
    q, r = qr(first_columns(x, count), width=width)
    if columns != count:
        rest = matmul(hermitian(q), last_columns(x, count))
        r = concatenate(r, rest, axis=len(stack) + 1)
    return q, r


# --- general matrices ---------------------------------------------------------------------------------------


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    x, dtype = stack_of_matrices(a, square=True)
    w, v = eig(x)
    if _all_real(x, w):
        w, v = real(w), real(v)
    v = scale_columns(v, divide(1.0, _lengths(v)))
    return _named(EigResult, _narrowed(w, dtype), _narrowed(v, dtype))


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Atom:
    x, dtype = stack_of_matrices(a, square=True)
    w, _ = eig(x)
    return _narrowed(real(w) if _all_real(x, w) else w, dtype)


def _all_real(x: Atom, w: Atom) -> bool:
    """Return whether NumPy's result is real: of real matrices without complex eigenvalues."""
    if x.dtype.kind == "c":
        return False
    return bool(guard(reduce_all(equal(imag(w), 0), axes=tuple(range(len(w.shape))))))


def _lengths(v: Atom) -> Atom:
    squares = add(mul(real(v), real(v)), mul(imag(v), imag(v))) if v.dtype.kind == "c" else mul(v, v)
    return sqrt(reduce_sum(squares, axes=(len(v.shape) - 2,)))


def _narrowed(x: Atom, dtype: DType) -> Atom:
    """Return ``x`` in the precision of ``dtype``, real or complex as it is."""
    single = real_dtype(dtype) == np.float32
    kinds = {"f": (np.float64, np.float32), "c": (np.complex128, np.complex64)}
    return convert(x, dtype=kinds[x.dtype.kind][single])
