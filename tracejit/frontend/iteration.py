"""What a ``for`` loop runs over, as a number of trips and the item of each: ranges, arrays, zips of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tracejit.frontend.buffers import Buffer
from tracejit.frontend.registry import is_traced, size
from tracejit.frontend.symbolic import user_size
from tracejit.frontend.tracer import TracedArray
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current, is_tracing
from tracejit.ops.arithmetic import floor_divide, subtract
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import add
from tracejit.ops.loop import COUNT

__all__ = ["Plan", "enumerate_", "plan_of", "range_", "reversed_", "zip_"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A sequence by position.

    Attributes
    ----------
    trips : int or Poly, or Var
        A variable where only the running tape knows.
    item : callable
        Position (int or symbolic) -> item.
    """

    trips: Any
    item: Callable[[Any], Any]

    @property
    def static(self) -> int | None:
        return self.trips if isinstance(self.trips, int) else None

    def __iter__(self) -> Iterator[Any]:
        count = operator.index(_as_user(self.trips))
        return (self.item(k) for k in range(count))

    def __len__(self) -> int:
        return operator.index(_as_user(self.trips))

    def rest(self) -> Plan:
        """Return the sequence without its first item."""
        item = self.item
        return Plan(self.trips - 1, lambda k: item(k + 1))


def _as_user(trips: Any) -> Any:
    return TracedArray(trips) if isinstance(trips, Atom) else user_size(trips)


def plan_of(iterable: Any) -> Plan | None:
    """Return how to loop over ``iterable`` by position; None if it only can be iterated."""
    if isinstance(iterable, Plan):
        return iterable
    if type(iterable) is range:
        return Plan(len(iterable), lambda k: iterable.start + iterable.step * k)
    if type(iterable) in (TracedArray, Buffer) and iterable.ndim:
        return Plan(size(iterable.shape[0]), lambda k: iterable[k])
    return None


def range_(*bounds: Any) -> Any:
    """``range``, also of symbolic sizes and traced integers."""
    if not any(is_traced(b) for b in bounds):
        return range(*bounds)
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    step = operator.index(step)
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    if any(is_traced(b) and not hasattr(b, "_tracejit_dim") for b in (start, stop)):
        return _traced_range(start, stop, step)
    first, last = size(start), size(stop)
    length = last - first if step > 0 else first - last
    trips = _clipped((length + abs(step) - 1) // abs(step), length)
    return Plan(trips, lambda k: start + step * k)


def _clipped(trips: Dim, length: Dim) -> Any:
    return trips if current().decide(">=", length) else 0


def _traced_range(start: Any, stop: Any, step: int) -> Any:
    for bound in (start, stop):
        if is_traced(bound) and (bound.atom.shape or bound.atom.dtype.kind not in "iu"):
            raise TypeError(f"'{bound.atom.dtype}' object cannot be interpreted as an integer")
    first, last = (convert(_atom(b), dtype=COUNT) for b in (start, stop))
    length = subtract(last, first) if step > 0 else subtract(first, last)
    trips = length if abs(step) == 1 else floor_divide(add(length, abs(step) - 1), abs(step))
    handle = TracedArray(first)
    return Plan(trips, lambda k: handle + step * k)


def _atom(value: Any) -> Atom:
    return value.atom if is_traced(value) else as_atom(value)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``, by position where the sequence can be."""
    plan = plan_of(iterable)
    if plan is None or not is_tracing():
        return enumerate(iterable, start)
    return Plan(plan.trips, lambda k: (start + k, plan.item(k)))


def reversed_(sequence: Any) -> Any:
    """``reversed``, by position where the sequence can be."""
    plan = plan_of(sequence)
    if plan is None or not is_tracing() or isinstance(plan.trips, Atom):
        return reversed(sequence)
    last = user_size(plan.trips) - 1
    return Plan(plan.trips, lambda k: plan.item(last - k))


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """``zip``, by position where all sequences can be."""
    plans = [plan_of(i) for i in iterables]
    if not plans or any(p is None or isinstance(p.trips, Atom) for p in plans) or not is_tracing():
        return zip(*iterables, strict=strict)
    known = [p for p in plans if p is not None]
    shortest = known[0].trips
    for plan in known[1:]:
        if plan.trips != shortest and not current().decide(">=", plan.trips - shortest):
            shortest = plan.trips
    if strict and any(p.trips != shortest and not current().decide("==", p.trips - shortest) for p in known):
        raise ValueError("zip() arguments have different lengths")
    return Plan(shortest, lambda k: tuple(p.item(k) for p in known))
