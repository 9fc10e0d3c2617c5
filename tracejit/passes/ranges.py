"""Proofs that loop indices stay inside arrays, and where to cut loops so that they do."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tracejit.ir import dims
from tracejit.ir.dims import Dim, FloorDiv, Symbol

__all__ = ["Bounds", "Ranges", "cut", "largest"]

Bounds = tuple[Dim, Dim]

_MOST_SYMBOLS = 3


class Ranges:
    """Bounds ``low <= symbol < high`` of loop symbols, beside those that counters have by themselves."""

    def __init__(self, bounds: Mapping[Symbol, Bounds]) -> None:
        self.bounds = dict(bounds)
        self._proved: dict[Dim, bool] = {}
        self._beyond = {s: dims.poly(Symbol(f"{s}_", 0, 0)) for s in bounds}

    def constants(self) -> dict[Symbol, Dim]:
        """Return the symbols that take one value only."""
        return {s: low for s, (low, high) in self.bounds.items() if high - low == 1}

    def nonnegative(self, dim: Dim) -> bool:
        """Return whether ``dim >= 0`` is proved."""
        if isinstance(dim, int):
            return dim >= 0
        if dim not in self._proved:
            self._proved[dim] = self._prove(dim)
        return self._proved[dim]

    def inside(self, dim: Dim, extent: Dim) -> bool:
        """Return whether ``0 <= dim < extent`` is proved."""
        return self.nonnegative(dim) and self.nonnegative(extent - 1 - dim)

    def _prove(self, dim: Dim) -> bool:
        """Try each symbol as its lower bound plus, or its upper bound minus, something non-negative."""
        bounded = [s for s in dict.fromkeys(dims.symbols(dim)) if s in self.bounds or s.upper is not None]
        if len(bounded) > _MOST_SYMBOLS:
            return False
        for from_low in itertools.product((True, False), repeat=len(bounded)):
            mapping = {s: self._seen_from(s, low) for s, low in zip(bounded, from_low, strict=True)}
            least = dims.lower_bound(dims.substitute(dim, mapping))
            if least is not None and least >= 0:
                return True
        return False

    def _seen_from(self, symbol: Symbol, low: bool) -> Dim:
        first, end = self.bounds.get(symbol, (0, symbol.upper))
        assert end is not None
        beyond = self._beyond.setdefault(symbol, dims.poly(Symbol(f"{symbol}_", 0, 0)))
        return first + beyond if low else end - 1 - beyond


def largest(dim: Dim, counter: Symbol) -> Dim | None:
    """Return a size without ``counter`` that ``dim`` never exceeds while it counts; None if none is found."""
    if isinstance(dim, int) or counter not in set(dims.symbols(dim)):
        return dim
    assert counter.upper is not None
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        term: Dim = coefficient
        for atom in monomial:
            if isinstance(atom, FloorDiv) and not _is_plain(atom, counter):
                return None
            counts = atom is counter
            term = term * ((counter.upper - 1 if coefficient > 0 else 0) if counts else dims.poly(atom))
        total = total + term
    return total


def _is_plain(atom: FloorDiv, counter: Symbol) -> bool:
    """Return whether ``atom`` is not negative and does not change with ``counter``."""
    low = atom.lower
    return counter not in set(dims.symbols(atom.numerator)) and low is not None and low >= 0


def cut(symbol: Symbol, extent: Dim, conditions: Iterable[tuple[Any, ...]]) -> list[Bounds]:
    """Return pieces of ``range(extent)`` within which as many conditions as possible are decided.

    A place to cut is kept only if it is proved to lie in order with the others.
    """
    order = Ranges({})
    edges: list[Dim] = [0, extent]
    for condition in conditions:
        for place in _thresholds(symbol, condition):
            _insert(edges, place, order)
    return list(itertools.pairwise(edges))


def _thresholds(symbol: Symbol, condition: tuple[Any, ...]) -> list[Dim]:
    """Return where ``low <= value < high`` changes, if ``value`` is ``symbol`` plus a constant."""
    if len(condition) != 3:
        return []
    low, value, high = condition
    rest = value - dims.poly(symbol)
    if symbol not in set(dims.symbols(rest)):
        return [low - rest, high - rest]
    rest = value + dims.poly(symbol)
    if symbol not in set(dims.symbols(rest)):
        return [rest - high + 1, rest - low + 1]
    return []


def _insert(edges: list[Dim], place: Dim, order: Ranges) -> None:
    if place in edges:
        return
    for number in range(1, len(edges)):
        if order.nonnegative(place - edges[number - 1]) and order.nonnegative(edges[number] - place):
            edges.insert(number, place)
            return
