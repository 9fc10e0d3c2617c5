"""Kernels of eigen- and singular value decompositions, of QR: LAPACK on a copy in Fortran's order, as NumPy does it.

The same routine on the same data gives the signs and phases that NumPy's results have.
"""

from __future__ import annotations

import numpy as np

from tracejit.ops.lapack import fortran, integer, letter

__all__ = [
    "eig_kernel",
    "eig_kernel_complex",
    "eigh_kernel",
    "eigh_kernel_complex",
    "eigvalsh_kernel",
    "eigvalsh_kernel_complex",
    "qr_kernel",
    "qr_kernel_complex",
    "svd_kernel",
    "svd_kernel_complex",
    "svdvals_kernel",
    "svdvals_kernel_complex",
]

_L, _U, _N, _V, _S, _A = map(ord, "LUNVSA")


def _turn(source, target):  # type: ignore[no-untyped-def]
    """Write the transpose of ``source``; a C-contiguous ``target`` is then ``source`` in Fortran's order."""
    for r in range(source.shape[0]):
        for c in range(source.shape[1]):
            target[c, r] = source[r, c]


def _lengths(best, least):  # type: ignore[no-untyped-def]
    """Return the length of a workspace that a query answered with."""
    return max(int(best[0].real), least)


# --- Hermitian matrices -------------------------------------------------------------------------------------


def _syevd(a, w, size, n, lower, job, vectors):  # type: ignore[no-untyped-def]
    """Find eigenvalues; leave eigenvectors in ``vectors`` if ``job`` asks for them."""
    jobz, uplo, order, info = letter(job), letter(_L if lower else _U), integer(n), integer(0)
    copy, query = np.empty((n, n), a.dtype), integer(-1)
    best, ibest = np.empty(1, a.dtype), integer(0)
    fortran("syevd", (jobz, uplo, order, copy, order, w, best, query, ibest, query, info))
    length, ilength = _lengths(best, 1), max(ibest[0], 1)
    work, iwork = np.empty(length, a.dtype), np.empty(ilength, np.int32)
    for i in range(size):
        _turn(a[i], copy)
        arguments = (
            jobz,
            uplo,
            order,
            copy,
            order,
            w[i],
            work,
            integer(length),
            iwork,
            integer(ilength),
            info,
        )
        fortran("syevd", arguments)
        if info[0] != 0:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        if job == _V:
            _turn(copy, vectors[i])


def _heevd(a, w, size, n, lower, job, vectors):  # type: ignore[no-untyped-def]
    """Do the same for complex matrices."""
    jobz, uplo, order, info = letter(job), letter(_L if lower else _U), integer(n), integer(0)
    copy, query = np.empty((n, n), a.dtype), integer(-1)
    best, rbest, ibest = np.empty(1, a.dtype), np.empty(1, w.dtype), integer(0)
    fortran("heevd", (jobz, uplo, order, copy, order, w, best, query, rbest, query, ibest, query, info))
    length, rlength, ilength = _lengths(best, 1), _lengths(rbest, 1), max(ibest[0], 1)
    work, rwork = np.empty(length, a.dtype), np.empty(rlength, w.dtype)
    iwork = np.empty(ilength, np.int32)
    sizes = integer(length), integer(rlength), integer(ilength)
    for i in range(size):
        _turn(a[i], copy)
        spaces = (work, sizes[0], rwork, sizes[1], iwork, sizes[2], info)
        fortran("heevd", (jobz, uplo, order, copy, order, w[i]) + spaces)  # noqa: RUF005  # for Numba
        if info[0] != 0:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        if job == _V:
            _turn(copy, vectors[i])


def eigh_kernel(a, w, v, size, n, lower):  # type: ignore[no-untyped-def]
    if size * n > 0:
        shape = (size, n, n)
        _syevd(a.reshape(shape), w.reshape((size, n)), size, n, lower, _V, v.reshape(shape))


def eigh_kernel_complex(a, w, v, size, n, lower):  # type: ignore[no-untyped-def]
    if size * n > 0:
        shape = (size, n, n)
        _heevd(a.reshape(shape), w.reshape((size, n)), size, n, lower, _V, v.reshape(shape))


def eigvalsh_kernel(a, w, size, n, lower):  # type: ignore[no-untyped-def]
    if size * n > 0:
        unused = np.empty((0, 0, 0), a.dtype)
        _syevd(a.reshape((size, n, n)), w.reshape((size, n)), size, n, lower, _N, unused)


