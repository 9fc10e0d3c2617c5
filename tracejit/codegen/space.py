"""The loops of one nest: their order, which of them are merged, and where they are cut.

* A loop through which arrays are read in steps of one entry goes inside (a transposed operand, a sum over the
  first axis of a transpose).
* Adjacent loops become one where every access moves through both in steps of one stride; so a chain of
  elementwise work on whole arrays is one flat loop, whatever their dimensions.
* A loop along which a condition changes (the edge of a stencil, a joint of `concatenate`) is cut there, so
  that no entry asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import SMALL, Dim, Poly, Symbol
from tracejit.passes.access import loop_symbols
from tracejit.passes.ranges import Bounds, cut

__all__ = ["Access", "Space"]

MOST_STATEMENTS = 400
"""The innermost loop is cut into pieces as long as the text of the nest stays below this length."""

MOST_BY_OUTER_CUTS = 150
"""The same for cuts of the other loops, which gain less: their conditions are asked once per row."""

MOST_IN_KERNEL = 1000
"""No cuts of outer loops beyond this length of all nests together: statements take long to compile."""

MOST_PIECES = 8


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of each iteration.

    Attributes
    ----------
    offset : int or Poly or None
        The place in memory; None if strides are not known when the text is written.
    symbols : frozenset of Symbol
        What the place depends on.
    weight : int
        How much it costs not to move along memory.
    """

    offset: Dim | None
    symbols: frozenset[Symbol]
    weight: int = 1

    def step(self, symbol: Symbol) -> Dim | None:
        """Return how far one iteration of the loop over ``symbol`` moves; None if that is not known."""
        if symbol not in self.symbols:
            return 0
        return None if self.offset is None else _coefficient(self.offset, symbol)


class Space:
    """Loops over a space of indices.

    Attributes
    ----------
    symbols, extents : list
        Of the loops that run, outermost first.
    pieces : list of list of (low, high)
        Per loop the ranges it is cut into.
    moved : dict of Symbol to size
        Symbols of loops that were merged into others -> what stands for them.
    """

    def __init__(self, shape: Shape) -> None:
        self.symbols = list(loop_symbols(len(shape)))
        self.extents = list(shape)
        self.names = [s.name for s in self.symbols]
        self.moved: dict[Symbol, Dim] = {}
        self.pieces: list[list[Bounds]] = [[(0, extent)] for extent in shape]

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def merged(self) -> bool:
        """Whether accesses must count entries in memory order."""
        return bool(self.moved)

    def bounds(self) -> dict[Symbol, Bounds]:
        """Return the whole range of every loop."""
        return {s: (0, e) for s, e in zip(self.symbols, self.extents, strict=True)}

    def named(self) -> dict[Symbol, str]:
        """Return the names of the loop variables."""
        return dict(zip(self.symbols, self.names, strict=False))

    def order(self, accesses: Sequence[Access]) -> None:
        """Move the loop inside along which memory is read in order."""

        def strided(symbol: Symbol) -> int:
            return sum(a.weight for a in accesses if a.step(symbol) not in (0, 1))

        long = [n for n, e in enumerate(self.extents) if not (isinstance(e, int) and e <= SMALL)]
        if not long:
            return
        last = len(self.symbols) - 1
        best = min(long, key=lambda n: (strided(self.symbols[n]), -n))
        if strided(self.symbols[best]) < strided(self.symbols[last]):
            self.symbols.append(self.symbols.pop(best))
            self.extents.append(self.extents.pop(best))
            self.pieces = [[(0, extent)] for extent in self.extents]

    def merge(self, accesses: Sequence[Access]) -> None:
        """Merge loops into the ones inside of them."""
        if any(a.offset is None and a.symbols & set(self.symbols) for a in accesses):
            return
        extents = dict(zip(self.symbols, self.extents, strict=True))
        longer = [s for s, e in extents.items() if e != 1]
        for outer, inner in reversed(list(itertools.pairwise(longer))):
            if all(_continues(a.step(outer), a.step(inner), extents[inner]) for a in accesses):
                self.moved[outer] = 0
        if self.moved:
            self.moved.update((s, 0) for s, e in extents.items() if e == 1)
            self._apply(extents)

    def _apply(self, extents: dict[Symbol, Dim]) -> None:
        self.symbols, self.extents = [], []
        size: Dim = 1
        for symbol, extent in extents.items():
            size = size * extent
            if symbol not in self.moved:
                self.symbols.append(symbol)
                self.extents.append(size)
                size = 1
        self.pieces = [[(0, extent)] for extent in self.extents]

    def cut(self, conditions: Iterable[tuple[Any, ...]], length: int, steps: int) -> None:
        """Cut loops, the innermost first, at all places where conditions change, or not at all.

        Parameters
        ----------
        conditions : iterable of tuple
            See `tracejit.ops.base.Read`.
        length : int
            Statements in the loops.
        steps : int
            Nests in the kernel.
        """
        conditions = list(conditions)
        most = MOST_STATEMENTS
        for number in reversed(range(len(self))):
            pieces = cut(self.symbols[number], self.extents[number], conditions)
            if len(pieces) <= MOST_PIECES and len(pieces) * length <= most:
                self.pieces[number] = pieces
                length *= len(pieces)
            most = min(MOST_BY_OUTER_CUTS, MOST_IN_KERNEL // steps)


def _continues(outer: Dim | None, inner: Dim | None, extent: Dim) -> bool:
    return outer is not None and inner is not None and outer == inner * extent


def _coefficient(offset: Dim, symbol: Symbol) -> Dim | None:
    """Return the factor of ``symbol`` in ``offset``, or None if ``offset`` is not linear in it."""
    if isinstance(offset, int):
        return 0
    factor: Dim = 0
    for monomial, coefficient in offset.terms.items():
        if symbol in monomial:
            rest: Dim = coefficient
            for place, atom in enumerate(monomial):
                if place != monomial.index(symbol):
                    rest = rest * dims.poly(atom)
            factor = factor + rest
    if isinstance(factor, Poly) and symbol in set(dims.symbols(factor)):
        return None
    hidden = symbol in set(dims.symbols(offset - factor * dims.poly(symbol)))
    return None if hidden else factor
