"""Kernels that factor and solve, on C-contiguous buffers; small matrices in plain loops, others by LAPACK.

Fortran sees the transpose of a C-contiguous matrix.  So factors are those of the transpose, and right sides
are solved for from the right: nothing is copied to be transposed.
"""

from __future__ import annotations

import numpy as np

from tracejit.ops.lapack import fortran, integer, letter

__all__ = ["cholesky_kernel", "lu_kernel", "lu_solve_kernel", "triangular_kernel"]

LOOPS = 16
"""Up to this extent plain loops beat the call of LAPACK."""

_L, _U, _N, _T, _R = map(ord, "LUNTR")


def _copy(source, target):  # type: ignore[no-untyped-def]
    """Write ``source`` into ``target``; slice assignments take Numba seconds to compile."""
    for r in range(source.shape[0]):
        for c in range(source.shape[1]):
            target[r, c] = source[r, c]


def _fill(target, value):  # type: ignore[no-untyped-def]
    for r in range(target.shape[0]):
        for c in range(target.shape[1]):
            target[r, c] = value


def lu_kernel(a, lu, pivots, size, n):  # type: ignore[no-untyped-def]
    source, target, swaps = a.reshape((size, n, n)), lu.reshape((size, n, n)), pivots.reshape((size, n))
    order, info = integer(n), integer(0)
    for i in range(size):
        factors = target[i]
        _copy(source[i], factors)
        if n <= LOOPS:
            _factor(factors, swaps[i], n)
        else:
            fortran("getrf", (order, order, factors, order, swaps[i], info))


def _factor(a, swaps, n):  # type: ignore[no-untyped-def]
    """Do what getrf does on the transpose of ``a``: row ``k`` of the transpose is column ``k`` here."""
    for k in range(n):
        best = k
        for r in range(k + 1, n):
            if abs(a[k, r]) > abs(a[k, best]):
                best = r
        swaps[k] = best + 1
        if best != k:
            for c in range(n):
                a[c, k], a[c, best] = a[c, best], a[c, k]
        if a[k, k] != 0:
            for r in range(k + 1, n):
                a[k, r] /= a[k, k]
        for c in range(k + 1, n):
            for r in range(k + 1, n):
                a[c, r] -= a[k, r] * a[c, k]


def _solve_triangle(t, x, n, k, lower, transposed, unit):  # type: ignore[no-untyped-def]
    """Replace ``x`` (``n`` rows, ``k`` columns) by the solution; ``t`` counts as triangular."""
    if n == 0 or k == 0:
        return
    if n <= LOOPS:
        _substitute(t, x, n, k, lower, transposed, unit)
        return
    side, uplo = letter(_R), letter(_U if lower else _L)
    trans, diag = letter(_T if transposed else _N), letter(_U if unit else _N)
    one = np.ones(1, t.dtype)
    fortran("trsm", (side, uplo, trans, diag, integer(k), integer(n), one, t, integer(n), x, integer(k)))


def _substitute(t, x, n, k, lower, transposed, unit):  # type: ignore[no-untyped-def]
    forward = lower != transposed
    for step in range(n):
        r = step if forward else n - 1 - step
        for done in range(step):
            c = done if forward else n - 1 - done
            factor = t[c, r] if transposed else t[r, c]
            for j in range(k):
                x[r, j] -= factor * x[c, j]
        if not unit:
            for j in range(k):
                x[r, j] /= t[r, r]


def _swap_rows(x, swaps, n, k, backward):  # type: ignore[no-untyped-def]
    for step in range(n):
        r = n - 1 - step if backward else step
        other = swaps[r] - 1
        if other != r:
            for j in range(k):
                x[r, j], x[other, j] = x[other, j], x[r, j]


def _is_singular(lu, n):  # type: ignore[no-untyped-def]
    zeros = 0
    for r in range(n):
        zeros += lu[r, r] == 0
    return zeros > 0


def lu_solve_kernel(a, b, lu, pivots, x, size, n, k, transposed, checked):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    source, target = b.reshape((size, n, k)), x.reshape((size, n, k))
    factors, swaps = lu.reshape((size, n, n)), pivots.reshape((size, n))
    for i in range(size):
        own, y = factors[i], target[i]
        _copy(source[i], y)
        if _is_singular(own, n):
            if checked:
                raise np.linalg.LinAlgError("Singular matrix")
            _fill(y, np.nan)
        else:
            _solve_with(own, swaps[i], y, n, k, transposed)


def _solve_with(factors, swaps, x, n, k, transposed):  # type: ignore[no-untyped-def]
    """Replace ``x`` by the solution: exchange rows, solve two triangles, in this order or the opposite one."""
    for step in range(4):
        if step in (0, 3):
            if transposed == (step == 0):
                _swap_rows(x, swaps, n, k, not transposed)
        else:
            lower = transposed != (step == 1)
            _solve_triangle(factors, x, n, k, lower, transposed, not lower)


def triangular_kernel(t, b, x, size, n, k, lower, transposed, unit):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    source, target, factors = b.reshape((size, n, k)), x.reshape((size, n, k)), t.reshape((size, n, n))
    for i in range(size):
        y = target[i]
        _copy(source[i], y)
        _solve_triangle(factors[i], y, n, k, lower, transposed, unit)


def cholesky_kernel(a, factor, size, n, upper):  # type: ignore[no-untyped-def]
    source, target = a.reshape((size, n, n)), factor.reshape((size, n, n))
    uplo, order, info = letter(_L if upper else _U), integer(n), integer(0)
    for i in range(size):
        own = target[i]
        _copy(source[i], own)
        if n <= LOOPS:
            info[0] = _small_cholesky(own, n, upper)
        else:
            fortran("potrf", (uplo, order, own, order, info))
        if info[0] != 0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        for r in range(n):
            for c in range(r):
                if upper:
                    own[r, c] = 0
                else:
                    own[c, r] = 0


def _small_cholesky(a, n, upper):  # type: ignore[no-untyped-def]
    """Factor in place, in one triangle; return 0, or 1 if the matrix is not positive definite."""
    for r in range(n):
        for c in range(r + 1):
            total = a[c, r] if upper else a[r, c]
            for k in range(c):
                if upper:
                    total -= a[k, r] * np.conj(a[k, c])
                else:
                    total -= a[r, k] * np.conj(a[c, k])
            if r > c:
                if upper:
                    a[c, r] = total / a[c, c]
                else:
                    a[r, c] = total / a[c, c]
            elif total.real > 0:
                a[r, r] = np.sqrt(total.real)
            else:
                return 1
    return 0
