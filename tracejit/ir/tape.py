"""The builder that every producer of tapes appends to; and, for those who work with tapes, what they consist of.

Whoever makes a tape opens a `Builder` with ``with``, calls ops (which append to the innermost builder of the thread)
and calls `Builder.finish`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.errors import InternalError, LeakedTraceError
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Poly, Symbol, Undecided, Unify
from tracejit.ir.program import Atom, Eqn, Lit, Names, SizeGuard, Tape, ValueGuard, Var, bodies
from tracejit.ir.source import Source, here

if TYPE_CHECKING:
    from tracejit.ops.base import Op

__all__ = [
    "Atom",
    "Builder",
    "Eqn",
    "Lit",
    "Names",
    "SizeGuard",
    "Tape",
    "ValueGuard",
    "Var",
    "bodies",
    "current",
    "input_symbols",
    "is_tracing",
]

_thread = threading.local()


def is_tracing() -> bool:
    """Return whether a builder is open in this thread."""
    return bool(_stack())


def _stack() -> list[Builder]:
    try:
        stack: list[Builder] = _thread.stack
    except AttributeError:
        stack = _thread.stack = []
    return stack


def current() -> Builder:
    """Return the innermost open builder of this thread."""
    stack = _stack()
    if not stack:
        raise LeakedTraceError(
            "A traced value was used after its trace ended.",
            hint="Return the value from the traced function instead of storing it outside.",
        )
    return stack[-1]


class Builder:
    """Collects equations.

    A variable of an outer open builder that is used as an operand becomes an extra input of this one (`captured`), so
    that transforms nest without levels.
    """

    def __init__(self) -> None:
        self.inputs: list[Var] = []
        self.consts: list[tuple[Var, np.ndarray[Any, Any]]] = []
        self.eqns: list[Eqn] = []
        self.makers: dict[Atom, Eqn] = {}
        self.sizes: dict[tuple[str, Poly], SizeGuard] = {}
        self.guards: list[ValueGuard] = []
        self.captured: dict[Var, Var] = {}
        self._known: dict[int, tuple[Var, np.ndarray[Any, Any]]] = {}  # by id of the array
        self._kept: list[np.ndarray[Any, Any]] = []  # alive, so that these ids stay unique
        self._owned: set[Var] = set()
        self._source: Source | None = None
        self._outer: tuple[Builder, ...] = ()

    def __enter__(self) -> Builder:
        self._outer = tuple(_stack())
        _stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        popped = _stack().pop()
        if popped is not self:
            raise InternalError("Builders were closed out of order.")

    @contextmanager
    def at(self, source: Source | None) -> Iterator[None]:
        """Give the equations appended inside this source instead of the caller's line."""
        saved, self._source = self._source, source
        try:
            yield
        finally:
            self._source = saved

    def source(self) -> Source | None:
        return self._source or here()

    def input(self, aval: Aval, name: str = "") -> Var:
        var = Var(aval, name)
        self.inputs.append(var)
        self._owned.add(var)
        return var

    def const(self, array: np.ndarray[Any, Any]) -> Var:
        """Return the variable of a constant array (the same array with the same contents gives the same variable)."""
        known = self._known.get(id(array))
        # Plain NumPy code may have written into the array since it was seen.
        if known is None or known[1].tobytes() != array.tobytes():
            frozen = array.copy()
            frozen.flags.writeable = False
            known = Var(Aval(array.shape, array.dtype)), frozen
            self._owned.add(known[0])
            self.consts.append(known)
            self._known[id(array)] = known
            self._kept.append(array)
        return known[0]

    def owns(self, atom: Atom) -> bool:
        return isinstance(atom, Lit) or atom in self._owned

    def resolve(self, atom: Atom) -> Atom:
        """Return ``atom`` as this builder knows it; a variable of an outer builder becomes an input."""
        if isinstance(atom, Lit) or atom in self._owned:
            return atom
        if atom not in self.captured:
            if not any(outer.reaches(atom) for outer in self._outer):
                raise LeakedTraceError(
                    "A traced value was used after its trace ended.",
                    where=self.source(),
                    hint="Return the value from the traced function instead of storing it outside.",
                )
            self.captured[atom] = self.input(atom.aval, atom.name)
        return self.captured[atom]

    def maker(self, atom: Atom) -> Eqn | None:
        """Return the equation behind ``atom``, also if it is from an outer builder."""
        made = self.origin(atom)
        return next((b.makers[made] for b in (self, *self._outer) if made in b.makers), None)

    def origin(self, atom: Atom) -> Atom:
        """Return ``atom`` as the builder knows it that made it, or takes it as an argument."""
        for builder in (self, *reversed(self._outer)):
            if atom in builder.makers:
                break
            atom = next((outer for outer, inner in builder.captured.items() if inner is atom), atom)
        return atom

    def reaches(self, atom: Atom) -> bool:
        return self.owns(atom)

    def append(
        self, op: Op, operands: Sequence[Atom], params: Mapping[str, Any], avals: Sequence[Aval]
    ) -> tuple[Var, ...]:
        """Append an equation and return its results."""
        results = tuple(Var(a) for a in avals)
        self._owned.update(results)
        eqn = Eqn(op, tuple(map(self.resolve, operands)), params, results, self.source())
        self.eqns.append(eqn)
        self.makers.update(dict.fromkeys(results, eqn))
        return results

    def decide(self, relation: str, size: Dim) -> bool:
        """Answer ``size relation 0`` (``==`` or ``>=``) from the extents of the traced call.

        An answer that is not proved becomes a guard.  A true equality restarts the trace with equal sizes (`Unify`).
        Of sizes that are known only while the tape runs, answers must be proved (`Undecided`).
        """
        if any(s.local for s in dims.symbols(size)):
            return self._prove(relation, size)
        value = dims.hint(size)
        answer = {"==": value == 0, ">=": value >= 0}[relation]
        if isinstance(size, int) or _proved(relation, size, answer):
            return answer
        if relation == "==" and answer:
            raise Unify(size)
        guard = relation if answer else {"==": "!=", ">=": "<"}[relation]
        self.sizes.setdefault((guard, size), SizeGuard(guard, size, self.source()))
        return answer

    def _prove(self, relation: str, size: Dim) -> bool:
        assert isinstance(size, Poly)
        for answer in (True, False):
            if _proved(relation, size, answer):
                return answer
        ends = dims.extremes(size)
        if ends is None or any(s.local for e in ends for s in dims.symbols(e)):
            raise Undecided(relation, size)
        return self._by_ends(relation, size, ends)

    def _by_ends(self, relation: str, size: Dim, ends: Sequence[Dim]) -> bool:
        """Answer for all iterations from the extents of the traced call, guarded."""
        hints = [dims.hint(e) for e in ends]
        strict = relation == "=="
        if min(hints) >= strict:
            answers = [self.decide(">=", e - strict) for e in ends]  # each of them is a guard
            return all(answers) != strict
        if max(hints) < 0:
            answers = [self.decide(">=", e) for e in ends]
            return any(answers)
        raise Undecided(relation, size)

    def pin(self, size: Dim) -> int:
        """Return the extent as a plain int; the trace then holds for this extent only."""
        value = dims.hint(size)
        self.decide("==", size - value)
        return value

    def finish(self, outputs: Sequence[Atom]) -> Tape:
        # First: an output may be a variable that is captured only now, and then is an input.
        resolved = tuple(map(self.resolve, outputs))
        return Tape(
            tuple(self.inputs),
            tuple(self.consts),
            tuple(self.eqns),
            resolved,
            tuple(self.sizes.values()),
            tuple(self.guards),
        )


def _proved(relation: str, size: Poly, answer: bool) -> bool:
    low, high = dims.lower_bound(size), dims.lower_bound(-size)
    positive = low is not None and low > 0
    negative = high is not None and high > 0
    if relation == "==":
        return not answer and (positive or negative)
    return (answer and low is not None and low >= 0) or (not answer and negative)


def input_symbols(tape: Tape) -> dict[Symbol, tuple[int, int]]:
    """Return where each size symbol can be read off: symbol -> (input number, axis)."""
    found: dict[Symbol, tuple[int, int]] = {}
    for number, var in enumerate(tape.inputs):
        for axis, dim in enumerate(var.shape):
            symbol = dims.as_symbol(dim)
            if symbol is not None:
                found.setdefault(symbol, (number, axis))
    return found
