"""Symbolic sizes: an extent is an ``int`` or a polynomial with integer coefficients over size symbols.

Source of the method: polynomials as maps from monomials to coefficients, kept in normal form so that equal sizes are
equal objects.  The only thing beyond polynomials is ``FloorDiv`` (``x[::2]`` has ``(n + 1)//2`` rows), an opaque atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

__all__ = [
    "SMALL",
    "Dim",
    "FloorDiv",
    "Poly",
    "Symbol",
    "Undecided",
    "Unify",
    "as_symbol",
    "evaluate",
    "extremes",
    "hint",
    "lower_bound",
    "poly",
    "prod",
    "substitute",
    "symbols",
]

SMALL = 8
"""Extents up to this one are static; so every size symbol stands for at least ``SMALL + 1``."""


class Symbol:
    """An unknown extent, or the counter of a loop.  Two symbols are equal only if they are the same object.

    Attributes
    ----------
    hint : int
        The extent in the traced call.
    lower : int
    upper : int or Poly, optional
        For counters: ``0 <= counter < upper``, the number of trips.
    local : bool
        Known only while the tape runs, not from its inputs: counters, and extents that the tape itself computes.
    most : int or Poly, optional
        Of an extent that the tape computes: what it never exceeds, in terms of extents that are known from the inputs.
    """

    __slots__ = ("hint", "local", "lower", "most", "name", "upper")

    def __init__(
        self,
        name: str,
        hint: int,
        lower: int = SMALL + 1,
        upper: Dim | None = None,
        local: bool = False,
        most: Dim | None = None,
    ) -> None:
        self.name, self.hint, self.lower, self.upper, self.most = name, hint, lower, upper, most
        self.local = local or upper is not None

    def __repr__(self) -> str:
        return self.name

    def evaluate(self, sizes: Mapping[Symbol, int]) -> int:
        return sizes[self]


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """``numerator // denominator`` with a positive static denominator."""

    numerator: Poly
    denominator: int

    def __repr__(self) -> str:
        return f"(({self.numerator})//{self.denominator})"

    @property
    def hint(self) -> int:
        return hint(self.numerator) // self.denominator

    @property
    def lower(self) -> int | None:
        low = lower_bound(self.numerator)
        return None if low is None else low // self.denominator

    def evaluate(self, sizes: Mapping[Symbol, int]) -> int:
        return evaluate(self.numerator, sizes) // self.denominator


Atom = Symbol | FloorDiv
Monomial = tuple[Atom, ...]