def eigvalsh_kernel_complex(a, w, size, n, lower):  # type: ignore[no-untyped-def]
    if size * n > 0:
        unused = np.empty((0, 0, 0), a.dtype)
        _heevd(a.reshape((size, n, n)), w.reshape((size, n)), size, n, lower, _N, unused)


# --- singular values ----------------------------------------------------------------------------------------


def _gesdd(a, u, s, vh, size, rows, columns, job):  # type: ignore[no-untyped-def]
    """Find singular values; fill ``u`` and ``vh`` if ``job`` asks for them."""
    m, n, jobz, info = integer(rows), integer(columns), letter(job), integer(0)
    copy, iwork = np.empty((columns, rows), a.dtype), np.empty(8 * min(rows, columns), np.int32)
    left, right = _factors(a, u, vh, job)
    ldu, ldvt = integer(left.shape[1]), integer(right.shape[1])
    best, query = np.empty(1, a.dtype), integer(-1)
    fortran("gesdd", (jobz, m, n, copy, m, s, left, ldu, right, ldvt, best, query, iwork, info))
    length = _lengths(best, 1)
    work, given = np.empty(length, a.dtype), integer(length)
    for i in range(size):
        _turn(a[i], copy)
        fortran("gesdd", (jobz, m, n, copy, m, s[i], left, ldu, right, ldvt, work, given, iwork, info))
        if info[0] != 0:
            raise np.linalg.LinAlgError("SVD did not converge")
        if job != _N:
            _turn(left, u[i])
            _turn(right, vh[i])


def _gesdd_complex(a, u, s, vh, size, rows, columns, job):  # type: ignore[no-untyped-def]
    """Do the same for complex matrices."""
    m, n, jobz, info = integer(rows), integer(columns), letter(job), integer(0)
    small, large = min(rows, columns), max(rows, columns)
    copy, iwork = np.empty((columns, rows), a.dtype), np.empty(8 * small, np.int32)
    rwork = np.empty(small * max(5 * small + 7, 2 * (large + small) + 1), s.dtype)
    left, right = _factors(a, u, vh, job)
    ldu, ldvt = integer(left.shape[1]), integer(right.shape[1])
    best, query = np.empty(1, a.dtype), integer(-1)
    fortran("gesdd", (jobz, m, n, copy, m, s, left, ldu, right, ldvt, best, query, rwork, iwork, info))
    length = _lengths(best, 1)
    work, given = np.empty(length, a.dtype), integer(length)
    for i in range(size):
        _turn(a[i], copy)
        spaces = (work, given, rwork, iwork, info)
        fortran("gesdd", (jobz, m, n, copy, m, s[i], left, ldu, right, ldvt) + spaces)  # noqa: RUF005
        if info[0] != 0:
            raise np.linalg.LinAlgError("SVD did not converge")
        if job != _N:
            _turn(left, u[i])
            _turn(right, vh[i])


def _factors(a, u, vh, job):  # type: ignore[no-untyped-def]
    """Return memory for the factors in Fortran's order."""
    if job == _N:
        return np.empty((1, 1), a.dtype), np.empty((1, 1), a.dtype)
    left = np.empty((u.shape[2], u.shape[1]), a.dtype)
    return left, np.empty((vh.shape[2], vh.shape[1]), a.dtype)


def svd_kernel(a, u, s, vh, size, rows, columns, left, right, full):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    if size * rows * columns > 0:
        job = _A if full else _S
        x, values = a.reshape((size, rows, columns)), s.reshape((size, -1))
        first, last = u.reshape((size, rows, left)), vh.reshape((size, right, columns))
        _gesdd(x, first, values, last, size, rows, columns, job)


def svd_kernel_complex(a, u, s, vh, size, rows, columns, left, right, full):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    if size * rows * columns > 0:
        job = _A if full else _S
        x, values = a.reshape((size, rows, columns)), s.reshape((size, -1))
        first, last = u.reshape((size, rows, left)), vh.reshape((size, right, columns))
        _gesdd_complex(x, first, values, last, size, rows, columns, job)


def svdvals_kernel(a, s, size, rows, columns):  # type: ignore[no-untyped-def]
    if size * rows * columns > 0:
        unused = np.empty((0, 0, 0), a.dtype)
        x, values = a.reshape((size, rows, columns)), s.reshape((size, -1))
        _gesdd(x, unused, values, unused, size, rows, columns, _N)


def svdvals_kernel_complex(a, s, size, rows, columns):  # type: ignore[no-untyped-def]
    if size * rows * columns > 0:
        unused = np.empty((0, 0, 0), a.dtype)
        x, values = a.reshape((size, rows, columns)), s.reshape((size, -1))
        _gesdd_complex(x, unused, values, unused, size, rows, columns, _N)


