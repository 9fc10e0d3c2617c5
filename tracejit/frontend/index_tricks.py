"""Objects that are called with brackets: `numpy.mgrid`, `ogrid`, `r_`, `c_`.

NumPy does not dispatch them.  Traced code gets objects in their place (see `replacements`) that ask NumPy's own as long
as nothing between the brackets is traced.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_creation import CREATORS, lifted, plain_bound
from tracejit.frontend.numpy_joining import join
from tracejit.frontend.numpy_ranges import linspace
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, is_traced, operand, size, unsupported
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, expand_dims
from tracejit.ops.elementwise import add, common_dtype, mul
from tracejit.ops.linear import iota

__all__ = ["INDEX_TRICKS"]


def _ends(part: slice) -> tuple[Any, Any, Any]:
    """Return start, stop and step of a slice; traced integers are plain ones, of which the trace then holds."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    return plain_bound(start), plain_bound(part.stop), plain_bound(step)


def _number_of(step: Any) -> int | None:
    """Return how many entries an imaginary step asks for; None if it is no such."""
    imaginary = step.dtype.kind == "c" if is_traced(step) else isinstance(step, complex | np.complexfloating)
    if not imaginary:
        return None
    return int(abs(guard(step.atom) if is_traced(step) else step))


def _extent(start: Any, stop: Any, step: Any) -> Dim:
    """Return how many entries lie between the ends of a range."""
    whole = [hasattr(v, "_tracejit_dim") or isinstance(v, int | np.integer) for v in (start, stop, step)]
    if not all(whole):
        start, stop, step = (
            operator.index(v) if hasattr(v, "_tracejit_dim") else v for v in (start, stop, step)
        )
        if any(map(is_traced, (start, stop, step))):
            raise unsupported(
                "A grid between traced ends, whose length would depend on values,",
                "Give the number of points: `np.mgrid[a:b:5j]`, or use `np.linspace(a, b, num)`.",
            )
        return max(math.ceil((stop - start) / step), 0)
    by = int(step)
    length = size(stop) - size(start) if by > 0 else size(start) - size(stop)
    return (length + abs(by) - 1) // abs(by) if current().decide(">=", length) else 0


def _plain_length(start: Any, stop: Any, count: int) -> Any:
    return (stop - start) / float(count - 1) if count != 1 else 1


@dataclass(frozen=True)
class _Axis:
    """One axis of a grid: ``count`` numbers from ``start`` by ``step``; ``ends`` say which dtype they need."""

    count: Dim
    start: Any
    step: Any
    ends: tuple[Any, ...]

    @classmethod
    def of(cls, part: slice) -> _Axis:
        start, stop, step = _ends(part)
        count = _number_of(step)
        if count is None:
            return cls(_extent(start, stop, step), start, step, (start, stop, step))
        return cls(count, start, _plain_length(start, stop, count), (start, stop, float(count)))

    def values(self, dtype: Any) -> Atom:
        place = iota(shape=(self.count,), axis=0, dtype=dtype)
        step, start = (convert(operand(v), dtype=_meeting(dtype, v)) for v in (self.step, self.start))
        result_type = np.result_type(dtype, step.dtype, start.dtype)
        scaled = mul(
            convert(place, dtype=result_type), broadcast_to(convert(step, dtype=result_type), place.shape)
        )
        result: Atom = add(scaled, broadcast_to(convert(start, dtype=result_type), place.shape))
        return result


def _meeting(dtype: Any, value: Any) -> Any:
    """Return the dtype that a number gets where it meets an array of ``dtype``."""
    return common_dtype([operand(value).aval, operand(np.zeros(0, dtype)).aval])


def _dtype(axes: list[_Axis]) -> Any:
    """Return the dtype of a grid: of default integers, or what the ends need."""
    return common_dtype([operand(0).aval, *(operand(e).aval for axis in axes for e in axis.ends)])


def _dense(axes: list[_Axis]) -> Any:
    vectors = _open(axes)
    shape = broadcast_shapes(*(v.shape for v in vectors))
    dtype = common_dtype([v.aval for v in vectors])
    return FUNCTIONS[np.stack]([broadcast_to(convert(v, dtype=dtype), shape) for v in vectors])


def _open(axes: list[_Axis]) -> tuple[Atom, ...]:
    dtype = _dtype(axes)
    return tuple(lifted(axis.values(dtype), place, len(axes)) for place, axis in enumerate(axes))


def _grid(arrange: Callable[[list[_Axis]], Any]) -> Callable[[Any], Any]:
    def meaning(key: Any) -> Any:
        if isinstance(key, tuple):
            return arrange([_Axis.of(part) for part in key])
        return _range(key)

    return meaning


def _range(part: slice) -> Atom:
    """Return the numbers that a single slice stands for."""
    start, stop, step = _ends(part)
    count = _number_of(step)
    if count is None:
        return strong(CREATORS[np.arange](start, stop, step))
    return _Axis.of(part).values(_dtype([_Axis.of(part)]))


# --- r_ and c_ ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Joining:
    """How parts are joined: along ``axis``, after those of fewer than ``ndmin`` axes were lifted to that.

    An array's own axes begin at axis ``begin`` of the lifted one; -1 puts them last.
    """

    axis: int
    ndmin: int
    begin: int

    def directed(self, directive: str) -> _Joining:
        """Return what a first entry like ``"0,2,1"`` asks for."""
        if directive in ("r", "c"):
            raise unsupported(
                "`np.r_['r', ...]`, which makes a matrix,", "Join with `np.r_[...]`, then reshape."
            )
        try:
            numbers = [int(word) for word in directive.split(",")]
            axis, ndmin, begin = [*numbers, *(self.axis, self.ndmin, self.begin)[len(numbers) :]]
        except ValueError:
            raise ValueError(f"unknown special directive {directive!r}") from None
        return _Joining(axis, ndmin, begin)

    def lifted(self, atom: Atom) -> Atom:
        missing = self.ndmin - len(atom.shape)
        if missing <= 0:
            return atom
        before = self.begin if self.begin >= 0 else self.begin + missing + 1
        own = range(before, before + len(atom.shape))
        return expand_dims(atom, axes=tuple(a for a in range(self.ndmin) if a not in own))

    def __call__(self, key: Any) -> Atom:
        parts = list(key) if isinstance(key, tuple) else [key]
        how = self.directed(parts.pop(0)) if parts and isinstance(parts[0], str) else self
        if any(isinstance(part, str) for part in parts):
            raise ValueError("special directives must be the first entry.")
        atoms = [_spaced(p) if isinstance(p, slice) else operand(p) for p in parts]
        dtype = common_dtype([a.aval for a in atoms])
        return join([how.lifted(convert(a, dtype=dtype)) for a in atoms], how.axis)


def _spaced(part: slice) -> Atom:
    """Return the numbers of a slice, as `numpy.r_` computes them."""
    start, stop, step = _ends(part)
    count = _number_of(step)
    return _range(part) if count is None else strong(linspace(start, stop, count))


# --- what traced code gets ------------------------------------------------------------------------------------

INDEX_TRICKS: dict[Any, Callable[[Any], Any]] = {
    np.mgrid: _grid(_dense),
    np.ogrid: _grid(_open),
    np.r_: _Joining(axis=0, ndmin=1, begin=-1),
    np.c_: _Joining(axis=-1, ndmin=2, begin=0),
}
"""NumPy's object -> the meaning of a key in which something is traced."""
