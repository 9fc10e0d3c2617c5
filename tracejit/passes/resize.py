"""A tape with other sizes: symbols replaced in shapes and parameters, in bodies too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Poly, Symbol
from tracejit.ir.tape import Atom, Eqn, Lit, Tape, Var

__all__ = ["resized"]


def resized(tape: Tape, mapping: Mapping[Symbol, Dim]) -> Tape:
    """Return ``tape`` (a body: without constants and guards) with symbols replaced by sizes."""
    names: dict[Var, Var] = {}

    def var(old: Var) -> Var:
        shape = tuple(dims.substitute(d, mapping) for d in old.shape)
        names[old] = Var(Aval(shape, old.dtype), old.name)
        return names[old]

    def atom(old: Atom) -> Atom:
        return old if isinstance(old, Lit) else names[old]

    inputs = tuple(map(var, tape.inputs))
    eqns = []
    for eqn in tape.eqns:
        params = {k: _value(v, mapping) for k, v in eqn.params.items()}
        eqns.append(
            Eqn(eqn.op, tuple(map(atom, eqn.operands)), params, tuple(map(var, eqn.results)), eqn.source)
        )
    return Tape(inputs, (), tuple(eqns), tuple(map(atom, tape.outputs)))


def _value(value: Any, mapping: Mapping[Symbol, Dim]) -> Any:
    if isinstance(value, Poly):
        return dims.substitute(value, mapping)
    if isinstance(value, tuple):
        return tuple(_value(v, mapping) for v in value)
    return resized(value, mapping) if isinstance(value, Tape) else value
