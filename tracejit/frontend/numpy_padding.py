"""`numpy.pad`, axis by axis: what stands before and after the array along one axis, by mode."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracejit.frontend.numpy_joining import join, pick, span
from tracejit.frontend.numpy_moving import flipped
from tracejit.frontend.numpy_ranges import spaced
from tracejit.frontend.reducing import one_axis, strong
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, unsupported
from tracejit.frontend.symbolic import user_size
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.arithmetic import rint, subtract
from tracejit.ops.broadcasting import broadcast_to, convert, squeeze
from tracejit.ops.elementwise import mul
from tracejit.ops.linear import embed

__all__: list[str] = []

Pair = tuple[Any, Any]

_OPTIONS: dict[str, set[str]] = {
    "constant": {"constant_values"},
    "edge": set(),
    "empty": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
}


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Atom:
    x = strong(array)
    if callable(mode):
        raise unsupported("`np.pad` with a function as mode", "Build the borders with `np.concatenate`.")
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    wrong = set(kwargs) - _OPTIONS[mode]
    if wrong:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {wrong}")
    pairs = _pairs(_by_axis(pad_width, len(x.shape)), len(x.shape))
    widths = [(operator.index(a), operator.index(b)) for a, b in pairs]
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("constant", "empty") and _all_zero(kwargs.get("constant_values", 0), len(x.shape)):
        return _embedded(x, widths)
    for axis, pair in enumerate(widths):
        if any(pair):
            x = _pad_axis(x, axis, pair, mode, kwargs)
    return x


def _by_axis(pad_width: Any, ndim: int) -> Any:
    """Return the widths for all axes where they are given as a dict of some."""
    if not isinstance(pad_width, Mapping):
        return pad_width
    widths: list[Any] = [(0, 0)] * ndim
    for axis, width in pad_width.items():
        widths[one_axis(axis, ndim)] = (width, width) if np.ndim(width) == 0 else tuple(width)
    return widths


def _pairs(values: Any, ndim: int) -> list[Pair]:
    """Return (before, after) for each axis from ``v``, ``(before, after)`` or one pair per axis."""
    rows = _parts(values)
    if rows is None:
        return [(values, values)] * ndim
    pairs = [_parts(r) for r in rows]
    if all(p is None for p in pairs) and len(rows) <= 2:
        return [(rows[0], rows[-1])] * ndim
    if len(rows) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or any(p is None or len(p) > 2 for p in pairs):
        raise ValueError(f"{values!r} does not give one pair of values for each of {ndim} axes")
    return [(p[0], p[-1]) for p in pairs if p is not None]


def _parts(values: Any) -> list[Any] | None:
    """Return the entries of a sequence, None for a scalar."""
    if isinstance(values, list | tuple):
        return list(values)
    if is_traced(values) or np.ndim(values) == 0:
        return None
    return list(np.asarray(values))


def _all_zero(values: Any, ndim: int) -> bool:
    atoms = [operand(v) for pair in _pairs(values, ndim) for v in pair]
    return all(isinstance(a, Lit) and a.is_value(0) for a in atoms)


def _embedded(x: Atom, widths: list[tuple[int, int]]) -> Atom:
    shape = tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True))
    return embed(x, start=tuple(a for a, _ in widths), step=(1,) * len(shape), shape=shape)


def _pad_axis(x: Atom, axis: int, widths: tuple[int, int], mode: str, options: Mapping[str, Any]) -> Atom:
    if x.shape[axis] == 0 and mode != "constant":
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode in ("reflect", "symmetric", "wrap"):
        return _repeated(x, axis, widths, mode, options.get("reflect_type", "even"))
    borders = []
    for side, width in enumerate(widths):
        border = _BORDERS[mode](x, axis, side, width, options)
        borders.append(broadcast_to(convert(border, dtype=x.dtype), _with_extent(x, axis, width)))
    return join([borders[0], x, borders[1]], axis)


def _with_extent(x: Atom, axis: int, extent: Dim) -> tuple[Dim, ...]:
    return (*x.shape[:axis], extent, *x.shape[axis + 1 :])


# --- borders: (array, axis, side 0 or 1, width, options) -> entries that broadcast to the border ------------


def _constant(x: Atom, axis: int, side: int, width: int, options: Mapping[str, Any]) -> Atom:
    return operand(_pairs(options.get("constant_values", 0), len(x.shape))[axis][side])


def _edge(x: Atom, axis: int, side: int, width: int, options: Mapping[str, Any]) -> Atom:
    return span(x, axis, -1, None) if side else span(x, axis, 0, 1)


def _ramp(x: Atom, axis: int, side: int, width: int, options: Mapping[str, Any]) -> Atom:
    end = operand(_pairs(options.get("end_values", 0), len(x.shape))[axis][side])
    edge = squeeze(_edge(x, axis, side, width, options), axes=(axis,))
    ramp = spaced(end, edge, width, endpoint=False, dtype=x.dtype, axis=axis)
    return flipped(ramp, (axis,)) if side else ramp


def _statistic(function: Any) -> Callable[..., Atom]:
    def border(x: Atom, axis: int, side: int, width: int, options: Mapping[str, Any]) -> Atom:
        length = _pairs(options.get("stat_length"), len(x.shape))[axis][side]
        if length is not None and current().decide(">=", x.shape[axis] - length):
            x = span(x, axis, -length, None) if side else span(x, axis, 0, length)
        meaning = FUNCTIONS.get(function)
        if meaning is None:
            raise unsupported("This mode of `np.pad`", "Build the borders with `np.concatenate`.")
        value: Atom = meaning(x, axis=axis, keepdims=True)
        return rint(value) if x.dtype.kind in "iu" else value

    return border


_BORDERS: dict[str, Callable[..., Atom]] = {
    "constant": _constant,
    "edge": _edge,
    "linear_ramp": _ramp,
    "maximum": _statistic(np.max),
    "minimum": _statistic(np.min),
    "mean": _statistic(np.mean),
    "median": _statistic(np.median),
}


# --- modes that repeat the array ----------------------------------------------------------------------------


def _repeated(x: Atom, axis: int, widths: tuple[int, int], mode: str, kind: str) -> Atom:
    if kind not in ("even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', not {kind!r}")
    extent = x.shape[axis]
    skipped = int(mode == "reflect")
    if current().decide(">=", extent - skipped - max(widths)):
        before, after = _neighbours(x, axis, widths, mode, skipped)
        if kind == "odd" and mode != "wrap":
            before, after = (_mirrored(x, axis, side, b) for side, b in enumerate((before, after)))
        return join([before, x, after], axis)
    if kind == "odd":
        raise unsupported("`np.pad` with reflect_type='odd' beyond the extent", "Pad in several steps.")
    places = np.arange(current().pin(extent))
    return pick(x, axis, np.pad(places, widths, mode=mode))  # type: ignore[call-overload]


def _neighbours(x: Atom, axis: int, widths: tuple[int, int], mode: str, skipped: int) -> tuple[Atom, Atom]:
    """Return the entries for both borders where each lies within the array."""
    before, after = widths
    extent = x.shape[axis]
    if mode == "wrap":
        return span(x, axis, user_size(extent - before), None), span(x, axis, 0, after)
    first = span(x, axis, skipped, skipped + before)
    last = span(x, axis, user_size(extent - skipped - after), user_size(extent - skipped))
    return flipped(first, (axis,)), flipped(last, (axis,))


def _mirrored(x: Atom, axis: int, side: int, border: Atom) -> Atom:
    edge = broadcast_to(_edge(x, axis, side, 0, {}), border.shape)
    return subtract(mul(edge, 2), border)
