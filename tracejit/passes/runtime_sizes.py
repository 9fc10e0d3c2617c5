"""Extents that a tape computes itself: whoever mentions one depends on the `bind_size` that makes it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Poly, Symbol, Undecided
from tracejit.ir.tape import Atom, Eqn, Tape, Var, bodies
from tracejit.ops.loop import bind_size

__all__ = ["SizeMakers", "local_symbols", "require_known_extents"]

_KNOWN: weakref.WeakKeyDictionary[Tape, frozenset[Symbol]] = weakref.WeakKeyDictionary()


def local_symbols(eqn: Eqn) -> set[Symbol]:
    """Return the symbols in an equation that are known only while the tape runs (those of its bodies too)."""
    found = {s for v in eqn.results for s in _in_value(v.aval.shape)}
    found.update(s for value in eqn.params.values() for s in _in_value(value))
    return found


def _in_value(value: Any) -> Iterator[Symbol]:
    if isinstance(value, Poly):
        yield from (s for s in dims.symbols(value) if s.local)
    elif isinstance(value, tuple):
        for part in value:
            yield from _in_value(part)
    elif isinstance(value, Tape):
        yield from _in_tape(value)


def _in_tape(tape: Tape) -> frozenset[Symbol]:
    if tape not in _KNOWN:
        _KNOWN[tape] = frozenset(s for eqn in tape.eqns for s in local_symbols(eqn))
    return _KNOWN[tape]


class SizeMakers:
    """The `bind_size` equations of one tape."""

    def __init__(self, tape: Tape) -> None:
        self._makers = {e.params["symbol"]: e.results[0] for e in tape.eqns if e.op is bind_size}

    def operands(self, eqn: Eqn) -> tuple[Atom, ...]:
        """Return the operands of ``eqn`` and the extents it relies on."""
        if not self._makers:
            return eqn.operands
        return (
            *eqn.operands,
            *(self._makers[s] for s in local_symbols(eqn) if s in self._makers and eqn.op is not bind_size),
        )

    def made_inside(self, aval: Aval) -> bool:
        """Return whether the shape has an extent that this tape makes."""
        return any(s in self._makers for s in _in_value(aval.shape))

    def maker(self, symbol: Symbol) -> Var | None:
        """Return the result of the equation that makes ``symbol``."""
        return self._makers.get(symbol)


def require_known_extents(tape: Tape) -> None:
    """Raise `Undecided` if memory would be needed whose extent is not known yet.

    That of outputs is made before the tape runs, and that of the results of a loop or branch before it begins.
    """
    for atom in tape.outputs:
        _require(atom.aval, frozenset())
    _require_inside(tape, frozenset())


def _require_inside(tape: Tape, known: frozenset[Symbol]) -> None:
    for eqn in tape.eqns:
        for var in eqn.results:
            _require(var.aval, known)
        counted = frozenset(v for v in eqn.params.values() if isinstance(v, Symbol))
        for body in bodies(eqn):
            _require_inside(body, known | counted)
        if eqn.op is bind_size:
            known |= counted


def _require(aval: Aval, known: frozenset[Symbol]) -> None:
    for extent in aval.shape:
        if any(s.local and s not in known for s in dims.symbols(extent)):
            raise Undecided("==", extent)
