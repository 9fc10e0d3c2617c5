"""Batching: tape -> tape that works on a leading axis of some of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Tape, Var, current
from tracejit.passes.replay import Environment, replay_equation

__all__ = ["vmap"]


def vmap(
    tape: Tape, args: Sequence[Atom], batched: Sequence[bool], size: Dim
) -> tuple[tuple[Atom, ...], tuple[bool, ...]]:
    """Append the batched tape to the current builder.

    Parameters
    ----------
    tape : Tape
    args : sequence of atoms
        One per input; those that are ``batched`` have a leading axis of ``size``.
    batched : sequence of bool
    size : int or Poly

    Returns
    -------
    outputs : tuple of atoms
    batched : tuple of bool
        Which outputs have the leading axis.
    """
    builder, env = current(), Environment(tape, args)
    lifted: set[Var] = {v for v, b in zip(tape.inputs, batched, strict=True) if b}
    for eqn in tape.eqns:
        flags = [a in lifted for a in eqn.operands]
        if not any(flags):
            replay_equation(eqn, env, builder)
            continue
        operands = [env.read(a) for a in eqn.operands]
        with builder.at(eqn.source):
            out = eqn.op.batch(size, operands, flags, **eqn.params)
        env.write(eqn.results, out if isinstance(out, tuple) else (out,))
        lifted.update(eqn.results)
    env.copy_guards(tape, builder)
    return tuple(env.read(a) for a in tape.outputs), tuple(a in lifted for a in tape.outputs)
