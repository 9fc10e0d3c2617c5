"""Batching: tape -> tape that works on a leading axis of some of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Tape, Var, current
from tracejit.ops.region import Region
from tracejit.passes.region_vmap import batch_region, lane_by_lane, sizes_differ
from tracejit.passes.replay import Environment, replay_equation

__all__ = ["vmap"]

Batched = tuple[tuple[Atom, ...], tuple[bool, ...]]


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
    if sizes_differ(tape, batched):
        return lane_by_lane(tape, args, batched, size)
    builder, env = current(), Environment(tape, args)
    lifted: set[Var] = {v for v, b in zip(tape.inputs, batched, strict=True) if b}
    for eqn in tape.eqns:
        flags = [a in lifted for a in eqn.operands]
        if not any(flags):
            replay_equation(eqn, env, builder)
            continue
        operands = [env.read(a) for a in eqn.operands]
        with builder.at(eqn.source):
            out, outward = _step(eqn, operands, flags, size)
        env.write(eqn.results, out)
        lifted.update(v for v, flag in zip(eqn.results, outward, strict=True) if flag)
    env.copy_guards(tape, builder)
    return tuple(env.read(a) for a in tape.outputs), tuple(a in lifted for a in tape.outputs)


def _step(eqn: Eqn, operands: Sequence[Atom], flags: Sequence[bool], size: Dim) -> Batched:
    if isinstance(eqn.op, Region):
        return batch_region(eqn, operands, flags, size, vmap)
    out = eqn.op.batch(size, operands, flags, **eqn.params)
    results = out if isinstance(out, tuple) else (out,)
    return results, (True,) * len(results)
