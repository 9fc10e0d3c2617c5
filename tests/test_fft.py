"""``numpy.fft``: values and dtypes as NumPy's, both modes of differentiation, sizes, errors, frequencies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import pytest
from against_numpy import outcome
from numpy.testing import assert_allclose, assert_array_equal

import tracejit as tj
from tracejit import pipeline
from tracejit.errors import UnsupportedError
from tracejit.runtime.kernel import compiled_kernels

F = np.fft
_RNG = np.random.default_rng(8)
REAL = _RNG.normal(size=(3, 4, 5))
COMPLEX = REAL + 1j * _RNG.normal(size=REAL.shape)
NORMS = ("backward", "ortho", "forward")
Function = Callable[..., Any]
Array = np.ndarray[Any, Any]

FORMS: dict[str, tuple[Function, Array]] = {
    **{f"{f.__name__} of real numbers": (f, REAL) for f in (F.fft, F.ifft, F.rfft, F.ihfft, F.fftn, F.rfftn)},
    **{f"{f.__name__} of complex numbers": (f, COMPLEX) for f in (F.fft, F.ifft, F.irfft, F.hfft, F.irfftn)},
    **{f"{f.__name__}, two axes": (f, COMPLEX) for f in (F.fft2, F.ifft2, F.irfft2)},
    **{f"fft, {norm}": (lambda x, norm=norm: F.fft(x, norm=norm), COMPLEX) for norm in NORMS},
    **{f"ifft, {norm}": (lambda x, norm=norm: F.ifft(x, norm=norm), REAL) for norm in NORMS},
    **{f"rfft, {norm}": (lambda x, norm=norm: F.rfft(x, norm=norm), REAL) for norm in NORMS},
    **{f"irfft, {norm}": (lambda x, norm=norm: F.irfft(x, norm=norm), COMPLEX) for norm in NORMS},
    **{f"hfft, {norm}": (lambda x, norm=norm: F.hfft(x, norm=norm), COMPLEX) for norm in NORMS},
    **{f"ihfft, {norm}": (lambda x, norm=norm: F.ihfft(x, norm=norm), REAL) for norm in NORMS},
    **{f"fft, axis {axis}": (lambda x, axis=axis: F.fft(x, axis=axis), COMPLEX) for axis in (0, 1, -3)},
    **{f"rfft, axis {axis}": (lambda x, axis=axis: F.rfft(x, axis=axis), REAL) for axis in (0, 1)},
    **{f"irfft, axis {axis}": (lambda x, axis=axis: F.irfft(x, axis=axis), COMPLEX) for axis in (0, 1)},
    **{f"fft, n = {n}": (lambda x, n=n: F.fft(x, n), COMPLEX) for n in (1, 3, 8)},
    **{f"rfft, n = {n}": (lambda x, n=n: F.rfft(x, n), REAL) for n in (1, 2, 3, 4, 8)},
    **{f"irfft, n = {n}": (lambda x, n=n: F.irfft(x, n), COMPLEX) for n in (1, 2, 3, 4, 7, 8, 12)},
    **{f"hfft, n = {n}": (lambda x, n=n: F.hfft(x, n), COMPLEX) for n in (3, 4, 12)},
    "irfft of real numbers": (F.irfft, REAL),
    "hfft of real numbers": (F.hfft, REAL),
    "fftn, s and axes": (lambda x: F.fftn(x, (6, 3), (2, 0)), COMPLEX),
    "fftn, one s as it is": (lambda x: F.fftn(x, (-1, 3), (0, 1), "ortho"), COMPLEX),
    "fftn, an axis twice": (lambda x: F.fftn(x, axes=(1, 1)), COMPLEX),
    "ifftn, axes": (lambda x: F.ifftn(x, axes=(0, -1), norm="forward"), REAL),
    "rfftn, s and axes": (lambda x: F.rfftn(x, (6, 3), (2, 0)), REAL),
    "rfft2, ortho": (lambda x: F.rfft2(x, norm="ortho"), REAL),
    "irfftn, s and axes": (lambda x: F.irfftn(x, (6, 5), (2, 0)), COMPLEX),
    "fftshift": (F.fftshift, REAL),
    "ifftshift": (F.ifftshift, REAL),
    "fftshift, an axis": (lambda x: F.fftshift(x, 2), COMPLEX),
    "ifftshift, axes": (lambda x: F.ifftshift(x, (0, -1)), COMPLEX),
    "there and back": (lambda x: F.irfft(F.rfft(x) ** 2, x.shape[-1]), REAL),
    "spectral derivative": (lambda x: F.ifft(1j * F.fftfreq(5, 0.1) * F.fft(x)).real, REAL),
}
CASES = [pytest.param(f, x, id=name) for name, (f, x) in FORMS.items()]


def same(got: Any, want: Any, digits: float = 1e-13) -> None:
    assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
    assert_allclose(got, want, rtol=digits, atol=10 * digits)


@pytest.mark.parametrize(("function", "x"), CASES)
def test_values(function: Function, x: Array) -> None:
    want = function(x)
    same(tj.jit(function)(x), want)
    with pipeline.interpret():
        same(tj.jit(function)(x), want)


@pytest.mark.parametrize(("function", "x"), CASES)
def test_derivatives(function: Function, x: Array) -> None:
    op_table.check_derivatives(pipeline.trace_tape(function, (x,), {}), (x,), 2, 1e-11)


@pytest.mark.parametrize("function", [F.fft, F.ifft, F.rfft, F.irfft, F.hfft, F.ihfft])
@pytest.mark.parametrize("kind", "?bBiQefdgFDG")
def test_dtypes(function: Function, kind: str) -> None:
    x = np.arange(4).astype(kind)
    want = outcome(lambda: function(x))
    got = outcome(lambda: tj.jit(function)(x))
    if isinstance(want, Exception):
        assert isinstance(want, TypeError) and isinstance(got, TypeError)
        return
    same(got, want, {"e": 1e-3, "f": 1e-6, "F": 1e-6}.get(want.dtype.char, 1e-14))


def energy(x: Any) -> Any:
    """A real function of everything that a half spectrum holds."""
    y = F.rfft(x, norm="ortho")
    return np.sum(np.abs(y) ** 2 * np.arange(1.0, 1.0 + y.shape[-1]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 12, 13, 31, 64, 97, 100, 101, 1009, 1024])
def test_compiled_gradients_of_any_length(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    y = F.rfft(x, norm="ortho") * np.arange(1, n // 2 + 2)
    wave = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n) / np.sqrt(n)
    assert_allclose(tj.grad(energy)(x), 2 * (wave @ y).real, rtol=1e-11, atol=1e-10 * n)


@pytest.mark.parametrize("n", [2, 7, 64, 97, 360, 4096, 10007])
@pytest.mark.parametrize("kind", "FD")
def test_accuracy(n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    z = (rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n))).astype(kind)
    exact = F.fft(z.astype(np.clongdouble))
    error = np.linalg.norm((tj.jit(F.fft)(z) - exact).astype(complex)) / np.linalg.norm(exact.astype(complex))
    assert error < 2 * np.finfo(kind).eps * np.log2(n)


def test_float32_stays_float32() -> None:
    x = np.arange(12, dtype=np.float32)
    assert tj.grad(energy)(x).dtype == np.float32
    assert tj.jit(F.fft)(x).dtype == np.complex64


@pytest.mark.parametrize(
    "function",
    [
        F.fft,
        lambda x: F.irfft(F.rfft(x), x.shape[0]),
        lambda x: F.rfft(x, 2 * x.shape[0] + 1, norm="ortho"),
        lambda x: F.ifft(x, x.shape[0] // 2, norm="forward"),
        F.fftshift,
        F.ifftshift,
        lambda x: x * F.fftfreq(x.shape[0], 0.5),
        lambda x: x[: x.shape[0] // 2 + 1] * F.rfftfreq(len(x)),
    ],
)
def test_new_sizes_are_not_compiled_anew(function: Function) -> None:
    compiled = tj.jit(function)
    for n in (20, 21, 10, 37):
        x = np.sin(np.arange(float(n)))
        same(compiled(x), function(x))
        if n == 20:
            before = compiled_kernels()
    assert compiled_kernels() == before


@pytest.mark.parametrize("n", [9, 10, 16, 25])
@pytest.mark.parametrize("d", [1.0, 0.1, 3])
def test_frequencies_are_numpys(n: int, d: float) -> None:
    x = np.zeros(n)
    for function in (F.fftfreq, F.rfftfreq):
        want = function(n, d)
        assert_array_equal(tj.jit(lambda x, f=function: f(x.shape[0], d))(x), want)
        assert_array_equal(tj.jit(lambda x, f=function: f(n, d) + 0 * x[0])(x), want)


def test_frequencies_of_a_traced_spacing() -> None:
    slope = tj.jacobian(lambda d: F.fftfreq(12, d))(0.5)
    assert_allclose(slope, -F.fftfreq(12, 0.5) / 0.5, rtol=1e-15)


@pytest.mark.parametrize(
    ("use", "shape"),
    [
        (F.fft, (3, 0)),
        (lambda x: F.fft(x, 0), (3,)),
        (lambda x: F.ifft(x, -1), (3,)),
        (F.irfft, (1,)),
        (F.fft, ()),
        (lambda x: F.fft(x, axis=1), (3,)),
        (lambda x: F.fft(x, n=2.5), (3,)),
        (lambda x: F.fft(x, norm="unitary"), (3,)),
        (F.fft2, (3,)),
        (F.rfftn, ()),
        (lambda x: F.irfftn(x, axes=()), (3, 3)),
        (lambda x: F.fftn(x, s=(2, 2), axes=(0,)), (3, 3)),
        (lambda x: F.fftn(x, axes=1), (3, 3)),
        (lambda x: F.fftshift(x, 2), (3, 3)),
        (lambda x: F.rfft(1j * x), (3,)),
    ],
)
def test_bad_input_raises_as_numpy_does(use: Function, shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    want = outcome(lambda: use(x))
    kind = next(k for k in (ValueError, IndexError, TypeError) if isinstance(want, k))
    with pytest.raises(kind):
        tj.jit(use)(x)


def test_deprecated_forms_warn_at_the_users_line() -> None:
    x = np.ones((3, 3))
    for use in (lambda x: F.fftn(x, s=(2, 2)), lambda x: F.ifftn(x, s=(None, 3), axes=(0, 1))):
        with pytest.warns(DeprecationWarning, match="NumPy 2.0") as caught:
            got = tj.jit(use)(x)
        assert caught[0].filename == __file__
        with pytest.warns(DeprecationWarning):
            same(got, use(x))


def test_output_arrays_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np.fft.fft.*out="):
        tj.jit(lambda x: F.fft(x, out=np.empty(3, complex)))(np.ones(3))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0, 4)])
def test_no_transforms_at_all(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    for function in (F.fft, F.rfft, F.irfft):
        same(tj.jit(function)(x), function(x))
    assert tj.grad(lambda x: np.sum(np.abs(F.rfft(x))))(x).shape == shape


def test_transforms_without_axes() -> None:
    for x in (np.ones((2, 2)), np.ones((2, 2), int)):
        same(tj.jit(lambda x: F.fftn(x, axes=()))(x), x)


def test_batches() -> None:
    assert_allclose(tj.vmap(F.fft)(REAL), F.fft(REAL), atol=1e-13)
    over_last = tj.vmap(lambda x: F.irfft(x, 6, axis=0), in_axes=2, out_axes=2)
    assert_allclose(over_last(COMPLEX), F.irfft(COMPLEX, 6, axis=0), atol=1e-13)