class Poly:
    """A non-constant polynomial; immutable.  Arithmetic gives an ``int`` again when symbols cancel."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __repr__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms.items():
            sign = "-" if coefficient < 0 else "+"
            factors = [str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text += f" {sign} " + "*".join(factors)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, int | Poly):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, coefficient in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _normal(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _normal({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Dim) -> Dim:
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, int | Poly):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in _terms(other).items():
                monomial = tuple(sorted(left + right, key=_order))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _normal(terms)

    __rmul__ = __mul__

    def __floordiv__(self, denominator: int) -> Dim:
        if denominator == 1:
            return self
        whole = {m: c // denominator for m, c in self.terms.items() if c % denominator == 0}
        rest = _normal({m: c for m, c in self.terms.items() if c % denominator})
        quotient = rest // denominator if isinstance(rest, int) else poly(FloorDiv(rest, denominator))
        return _normal(whole) + quotient


Dim = int | Poly


def _order(atom: Atom) -> tuple[str, int]:
    return str(atom), id(atom)


def _terms(dim: Dim) -> dict[Monomial, int]:
    return dim.terms if isinstance(dim, Poly) else {(): dim}


def _normal(terms: dict[Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    ordered = sorted(kept, key=lambda m: (not m, -len(m), [_order(a) for a in m]))
    return Poly({m: kept[m] for m in ordered})


def poly(atom: Atom) -> Poly:
    """Return the polynomial that is just this atom."""
    return Poly({(atom,): 1})


def as_symbol(dim: Dim) -> Symbol | None:
    """Return the symbol that ``dim`` consists of, or None if it is anything else."""
    if isinstance(dim, Poly) and len(dim.terms) == 1:
        ((monomial, coefficient),) = dim.terms.items()
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0]
    return None


def _fold(dim: Dim, value: Callable[[Atom], Dim]) -> Dim:
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        product: Dim = coefficient
        for atom in monomial:
            product = product * value(atom)
        total = total + product
    return total


def evaluate(dim: Dim, sizes: Mapping[Symbol, int]) -> int:
    """Return the extent under ``sizes`` (symbol -> int)."""
    result = _fold(dim, lambda atom: atom.evaluate(sizes))
    assert isinstance(result, int)
    return result


def hint(dim: Dim) -> int:
    """Return the extent in the traced call."""
    result = _fold(dim, lambda atom: atom.hint)
    assert isinstance(result, int)
    return result


def substitute(dim: Dim, mapping: Mapping[Symbol, Dim]) -> Dim:
    """Return ``dim`` with symbols replaced by sizes."""

    def value(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return mapping.get(atom, poly(atom))
        return substitute(atom.numerator, mapping) // atom.denominator

    return _fold(dim, value)


def symbols(dim: Dim) -> Iterator[Symbol]:
    """Yield every symbol in ``dim`` (with repetitions)."""
    if isinstance(dim, Poly):
        for monomial in dim.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    yield atom
                else:
                    yield from symbols(atom.numerator)


def lower_bound(dim: Dim) -> int | None:
    """Return a proved lower bound, or None when the signs of the terms prove nothing.

    ``n*m - n`` is ``n*(m - 1)``: a negative monomial is covered by a larger positive one that contains it.  What is
    linear in the counter of a loop is least at the first or at the last trip.
    """
    if isinstance(dim, int):
        return dim
    ends = extremes(dim)
    if ends is not None and ends != [dim]:
        lows = [lower_bound(end) for end in ends]
        return None if None in lows else min(low for low in lows if low is not None)
    total, owed = 0, []
    positive = {m: c for m, c in dim.terms.items() if c > 0}
    for monomial, coefficient in dim.terms.items():
        if coefficient < 0 and monomial:
            owed.append((monomial, -coefficient))
    for monomial, needed in owed:
        cover = next((m for m in positive if len(m) == len(monomial) + 1 and _contains(m, monomial)), None)
        if cover is None or any((a.lower or 0) < 1 for a in cover):
            return None
        extra = next(a for a in cover if cover.count(a) > monomial.count(a))
        coefficient = positive.pop(cover)
        low = coefficient * (extra.lower or 0) - needed
        if low < 0:
            return None
        total += low * _least(monomial)
    for monomial, coefficient in positive.items():
        least = [a.lower for a in monomial]
        if any(low is None or low < 0 for low in least):
            return None
        total += coefficient * _least(monomial)
    return total + min(dim.terms.get((), 0), 0)


def extremes(dim: Dim) -> list[Dim] | None:
    """Return sizes without counters such that ``dim`` is, in every iteration, between the least and the largest.

    None where ``dim`` is not linear in its counters.
    """
    return _extremes(dim, {})


def _extremes(dim: Dim, ranges: dict[Symbol, tuple[Dim, Dim]]) -> list[Dim] | None:
    counters = {s: s.upper for s in symbols(dim) if s.upper is not None}
    if not counters:
        return [dim]
    inner = _innermost(counters)
    if any(_degree(m, inner) > 1 for m in dim.terms):  # type: ignore[union-attr]
        return None
    upper = inner.upper
    assert upper is not None
    ends = ranges.get(inner, (0, upper - 1))
    known = _tightened(upper, ranges)
    found: list[Dim] = []
    for end in ends:
        part = _extremes(substitute(dim, {inner: end}), known)
        if part is None:
            return None
        found += part
    return found


def _innermost(counters: dict[Symbol, Dim]) -> Symbol:
    outer = {s for upper in counters.values() for s in _counters_in(upper)}
    return next(c for c in counters if c not in outer)


def _counters_in(dim: Dim) -> Iterator[Symbol]:
    """Yield the counters in ``dim``, and those that their numbers of trips depend on."""
    for symbol in symbols(dim):
        if symbol.upper is not None:
            yield symbol
            yield from _counters_in(symbol.upper)


def _tightened(trips: Dim, ranges: dict[Symbol, tuple[Dim, Dim]]) -> dict[Symbol, tuple[Dim, Dim]]:
    """Return ``ranges`` with what it says about outer counters that a loop of ``trips`` runs at least once."""
    known = dict(ranges)
    for symbol in {s for s in symbols(trips) if s.upper is not None}:
        assert symbol.upper is not None
        low, high = known.get(symbol, (0, symbol.upper - 1))
        up, down = trips - poly(symbol), trips + poly(symbol)
        if symbol not in symbols(up) and _at_most(low, 1 - up):
            low = 1 - up
        elif symbol not in symbols(down) and _at_most(down - 1, high):
            high = down - 1
        known[symbol] = low, high
    return known


def _at_most(left: Dim, right: Dim) -> bool:
    low = lower_bound(right - left)
    return low is not None and low >= 0


def _degree(monomial: Monomial, symbol: Symbol) -> int:
    """Return the power of ``symbol``; a rounded quotient that holds it counts as more than linear."""
    rounded = any(isinstance(a, FloorDiv) and symbol in symbols(a.numerator) for a in monomial)
    return 2 if rounded else monomial.count(symbol)


def _contains(big: Monomial, small: Monomial) -> bool:
    return all(big.count(a) >= small.count(a) for a in small)


def _least(monomial: Monomial) -> int:
    product = 1
    for atom in monomial:
        product *= atom.lower or 0
    return product


def prod(shape: tuple[Dim, ...]) -> Dim:
    """Return the number of entries of ``shape``."""
    total: Dim = 1
    for dim in shape:
        total = total * dim
    return total


class Unify(BaseException):
    """Raised where a trace needs ``size == 0`` of a size that is not identically zero.

    The trace starts again with `mapping` applied to the shapes of its inputs, so that equal sizes are equal objects
    everywhere.  It is a ``BaseException`` because user code must not catch it.
    """

    def __init__(self, size: Poly) -> None:
        self.size = size
        self.mapping = _solve(size)
        super().__init__(f"{size} == 0")


class Undecided(BaseException):
    """Raised where a trace asks about a size that is known only while the tape runs, and nothing is proved of it.

    A loop then cannot be a region.  It is a ``BaseException`` because user code must not catch it.
    """

    def __init__(self, relation: str, size: Dim) -> None:
        self.size = size
        super().__init__(f"{size} {relation} 0 is not the same in every iteration")


def _solve(size: Poly) -> dict[Symbol, Dim]:
    """Return the substitution that makes ``size`` zero: the last symbol that can be isolated, else all are pinned."""
    for monomial, coefficient in reversed(list(size.terms.items())):
        if len(monomial) == 1 and abs(coefficient) == 1 and isinstance(monomial[0], Symbol):
            symbol = monomial[0]
            rest = size - poly(symbol) * coefficient
            if symbol not in set(symbols(rest)):
                return {symbol: -rest if coefficient == 1 else rest}
    return {symbol: symbol.hint for symbol in symbols(size)}
