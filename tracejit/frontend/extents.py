"""Extents and places that the running tape finds: what is computed in the same way is one and the same."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracejit.frontend.concrete import integers_behind, is_known
from tracejit.frontend.registry import is_traced, operand
from tracejit.ir import dims
from tracejit.ir.dims import Dim, Poly, Symbol
from tracejit.ir.tape import Atom, Builder, Lit, current
from tracejit.ops.arithmetic import floor_divide, subtract
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import add, select
from tracejit.ops.extrema import maximum, minimum
from tracejit.ops.logic import less
from tracejit.ops.loop import bind_size, runtime_size
from tracejit.ops.reduction import size_of

__all__ = ["known_extents", "must_be_known", "same_computation", "stretch", "varies"]

_INDEX = np.dtype(np.int64)

_DEPTH = 16

_EXPECTED_PART = 4
"""Of an axis, one in so many entries is expected in a stretch where nobody knows."""


class _Thread(threading.local):
    known = False


_thread = _Thread()

_BOUND: weakref.WeakKeyDictionary[Builder, list[tuple[Atom, Symbol]]] = weakref.WeakKeyDictionary()


@contextmanager
def known_extents(yes: bool) -> Iterator[None]:
    """Let traces in this block have no extents that the running tape finds, or let them: then a mask is a constant."""
    before, _thread.known = _thread.known, yes
    try:
        yield
    finally:
        _thread.known = before


def must_be_known() -> bool:
    """Return whether the present trace is to have no extents that the running tape finds."""
    return _thread.known


def same_computation(left: Atom, right: Atom) -> bool:
    """Return whether two values are computed in the same way, from the same ones."""
    return _same(left, right, _DEPTH, set())


def _same(left: Atom, right: Atom, depth: int, known: set[tuple[Atom, Atom]]) -> bool:
    """``known`` are pairs that are the same; without them, what is shared would be gone through again and again."""
    if left is right or (left, right) in known:
        return True
    if isinstance(left, Lit) and isinstance(right, Lit):
        return left.dtype == right.dtype and bool(left.value == right.value)
    builder = current()
    made, other = builder.maker(left), builder.maker(right)
    if made is None or other is None or not depth or len(made.results) != 1:
        return False
    if made.op is not other.op or len(made.operands) != len(other.operands) or made.params != other.params:
        return False
    if not all(_same(a, b, depth - 1, known) for a, b in zip(made.operands, other.operands, strict=True)):
        return False
    known.add((left, right))
    return True


def varies(end: Any) -> bool:
    """Return whether an end of a slice is a traced integer that differs from iteration to iteration.

    One that does not is a constant of the trace, or an argument is that it is computed from.
    """
    if (
        not is_traced(end)
        or hasattr(end, "_tracejit_dim")
        or end.atom.shape
        or end.atom.dtype.kind not in "iu"
    ):
        return False
    return not is_known(end.atom) and not integers_behind(end.atom)


def stretch(part: slice, extent: Dim, step: int) -> tuple[Dim, Dim]:
    """Return where a slice with an end that varies begins on an axis of this extent, and how many entries it has.

    Both are sizes that the running tape finds, clipped as Python does.
    """
    length = size_of(extent, _INDEX)
    low, high = (0, length) if step > 0 else (-1, subtract(length, 1))
    first, last = (low, high) if step > 0 else (high, low)
    start = first if part.start is None else _clipped(part.start, length, low, high)
    stop = last if part.stop is None else _clipped(part.stop, length, low, high)
    count = subtract(stop, start) if step > 0 else subtract(start, stop)
    if abs(step) != 1:
        count = floor_divide(add(count, abs(step) - 1), abs(step))
    return _bound(start, "s", extent), _bound(count, "c", extent)


def _clipped(end: Any, length: Atom, low: Any, high: Any) -> Atom:
    value = convert(operand(end), dtype=_INDEX)
    value = select(less(value, 0), add(value, length), value)
    clipped: Atom = minimum(maximum(value, low), high)
    return clipped


def _bound(value: Any, name: str, extent: Dim) -> Dim:
    """Return a number between zero and ``extent`` as a size."""
    if isinstance(value, int):
        return max(value, 0)
    known = _BOUND.setdefault(current(), [])
    for other, symbol in known:
        if same_computation(value, other):
            return dims.poly(symbol)
    most = extent if not isinstance(extent, Poly) or not any(s.local for s in dims.symbols(extent)) else None
    symbol = runtime_size(dims.hint(extent) // _EXPECTED_PART, name, most=most)
    bind_size(value, symbol=symbol)
    known.append((value, symbol))
    return dims.poly(symbol)
