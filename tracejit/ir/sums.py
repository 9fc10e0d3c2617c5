"""Sums of sizes over the trips of a loop: where the slice of trip ``k`` begins in one array that holds them
all.

Sums of powers are polynomials with rational coefficients (Faulhaber).  Such a polynomial with whole values is
written as one rounded quotient, whose division is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

from tracejit.ir import dims
from tracejit.ir.dims import Dim, FloorDiv, Poly, Symbol

__all__ = ["offsets", "without_counters"]

Rational = dict[tuple[dims.Symbol | FloorDiv, ...], Fraction]


def offsets(size: Dim, index: Symbol, trips: Dim) -> tuple[Dim, Dim]:
    """Return (offset, total): where the part of trip ``index`` begins, if each has ``size`` entries, and
    their sum.

    Where no formula gives the sum, each part gets as much room as the largest of them may need.
    """
    expanded = _expand(size)
    if any(isinstance(a, FloorDiv) and index in dims.symbols(a.numerator) for m in expanded for a in m):
        room = _largest(size, index, trips)
        return room * dims.poly(index), room * trips
    before: Rational = {}
    for monomial, coefficient in expanded.items():
        power = monomial.count(index)
        rest = tuple(a for a in monomial if a is not index)
        for exponent, factor in enumerate(_power_sum(power)):
            term = (*rest, *(index,) * exponent)
            before[term] = before.get(term, Fraction(0)) + coefficient * factor
    offset = _whole(before)
    return offset, dims.substitute(offset, {index: trips})


def _power_sum(power: int) -> list[Fraction]:
    """Return the coefficients in n of ``sum(k**power for k in range(n))``, lowest first."""
    # n**(p+1) = sum over k < n of (k+1)**(p+1) - k**(p+1), solved for the sum of k**p.
    result = [Fraction(0)] * (power + 2)
    result[power + 1] = Fraction(1)
    for lower in range(power):
        for exponent, factor in enumerate(_power_sum(lower)):
            result[exponent] -= math.comb(power + 1, lower) * factor
    return [c / (power + 1) for c in result]


def _expand(size: Dim) -> Rational:
    """Return ``size`` with exact quotients written out as fractions."""
    found: Rational = {}
    terms: Mapping[tuple[dims.Symbol | FloorDiv, ...], int] = (
        size.terms if isinstance(size, Poly) else {(): size}
    )
    for monomial, coefficient in terms.items():
        product: Rational = {(): Fraction(coefficient)}
        for atom in monomial:
            exact = isinstance(atom, FloorDiv) and _is_exact(atom)
            factor: Rational = {(atom,): Fraction(1)}
            if exact and isinstance(atom, FloorDiv):
                factor = {m: c / atom.denominator for m, c in _expand(atom.numerator).items()}
            product = _times(product, factor)
        for key, value in product.items():
            found[key] = found.get(key, Fraction(0)) + value
    return found


def _times(left: Rational, right: Rational) -> Rational:
    product: Rational = {}
    for (a, x), (b, y) in itertools.product(left.items(), right.items()):
        key = tuple(sorted((*a, *b), key=lambda atom: (str(atom), id(atom))))
        product[key] = product.get(key, Fraction(0)) + x * y
    return product


def _is_exact(quotient: FloorDiv) -> bool:
    """Return whether the division leaves no rest, whatever the symbols: true of all if of one period."""
    free = list(dict.fromkeys(dims.symbols(quotient.numerator)))
    nested = any(isinstance(a, FloorDiv) for m in quotient.numerator.terms for a in m)
    if nested or quotient.denominator ** len(free) > 100_000:
        return False
    period = range(quotient.denominator)
    return all(
        dims.evaluate(quotient.numerator, dict(zip(free, values, strict=True))) % quotient.denominator == 0
        for values in itertools.product(period, repeat=len(free))
    )


def _whole(rational: Rational) -> Dim:
    denominator = math.lcm(*(c.denominator for c in rational.values()))
    total: Dim = 0
    for monomial, coefficient in rational.items():
        product: Dim = int(coefficient * denominator)
        for atom in monomial:
            product = product * dims.poly(atom)
        total = total + product
    return total // denominator if denominator > 1 else total


def without_counters(size: Dim, upper: bool) -> Dim:
    """Return a size that does not depend on loop counters and is never smaller (larger, if not ``upper``)."""
    while counters := [s for s in dims.symbols(size) if s.upper is not None]:
        # The trips of inner loops may depend on outer counters, never the other way round.
        for counter in counters:
            assert counter.upper is not None
            size = _bound(size, counter, counter.upper - 1, upper)
    return size


def _largest(size: Dim, index: Symbol, trips: Dim) -> Dim:
    """Return the largest size of all trips, or more: rising terms at the last, falling ones at the first."""
    return _bound(size, index, trips - 1, True)


def _bound(size: Dim, index: Symbol, last: Dim, upper: bool) -> Dim:
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, coefficient in size.terms.items():
        product: Dim = coefficient
        high = upper == (coefficient > 0)
        for atom in monomial:
            if isinstance(atom, FloorDiv):
                product = product * (_bound(atom.numerator, index, last, high) // atom.denominator)
            else:
                product = product * ((last if high else 0) if atom is index else dims.poly(atom))
        total = total + product
    return total
