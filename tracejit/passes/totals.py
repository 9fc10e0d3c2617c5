"""Sums of cotangents, kept so that what belongs to a part of an array is added in place to that part.

The transpose of reading a slice is an array of zeros with a cotangent in it.  Summing such arrays would cost
the whole array per read; instead the first is taken as it is and the others are added into it (`slice_add`,
`scatter_add`).
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.ir.tape import Atom, Builder, Eqn, Lit, Var
from tracejit.ops.base import Maybe
from tracejit.ops.broadcasting import broadcast
from tracejit.ops.elementwise import add
from tracejit.ops.indexing import scatter_add
from tracejit.ops.joining import slice_add
from tracejit.ops.linear import embed

__all__ = ["Totals"]

Into = Callable[[Atom], Atom]


class Totals:
    """The cotangent of each variable so far; ``None`` for none.

    ``in_place`` is for bodies: outside of loops, sums of arrays of zeros fuse into one pass over memory.
    """

    def __init__(self, builder: Builder, in_place: bool) -> None:
        self._builder, self._in_place = builder, in_place
        self._dense: dict[Var, Atom] = {}
        self._parts: dict[Var, list[tuple[Atom, Into]]] = {}

    def get(self, var: Atom) -> Maybe:
        """Return the sum."""
        if isinstance(var, Lit):
            return None
        for term, into in self._parts.pop(var, ()):
            total = self._dense.get(var)
            self._dense[var] = term if total is None else into(total)
        return self._dense.get(var)

    def replace(self, var: Var, total: Atom) -> None:
        """Set the sum to one that contains all so far."""
        assert var not in self._parts
        self._dense[var] = total

    def add(self, var: Var, term: Atom) -> None:
        into = _placement(term, self._builder) if self._in_place else None
        if into is not None:
            self._parts.setdefault(var, []).append((term, into))
            return
        total = self._dense.get(var)
        self._dense[var] = term if total is None else add(total, term)


def _placement(term: Atom, builder: Builder) -> Into | None:
    """Return how to add ``term`` to a sum in place, if it is zero but for a part."""
    made = _maker(term, builder)
    if made is None:
        return None
    if made.op is embed:
        how = {k: made.params[k] for k in ("start", "step")}
        return lambda total: slice_add(total, made.operands[0], **how)
    if made.op is scatter_add and _is_zero(made.operands[0], builder):
        return lambda total: scatter_add(total, *made.operands[1:], **made.params)
    return None


def _maker(atom: Atom, builder: Builder, within: int = 8) -> Eqn | None:
    """Return the equation behind ``atom`` if it is one of the last."""
    return next((e for e in builder.eqns[-within:] if any(v is atom for v in e.results)), None)


def _is_zero(atom: Atom, builder: Builder) -> bool:
    made = _maker(atom, builder)
    if made is None or made.op is not broadcast:
        return False
    (value,) = made.operands
    return isinstance(value, Lit) and value.is_value(0)
