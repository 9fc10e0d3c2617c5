"""Common subexpressions: equal operations on equal operands are computed once."""

from __future__ import annotations

from collections.abc import Hashable

from tracejit.ir.tape import Atom, Eqn, Lit, Tape, ValueGuard

__all__ = ["merge_common"]


def merge_common(tape: Tape) -> Tape:
    """Return ``tape`` with each expression computed once."""
    names: dict[Atom, Atom] = {}
    first: dict[Hashable, Eqn] = {}
    kept: list[Eqn] = []

    def rename(atom: Atom) -> Atom:
        return names.get(atom, atom)

    for eqn in tape.eqns:
        operands = tuple(map(rename, eqn.operands))
        key = (
            eqn.op,
            tuple(map(_key, operands)),
            tuple(sorted(eqn.params.items(), key=lambda item: item[0])),
        )
        same = first.setdefault(key, eqn)
        if same is not eqn:
            names.update(zip(eqn.results, same.results, strict=True))
        else:
            kept.append(Eqn(eqn.op, operands, eqn.params, eqn.results, eqn.source))
    guards = tuple(ValueGuard(rename(g.var), g.expected, g.source) for g in tape.guards)
    return Tape(tape.inputs, tape.consts, tuple(kept), tuple(map(rename, tape.outputs)), tape.sizes, guards)


def _key(atom: Atom) -> Hashable:
    return (atom.dtype.char, atom.value.tobytes()) if isinstance(atom, Lit) else atom
