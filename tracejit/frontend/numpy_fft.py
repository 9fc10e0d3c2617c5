"""``numpy.fft``: transforms of any length and norm along any axes, shifts, and sample frequencies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.errors import ShapeError
from tracejit.frontend.by_name import replaces
from tracejit.frontend.numpy_joining import join, span
from tracejit.frontend.reducing import one_axis, refuse_out, strong
from tracejit.frontend.registry import implements, operand, size
from tracejit.frontend.symbolic import user_size
from tracejit.ir.aval import real_dtype
from tracejit.ir.dims import Dim, hint
from tracejit.ir.tape import Atom, current
from tracejit.ops.arithmetic import divide, reciprocal, sqrt, subtract
from tracejit.ops.broadcasting import convert
from tracejit.ops.complex_parts import conjugate
from tracejit.ops.elementwise import mul, select
from tracejit.ops.fft import fourier, from_half_spectrum, half_spectrum
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import embed, iota, slice_
from tracejit.ops.logic import less
from tracejit.ops.reduction import size_of
from tracejit.tracebacks import warn_user

__all__: list[str] = []

Along = Callable[..., Atom]

_NORMS = {None: "backward", "backward": "backward", "ortho": "ortho", "forward": "forward"}
_OTHER_WAY = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


# --- arguments ----------------------------------------------------------------------------------------------


def _norm(norm: Any) -> str:
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return _NORMS[norm]


def _samples(a: Any) -> Atom:
    """Return an operand in a dtype that transforms are computed in."""
    x = strong(a)
    if x.dtype.kind in "biu":
        return convert(x, dtype=np.float64)
    return convert(x, dtype=np.float32) if x.dtype.char == "e" else x


def _complex(x: Atom) -> Atom:
    return convert(x, dtype=np.result_type(x.dtype, np.complex64))


def _real_samples(a: Any, name: str) -> Atom:
    x = _samples(a)
    if x.dtype.kind == "c":
        raise TypeError(
            f"`np.fft.{name}` takes real numbers, and {x.dtype} cannot be cast to them: "
            "take `.real` first, or use `np.fft.fft`"
        )
    return x


def _points(n: Dim) -> Dim:
    """Return the length of a transform; raise if there is nothing to transform."""
    if not current().decide(">=", n - 1):
        raise ShapeError(
            f"Invalid number of FFT data points ({hint(n)}) specified.",
            where=current().source(),
            hint="A transform needs at least one point.",
        )
    return n


def _fitted(x: Atom, axis: int, n: Dim) -> Atom:
    """Return ``x`` with ``n`` entries along an axis: cut, or with zeros behind."""
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    if shape == x.shape:
        return x
    start, step = (0,) * len(shape), (1,) * len(shape)
    if current().decide(">=", x.shape[axis] - n):
        return slice_(x, start=start, size=shape, step=step)
    return embed(x, start=start, step=step, shape=shape)


def _scaled(x: Atom, n: Dim, norm: str) -> Atom:
    """Return ``x`` with the factor of a norm whose other direction has none if it is "backward"."""
    if norm == "backward":
        return x
    count = size_of(n, real_dtype(x.dtype))
    return mul(x, reciprocal(sqrt(count) if norm == "ortho" else count))


# --- along one axis -----------------------------------------------------------------------------------------


def _complex_transform(x: Atom, n: Any, axis: Any, norm: Any, inverse: bool) -> Atom:
    norm, axis = _norm(norm), one_axis(axis, len(x.shape))
    count = _points(x.shape[axis] if n is None else size(n))
    y = fourier(_fitted(x, axis, count), axis=axis, inverse=inverse)
    return _scaled(y, count, _OTHER_WAY[norm] if inverse else norm)


@implements(np.fft.fft)
def _fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.fft")
    return _complex_transform(_samples(a), n, axis, norm, inverse=False)


@implements(np.fft.ifft)
def _ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.ifft")
    return _complex_transform(_samples(a), n, axis, norm, inverse=True)


def _to_half(x: Atom, n: Any, axis: Any, norm: str) -> Atom:
    axis = one_axis(axis, len(x.shape))
    count = _points(x.shape[axis] if n is None else size(n))
    return _scaled(half_spectrum(_fitted(x, axis, count), axis=axis), count, norm)


@implements(np.fft.rfft)
def _rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.rfft")
    return _to_half(_real_samples(a, "rfft"), n, axis, _norm(norm))


@implements(np.fft.ihfft)
def _ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.ihfft")
    return conjugate(_to_half(_real_samples(a, "ihfft"), n, axis, _OTHER_WAY[_norm(norm)]))


def _from_half(a: Any, n: Any, axis: Any, norm: str, conjugated: bool = False) -> Atom:
    """Return the real numbers of a spectrum; ``norm`` counts as that of the direction taken."""
    z = _complex(_samples(a))
    axis = one_axis(axis, len(z.shape))
    count = _points(2 * (z.shape[axis] - 1) if n is None else size(n))
    half = _fitted(z, axis, count // 2 + 1)
    y = from_half_spectrum(conjugate(half) if conjugated else half, axis=axis, n=count)
    given = operand(a).dtype
    return convert(_scaled(y, count, norm), dtype=given if given.char == "e" else y.dtype)


@implements(np.fft.irfft)
def _irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.irfft")
    return _from_half(a, n, axis, _OTHER_WAY[_norm(norm)])


@implements(np.fft.hfft)
def _hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.hfft")
    return _from_half(a, n, axis, _norm(norm), conjugated=True)


# --- along several axes -------------------------------------------------------------------------------------


def _extents(x: Atom, s: Any, axes: Any, halved: bool = False) -> tuple[list[Any], list[int]]:
    """Return the lengths and the axes of a transform along several; ``halved`` if ``x`` is half a spectrum."""
    if axes is None:
        if s is not None:
            _deprecated("`axes` should not be `None` if `s` is not `None`")
        axes = range(-len(x.shape if s is None else s), 0)
    places = [one_axis(operator.index(a), len(x.shape)) for a in axes]
    lengths: list[Any] = [x.shape[a] for a in places] if s is None else list(s)
    if len(lengths) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    if None in lengths:
        _deprecated("Passing an array containing `None` values to `s`")
    if halved and s is None and places:
        lengths[-1] = 2 * (x.shape[places[-1]] - 1)
    whole = [v is not None and v == -1 for v in lengths]
    return [x.shape[a] if w else v for v, a, w in zip(lengths, places, whole, strict=True)], places


def _deprecated(what: str) -> None:
    warn_user(f"{what} is deprecated since NumPy 2.0, and will raise an error.", DeprecationWarning)


def _last_of(places: Sequence[int]) -> None:
    if not places:
        raise IndexError("a transform of real numbers needs at least one axis")


def _several(a: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Atom:
    lengths, places = _extents(strong(a), s, axes)
    x = _samples(a) if places else strong(a)
    for n, axis in reversed(list(zip(lengths, places, strict=True))):
        x = _complex_transform(x, n, axis, norm, inverse)
    return x


@implements(np.fft.fftn)
def _fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.fftn")
    return _several(a, s, axes, norm, inverse=False)


@implements(np.fft.ifftn)
def _ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.ifftn")
    return _several(a, s, axes, norm, inverse=True)


@implements(np.fft.fft2)
def _fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Atom:
    return _fftn(a, s, axes, norm, out)


@implements(np.fft.ifft2)
def _ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Atom:
    return _ifftn(a, s, axes, norm, out)


@implements(np.fft.rfftn)
def _rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.rfftn")
    x = _real_samples(a, "rfftn")
    lengths, places = _extents(x, s, axes)
    _last_of(places)
    y = _to_half(x, lengths.pop(), places.pop(), _norm(norm))
    for n, axis in reversed(list(zip(lengths, places, strict=True))):
        y = _complex_transform(y, n, axis, norm, inverse=False)
    return y


@implements(np.fft.irfftn)
def _irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Atom:
    refuse_out(out, "fft.irfftn")
    z = strong(a)
    lengths, places = _extents(z, s, axes, halved=True)
    _last_of(places)
    *inner, last = zip(lengths, places, strict=True)
    for n, axis in inner:
        z = _complex_transform(_samples(z), n, axis, norm, inverse=True)
    return _from_half(z, *last, _OTHER_WAY[_norm(norm)])


@implements(np.fft.rfft2)
def _rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Atom:
    return _rfftn(a, s, axes, norm, out)


@implements(np.fft.irfft2)
def _irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Atom:
    return _irfftn(a, s, axes, norm, out)


# --- shifts and frequencies ---------------------------------------------------------------------------------


def _turned(x: Any, axes: Any, first: Callable[[Dim], Dim]) -> Atom:
    """Return ``x`` such that the entry number ``first(n)`` comes first along each of the axes."""
    y = strong(x)
    if axes is None:
        axes = range(len(y.shape))
    for a in axes if isinstance(axes, Sequence) else np.atleast_1d(axes):
        axis = one_axis(operator.index(a), len(y.shape))
        start = user_size(first(y.shape[axis]))
        y = join([span(y, axis, start, None), span(y, axis, 0, start)], axis)
    return y


@implements(np.fft.fftshift)
def _fftshift(x: Any, axes: Any = None) -> Atom:
    return _turned(x, axes, lambda n: n - n // 2)


@implements(np.fft.ifftshift)
def _ifftshift(x: Any, axes: Any = None) -> Atom:
    return _turned(x, axes, lambda n: n // 2)


def _bins(n: Any, count: Dim, d: Any) -> tuple[Atom, Atom]:
    """Return the numbers of the bins, and the distance of their frequencies."""
    places = iota(shape=(count,), axis=0, dtype=INDEX)
    return places, divide(1.0, mul(operand(n), operand(d)))


@replaces("numpy.fft", "fftfreq")
def _fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Atom:
    count = size(n)
    places, width = _bins(n, count, d)
    wrapped = select(less(places, size_of((count - 1) // 2 + 1)), places, subtract(places, size_of(count)))
    return mul(wrapped, width)


@replaces("numpy.fft", "rfftfreq")
def _rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Atom:
    places, width = _bins(n, size(n) // 2 + 1, d)
    return mul(places, width)
