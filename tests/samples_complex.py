"""Functions of complex numbers, and of complex and real ones together, with arrays to try them on."""

from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.default_rng(12)
Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., Any], tuple[Array, ...]]


def real(*shape: int) -> Array:
    return _RNG.uniform(0.3, 1.2, shape)


def numbers(*shape: int) -> Array:
    """Complex numbers away from branch cuts."""
    return real(*shape) + 1j * _RNG.uniform(0.2, 0.8, shape)


Z, W, X, ROW = numbers(3, 4), numbers(3, 4), real(3, 4), real(4)
SQUARE = numbers(3, 3)


def mask() -> Any:
    return np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]]) > 0


def stored(z: Any, w: Any) -> Any:
    a = z.copy()
    a[1:] = w[1:]
    a[0, ::2] *= 1j
    return a


def stored_parts(z: Any, x: Any) -> Any:
    a = z.copy()
    a.real = x
    a.imag[1:] = a.real[1:] * z.imag[1:]
    a.T.real[0] += 2
    return a


def filled(x: Any) -> Any:
    a = np.zeros_like(x, complex)
    a[1:] = 1j * x[1:]
    a[0] = x[0]
    return a


_UNARY = (
    np.negative, np.positive, np.conjugate, np.absolute, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10,
    np.log1p, np.sqrt, np.square, np.reciprocal, np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh,
    np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.real, np.imag, np.angle, np.sign, np.sinc,
)  # fmt: skip
_BINARY = (np.add, np.subtract, np.multiply, np.divide, np.power, np.float_power)
_FOLDS = (
    np.sum,
    np.mean,
    np.prod,
    np.var,
    np.cumsum,
    np.cumprod,
    np.nansum,
    np.nanmean,
    np.nanprod,
    np.nanvar,
)
_PRODUCTS = (np.dot, np.matmul, np.inner)

SMOOTH: dict[str, Case] = {
    **{f.__name__: (f, (Z,)) for f in _UNARY},
    **{f.__name__: (f, (Z, W)) for f in _BINARY},
    **{f"{f.__name__}, complex and real": (f, (Z, ROW)) for f in _BINARY},
    **{f"{f.__name__}, real and complex": (f, (ROW, Z)) for f in _BINARY},
    **{f.__name__: (f, (Z,)) for f in _FOLDS},
    **{f"{f.__name__} of rows": (lambda z, f=f: f(z, axis=1), (Z,)) for f in _FOLDS},
    **{f.__name__: (f, (SQUARE, numbers(3, 3))) for f in _PRODUCTS},
    **{f"{f.__name__}, complex and real": (f, (SQUARE, real(3, 3))) for f in _PRODUCTS},
    **{f"{f.__name__}, real and complex": (f, (real(3, 3), SQUARE)) for f in _PRODUCTS},
    "powers": (lambda z: (z**2, z**3, z**4, z**-1, z**0.5, z**1.7, z**1j), (Z,)),
    "methods": (lambda z: z.conj() * z.real + z.conjugate() * z.imag, (Z,)),
    "parts of real numbers": (lambda x: x.real * (1 + x.imag) + x.conj(), (X,)),
    "angle in degrees": (lambda z: np.angle(z, deg=True), (Z,)),
    "angle of real numbers": (lambda x: np.angle(x - 0.6) * x, (X,)),
    "literals": (lambda x: x * 1j + (2 - 1j), (X,)),
    "a base of 2": (lambda z: 2**z, (Z,)),
    "a base of 1j": (lambda z: 1j**z, (Z,)),
    "a wave": (lambda x: np.exp(1j * x), (X,)),
    "a squared modulus": (lambda z: (z * z.conj()).real, (Z,)),
    "std": (lambda z: np.std(z, 0, ddof=1), (Z,)),
    "sum in complex": (lambda x: np.sum(x, dtype=complex), (X,)),
    "sum of some": (lambda z: np.sum(z, where=mask()), (Z,)),
    "average": (lambda z, x: np.average(z, weights=x), (Z, X)),
    "diff": (np.diff, (Z,)),
    "trapezoid": (np.trapezoid, (Z,)),
    "matmul in BLAS": (np.matmul, (numbers(12, 13), numbers(13, 11))),
    "matmul in BLAS, mixed": (np.matmul, (real(12, 13), numbers(13, 11))),
    "matvec": (np.matvec, (numbers(12, 13), numbers(13))),
    "vecmat conjugates": (np.vecmat, (numbers(12), numbers(12, 11))),
    "vecdot conjugates": (np.vecdot, (Z, W)),
    "vdot conjugates": (np.vdot, (Z, W)),
    "vdot, complex and real": (np.vdot, (Z, X)),
    "vdot, real and complex": (np.vdot, (X, Z)),
    "outer": (np.outer, (Z[0], X[0])),
    "tensordot": (lambda z, w: np.tensordot(z, w, (0, 0)), (Z, W)),
    "einsum": (lambda z, x, w: np.einsum("ij,kj,kl->il", z, x, w), (Z, X, W)),
    "einsum, summed": (lambda z, x: np.einsum("ij,kj->i", z, x), (Z, X)),
    "einsum, trace": (lambda z: np.einsum("ii", z), (SQUARE,)),
    "kron": (np.kron, (Z, X)),
    "cross": (np.cross, (numbers(2, 3), real(3))),
    "trace": (np.trace, (Z,)),
    "norm": (np.linalg.norm, (Z,)),
    "norm of rows": (lambda z: np.linalg.norm(z, 3, axis=1), (Z,)),
    "where": (lambda z, w: np.where(mask(), z, w), (Z, W)),
    "where, complex and real": (lambda z, x: np.where(z.imag > 0.5, z, x), (Z, X)),
    "select": (lambda z, x: np.select([mask(), ~mask()], [z, x]), (Z, X)),
    "choose": (lambda z, x: np.choose(mask().astype(int), [z, x]), (Z, X)),
    "reshape": (lambda z: z.reshape(4, 3).T, (Z,)),
    "concatenate": (lambda z, x: np.concatenate([z, x]), (Z, X)),
    "stack": (lambda x, z: np.stack([x, z]), (X, Z)),
    "array": (lambda x: np.array([[x[0, 0], 1j * x[0, 1]]]), (X,)),
    "astype": (lambda x: x.astype(complex) * 1j, (X,)),
    "index": (lambda z: z[[0, 0, 2], 1:], (Z,)),
    "take": (lambda z: np.take(z, [0, 0, 5]), (Z,)),
    "pad": (lambda z: np.pad(z, 1, mode="reflect"), (Z,)),
    "roll": (lambda z: np.roll(z, 1, 1), (Z,)),
    "repeat": (lambda z: np.repeat(z, 2), (Z,)),
    "diag": (np.diag, (Z,)),
    "linspace": (lambda z, w: np.linspace(z, w, 4), (Z[0], W[0])),
    "meshgrid": (np.meshgrid, (Z[0], X[0])),
    "stores": (stored, (Z, W)),
    "stores of real numbers": (stored, (Z, X)),
    "stores into parts": (stored_parts, (Z, X)),
    "stores into zeros": (filled, (X,)),
    "nan_to_num": (np.nan_to_num, (Z,)),
    "solve": (np.linalg.solve, (SQUARE, real(3, 2))),
}
