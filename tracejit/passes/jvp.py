"""Forward mode: tape -> tape that also pushes tangents forward."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.tape import Atom, Eqn, Lit, Tape, Var, current
from tracejit.ops.base import Maybe
from tracejit.ops.region import Region
from tracejit.passes.activity import may_taint
from tracejit.passes.region_jvp import push_region
from tracejit.passes.replay import Environment, replay_equation

__all__ = ["jvp"]


Pushed = tuple[tuple[Atom, ...], tuple[Maybe, ...]]


def jvp(tape: Tape, args: Sequence[Atom], tangents: Sequence[Maybe]) -> Pushed:
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
    return _push(tape, args, tangents, False)


def _push(tape: Tape, args: Sequence[Atom], tangents: Sequence[Maybe], absorb: bool) -> Pushed:
    """The same, where ``absorb`` says that the tangents may hold exact zeros."""
    builder, env = current(), Environment(tape, args)
    known: dict[Var, Atom] = {v: t for v, t in zip(tape.inputs, tangents, strict=True) if t is not None}
    tainted: set[Var] = set(known) if absorb else set()
    for eqn in tape.eqns:
        inward = [known.get(a) if isinstance(a, Var) else None for a in eqn.operands]
        if all(t is None for t in inward) or not any(v.aval.inexact for v in eqn.results):
            replay_equation(eqn, env, builder)
            continue
        taint = any(a in tainted for a in eqn.operands if isinstance(a, Var))
        outward, taint = _step(eqn, env, inward, taint)
        for var, tangent in zip(eqn.results, outward, strict=True):
            if tangent is not None and var.aval.inexact:
                known[var] = tangent
                if taint:
                    tainted.add(var)
    env.copy_guards(tape, builder)
    outputs = tuple(env.read(a) for a in tape.outputs)
    return outputs, tuple(None if isinstance(a, Lit) else known.get(a) for a in tape.outputs)


def _step(eqn: Eqn, env: Environment, inward: Sequence[Maybe], absorb: bool) -> tuple[Sequence[Maybe], bool]:
    """Append one equation and its derivative; return its results' tangents, and if they may hold zeros."""
    builder = current()
    operands = [env.read(a) for a in eqn.operands]
    taint = absorb or may_taint(eqn, operands)
    if isinstance(eqn.op, Region):
        with builder.at(eqn.source):
            results, outward = push_region(eqn, operands, inward, taint, _push)
        env.write(eqn.results, results)
        return outward, taint
    results = replay_equation(eqn, env, builder)
    with builder.at(eqn.source):
        return eqn.op.jvp(inward, operands, results, absorb, **eqn.params), taint
