"""Functions of ``numpy.linalg`` with arrays to try them on; matrices are stacks, and far from degenerate."""

from collections.abc import Callable
from typing import Any

import numpy as np

L = np.linalg
_RNG = np.random.default_rng(3)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.normal(size=shape)


def _complex(*shape: int) -> np.ndarray[Any, Any]:
    return _normal(*shape) + 1j * _normal(*shape)


def hermitian(x: Any) -> Any:
    """A Hermitian matrix with eigenvalues apart."""
    return x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(3.0 * np.arange(x.shape[-1]))


def positive(x: Any) -> Any:
    """A positive definite matrix."""
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])


def beside(x: Any) -> Any:
    """Projectors on what is orthogonal to the columns of tall, the rows of flat matrices."""
    u, _, vh = L.svd(x)
    count = min(x.shape)
    return u[:, count:] @ u[:, count:].T, vh[count:].T @ vh[count:]


def rebuilt(x: Any) -> Any:
    """Singular vectors, joined so that their phases do not matter."""
    u, s, vh = L.svd(x, full_matrices=False)
    return u * np.exp(1j * s) @ vh


def completed(x: Any) -> Any:
    q, r = L.qr(x, "complete")
    return q[:, 2:] @ q[:, 2:].T, r


def sizes(x: Any) -> Any:
    """Eigenvalues, and eigenvectors but for their phases."""
    w, v = L.eig(x)
    return w, np.abs(v)


A, B, TALL = _normal(2, 4, 4) + 2 * np.eye(4), _normal(2, 4, 3), _normal(2, 5, 3)
FLAT, SMALL = TALL.swapaxes(1, 2).copy(), _normal(3, 3)
Z, ZTALL = _complex(3, 3) + 2 * np.eye(3), _complex(4, 2)
ZFLAT = ZTALL.T.copy()

Case = tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]

SMOOTH: dict[str, Case] = {
    "solve": (L.solve, (A, B)),
    "solve of vectors": (lambda a, b: L.solve(a, b[0, :, 0]), (A, B)),
    "solve, stacks broadcast": (lambda a, b: L.solve(a[:, None], b), (A[:, :3, :3], _normal(4, 3, 2))),
    "solve, complex": (L.solve, (Z, _complex(3, 2))),
    "solve, mixed": (L.solve, (Z, _normal(3, 2))),
    "inv": (L.inv, (A,)),
    "matrix_power": (lambda a: L.matrix_power(a, -3), (SMALL,)),
    "tensorsolve": (L.tensorsolve, (_normal(2, 3, 6), _normal(2, 3))),
    "tensorsolve, axes": (
        lambda a, b: L.tensorsolve(a, b, axes=(0, 2)),
        (_normal(3, 4, 2, 3, 2), _normal(4, 3)),
    ),
    "tensorinv": (L.tensorinv, (_normal(2, 3, 3, 2),)),
    "det": (L.det, (A,)),
    **{f"det {n}x{n}": (L.det, (_normal(2, n, n),)) for n in (1, 2, 3, 5)},
    "det, complex": (L.det, (_complex(4, 4),)),
    "slogdet": (lambda a: L.slogdet(a)[1], (A,)),
    "slogdet, complex": (L.slogdet, (Z,)),
    "cholesky": (lambda x: L.cholesky(positive(x)), (A,)),
    "cholesky, upper": (lambda x: L.cholesky(positive(x), upper=True), (A,)),
    "cholesky, complex": (lambda x: L.cholesky(positive(x)), (Z,)),
    "cholesky, upper, complex": (lambda x: L.cholesky(positive(x), upper=True), (Z,)),
    "eigh": (lambda x: L.eigh(hermitian(x)), (A,)),
    "eigh, U": (lambda x: L.eigh(hermitian(x), "U"), (SMALL,)),
    "eigh, complex": (lambda x: np.abs(L.eigh(hermitian(x))[1]), (Z,)),
    "eigvalsh": (lambda x: L.eigvalsh(hermitian(x)), (A,)),
    "eigvalsh, complex": (lambda x: L.eigvalsh(hermitian(x), "U"), (Z,)),
    "svd, tall": (lambda x: L.svd(x, full_matrices=False), (TALL,)),
    "svd, flat": (lambda x: L.svd(x, full_matrices=False), (FLAT,)),
    "svd, square": (L.svd, (SMALL,)),
    "svd, values of a full one": (lambda x: L.svd(x)[1], (TALL,)),
    "svd, space beside": (beside, (_normal(4, 2),)),
    "svd, space below": (beside, (_normal(2, 4),)),
    "svd, complex": (rebuilt, (ZTALL,)),
    "svd, complex, flat": (rebuilt, (ZFLAT,)),
    "svd, hermitian": (lambda x: L.svd(hermitian(x), hermitian=True), (SMALL,)),
    "svdvals": (L.svdvals, (FLAT,)),
    "svdvals, complex": (L.svdvals, (Z,)),
    "qr": (L.qr, (TALL,)),
    "qr, square": (L.qr, (A,)),
    "qr, flat": (L.qr, (FLAT,)),
    "qr, r": (lambda x: L.qr(x, "r"), (FLAT,)),
    "qr, complex": (L.qr, (ZTALL,)),
    "qr, complete": (completed, (_normal(4, 2),)),
    "pinv, tall": (L.pinv, (TALL,)),
    "pinv, flat": (L.pinv, (FLAT,)),
    "pinv, complex": (L.pinv, (ZTALL,)),
    "pinv, hermitian": (lambda x: L.pinv(hermitian(x), hermitian=True), (SMALL,)),
    "lstsq": (L.lstsq, (TALL[0], _normal(5, 2))),
    "lstsq, flat": (lambda a, b: L.lstsq(a, b, rcond=None), (FLAT[0], _normal(3))),
    "norm 2": (lambda x: L.norm(x, 2), (SMALL,)),
    "norm -2": (lambda x: L.norm(x, -2, axis=(0, 2)), (TALL,)),
    "norm nuc": (lambda x: L.norm(x, "nuc", axis=(2, 1), keepdims=True), (TALL,)),
    "cond": (L.cond, (TALL,)),
    "cond -2": (lambda x: L.cond(x, -2), (TALL,)),
    "cond 1": (lambda x: L.cond(x, 1), (A,)),
    "eig, real": (lambda x: L.eig(hermitian(x)), (SMALL,)),
    "eig, complex": (sizes, (_normal(2, 4, 4),)),
    "eig of complex": (sizes, (Z,)),
    "eigvals": (L.eigvals, (_normal(4, 4),)),
}
"""Name -> function and arguments; the order of derivatives that exist is at least two."""