# --- QR and general eigenvalues -----------------------------------------------------------------------------


def qr_kernel(a, q, r, size, rows, columns, width):  # type: ignore[no-untyped-def]
    if size * rows * columns > 0:
        shapes = a.reshape((size, rows, columns)), q.reshape((size, rows, width))
        _geqrf(shapes[0], shapes[1], r.reshape((size, width, columns)), size, "orgqr")


def qr_kernel_complex(a, q, r, size, rows, columns, width):  # type: ignore[no-untyped-def]
    if size * rows * columns > 0:
        shapes = a.reshape((size, rows, columns)), q.reshape((size, rows, width))
        _geqrf(shapes[0], shapes[1], r.reshape((size, width, columns)), size, "ungqr")


def _geqrf(a, q, r, size, expand):  # type: ignore[no-untyped-def]
    """Fill ``q``, with orthonormal columns (at least as many as ``a`` has), and ``r``."""
    rows, columns, width = a.shape[1], a.shape[2], q.shape[2]
    m, n, p, info, query = integer(rows), integer(columns), integer(width), integer(0), integer(-1)
    copy, tau, best = np.zeros((width, rows), a.dtype), np.empty(columns, a.dtype), np.empty(1, a.dtype)
    fortran("geqrf", (m, n, copy, m, tau, best, query, info))
    length = _lengths(best, columns)
    fortran(expand, (m, p, n, copy, m, tau, best, query, info))
    length = _lengths(best, length)
    work, given = np.empty(length, a.dtype), integer(length)
    for i in range(size):
        _turn(a[i], copy)
        fortran("geqrf", (m, n, copy, m, tau, work, given, info))
        for row in range(width):
            for column in range(columns):
                r[i, row, column] = copy[column, row] if row <= column else 0
        fortran(expand, (m, p, n, copy, m, tau, work, given, info))
        _turn(copy, q[i])


def eig_kernel(a, w, v, size, n):  # type: ignore[no-untyped-def]
    if size * n == 0:
        return
    source, values, vectors = a.reshape((size, n, n)), w.reshape((size, n)), v.reshape((size, n, n))
    no, yes, order, info, query = letter(_N), letter(_V), integer(n), integer(0), integer(-1)
    copy, right, unused = np.empty((n, n), a.dtype), np.empty((n, n), a.dtype), np.empty(1, a.dtype)
    real, imag, best = np.empty(n, a.dtype), np.empty(n, a.dtype), np.empty(1, a.dtype)
    head = (no, yes, order, copy, order, real, imag, unused, integer(1), right, order)
    fortran("geev", head + (best, query, info))  # noqa: RUF005  # for Numba
    length = _lengths(best, 1)
    tail = (np.empty(length, a.dtype), integer(length), info)
    for i in range(size):
        _turn(source[i], copy)
        fortran("geev", head + tail)
        if info[0] != 0:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        for k in range(n):
            values[i, k] = complex(real[k], imag[k])
        _pair(imag, right, vectors[i], n)


def _pair(imag, right, vectors, n):  # type: ignore[no-untyped-def]
    """Write complex eigenvectors: a conjugate pair is stored as real and imaginary part."""
    for k in range(n):
        first = k - 1 if imag[k] < 0 else k
        sign = (imag[k] > 0) - (imag[k] < 0)
        for r in range(n):
            vectors[r, k] = complex(right[first, r], sign * right[first + abs(sign), r] if sign != 0 else 0)


def eig_kernel_complex(a, w, v, size, n):  # type: ignore[no-untyped-def]
    if size * n == 0:
        return
    source, values, vectors = a.reshape((size, n, n)), w.reshape((size, n)), v.reshape((size, n, n))
    no, yes, order, info, query = letter(_N), letter(_V), integer(n), integer(0), integer(-1)
    copy, right, unused = np.empty((n, n), a.dtype), np.empty((n, n), a.dtype), np.empty(1, a.dtype)
    best, rwork = np.empty(1, a.dtype), np.empty(2 * n, a.real.dtype)
    fortran(
        "geev",
        (no, yes, order, copy, order, w, unused, integer(1), right, order, best, query, rwork, info),
    )
    length = _lengths(best, 1)
    tail = (unused, integer(1), right, order, np.empty(length, a.dtype), integer(length), rwork, info)
    for i in range(size):
        _turn(source[i], copy)
        head = (no, yes, order, copy, order, values[i])
        fortran("geev", head + tail)
        if info[0] != 0:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        _turn(right, vectors[i])
