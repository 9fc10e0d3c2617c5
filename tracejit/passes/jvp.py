"""Forward mode: tape -> tape that also pushes tangents forward."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.tape import Atom, Lit, Tape, Var, current
from tracejit.ops.base import Maybe
from tracejit.passes.replay import Environment, replay_equation

__all__ = ["jvp"]


def jvp(tape: Tape, args: Sequence[Atom], tangents: Sequence[Maybe]) -> tuple[tuple[Atom, ...], tuple[Maybe, ...]]:
    """Append ``tape`` and its derivative along ``tangents`` to the current builder.

    Parameters
    ----------
    tape : Tape
    args : sequence of atoms
        One per input.
    tangents : sequence of atom or None
        One per input, with the input's shape and dtype; None for zero.

    Returns
    -------
    outputs, tangents
        Atoms of the current builder; an absent output tangent is None.
    """
    builder, env = current(), Environment(tape, args)
    known: dict[Var, Atom] = {v: t for v, t in zip(tape.inputs, tangents, strict=True) if t is not None}
    tainted: set[Var] = set()
    for eqn in tape.eqns:
        results = replay_equation(eqn, env, builder)
        inward = [known.get(a) if isinstance(a, Var) else None for a in eqn.operands]
        if all(t is None for t in inward) or not any(v.aval.inexact for v in eqn.results):
            continue
        absorb = any(a in tainted for a in eqn.operands if isinstance(a, Var))
        operands = [env.read(a) for a in eqn.operands]
        with builder.at(eqn.source):
            taints = eqn.op.may_taint(operands)
            outward = eqn.op.jvp(inward, operands, results, absorb, **eqn.params)
        for var, tangent in zip(eqn.results, outward, strict=True):
            if tangent is not None and var.aval.inexact:
                known[var] = tangent
                if absorb or taints:
                    tainted.add(var)
    env.copy_guards(tape, builder)
    outputs = tuple(env.read(a) for a in tape.outputs)
    return outputs, tuple(None if isinstance(a, Lit) else known.get(a) for a in tape.outputs)
